"""Settings of the default model in one of several folds: its columns, seeds and numbers of trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from drpu._typing import FloatArray
from drpu.tables.indicators import Indicators

__all__ = ["FoldPlan"]

# With half of these, errors of priors on tables with a weak signal are larger.
FOREST_TREES = 100
ROUNDS = 100  # of boosting without early stopping
TRAVEL = 9.0  # rounds times learning rate of boosting without early stopping
STOPPED_RATE, FASTEST_RATE = 0.05, 0.25  # learning rates with early stopping: of one fold, of many


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """The plan of one of several folds, whose models are used for priors.

    Their scores are counted, and the counts of all folds are added up. So each fold needs fewer trees
    than the model of all rows, from which labels come.
    """

    number: int
    folds: int
    medians: FloatArray
    indicators: Indicators | None

    @property
    def trees(self) -> int:
        """Number of trees of the forest."""
        return FOREST_TREES

    def seed(self, seed: int) -> int:
        """A seed for the trees of this fold: trees of different folds make different errors."""
        return (seed + self.number) % (2**31 - 1)

    def boosting(self, *, stopped: bool) -> dict[str, Any]:
        """Rounds and learning rate: fewer and larger steps than in a single model."""
        if stopped:
            return {"learning_rate": min(STOPPED_RATE * self.folds, FASTEST_RATE)}
        return {"n_rounds": ROUNDS, "learning_rate": TRAVEL / ROUNDS}
