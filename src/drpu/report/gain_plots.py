"""Gain and lift curves: positives found when the rows with the highest scores are checked."""

from __future__ import annotations

from typing import Any, Self

from drpu._typing import Rows
from drpu.core.budget import Gain, gain_curve
from drpu.report.judged import fitted_of
from drpu.report.plots import EVEN, POSITIVE, Display
from drpu.report.summary import count_rows

__all__ = ["GainDisplay", "LiftDisplay"]


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
