"""Networks that give scores for an objective over positive and unlabeled batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor, nn

from drpu._typing import FloatArray, IntArray, Rows
from drpu.core.bregman import Risk
from drpu.core.objective import PUObjective, ShiftedRisk, VariationalRisk
from drpu.core.risk import mixup_penalty
from drpu.exceptions import ParameterError
from drpu.models._holdout import SamplePair, carve
from drpu.models._training.device import pick_device, weight_dtype
from drpu.models._training.loop import Loss, Settings, Training, on_outputs
from drpu.models._training.perceptron import Scaling
from drpu.models._training.pools import Batch, Pool, count_steps
from drpu.models._training.ratio import Aim, Fitted, Watch, build_module, fit_together
from drpu.models._training.stack import Forward, Stack
from drpu.models._training.tasks import Task

__all__ = ["Scored", "fit_network", "fit_stack", "outputs"]

SCORING_ROWS = 16_384
QUANTILES = 4096  # cells of the table that Beta variates are read from


@dataclass(frozen=True, slots=True)
class Scored:
    """What training leaves."""

    module: nn.Module
    scaling: Scaling | None
    best_epoch: int
    history: dict[str, FloatArray]


def fit_network(task: Task, objective: PUObjective) -> Scored:
    """One trained network, at its best epoch on holdout rows where there are enough of them."""
    device, dtype = pick_device(task.device), weight_dtype(task.settings.dtype)
    sample = task.sample
    scaling = Scaling.fit(sample.unlabeled, sample.unlabeled_weight) if task.module is None else None
    module = build_module(task.module, sample.positive.shape[1:], task.hidden, task.seed, "exp")
    stack = Stack([module], device=device, dtype=dtype)

    train, held = _divide(task)
    variational = isinstance(objective, VariationalRisk)
    if variational:  # its batches are of equal size, so positives come round again
        train = np.resize(train[0], max(len(train[0]), len(train[1]))), train[1]
    pools = _Rows(sample, scaling, device, dtype)
    outcome = Training(
        stack,
        pools.pool(0, train[0]),
        pools.pool(1, train[1]),
        _mixed_up(objective, device, dtype)
        if isinstance(objective, VariationalRisk)
        else on_outputs(objective.risk),
        _settings(task, len(train[1])),
        [task.seed],
        holdout=(pools.pool(0, held[0]), pools.pool(1, held[1])) if held else None,
        criterion=objective.criterion,
    ).run()

    if not bool(torch.isfinite(outcome.weights).all()) or (held and outcome.best_epoch[0] == 0):
        raise ParameterError(
            f"learning_rate must let training converge, got {task.settings.learning_rate[0]:g}: "
            "the risk is not finite any more. Lower it, or scale the rows."
        )
    history = {"risk": outcome.risk[:, 0]}
    if outcome.holdout_risk is not None:
        history["holdout_risk"] = outcome.holdout_risk[:, 0]
    return Scored(outcome.module(0), scaling, int(outcome.best_epoch[0]), history)


def fit_stack(
    tasks: Sequence[Task], objectives: Sequence[PUObjective], watch: Watch | None = None
) -> list[Fitted]:
    """One trained network a task, all of them as one stack; objectives may differ in their priors."""
    device, dtype = pick_device(tasks[0].device), weight_dtype(tasks[0].settings.dtype)
    first = objectives[0]
    if isinstance(first, VariationalRisk):
        if any(other != first for other in objectives):
            raise ParameterError("variational objectives must be the same in all models trained together.")
        return fit_together(tasks, watch, Aim(_mixed_up(first, device, dtype), first.criterion, equal=True))
    joined = _joined(objectives, device, dtype)
    return fit_together(tasks, watch, Aim(on_outputs(joined.risk), joined.criterion))


def _joined(objectives: Sequence[PUObjective], device: torch.device, dtype: torch.dtype) -> ShiftedRisk:
    """One risk for a stack, with a prior for each model."""
    shifted = [one for one in objectives if isinstance(one, ShiftedRisk)]
    alike = {(one.loss.name, one.cost, one.corrected, one.beta, one.gamma) for one in shifted}
    if len(shifted) < len(objectives) or len(alike) > 1:
        raise ParameterError("objectives trained together must be of one kind and differ in priors alone.")

    def column(values: Sequence[float]) -> Any:
        return torch.tensor(values, dtype=dtype, device=device)

    return replace(
        shifted[0],
        unlabeled_prior=column([one.unlabeled_prior for one in shifted]),
        prior=column([one.prior for one in shifted]),
    )


@torch.no_grad()
def outputs(module: nn.Module, X: Rows, scaling: Scaling | None) -> FloatArray:
    """The network's outputs in float64, one a row."""
    weight = next(module.parameters())
    module.eval()
    parts = []
    for start in range(0, X.shape[0], SCORING_ROWS):
        rows = X[start : start + SCORING_ROWS]
        rows = torch.as_tensor(rows if scaling is None else scaling(rows)).to(weight)
        parts.append(module(rows).reshape(-1).cpu().double())
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)


def _divide(task: Task) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray] | None]:
    """Row numbers to train on and to choose the epoch by; rows of weight zero are in neither."""
    sample = task.sample
    positive = _weighty(sample.positive, sample.positive_weight)
    unlabeled = _weighty(sample.unlabeled, sample.unlabeled_weight)
    if task.settings.early_stopping:
        split = carve(SamplePair(positive, unlabeled), None, task.share, np.random.default_rng(task.seed))
        if split.held:
            held = split.held.positive, split.held.unlabeled
            return (split.train.positive, split.train.unlabeled), held
    return (positive, unlabeled), None


def _weighty(rows: Rows, weight: FloatArray | None) -> IntArray:
    return np.arange(rows.shape[0]) if weight is None else np.flatnonzero(weight > 0)


class _Rows:
    """Both samples on the device, once."""

    def __init__(
        self, sample: SamplePair, scaling: Scaling | None, device: torch.device, dtype: torch.dtype
    ) -> None:
        def tensor(values: Any) -> Tensor:
            return torch.as_tensor(values).to(device=device, dtype=dtype)

        self.device = device
        both = sample.positive, sample.unlabeled
        self.rows = [tensor(rows if scaling is None else scaling(rows)) for rows in both]
        weights = sample.positive_weight, sample.unlabeled_weight
        self.weights = [None if weight is None else tensor(weight) for weight in weights]

    def pool(self, kind: int, chosen: IntArray) -> Pool:
        index = torch.as_tensor(chosen, device=self.device)
        weight = self.weights[kind]
        return Pool(self.rows[kind], index[None], None if weight is None else weight[index][None])


def _settings(task: Task, n_unlabeled: int) -> Settings:
    steps = count_steps(n_unlabeled, task.settings.batch_size)
    return replace(task.settings, epochs=max(task.settings.epochs, -(-task.least_steps // steps)))


def _mixed_up(objective: VariationalRisk, device: torch.device, dtype: torch.dtype) -> Loss:
    """The variational risk with its MixUp penalty; shares are drawn on the device."""
    middle = (np.arange(QUANTILES) + 0.5) / QUANTILES
    a = objective.concentration
    table = torch.as_tensor(beta.ppf(middle, a, a), dtype=dtype, device=device)

    def loss(forward: Forward, batch: Batch) -> Risk:
        positive, unlabeled = batch.positive, batch.unlabeled
        n = min(positive.shape[1], unlabeled.shape[1])
        shape = unlabeled.shape[0], n
        share = table[torch.randint(QUANTILES, shape, device=device)]
        wide = share.view(*shape, *[1] * (unlabeled.ndim - 2))
        mixed = wide * unlabeled[:, :n] + (1 - wide) * positive[:, :n]
        output = forward(torch.cat([positive, unlabeled, mixed], dim=1))
        of_p, of_u, of_mixed = torch.split(output, [positive.shape[1], unlabeled.shape[1], n], dim=1)
        risk = objective.criterion(of_p, of_u, batch.positive_weight, batch.unlabeled_weight)
        penalty = mixup_penalty(of_mixed, of_u[:, :n], share)
        return Risk(risk, risk + objective.mixup * penalty)

    return loss
