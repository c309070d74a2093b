"""Operating points: how a density ratio becomes a probability and a label."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias

import numpy as np
from scipy.special import expit, logit

from drpu import decisions
from drpu._arrays import BoolArray, FloatArray
from drpu._codec import Kept, Number, kept
from drpu.models.learner import LOG_LIMIT
from drpu.priors.calibration import ratio_posterior, ratio_threshold
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.state.costs import KeptCosts, check_cost
from drpu.state.fitted import FittedRatio, level_offsets, tie_break
from drpu.state.reference import (
    FARTHEST,
    NEAREST,
    LogOddsMap,
    Reference,
    RowLogOdds,
    bounded_log_odds,
)

if TYPE_CHECKING:
    from drpu.decisions.gain import Gain
    from drpu.decisions.performance import Decision, Performance


# ruff: noqa: D102  (the docstrings of overridden methods are those of OperatingPoint)


ALL_FLAGGED = 1e-320  # a threshold below the ratio of every row

# the figures and their two limits
Expected: TypeAlias = "tuple[Performance, Performance, Performance]"


class OperatingPoint(Kept, ABC):
    """How a density ratio becomes a probability and a label.

    Predictions, expected performance, budgets, pages and files ask the point; nobody else asks
    which kind it is.
    """

    prior: PriorEstimate  # of the rows to classify
    cost: float  # false-positive cost
    train_prior: float  # of the training population, to which ratios refer
    labels_at: float  # prior at which labels are made; that of training if they stay as trained

    @property
    @abstractmethod
    def threshold(self) -> float:
        """Ratio above which a row is flagged."""

    @property
    @abstractmethod
    def log_threshold(self) -> float:
        """Log of the threshold, finite."""

    @property
    @abstractmethod
    def uses_prior(self) -> bool:
        """Whether labels depend on the value of the prior, which may not be identified."""

    @property
    def label_noise(self) -> float | None:
        """Noise of the flagged share that the page adds to limits; None for the usual rule."""
        return None

    @abstractmethod
    def probability(self, ratio: FloatArray) -> FloatArray:
        """P(positive) of rows with these ratios."""

    @abstractmethod
    def decision(self, fitted: FittedRatio, rows: float | None) -> Decision:
        """The decision on scores; ``rows`` is the number that the prior was estimated on."""

    @abstractmethod
    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Expected:
        """Expected performance of a decision at this prior and cost."""

    @abstractmethod
    def at_cost(self, cost: float) -> CostPoint:
        """The point with another cost, which decides again if a budget did."""

    @abstractmethod
    def at_limits(self, reference: Reference) -> tuple[OperatingPoint, OperatingPoint]:
        """The points at both limits of the prior."""

    @abstractmethod
    def for_page(self, reference: Reference) -> dict[str, Any]:
        """What the script of the page needs to compute probabilities at any prior."""

    def expected(self, fitted: FittedRatio, reference: Reference, rows: float | None) -> Expected:
        """Expected performance, with a lower and an upper limit of each figure."""
        return self.expected_of(self.decision(fitted, rows), fitted, reference)

    def gain(
        self, fitted: FittedRatio, reference: Reference, counts: ScoreTails | None = None
    ) -> Gain:
        """The gain of checking rows, which are counted in ``counts``, or of the prior."""
        return decisions.gain_curve(
            fitted.tails,
            fitted.unlabeled_prior.value,
            self.prior,
            new=counts,
            curves=map_curves(fitted, reference),
        )

    def bounded_ratio(self, log_ratio: FloatArray) -> FloatArray:
        """The ratio, which is at most 1 / training prior."""
        return np.minimum(np.exp(log_ratio), 1 / max(self.train_prior, 1e-12))

    def margin(self, log_ratio: FloatArray) -> FloatArray:
        """Log of the ratio divided by the threshold."""
        return np.asarray(log_ratio - self.log_threshold)

    def is_positive(self, log_ratio: FloatArray) -> BoolArray:
        """Whether rows are flagged."""
        return np.asarray(self.margin(log_ratio) > 0)


@dataclass(frozen=True)
class CostPoint(OperatingPoint):
    """A point whose threshold follows from the cost."""

    prior: PriorEstimate
    cost: Annotated[float, Number(0, 1)] | KeptCosts
    train_prior: Annotated[float, Number(0, 1)]
    labels_at: Annotated[float, Number(0, 1)]

    def __post_init__(self) -> None:
        check_cost("cost", self.cost)

    @property
    def log_threshold(self) -> float:
        threshold = self.threshold
        if math.isinf(threshold):  # only one class; finite, so that the ranking is kept
            return math.copysign(2 * LOG_LIMIT, threshold)
        return float(np.log(threshold)) + tie_break(self.train_prior)  # broken ties stay negative

    def decision(self, fitted: FittedRatio, rows: float | None) -> Decision:
        threshold = self.threshold
        ratio = None if fitted.calibration is None else threshold
        if threshold <= ALL_FLAGGED:
            return decision_at(fitted, -math.inf, ratio, rows)
        if math.isinf(threshold):
            return decision_at(fitted, threshold, ratio, rows)
        return decision_at(fitted, score_above(fitted, self.log_threshold), ratio, rows)

    def at_cost(self, cost: float) -> Self:
        return replace(self, cost=check_cost("cost", cost))

    def at_limits(self, reference: Reference) -> tuple[OperatingPoint, OperatingPoint]:
        return self._at_limit(self.prior.low, reference), self._at_limit(self.prior.high, reference)

    def _at_limit(self, limit: float, reference: Reference) -> OperatingPoint:
        labels_at = limit
        if self.labels_at != self.prior.value:
            # labels move by as much as the log-odds of the prior
            inside = np.clip([self.labels_at, limit, self.prior.value], NEAREST, 1 - NEAREST)
            labels_at = float(expit(logit(inside) @ [1, 1, -1]))
        return self._with_labels_at(labels_at, reference)

    @abstractmethod
    def _with_labels_at(self, labels_at: float, reference: Reference) -> OperatingPoint:
        """The point with labels at another prior."""


@kept("at-prior")
@dataclass(frozen=True)
class AtPrior(CostPoint):
    """Probabilities from the ratio and two priors."""

    @property
    def threshold(self) -> float:
        return ratio_threshold(self.train_prior, self.labels_at, cost=self.cost)

    @property
    def uses_prior(self) -> bool:
        return self.labels_at == self.prior.value

    def probability(self, ratio: FloatArray) -> FloatArray:
        return ratio_posterior(ratio, self.train_prior, self.labels_at)

    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Expected:
        return decisions.expect(decision, fitted.unlabeled_prior, self.prior, cost=self.cost)

    def for_page(self, reference: Reference) -> dict[str, Any]:
        return {"labelsAt": self.labels_at, "map": None}

    def _with_labels_at(self, labels_at: float, reference: Reference) -> OperatingPoint:
        return replace(self, labels_at=labels_at)


@kept("at-answers")
@dataclass(frozen=True)
class AtAnswers(CostPoint):
    """Probabilities from a map of the trained log-odds, which answers gave."""

    map: LogOddsMap

    @property
    def threshold(self) -> float:
        level = (logit(self.cost) - self.map.intercept) / self.map.slope
        largest_ratio = 1 / max(self.train_prior, 1e-12)
        if level >= FARTHEST:  # where log-odds are clipped: one label for all rows
            return 2 * largest_ratio
        if level < -FARTHEST:
            return ALL_FLAGGED
        return float(expit(level) * largest_ratio)

    @property
    def uses_prior(self) -> bool:
        return False

    @property
    def label_noise(self) -> float:
        return decisions.LABEL_NOISE

    def probability(self, ratio: FloatArray) -> FloatArray:
        return self.map.probability(bounded_log_odds(self.train_prior * ratio))

    def expected_of(
        self, decision: Decision, fitted: FittedRatio, reference: Reference
    ) -> Expected:
        curves = map_curves(fitted, reference)
        return decisions.expect_mapped(decision, curves, self.prior, cost=float(self.cost))

    def for_page(self, reference: Reference) -> dict[str, Any]:
        even = reference.map_at(0.5)
        assert even is not None  # the reference has the map of the answers
        answers = {"intercept": even.intercept, "slope": even.slope, "farthest": FARTHEST}
        return {"labelsAt": self.labels_at, "map": answers}

    def _with_labels_at(self, labels_at: float, reference: Reference) -> OperatingPoint:
        moved_map = reference.map_at(labels_at)
        assert moved_map is not None  # as above
        return replace(self, labels_at=labels_at, map=moved_map)


def operating_point(
    fitted: FittedRatio,
    reference: Reference,
    prior: PriorEstimate,
    *,
    cost: float,
    labels_at: float | None = None,
) -> AtPrior | AtAnswers:
    """The point for rows with a prior; labels are made at it unless ``labels_at`` is given."""
    if labels_at is None:
        labels_at = prior.value
    train_prior = fitted.prior.value
    answers_map = reference.map_at(labels_at)
    if answers_map is None:
        return AtPrior(prior, cost, train_prior, labels_at)
    return AtAnswers(prior, cost, train_prior, labels_at, answers_map)


def score_above(fitted: FittedRatio, log_ratio: float) -> float:
    """Smallest held-out positive score with a larger log-ratio; infinite if there is none."""
    above = np.flatnonzero(fitted.level_log_ratios() > log_ratio)
    if not above.size:
        return math.inf
    return float(fitted.tails.levels[above[0]])


def decision_at(
    fitted: FittedRatio, score: float, ratio: float | None, rows: float | None = None
) -> Decision:
    """The decision that flags rows from a score on; ``ratio`` if a calibrated one determines it.

    ``rows`` is the number of rows that the prior was estimated on.
    """
    return decisions.Decision(
        reference=fitted.tails,
        score=score,
        ratio=ratio,
        labelled_fraction=fitted.population.labelled_fraction,
        models=len(fitted.model.functions),
        rows=rows,
        offsets=level_offsets(fitted),
        whole=fitted.model.whole is not None,
    )


def decision_above(fitted: FittedRatio, ratio: float) -> Decision:
    """The decision that flags rows above the ratio ``ratio``."""
    score = ratio
    if not math.isinf(ratio):
        log_ratio = -math.inf
        if ratio > 0:
            log_ratio = float(np.log(ratio)) + tie_break(fitted.prior.value)
        score = score_above(fitted, log_ratio)
    return decision_at(fitted, score, None if fitted.calibration is None else ratio)


def map_curves(fitted: FittedRatio, reference: Reference) -> list[tuple[FloatArray, FloatArray]]:
    """Shares of positives and negatives in or above each cell by the map of answers, if any.

    For the slope and its limits in turn, at the prior of the answers and at its limits.
    """
    answers_map = reference.map
    if answers_map is None:
        return []
    prior = reference.prior
    counts = reference.tails.counts
    z = bounded_log_odds(fitted.cell_probability())
    rows = RowLogOdds.of(z, counts / reference.tails.copies)
    slope = answers_map.slope
    error = 1.96 * np.sqrt(answers_map.covariance[2])
    curves = []
    for possible_slope in (slope, max(slope - error, slope / 10), slope + error):
        sloped_map = replace(answers_map, slope=possible_slope)
        for share in (prior.value, prior.low, prior.high):
            inside = float(np.clip(share, NEAREST, 1 - NEAREST))
            p = sloped_map.with_share(inside, rows).probability(z)
            curves.append((_share_above(counts * p), _share_above(counts * (1 - p))))
    return curves


def _share_above(mass: FloatArray) -> FloatArray:
    """Share of the mass in or above each cell, and 0 above all of them."""
    share = (mass / mass.sum())[::-1].cumsum()[::-1]
    return np.append(share, 0.0)
