"""Priors of groups of rows, such as months or branches."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils import check_random_state

from drpu._arrays import as_numpy
from drpu._samples import n_rows, take_rows
from drpu._typing import IntArray
from drpu.classifier.adapting import read_counts
from drpu.classifier.audit import Audit, GroupPlans
from drpu.classifier.auditing import answered_prior, plan_rows
from drpu.classifier.fitted import FittedRatio, ScoredRows
from drpu.classifier.notices import warn_of_contradicted
from drpu.classifier.validation import check_rows
from drpu.core.prior.groups import GroupPriors, joint_level, shrink, with_answers
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, DataTypeError
from drpu.tables.values import is_missing

__all__ = ["group_members", "group_values", "plans_by_group", "priors_by_group"]

MOST_GROUPS = 1000


def priors_by_group(
    classifier: Any, X: Any, by: Any, level: float, audit: Mapping[Any, Audit] | None = None
) -> GroupPriors:
    """Priors of the groups of ``X``; see ``adapt_by``."""
    names, member, rows = group_members(classifier, X, by)
    fitted, each = classifier.fitted_, joint_level(level, len(names))
    counts = [_count(fitted, rows, np.flatnonzero(member == k)) for k in range(len(names))]
    whole = counts[0].copy()
    for part in counts[1:]:
        whole.merge(part)
    readings = [read_counts(fitted, part, fitted.prior_of(part, level=each, warn=False)) for part in counts]
    sizes = np.bincount(member, minlength=len(names))
    found = shrink(
        names,
        sizes.tolist(),
        [reading.decision.prior for reading in readings],
        [reading.test.p_value for reading in readings],
        read_counts(fitted, whole, fitted.prior_of(whole, level=level, warn=False)).decision.prior,
        level,
        [reading.decision.moved for reading in readings],
    )
    if not audit:
        if fitted.anchor is not None:
            warn_of_contradicted(fitted.anchor.prior, {str(group.name): group.prior for group in found})
        return found
    strange = [name for name in audit if name not in names]
    if strange:
        raise DataError(f"audit must have names of groups, {names[:8]}, as keys, got {strange[0]!r}.")
    scored = rows if isinstance(rows, ScoredRows) else fitted.scored(rows)
    answered = {}
    for name, own in audit.items():
        some = fitted.some(scored, np.flatnonzero(member == names.index(name)))
        answered[name] = answered_prior(classifier, some, own, each)
    return with_answers(found, answered)


def group_members(classifier: Any, X: Any, by: Any) -> tuple[list[Any], IntArray, Any]:
    """The names of the groups, the group of each row, and the checked rows."""
    values, X = group_values(classifier, X, by)
    rows = X if isinstance(X, ScoredRows) else check_rows(classifier, X, model=classifier.fitted_.model)
    n = len(rows) if isinstance(rows, ScoredRows) else n_rows(rows)
    if len(values) != n:
        raise DataError(f"by must have one value per row, got {len(values)} for {n} rows.")
    names, member = _distinct(values)
    return names, member, rows


def plans_by_group(classifier: Any, X: Any, by: Any, **options: Any) -> GroupPlans:
    """One plan for each group of ``X``; see ``plan_audit_by``."""
    names, member, rows = group_members(classifier, X, by)
    scored = rows if isinstance(rows, ScoredRows) else classifier.fitted_.scored(rows)
    rng, n, plans = check_random_state(options.pop("random_state")), options.pop("n"), {}
    for k, name in enumerate(names):
        at = np.flatnonzero(member == k)
        most = None if n is None else min(n, len(at))  # a small group is answered as a whole
        some = classifier.fitted_.some(scored, at)
        plan = plan_rows(classifier, some, n=most, random_state=rng, **options)
        plans[name] = replace(plan, rows=at[plan.rows])
    return GroupPlans(plans)


def _count(fitted: FittedRatio, rows: Any, members: IntArray) -> ScoreTails:
    """Counts of some of the rows, from their scores where these are known."""
    if isinstance(rows, ScoredRows):
        return fitted.count_scores(rows.scores[members])
    return fitted.count(take_rows(rows, members))


def group_values(classifier: Any, X: Any, by: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """One value per row, and the rows without the column ``by`` if it was not a column of training."""
    if not isinstance(by, str):
        values = _flat("by", by)
        return values, X
    names = list(X.column_names if hasattr(X, "column_names") else getattr(X, "columns", []))
    if by not in names:
        shown = ", ".join(map(str, names[:12])) or "no names"
        raise DataError(f"by must be a column of X, or one value per row, got {by!r}; X has {shown}.")
    values = _flat("by", X.column(by) if hasattr(X, "column_names") else X[by])
    if by in list(getattr(classifier, "feature_names_in_", names)):
        return values, X
    if hasattr(X, "drop_columns"):  # Arrow
        return values, X.drop_columns([by])
    return values, X.drop(columns=[by]) if hasattr(X, "iloc") else X.drop(by)


def _flat(name: str, values: Any) -> np.ndarray[Any, Any]:
    """One value per row; dates with a time zone are those of the clocks in that zone."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone:
        values = series.dt.replace_time_zone(None).to_native()
    flat = np.asarray(as_numpy(values) if not hasattr(values, "to_numpy") else values.to_numpy())
    if flat.ndim != 1:
        raise DataTypeError(f"{name} must have one dimension, one value per row, got shape {flat.shape}.")
    return flat


def _month(value: Any) -> Any:
    """The month of a date, other values themselves."""
    return value.strftime("%Y-%m") if isinstance(value, dt.date) and not is_missing(value) else value


def _distinct(values: np.ndarray[Any, Any]) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """The groups in order, and the group of each row; dates are grouped by calendar month."""
    if len(values) == 0:
        raise DataError("X must hold at least one row, got none.")
    if values.dtype.kind == "M":
        months = values.astype("datetime64[M]")
        values = months.astype(str).astype(object)
        values[np.isnat(months)] = None
    elif values.dtype == object:
        values = np.array([_month(value) for value in values.tolist()], dtype=object)
    if values.dtype == object and not all(isinstance(value, Hashable) for value in values):
        raise DataTypeError("by must hold names, numbers or dates, got values that cannot be compared.")
    if (values.dtype.kind == "f" and np.isnan(values).any()) or values.dtype == object:
        values = np.array(["(missing)" if is_missing(v) else v for v in values.tolist()], dtype=object)
        names = sorted(set(values.tolist()), key=lambda v: (v == "(missing)", str(type(v)), v))
        place = {name: k for k, name in enumerate(names)}
        member = np.array([place[v] for v in values.tolist()])
    else:
        found, member = np.unique(values, return_inverse=True)
        names = found.tolist()
    if len(names) > MOST_GROUPS:
        raise DataError(
            f"by must have at most {MOST_GROUPS} different values, got {len(names)}: group them further."
        )
    return names, member
