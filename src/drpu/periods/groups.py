"""Priors of groups of rows, such as months or branches."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from drpu._typing import IntArray
from drpu.audits.combine import adapt_to_answers
from drpu.audits.plan import Audit, check_audit, labels_of
from drpu.decisions.budget import budget_depth
from drpu.exceptions import (
    DataError,
    DataTypeError,
    DRPUWarning,
    FewPositivesWarning,
    FewRowsWarning,
    MixedPeriodsWarning,
    SeparationWarning,
    ShiftWarning,
    heard,
    silent,
)
from drpu.models.clusters import refuse_frame
from drpu.periods.group_priors import (
    GroupPrior,
    GroupPriors,
    GroupReading,
    joint_level,
    shrink,
    with_answers,
)
from drpu.periods.read import adapt_to_counts, arrived_labels, sampling_error
from drpu.state.fitted import ScoredRows, score_once
from drpu.tables.frames import collected, is_frame, read_frame, warn_of_order
from drpu.tables.values import by_month, flat_values, is_missing

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier

MOST_GROUPS = 1000


def priors_by_group(
    classifier: Any,
    X: Any,
    by: Any,
    level: float,
    audit: Mapping[Any, Audit] | None = None,
    *,
    y: Any = None,
    budget: float | None = None,
    shift: str = "auto",
) -> GroupPriors:
    """Priors of the groups of ``X``, and the classifiers for them; see ``adapt_by``."""
    names, member, scored = group_members(classifier, X, by)
    check_audits(audit, names)
    fitted, each = classifier.fitted_, joint_level(level, len(names))
    parts = [fitted.some(scored, np.flatnonzero(member == k)) for k in range(len(names))]
    labels = None if y is None else labels_of(y, len(member))

    def read(rows: ScoredRows, own: Any, level: float) -> tuple[AdaptedClassifier, float]:
        arrived = arrived_labels(classifier, own, len(rows))
        counts, prior = rows.counts, fitted.prior_of(rows.counts, level=level)
        there = adapt_to_counts(classifier, counts, prior, shift=shift, arrived=arrived)
        return there, 0.0 if shift == "none" else sampling_error(fitted, counts, there, arrived)

    adapted, caught, readings = [], [], []
    for k, (name, part) in enumerate(zip(names, parts, strict=True)):
        with heard() as said:
            there, error = read(part, None if labels is None else labels[member == k], each)
        adapted.append(there)
        caught.append(said)
        p_value = math.nan if there.shift_test_ is None else there.shift_test_.p_value
        readings.append(GroupReading(name, len(part), there.prior_, error, p_value, there.shift_))
    with silent():
        found = shrink(readings, read(scored, labels, level)[0].prior_, level)
        for name, answers in (audit or {}).items():
            k, own = names.index(name), check_audit(answers)
            there = adapt_to_answers(classifier, parts[k], own, level=each)
            adapted[k], caught[k] = there, []
    found = with_answers(found, {name: adapted[names.index(name)].prior_ for name in audit or ()})
    warn_by_group(dict(zip(names, caught, strict=True)))
    groups = [
        replace(
            _decided(group, there, part, budget), warnings=tuple(warning.code for warning in said)
        )
        for group, there, part, said in zip(found, adapted, parts, caught, strict=True)
    ]
    return replace(found, groups=tuple(groups))


def check_audits(audit: Any, names: list[Any]) -> None:
    """Raise if ``audit`` is no mapping from names of groups."""
    if audit is not None and not isinstance(audit, Mapping):
        raise DataTypeError(
            f"audit must be a mapping from groups to audits, got {type(audit).__name__}."
        )
    for name in (name for name in audit or () if name not in names):
        raise DataError(f"audit must have names of groups, {names[:8]}, as keys, got {name!r}.")


def _decided(
    group: GroupPrior, adapted: AdaptedClassifier, rows: ScoredRows, budget: float | None
) -> GroupPrior:
    """The group with the classifier for it, at the prior that all groups together gave."""
    found = adapted.findings
    if found.map is not None and found.shift == "prior":
        found = replace(found, map=adapted.fitted_.map_at(group.prior.value))
    there = adapted._adapted_at(group.prior, findings=found)
    if budget is not None:
        there = there.at_budget(**budget_depth(budget, len(rows)), of=rows)
    flagged = int(there._flags(rows.scores).sum())
    return replace(group, classifier=there, flagged=flagged)


def without_period(classifier: Any, X: Any) -> tuple[Any, Any]:
    """The periods of the rows, if ``X`` has the column of periods of training, and the other columns."""
    by = classifier.fitted_.period
    if by is None or not is_frame(X):
        return None, X
    refuse_frame(X)
    X = collected(X)
    return group_values(classifier, X, by) if by in read_frame(X).names else (None, X)


_BRACES = str.maketrans({"{": "{{", "}": "}}"})  # names are parts of a format string


def with_one_period(classifier: Any, X: Any) -> Any:
    """``X``, scored if it has the column of periods of training; warns if their priors differ."""
    by, (values, X) = classifier.fitted_.period, without_period(classifier, X)
    if values is None:
        return X
    scored = score_once(classifier, X)
    if 1 < len(set(by_month(values).tolist())) <= MOST_GROUPS:
        with silent():
            found = priors_by_group(classifier, scored, values, 0.95)
        if found.differ:
            low, high = (pick(found, key=lambda group: group.prior.value) for pick in (min, max))
            column, first, last = (
                str(name).translate(_BRACES) for name in (by, low.name, high.name)
            )
            MixedPeriodsWarning.issue(
                f"the rows are of {len(found)} periods ({column!r}) whose priors differ, from {{low}} in "
                f"{first} to {{high}} in {last}: one prior fits none of them.",
                advice=f"Use adapt_by(X, by={by!r}).",
                command=f"Use --by {by}.",
                low=low.prior.value,
                high=high.prior.value,
            )
    return scored


def outputs_by(found: GroupPriors, scored: ScoredRows, by: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Outputs of all rows, each by the classifier of its group."""
    member = _distinct(flat_values("by", by))[1]
    whole: dict[str, np.ndarray[Any, Any]] = {}
    for k, group in enumerate(found):
        at = np.flatnonzero(member == k)
        for name, values in group.classifier._outputs(scored.take(at)).items():
            whole.setdefault(name, np.empty(len(scored), dtype=values.dtype))[at] = values
    return whole


# What each kind of warning says about groups; the advice is that of the first group.
_SAID: dict[type[DRPUWarning], str] = {
    ShiftWarning: "more than the prior has changed, labels move only as far as there is support for it",
    FewPositivesWarning: "there are too few labelled positives to test whether only the prior has changed",
    SeparationWarning: "the prior is not identified",
}


def warn_by_group(caught: Mapping[Any, list[DRPUWarning]]) -> None:
    """Warn once of each kind, with the names of the groups that it is about.

    Groups with few rows are no reason to warn: their priors are shrunk towards that of all rows.
    """
    large = {
        k: said
        for k, said in caught.items()
        if not any(isinstance(w, FewRowsWarning) for w in said)
    }
    kinds = {type(warning): warning for said in reversed(list(large.values())) for warning in said}
    for kind, first in kinds.items():
        names = [
            str(name) for name, said in large.items() if any(isinstance(w, kind) for w in said)
        ]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        finding = (
            f"{_SAID.get(kind, first.finding)} in {shown} ({len(names)} of {len(caught)} groups)."
        )
        kind.issue(
            finding.replace("{", "(").replace("}", ")"), advice=first.advice, command=first.command
        )


def group_members(classifier: Any, X: Any, by: Any) -> tuple[list[Any], IntArray, ScoredRows]:
    """The names of the groups, the group of each row, and the scored rows."""
    values, X = group_values(classifier, X, by)
    scored = score_once(classifier, X)
    if len(values) != len(scored):
        raise DataError(
            f"by must have one value per row, got {len(values)} for {len(scored)} rows."
        )
    names, member = _distinct(values)
    return names, member, scored


def group_values(classifier: Any, X: Any, by: Any) -> tuple[np.ndarray[Any, Any], Any]:
    """One value per row, and the rows without the column ``by`` if it was not a column of training."""
    if not isinstance(by, str):
        warn_of_order(X, by=by)
        return flat_values("by", by), X
    refuse_frame(X)
    table = nw.from_native(collected(X), eager_only=True, pass_through=True)
    names = table.columns if isinstance(table, nw.DataFrame) else []
    if by not in names:
        shown = ", ".join(names[:12]) or "no names"
        raise DataError(
            f"by must be a column of X, or one value per row, got {by!r}; X has {shown}."
        )
    values = flat_values("by", table[by].to_native())
    known = by in list(getattr(classifier, "feature_names_in_", names))
    return values, (table if known else table.drop(by)).to_native()


def _distinct(values: np.ndarray[Any, Any]) -> tuple[list[Any], np.ndarray[Any, Any]]:
    """The groups in order, and the group of each row; dates are grouped by calendar month."""
    if len(values) == 0:
        raise DataError("X must hold at least one row, got none.")
    values = by_month(values)
    if values.dtype == object and not all(isinstance(value, Hashable) for value in values):
        raise DataTypeError(
            "by must hold names, numbers or dates, got values that cannot be compared."
        )
    if (values.dtype.kind == "f" and np.isnan(values).any()) or values.dtype == object:
        values = np.array(
            ["(missing)" if is_missing(v) else v for v in values.tolist()], dtype=object
        )
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
