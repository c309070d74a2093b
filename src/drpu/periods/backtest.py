"""The backtest: past periods, each read by a fit to the rows before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from drpu._arrays import BoolArray
from drpu._progress import progress
from drpu.exceptions import BacktestWarning, DataError, DRPUError, ParameterError, silent
from drpu.periods.moves import (
    FEWEST_LABELS,
    backtest_of,
    labelled_reading,
    late_periods,
    plan_backtest,
)
from drpu.periods.read import compared
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.population import Backtest, LabelCount, PastPeriod, count_labels
from drpu.state.reference import Reference
from drpu.state.rows import BacktestPlan, RawRows, TrainingSet
from drpu.tables.frames import RecordFrame, composed, is_frame, read_frame
from drpu.tables.values import NULL_WORDS, by_month, flat_values, is_missing_cell

FEWEST_PERIODS = 2  # fewer past periods that can be used say nothing
# Fits to the first rows and counts the second ones. The number is how far the labelled share of the
# first rows lies from that of all rows, by which a given prior is multiplied.
FitAndCount = Callable[[RawRows, RawRows, float], tuple[FittedRatio, ScoreTails]]


def split_periods(X: Any, periods: Any) -> tuple[Any, Any]:
    """The rows without the column of periods, and the period of each row."""
    if periods is None or not isinstance(periods, str):
        return X, periods
    if not is_frame(X):
        raise ParameterError(
            f"periods must have one value per row if X is no table, got {periods!r}."
        )
    table = read_frame(X)
    periods = composed(periods)
    if periods not in table.names:
        raise DataError(f"periods must be a column of X, or one value per row, got {periods!r}.")
    rows = table.without([periods])
    column = table.column(table.names.index(periods))
    if isinstance(rows, RecordFrame):
        return rows, column.to_list()
    return rows.columns.to_native(), column.to_native()


def plan_periods(periods: Any, labelled: BoolArray, label_delay: int) -> BacktestPlan:
    """The periods in the order of time, and those that a backtest reads."""
    values = by_month(flat_values("periods", periods)).tolist()
    if len(values) != len(labelled):
        raise DataError(f"periods must have one value per row, {len(labelled)}, got {len(values)}.")
    names = []
    for value in values:
        missing = is_missing_cell(value) or value in NULL_WORDS
        names.append(None if missing else value)
    return plan_backtest(names, labelled, label_delay=label_delay)


def run_backtest(
    training: TrainingSet, fit_and_count: FitAndCount, *, n_jobs: int | None = None
) -> Backtest | None:
    """The backtest over past periods, each read by a fit to the rows before it.

    None without periods and, with a warning, if there are too few periods or labels.
    """
    plan = training.periods
    rows = training.raw
    if plan is None or rows is None:
        return None
    if plan.reason:
        _warn_of_backtest(plan.reason)
        return None
    all_labels = count_labels(rows.labelled, rows.sample_weight)
    tasks = []
    for period in plan.read:
        before = rows.take(np.flatnonzero((plan.number >= 0) & (plan.number < period)))
        now = rows.take(np.flatnonzero(plan.number == period))
        name = str(plan.names[period])
        tasks.append(delayed(_read_period)(name, fit_and_count, before, now, all_labels))
    jobs = min(effective_n_jobs(n_jobs), len(tasks))
    readings = Parallel(n_jobs=jobs, return_as="generator")(tasks)
    past = [period for period in progress(readings, total=len(tasks)) if period is not None]
    if sum(period.used for period in past) < FEWEST_PERIODS:
        _warn_of_backtest("fewer than two past periods have enough labels to be read")
        return None
    return backtest_of(_without_late(past))


def _without_late(past: list[PastPeriod]) -> list[PastPeriod]:
    """The periods, of which the last ones are not used if their labels may be late."""
    late = late_periods(past)
    if not late:
        return past
    _warn_of_backtest(
        f"the last {late} periods have far fewer labels than their rows suggest, as if labels "
        "arrive late, and are left out",
        advice=f"Set label_delay={late} of the classifier.",
        command=f"Give --label-delay {late}.",
    )
    unused = [replace(period, used=False) for period in past[-late:]]
    return past[:-late] + unused


def _read_period(
    name: str,
    fit_and_count: FitAndCount,
    before: RawRows,
    now: RawRows,
    all_labels: LabelCount,
) -> PastPeriod | None:
    """One past period, read by a fit to the rows before it; None if these cannot be fitted to."""
    labels_now = count_labels(now.labelled, now.sample_weight)
    labels_before = count_labels(before.labelled, before.sample_weight)
    with silent():  # nobody uses this fit for predictions
        try:
            growth = labels_before.mean / all_labels.mean
            fitted, counts = fit_and_count(before, now, growth)
        except DRPUError:  # such as rows that are all labelled, or have no weight
            return None
        return past_period(name, fitted, counts, (labels_now, labels_before))


def past_period(
    name: str, fitted: FittedRatio, counts: ScoreTails, labels: tuple[LabelCount, LabelCount]
) -> PastPeriod:
    """A past period, from a fit to rows before it and counts of its rows.

    ``labels`` are those of the period and those before it.
    """
    now, before = labels
    evidence = compared(fitted, Reference.of_training(fitted), counts).evidence
    labelled = labelled_reading(now, before, fitted.prior.value)
    return PastPeriod(
        name=name,
        rows=round(now.rows),
        labels=round(now.labels),
        seen=labelled.move,
        noise=labelled.variance,
        guarded=evidence.guarded,
        matched=evidence.matched,
        used=min(now.labels, before.labels) >= FEWEST_LABELS,
    )


def _warn_of_backtest(reason: str, *, advice: str = "", command: str = "") -> None:
    BacktestWarning.issue(
        f"there is no complete backtest: {reason}. Everything else is fitted as without periods.",
        advice=advice,
        command=command,
    )
