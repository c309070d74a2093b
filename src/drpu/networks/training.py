"""Density ratios trained together as a stack of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from drpu._fork import torch_threads_here
from drpu._samples import Sample, SamplePair
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import ParameterError
from drpu.functions.features import Scaling
from drpu.networks.augment import Augment
from drpu.networks.augment import test_views as views_of
from drpu.networks.device import pick_device, precision, private_random, weight_dtype
from drpu.networks.heads import START, Head, RatioObjective, make_head
from drpu.networks.loop import (
    Criterion,
    Loss,
    Outcome,
    Settings,
    Training,
    on_outputs,
    rows_at_once,
)
from drpu.networks.modules import Ensemble, ResNet9, perceptron
from drpu.networks.pools import Pool, as_floats, count_steps
from drpu.networks.stack import Stack
from drpu.networks.tasks import Task
from drpu.ratios.splits import hold_out

__all__ = ["Aim", "Fitted", "Scorer", "Watch", "build_module", "fit_together", "outputs", "score_rows"]


@dataclass(frozen=True, slots=True)
class Fitted:
    """The result of a task."""

    module: nn.Module
    scaling: Scaling | None
    alpha: float
    bound: float
    best_epoch: int
    history: dict[str, FloatArray]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A task with its split of rows and its values of alpha."""

    task: Task
    positive: IntArray
    unlabeled: IntArray
    held: tuple[IntArray, IntArray] | None
    alphas: tuple[float, ...]


# Current log-ratios of the networks, (models, n), for rows of all models or a list with rows of each.
Scorer: TypeAlias = Callable[[Any], FloatArray]
Watch: TypeAlias = Callable[[int, Scorer], None]


@dataclass(frozen=True, slots=True)
class Aim:
    """An objective to train for instead of a density ratio.

    With ``equal_batches`` a step has as many positives as unlabeled rows, and positives are repeated.
    """

    loss: Loss
    criterion: Criterion
    equal_batches: bool = False


def fit_together(
    tasks: Sequence[Task], watch: Watch | None = None, aim: Aim | None = None, *, same_rows: bool = False
) -> list[Fitted]:
    """One trained network per task, trained together as a stack.

    With ``same_rows`` both samples of a task are the same array, and a step takes each row once.
    """
    first = tasks[0]
    device, dtype = pick_device(first.device), weight_dtype(first.settings.dtype)
    plans = [_shared(_plan(task)) if same_rows else _plan(task) for task in tasks]
    if aim is not None and aim.equal_batches:
        plans = [_as_many(plan) for plan in plans]
    _check_sizes(plans)
    scalings = _scalings(tasks)
    lines = [(i, alpha) for i, plan in enumerate(plans) for alpha in plan.alphas]

    modules = [_module(task) for task in tasks]
    stack = Stack([modules[i] for i, _ in lines], device=device, dtype=dtype)
    alpha = torch.tensor([alpha for _, alpha in lines], dtype=torch.float64, device=device)
    bound = torch.tensor([_bound(tasks[i], a) for i, a in lines], dtype=torch.float64, device=device)
    objective = RatioObjective(first.generator, make_head(first.head, bound[:, None]), alpha)
    pools = _Pools(plans, scalings, [i for i, _ in lines], device, dtype)

    positive, unlabeled = pools.train("positive"), pools.train("unlabeled")
    if same_rows:
        positive = replace(positive, index=unlabeled.index)
    training = Training(
        stack,
        positive,
        unlabeled,
        on_outputs(objective.risk) if aim is None else aim.loss,
        _settings(plans, [i for i, _ in lines]),
        [tasks[i].seed for i, _ in lines],
        holdout=pools.held() if plans[0].held else None,
        criterion=objective.criterion if aim is None else aim.criterion,
        augment=first.augment,
    )
    if watch is not None:
        scorer = _scorer(training, scalings, make_head(first.head, bound[:, None]))
        training.on_epoch = lambda epoch: watch(epoch, scorer)
    outcome = training.run()
    return [
        _fitted(outcome, [n for n, (j, _) in enumerate(lines) if j == i], plan, scaling)
        for i, (plan, scaling) in enumerate(zip(plans, scalings, strict=True))
    ]


def build_module(
    module: nn.Module | Callable[[], nn.Module] | None,
    network: str,
    shape: Sequence[int],
    hidden: Sequence[int],
    seed: int,
    head: str,
) -> nn.Module:
    """An untrained network: a copy of the given one, or a new one with seeded weights."""
    if isinstance(module, nn.Module):
        return deepcopy(module)
    with private_random(seed, torch.device("cpu")):
        if module is not None:
            made = module()
        elif network == "resnet9":
            made = ResNet9(shape, hidden[0], start=START[head])
        else:
            made = perceptron(shape, hidden, start=START[head])
    if not isinstance(made, nn.Module):
        raise ParameterError(f"module must make a torch.nn.Module, got {type(made).__name__}.")
    return made


def _module(task: Task) -> nn.Module:
    module = build_module(task.module, task.network, _shape(task), task.hidden, task.seed, task.head)
    if task.module is None and isinstance(module, ResNet9):
        module.standardise(task.sample.unlabeled.rows)
    return module


def score_rows(
    module: nn.Module,
    X: Rows,
    scaling: Scaling | None,
    head: str,
    bound: float,
    *,
    augment: Any = None,
    dtype: str | None = None,
) -> FloatArray:
    """Log-ratios in float64 from the network's last output; see :func:`outputs`."""
    link = make_head(head, torch.tensor(bound, dtype=torch.float64))
    found = outputs(module, X, scaling, augment=augment, dtype=dtype)
    return np.asarray(link.log_ratio(torch.as_tensor(found)).numpy(), dtype=np.float64)


@torch.no_grad()
def outputs(
    module: nn.Module, X: Rows, scaling: Scaling | None, *, augment: Any = None, dtype: str | None = None
) -> FloatArray:
    """The network's outputs in float64, one for each row.

    ``augment`` names the changes over which they are averaged, if any. ``dtype`` asks for products at the
    precision of training, which is faster; without it a row gets the same score in any batch, up to float32.
    """
    torch_threads_here()
    own = scaling is not None or isinstance(module, (ResNet9, Ensemble))
    weight = next(module.parameters())
    if dtype is None and own and (scaling is not None or weight.is_cpu):
        # A row has one score in any batch: float32 products round differently with the batch's size.
        # Only in networks of our own: one of the user's may hold numbers of fixed types.
        module = deepcopy(module).double()
        weight = next(module.parameters())
    module.eval()
    views: Sequence[Augment] = views_of(augment)
    at_once = rows_at_once(X.shape[1:], weight.device)
    parts = []
    with precision(dtype or "float32", weight.device):
        for start in range(0, X.shape[0], at_once):
            rows = X[start : start + at_once]
            batch = torch.as_tensor(rows if scaling is None else scaling.softly_clipped(rows))
            batch = as_floats(batch.to(weight.device), weight.dtype)
            scores = [module(view(batch)).reshape(-1).double() for view in views]
            parts.append(torch.stack(scores).mean(0).cpu())
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)


def _scorer(training: Training, scalings: Sequence[Scaling | None], head: Head) -> Scorer:
    """The scoring function for callbacks; repeated rows are kept on the device."""
    stack = training.stack
    pools: dict[tuple[int, ...], tuple[Any, Pool]] = {}

    def scorer(rows: Any) -> FloatArray:
        each = rows if isinstance(rows, list) else [rows] * len(stack)
        if (key := tuple(map(id, each))) not in pools:
            unique = {id(part): i for i, part in reversed(list(enumerate(each)))}
            tensors, starts, start = [], {}, 0
            for name, i in unique.items():
                scaling = scalings[i]
                part = torch.as_tensor(each[i] if scaling is None else scaling.softly_clipped(each[i]))
                tensors.append(_on_device(part, stack.device, stack.dtype))
                starts[name], start = start, start + len(part)
            index = torch.stack([torch.arange(len(part)) + starts[id(part)] for part in each])
            pool = Pool(torch.cat(tensors), index.to(stack.device), dtype=stack.dtype)
            pools[key] = each, pool  # kept, so that ids stay unique
        return np.asarray(head.log_ratio(training.score(pools[key][1])).cpu().numpy(), dtype=np.float64)

    return scorer


def _plan(task: Task) -> _Plan:
    sample = task.sample
    positive, unlabeled = _weighty(sample.positive), _weighty(sample.unlabeled)
    if task.holdout is not None:
        held = np.arange(len(task.holdout.positive)), np.arange(len(task.holdout.unlabeled))
        return _Plan(task, positive, unlabeled, held, task.alphas)
    if task.settings.early_stopping or len(task.alphas) > 1:
        places = SamplePair(Sample(positive), Sample(unlabeled))
        split = hold_out(places, None, task.share, np.random.default_rng(task.seed))
        if split.held:
            held = split.held.positive.rows, split.held.unlabeled.rows
            train = split.train
            return _Plan(task, train.positive.rows, train.unlabeled.rows, held, task.alphas)
    alphas = task.alphas if len(task.alphas) == 1 else (task.fallback_alpha,)
    return _Plan(task, positive, unlabeled, None, alphas)


def _as_many(plan: _Plan) -> _Plan:
    """The plan with positives repeated to the number of unlabeled rows."""
    return replace(plan, positive=np.resize(plan.positive, max(plan.positive.size, plan.unlabeled.size)))


def _shared(plan: _Plan) -> _Plan:
    """The plan in which every row that has a weight in either sample belongs to both."""
    rows = np.union1d(plan.positive, plan.unlabeled)
    return replace(plan, positive=rows, unlabeled=rows)


def _weighty(sample: Sample) -> IntArray:
    """Row numbers, without rows of weight zero."""
    return np.arange(len(sample)) if sample.weight is None else np.flatnonzero(sample.weight > 0)


def _check_sizes(plans: Sequence[_Plan]) -> None:
    sizes = {
        (p.positive.size, p.unlabeled.size, None if p.held is None else tuple(h.size for h in p.held))
        for p in plans
    }
    if len(sizes) > 1:
        raise ParameterError(
            "models trained together need equally many rows each (and all or none of them holdout rows), "
            f"got {sorted(sizes, key=str)} as (positive, unlabeled, held out)."
        )


class _Pools:
    """The rows of all tasks on the device, each array once, and the rows of each model."""

    def __init__(
        self,
        plans: Sequence[_Plan],
        scalings: Sequence[Scaling | None],
        lines: Sequence[int],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.plans, self.scalings, self.lines = plans, scalings, lines
        self.device, self.dtype = device, dtype
        self.loaded: dict[tuple[tuple[int, int], ...], tuple[Tensor, dict[tuple[int, int], int]]] = {}

    def train(self, which: str) -> Pool:
        """Training rows of one kind."""
        samples = [getattr(plan.task.sample, which) for plan in self.plans]
        return self._pool(samples, [getattr(plan, which) for plan in self.plans])

    def held(self) -> tuple[Pool, Pool]:
        """Holdout rows of both kinds: separate rows, or rows of the training arrays."""
        both = []
        for kind, which in enumerate(("positive", "unlabeled")):
            samples = [
                getattr(plan.task.sample if plan.task.holdout is None else plan.task.holdout, which)
                for plan in self.plans
            ]
            both.append(self._pool(samples, [p.held[kind] for p in self.plans]))  # type: ignore[index]
        return both[0], both[1]

    def _pool(self, samples: list[Sample], chosen: list[IntArray]) -> Pool:
        arrays = [sample.rows for sample in samples]
        rows, offsets = self._load(arrays)
        keys = self._keys(arrays)
        index = np.stack([offsets[keys[i]] + chosen[i] for i in self.lines])
        weight = None
        if any(sample.weight is not None for sample in samples):
            filled = [sample.weights() for sample in samples]
            picked = np.stack([filled[i][chosen[i]] for i in self.lines])
            weight = torch.as_tensor(picked, dtype=self.dtype, device=self.device)
        return Pool(rows, torch.as_tensor(index, device=self.device), weight, self.dtype)

    def _load(self, arrays: list[Rows]) -> tuple[Tensor, dict[tuple[int, int], int]]:
        keys = self._keys(arrays)
        unique = {key: i for i, key in reversed(list(enumerate(keys)))}
        signature = tuple(sorted(unique))
        if signature not in self.loaded:
            parts, offsets, start = [], {}, 0
            for key, i in unique.items():
                scaling, array = self.scalings[i], arrays[i]
                part = torch.as_tensor(array if scaling is None else scaling.softly_clipped(array))
                parts.append(_on_device(part, self.device, self.dtype))
                offsets[key], start = start, start + len(array)
            self.loaded[signature] = parts[0] if len(parts) == 1 else torch.cat(parts), offsets
        return self.loaded[signature]

    def _keys(self, arrays: list[Rows]) -> list[tuple[int, int]]:
        return [(id(array), id(scaling)) for array, scaling in zip(arrays, self.scalings, strict=True)]


def _on_device(rows: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Rows on the device; images of eight bits stay as they are, a quarter of the memory."""
    return rows.to(device) if rows.dtype == torch.uint8 else rows.to(device=device, dtype=dtype)


def _scalings(tasks: Sequence[Task]) -> list[Scaling | None]:
    """The scaling of the inputs of each task; tasks on the same rows share it."""
    made: dict[tuple[int, int], Scaling] = {}
    for task in tasks:
        if task.network == "perceptron" and (key := _unlabeled_key(task)) not in made:
            made[key] = Scaling.of(task.sample.unlabeled.rows, task.sample.unlabeled.weight)
    return [made[_unlabeled_key(task)] if task.network == "perceptron" else None for task in tasks]


def _unlabeled_key(task: Task) -> tuple[int, int]:
    return id(task.sample.unlabeled.rows), id(task.sample.unlabeled.weight)


def _settings(plans: Sequence[_Plan], lines: Sequence[int]) -> Settings:
    """The settings of the run: those of the first task, with a rate for every line."""
    first = plans[0].task
    steps = count_steps(plans[0].unlabeled.size, first.settings.batch_size)
    return replace(
        first.settings,
        epochs=max(first.settings.epochs, -(-first.least_steps // steps)),
        learning_rate=[plans[i].task.settings.learning_rate[0] for i in lines],
        weight_decay=[plans[i].task.settings.weight_decay[0] for i in lines],
    )


def _shape(task: Task) -> tuple[int, ...]:
    shape: tuple[int, ...] = task.sample.positive.rows.shape[1:]
    return shape


def _bound(task: Task, alpha: float) -> float:
    """The largest ratio of a bounded head: no ratio exceeds one over the prior, nor one over alpha."""
    if task.bound is not None:
        return task.bound
    return 1 / alpha if alpha > 0 else np.inf


def _fitted(outcome: Outcome, lines: Sequence[int], plan: _Plan, scaling: Scaling | None) -> Fitted:
    held = outcome.holdout_risk
    finite = torch.isfinite(outcome.weights).all(1).cpu().numpy()
    if held is not None:  # at the epoch that was kept; 0 if no epoch had a risk
        kept = held[outcome.best_epoch - 1, np.arange(held.shape[1])]
        finite = finite & (outcome.best_epoch > 0) & np.isfinite(kept)
    alive = [n for n in lines if finite[n]]
    if not alive:
        raise ParameterError(
            f"learning_rate must let training converge, got {plan.task.settings.learning_rate[0]:g}: "
            "the risk is not finite any more. Lower it, or scale the rows."
        )
    best = alive[0] if held is None else min(alive, key=kept.__getitem__)
    alpha = plan.alphas[lines.index(best)]
    history = {"risk": outcome.risk[:, best]} | ({} if held is None else {"holdout_risk": held[:, best]})
    return Fitted(
        outcome.module(best),
        scaling,
        alpha,
        _bound(plan.task, alpha),
        int(outcome.best_epoch[best]),
        history,
    )
