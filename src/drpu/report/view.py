"""The content of a page: a classifier before and after it is adapted to new rows."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._typing import Rows
from drpu.core.costs import Costs
from drpu.core.diagnostics import Performance
from drpu.core.expectation import Decision, expect
from drpu.core.groups import GroupPriors
from drpu.core.prior import PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.estimators.fitted import FittedRatio
from drpu.exceptions import DRPUWarning, ShiftWarning

__all__ = ["View", "look"]

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
    new : ScoreTails or None
        Counts of the new rows.
    flagged : int or None
        Number of new rows that are classified as positive.
    groups : GroupPriors or None
        Priors of groups of the new rows.
    unaudited : classifier or None
        The classifier without the answers of the audit, if there was one.
    caught : tuple of Warning
        Warnings of the library during the adaptation.
    """

    fitted: FittedRatio
    before: Any
    current: Any
    new: ScoreTails | None = None
    flagged: int | None = None
    groups: GroupPriors | None = None
    unaudited: Any = None
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
        """Ratio above which rows are called positive."""
        return float(self.current.threshold_)

    @property
    def rows(self) -> int:
        """Number of rows in the texts of the page."""
        return ROWS if self.new is None else max(1, round(self.new.n))

    @property
    def expected(self) -> Performance:
        """Expected performance at the prior of the page."""
        performance: Performance = self.current.expected_performance()
        return performance

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

    def judged(
        self, ratio: float, prior: PriorEstimate | None = None
    ) -> tuple[Performance, Performance, Performance]:
        """Expected performance with its limits for the threshold ``ratio``, at the prior of the page."""
        fitted = self.fitted
        made = ratio if fitted.calibration is not None else None
        models = len(fitted.model.models)
        decision = Decision(fitted.tails, self.cut(ratio), made, fitted.labelled_fraction, models)
        return expect(decision, fitted.unlabeled_prior, prior or self.prior, cost=self.cost)

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
) -> View:
    """The view of a classifier on new rows, if there are any."""
    if X is None:
        current = classifier if cost is None else classifier.at_prior(classifier.test_prior_, cost=cost)
        return View(current.fitted_, current.at_prior(current.train_prior_), current)
    groups, unaudited = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DRPUWarning)
        if audit is not None:
            unaudited = classifier.adapt(X, cost=cost, level=level)
            current = classifier.adapt(X, cost=cost, level=level, audit=audit)
            labels = current.predict(X)
        else:
            current, labels = classifier.adapt_predict(X, cost=cost, level=level)
        if by is not None:
            groups = current.adapt_by(X, by=by, level=level)
        flagged = int(np.sum(labels == current.classes_[1]))
        new = current.count(X)
    for warning in caught:
        warnings.warn(warning.message, stacklevel=4)
    kept = {str(w.message): w.message for w in caught if isinstance(w.message, DRPUWarning)}
    before = current.at_prior(current.train_prior_)
    return View(current.fitted_, before, current, new, flagged, groups, unaudited, tuple(kept.values()))
