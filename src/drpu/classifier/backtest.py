"""The backtest of a fit with periods: how well past periods would have been read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from drpu._arrays import as_numpy
from drpu._checks import check_integer
from drpu._progress import progress
from drpu._samples import is_sparse
from drpu._typing import BoolArray
from drpu.classifier.adapting import tested
from drpu.classifier.fitted import FittedRatio
from drpu.classifier.validation import read_labels
from drpu.core.shift.periods import (
    FEWEST_LABELS,
    Backtest,
    LabelCount,
    PastPeriod,
    backtest_of,
    labelled_reading,
    late_periods,
    plan_backtest,
)
from drpu.core.tails import ScoreTails
from drpu.exceptions import BacktestWarning, DataError, ParameterError, silent, warn
from drpu.tables.frames import is_frame, take_frame

if TYPE_CHECKING:
    from drpu.classifier.drpu import DRPUClassifier

FEWEST_PERIODS = 2  # fewer past periods that can be used say nothing


def without_periods(X: Any, periods: Any) -> tuple[Any, Any]:
    """The rows without the column of periods, and the value of each row."""
    if periods is None or not isinstance(periods, str):
        return X, periods
    if not is_frame(X):
        raise ParameterError(
            f"periods must have one value per row if X is not a table, got the name {periods!r}."
        )
    table = nw.from_native(X, eager_only=True)
    if periods not in table.columns:
        raise DataError(f"periods must be a column of X, or one value per row, got {periods!r}.")
    return table.drop(periods).to_native(), table[periods].to_list()


def count_labels(labelled: BoolArray, periods: Any, label_delay: int) -> LabelCount:
    """Labelled rows among all rows whose labels are complete."""
    settled = np.ones(len(labelled), dtype=bool)
    if periods is not None and label_delay:
        plan = plan_backtest(_values(periods, len(labelled)), labelled, label_delay=label_delay)
        settled = (plan.number >= 0) & (plan.number < plan.settled)
    return LabelCount(float(labelled[settled].sum()), float(settled.sum()))


def run_backtest(
    classifier: DRPUClassifier, X: Any, y: Any, periods: Any, *, label_delay: int
) -> Backtest | None:
    """The backtest over past periods, each read by a fit to the rows before it.

    None, with a warning, if there are too few periods or labels.
    """
    labelled, _ = read_labels(y, classifier.pos_label, warn=False)
    check_integer("label_delay", label_delay, low=0)
    plan = plan_backtest(_values(periods, len(labelled)), labelled, label_delay=label_delay)
    if plan.reason:
        _warn(plan.reason)
        return None
    work = [(_taken(X, plan.number, t), labelled, plan.number, t, str(plan.names[t])) for t in plan.read]
    settings = clone(classifier).set_params(pos_label=None, n_jobs=None, verbose=0)
    jobs = min(effective_n_jobs(classifier.n_jobs), len(work))
    done = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(_read_period)(settings, *part) for part in work
    )
    past = [period for period in progress(done, total=len(work)) if period is not None]
    if sum(period.used for period in past) < FEWEST_PERIODS:
        _warn("fewer than two past periods have enough labels")
        return None
    late = late_periods(past)
    if late:
        reason = (
            f"the last {late} periods have far fewer labels than their rows suggest, as if labels arrive "
            "late, and are left out"
        )
        _warn(reason, advice=f"Give label_delay={late}.", command=f"Give --label-delay {late}.")
        past = [*past[:-late], *(replace(period, used=False) for period in past[-late:])]
    return backtest_of(past)


def _taken(X: Any, number: Any, t: int) -> tuple[Any, Any]:
    """Rows of the periods before ``t``, and those of ``t``."""
    return _rows(X, np.flatnonzero((number >= 0) & (number < t))), _rows(X, np.flatnonzero(number == t))


def _rows(X: Any, index: Any) -> Any:
    if is_frame(X):
        return take_frame(X, index)
    return X[index] if is_sparse(X) else as_numpy(X)[index]


def _read_period(
    settings: DRPUClassifier, rows: tuple[Any, Any], labelled: BoolArray, number: Any, t: int, name: str
) -> PastPeriod | None:
    """One past period, read by a fit to the rows before it."""
    before, now = labelled[(number >= 0) & (number < t)], labelled[number == t]
    if before.all() or not before.any():
        return None
    counts = [LabelCount(float(part.sum()), float(len(part))) for part in (now, before)]
    with silent():  # nobody uses this fit for predictions
        fitted = settings.fit(rows[0], before.astype(int), backtest=False).fitted_
        return past_period(name, fitted, settings.count(rows[1]), (counts[0], counts[1]))


def past_period(
    name: str, fitted: FittedRatio, seen: ScoreTails, labels: tuple[LabelCount, LabelCount]
) -> PastPeriod:
    """A past period, from a fit to rows before it, counts of its rows, and labels of both, its own first."""
    prior = fitted.prior_of(seen)
    shown, (now, before) = tested(fitted, seen, prior)[2], labels
    reading = labelled_reading(now, before, fitted.train_prior.value)
    return PastPeriod(
        name,
        int(now.rows),
        int(now.labels),
        reading.move,
        reading.variance,
        shown.guarded,
        shown.matched,
        min(now.labels, before.labels) >= FEWEST_LABELS,
    )


def _values(periods: Any, n: int) -> list[Any]:
    flat = as_numpy(periods)
    values = flat.tolist() if hasattr(flat, "tolist") else list(flat)
    if len(values) != n:
        raise DataError(f"periods must have one value per row, {n}, got {len(values)}.")
    return values


def _warn(reason: str, *, advice: str = "", command: str = "") -> None:
    finding = f"there is no complete backtest: {reason}. Everything else is fitted as without periods."
    warn(BacktestWarning(finding, advice=advice, command=command))
