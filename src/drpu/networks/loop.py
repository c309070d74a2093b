"""The training loop: networks of one architecture, trained together on batches of the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F  # noqa: N812
from torch.nn.modules.conv import _ConvNd

from drpu._progress import progress, progress_bar
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import ParameterError
from drpu.models.bregman import Risk
from drpu.networks.augment import Augment
from drpu.networks.device import Recorded, precision, private_random
from drpu.networks.function import BRIGHTEST

HALVE_EVERY = 20  # epochs between two halvings under decay="step", as in the paper
ALIGNED = 64  # on a GPU, parameters start at multiples of 256 bytes, which kernels require
SCORING_ROWS = 16_384  # rows times networks in one scoring call
SCORING_PIXELS = 2**22  # pixels in one scoring call on a GPU, about 4 GiB with 64 channels
CPU_PIXELS = 2**16  # on a CPU, about 0.4 GiB with 64 channels in float64; more pixels are also slower


# -- rows and batches ----------------------------------------------------------------------------------


def as_tensor(rows: Rows) -> Tensor:
    """Rows as a tensor, without a copy except of arrays that torch does not share: read-only, reversed."""
    shared = rows.flags.writeable and min(rows.strides, default=0) >= 0
    return torch.as_tensor(rows if shared else rows.copy())


def as_floats(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """Input of networks: 8-bit pixels divided by 255, other numbers unchanged."""
    return rows.to(dtype) / BRIGHTEST if rows.dtype == torch.uint8 else rows.to(dtype)


@dataclass(frozen=True)
class Pool:
    """Rows on the device with their weights, or without; 8-bit images become floats batch by batch."""

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
        return None if self.weight is None else self.weight[positions]


class Batch(NamedTuple):
    """Rows of one step, of shape (networks, batch, ...), with their weights.

    If each row belongs to both samples, ``positive`` and ``unlabeled`` are the same tensor.
    """

    positive: Tensor
    unlabeled: Tensor
    positive_weight: Tensor | None = None
    unlabeled_weight: Tensor | None = None

    @property
    def shared(self) -> bool:
        """Whether the samples are the same rows."""
        return self.positive is self.unlabeled

    def changed(self, change: Callable[[Tensor], Tensor]) -> Batch:
        """The batch with its rows changed by a function of rows without the axis of networks."""

        def each(rows: Tensor) -> Tensor:
            return change(rows.flatten(0, 1)).view(rows.shape)

        positive = each(self.positive)
        return self._replace(positive=positive, unlabeled=positive if self.shared else each(self.unlabeled))

    def mixed(self) -> Batch:
        """The batch with each row and its weights averaged with the row before it, in random shares.

        The share is close to 0 or 1 more often than in between: it follows an arcsine distribution. The
        samples have to be the same rows.
        """
        rows = self.unlabeled
        share = torch.sin(torch.rand(rows.shape[:2], device=rows.device) * (math.pi / 2)) ** 2

        def mix(values: Tensor) -> Tensor:
            own = share.to(values.dtype).view(*share.shape, *[1] * (values.ndim - 2))
            return own * values + (1 - own) * values.roll(1, dims=1)

        weights = [None if w is None else mix(w) for w in (self.positive_weight, self.unlabeled_weight)]
        both = mix(rows)
        return Batch(both, both, *weights)


@dataclass(frozen=True)
class TrainingRows:
    """The rows of both samples; if they are ``shared``, each row belongs to both and is taken once."""

    positive: Pool
    unlabeled: Pool
    shared: bool = False

    def epoch(self, n_steps: int, generators: Sequence[torch.Generator]) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions of the positive and of the unlabeled rows of each step, of shape (networks, batch).

        Each row of both samples is used exactly once, in ``n_steps`` parts whose sizes differ by at most
        one row. A sample with fewer rows than steps is repeated, one row per step. Each network has its
        own generator, so its batches do not depend on the others.
        """
        samples = [self.unlabeled] if self.shared else [self.positive, self.unlabeled]
        orders = [[_order(len(sample), n_steps, own) for own in generators] for sample in samples]
        parts = [torch.stack(order).tensor_split(n_steps, dim=1) for order in orders]
        return zip(parts[0], parts[-1], strict=True)

    def batch(self, positive: Tensor, unlabeled: Tensor) -> Batch:
        """The rows at these positions."""
        rows = self.unlabeled.take(unlabeled)
        return Batch(
            rows if self.shared else self.positive.take(positive),
            rows,
            self.positive.take_weight(positive),
            self.unlabeled.take_weight(unlabeled),
        )


def count_steps(n_unlabeled: int, batch_size: int) -> int:
    """Steps in an epoch: as many full unlabeled batches as there are."""
    return max(1, n_unlabeled // batch_size)


def _order(n: int, n_steps: int, generator: torch.Generator) -> Tensor:
    turns = -(-n_steps // n)
    orders = [torch.randperm(n, generator=generator, device=generator.device) for _ in range(turns)]
    return orders[0] if turns == 1 else torch.cat(orders)[:n_steps]


# -- networks ------------------------------------------------------------------------------------------

Forward: TypeAlias = Callable[[Tensor], Tensor]
# The risk of a step, one number per network.
Loss: TypeAlias = Callable[[Forward, Batch], Risk]
# From outputs of both samples and their weights, (networks, n) each, to the number that chooses the epoch.
Criterion: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run."""

    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    decay: str = "cosine"
    ema: float | None = None
    early_stopping: bool = True
    accumulate_gradients: bool = False
    mixup: bool = False
    dtype: str = "float32"
    verbose: int = 0


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


class Stack:
    """Networks of one architecture, evaluated together.

    The trainable weights are one matrix with one line per network. Other registered tensors (batch-norm
    statistics, frozen weights) are stacked by name.

    ``batched``: Whether all networks are evaluated in one batched call. It is False for a single network,
    for modules that cannot be batched (recurrent ones), and for convolutions, because grouped
    convolutions are slower than separate calls.
    """

    def __init__(
        self, modules: Sequence[nn.Module], *, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> None:
        copies = [deepcopy(module).to(device=device, dtype=dtype) for module in modules]
        # A call may leave its tensors in a layer that has two names; modules are made from the original.
        self.module, self.original, self.device, self.dtype = deepcopy(copies[0]), copies[0], device, dtype
        self.shapes = _trainable(self.module)
        if any(_trainable(copy) != self.shapes or type(copy) is not type(self.module) for copy in copies[1:]):
            raise ParameterError("models must have one architecture to be trained together.")
        if not self.shapes:
            raise ParameterError("module must have weights to train, got none that require a gradient.")
        self.weights = torch.stack([self._flat(copy) for copy in copies])
        self.slopes = torch.zeros_like(self.weights)  # their gradient
        self._slope_parts = list(self._named(self.slopes).values())
        # leaves for autograd: one per parameter, views of the matrix
        self.leaves = {
            name: part.detach().requires_grad_() for name, part in self._named(self.weights).items()
        }
        others = [
            {name: value.detach() for name, value in _tensors(copy) if name not in self.shapes}
            for copy in copies
        ]
        self.fixed = {name: torch.stack([other[name] for other in others]) for name in others[0]}
        convolves = any(isinstance(part, _ConvNd) for part in self.module.modules())
        self.batched = len(copies) > 1 and not convolves

    def __len__(self) -> int:
        return self.weights.shape[0]

    def __call__(
        self, rows: Tensor, weights: Tensor | None = None, fixed: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Outputs of shape (networks, n) for rows of shape (networks, n, ...)."""
        named = self.leaves if weights is None else self._named(weights)
        named = named | (self.fixed if fixed is None else dict(fixed))
        if self.batched:
            output = vmap(self._one, randomness="different")(named, rows)
        elif len(self) == 1:  # views only, so that gradients need no copy
            output = self._one({k: v.squeeze(0) for k, v in named.items()}, rows.squeeze(0))[None]
        else:
            lines = {name: value.unbind() for name, value in named.items()}
            each = [{name: parts[i] for name, parts in lines.items()} for i in range(len(self))]
            output = torch.stack([self._one(*one) for one in zip(each, rows, strict=True)])
        n = rows.shape[1]
        if output.shape not in ((len(self), n), (len(self), n, 1)):
            raise ParameterError(
                f"module must map {n} rows to shape ({n},) or ({n}, 1), got {tuple(output.shape[1:])}: "
                "its last layer needs one output."
            )
        return output.reshape(len(self), n)

    def backward(self, loss: Tensor, *, accumulate: bool = False) -> None:
        """Compute the gradient of ``loss`` into ``slopes``, or add it to them."""
        found = torch.autograd.grad(
            loss, list(self.leaves.values()), allow_unused=True, materialize_grads=True
        )
        write = torch._foreach_add_ if accumulate else torch._foreach_copy_
        write(self._slope_parts, list(found))

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
        values = {k: v[network] for k, v in (self._named(weights) | dict(fixed)).items()}
        with torch.no_grad():
            for name, tensor in _tensors(module):
                tensor.copy_(values[name])
        return module

    def _one(self, named: dict[str, Tensor], rows: Tensor) -> Tensor:
        output: Tensor = functional_call(self.module, named, (rows,))
        return output

    def _flat(self, module: nn.Module) -> Tensor:
        values = dict(module.named_parameters())
        lines = [values[name].detach().flatten() for name in self.shapes]
        return torch.cat([F.pad(line, (0, self._padded(line.numel()) - line.numel())) for line in lines])

    def _named(self, weights: Tensor) -> dict[str, Tensor]:
        """The parts of a matrix like ``weights``, by the name of the parameter."""
        parts = torch.split(weights, [self._padded(shape.numel()) for shape in self.shapes.values()], dim=1)
        return {
            name: part[:, : shape.numel()].view(len(weights), *shape)
            for part, (name, shape) in zip(parts, self.shapes.items(), strict=True)
        }

    def _padded(self, n: int) -> int:
        return -(-n // ALIGNED) * ALIGNED if self.device.type == "cuda" else n


def _trainable(module: nn.Module) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in module.named_parameters() if weight.requires_grad}


def _tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    return [*module.named_parameters(), *module.named_buffers()]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chosen weights of every network, and the risks of the run.

    ``risk`` and ``holdout_risk`` have shape (epochs, networks); ``best_epoch`` counts from 1 and is 0 if no
    epoch had a finite risk.
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
        risks = {"risk": self.risk, "holdout_risk": self.holdout_risk}
        return {name: values[:, network].copy() for name, values in risks.items() if values is not None}

    def converged(self, network: int) -> bool:
        """Whether weights and holdout risk of a network are finite at the epoch that was kept."""
        epoch = int(self.best_epoch[network])
        held = self.holdout_risk is None or (epoch > 0 and np.isfinite(self.holdout_risk[epoch - 1, network]))
        return bool(held and torch.isfinite(self.weights[network]).all())


class Training:
    """A training run.

    The batches of a network depend on its own seed only. The criterion is computed on the holdout rows
    after each epoch; if the settings ask for early stopping, the epoch with the lowest one is kept.
    ``augment`` changes the rows of training batches at random, not those that are scored.
    """

    def __init__(
        self,
        stack: Stack,
        rows: TrainingRows,
        loss: Loss,
        settings: Settings,
        *,
        seeds: Sequence[int],
        holdout: tuple[Pool, Pool] | None = None,
        criterion: Criterion | None = None,
        augment: Augment | None = None,
        on_epoch: Callable[[int], None] | None = None,
    ) -> None:
        self.stack, self.rows, self.loss, self.settings, self.seeds = stack, rows, loss, settings, seeds
        self.holdout, self.criterion, self.augment, self.on_epoch = holdout, criterion, augment, on_epoch
        self.n_steps = count_steps(len(rows.unlabeled), settings.batch_size)
        self.total_risk = torch.zeros(len(stack), dtype=stack.dtype, device=stack.device)
        self.average = None if settings.ema is None else _Average(stack)
        # The values of a step are written to tensors, from which a recorded step reads them.
        self.rate = torch.zeros((), dtype=stack.dtype, device=stack.device)
        factors = rate_factors(settings.decay, settings.epochs, self.n_steps)
        self.rates = (self._numbers(settings.learning_rate) * self._numbers(factors)).tolist()
        # Shares of the new weights in their average: more of them in the first steps, because otherwise the
        # average of a short run would stay close to the initial weights.
        step = np.arange(1, self.n_steps * settings.epochs + 1)
        decay = np.minimum(settings.ema or 0.0, (1 + step) / (10 + step))
        self.shares = (1 - self._numbers(decay)).tolist()
        self.optimizer = self._optimizer()

    def run(self) -> Outcome:
        """Train for all epochs and return the weights that were kept for each network."""
        settings, stack = self.settings, self.stack
        generators = [torch.Generator(stack.device).manual_seed(seed) for seed in self.seeds]
        best = _Best(stack) if self.holdout and settings.early_stopping else None
        risk, holdout_risk = [], []
        with (
            progress_bar("epochs", show=settings.verbose),
            private_random(self.seeds[0], stack.device),
            precision(settings.dtype, stack.device),
        ):
            stack.probe(self.rows.unlabeled.take(self._positions(self.rows.unlabeled)[:, :2]))
            advance = Recorded(self.step, stack.device)
            epochs = range(settings.epochs)
            for epoch in progress(epochs, total=len(epochs)):
                risk.append(self._epoch(epoch, advance, generators))
                if self.holdout:
                    holdout_risk.append(self.measure())
                if best:
                    best.keep(epoch + 1, holdout_risk[-1], *self.current())
                if self.on_epoch:
                    self.on_epoch(epoch + 1)
        weights, fixed = (best.weights, best.fixed) if best else self.current()
        return Outcome(
            stack,
            weights,
            fixed,
            best.epoch.cpu().numpy() if best else np.full(len(stack), settings.epochs),
            torch.stack(risk).cpu().double().numpy(),
            torch.stack(holdout_risk).cpu().double().numpy() if holdout_risk else None,
        )

    def step(self, positive: Tensor, unlabeled: Tensor) -> None:
        """Make one step on the batch at these positions, without waiting for the device."""
        batch = self.rows.batch(positive, unlabeled)
        if self.augment is not None:
            batch = batch.changed(self.augment)
        if self.settings.mixup and batch.shared:
            batch = batch.mixed()
        risk = self.loss(lambda rows: self.stack(rows).to(self.stack.dtype), batch)
        self.stack.backward(risk.objective.sum(), accumulate=self.settings.accumulate_gradients)
        self.optimizer.step()
        if self.average:
            self.average.update()
        self.total_risk += risk.value.detach()

    def measure(self) -> Tensor:
        """The criterion on the holdout rows, one value per network; their outputs are kept."""
        assert self.holdout is not None
        assert self.criterion is not None
        positive, unlabeled = self.holdout
        self.held_outputs = self.score(positive), self.score(unlabeled)
        return self.criterion(*self.held_outputs, positive.weight, unlabeled.weight)

    @torch.no_grad()
    def score(self, pool: Pool) -> Tensor:
        """Outputs of the current networks in float64, shape (networks, rows)."""
        self.stack.module.eval()
        at_once = rows_at_once(pool.rows.shape[1:], self.stack.device)
        parts = torch.split(self._positions(pool), max(1, at_once // len(self.stack)), dim=1)
        return torch.cat([self.stack(pool.take(part), *self.current()).double() for part in parts], dim=1)

    def current(self) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The weights for scoring: their moving average if there is one, otherwise the current ones."""
        return (self.average or self.stack).weights, (self.average or self.stack).fixed

    def _epoch(self, epoch: int, advance: Recorded, generators: Sequence[torch.Generator]) -> Tensor:
        """Train on both samples once; the mean reported risk of each network, as a tensor on the device."""
        self.stack.module.train()
        self.total_risk.zero_()
        for step, pair in enumerate(self.rows.epoch(self.n_steps, generators), epoch * self.n_steps):
            self.rate.fill_(self.rates[step])
            if self.average:
                self.average.share.fill_(self.shares[step])
            advance(*pair)
        return self.total_risk / self.n_steps

    def _optimizer(self) -> torch.optim.Optimizer:
        settings, stack = self.settings, self.stack
        lines = [line.detach() for line in stack.weights]
        for line, slope in zip(lines, stack.slopes, strict=True):
            line.grad = slope
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        return kind(
            lines,
            lr=self.rate,
            betas=settings.betas,
            weight_decay=self._numbers(settings.weight_decay).item(),
            fused=True,
            capturable=stack.device.type == "cuda",
        )

    def _numbers(self, values: float | FloatArray) -> Tensor:
        return torch.as_tensor(values, dtype=self.stack.dtype)

    def _positions(self, pool: Pool) -> Tensor:
        return torch.arange(len(pool), device=self.stack.device).expand(len(self.stack), -1)


class _Average:
    """Exponential moving average of weights and statistics; ``share`` is the part of the new ones."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.weights = stack.weights.clone()
        self.fixed = {name: value.clone() for name, value in stack.fixed.items()}
        self.share = torch.zeros(1, dtype=stack.dtype, device=stack.device)

    @torch.no_grad()
    def update(self) -> None:
        """Update the average after a step."""
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
