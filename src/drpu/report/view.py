"""Expected performance of a fitted classifier with any threshold, at any prior."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from drpu._typing import FloatArray, Rows
from drpu.classifier.adapted import Adaptable
from drpu.classifier.fitted import FittedRatio, ScoredRows, score_once
from drpu.classifier.groups import group_values
from drpu.core.budget import Budget
from drpu.core.decision import Costs
from drpu.core.diagnostics import Performance
from drpu.core.performance import Decision, Judge, expect
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.prior.groups import GroupPriors
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataTypeError, DRPUWarning, ParameterError, ShiftWarning

__all__ = ["View", "fitted_of", "judge_of", "judged", "look"]


def fitted_of(classifier: Any) -> FittedRatio:
    """The fitted state of a classifier that can be adapted; raises if it is none, or not fitted."""
    if not isinstance(classifier, Adaptable):
        kind = type(classifier).__name__
        raise DataTypeError(f"classifier must be a fitted DRPUClassifier or AdaptedClassifier, got {kind}.")
    classifier._check_fitted()
    return classifier.fitted_


def judge_of(fitted: FittedRatio) -> Judge:
    """The judge of thresholds on the counts of a fitted classifier."""
    labelled = None if fitted.calibration is None else fitted.labelled_fraction
    return Judge.of(fitted.tails, fitted.unlabeled_prior.value, labelled)


def judged(
    fitted: FittedRatio, judge: Judge, ratio: float, prior: PriorEstimate, cost: float
) -> tuple[Performance, Performance, Performance]:
    """Expected performance and its limits with the threshold ``ratio``."""
    decision = Decision(
        fitted.tails,
        ratio if math.isinf(ratio) else fitted.score_above(ratio),
        ratio if fitted.calibration is not None else None,
        fitted.labelled_fraction,
        len(fitted.model.functions),
    )
    return expect(decision, fitted.unlabeled_prior, prior, cost=cost, judge=judge)


ROWS = 10_000  # number of rows in the texts of a page without new rows


@dataclass(frozen=True, slots=True)
class View:
    """A classifier before and after it is adapted to new rows.

    Attributes
    ----------
    fitted : FittedRatio
        The fitted state of the classifier.
    before, current : classifier
        The classifier at the training prior, and as the page describes it.
    expected, low, high : Performance
        Expected performance of ``current`` with its limits, which contain it.
    judge : Judge
        Gives the expected performance of other thresholds.
    new : ScoreTails or None
        Counts of the new rows.
    log_ratios : ndarray or None
        Log-ratios of the new rows, the largest first.
    day : classifier or None
        ``current`` with the threshold of a budget, if one was given.
    groups : GroupPriors or None
        Priors of groups of the new rows.
    caught : tuple of Warning
        Warnings of the library during the adaptation.
    """

    fitted: FittedRatio
    before: Any
    current: Any
    expected: Performance
    low: Performance
    high: Performance
    judge: Judge
    new: ScoreTails | None = None
    log_ratios: FloatArray | None = None
    day: Any = None
    groups: GroupPriors | None = None
    caught: tuple[Warning, ...] = ()

    @property
    def train(self) -> PriorEstimate:
        """Prior of the training population."""
        found: PriorEstimate = self.current.train_prior_
        return found

    @property
    def prior(self) -> PriorEstimate:
        """Prior that the page describes."""
        found: PriorEstimate = self.current.test_prior_
        return found

    @property
    def cost(self) -> float:
        """False-positive cost that the page shows at first."""
        return float(self.current.cost_)

    @property
    def amounts(self) -> Costs:
        """The cost as two amounts; if none were given, a miss costs 1."""
        cost = self.current.cost_
        return cost if isinstance(cost, Costs) else Costs(self.cost / (1 - self.cost), 1.0)

    @property
    def threshold(self) -> float:
        """Ratio above which rows are flagged."""
        return float(self.current.threshold_)

    @property
    def rows(self) -> int:
        """Number of rows in the texts of the page."""
        return ROWS if self.new is None else max(1, round(self.new.n))

    @property
    def flagged(self) -> int | None:
        """Number of new rows that are flagged."""
        if self.log_ratios is None:
            return None
        return int(np.sum(self.current._margin(self.log_ratios) > 0))

    @property
    def budget(self) -> Budget | None:
        """Expected result of checking the rows of the budget, if one was given."""
        return None if self.day is None else self.day.budget_

    @property
    def moved(self) -> str:
        """A verb for the change of the prior, as far as the intervals support it."""
        if self.prior.low > self.train.high:
            return "rose"
        return "fell" if self.prior.high < self.train.low else "open"

    @property
    def other_shift(self) -> bool:
        """Whether more than the prior seems to have changed."""
        return any(isinstance(warning, ShiftWarning) for warning in self.caught)

    @property
    def zoom(self) -> float:
        """Largest share that the axes and the slider need to show."""
        top = max(prior.high for prior in (self.train, self.prior))
        if self.groups is not None:
            top = max(top, *(group.prior.high for group in self.groups))
        return (
            1.0 if top > 0.1 else next(size for size in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if size > 3 * top)
        )

    def limits(self, name: str) -> tuple[float, float]:
        """Limits of an expected figure."""
        return float(getattr(self.low, name)), float(getattr(self.high, name))

    def cut(self, ratio: float) -> float:
        """Score at which a ratio is exceeded."""
        return ratio if math.isinf(ratio) else self.fitted.score_above(ratio)


def look(
    classifier: Any,
    X: Rows | None,
    *,
    cost: float | None = None,
    level: float = 0.95,
    by: Any = None,
    audit: Any = None,
    budget: float | None = None,
) -> View:
    """The view of a classifier on new rows, if there are any; each row is scored once."""
    depth = None if budget is None else _depth(budget)
    if X is None:
        if by is not None or audit is not None:
            raise ParameterError("by and audit are about new rows: pass them as X.")
        current = classifier if cost is None else classifier.at_prior(classifier.test_prior_, cost=cost)
        return _view(current, day=depth and current.at_budget(**depth, of=ROWS))
    groups = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DRPUWarning)
        values, X = (None, X) if by is None else group_values(classifier, X, by)
        scored = X if isinstance(X, ScoredRows) else score_once(classifier, X)
        current = classifier.adapt(scored, cost=cost, level=level, audit=audit)
        if values is not None:
            groups = current.adapt_by(scored, by=values, level=level)
        day = depth and current.at_budget(**depth, of=scored)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=4)
    kept = {str(w.message): w.message for w in caught if isinstance(w.message, DRPUWarning)}
    return _view(
        current, new=scored.counts, day=day, groups=groups, caught=tuple(kept.values()),
        log_ratios=np.sort(current.fitted_.log_ratio_of(scored.scores))[::-1],
    )  # fmt: skip


def _depth(budget: Any) -> dict[str, Any]:
    """Keywords of ``at_budget``: a share if the budget is a float up to 1, otherwise rows."""
    share = isinstance(budget, float) and budget <= 1
    return {"share": budget} if share else {"rows": budget}


def _view(current: Any, **seen: Any) -> View:
    fitted = current.fitted_
    expected, (low, high) = current.expected_performance(), current.expected_range()
    names = [field.name for field in fields(Performance) if field.name != "threshold"]
    low = replace(low, **{name: min(getattr(low, name), getattr(expected, name)) for name in names})
    high = replace(high, **{name: max(getattr(high, name), getattr(expected, name)) for name in names})
    before = current.at_prior(current.train_prior_)
    return View(fitted, before, current, expected, low, high, judge_of(fitted), **seen)
