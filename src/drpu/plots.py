"""Display objects: plots of priors, scores, calibration and expected performance.

Each display holds values that were computed from counts, and ``plot`` draws them, like the displays
of scikit-learn. ``from_classifier`` computes, draws and returns a display; ``ax_`` and ``figure_``
are the axes and the figure. The HTML report shows the same figures. Drawing needs matplotlib, which
the extra ``report`` installs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.integrate import trapezoid
from scipy.optimize import isotonic_regression

from drpu._arrays import FloatArray, Rows
from drpu._checks import check_choice, require
from drpu._colours import DECISION, EVEN, NEW, POSITIVE, SHEET, UNLABELED
from drpu._process import DefaultErrors
from drpu.classifier.drpu import AdaptedClassifier, DRPUClassifier
from drpu.decisions.budget import Gain
from drpu.decisions.performance import Performance, PreparedCounts, decision_rates, expect
from drpu.decisions.point import decision_above, operating_point, trained_point
from drpu.exceptions import DataTypeError, ParameterError
from drpu.priors.constants import WIDE_RANGE
from drpu.priors.estimate import PriorEstimate
from drpu.priors.limits import upper_limit
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio, level_log_ratios, level_offsets, tie_break
from drpu.state.population import Backtest
from drpu.state.reference import Reference

__all__ = [
    "BacktestDisplay",
    "CalibrationDisplay",
    "GainDisplay",
    "LiftDisplay",
    "PerformanceDisplay",
    "PrecisionRecallDisplay",
    "PriorDisplay",
    "RocDisplay",
    "ScoreDisplay",
    "TailRatioDisplay",
]

PLOTTED_FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")
LETTERS = 50  # characters that fit below an axis; longer names are turned
SLANTED_NAMES = 15  # names that fit when they are slanted; more of them are upright
MOST_NAMES = 36  # names below an axis; of more of them, every second or third is shown


def fitted_of(classifier: Any) -> FittedRatio:
    """The fitted state of a classifier that can be adapted; raises if it is none, or not fitted."""
    if not isinstance(classifier, (DRPUClassifier, AdaptedClassifier)):
        kind = type(classifier).__name__
        raise DataTypeError(
            f"classifier must be a fitted DRPUClassifier or AdaptedClassifier, got {kind}."
        )
    return classifier.fitted_


def prepared_counts(fitted: FittedRatio) -> PreparedCounts:
    """Counts of a fitted classifier, for the rates of many thresholds."""
    labelled = None if fitted.calibration is None else fitted.population.labelled_fraction
    prior = fitted.unlabeled_prior.value
    offsets = level_offsets(fitted)
    return PreparedCounts.of(fitted.tails, prior, labelled, offsets)


class Display(DefaultErrors, ABC):
    """Common base of the displays."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax`` or on new axes, and return the display."""
        if ax is None:
            pyplot = require("matplotlib.pyplot", extra="report", for_=type(self).__name__)
            _, ax = pyplot.subplots(layout="constrained")
        self.ax_ = ax
        self.figure_ = ax.figure
        self._draw(ax)
        return self

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Add the artists."""


def _in_percent(*axes: Any) -> None:
    """Label the ticks of axes that show shares in percent; six digits are enough for round ones."""
    for axis in axes:
        axis.set_major_formatter(lambda value, _: f"{100 * value:.6g}%")


def _legend(ax: Any) -> None:
    """A legend above the axes, where it hides nothing; none if nothing has a label."""
    handles, _ = ax.get_legend_handles_labels()
    inches = ax.get_position().width * ax.figure.get_figwidth()
    if handles:
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1),
            ncols=2 if inches > 3.5 else 1,
            frameon=False,
            fontsize="small",
            handlelength=1.5,
            columnspacing=1,
        )


def _show_names(ax: Any, names: Sequence[str]) -> None:
    """Names below an axis: all of them, turned where they are long, or every k-th of very many."""
    letters = 0
    short_names = []
    for name in names:
        short_names.append(_short_name(name))
        letters += len(name) + 1
    style: dict[str, Any] = {}
    if len(names) > SLANTED_NAMES:
        style = {"rotation": 90, "fontsize": "small"}
    elif letters > LETTERS:
        style = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    step = math.ceil(len(names) / MOST_NAMES)
    places = range(0, len(names), step)
    ax.set_xticks(places, short_names[::step], **style)


def _draw_limits(ax: Any, x: FloatArray, low: FloatArray, high: FloatArray) -> None:
    ax.fill_between(x, low, high, color=POSITIVE, alpha=0.15, linewidth=0, label="limits")


def _attribute(objects: Iterable[Any], name: str) -> FloatArray:
    return np.array([getattr(item, name) for item in objects])


def _where_narrow(values: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """The values of a curve, NaN where the range is the figure because it is wide."""
    return np.where(high - low > WIDE_RANGE, np.nan, values)


def _round_top(value: float) -> float:
    """A round number above ``value`` for the end of an axis of shares, 1 at most."""
    size = 10.0 ** math.floor(math.log10(max(value, 1e-6)))
    top = size
    for factor in (1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 12):
        top = size * factor
        if top >= 1.08 * value:
            break
    return min(1.0, top)


def _mark_place(ax: Any, x: float, colour: str, name: str, label: str) -> None:
    """A vertical line that the script of the report can move.

    It marks a place on a curve and its limits, and not the value alone.
    """
    ax.axvline(x, color=colour, label=label, gid=name, clip_on=False)


@dataclass
class PriorDisplay(Display):
    """Priors of several samples with their intervals.

    Parameters
    ----------
    priors : mapping of str to PriorEstimate
        Priors by the name to show, in the order to show them.
    whole : PriorEstimate, optional
        Prior of all samples together, drawn as a dashed line.
    shifted : collection of str
        Names of samples in which more than the prior has changed: a cross marks them. Open circles
        mark priors that are not identified.

    Examples
    --------
    >>> from drpu import PriorEstimate
    >>> from drpu.plots import PriorDisplay
    >>> display = PriorDisplay({"May": PriorEstimate(0.4, 0.35, 0.45, 0.95, "matching")})
    >>> [tick.get_text() for tick in display.plot().ax_.get_xticklabels()]
    ['May']
    """

    priors: Mapping[str, PriorEstimate]
    whole: PriorEstimate | None = None
    shifted: Collection[str] = ()

    @classmethod
    def from_classifier(
        cls, classifier: Any, samples: Mapping[str, Rows], *, ax: Any = None
    ) -> Self:
        """Priors of the training rows and of each sample of new rows, by name."""
        priors = {"training": fitted_of(classifier).prior}
        shifted = []
        for name, rows in samples.items():
            adapted = classifier.adapt(rows)
            priors[name] = adapted.prior_
            if adapted.shift_ == "other":
                shifted.append(name)
        return cls(priors, None, shifted).plot(ax)

    def _draw(self, ax: Any) -> None:
        names = list(self.priors)
        priors = self.priors.values()
        values = _attribute(priors, "value")
        lows = _attribute(priors, "low")
        highs = _attribute(priors, "high")
        places = np.arange(len(priors))
        errors = [values - lows, highs - values]
        ax.errorbar(places, values, errors, fmt="none", capsize=4, color=NEW)

        states = np.array([self._state(name) for name in names])
        for state, style in _STATES.items():
            marked = states == state
            if marked.any():
                label = state or None
                ax.plot(places[marked], values[marked], linestyle="none", label=label, **style)
        interval = "/".join(sorted({f"{100 * prior.level:.3g}%" for prior in priors})) + " interval"
        if self.whole is not None:
            ax.axhline(self.whole.value, linestyle="--", color=UNLABELED, label="all together")
            interval = f"joint {100 * self.whole.level:.3g}% intervals"
        if len(priors) <= 4:
            for x, value in zip(places, values, strict=True):
                text = f"{100 * value:.3g}%"
                ax.annotate(text, (x, value), (8, -3), textcoords="offset points")

        _show_names(ax, names)
        ax.set_ylabel(f"share of positives, {interval}")
        ax.set(ylim=(0, _round_top(float(highs.max()))), xlim=(-0.5, len(names) - 0.5))
        _in_percent(ax.yaxis)
        _legend(ax)

    def _state(self, name: str) -> str:
        """What the mark of a sample says, a key of ``_STATES``."""
        if name in self.shifted:
            return "more has changed"
        if not self.priors[name].identified:
            return "not identified"
        return ""


# Marks of samples whose prior is read as usual, is not identified, or in which more than the prior
# has changed.
_STATES: dict[str, dict[str, Any]] = {
    "": {"marker": "o", "color": NEW},
    "not identified": {"marker": "o", "color": NEW, "markerfacecolor": SHEET},
    "more has changed": {"marker": "x", "color": DECISION, "markeredgewidth": 2},
}


def _short_name(name: str) -> str:
    """A name for an axis: the ends of a long one, where most names differ; it is no formula."""
    for letter in set(name):
        if not letter.isprintable():
            name = name.replace(letter, "\N{REPLACEMENT CHARACTER}")
    if len(name) > 16:  # months with their year are shown in full
        name = f"{name[:7]}…{name[-8:]}"
    return name.replace("$", r"\$")


@dataclass
class ScoreDisplay(Display):
    """Score distributions of positives, training rows and new rows.

    Parameters
    ----------
    edges : ndarray
        Ends of ranges of the score. The first range includes everything below it, so its left edge
        is for drawing only.
    positive, unlabeled : ndarray
        Mass of held-out positives and of unlabeled training rows in each range.
    new : ndarray, optional
        Mass of new rows.
    threshold : float, optional
        Score from which rows are flagged.
    """

    edges: FloatArray
    positive: FloatArray
    unlabeled: FloatArray
    new: FloatArray | None = None
    threshold: float | None = None

    @classmethod
    def from_counts(
        cls,
        tails: ScoreTails,
        new: ScoreTails | None = None,
        *,
        bins: int = 24,
        threshold: float | None = None,
    ) -> Self:
        """Distributions of counts; ranges end at scores of held-out positives, as the counts do."""
        levels = tails.levels
        b = tails.positive_survival
        inner = levels[(b <= 0.99) & (b >= 0.01)]
        if len(inner) < 2:
            inner = levels
        cuts = np.linspace(inner[0], inner[-1], bins)[:-1]
        # the level each range starts at
        first = np.unique(np.searchsorted(levels, cuts, side="left"))
        width = max(float(inner[-1] - inner[0]) / bins, 1e-9)
        left = levels[first[0]] - 2 * width
        right = max(inner[-1], levels[first[-1]] + width)
        edges = np.concatenate(([left], levels[first], [right]))

        def mass(survival: FloatArray) -> FloatArray:
            return -np.diff(np.concatenate(([1.0], survival[first], [0.0])))

        mass_of_new = None if new is None else mass(new.survival)
        return cls(edges, mass(b), mass(tails.survival), mass_of_new, threshold)

    @classmethod
    def from_classifier(cls, classifier: Any, X: Rows | None = None, *, ax: Any = None) -> Self:
        """Distributions of the training counts of a classifier and, if given, of new rows."""
        fitted = fitted_of(classifier)
        new = None if X is None else classifier.count(X)
        threshold = decision_above(fitted, classifier.threshold_).score
        return cls.from_counts(fitted.tails, new, threshold=threshold).plot(ax)

    def _draw(self, ax: Any) -> None:
        self._draw_density(ax, self.unlabeled, UNLABELED, "training rows")
        self._draw_density(ax, self.positive, POSITIVE, "positives")
        if self.new is not None:
            self._draw_density(ax, self.new, NEW, "new rows")
        left = float(self.edges[0])
        right = float(self.edges[-1])
        if self.threshold is not None:
            place = min(max(self.threshold, left), right)
            label = "flagged from here on"
            _mark_place(ax, place, DECISION, "cut", label)
        ax.set_xlabel("score (log of the ratio before calibration)")
        ax.set(ylabel="density", xlim=(left, right))
        _legend(ax)

    def _draw_density(self, ax: Any, mass: FloatArray, colour: str, label: str) -> None:
        density = mass / np.diff(self.edges)
        ax.stairs(density, self.edges, fill=True, alpha=0.15, color=colour)
        ax.stairs(density, self.edges, label=label, color=colour)


@dataclass
class TailRatioDisplay(Display):
    """The tail ratio as a function of recall, and the estimated prior.

    The tail ratio is the fraction of unlabeled rows above a threshold, divided by that of
    positives. The curve is never below the prior, except for noise, and its low, flat part shows
    it.

    Parameters
    ----------
    recall, ratio : ndarray
        The curve, for thresholds with at least three positives above.
    read : tuple of float
        Its point that determined the upper limit of the prior.
    prior : PriorEstimate
        Prior of the rows that were counted.
    """

    recall: FloatArray
    ratio: FloatArray
    read: tuple[float, float]
    prior: PriorEstimate

    @classmethod
    def from_counts(cls, tails: ScoreTails, prior: PriorEstimate) -> Self:
        """The curve of counts."""
        b = tails.positive_survival
        a = tails.survival
        keep = b * tails.n_positive >= min(3, tails.n_positive) - 1e-9
        decisive_recall = upper_limit(tails, prior.level).recall
        k = int(np.argmin(np.abs(b - decisive_recall)))
        decisive_point = (float(b[k]), float(a[k] / b[k]))
        return cls(b[keep], a[keep] / b[keep], decisive_point, prior)

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """The curve of the unlabeled training rows."""
        fitted = fitted_of(classifier)
        return cls.from_counts(fitted.tails, fitted.unlabeled_prior).plot(ax)

    def _draw(self, ax: Any) -> None:
        prior = self.prior
        interval = f"{prior.level:.0%} interval"
        label = f"prior {100 * prior.value:.3g}%"
        ax.axhspan(prior.low, prior.high, color=UNLABELED, alpha=0.15, linewidth=0, label=interval)
        ax.axhline(prior.value, color=UNLABELED, linestyle="--", label=label)
        ax.plot(self.recall, self.ratio, color=NEW)
        ax.plot(*self.read, "o", color=POSITIVE, label="decides the upper limit")
        ax.set(
            xlabel="share of positives above the threshold (recall)",
            ylabel="unlabeled share / positive share",
            xlim=(0, 1),
            ylim=(0, max(1.3 * prior.high, min(4 * self.read[1], 1.4))),
        )
        _in_percent(ax.xaxis)
        _legend(ax)


@dataclass
class RocDisplay(Display):
    """ROC curve from positives and unlabeled rows.

    Parameters
    ----------
    false_positive_rate, recall : ndarray
        The curve.
    area : float
        Area under it.
    point : tuple of float, optional
        False-positive rate and recall of the current decision.
    """

    false_positive_rate: FloatArray
    recall: FloatArray
    area: float
    point: tuple[float, float] | None = None

    @classmethod
    def from_counts(
        cls, tails: ScoreTails, prior: float, *, point: tuple[float, float] | None = None
    ) -> Self:
        """The curve without labelled negatives.

        ``prior`` is that of the rows counted in ``tails``. The distribution of the negatives is
        that of the unlabeled rows minus the positives. Where noise would make the rate decrease,
        neighbours are pooled.
        """
        b = np.concatenate(([1.0], tails.positive_survival, [0.0]))
        a = np.concatenate(([1.0], tails.survival, [0.0]))
        negative_survival = a
        if prior < 1:
            negative_survival = (a - prior * b) / (1 - prior)
        false_positive_rate = np.clip(isotonic_regression(negative_survival[::-1]).x, 0, 1)
        false_positive_rate[0] = 0.0
        false_positive_rate[-1] = 1.0
        recall = b[::-1]
        area = float(trapezoid(recall, false_positive_rate))
        return cls(false_positive_rate, recall, area, point)

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """The curve of a classifier, with its current decision on it."""
        fitted = fitted_of(classifier)
        expected = classifier.expected_performance()
        point = (expected.false_positive_rate.value, expected.recall.value)
        return cls.from_counts(fitted.tails, fitted.unlabeled_prior.value, point=point).plot(ax)

    def _draw(self, ax: Any) -> None:
        ax.plot([0, 1], [0, 1], "--", color=EVEN, linewidth=1)
        ax.plot(self.false_positive_rate, self.recall, color=NEW, label=f"area {self.area:.3f}")
        if self.point is not None:
            label = "current decision"  # a point that the script of the report can move
            style = {"color": DECISION, "gid": "cut", "zorder": 3, "clip_on": False}
            ax.plot(*self.point, "o", label=label, **style)
        ax.set(xlabel="negatives flagged", ylabel="positives flagged", xlim=(0, 1), ylim=(0, 1.01))
        _in_percent(ax.xaxis, ax.yaxis)
        _legend(ax)


@dataclass
class CalibrationDisplay(Display):
    """Predicted probabilities and expected shares in ranges of the score, in training.

    Rows of training have no true labels: the share of positives follows from the counts.

    Parameters
    ----------
    predicted, expected : ndarray
        Predicted probability and expected share of positives of each range.
    low, high : ndarray
        Two standard errors around the expected share.
    """

    predicted: FloatArray
    expected: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def from_fitted(cls, fitted: FittedRatio, *, bins: int = 10) -> Self:
        """Probabilities and shares from the counts, for the training population."""
        tails = fitted.tails
        fraction = fitted.population.labelled_fraction
        pi = fitted.prior.value
        positive = tails.positive_counts / tails.positive_counts.sum()
        unlabeled = tails.counts / tails.counts.sum()
        mass = fraction * positive + (1 - fraction) * unlabeled
        ratio = np.exp(level_log_ratios(fitted) - tie_break(pi))  # at the held-out positives
        ratio = np.concatenate((ratio[:1], ratio))

        # ranges of equal mass
        below = np.concatenate(([0.0], (positive + unlabeled).cumsum()[:-1]))
        start = np.searchsorted(below, np.linspace(0, 2, bins + 1)[:-1], side="left")
        start = np.unique(start.clip(0, len(below) - 1))
        population = np.add.reduceat(mass, start)
        use = population > 0
        population = population[use]
        b = np.add.reduceat(positive, start)[use]
        a = np.add.reduceat(unlabeled, start)[use]
        predicted = pi * np.add.reduceat(mass * ratio, start)[use] / population
        expected = pi * b / population

        b = np.maximum(b, 0.5 / tails.n_positive)
        a = np.maximum(a, 0.5 / tails.n)
        spread = 2 * np.sqrt((1 - b) / (tails.n_positive * b) + (1 - a) / (tails.n * a))
        low = expected * np.exp(-spread)
        high = expected * np.exp(spread)
        return cls(*np.minimum([predicted, expected, low, high], 1))

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """Calibration on held-out training rows."""
        return cls.from_fitted(fitted_of(classifier)).plot(ax)

    def _draw(self, ax: Any) -> None:
        errors = [self.expected - self.low, self.high - self.expected]
        top = _round_top(float(max(self.predicted.max(), self.high.max())))
        ax.plot([0, top], [0, top], "--", color=EVEN, linewidth=1, label="predicted = expected")
        label = "two standard errors"
        ax.errorbar(self.predicted, self.expected, errors, fmt="o", color=NEW, label=label)
        ax.set(xlabel="predicted probability", ylabel="expected share")
        ax.set(xlim=(0, top), ylim=(0, 1.01 * top))
        _in_percent(ax.xaxis, ax.yaxis)
        _legend(ax)


@dataclass
class PerformanceDisplay(Display):
    """Expected performance over test priors, with and without adapting.

    Parameters
    ----------
    priors : ndarray
        Test priors.
    adapted, as_trained : tuple of Performance
        Performance at each prior if the threshold follows it, and with the threshold of training.
    figure : {"accuracy", "precision", "recall", "flagged", "cost"}, default="accuracy"
        What to draw.
    prior : float, optional
        Prior that is marked.
    """

    priors: FloatArray
    adapted: tuple[Performance, ...]
    as_trained: tuple[Performance, ...]
    figure: str = "accuracy"
    prior: float | None = None

    def __post_init__(self) -> None:
        check_choice("figure", self.figure, PLOTTED_FIGURES)

    @classmethod
    def from_fitted(
        cls,
        fitted: FittedRatio,
        *,
        cost: float,
        points: int = 99,
        top: float = 1.0,
        **drawn: Any,
    ) -> Self:
        """Performance at ``points`` priors below ``top``, as of ``at_prior(prior).at_cost(cost)``.

        ``drawn`` are the fields ``figure`` and ``prior``.
        """
        prepared = prepared_counts(fitted)
        unlabeled_prior = fitted.unlabeled_prior

        def expected(threshold: float, prior: float) -> Performance:
            decision = decision_above(fitted, threshold)
            rates = decision_rates(decision, unlabeled_prior, prepared)
            test_prior = PriorEstimate.given(prior)
            return expect(decision, unlabeled_prior, test_prior, cost=cost, rates=rates)

        reference = Reference.of_training(fitted)
        trained_threshold = trained_point(fitted.prior, cost).threshold
        priors = np.linspace(0, top, points + 2)[1:-1]
        adapted = []
        as_trained = []
        for prior in priors.tolist():
            point = operating_point(fitted, reference, PriorEstimate.given(prior), cost=cost)
            adapted.append(expected(point.threshold, prior))
            as_trained.append(expected(trained_threshold, prior))
        return cls(priors, tuple(adapted), tuple(as_trained), **drawn)

    @classmethod
    def from_classifier(cls, classifier: Any, *, figure: str = "accuracy", ax: Any = None) -> Self:
        """Expected performance of a classifier at its cost."""
        fitted = fitted_of(classifier)
        cost = float(classifier.cost_)
        prior = classifier.test_prior_.value
        return cls.from_fitted(fitted, cost=cost, figure=figure, prior=prior).plot(ax)

    def _draw(self, ax: Any) -> None:
        adapted = _values_of(self.adapted, self.figure)
        as_trained = _values_of(self.as_trained, self.figure)
        ax.plot(
            self.priors, as_trained, color=UNLABELED, linestyle="--", label="threshold as trained"
        )
        ax.plot(self.priors, adapted, color=NEW, label="threshold follows the share")
        if self.prior is not None:
            _mark_place(ax, self.prior, DECISION, "cut", "current share")
        top = float(self.priors[-1] + self.priors[0])
        ax.set(xlabel="share of positives in new rows", xlim=(0, top))
        ax.set_ylabel(f"expected {self.figure}")
        if self.figure == "cost":
            ax.set_ylim(0, 1.1 * max(float(adapted.max()), float(as_trained.max()), 1e-9))
        else:
            _in_percent(ax.yaxis)
        _in_percent(ax.xaxis)
        _legend(ax)


def _values_of(performances: Sequence[Performance], figure: str) -> FloatArray:
    return np.array([getattr(performance, figure).value for performance in performances])


def _gain_of(classifier: Any, X: Rows | None) -> Gain:
    fitted = fitted_of(classifier)
    counts = None if X is None else classifier.count(X)
    gain: Gain = classifier.point_.gain(fitted, classifier.reference_, counts)
    return gain


@dataclass
class GainDisplay(Display):
    """Share of the positives found by the share of rows checked, in descending order of the score.

    Parameters
    ----------
    gain : Gain
        The curve with its limits.
    flagged, checked : float, optional
        Shares of the rows that are flagged, and of those of a budget.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> from drpu.plots import GainDisplay
    >>> data = make_gaussian_pu(200, 500, prior=0.3, test_prior=0.1, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> june = clf.adapt(data.test)
    >>> display = GainDisplay.from_classifier(june, data.test)
    >>> display.ax_.get_ylabel()
    'positives found'
    """

    gain: Gain
    flagged: float | None = None
    checked: float | None = None

    @classmethod
    def from_classifier(cls, classifier: Any, X: Rows | None = None, *, ax: Any = None) -> Self:
        """The curve at the prior of the classifier; depths refer to new rows if they are given."""
        gain = _gain_of(classifier, X)
        return cls(gain, classifier.expected_performance().flagged.value).plot(ax)

    def _draw(self, ax: Any) -> None:
        gain = self.gain
        _draw_limits(ax, gain.share, gain.low, gain.high)
        recall = _where_narrow(gain.recall, gain.low, gain.high)
        ax.plot(gain.share, recall, color=POSITIVE, label="highest scores first")
        ax.plot([0, 1], [0, 1], "--", color=EVEN, label="at random")
        nine_of_ten = int(np.searchsorted(gain.recall, 0.9))
        reach = max(float(gain.share[nine_of_ten]), 2 * gain.prior, 1e-4)
        if self.flagged is not None:
            _mark_place(ax, self.flagged, DECISION, "cut", "the rows flagged")
            reach = max(reach, 1.5 * self.flagged)
        if self.checked is not None:
            _mark_place(ax, self.checked, NEW, "checked", "the rows to check")
            reach = max(reach, 1.5 * self.checked)
        end = _round_top(min(1.0, reach))
        ax.set(xlabel="rows checked", ylabel="positives found", xlim=(0, end), ylim=(0, 1.02))
        _in_percent(ax.xaxis, ax.yaxis)
        _legend(ax)


@dataclass
class PrecisionRecallDisplay(Display):
    """Expected precision at every recall, with a band of limits.

    Parameters
    ----------
    recall, precision : ndarray
        The curve, from the highest threshold on.
    low, high : ndarray
        Limits of precision at each point, from the counts and from the interval of the prior.
    prior : float
        Prior of the rows: the precision of rows at random.
    point : tuple of float, optional
        Recall and precision of the current decision.
    """

    recall: FloatArray
    precision: FloatArray
    low: FloatArray
    high: FloatArray
    prior: float
    point: tuple[float, float] | None = None

    @classmethod
    def from_gain(
        cls,
        gain: Gain,
        n_positive: float,
        prior: PriorEstimate,
        *,
        point: tuple[float, float] | None = None,
    ) -> Self:
        """The curve at no more than 200 thresholds of a gain curve, as in ``at_budget``."""
        positions = np.flatnonzero((gain.share > 0) & (gain.recall > 0))
        positions = positions[np.unique(np.linspace(0, len(positions) - 1, 200).astype(int))]
        shares = gain.share[positions].tolist()
        recall = []
        precision = []
        for share in shares:
            outlook = gain.outlook(share, n_positive, prior, math.nan)
            recall.append(outlook.recall.value)
            precision.append(outlook.precision)
        if point is not None and math.isnan(point[1]):  # nothing is flagged
            point = (point[0], 1.0)
        return cls(
            recall=np.array(recall),
            precision=_attribute(precision, "value"),
            low=_attribute(precision, "low"),
            high=_attribute(precision, "high"),
            prior=prior.value,
            point=point,
        )

    @classmethod
    def from_classifier(cls, classifier: Any, X: Rows | None = None, *, ax: Any = None) -> Self:
        """The curve at the prior of the classifier, with its current decision on it.

        With new rows, precision is that of their counts; otherwise it follows from the prior.
        """
        gain = _gain_of(classifier, X)
        expected = classifier.expected_performance()
        point = (expected.recall.value, expected.precision.value)
        n_positive = classifier.fitted_.tails.n_positive
        return cls.from_gain(gain, n_positive, classifier.test_prior_, point=point).plot(ax)

    def _draw(self, ax: Any) -> None:
        _draw_limits(ax, self.recall, self.low, self.high)
        precision = _where_narrow(self.precision, self.low, self.high)
        ax.plot(self.recall, precision, color=POSITIVE, label="highest scores first")
        ax.axhline(self.prior, linestyle="--", color=EVEN, label="at random")
        if self.point is not None:
            _mark_place(ax, self.point[0], DECISION, "cut", "the rows flagged")
        ax.set_xlabel("positives found (recall)")
        ax.set_ylabel("checked rows that are positive (precision)")
        ax.set(xlim=(0, 1), ylim=(0, 1.02))
        _in_percent(ax.xaxis, ax.yaxis)
        _legend(ax)


@dataclass
class BacktestDisplay(Display):
    """Moves of the odds of a positive in past periods: by the labels, and as read without them.

    The error bars are two standard deviations: of the counts, and of the errors of past readings.

    Parameters
    ----------
    backtest : Backtest
        Of a classifier that was fitted with periods.

    Examples
    --------
    >>> from drpu.periods.moves import PastPeriod, backtest_of
    >>> from drpu.plots import BacktestDisplay
    >>> past = [
    ...     PastPeriod(f"2026-0{k}", 500, 40, 0.02 * k, 0.0001, 0.02 * k, 0.03 * k)
    ...     for k in range(1, 6)
    ... ]
    >>> BacktestDisplay(backtest_of(past)).plot().ax_.get_ylabel()
    'odds of a positive, by a factor of'
    """

    backtest: Backtest

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """The backtest of a classifier."""
        backtest = fitted_of(classifier).history
        if backtest is None:
            raise ParameterError("classifier must have a backtest: fit it with periods.")
        return cls(backtest).plot(ax)

    def _draw(self, ax: Any) -> None:
        periods = self.backtest.periods
        seen = _attribute(periods, "seen")
        read = np.array(self.backtest.to_columns()["read"])
        used = np.array([period.used for period in periods])
        error_seen = 2 * np.sqrt(_attribute(periods, "noise"))
        error_read = 2 * self.backtest.spread
        places = np.arange(len(periods))
        left = places - 0.1
        right = places + 0.1
        ax.axhline(0, color=EVEN, linewidth=0.8)
        by_labels = {"fmt": "o", "color": POSITIVE, "label": "by the labels"}
        ax.errorbar(left, seen, error_seen, capsize=4, **by_labels)
        without_labels = {"fmt": "s", "color": NEW, "label": "read without them"}
        ax.errorbar(right, read, error_read, capsize=4, **without_labels)
        if not used.all():
            ax.plot(left[~used], seen[~used], "x", color=DECISION, label="not used")
        _show_names(ax, [period.name for period in periods])
        ax.set_ylabel("odds of a positive, by a factor of")
        ax.yaxis.set_major_formatter(_factor)
        _legend(ax)


def _factor(log_odds: float, _position: int) -> str:
    """A tick of log-odds as a factor of odds."""
    factor = math.exp(min(log_odds, 700))
    return f"{factor:,.0f}" if 100 <= factor < 1e6 else f"{factor:.2g}"


class LiftDisplay(GainDisplay):
    """Positives found, divided by the positives expected among as many random rows."""

    def _draw(self, ax: Any) -> None:
        gain = self.gain
        checked = gain.share > 0
        share = gain.share[checked]
        lift = gain.lift[checked]
        low = gain.low[checked] / share
        high = gain.high[checked] / share
        _draw_limits(ax, share, low, high)
        ax.plot(share, lift, color=POSITIVE)
        ax.axhline(1, linestyle="--", color=EVEN)
        top = 1.1 * min(float(lift.max()), 1 / max(gain.prior, 1e-6))
        ax.set(xlabel="rows checked", ylabel="lift", xlim=(0, 1), ylim=(0, max(top, 1.2)))
        _in_percent(ax.xaxis)
