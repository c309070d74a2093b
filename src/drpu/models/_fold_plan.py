"""Settings of the default model in one of several folds: shared directions and numbers of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drpu._typing import FloatArray
from drpu.models.fourier import Directions
from drpu.tables.indicators import Indicators

__all__ = ["FoldPlan"]

FOREST_TREES, FEWEST_TREES = 250, 30  # of all folds together, and at least of each fold
ROUNDS, FEWEST_ROUNDS = 250, 40  # of boosting without early stopping
TRAVEL = 9.0  # rounds times learning rate of boosting without early stopping
STOPPED_RATE, FASTEST_RATE = 0.05, 0.25  # learning rates with early stopping: of one fold, of many


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The plan of one of several folds, whose ratios are averaged.

    The average reduces the variance that few trees leave in each fold, so that all folds
    together need fewer trees than as many single models.
    """

    number: int
    folds: int
    medians: FloatArray
    indicators: Indicators | None
    directions: Directions | None  # None for sparse rows, which have no smooth fit of cosines

    @property
    def trees(self) -> int:
        """Number of trees of the forest."""
        return max(FEWEST_TREES, FOREST_TREES // self.folds)

    def seed(self, seed: int) -> int:
        """A seed for the trees of this fold: trees of different folds make different errors."""
        return (seed + self.number) % (2**31 - 1)

    def boosting(self, *, stopped: bool) -> dict[str, Any]:
        """Rounds and learning rate: fewer and larger steps than in a single model."""
        if stopped:
            return {"learning_rate": min(STOPPED_RATE * self.folds, FASTEST_RATE)}
        rounds = max(FEWEST_ROUNDS, ROUNDS // self.folds)
        return {"n_rounds": rounds, "learning_rate": TRAVEL / rounds}
