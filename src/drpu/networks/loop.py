"""One training run of a stack of models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from drpu._optional import progress
from drpu._typing import FloatArray, IntArray
from drpu.core.bregman import Risk
from drpu.networks.augment import Augment
from drpu.networks.device import Recorded, precision, private_random
from drpu.networks.optimizer import Adam, Average, rate_factors
from drpu.networks.pools import (
    Batch,
    Pool,
    count_steps,
    paired_positions,
    shared_positions,
    take_batch,
)
from drpu.networks.stack import Forward, Stack

__all__ = ["Criterion", "Loss", "Objective", "Outcome", "Settings", "Training", "on_outputs", "rows_at_once"]

SCORING_ROWS = 16_384  # rows times models in one scoring call
SCORING_NUMBERS = 2**21  # numbers in one scoring call on a CPU, to limit memory


def rows_at_once(shape: Sequence[int], device: torch.device) -> int:
    """Number of rows of a shape to score in one call."""
    if len(shape) == 1:
        return SCORING_ROWS
    if device.type != "cpu":
        return SCORING_ROWS // 4
    return min(SCORING_ROWS, max(64, SCORING_NUMBERS // max(1, math.prod(shape))))


# From outputs of both samples and their weights, (models, batch) each, to one risk per model.
Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Risk]
# The same, as the number by which the epoch is chosen.
Criterion: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
# The loss of a step, for objectives that need several forward passes.
Loss: TypeAlias = Callable[[Forward, Batch], Risk]


def on_outputs(objective: Objective) -> Loss:
    """A loss from an objective of outputs, in one pass so that batch norm uses both samples."""

    def loss(forward: Forward, batch: Batch) -> Risk:
        if batch.shared:
            output = forward(batch.unlabeled)
            return objective(output, output, batch.positive_weight, batch.unlabeled_weight)
        n = batch.positive.shape[1]
        output = forward(torch.cat([batch.positive, batch.unlabeled], dim=1))
        return objective(output[:, :n], output[:, n:], batch.positive_weight, batch.unlabeled_weight)

    return loss


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a run; ``learning_rate`` and ``weight_decay`` have one value per model."""

    epochs: int
    batch_size: int
    learning_rate: Sequence[float]
    weight_decay: Sequence[float]
    optimizer: str = "adamw"
    betas: tuple[float, float] = (0.9, 0.999)
    decay: str = "cosine"
    ema: float | None = None
    early_stopping: bool = True
    accumulate_gradients: bool = False
    mixup: bool = False
    dtype: str = "float32"
    verbose: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The chosen weights of every model, and the risks of the run.

    ``risk`` and ``holdout_risk`` have shape (epochs, models); ``best_epoch`` counts from 1.
    """

    stack: Stack
    weights: Tensor
    fixed: Mapping[str, Tensor]
    best_epoch: IntArray
    risk: FloatArray
    holdout_risk: FloatArray | None

    def module(self, model: int) -> nn.Module:
        """The network of one model, ready to score."""
        return self.stack.extract(model, self.weights, self.fixed)


class Training:
    """A training run over paired batches.

    Parameters
    ----------
    stack : Stack
        Networks to train, in place.
    positive, unlabeled : Pool
        Training rows of each model.
    loss : Loss
        The loss that a step decreases.
    settings : Settings
    seeds : sequence of int
        One per model. The batches of a model depend on its own seed only.
    holdout : pair of Pool, optional
        Rows on which the criterion is computed after each epoch. If ``settings`` ask for early stopping,
        the epoch with the lowest criterion is kept, otherwise the last one.
    criterion : Criterion, optional
        Computed on the holdout rows after each epoch; lower is better.
    on_epoch : callable, optional
        Called after each epoch with its number, counted from 1.
    augment : callable, optional
        Changes the rows of each training batch at random; it is not applied to rows that are scored.
    """

    def __init__(
        self,
        stack: Stack,
        positive: Pool,
        unlabeled: Pool,
        loss: Loss,
        settings: Settings,
        seeds: Sequence[int],
        *,
        holdout: tuple[Pool, Pool] | None = None,
        criterion: Criterion | None = None,
        on_epoch: Callable[[int], None] | None = None,
        augment: Augment | None = None,
    ) -> None:
        self.on_epoch, self.augment = on_epoch, augment
        self.stack, self.loss, self.settings, self.seeds = stack, loss, settings, seeds
        self.positive, self.unlabeled = positive, unlabeled
        self.holdout, self.criterion = holdout, criterion
        self.n_steps = count_steps(unlabeled.size, settings.batch_size)

        total = self.n_steps * settings.epochs
        self.optimizer = Adam(
            stack.weights,
            rate_factors(settings.decay, settings.epochs, self.n_steps),
            learning_rate=self._column(settings.learning_rate),
            weight_decay=self._column(settings.weight_decay),
            betas=settings.betas,
            decoupled=settings.optimizer == "adamw",
            accumulate=settings.accumulate_gradients,
        )
        ema = settings.ema
        self.average = None if ema is None else Average(stack.weights, stack.fixed, ema, total)
        self.now = torch.zeros(1, dtype=torch.int64, device=stack.device)
        self.total_risk = torch.zeros(len(stack), dtype=stack.dtype, device=stack.device)

    def run(self) -> Outcome:
        """Train for all epochs and return the weights that were kept for each model."""
        settings, stack = self.settings, self.stack
        device = stack.device
        generators = [torch.Generator(device).manual_seed(seed) for seed in self.seeds]
        best = _Best(stack) if self.holdout and settings.early_stopping else None
        risk, holdout_risk = [], []

        with private_random(self.seeds[0], device), precision(settings.dtype, device):
            stack.probe(self.unlabeled.take(_positions(self.unlabeled)[:, :2])[0])
            advance = Recorded(self.step, device)
            bar = progress(
                range(settings.epochs), total=settings.epochs, label="epochs", show=settings.verbose > 0
            )
            for epoch in bar:
                risk.append(self.epoch(advance, generators))
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

    def epoch(self, advance: Recorded, generators: Sequence[torch.Generator]) -> Tensor:
        """Train on both samples once; the mean reported risk of each model, as a tensor on the device."""
        self.stack.train()
        self.total_risk.zero_()
        if self.positive.index is self.unlabeled.index:
            pairs = shared_positions(self.unlabeled.size, self.n_steps, generators)
        else:
            pairs = paired_positions(self.positive.size, self.unlabeled.size, self.n_steps, generators)
        for pair in pairs:
            advance(*pair)
        return self.total_risk / self.n_steps

    def step(self, positive: Tensor, unlabeled: Tensor) -> None:
        """Make one step on the batch at these positions, without waiting for the device."""
        batch = take_batch(self.positive, self.unlabeled, positive, unlabeled)
        if self.augment is not None:
            batch = batch.changed(self.augment)
        if self.settings.mixup and batch.shared:
            batch = batch.mixed()
        risk = self.loss(self._forward, batch)
        self.optimizer.step(self.stack.gradient(risk.objective.sum()), self.now)
        if self.average:
            self.average.update(self.now)
        self.now += 1
        self.total_risk += risk.value.detach()

    def measure(self) -> Tensor:
        """The criterion on the holdout rows, one value per model."""
        assert self.holdout is not None
        assert self.criterion is not None
        positive, unlabeled = self.holdout
        return self.criterion(self.score(positive), self.score(unlabeled), positive.weight, unlabeled.weight)

    @torch.no_grad()
    def score(self, pool: Pool) -> Tensor:
        """Outputs of the current models in float64, shape (models, rows)."""
        self.stack.train(False)
        at_once = rows_at_once(pool.rows.shape[1:], self.stack.device)
        parts = torch.split(_positions(pool), max(1, at_once // len(self.stack)), dim=1)
        return torch.cat([self.stack(pool.take(part)[0], *self.current()).double() for part in parts], dim=1)

    def current(self) -> tuple[Tensor, Mapping[str, Tensor]]:
        """The weights for scoring: their moving average if there is one, otherwise the current ones."""
        if self.average:
            return self.average.weights, self.average.fixed
        return self.stack.weights, self.stack.fixed

    def _forward(self, rows: Tensor) -> Tensor:
        return self.stack(rows).to(self.stack.dtype)

    def _column(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=self.stack.dtype, device=self.stack.device)[:, None]


class _Best:
    """The weights of each model at its lowest risk so far, chosen on the device."""

    def __init__(self, stack: Stack) -> None:
        self.risk = torch.full((len(stack),), torch.inf, dtype=torch.float64, device=stack.device)
        self.epoch = torch.zeros(len(stack), dtype=torch.int64, device=stack.device)
        self.weights = stack.weights.detach().clone()
        self.fixed = {name: value.clone() for name, value in stack.fixed.items()}

    def keep(self, epoch: int, risk: Tensor, weights: Tensor, fixed: Mapping[str, Tensor]) -> None:
        better = risk < self.risk
        self.risk = torch.where(better, risk, self.risk)
        self.epoch = torch.where(better, epoch, self.epoch)
        self.weights = torch.where(better[:, None], weights, self.weights)
        for name, value in fixed.items():
            chosen = better.view(-1, *[1] * (value.ndim - 1))
            self.fixed[name] = torch.where(chosen, value, self.fixed[name])


def _positions(pool: Pool) -> Tensor:
    models, n = pool.index.shape
    return torch.arange(n, device=pool.index.device).expand(models, n)
