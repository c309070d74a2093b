"""Profiles of the training columns, from which changed columns are found without keeping rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drpu._typing import IntArray
from drpu.core.diagnostics import MixtureTest
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.shift.columns import (
    ColumnProfile,
    ColumnShift,
    column_shifts,
    count_columns,
    profile_columns,
)
from drpu.core.tails import ScoreTails
from drpu.exceptions import FewPositivesWarning, ShiftWarning, warn
from drpu.ratios.clusters import Ranges
from drpu.tables.encoder import fixed_cells

OTHER_SHIFT = 0.001  # below this p-value more than the prior is assumed to have changed
LEAST_MISFIT = 0.01  # smallest share of changed rows, because with many rows every difference is significant
MOST_NAMED = 6


def profiles_of(estimator: Any, positive: Any, unlabeled: Any) -> tuple[ColumnProfile, ...]:
    """Profiles of the two samples; none for sparse rows, images and tables that the model reads itself."""
    if not all(isinstance(rows, np.ndarray) and rows.ndim == 2 for rows in (positive, unlabeled)):
        return ()
    n = positive.shape[1]
    return profile_columns(positive, unlabeled, _names(estimator, n), fixed_cells(estimator.table_, n))


def profiles_of_ranges(estimator: Any, ranges: Ranges | None) -> tuple[ColumnProfile, ...]:
    """Profiles of rows that were counted on a cluster."""
    if ranges is None:
        return ()
    ends = np.cumsum([cells.n for cells in ranges.cells])[:-1]
    counts = [np.split(part.astype(np.float64), ends) for part in (ranges.positive, ranges.unlabeled)]
    names = _names(estimator, len(ranges.cells))
    return tuple(ColumnProfile(*column) for column in zip(names, ranges.cells, *counts, strict=True))


def _names(estimator: Any, n: int) -> list[str]:
    """Names of the columns of the encoded rows."""
    table = getattr(estimator, "table_", None)
    names = list(getattr(estimator, "feature_names_in_", []))
    if table is not None:
        names = [plan.name for plan in table.sources]  # a category may have several
    return [str(name) for name in names] if len(names) == n else [f"column {k}" for k in range(n)]


def count_in_ranges(profiles: Sequence[ColumnProfile], rows: Any) -> IntArray | None:
    """Counts of new rows in the ranges of the profiles; None without profiles, or if rows are not dense."""
    if not profiles or not isinstance(rows, np.ndarray) or rows.ndim != 2:
        return None
    return count_columns([profile.cells for profile in profiles], rows)


def moved_columns(
    profiles: Sequence[ColumnProfile], seen: ScoreTails, train: PriorEstimate, test: PriorEstimate
) -> tuple[ColumnShift, ...]:
    """Columns that changed more than a new prior explains, the largest change first.

    Empty if the counts of new rows have no counts of columns, for example because rows have weights.
    """
    counts = seen.columns
    if counts is None or len(counts) != sum(profile.cells.n for profile in profiles):
        return ()
    found: dict[str, ColumnShift] = {}
    for shift in column_shifts(profiles, counts, train, test):
        if shift.p_value < OTHER_SHIFT and shift.misfit > LEAST_MISFIT:
            found.setdefault(shift.name, shift)  # a category has several indicators
    return tuple(found.values())


# What was done about it, and what helps.
_DONE = {
    "prior": "The prior and the labels were adapted all the same, as was asked for: neither can be trusted.",
    "kept": "The labels stay as trained, and the prior is a rough reading.",
    "supported": "The prior and the labels were moved as far as the backtest or labels that arrived support.",
    "answers": "The answers were used for these rows only.",
}
_HELP = "Two things help: answers for 50 rows ({}), or a new fit with recent rows."
_REFIT = "If this goes on, a new fit with recent rows helps."  # where there are answers


def warn_of_other_shift(test: MixtureTest, moved: Sequence[ColumnShift], *, done: str) -> None:
    """Warn if the scores or some columns changed more than the prior explains, and say what was done."""
    if test.p_value >= OTHER_SHIFT and not moved and (test.degrees or done == "prior"):
        return
    names = ", ".join(f"{shift.name!r} ({shift.misfit:.0%} of the rows)" for shift in moved[:MOST_NAMED])
    names += ", ..." if len(moved) > MOST_NAMED else ""
    if test.p_value < OTHER_SHIFT:
        seen = (
            f"these rows do not look like a mixture of the two training classes (p = {test.p_value:.1g}; "
            f"about {test.misfit:.0%} of them would have to move)"
        )
        columns = (
            f" Columns that moved: {names}." if moved else " Compare the columns with those of training."
        )
    else:
        seen = f"columns moved more than a new prior explains: {names}"
        columns = ""
    untested = not moved and not test.degrees
    if untested:
        seen = "there are too few labelled positives or new rows to test whether only the prior has changed"
    else:
        seen = f"{seen}: more than the prior has changed"
    kind = FewPositivesWarning if untested else ShiftWarning
    text = _REFIT if done == "answers" else _HELP
    advice, command = (text.format(name) for name in ("plan_audit", "drpu audit"))
    warn(kind(f"{seen}.{columns} {_DONE[done]}", advice=advice, command=command))
