"""What is left of training: enough to score, count and decide, and no rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._samples import n_rows
from drpu._typing import FloatArray, Rows
from drpu.core.calibration import Calibration, population_ratio
from drpu.core.prior import PriorEstimate, prior_from_tails
from drpu.core.privacy import GridCounts, Protection
from drpu.core.tails import ScoreTails
from drpu.models.folds import FoldedRatio

__all__ = ["RatioCore", "with_labelled", "without_labelled"]

_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class RatioCore:
    """The prior-free part of a fitted classifier, shared by all its adaptations.

    Attributes
    ----------
    model : FoldedRatio
        Scores rows: log p(x | positive) / p(x | unlabeled).
    calibration : Calibration or None
        Maps scores to ratios against the population.
    tails : ScoreTails
        Held-out positives, and the unlabeled training rows counted over them.
    prior : PriorEstimate
        Prior of the training population.
    labelled_share : float
        Share of the population that carries a label: 0 in a case-control study.
    classes : ndarray of shape (2,)
        The user's labels, negative first.
    method : str
        How priors of new rows are estimated.
    grid : GridCounts or None
        The rows of ``tails`` on cells that do not depend on them, for an artifact with
        differential privacy; None where rows had weights.
    protection : Protection or None
        What was done to ``tails`` when they were saved; None where they are exact.
    """

    model: FoldedRatio
    calibration: Calibration | None
    tails: ScoreTails
    prior: PriorEstimate
    labelled_share: float
    classes: np.ndarray[Any, Any]
    method: str = "auto"
    grid: GridCounts | None = None
    protection: Protection | None = None

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the mean ratio over the fold models, without a ceiling."""
        parts = [self._ratios(self.model.fold_scores(rows)).mean(axis=1) for _, rows in _chunks(X)]
        return np.asarray(np.log(np.maximum(np.concatenate(parts), 1e-300)))

    def no_counts(self) -> ScoreTails:
        """Tails for new rows before any has come; each row will count once for each fold model."""
        return self.tails.empty(copies=len(self.model.models))

    def count(self, X: Rows, weight: FloatArray | None = None) -> ScoreTails:
        """Tails of new rows."""
        tails = self.no_counts()
        for at, rows in _chunks(X):
            scores = self.model.fold_scores(rows)
            tails.update(scores.ravel(), None if weight is None else np.repeat(weight[at], tails.copies))
        return tails

    def prior_of(self, tails: ScoreTails, *, level: float = 0.95) -> PriorEstimate:
        """Prior of rows counted in ``tails``, read beside the unlabeled training rows."""
        return prior_from_tails(
            tails,
            method=self.method,
            level=level,
            reference=self.tails,
            train_prior=self.unlabeled_prior,
        )

    @property
    def unlabeled_prior(self) -> PriorEstimate:
        """Prior of the training rows without a label: those that the tails count."""
        return without_labelled(self.prior, self.labelled_share)

    def score_above(self, ratio: float) -> float:
        """Smallest held-out positive score whose ratio lies above ``ratio``; infinite when none does."""
        above = np.flatnonzero(self._ratios(self.tails.levels) > ratio)
        return float(self.tails.levels[above[0]]) if above.size else float("inf")

    def _ratios(self, scores: FloatArray) -> FloatArray:
        if self.calibration is not None:
            return self.calibration(scores.ravel()).reshape(scores.shape)
        return population_ratio(np.exp(scores), self.labelled_share)


def _chunks(X: Rows) -> Iterator[tuple[slice, Rows]]:
    """Rows a part at a time: one score for each fold model and row is all that is held at once."""
    for start in range(0, n_rows(X), _CHUNK):
        at = slice(start, start + _CHUNK)
        yield at, X[at]


def with_labelled(prior: PriorEstimate, share: float) -> PriorEstimate:
    """Prior of a population, from that of its rows without a label."""
    return _affine(prior, share, 1 - share)


def without_labelled(prior: PriorEstimate, share: float) -> PriorEstimate:
    """Prior of the rows without a label, from that of the population."""
    return _affine(prior, -share / (1 - share), 1 / (1 - share))


def _affine(prior: PriorEstimate, shift: float, scale: float) -> PriorEstimate:
    value, low, high = (min(max(shift + scale * x, 0.0), 1.0) for x in (prior.value, prior.low, prior.high))
    return replace(prior, value=value, low=low, high=high)
