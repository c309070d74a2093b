"""Display objects, which hold computed values and draw them with ``plot``.

Each display is made by ``from_classifier``, which computes its numbers from the counts of a
fitted classifier, draws them and returns the display. ``plot`` draws them again, on given
axes or on new ones; ``ax_`` and ``figure_`` are the axes and the figure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from drpu._checks import check_choice
from drpu._optional import require
from drpu._typing import FloatArray, Rows
from drpu.core.budget import Gain, gain_curve
from drpu.core.prior.estimate import PriorEstimate
from drpu.report.summary import (
    CalibrationBins,
    Outlook,
    RatioCurve,
    Roc,
    ScoreBins,
    calibration_bins,
    count_rows,
    outlook,
    ratio_curve,
    roc,
    score_bins,
)
from drpu.report.view import fitted_of

__all__ = [
    "CalibrationDisplay",
    "GainDisplay",
    "LiftDisplay",
    "PerformanceDisplay",
    "PriorDisplay",
    "RocDisplay",
    "ScoreDisplay",
    "TailRatioDisplay",
]

POSITIVE, UNLABELED, NEW, EVEN = "#d55e00", "#6b7680", "#0072b2", "0.7"
FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")


class Display(ABC):
    """Common base of the displays."""

    ax_: Any
    figure_: Any

    def plot(self, ax: Any = None) -> Self:
        """Draw on ``ax`` or on new axes, and return the display."""
        pyplot = require("matplotlib.pyplot", extra="report", for_=type(self).__name__)
        if ax is None:
            _, ax = pyplot.subplots(layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        self._draw(ax)
        return self

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Add the artists."""


class PriorDisplay(Display):
    """Priors of several samples with their intervals.

    Parameters
    ----------
    priors : mapping of str to PriorEstimate
        Priors by the name to show, in the order to show them.

    Examples
    --------
    >>> from drpu import PriorEstimate
    >>> from drpu.plots import PriorDisplay
    >>> display = PriorDisplay({"May": PriorEstimate(0.4, 0.35, 0.45, 0.95, "matching")})
    >>> [tick.get_text() for tick in display.plot().ax_.get_xticklabels()]
    ['May']
    """

    def __init__(self, priors: Mapping[str, PriorEstimate]) -> None:
        self.priors = dict(priors)

    @classmethod
    def from_classifier(cls, classifier: Any, samples: Mapping[str, Rows], *, ax: Any = None) -> Self:
        """Priors of the training rows and of each sample of new rows, by name."""
        priors = {"training": fitted_of(classifier).train_prior}
        for name, rows in samples.items():
            priors[name] = classifier.adapt(rows).prior_
        return cls(priors).plot(ax)

    def _draw(self, ax: Any) -> None:
        names, values = list(self.priors), list(self.priors.values())
        middle = np.array([prior.value for prior in values])
        errors = [middle - [prior.low for prior in values], [prior.high for prior in values] - middle]
        ax.errorbar(range(len(names)), middle, errors, fmt="o", capsize=4, color=NEW)
        ax.set_xticks(range(len(names)), names)
        levels = sorted({f"{prior.level:.0%}" for prior in values})
        ax.set(ylabel=f"share of positives, {'/'.join(levels)} interval", ylim=(0, 1))


class ScoreDisplay(Display):
    """Score distributions of positives, training rows and new rows.

    Parameters
    ----------
    bins : ScoreBins
        Mass in ranges of the score; the first range includes everything below it.
    """

    def __init__(self, bins: ScoreBins) -> None:
        self.bins = bins

    @classmethod
    def from_classifier(
        cls, classifier: Any, X: Rows | None = None, *, bins: int = 24, ax: Any = None
    ) -> Self:
        """Distributions of the training counts of a classifier and, if given, of new rows."""
        new = None if X is None else count_rows(classifier, X)
        return cls(score_bins(fitted_of(classifier).tails, new, bins=bins)).plot(ax)

    def _draw(self, ax: Any) -> None:
        samples = [
            ("training rows", UNLABELED, self.bins.unlabeled),
            ("positives", POSITIVE, self.bins.positive),
        ]
        if self.bins.new is not None:
            samples.append(("new rows", NEW, self.bins.new))
        for name, colour, shares in samples:
            density = self.bins.density(shares)
            ax.stairs(density, self.bins.edges, fill=True, alpha=0.15, color=colour)
            ax.stairs(density, self.bins.edges, label=name, color=colour)
        ax.set(xlabel="score (log of the ratio before calibration)", ylabel="density")
        ax.legend(frameon=False)


class TailRatioDisplay(Display):
    """The tail ratio as a function of recall, and the estimated prior.

    Parameters
    ----------
    curve : RatioCurve
        The curve and the point that determined the upper limit.
    prior : PriorEstimate
        Prior of the rows that were counted.
    """

    def __init__(self, curve: RatioCurve, prior: PriorEstimate) -> None:
        self.curve, self.prior = curve, prior

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """The curve of the unlabeled training rows."""
        core = fitted_of(classifier)
        return cls(ratio_curve(core.tails), core.unlabeled_prior).plot(ax)

    def _draw(self, ax: Any) -> None:
        ax.axhspan(self.prior.low, self.prior.high, color=UNLABELED, alpha=0.15, linewidth=0)
        ax.axhline(self.prior.value, color=UNLABELED, linestyle="--", label=f"prior {self.prior}")
        ax.plot(self.curve.recall, self.curve.ratio, color=NEW)
        ax.plot(*self.curve.read, "o", color=POSITIVE, label="decides the upper limit")
        ax.set(
            xlabel="share of positives above the threshold (recall)",
            ylabel="unlabeled share / positive share",
            xlim=(0, 1),
            ylim=(0, max(1.05, 1.2 * self.prior.high)),
        )
        ax.legend(frameon=False)


class RocDisplay(Display):
    """ROC curve from positives and unlabeled rows.

    Parameters
    ----------
    curve : Roc
        Recall as a function of the false-positive rate, and the area under the curve.
    point : tuple of float, optional
        False-positive rate and recall of the current decision.
    """

    def __init__(self, curve: Roc, point: tuple[float, float] | None = None) -> None:
        self.curve, self.point = curve, point

    @classmethod
    def from_classifier(cls, classifier: Any, *, ax: Any = None) -> Self:
        """The curve of a classifier, with its current decision on it."""
        core, expected = fitted_of(classifier), classifier.expected_performance()
        point = (float(expected.false_positive_rate), float(expected.recall))
        return cls(roc(core.tails, core.unlabeled_prior.value), point).plot(ax)

    def _draw(self, ax: Any) -> None:
        ax.plot([0, 1], [0, 1], color=EVEN, linewidth=1)
        label = f"area {self.curve.area:.3f}"
        ax.plot(self.curve.false_positive_rate, self.curve.recall, color=NEW, label=label)
        if self.point is not None:
            ax.plot(*self.point, "o", color=POSITIVE, label="current decision")
        ax.set(xlabel="negatives flagged", ylabel="positives flagged", xlim=(0, 1), ylim=(0, 1.01))
        ax.legend(frameon=False, loc="lower right")


class CalibrationDisplay(Display):
    """Predicted probabilities and observed proportions in the training population.

    Parameters
    ----------
    bins : CalibrationBins
        Values with two standard errors.
    """

    def __init__(self, bins: CalibrationBins) -> None:
        self.bins = bins

    @classmethod
    def from_classifier(cls, classifier: Any, *, bins: int = 10, ax: Any = None) -> Self:
        """Calibration on held-out training rows."""
        return cls(calibration_bins(fitted_of(classifier), bins=bins)).plot(ax)

    def _draw(self, ax: Any) -> None:
        errors = [self.bins.seen - self.bins.low, self.bins.high - self.bins.seen]
        ax.plot([0, 1], [0, 1], color=EVEN, linewidth=1)
        ax.errorbar(self.bins.said, self.bins.seen, errors, fmt="o", color=NEW)
        ax.set(xlabel="predicted probability", ylabel="observed share", xlim=(0, 1), ylim=(0, 1.01))


class PerformanceDisplay(Display):
    """Expected performance over test priors, with and without adapting.

    Parameters
    ----------
    view : Outlook
        Performance at each prior.
    figure : {"accuracy", "precision", "recall", "flagged", "cost"}, default="accuracy"
        What to draw.
    """

    def __init__(self, view: Outlook, *, figure: str = "accuracy") -> None:
        self.view = view
        self.figure = check_choice("figure", figure, FIGURES)

    @classmethod
    def from_classifier(
        cls, classifier: Any, *, figure: str = "accuracy", cost: float | None = None, ax: Any = None
    ) -> Self:
        """Expected performance of a classifier; ``cost`` defaults to that of the classifier."""
        return cls(outlook(classifier, cost=cost), figure=figure).plot(ax)

    def _draw(self, ax: Any) -> None:
        moved: FloatArray = getattr(self.view.adapted, self.figure)
        kept: FloatArray = getattr(self.view.as_trained, self.figure)
        ax.plot(self.view.prior, moved, color=NEW, label="adapted")
        ax.plot(self.view.prior, kept, color=UNLABELED, linestyle="--", label="as trained")
        ax.set(xlabel="share of positives in new rows", ylabel=f"expected {self.figure}", xlim=(0, 1))
        ax.legend(frameon=False)


class GainDisplay(Display):
    """Share of the positives found by the share of rows checked, in descending order of the score.

    Parameters
    ----------
    gain : Gain
        The curve with its limits.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> from drpu.plots import GainDisplay
    >>> data = make_gaussian_pu(200, 500, prior=0.3, test_prior=0.1, separation=3, random_state=0)
    >>> june = DRPUClassifier("kernel", random_state=0).fit(*data.X_y()).adapt(data.test)
    >>> display = GainDisplay.from_classifier(june, data.test)
    >>> display.ax_.get_ylabel()
    'positives found'
    """

    def __init__(self, gain: Gain) -> None:
        self.gain = gain

    @classmethod
    def from_classifier(cls, classifier: Any, X: Rows | None = None, *, ax: Any = None) -> Self:
        """The curve at the prior of the classifier; depths refer to new rows if they are given."""
        fitted = fitted_of(classifier)
        new = None if X is None else count_rows(classifier, X)
        prior = fitted.unlabeled_prior.value
        return cls(gain_curve(fitted.tails, prior, classifier.test_prior_, new=new)).plot(ax)

    def _draw(self, ax: Any) -> None:
        gain = self.gain
        ax.fill_between(gain.share, gain.low, gain.high, color=POSITIVE, alpha=0.15, linewidth=0)
        ax.plot(gain.share, gain.recall, color=POSITIVE, label="highest scores first")
        ax.plot([0, 1], [0, 1], "--", color=EVEN, label="at random")
        ax.set(xlabel="rows checked", ylabel="positives found", xlim=(0, 1), ylim=(0, 1.02))
        ax.legend(frameon=False)


class LiftDisplay(GainDisplay):
    """Positives found, divided by the positives expected among as many random rows."""

    def _draw(self, ax: Any) -> None:
        gain = self.gain
        some = gain.share > 0
        share = gain.share[some]
        ax.fill_between(
            share, gain.low[some] / share, gain.high[some] / share, color=POSITIVE, alpha=0.15, linewidth=0
        )
        ax.plot(share, gain.lift[some], color=POSITIVE)
        ax.axhline(1, linestyle="--", color=EVEN)
        top = 1.1 * min(float(gain.lift[some].max()), 1 / max(gain.prior, 1e-6))
        ax.set(xlabel="rows checked", ylabel="lift", xlim=(0, 1), ylim=(0, max(top, 1.2)))
