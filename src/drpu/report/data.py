"""What a report describes: a classifier before and after it is adapted to new rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray, Rows
from drpu.classifier.groups import outputs_by
from drpu.classifier.reading import read_batch
from drpu.decisions.budget import budget_depth
from drpu.decisions.gain import Budget, Gain
from drpu.decisions.performance import Performance, PreparedCounts, decision_rates, expect
from drpu.decisions.point import decision_above
from drpu.decisions.thresholds import ratio_threshold
from drpu.exceptions import (
    DataError,
    DataTypeError,
    DRPUWarning,
    FewPositivesWarning,
    ParameterError,
    heard,
    warn,
)
from drpu.periods.group_priors import GroupPrior, GroupPriors
from drpu.periods.groups import Groups, group_values
from drpu.plots import RocDisplay, fitted_of, prepared_counts
from drpu.priors.estimate import FEW_POSITIVES, PriorEstimate
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails
from drpu.state.batch import Batch
from drpu.state.costs import Costs
from drpu.state.fitted import FittedRatio
from drpu.state.history import Backtest

ROWS = 10_000  # number of rows in the texts of a page without new rows
LISTED = 1000  # most rows in the list of rows to check
REASONS = 3  # columns that are named for and against a row


@dataclass(frozen=True, slots=True)
class RowList:
    """The rows to check, those with the highest probabilities first."""

    n: int  # number of rows to check, of which the first are listed
    position: IntArray  # their positions in the new rows, from 0 on
    probability: FloatArray  # their probability of being positive
    reasons: (
        list[tuple[str, str]] | None
    )  # columns for and against them; None if the model cannot tell
    columns: dict[str, list[Any]]  # values that the user wants to see beside them
    groups: list[str] | None = None  # names of their groups, if there are groups


@dataclass
class ReportData:
    """A classifier at the prior that the page describes, and everything that is known about new rows."""

    current: Any  # the classifier as the page describes it
    new: ScoreTails | None = None  # counts of the new rows
    log_ratios: FloatArray | None = None  # log-ratios of the new rows, the largest first
    flagged: int | None = None  # number of new rows that are flagged
    within_budget: Any = None  # ``current`` with the threshold of a budget, if one was given
    groups: GroupPriors | None = None  # of the new rows, such as months, with their decisions
    listed: RowList | None = None  # the rows to check, if there are new rows
    caught: tuple[DRPUWarning, ...] = ()  # warnings during the adaptation
    suspects: Mapping[str, Any] | None = None  # columns of labels that may be wrong

    @cached_property
    def fitted(self) -> FittedRatio:
        """The fitted state of the classifier."""
        return fitted_of(self.current)

    @cached_property
    def prepared(self) -> PreparedCounts:
        """Counts of training, for the rates of many thresholds."""
        return prepared_counts(self.fitted)

    @property
    def periods(self) -> tuple[GroupPrior, ...]:
        """The groups of the new rows, if there are any."""
        return () if self.groups is None else self.groups.groups

    @property
    def past(self) -> Backtest:
        """How well past periods were read; without periods if there was no backtest."""
        return self.fitted.history or Backtest((), "guarded", 1.0, 0.0)

    @property
    def train(self) -> PriorEstimate:
        """Prior of the training population."""
        return self.fitted.prior

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
    def rows(self) -> int:
        """Number of rows in the texts of the page."""
        return ROWS if self.new is None else max(1, round(self.new.n))

    @property
    def budget(self) -> Budget | None:
        """Expected result of checking the rows of the budget, if one was given."""
        return None if self.within_budget is None else self.within_budget.budget_

    @property
    def to_check(self) -> int:
        """Number of rows to check: the budget of the page, or the rows that are flagged."""
        if self.budget is not None:
            wanted = self.budget.rows
            return round(self.budget.share * self.rows) if wanted is None else wanted
        flagged = (
            round(self.figure("flagged").value * self.rows)
            if self.flagged is None
            else self.flagged
        )
        return min(max(1, flagged), self.rows)

    @property
    def other_shift(self) -> bool:
        """Whether more than the prior seems to have changed."""
        return getattr(self.current, "shift_", "prior") == "other"

    @property
    def few_positives(self) -> bool:
        """Whether few positives were held out, and no warning has said so."""
        said = any(isinstance(warning, FewPositivesWarning) for warning in self.caught)
        return self.fitted.tails.n_positive < FEW_POSITIVES and not said

    @property
    def zoom(self) -> float:
        """Largest share that the axes and the slider need to show."""
        top = max(prior.high for prior in (self.train, self.prior))
        top = max([top, *(period.prior.high for period in self.periods)])
        sizes = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
        return 1.0 if top > 0.1 else next(size for size in sizes if size > 3 * top)

    @cached_property
    def roc(self) -> RocDisplay:
        """ROC curve of the training counts, with the current decision."""
        point = self.figure("false_positive_rate").value, self.figure("recall").value
        prior = self.fitted.unlabeled_prior.value
        return RocDisplay.from_counts(self.fitted.tails, prior, point=point)

    @cached_property
    def gain(self) -> Gain:
        """Share of the positives found by the share of the rows checked."""
        point = self.current.point_
        gain: Gain = point.gain(self.fitted, self.current.reference_, self.new)
        return gain

    def found_at(self, share: float) -> Budget:
        """Expected result of checking this share of the rows, without a threshold."""
        return self.gain.outlook(share, self.fitted.tails.n_positive, self.prior, np.nan)

    def figure(self, name: str, *, as_trained: bool = False) -> Figure:
        """An expected figure with its limits; that of the threshold of training if it is kept."""
        parts = self._as_trained if as_trained else self._expected
        value, low, high = (float(getattr(part, name)) for part in parts)
        return Figure(value, min(low, value), max(high, value))

    @cached_property
    def _expected(self) -> tuple[Performance, ...]:
        return (self.current.expected_performance(), *self.current.expected_range())

    @cached_property
    def _as_trained(self) -> tuple[Performance, ...]:
        pi = self.train.value
        kept = decision_above(self.fitted, ratio_threshold(pi, pi, cost=self.cost))
        rates = decision_rates(kept, self.fitted.unlabeled_prior.value, self.prepared)
        return expect(kept, self.fitted.unlabeled_prior, self.prior, cost=self.cost, rates=rates)


def collect(
    classifier: Any,
    X: Rows | None,
    *,
    cost: float | None = None,
    level: float | None = None,
    by: Any = None,
    audit: Any = None,
    budget: float | None = None,
    beside: Mapping[str, Any] | None = None,
) -> ReportData:
    """The data of a report on a classifier and on new rows, if there are any; each row is scored once."""
    fitted_of(classifier)
    if cost is not None:
        classifier = classifier.at_cost(cost)
    if X is None:
        if any(option is not None for option in (by, audit, beside, level)):
            raise ParameterError("by, audit, beside and level are about new rows: pass them as X.")
        return ReportData(classifier, within_budget=_with_budget(classifier, budget, ROWS))
    groups, member = None, None
    level = 0.95 if level is None else level
    with heard() as caught:
        values, X = (None, X) if by is None else group_values(classifier.fitted_.columns, X, by)
        scored = read_batch(classifier, X)
        by_group = audit if isinstance(audit, Mapping) else None
        current = classifier.adapt(scored, level=level, audit=None if by_group else audit)
        if values is not None:
            groups = current.adapt_by(scored, by=values, level=level, budget=budget, audit=by_group)
            member = Groups.of(values).member
        within_budget = _with_budget(current, budget, scored)
    # what is said about groups replaces what is said about all rows together
    kept = {str(w) if groups is None else type(w): w for w in caught}
    for warning in kept.values():
        warn(warning)
    log_ratio = current.fitted_.log_ratio_of(scored.scores)
    data = ReportData(
        current,
        new=scored.counts,
        log_ratios=np.sort(log_ratio)[::-1],
        flagged=int(current.point_.is_positive(log_ratio).sum()),
        within_budget=within_budget,
        groups=groups,
        caught=tuple(kept.values()),
    )
    data.listed = _listed(data, scored, member, beside or {})
    return data


def _listed(
    data: ReportData, scored: Batch, member: IntArray | None, beside: Mapping[str, Any]
) -> RowList:
    """The rows to check: those with the highest scores, or those that the classifiers of the groups flag."""
    if not isinstance(beside, Mapping):
        raise DataTypeError(
            f"beside must be a mapping such as {{'id': ids}}, got {type(beside).__name__}."
        )
    for name, values in beside.items():
        if len(values) != len(scored):
            raise DataError(
                f"beside must have one value per row, {len(scored)}, got {len(values)} in {name!r}."
            )
    chosen, names = np.ones(len(scored), dtype=bool), None
    probability = np.asarray(data.current._outputs(scored)["probability"])
    log_ratio = data.fitted.log_ratio_of(scored.scores)
    if data.groups is not None and member is not None:
        found = outputs_by(data.groups, scored, member)
        chosen, probability = found["score"] > 0, found["probability"]
    n = data.to_check if data.groups is None else int(chosen.sum())
    top = np.lexsort((-log_ratio, -probability, ~chosen))[: min(n, LISTED)]
    if member is not None:
        names = [str(data.periods[k].name) for k in member[top]]
    columns = {name: [values[i] for i in top.tolist()] for name, values in beside.items()}
    return RowList(
        n, top, probability[top], _reasons(data.current, scored.take(top)), columns, names
    )


def _reasons(current: Any, rows: Batch) -> list[tuple[str, str]] | None:
    """What speaks for and against each row; None if the model has no trees."""
    try:
        return [reason.texts() for reason in current.reasons(rows, REASONS)] if len(rows) else None
    except ParameterError:
        return None


def _with_budget(current: Any, budget: Any, of: Any) -> Any:
    return None if budget is None else current.at_budget(**budget_depth(budget), of=of)
