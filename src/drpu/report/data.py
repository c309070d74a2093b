"""What a report describes: a classifier before and after it is adapted to new rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

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
MOST_ROWS = 1000  # in the list of rows to check
REASONS = 3  # columns that are named for and against a row
AXIS_ENDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # of axes that show small shares


@dataclass(frozen=True, slots=True)
class NewRows:
    """New rows, and what the user knows and asks about them; see ``render_report``."""

    X: Rows
    level: float
    by: Any
    audit: Any
    columns: Mapping[str, Any]  # the option ``beside``: values to show beside the rows

    @classmethod
    def of(
        cls,
        X: Rows | None,
        *,
        level: Any = None,
        by: Any = None,
        audit: Any = None,
        beside: Any = None,
    ) -> Self | None:
        """The new rows with these options, None if there are no rows."""
        if X is not None:
            return cls(X, 0.95 if level is None else level, by, audit, beside or {})
        for option in (level, by, audit, beside):
            if option is not None:
                text = "by, audit, beside and level are about new rows: pass them as X."
                raise ParameterError(text)
        return None


@dataclass(frozen=True, slots=True)
class RowList:
    """The rows to check, those with the highest probabilities first.

    ``reasons`` are the columns that speak for and against each row; None if the model cannot tell.
    """

    n: int  # number of rows to check, of which the first are listed
    position: IntArray  # their positions in the new rows, from 0 on
    probability: FloatArray  # their probability of being positive
    reasons: list[tuple[str, str]] | None
    columns: dict[str, list[Any]]  # values that the user wants to see beside them
    groups: list[str] | None = None  # names of their groups, if there are groups


@dataclass
class ReportData:
    """A classifier at the prior that the page describes, and what is known about new rows."""

    current: Any  # the classifier as the page describes it
    new: ScoreTails | None = None  # counts of the new rows
    log_ratios: FloatArray | None = None  # log-ratios of the new rows, the largest first
    flagged: int | None = None  # number of new rows that are flagged
    within_budget: Any = None  # ``current`` with the threshold of a budget, if one was given
    groups: GroupPriors | None = None  # of the new rows, such as months, with their decisions
    row_list: RowList | None = None  # the rows to check, if there are new rows
    warnings: tuple[DRPUWarning, ...] = ()  # issued during the adaptation
    suspects: Mapping[str, Any] | None = None  # columns of labels that may be wrong
    by_name: str = "group"  # what the groups are, such as "month"

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
        if self.groups is None:
            return ()
        return self.groups.groups

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
        prior: PriorEstimate = self.current.test_prior_
        return prior

    @property
    def cost(self) -> float:
        """False-positive cost that the page shows at first."""
        return float(self.current.cost_)

    @property
    def amounts(self) -> Costs:
        """The cost as two amounts; if none were given, a miss costs 1."""
        cost = self.current.cost_
        if isinstance(cost, Costs):
            return cost
        return Costs(self.cost / (1 - self.cost), 1.0)

    @property
    def rows(self) -> int:
        """Number of rows in the texts of the page."""
        if self.new is None:
            return ROWS
        return max(1, round(self.new.n))

    @property
    def budget(self) -> Budget | None:
        """Expected result of checking the rows of the budget, if one was given."""
        if self.within_budget is None:
            return None
        budget: Budget = self.within_budget.budget_
        return budget

    @property
    def expected_flagged(self) -> int:
        """Number of rows that are flagged: counted in new rows, otherwise expected."""
        if self.flagged is None:
            return round(self.figure("flagged").value * self.rows)
        return self.flagged

    @property
    def to_check(self) -> int:
        """Number of rows to check: the budget of the page, or the rows that are flagged."""
        if self.budget is None:
            return min(max(1, self.expected_flagged), self.rows)
        if self.budget.rows is None:
            return round(self.budget.share * self.rows)
        return self.budget.rows

    @property
    def other_shift(self) -> bool:
        """Whether more than the prior seems to have changed."""
        return getattr(self.current, "shift_", "prior") == "other"

    @property
    def few_positives(self) -> bool:
        """Whether few positives were held out, and no warning has said so."""
        for warning in self.warnings:
            if isinstance(warning, FewPositivesWarning):
                return False
        return self.fitted.tails.n_positive < FEW_POSITIVES

    @property
    def zoom(self) -> float:
        """Largest share that the axes and the slider need to show."""
        highest = max(self.train.high, self.prior.high)
        for period in self.periods:
            highest = max(highest, period.prior.high)
        for end in AXIS_ENDS:
            if highest <= 0.1 and end > 3 * highest:
                return end
        return 1.0

    @cached_property
    def roc(self) -> RocDisplay:
        """ROC curve of the training counts, with the current decision."""
        point = (self.figure("false_positive_rate").value, self.figure("recall").value)
        prior = self.fitted.unlabeled_prior.value
        return RocDisplay.from_counts(self.fitted.tails, prior, point=point)

    @cached_property
    def gain(self) -> Gain:
        """Share of the positives found by the share of the rows checked."""
        gain: Gain = self.current.point_.gain(self.fitted, self.current.reference_, self.new)
        return gain

    def checking(self, share: float) -> Budget:
        """Expected result of checking this share of the rows, without a threshold."""
        return self.gain.outlook(share, self.fitted.tails.n_positive, self.prior, np.nan)

    def figure(self, name: str) -> Figure:
        """An expected figure with its limits."""
        return _figure(name, *self._expected)

    def figure_as_trained(self, name: str) -> Figure:
        """The figure if the threshold stays that of training."""
        return _figure(name, *self._as_trained)

    @cached_property
    def _expected(self) -> tuple[Performance, ...]:
        return (self.current.expected_performance(), *self.current.expected_range())

    @cached_property
    def _as_trained(self) -> tuple[Performance, ...]:
        pi = self.train.value
        decision = decision_above(self.fitted, ratio_threshold(pi, pi, cost=self.cost))
        unlabeled_prior = self.fitted.unlabeled_prior
        rates = decision_rates(decision, unlabeled_prior.value, self.prepared)
        return expect(decision, unlabeled_prior, self.prior, cost=self.cost, rates=rates)


def _figure(name: str, expected: Performance, low: Performance, high: Performance) -> Figure:
    value = float(getattr(expected, name))
    least = float(getattr(low, name))
    most = float(getattr(high, name))
    return Figure(value, min(least, value), max(most, value))


def collect(
    classifier: Any,
    new_rows: NewRows | None = None,
    *,
    cost: float | None = None,
    budget: float | None = None,
) -> ReportData:
    """The data of a report on a classifier and, if there are any, on new rows."""
    fitted_of(classifier)
    if cost is not None:
        classifier = classifier.at_cost(cost)
    if new_rows is not None:
        return _adapt(classifier, new_rows, budget)
    return ReportData(classifier, within_budget=_with_budget(classifier, budget, ROWS))


def _adapt(classifier: Any, new_rows: NewRows, budget: float | None) -> ReportData:
    """The data of a report on a classifier and new rows; each row is scored once."""
    X = new_rows.X
    level = new_rows.level
    audit = new_rows.audit
    audits_of_groups = None
    if isinstance(audit, Mapping):
        audits_of_groups = audit
        audit = None
    groups = None
    member = None
    with heard() as issued:
        if new_rows.by is not None:
            group_of_row, X = group_values(classifier.fitted_.columns, X, new_rows.by)
        scored = read_batch(classifier, X)
        current = classifier.adapt(scored, level=level, audit=audit)
        if new_rows.by is not None:
            groups = current.adapt_by(
                scored, by=group_of_row, level=level, budget=budget, audit=audits_of_groups
            )
            member = Groups.of(group_of_row).member
        within_budget = _with_budget(current, budget, scored)
    warnings = _last_warnings(issued, of_each_kind=groups is not None)
    for warning in warnings:
        warn(warning)
    log_ratio = current.fitted_.log_ratio_of(scored.scores)
    data = ReportData(
        current,
        new=scored.counts,
        log_ratios=np.sort(log_ratio)[::-1],
        flagged=int(current.point_.is_positive(log_ratio).sum()),
        within_budget=within_budget,
        groups=groups,
        warnings=warnings,
    )
    data.row_list = _list_rows(data, scored, member, new_rows.columns)
    return data


def _last_warnings(issued: Iterable[DRPUWarning], *, of_each_kind: bool) -> tuple[DRPUWarning, ...]:
    """The last warning of each text, or of each kind.

    With groups it is that of each kind, because a warning about groups replaces the same warning
    about all rows together.
    """
    last: dict[Any, DRPUWarning] = {}
    for warning in issued:
        key = type(warning) if of_each_kind else str(warning)
        last[key] = warning
    return tuple(last.values())


def _list_rows(
    data: ReportData, scored: Batch, member: IntArray | None, columns: Mapping[str, Any]
) -> RowList:
    """The rows with the highest scores, or those that the classifiers of the groups flag."""
    _check_columns(columns, len(scored))
    if data.groups is None or member is None:
        n = data.to_check
        to_check = np.ones(len(scored), dtype=bool)
        probability = np.asarray(data.current._outputs(scored)["probability"])
    else:
        outputs = outputs_by(data.groups, scored, member)
        to_check = outputs["score"] > 0
        n = int(to_check.sum())
        probability = outputs["probability"]

    log_ratio = data.fitted.log_ratio_of(scored.scores)
    top = np.lexsort((-log_ratio, -probability, ~to_check))[: min(n, MOST_ROWS)]
    names = None
    if member is not None:
        names = [str(data.periods[k].name) for k in member[top]]
    values_of_top = {}
    for name, values in columns.items():
        values_of_top[name] = [values[i] for i in top.tolist()]
    reasons = _reasons(data.current, scored.take(top))
    return RowList(n, top, probability[top], reasons, values_of_top, names)


def _check_columns(columns: Any, n_rows: int) -> None:
    if not isinstance(columns, Mapping):
        kind = type(columns).__name__
        raise DataTypeError(f"beside must be a mapping such as {{'id': ids}}, got {kind}.")
    for name, values in columns.items():
        if len(values) != n_rows:
            raise DataError(
                f"beside must have one value per row, {n_rows}, got {len(values)} in {name!r}."
            )


def _reasons(current: Any, rows: Batch) -> list[tuple[str, str]] | None:
    """What speaks for and against each row; None if the model has no trees."""
    if len(rows) == 0:
        return None
    try:
        reasons = current.reasons(rows, REASONS)
    except ParameterError:
        return None
    return [reason.texts() for reason in reasons]


def _with_budget(current: Any, budget: float | None, of: Any) -> Any:
    if budget is None:
        return None
    return current.at_budget(**budget_depth(budget), of=of)
