"""The threshold of a budget: as many rows as can be checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from drpu._checks import check_fraction, check_integer, check_real
from drpu._codec import Kept, NotKept, Number, kept
from drpu._typing import FloatArray, IntArray
from drpu.decisions.gain import Budget, Gain, gain_curve
from drpu.exceptions import ParameterError
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import score_once

if TYPE_CHECKING:
    from drpu.classifier.decisions import RatioDecisions


def budget_depth(budget: float, most: int | None = None) -> dict[str, Any]:
    """Keywords of ``at_budget``: the share if the budget is a float up to 1, otherwise ``most`` rows."""
    if isinstance(budget, float) and budget <= 1:
        return {"share": budget}
    rows = check_integer("budget", budget, low=1)
    return {"rows": rows if most is None else min(rows, most)}


Unbounded = Annotated[float, Number(-math.inf, math.inf)]


@kept("budget")
@dataclass(frozen=True)
class BudgetThreshold(Kept):
    """The threshold that corresponds to a budget.

    ``score``: Held-out positive score at the same depth of the counts. It is a separate value because a
    row is labelled by the mean of the fold models, whereas the counts are of the scores of single models.
    """

    log_ratio: Unbounded  # log of the ratio above which rows are checked
    score: Unbounded
    outlook: Annotated[Budget | None, NotKept] = (
        None  # figures of the rows checked; None after loading
    )
    # the values below and above the two thresholds, between which they may be moved; None if not known
    gap: Annotated[tuple[float, float] | None, NotKept] = None
    score_gap: Annotated[tuple[float, float] | None, NotKept] = None

    def for_file(self) -> BudgetThreshold:
        """The threshold with few digits.

        The exact values are those of single rows, or lie in the middle between two. The rows that the budget
        was made for keep their labels, and the counts stay as they are; only other rows that lie within the
        rounding, at most 0.00005, may change sides.
        """
        return BudgetThreshold(
            self.log_ratio if self.gap is None else _shortest(*self.gap),
            self.score if self.score_gap is None else _shortest(*self.score_gap),
        )


def _shortest(low: float, high: float) -> float:
    """The middle between two numbers with the fewest digits, at least four, that keep it between them."""
    middle = low + (high - low) / 2
    found = (round(middle, digits) for digits in range(4, 17))
    return next((number for number in found if low < number < high), middle)


def budget_threshold(classifier: RatioDecisions, rows: Any, of: Any, share: Any) -> BudgetThreshold:
    """The threshold of a budget and the expected results; arguments as in ``at_budget``."""
    if (rows is None) == (share is None):
        raise ParameterError(
            "give rows (a number of rows, with of=X) or share (of all rows), and not both: "
            f"got rows={rows!r} and share={share!r}."
        )
    if of is None and rows is not None:
        raise ParameterError(
            "rows needs of: the rows to choose from, their counts, or their number."
        )
    if isinstance(of, (bool, str, bytes)) or (np.isscalar(of) and not isinstance(of, Integral)):
        raise ParameterError(f"of must be rows, their counts or their number, got {of!r:.80}.")
    if of is None or isinstance(of, Integral):
        return _by_counts(classifier, None, *_depth(rows, share, of))
    if isinstance(of, ScoreTails):
        return _by_counts(
            classifier, classifier._own_counts(of, None), *_depth(rows, share, int(of.n))
        )
    scored = score_once(classifier, of)  # the threshold is between two of these rows
    log_ratio: FloatArray = classifier.fitted_.log_ratio_of(scored.scores)
    wanted, depth = _depth(rows, share, len(log_ratio))
    assert wanted is not None
    order: IntArray = np.argsort(-log_ratio, kind="stable")
    first = float(log_ratio[order[wanted - 1]])
    after = float(log_ratio[order[wanted]]) if wanted < len(order) else first - 1.0
    return _by_counts(
        classifier, scored.counts, wanted, depth, gap=(after, first), positions=order[:wanted]
    )


def share_for_recall(classifier: RatioDecisions, recall: float) -> float:
    """Share of the rows to check so that the expected recall is ``recall``."""
    wanted = check_fraction("recall", recall)
    gain = gain_of(classifier)
    return float(np.interp(wanted, gain.recall, gain.share))


def share_for_precision(classifier: RatioDecisions, precision: float) -> float:
    """Largest share of the rows to check with an expected precision of at least ``precision``."""
    wanted = check_fraction("precision", precision)
    gain, prior = gain_of(classifier), classifier.test_prior_.value
    with np.errstate(invalid="ignore", divide="ignore"):
        reached = np.where(gain.share > 0, prior * gain.recall / gain.share, 0.0)
    deep = np.flatnonzero(reached >= wanted)
    if not deep.size:
        raise ParameterError(
            f"precision must be at most {float(reached.max()):.3f} here, got {precision!r}: no threshold is "
            "expected to reach more at this prior."
        )
    return float(gain.share[deep[-1]])


def gain_of(classifier: RatioDecisions, new: ScoreTails | None = None) -> Gain:
    """The gain of checking rows, which are counted in ``new``, or of the prior of the classifier."""
    fitted, prior = classifier.fitted_, classifier.test_prior_
    curves = [] if classifier.findings.map is None else fitted.map_curves()
    return gain_curve(fitted.tails, fitted.unlabeled_prior.value, prior, new=new, curves=curves)


def _depth(rows: Any, share: Any, n: Any) -> tuple[int | None, float]:
    """The number of rows, if it is known, and their share."""
    if share is not None:
        depth = check_real("share", share, low=0.0, high=1.0)
        if depth == 0:
            raise ParameterError("share must be above 0, got 0: no row would be checked.")
        return (None if n is None else max(1, int(depth * check_integer("of", n, low=1)))), depth
    wanted = check_integer("rows", rows, low=1)
    total = check_integer("of", n, low=1)
    if wanted > total:
        rule = f"must not exceed the number of all rows, got {wanted} of {total}."
        raise ParameterError(f"rows {rule}", command=f"--budget {rule}")
    return wanted, wanted / total


def _by_counts(
    classifier: RatioDecisions,
    new: ScoreTails | None,
    rows: int | None,
    depth: float,
    *,
    gap: tuple[float, float] | None = None,
    positions: IntArray | None = None,
) -> BudgetThreshold:
    """The threshold at a level of the counts: those of new rows, or those expected at the prior.

    ``gap`` are the log-ratios of two rows, if the rows are known; the threshold is between them.
    """
    fitted, prior = classifier.fitted_, classifier.test_prior_
    gain = gain_of(classifier, new)
    within = np.flatnonzero(gain.share[1:-1][::-1] <= depth)
    k = (
        int(within[0]) if within.size else len(fitted.tails.levels)
    )  # the first level that keeps the depth
    score = float(fitted.tails.levels[k]) if within.size else float("inf")
    log_ratios = fitted.level_log_ratios()
    if gap is not None:
        log_ratio = gap[1] - (gap[1] - gap[0]) / 2
    else:
        gap = _around(log_ratios, k)
        log_ratio = float(log_ratios[-1]) if gap is None else (gap[0] + gap[1]) / 2
    ratio, n = float(np.exp(log_ratio)), fitted.tails.n_positive
    budget = gain.outlook(depth, n, prior, ratio, rows=rows, positions=positions)
    return BudgetThreshold(log_ratio, score, budget, gap, _around(fitted.tails.levels, k))


def _around(values: FloatArray, k: int) -> tuple[float, float] | None:
    """Values of the level below level ``k`` and of this level; None above the highest level."""
    if k == len(values):  # more rows than the budget lie above the highest level
        return None
    return float(values[k - 1]) if k > 0 else float(values[0]) - 1.0, float(values[k])
