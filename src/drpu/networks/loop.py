"""The training loop: networks of one architecture, trained together on batches of the same rows.

It also has what torch keeps for a whole process: the device, the precision and random numbers.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F  # noqa: N812
from torch.nn.modules.conv import _ConvNd

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_choice
from drpu._process import ObjectLock
from drpu._progress import progress, progress_bar
from drpu.exceptions import ParameterError
from drpu.models.risks import Risk
from drpu.networks.augment import Augment
from drpu.networks.function import BRIGHTEST

HALVE_EVERY = 20  # epochs between two halvings under decay="step", as in the paper
ALIGNED = 64  # on a GPU, parameters start at multiples of 256 bytes, which kernels require
SCORING_ROWS = 16_384  # rows times networks in one scoring call
SCORING_PIXELS = 2**22  # pixels in one scoring call on a GPU, about 4 GiB with 64 channels
# On a CPU, about 0.4 GiB with 64 channels in float64; more pixels are also slower.
CPU_PIXELS = 2**16
PRECISIONS = ("float32", "tf32", "bfloat16", "float64")
WARM_UP = 3  # ordinary steps before recording, in which libraries choose their kernels

# -- device, precision and random numbers ----------------------------------------------------------


def pick_device(device: Any) -> torch.device:
    """The device; ``auto`` is the GPU if torch finds one."""
    if isinstance(device, str) and device == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ParameterError(
            f"device must be 'auto' or a device that torch can use here, got {device!r}: {error}"
        ) from error


def weight_dtype(dtype: str) -> torch.dtype:
    """The type of the weights; the fast types only apply to products."""
    if check_choice("dtype", dtype, PRECISIONS) == "float64":
        return torch.float64
    return torch.float32


_SETTINGS = threading.RLock()  # for what torch has once for all threads


@contextmanager
def precision(dtype: str, device: torch.device) -> Iterator[None]:
    """Context in which matrix products and convolutions have the precision ``dtype`` on a GPU.

    On a CPU they have that of the weights: some processors report instructions for other types that
    end the process when they are used.
    """
    if device.type != "cuda":
        yield
        return
    as_bfloat16 = torch.autocast(
        "cuda", torch.bfloat16, enabled=dtype == "bfloat16", cache_enabled=False
    )
    with _SETTINGS, as_bfloat16:
        cudnn = torch.backends.cudnn
        products_before = torch.get_float32_matmul_precision()
        tf32_before = cudnn.allow_tf32
        benchmark_before = cudnn.benchmark
        if dtype == "tf32":
            torch.set_float32_matmul_precision("high")
        cudnn.allow_tf32 = dtype == "tf32"
        # shapes do not change within a run, so benchmarking all algorithms once is worthwhile
        cudnn.benchmark = True
        try:
            yield
        finally:
            cudnn.allow_tf32 = tf32_before
            cudnn.benchmark = benchmark_before
            torch.set_float32_matmul_precision(products_before)


@contextmanager
def private_random(seed: int, device: torch.device) -> Iterator[None]:
    """Context in which the global generators of torch are seeded; they are restored afterwards.

    One thread at a time is inside: fits in other threads would draw from the same generators.
    """
    gpus = [device] if device.type == "cuda" else []
    with _SETTINGS, torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


_DTYPES: list[torch.dtype] = []  # the default of the process, once for each call that runs now
_DTYPES_LOCK = ObjectLock()


@contextmanager
def own_defaults() -> Iterator[None]:
    """Context with torch's initial defaults, whatever the process has set.

    These are float32, the CPU, and tensors that can be trained.
    """
    with ExitStack() as defaults:
        if torch.is_inference_mode_enabled():
            defaults.enter_context(torch.inference_mode(False))
        defaults.enter_context(torch.enable_grad())
        if torch.get_default_device().type != "cpu":
            defaults.enter_context(torch.device("cpu"))
        if _DTYPES or torch.get_default_dtype() != torch.float32:
            defaults.enter_context(_float32())
        yield


@contextmanager
def _float32() -> Iterator[None]:
    """The default type is one of the process: the last of the calls that overlap restores it."""
    with _DTYPES_LOCK:
        _DTYPES.append(_DTYPES[0] if _DTYPES else torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        with _DTYPES_LOCK:
            before = _DTYPES.pop()
            if not _DTYPES:
                torch.set_default_dtype(before)


# -- rows and batches ------------------------------------------------------------------------------


def as_tensor(rows: Rows) -> Tensor:
    """Rows as a tensor, without a copy if torch can share them: not if read-only or reversed."""
    can_share = rows.flags.writeable and min(rows.strides, default=0) >= 0
    if not can_share:
        rows = rows.copy()
    return torch.as_tensor(rows)


def as_floats(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Input of networks: 8-bit pixels divided by 255, other numbers unchanged."""
    if rows.dtype == torch.uint8:
        return rows.to(dtype) / BRIGHTEST
    return rows.to(dtype)


@dataclass(frozen=True)
class Pool:
    """Rows on the device, with weights or without.

    Images of eight bits become floats batch by batch.
    """

    rows: Tensor
    weight: Tensor | None = None
    dtype: torch.dtype = torch.float32

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Tensor) -> Tensor:
        """Rows at ``positions``, which have one line per network."""
        rows = self.rows.index_select(0, positions.flatten())
        return as_floats(rows, self.dtype).view(*positions.shape, *self.rows.shape[1:])

    def take_weight(self, positions: Tensor) -> Tensor | None:
        """Weights at ``positions``, or None if the rows have none."""
        if self.weight is None:
            return None
        return self.weight[positions]


class TrainingBatch(NamedTuple):
    """Rows of one step, of shape (networks, batch, ...), with their weights."""

    positive: Tensor
    unlabeled: Tensor
    positive_weight: Tensor | None = None
    unlabeled_weight: Tensor | None = None

    def changed(self, change: Callable[[Tensor], Tensor]) -> TrainingBatch:
        """The batch with its rows changed by a function of rows without the axis of networks."""
        positive = _changed(self.positive, change)
        return self._replace(positive=positive, unlabeled=_changed(self.unlabeled, change))


def _changed(rows: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    return change(rows.flatten(0, 1)).view(rows.shape)


@dataclass(frozen=True)
class TrainingRows:
    """The rows of both samples."""

    positive: Pool
    unlabeled: Pool

    def epoch(
        self, n_steps: int, generators: Sequence[torch.Generator]
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions of the positive and of the unlabeled rows of each step, (networks, batch) each.

        Each row of both samples is used exactly once, in ``n_steps`` parts whose sizes differ by
        at most one row. A sample with fewer rows than steps is repeated, one row per step. Each
        network has its own generator, so its batches do not depend on the others.
        """
        positive = shuffled_parts(len(self.positive), n_steps, generators)
        unlabeled = shuffled_parts(len(self.unlabeled), n_steps, generators)
        return zip(positive, unlabeled, strict=True)

    def batch(self, positive: Tensor, unlabeled: Tensor) -> TrainingBatch:
        """The rows at these positions."""
        return TrainingBatch(
            self.positive.take(positive),
            self.unlabeled.take(unlabeled),
            self.positive.take_weight(positive),
            self.unlabeled.take_weight(unlabeled),
        )


def count_steps(n_unlabeled: int, batch_size: int) -> int:
    """Steps in an epoch: as many full unlabeled batches as there are."""
    return max(1, n_unlabeled // batch_size)


def shuffled_parts(
    n: int, n_steps: int, generators: Sequence[torch.Generator]
) -> tuple[Tensor, ...]:
    """Positions 0 to n - 1 in random order, a line for each generator, in a part for each step."""
    lines = []
    for generator in generators:
        turns = []  # several if there are more steps than rows, of which each takes one
        for _ in range(-(-n_steps // n)):
            turns.append(torch.randperm(n, generator=generator, device=generator.device))
        lines.append(torch.cat(turns)[: max(n, n_steps)])
    return torch.stack(lines).tensor_split(n_steps, dim=1)


# -- settings --------------------------------------------------------------------------------------

Forward: TypeAlias = Callable[[Tensor], Tensor]
# The risk of a step, one number per network.
Loss: TypeAlias = Callable[[Forward, TrainingBatch], Risk]
# From outputs of both samples and their weights, (networks, n) each, to the number that chooses the
# epoch.
Criterion: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(frozen=True, slots=True)
class Aim:
    """What a run minimises, and the criterion by which an epoch is chosen."""

    loss: Loss
    criterion: Criterion


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run.

    ``augment`` changes the rows of training batches at random, not those that are scored.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    decay: str = "cosine"
    ema: float | None = 0.99
    early_stopping: bool = True
    dtype: str = "float32"
    verbose: int = 0
    augment: Augment | None = None


def rate_factors(decay: str, epochs: int, steps: int) -> FloatArray:
    """Factor of the learning rate in each step of a run."""
    step = np.arange(epochs * steps)
    match decay:
        case "cosine":
            return 0.5 * (1 + np.cos(math.pi * step / step.size))
        case "step":
            return np.asarray(0.5 ** (step // (steps * HALVE_EVERY)), dtype=np.float64)
        case _:
            return np.ones(step.size)


def rows_at_once(shape: Sequence[int], device: torch.device) -> int:
    """Number of rows of a shape to score in one call."""
    if len(shape) == 1:
        return SCORING_ROWS
    pixels = max(1, math.prod(shape[-2:]))
    if device.type != "cpu":
        return max(16, min(SCORING_ROWS // 4, SCORING_PIXELS // pixels))
    return max(1, min(SCORING_ROWS, CPU_PIXELS // pixels))


# -- networks --------------------------------------------------------------------------------------


class Stack:
    """Networks of one architecture, evaluated together.

    The trainable weights are one matrix with one line per network. Other registered tensors
    (batch-norm statistics, frozen weights) are stacked by name.

    ``batched``: Whether all networks are evaluated in one batched call. It is False for a single
    network, for modules that cannot be batched (recurrent ones), and for convolutions, because
    grouped convolutions are slower than separate calls.
    """

    def __init__(
        self,
        modules: Sequence[nn.Module],
        *,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        copies = [deepcopy(module).to(device=device, dtype=dtype) for module in modules]
        self.device = device
        self.dtype = dtype
        # A call may leave its tensors in a layer that has two names; modules are made from the
        # original.
        self.original = copies[0]
        self.module = deepcopy(self.original)
        self.shapes = _trainable(self.module)
        for copy in copies[1:]:
            if type(copy) is not type(self.module) or _trainable(copy) != self.shapes:
                raise ParameterError("models must have one architecture to be trained together.")
        if not self.shapes:
            raise ParameterError(
                "module must have weights to train, got none that require a gradient."
            )

        self.weights = torch.stack([self._flat(copy) for copy in copies])
        self.slopes = torch.zeros_like(self.weights)  # their gradient
        self._slope_parts = list(self._named(self.slopes).values())
        # leaves for autograd: one per parameter, views of the matrix
        self.leaves = self._named(self.weights)
        for name, part in self.leaves.items():
            self.leaves[name] = part.detach().requires_grad_()
        self.fixed = self._stacked_others(copies)
        convolves = any(isinstance(layer, _ConvNd) for layer in self.module.modules())
        self.batched = len(copies) > 1 and not convolves

    def __len__(self) -> int:
        return self.weights.shape[0]

    def __call__(
        self,
        rows: Tensor,
        weights: Tensor | None = None,
        fixed: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Outputs of shape (networks, n) for rows of shape (networks, n, ...)."""
        named = dict(self.leaves) if weights is None else self._named(weights)
        named.update(self.fixed if fixed is None else fixed)
        output = self._outputs(named, rows)
        n = rows.shape[1]
        if output.shape not in ((len(self), n), (len(self), n, 1)):
            raise ParameterError(
                f"module must map {n} rows to shape ({n},) or ({n}, 1), got "
                f"{tuple(output.shape[1:])}: its last layer needs one output."
            )
        return output.reshape(len(self), n)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradient of ``loss`` into ``slopes``."""
        gradients = torch.autograd.grad(
            loss, list(self.leaves.values()), allow_unused=True, materialize_grads=True
        )
        with torch.no_grad():  # the parts are views
            torch._foreach_copy_(self._slope_parts, list(gradients))

    def probe(self, rows: Tensor) -> None:
        """Test on a few rows whether the networks can be batched."""
        if not self.batched:
            return
        self.module.eval()
        try:
            with torch.no_grad():
                self(rows)
        # messages of vmap for unsupported operations; other errors will be raised again
        except (RuntimeError, ValueError):
            self.batched = False

    def extract(self, network: int, weights: Tensor, fixed: Mapping[str, Tensor]) -> nn.Module:
        """One network as a separate module in evaluation mode."""
        module = deepcopy(self.original).eval()
        stacked = self._named(weights) | dict(fixed)
        with torch.no_grad():
            for name, tensor in _tensors(module):
                tensor.copy_(stacked[name][network])
        return module

    def _outputs(self, named: dict[str, Tensor], rows: Tensor) -> Tensor:
        """Outputs of all networks, from their stacked tensors by name."""
        if self.batched:
            return vmap(self._call, randomness="different")(named, rows)
        if len(self) == 1:  # views only, so that gradients need no copy
            single = {name: value.squeeze(0) for name, value in named.items()}
            return self._call(single, rows.squeeze(0))[None]
        lines = {name: value.unbind() for name, value in named.items()}
        outputs = []
        for i in range(len(self)):
            of_network = {name: parts[i] for name, parts in lines.items()}
            outputs.append(self._call(of_network, rows[i]))
        return torch.stack(outputs)

    def _call(self, named: dict[str, Tensor], rows: Tensor) -> Tensor:
        output: Tensor = functional_call(self.module, named, (rows,))
        return output

    def _flat(self, module: nn.Module) -> Tensor:
        """The trainable weights of a module as one line."""
        values = dict(module.named_parameters())
        lines = []
        for name in self.shapes:
            line = values[name].detach().flatten()
            lines.append(F.pad(line, (0, self._padded(line.numel()) - line.numel())))
        return torch.cat(lines)

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        """The parts of a matrix like ``weights``, by the name of the parameter."""
        sizes = [self._padded(shape.numel()) for shape in self.shapes.values()]
        named = {}
        for part, name in zip(torch.split(weights, sizes, dim=1), self.shapes, strict=True):
            shape = self.shapes[name]
            named[name] = part[:, : shape.numel()].view(len(weights), *shape)
        return named

    def _padded(self, n: int) -> int:
        """The numbers that a parameter of ``n`` numbers takes in a line."""
        if self.device.type != "cuda":
            return n
        return -(-n // ALIGNED) * ALIGNED

    def _stacked_others(self, modules: Sequence[nn.Module]) -> dict[str, Tensor]:
        """The tensors of the modules that are not trained, stacked by name."""
        tensors = [dict(_tensors(module)) for module in modules]
        stacked = {}
        for name in tensors[0]:
            if name not in self.shapes:
                stacked[name] = torch.stack([each[name].detach() for each in tensors])
        return stacked


def _trainable(module: nn.Module) -> dict[str, torch.Size]:
    """Shapes of the weights that require a gradient, by name."""
    named = module.named_parameters()
    return {name: weight.shape for name, weight in named if weight.requires_grad}


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


# -- runs ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chosen weights of every network, and the risks of the run.

    ``risk`` and ``holdout_risk`` have shape (epochs, networks); ``best_epoch`` counts from 1 and is
    0 if no epoch had a finite risk.
    """

    stack: Stack
    weights: Tensor
    fixed: Mapping[str, Tensor]
    best_epoch: IntArray
    risk: FloatArray
    holdout_risk: FloatArray | None

    def module(self, network: int) -> nn.Module:
        """One network, ready to score."""
        return self.stack.extract(network, self.weights, self.fixed)

    def history(self, network: int) -> dict[str, FloatArray]:
        """The risks of one network by epoch."""
        risks = {"risk": self.risk[:, network].copy()}
        if self.holdout_risk is not None:
            risks["holdout_risk"] = self.holdout_risk[:, network].copy()
        return risks

    def converged(self, network: int) -> bool:
        """Whether weights and holdout risk of a network are finite at the epoch that was kept."""
        if self.holdout_risk is not None:
            epoch = int(self.best_epoch[network])
            if epoch == 0 or not np.isfinite(self.holdout_risk[epoch - 1, network]):
                return False
        return bool(torch.isfinite(self.weights[network]).all())


class Recorded:
    """A training step, recorded as a CUDA graph for each batch shape and replayed.

    The first few calls of a shape are ordinary steps. The recorded step reads positions from
    its own tensors and changes tensors in place. Without a GPU, or if a module cannot be
    recorded, all steps are ordinary.
    """

    def __init__(self, step: Callable[[Tensor, Tensor], None], device: torch.device) -> None:
        self.step = step
        self.device = device
        self.enabled = device.type == "cuda"
        self.calls: Counter[tuple[int, int]] = Counter()
        self.graphs: dict[tuple[int, int], tuple[Any, Tensor, Tensor]] = {}
        self.side: torch.cuda.Stream | None = None
        if self.enabled:
            self.side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, positive: Tensor, unlabeled: Tensor) -> None:
        """Make one step on the batch at these positions."""
        shape = (positive.shape[1], unlabeled.shape[1])
        self.calls[shape] += 1
        if self.enabled and self.calls[shape] == WARM_UP + 1:
            self._record(shape, positive, unlabeled)
        if shape not in self.graphs:
            self._plain(positive, unlabeled)
            return
        graph, static_positive, static_unlabeled = self.graphs[shape]
        static_positive.copy_(positive)
        static_unlabeled.copy_(unlabeled)
        graph.replay()

    def _plain(self, positive: Tensor, unlabeled: Tensor) -> None:
        if self.side is None:
            self.step(positive, unlabeled)
            return
        # libraries must be initialised outside the main stream before recording
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self.step(positive, unlabeled)
        torch.cuda.current_stream(self.device).wait_stream(self.side)

    def _record(self, shape: tuple[int, int], positive: Tensor, unlabeled: Tensor) -> None:
        static_positive = positive.clone()
        static_unlabeled = unlabeled.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step(static_positive, static_unlabeled)
        except RuntimeError:
            # a module that synchronises with the host can be trained, but not recorded
            torch.cuda.synchronize(self.device)
            self.enabled = False
            self.graphs.clear()
        else:
            self.graphs[shape] = (graph, static_positive, static_unlabeled)


class Training:
    """A training run.

    The batches of a network depend on its own seed only. The criterion is computed on the holdout
    rows after each epoch; if the settings ask for early stopping, the epoch with the lowest one is
    kept. ``on_epoch`` is called after each epoch with its number, which starts at 1.
    """

    def __init__(
        self,
        stack: Stack,
        rows: TrainingRows,
        aim: Aim,
        settings: Settings,
        *,
        seeds: Sequence[int],
        holdout: tuple[Pool, Pool] | None = None,
    ) -> None:
        self.stack = stack
        self.rows = rows
        self.aim = aim
        self.settings = settings
        self.seeds = seeds
        self.holdout = holdout
        self.on_epoch: Callable[[int], None] | None = None
        self.n_steps = count_steps(len(rows.unlabeled), settings.batch_size)
        self.total_risk = torch.zeros(len(stack), dtype=stack.dtype, device=stack.device)
        self.average = None if settings.ema is None else _Average(stack)
        # The values of a step are written to tensors, from which a recorded step reads them.
        self.rate = torch.zeros((), dtype=stack.dtype, device=stack.device)
        factors = rate_factors(settings.decay, settings.epochs, self.n_steps)
        self.rates = (self._numbers(settings.learning_rate) * self._numbers(factors)).tolist()
        # Shares of the new weights in their average: more of them in the first steps, because
        # otherwise the average of a short run would stay close to the initial weights.
        step = np.arange(1, self.n_steps * settings.epochs + 1)
        decay = np.minimum(settings.ema or 0.0, (1 + step) / (10 + step))
        self.shares = (1 - self._numbers(decay)).tolist()
        self.optimizer = self._optimizer()

    def run(self) -> Outcome:
        """Train for all epochs and return the weights that were kept for each network."""
        settings = self.settings
        device = self.stack.device
        generators = [torch.Generator(device).manual_seed(seed) for seed in self.seeds]
        best = None
        if self.holdout and settings.early_stopping:
            best = _Best(self.stack)
        risks = []
        holdout_risks = []
        with (
            progress_bar("epochs", show=settings.verbose),
            private_random(self.seeds[0], device),
            precision(settings.dtype, device),
        ):
            first_rows = self._positions(self.rows.unlabeled)[:, :2]
            self.stack.probe(self.rows.unlabeled.take(first_rows))
            recorded_step = Recorded(self.step, device)
            for epoch in progress(range(settings.epochs), total=settings.epochs):
                risks.append(self._epoch(epoch, recorded_step, generators))
                if self.holdout:
                    holdout_risks.append(self.measure())
                if best:
                    best.keep(epoch + 1, holdout_risks[-1], *self.current())
                if self.on_epoch:
                    self.on_epoch(epoch + 1)
        return self._outcome(best, risks, holdout_risks)

    def _outcome(
        self, best: _Best | None, risks: list[Tensor], holdout_risks: list[Tensor]
    ) -> Outcome:
        if best is None:
            weights, fixed = self.current()
            best_epoch = np.full(len(self.stack), self.settings.epochs)
        else:
            weights = best.weights
            fixed = best.fixed
            best_epoch = best.epoch.cpu().numpy()
        risk = torch.stack(risks).cpu().double().numpy()
        holdout_risk = None
        if holdout_risks:
            holdout_risk = torch.stack(holdout_risks).cpu().double().numpy()
        return Outcome(self.stack, weights, fixed, best_epoch, risk, holdout_risk)

    def step(self, positive: Tensor, unlabeled: Tensor) -> None:
        """Make one step on the batch at these positions, without waiting for the device."""
        batch = self.batch(positive, unlabeled)
        risk = self.aim.loss(self._forward, batch)
        self.stack.backward(risk.objective.sum())
        self.optimizer.step()
        if self.average:
            self.average.update()
        self.total_risk += risk.value.detach()

    def batch(self, positive: Tensor, unlabeled: Tensor) -> TrainingBatch:
        """The rows at these positions, as they are trained on."""
        batch = self.rows.batch(positive, unlabeled)
        if self.settings.augment is not None:
            batch = batch.changed(self.settings.augment)
        return batch

    def measure(self) -> Tensor:
        """The criterion on the holdout rows, one value per network."""
        assert self.holdout is not None
        positive, unlabeled = self.holdout
        outputs = (self.score(positive), self.score(unlabeled))
        return self.aim.criterion(*outputs, positive.weight, unlabeled.weight)

    @torch.no_grad()
    def score(self, pool: Pool) -> Tensor:
        """Outputs of the current networks in float64, shape (networks, rows)."""
        self.stack.module.eval()
        at_once = rows_at_once(pool.rows.shape[1:], self.stack.device) // len(self.stack)
        outputs = []
        for positions in torch.split(self._positions(pool), max(1, at_once), dim=1):
            outputs.append(self.stack(pool.take(positions), *self.current()).double())
        return torch.cat(outputs, dim=1)

    def current(self) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The weights for scoring: their moving average if there is one, else the current ones."""
        if self.average is not None:
            return self.average.weights, self.average.fixed
        return self.stack.weights, self.stack.fixed

    def _forward(self, rows: Tensor) -> Tensor:
        return self.stack(rows).to(self.stack.dtype)

    def _epoch(self, epoch: int, step: Recorded, generators: Sequence[torch.Generator]) -> Tensor:
        """Train on both samples once.

        Returns the mean reported risk of each network, as a tensor on the device.
        """
        self.stack.module.train()
        self.total_risk.zero_()
        batches = self.rows.epoch(self.n_steps, generators)
        for number, (positive, unlabeled) in enumerate(batches, epoch * self.n_steps):
            self.rate.fill_(self.rates[number])
            if self.average:
                self.average.share.fill_(self.shares[number])
            step(positive, unlabeled)
        return self.total_risk / self.n_steps

    def _optimizer(self) -> torch.optim.Optimizer:
        settings = self.settings
        lines = [line.detach() for line in self.stack.weights]
        for line, slope in zip(lines, self.stack.slopes, strict=True):
            line.grad = slope
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        return kind(
            lines,
            lr=self.rate,
            betas=settings.betas,
            weight_decay=self._numbers(settings.weight_decay).item(),
            fused=True,
            capturable=self.stack.device.type == "cuda",
        )

    def _numbers(self, values: float | FloatArray) -> Tensor:
        return torch.as_tensor(values, dtype=self.stack.dtype)

    def _positions(self, pool: Pool) -> Tensor:
        return torch.arange(len(pool), device=self.stack.device).expand(len(self.stack), -1)


class _Average:
    """Exponential moving average of weights and statistics.

    ``share`` is the part of the new ones.
    """

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.weights = stack.weights.clone()
        self.fixed = {name: value.clone() for name, value in stack.fixed.items()}
        self.share = torch.zeros(1, dtype=stack.dtype, device=stack.device)

    @torch.no_grad()
    def update(self) -> None:
        self.weights.lerp_(self.stack.weights, self.share)
        for name, value in self.fixed.items():
            if value.is_floating_point():
                value.lerp_(self.stack.fixed[name], self.share)
            else:
                value.copy_(self.stack.fixed[name])


class _Best:
    """The weights of each network at its lowest risk so far, chosen on the device."""

    def __init__(self, stack: Stack) -> None:
        self.risk = torch.full((len(stack),), torch.inf, dtype=torch.float64, device=stack.device)
        self.epoch = torch.zeros(len(stack), dtype=torch.int64, device=stack.device)
        self.weights = stack.weights.clone()
        self.fixed = {name: value.clone() for name, value in stack.fixed.items()}

    def keep(self, epoch: int, risk: Tensor, weights: Tensor, fixed: Mapping[str, Tensor]) -> None:
        """Replace the weights of the networks whose risk is lower than before."""
        better = risk < self.risk
        self.risk = torch.where(better, risk, self.risk)
        self.epoch = torch.where(better, epoch, self.epoch)
        self.weights = torch.where(better[:, None], weights, self.weights)
        for name, value in fixed.items():
            chosen = better.view(-1, *[1] * (value.ndim - 1))
            self.fixed[name] = torch.where(chosen, value, self.fixed[name])
