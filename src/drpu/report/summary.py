"""The values that the charts and displays show, computed from counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from drpu._typing import FloatArray, IntArray, Rows
from drpu.classifier.fitted import FittedRatio
from drpu.core.decision import check_cost, ratio_threshold
from drpu.core.diagnostics import Performance
from drpu.core.limits.interval import ratio_limits
from drpu.core.performance import Judge
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.report.view import fitted_of, judge_of, judged

__all__ = [
    "CalibrationBins",
    "Outlook",
    "RatioCurve",
    "Roc",
    "ScoreBins",
    "calibration_bins",
    "count_rows",
    "level_ratios",
    "outlook",
    "ratio_curve",
    "roc",
    "score_bins",
]


def count_rows(classifier: Any, X: Rows) -> ScoreTails:
    """Counts of new rows over the held-out positives of a fitted classifier."""
    counts: ScoreTails = classifier.count(X)
    return counts


def level_ratios(core: FittedRatio) -> FloatArray:
    """Density ratio at each held-out positive score."""
    return np.exp(core.level_log_ratios() - core.tie_break)


# -- where the scores lie ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreBins:
    """Mass of the samples in ranges of the score.

    ``edges`` has one more entry than each list of masses. The first range includes everything
    below it, so its left edge is for drawing only.
    """

    edges: FloatArray
    positive: FloatArray
    unlabeled: FloatArray
    new: FloatArray | None

    def density(self, shares: FloatArray) -> FloatArray:
        """Mass per unit of score."""
        return shares / np.diff(self.edges)


def score_bins(tails: ScoreTails, new: ScoreTails | None = None, *, bins: int = 24) -> ScoreBins:
    """Mass of positives, training rows and new rows in ranges of the score.

    Ranges end at scores of held-out positives, which limit the resolution of the counts.
    """
    levels, b = tails.levels, tails.positive_survival
    inner = levels[(b <= 0.99) & (b >= 0.01)]
    if len(inner) < 2:
        inner = levels
    cuts = np.linspace(inner[0], inner[-1], bins)[:-1]
    first = np.unique(np.searchsorted(levels, cuts, side="left"))  # the level each range starts at
    width = max(float(inner[-1] - inner[0]) / bins, 1e-9)
    edges = np.concatenate(
        ([levels[first[0]] - 2 * width], levels[first], [max(inner[-1], levels[first[-1]] + width)])
    )

    def shares(survival: FloatArray) -> FloatArray:
        return -np.diff(np.concatenate(([1.0], survival[first], [0.0])))

    return ScoreBins(edges, shares(b), shares(tails.survival), None if new is None else shares(new.survival))


# -- the tail ratio -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RatioCurve:
    """Tail ratio: fraction of unlabeled rows above a threshold, divided by that of positives.

    The curve is never below the prior, and its low, flat part shows it. ``read`` is the
    threshold that determined the upper limit.
    """

    recall: FloatArray
    ratio: FloatArray
    read: tuple[float, float]


def ratio_curve(tails: ScoreTails, *, level: float = 0.95) -> RatioCurve:
    """The curve a/b as a function of recall, for thresholds with at least three positives above."""
    b, a = tails.positive_survival, tails.survival
    keep = b * tails.n_positive >= min(3, tails.n_positive) - 1e-9
    recall = ratio_limits(tails, level).recall
    at = int(np.argmin(np.abs(b - recall)))
    return RatioCurve(b[keep], a[keep] / b[keep], (float(b[at]), float(a[at] / b[at])))


# -- ROC curve -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Roc:
    """Recall as a function of the false-positive rate, and the area under the curve."""

    false_positive_rate: FloatArray
    recall: FloatArray
    area: float


def roc(tails: ScoreTails, prior: float) -> Roc:
    """ROC curve without labelled negatives.

    ``prior`` is that of the rows counted in ``tails``. The distribution of the negatives is that
    of the unlabeled rows minus the positives. Where noise would make the rate decrease,
    neighbours are pooled.
    """
    b = np.concatenate(([1.0], tails.positive_survival, [0.0]))
    a = np.concatenate(([1.0], tails.survival, [0.0]))
    wrong = (a - prior * b) / (1 - prior) if prior < 1 else a
    wrong = np.clip(isotonic_regression(wrong[::-1]).x, 0, 1)
    wrong[0], wrong[-1], recall = 0.0, 1.0, b[::-1]
    return Roc(wrong, recall, float(np.trapezoid(recall, wrong)))


# -- calibration ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CalibrationBins:
    """Predicted probability and observed proportion in ranges of the score, with two standard errors."""

    said: FloatArray
    seen: FloatArray
    low: FloatArray
    high: FloatArray


def calibration_bins(core: FittedRatio, *, bins: int = 10) -> CalibrationBins:
    """Predicted probabilities and proportions from the counts, for the training population."""
    tails, share, pi = core.tails, core.labelled_fraction, core.train_prior.value
    start = _equal_mass(tails, bins)
    b = np.add.reduceat(tails.positive_counts / tails.positive_counts.sum(), start)
    a = np.add.reduceat(tails.counts / tails.counts.sum(), start)
    ratio = np.concatenate(([level_ratios(core)[0]], level_ratios(core)))
    mass = share * tails.positive_counts / tails.positive_counts.sum()
    mass = mass + (1 - share) * tails.counts / tails.counts.sum()
    population = np.add.reduceat(mass, start)
    use = population > 0
    said = np.minimum(pi * np.add.reduceat(mass * ratio, start)[use] / population[use], 1)
    seen = pi * b[use] / population[use]
    b, a = np.maximum(b[use], 0.5 / tails.n_positive), np.maximum(a[use], 0.5 / tails.n)
    spread = 2 * np.sqrt((1 - b) / (tails.n_positive * b) + (1 - a) / (tails.n * a))
    return CalibrationBins(
        said, np.minimum(seen, 1), np.minimum(seen * np.exp(-spread), 1), np.minimum(seen * np.exp(spread), 1)
    )


def _equal_mass(tails: ScoreTails, bins: int) -> IntArray:
    mass = tails.positive_counts / tails.positive_counts.sum() + tails.counts / tails.counts.sum()
    below = np.concatenate(([0.0], mass.cumsum()[:-1]))
    return np.unique(
        np.searchsorted(below, np.linspace(0, 2, bins + 1)[:-1], side="left").clip(0, len(mass) - 1)
    )


# -- expected performance--------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outlook:
    """Expected performance over test priors, with and without adapting to them."""

    prior: FloatArray
    adapted: Performance
    as_trained: Performance


def outlook(
    classifier: Any,
    *,
    cost: float | None = None,
    points: int = 99,
    top: float = 1.0,
    judge: Judge | None = None,
) -> Outlook:
    """Expected performance at each test prior up to ``top``, with adapted and with trained threshold.

    The figures are those of ``at_prior(prior, cost=cost).expected_performance()``.
    """
    fitted = fitted_of(classifier)
    c = float(classifier.cost_ if cost is None else check_cost("cost", cost))
    judge = judge_of(fitted) if judge is None else judge
    priors = np.linspace(0, top, points + 2)[1:-1]
    pi = fitted.train_prior.value
    trained = ratio_threshold(pi, pi, cost=c)

    def expected(q: float, ratio: float) -> Performance:
        return judged(fitted, judge, ratio, PriorEstimate.given(q), c)[0]

    adapted = [expected(float(q), ratio_threshold(pi, float(q), cost=c)) for q in priors]
    return Outlook(priors, _stacked(adapted), _stacked([expected(float(q), trained) for q in priors]))


def _stacked(each: list[Performance]) -> Performance:
    """One performance whose figures are arrays."""
    return Performance(
        *(np.array([getattr(one, field.name) for one in each]) for field in fields(Performance))
    )
