"""What a report describes: a classifier before and after new rows, and its what-if tables.

A decision depends on the prior and the cost through its threshold on the ratio only, and its rates
change in jumps, where the threshold passes the ratio of a held-out positive. Therefore the tables
are over thresholds: a grid over priors and costs would miss the jumps.

- ``steps``: between two jumps, recall and false-positive rate, and the alternatives to them that
  the limits of figures are made of (:class:`drpu.decisions.performance.DecisionRates`; after
  answers those of the map),
- ``gain``: shares of the positives and of the negatives above each level, for a number of rows to
  check; after answers by their map, with limits,
- ``shareLimits``: confidence limits of a share of the held-out positives,
- ``newRows``: log-ratios of the new rows.

With at most ``LEVELS`` held-out positives, shares on the page differ from those of Python by
``EXACT`` at most. With more of them some jumps are left out: figures differ by ``CLOSE`` at most,
limits by twice that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._output import json_for_script
from drpu.classifier.groups import GroupOutputs
from drpu.classifier.reading import read_batch
from drpu.decisions.budget import Budget, Gain, budget_depth, negative_survival
from drpu.decisions.performance import Performance, PreparedCounts, decision_rates, expect
from drpu.decisions.point import decision_above, decision_at, map_curves, trained_point
from drpu.exceptions import (
    DataError,
    DataTypeError,
    DRPUWarning,
    FewPositivesWarning,
    ParameterError,
    heard,
    warn,
)
from drpu.models.learner import LOG_LIMIT
from drpu.periods.groups import GroupPrior, GroupPriors, Groups, group_values
from drpu.plots import RocDisplay, fitted_of, prepared_counts
from drpu.priors.constants import WIDE_RANGE
from drpu.priors.estimate import FEW_POSITIVES, PriorEstimate
from drpu.priors.figures import Figure, exact_limits_of
from drpu.priors.tails import ScoreTails
from drpu.state.costs import Costs
from drpu.state.fitted import FittedRatio, level_log_ratios, tie_break
from drpu.state.population import Backtest
from drpu.state.rows import Batch

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
    first_row: int = 0  # its number

    @classmethod
    def of(
        cls,
        X: Rows | None,
        *,
        level: Any = None,
        by: Any = None,
        audit: Any = None,
        beside: Any = None,
        first_row: int = 0,
    ) -> Self | None:
        """The new rows with these options, None if there are no rows."""
        if X is not None:
            return cls(X, 0.95 if level is None else level, by, audit, beside or {}, first_row)
        for option in (level, by, audit, beside):
            if option is not None:
                raise ParameterError(
                    "by, audit, beside and level are about new rows: pass them as X."
                )
        return None


@dataclass(frozen=True, slots=True)
class RowList:
    """The rows to check, those with the highest probabilities first.

    ``reasons`` are the columns that speak for and against each row; None if the model cannot tell.
    """

    n: int  # number of rows to check, of which the first are listed
    position: IntArray  # their positions in the new rows, from 0 on
    first: int  # number of the first of the new rows
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
        if self.budget.n is None:
            return round(self.budget.share * self.rows)
        return self.budget.n

    @property
    def other_shift(self) -> bool:
        """Whether more than the prior seems to have changed."""
        return getattr(self.current, "shift_", "prior") == "other"

    @property
    def few_positives(self) -> bool:
        """Whether few positives were held out, and no warning has said so."""
        if FewPositivesWarning in map(type, self.warnings):
            return False
        return self.fitted.tails.n_positive < FEW_POSITIVES

    @property
    def zoom(self) -> float:
        """Largest share that the axes and the slider need to show."""
        limits = [period.prior.high for period in self.periods]
        highest = max(self.train.high, self.prior.high, *limits)
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
        figure: Figure = getattr(self._expected, name)
        return figure

    def figure_as_trained(self, name: str) -> Figure:
        """The figure if the threshold stays that of training."""
        figure: Figure = getattr(self._as_trained, name)
        return figure

    @cached_property
    def _expected(self) -> Performance:
        expected: Performance = self.current.expected_performance()
        return expected

    @cached_property
    def _as_trained(self) -> Performance:
        threshold = trained_point(self.train, self.cost).threshold
        decision = decision_above(self.fitted, threshold)
        unlabeled_prior = self.fitted.unlabeled_prior
        rates = decision_rates(decision, unlabeled_prior, self.prepared)
        return expect(decision, unlabeled_prior, self.prior, cost=self.cost, rates=rates)


def collect(
    classifier: Any,
    X: Rows | None = None,
    *,
    cost: float | None = None,
    budget: float | None = None,
    suspects: Any = None,
    by_name: str | None = None,
    **about_new_rows: Any,
) -> ReportData:
    """The data of a page, from the options of :func:`drpu.report.render_report`."""
    new_rows = NewRows.of(X, **about_new_rows)
    fitted_of(classifier)
    if cost is not None:
        classifier = classifier.at_cost(cost)
    if new_rows is None:
        data = ReportData(classifier, within_budget=_with_budget(classifier, budget, ROWS))
    else:
        data = _adapt(classifier, new_rows, budget)
    if hasattr(suspects, "to_columns"):
        suspects = suspects.to_columns()
    data.suspects = suspects
    by = by_name or about_new_rows.get("by")
    if isinstance(by, str):
        data.by_name = by
    return data


def _adapt(classifier: Any, new_rows: NewRows, budget: float | None) -> ReportData:
    """The data of a report on a classifier and new rows; each row is scored once."""
    X = new_rows.X
    level = new_rows.level
    groups = None
    member = None
    with heard() as issued:
        if new_rows.by is not None:
            group_of_row, X = group_values(classifier.fitted_.columns, X, new_rows.by)
        scored = read_batch(classifier, X)
        current = classifier.adapt(scored, level=level, audit=new_rows.audit)
        if new_rows.by is not None:
            groups = current.adapt_by(scored, by=group_of_row, level=level, budget=budget)
            member = Groups.of(group_of_row).member
        within_budget = _with_budget(current, budget, scored)
    # With groups the last of each kind: a warning about groups replaces that about all rows.
    last_warnings: dict[Any, DRPUWarning] = {}
    for warning in issued:
        key = str(warning) if groups is None else type(warning)
        last_warnings[key] = warning
    for warning in last_warnings.values():
        warn(warning)
    log_ratio = current.fitted_.log_ratio_of(scored.scores)
    data = ReportData(
        current,
        new=scored.counts,
        log_ratios=np.sort(log_ratio)[::-1],
        flagged=int(current.point_.is_positive(log_ratio).sum()),
        within_budget=within_budget,
        groups=groups,
        warnings=tuple(last_warnings.values()),
    )
    data.row_list = _list_rows(data, scored, member, new_rows)
    return data


def _list_rows(
    data: ReportData, scored: Batch, member: IntArray | None, new_rows: NewRows
) -> RowList:
    """The rows with the highest scores, or those that the classifiers of the groups flag."""
    columns = new_rows.columns
    _check_columns(columns, len(scored))
    if data.groups is None or member is None:
        n = data.to_check
        to_check = np.ones(len(scored), dtype=bool)
        probability = np.asarray(data.current._outputs(scored)["probability"])
    else:
        groups = GroupOutputs.of(data.groups, scored, member)
        to_check = np.zeros(len(scored), dtype=bool)
        to_check[groups.listed] = True
        n = len(groups.listed)
        probability = groups.outputs["probability"]

    rank = np.empty(len(scored), dtype=np.int64)
    rank[data.fitted.best_first(scored.scores)] = np.arange(len(scored))
    top = np.lexsort((rank, -probability, ~to_check))[: min(n, MOST_ROWS)]
    names = None
    if member is not None:
        names = [str(data.periods[k].name) for k in member[top]]
    values_of_top = {}
    for name, values in columns.items():
        values_of_top[name] = [values[i] for i in top.tolist()]
    reasons = _reasons(data.current, scored.take(top))
    return RowList(n, top, new_rows.first_row, probability[top], reasons, values_of_top, names)


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
        return [reason.texts() for reason in current.reasons(rows, REASONS)]
    except ParameterError:
        return None


def _with_budget(current: Any, budget: float | None, of: Any) -> Any:
    if budget is None:
        return None
    return current.at_budget(**budget_depth(budget), of=of)


LEVELS = 250
EXACT = 1e-4
CLOSE = 0.02
DIGITS = 5  # of the numbers in the tables
GAIN_LEVELS = 1000
NEW_ROWS = 1000  # new rows whose log-ratios are tabulated
TABLE_FIGURES = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost")
ALTERNATIVES = 5  # to the rates of a step, within the limits of the counts
_SAME = 1e-7  # log-ratios that differ by less belong to one jump


def whatif_json(data: ReportData, marks: Sequence[Mapping[str, str | None]] = ()) -> str:
    """The tables and the marks of figures as JSON that is safe inside a script element."""
    return json_for_script(whatif_tables(data) | {"marks": marks})


def whatif_tables(data: ReportData) -> dict[str, Any]:
    """The tables, the priors with limits, and the state that the page starts with."""
    current = data.current
    decisions = _Decisions(data)
    unlabeled_prior = data.fitted.unlabeled_prior
    train_nodes = trained_point(data.fitted.prior, data.cost).for_page(current.reference_)["nodes"]
    known = [
        _known(data.prior, data.rows, current, batch=current.reading_.rows),
        _known(data.train, data.rows, current)
        | {"labelsAt": data.train.value, "nodes": train_nodes},
    ]
    for period in data.periods:
        known.append(_known(period.prior, period.n, period.classifier, batch=period.n))
    return {
        "cost": data.cost,
        "miss": data.amounts.miss,
        "rows": data.rows,
        "budget": data.to_check,
        "trainPrior": data.train.value,
        "trainNodes": train_nodes,
        "unlabeledPrior": unlabeled_prior.value,
        "possiblePriors": list(unlabeled_prior.possible_values),
        "wideRange": WIDE_RANGE,
        "known": known,
        "labelNoise": current.point_.label_noise,
        "found": _as_found(data),
        "steps": decisions.steps(),
        "gain": _gain(data, decisions.curves),
        "shareLimits": _share_limits(data),
        "newRows": _new_rows(data),
    }


def _as_found(data: ReportData) -> dict[str, Any]:
    """The figures that Python computed; JSON has null for NaN and for infinite thresholds."""
    figures = []
    for name in TABLE_FIGURES:
        figure = data.figure(name)
        figures.append(list(map(_finite, (figure.value, figure.low, figure.high))))
    threshold = _finite(float(data.current.threshold_))
    return {"figures": figures, "threshold": threshold, "flagged": data.flagged}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _known(
    prior: PriorEstimate, rows: int, classifier: Any, *, batch: float | None = None
) -> dict[str, Any]:
    """A prior with limits, and where the classifier makes labels.

    ``rows`` is the number of rows to show, ``batch`` that of the rows the prior was read from.
    """
    facts = {
        "value": prior.value,
        "low": prior.low,
        "high": prior.high,
        "level": str(prior.level),
        "rows": rows,
        "batch": batch,
    }
    of_point: dict[str, Any] = classifier.point_.for_page(classifier.reference_)
    return facts | of_point


class _Decisions:
    """All decisions of a classifier, in ascending order of their thresholds."""

    def __init__(self, data: ReportData) -> None:
        fitted = data.fitted
        self.fitted = fitted
        self.prepared = data.prepared
        self.prior = fitted.unlabeled_prior
        self.curves = map_curves(fitted, data.current.reference_)
        self.levels = np.maximum.accumulate(level_log_ratios(fitted))
        log_ratios = [self.levels - tie_break(fitted.prior.value)]
        if data.prepared.folds is not None:
            log_ratios += list(np.log(np.maximum(data.prepared.folds.ratios, 1e-300)))
        chosen = _choose_levels(data, LEVELS)
        jumps = np.sort(np.concatenate([values[chosen] for values in log_ratios]))
        last_of_equal = np.append(np.diff(jumps) > _SAME, True)
        self.jumps = jumps[last_of_equal]  # log-ratios at which rates jump
        self.complete = len(chosen) == len(self.levels)  # whether these are all jumps

    def steps(self) -> dict[str, Any]:
        """Rates just after each jump and, where jumps were left out, just before the next one."""
        after = [self._rates(self.jumps[0] - 1)]
        for jump in self.jumps:
            after.append(self._rates(jump + _SAME / 2))
        before = None
        if not self.complete and len(self.jumps) > 1:
            before = [after[0]]
            for jump in self.jumps[1:]:
                before.append(self._rates(jump - _SAME / 2))
            before.append(after[-1])
        return {"at": _short(self.jumps, 10), "after": after, "before": before}

    def _rates(self, log_ratio: float) -> list[float]:
        """Score of a threshold, its rates at the training prior and its limits, and alternatives.

        The rate of false positives at the training prior and its limits is followed by the means in
        either half of its distribution, at each possible training prior. The alternatives are those
        within the limits of the counts, then the decisions of the folds.
        """
        fitted = self.fitted
        levels = fitted.tails.levels
        k = int(
            np.searchsorted(self.levels, log_ratio + tie_break(fitted.prior.value), side="right")
        )
        score = math.inf
        if k < len(levels):
            score = float(levels[k])
        numbers = [min(score, float(levels[-1]) + 1)]
        if self.curves:
            for positive, negative in self.curves:
                numbers += [float(positive[k + 1]), float(negative[k + 1])]
            return _short(numbers)

        ratio = None
        if fitted.calibration is not None:
            ratio = math.exp(min(log_ratio, LOG_LIMIT))
        decision = decision_at(fitted, score, ratio)
        rates = decision_rates(decision, self.prior, self.prepared)
        numbers += [rates.recall, rates.wrong]
        numbers += rates.wrong_at_priors
        for halves in rates.wrong_halves:
            numbers += halves
        alternatives = list(rates.moved(0.5))
        for point in alternatives:
            numbers += [point.recall, point.wrong]
        numbers += [rates.recall, rates.wrong] * (ALTERNATIVES - len(alternatives))
        if len(rates.parts) > 1:
            for recall, wrong in rates.parts:
                numbers += [recall, wrong]
        return _short(numbers)


def _choose_levels(data: ReportData, most: int) -> IntArray:
    """All levels, or some: evenly in positives, in rows and in the logarithm of the rows above."""
    tails = data.fitted.tails
    n = len(tails.levels)
    if n <= most:
        return np.arange(n)
    rarest = 0.5 / tails.n
    rarity = np.log(np.maximum(tails.survival, rarest)) / np.log(rarest)
    path = (1 - tails.positive_survival) + (1 - tails.survival) + rarity
    even_steps = np.linspace(path[0], path[-1], most // 2)
    even = np.searchsorted(path, even_steps).clip(0, n - 1)
    return np.unique(np.concatenate(([0, n - 1], even)))


def _gain(data: ReportData, curves: Sequence[tuple[FloatArray, FloatArray]]) -> dict[str, Any]:
    """Shares of positives, negatives and new rows above each level, the highest level first."""
    fitted = data.fitted
    chosen = _choose_levels(data, GAIN_LEVELS)[::-1]
    gain: dict[str, Any] = {}
    if curves:
        positive = curves[0][0][1:-1]
        negative = curves[0][1][1:-1]
        gain["low"] = _short(data.gain.low[::-1][1:-1][chosen])
        gain["high"] = _short(data.gain.high[::-1][1:-1][chosen])
    else:
        positive = fitted.tails.positive_survival
        negative = negative_survival(fitted.tails, fitted.unlabeled_prior.value)
    gain["logRatio"] = _short(level_log_ratios(fitted)[chosen], 8)
    gain["positive"] = _short(positive[chosen])
    gain["negative"] = _short(negative[chosen])
    gain["newRows"] = None
    if data.new is not None:
        gain["newRows"] = _short(data.new.survival[chosen])
    return gain


def _share_limits(data: ReportData) -> dict[str, Any]:
    """Limits of a share of the held-out positives by level, at shares dense near the ends."""
    near = np.geomspace(1e-4, 0.1, 80)
    middle = np.linspace(0.1, 0.9, 81)[1:-1]
    shares = np.concatenate(([0.0], near, middle, 1 - near[::-1], [1.0]))
    levels = {0.95, data.prior.level, data.train.level}
    levels |= {period.prior.level for period in data.periods}
    limits = {}
    for level in levels:
        low, high = exact_limits_of(shares, data.fitted.tails.n_positive, (1 - level) / 2)
        limits[str(level)] = {"at": _short(shares, 8), "low": _short(low), "high": _short(high)}
    return limits


def _new_rows(data: ReportData) -> dict[str, Any] | None:
    """Ranks of some new rows and their log-ratios, the largest first."""
    if data.log_ratios is None:
        return None
    n = len(data.log_ratios)
    places = np.arange(n)
    if n > NEW_ROWS:  # the first rows one by one, then fewer and fewer
        n_single = NEW_ROWS // 5
        sparse = np.geomspace(n_single, n, NEW_ROWS - n_single).astype(np.int64) - 1
        places = np.unique(np.concatenate((np.arange(n_single), sparse)))
    return {"rank": (places + 1).tolist(), "logRatio": _short(data.log_ratios[places], 10)}


def _short(values: Iterable[float] | FloatArray, digits: int = DIGITS) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in values]
