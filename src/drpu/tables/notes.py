"""Notes about a training table: columns and rows that may make a fit worthless for later rows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import scipy

from drpu._arrays import BoolArray, FloatArray
from drpu._codec import Kept, Number, Text, kept
from drpu._samples import is_matrix, is_sparse, row_keys
from drpu.exceptions import TrainingTableWarning
from drpu.tables.columns import DateColumn, NumberColumn
from drpu.tables.copies import COPIES, FEWEST_OF_CLASS, are_copies, every_kth, reappearing
from drpu.tables.encoder import TableEncoder
from drpu.tables.summaries import repeats_too_rarely

FEWEST_OF_LEVEL = 5  # a level with fewer rows counts as an average one
# AUC of one column that no honest column reaches if a few unlabeled rows are positive.
GIVES_AWAY = 0.998
STRONG = 0.9  # AUC of one column from which it is compared with all others together
MOST_CHECKED = 500  # wider rows, such as pixels, are not checked column by column
MOST_NOTES = 50

_PERIOD = re.compile(r"(19|20)\d\d[-/. ]?(0[1-9]|1[0-2]|[Qq][1-4]|[Ww]\d\d)")
_DROP = ("drop it", "--drop {word}")
# By code: the finding, and the ways out in Python and on the command line. The worst comes first.
_TEXTS = {
    "gives-away": (
        "{column!r} alone tells labelled from unlabeled rows (AUC {number:.3f}), as if made from "
        "the label, and is used",
        *_DROP,
    ),
    "nearly-gives-away": (
        "{column!r} alone tells labelled from unlabeled rows (AUC {number:.3f}) far better than "
        "all other columns together ({detail}), as if made from the label, and is used, so that "
        "the prior is not identified",
        "drop it, unless it is known before the label is",
        "--drop {word}, unless it is known before the label is",
    ),
    "missing-by-label": (
        "{column!r} is missing in {number:.0%} of the labelled or of the unlabeled rows and hardly "
        "in the others, as if filled in with the label, and is used",
        *_DROP,
    ),
    "time": (
        "{column!r} sorts with time ({number:.0f} different values), so that later rows have "
        "values that no training row has, and is used",
        "pass it as periods, or drop it",
        "--period {word}, or --drop {word}",
    ),
    "identifier": (
        "{column!r} has {number:.0f} whole numbers that repeat less often than chance allows, as "
        "identifiers do, and is used",
        *_DROP,
    ),
    "other-scenario": (
        "{number:.0%} of the labelled positives are also among the unlabeled rows, so they are no "
        "part of one sample",
        "use scenario='case-control'",
        "--scenario case-control",
    ),
    "copies": (
        "{number:.1%} of the rows are copies of others; copies of a labelled row count once, the "
        "others as they are",
        "if they are one case each, keep one of them, or pass groups",
        "if they are one case each, keep one of them",
    ),
    "other-dates": (
        "{column!r} has dates whose day and month can be exchanged, or that are not read, so they "
        "are categories that later rows do not have",
        "convert it to dates, or drop it",
        "write them as 2026-06-30, or --drop {word}",
    ),
    "constant": ("{column!r} has at most one value in all rows and no effect", *_DROP),
    "rare": (
        "no text in {column!r} occurs five times, so all are one level without effect",
        *_DROP,
    ),
    "case-control": (
        "{number:.0%} of the labelled positives are also among the unlabeled rows: the two samples "
        "were drawn separately, as scenario case-control says",
        "",
        "",
    ),
    "dates": (
        "{column!r} has dates: {detail} are used, and time itself is not, because later rows have "
        "later dates",
        "name it in keep_time to use its time as well",
        "--keep-time {word} uses its time as well",
    ),
    "only-time": (
        "{column!r} has dates of so short a time that no part of them comes again in later rows, "
        "and is not used by itself",
        "name it in keep_time to use its time",
        "--keep-time {word} uses its time",
    ),
    "sorted": ("the table is sorted by {column!r}, which is used", "", ""),
    "left-out": (
        "{column!r} is left out, because almost every row has a different value, as an identifier "
        "has",
        "name it in keep_ids to use it",
        "--keep-ids {word} uses it",
    ),
    "different-numbers": (
        "{column!r} has a different whole number in almost every row, and is used as an amount",
        "if it is an identifier, drop it",
        "if it is an identifier, --drop {word}",
    ),
    "gaps": (
        "{number:.1%} of the rows have a missing value: trees use it as it is, a smooth model gets "
        "the median of the column, or zero in sparse rows",
        "",
        "",
    ),
    "numbers-as-text": (
        "{column!r} holds numbers as text and is read as numbers; if they are codes, such as "
        "account numbers, declare it a category",
        "",
        "",
    ),
    "codes": (
        "{column!r} holds digits with leading zeros, as codes have, and is a category",
        "",
        "",
    ),
    "strong": ("{column!r} alone tells labelled from unlabeled rows (AUC {number:.3f})", "", ""),
    "text": ("{column!r} is free text, read as {number:.0f} columns", "", ""),
}
# Findings after which the best-scored rows say how the label was made, and not what is positive.
LEAKS = ("gives-away", "nearly-gives-away", "missing-by-label")
# Findings that nothing is wrong with: there is a way out for those who mean another thing.
_AS_USUAL = ("dates", "only-time", "left-out", "different-numbers")


@kept("note")
@dataclass(frozen=True)
class Note(Kept):
    """One finding about a training table."""

    code: Annotated[str, Text(pattern="|".join(_TEXTS))]
    column: str = ""  # the column, or an empty string if the note is about rows
    number: Annotated[float, Number(0)] = 0.0  # an AUC, a share or a count, depending on the code
    detail: Annotated[str, Text(most=10_000)] = ""  # what is used of dates

    def __str__(self) -> str:
        return self.text()

    @property
    def doubtful(self) -> bool:
        """Whether there is something to do about it."""
        return bool(_TEXTS[self.code][1]) and self.code not in _AS_USUAL

    def text(self, *, command_line: bool = False) -> str:
        """The finding and the way out, for users of Python or of the command line."""
        text, in_python, in_terminal = _TEXTS[self.code]
        way_out = in_terminal if command_line else in_python
        if way_out:
            text += f": {way_out}"
        word = shlex.quote(str(self.column))
        return text.format(column=self.column, word=word, number=self.number, detail=self.detail)


def table_notes(
    positive: Any,
    unlabeled: Any,
    table: TableEncoder | None = None,
    *,
    scenario: str = "case-control",
) -> tuple[Note, ...]:
    """Notes about encoded training rows, the worst first; none for sparse rows and images."""
    if not is_matrix(positive) or not is_matrix(unlabeled):
        return ()
    notes = []
    if table is not None:
        for column in table.columns:
            if column.note:
                notes.append(Note(column.note, column.name, float(column.width), column.detail))
    if min(len(positive), len(unlabeled)) >= FEWEST_OF_CLASS:
        rows = np.concatenate([positive, unlabeled])
        is_positive = np.arange(len(rows)) < len(positive)
        if rows.shape[1] <= MOST_CHECKED:
            for sortable in _sortable_columns(rows, table):
                for note in _column_notes(sortable, is_positive):
                    if not _is_said(note, notes):
                        notes.append(note)
        notes += _row_notes(rows, is_positive, scenario)
    return _worst_first(notes)


def leak_notes(positive: Any, unlabeled: Any, names: Sequence[str]) -> tuple[Note, ...]:
    """Columns of an array that tell labelled from unlabeled rows, to be compared with others."""
    if not is_matrix(positive) or not is_matrix(unlabeled):
        return ()
    enough = min(len(positive), len(unlabeled)) >= FEWEST_OF_CLASS
    if not enough or positive.shape[1] > MOST_CHECKED:
        return ()
    rows = np.concatenate([positive, unlabeled])
    is_positive = np.arange(len(rows)) < len(positive)
    notes = []
    for k, name in enumerate(names):
        for note in _column_notes(_SortableColumn(name, rows[:, k]), is_positive):
            if note.code in ("strong", "gives-away"):
                notes.append(Note("strong", name, note.number))
    return _worst_first(notes)


def _worst_first(notes: Sequence[Note]) -> tuple[Note, ...]:
    order = list(_TEXTS)
    ordered = sorted(notes, key=lambda note: order.index(note.code))
    return tuple(ordered[:MOST_NOTES])


def _is_said(note: Note, notes: Sequence[Note]) -> bool:
    """Whether there is such a note of the column, or one that implies it."""
    codes = {other.code for other in notes if other.column == note.column}
    return note.code in codes or (note.code == "rare" and "other-dates" in codes)


def notes_of_gaps(positive: Any, unlabeled: Any) -> tuple[Note, ...]:
    """How many rows have a missing value, if any; none for images and tables that a model reads."""
    counts = [_rows_with_gaps(rows) for rows in (positive, unlabeled)]
    if None in counts or sum(counts) == 0:
        return ()
    n = positive.shape[0] + unlabeled.shape[0]
    return (Note("gaps", number=sum(counts) / n),)


def _rows_with_gaps(rows: Any) -> Any:
    """Number of rows with a missing value; None if the rows are no numbers in columns."""
    if is_sparse(rows):
        entries = scipy.sparse.find(rows)
        return len(np.unique(entries[0][np.isnan(entries[2])]))
    if not is_matrix(rows):
        return None
    return int(np.isnan(rows).any(axis=1).sum())


def list_of_notes(notes: Sequence[Note], *, command_line: bool = False, most: int = 6) -> str:
    """The notes as a numbered list for one warning, at most ``most`` of them."""
    items = []
    for number, note in enumerate(notes[:most], start=1):
        items.append(f"({number}) {note.text(command_line=command_line)}")
    if len(notes) > most:
        items.append(f"and {len(notes) - most} more")
    return "; ".join(items)


def warn_of_notes(notes: Sequence[Note]) -> None:
    """Warn once of everything in a training table that there is something to do about."""
    doubtful = [note for note in notes if note.doubtful]
    if doubtful:
        TrainingTableWarning.issue(
            "look at the training table before this classifier is used:",
            advice=f"{list_of_notes(doubtful, command_line=False)}.",
            command=f"{list_of_notes(doubtful, command_line=True)}.",
        )


# -- columns --


@dataclass(frozen=True, slots=True)
class _SortableColumn:
    """Values of one column in an order that has a meaning; names of levels for a category."""

    name: str
    values: FloatArray
    levels: tuple[str, ...] | None = None
    is_date: bool = False
    known: bool = False  # whether another note says that its whole numbers are all different


def _sortable_columns(rows: FloatArray, table: TableEncoder | None) -> Iterator[_SortableColumn]:
    if table is None:
        for k in range(rows.shape[1]):
            yield _SortableColumn(str(k), rows[:, k])
        return
    if table.indicators is not None:
        rows = table.indicators.codes_in(rows)
    for k, column in enumerate(table.encoded):
        values = column.sortable(rows[:, k])
        if values is not None:
            levels = column.levels if column.has_codes else None
            yield _SortableColumn(
                column.name,
                values,
                levels,
                is_date=isinstance(column, DateColumn) and column.is_date,
                known=isinstance(column, NumberColumn) and column.different,
            )


def _column_notes(column: _SortableColumn, positive: BoolArray) -> list[Note]:
    """The worst finding about a column, if there is one."""
    values = column.values
    missing = np.isnan(values)
    missing_shares = (missing[positive].mean(), missing[~positive].mean())
    if max(missing_shares) >= GIVES_AWAY and min(missing_shares) <= 1 - GIVES_AWAY:
        return [Note("missing-by-label", column.name, float(max(missing_shares)))]
    if column.is_date and not missing.all():
        return _notes_of_part(column, positive)
    different = np.unique(values[~missing])
    if len(different) + missing.any() <= 1:
        only_rare_levels = column.levels == () and not missing.all()
        return [Note("rare" if only_rare_levels else "constant", column.name, 1.0)]
    auc = _auc(column, positive)
    if auc >= GIVES_AWAY:
        return [Note("gives-away", column.name, auc)]
    strong = [Note("strong", column.name, auc)] if auc >= STRONG else []
    return strong + _notes_of_order(column, different, positive)


def _notes_of_order(
    column: _SortableColumn, different: FloatArray, positive: BoolArray
) -> list[Note]:
    """Whether the values are periods, identifiers, or in the order of the rows."""
    values = column.values
    in_order = _is_sorted(values, positive)
    if _has_periods(column, different) or (in_order and _looks_like_time(column, different)):
        return [Note("time", column.name, len(different))]
    is_number = column.levels is None and not column.known
    if is_number and _is_assigned(different, len(values)):
        return [Note("identifier", column.name, len(values))]
    if in_order:
        return [Note("sorted", column.name, len(different))]
    return []


def _notes_of_part(column: _SortableColumn, positive: BoolArray) -> list[Note]:
    """Whether a part of dates gives the label away; what else there is to say is said of dates."""
    auc = _auc(column, positive)
    if auc >= GIVES_AWAY:
        return [Note("gives-away", column.name, auc)]
    return []


def _auc(column: _SortableColumn, positive: BoolArray) -> float:
    """The AUC of labelled against unlabeled rows, in the better of both directions.

    Levels of a category are sorted by their share of labelled rows. Missing values are lowest or
    highest, whichever is better.
    """
    values, flags = _thinned(column.values, positive)
    if column.levels is not None:
        levels, member = np.unique(np.nan_to_num(values, nan=-2.0), return_inverse=True)
        rows = np.bincount(member)
        labelled = np.bincount(member, flags, len(levels))
        shares = np.where(rows < FEWEST_OF_LEVEL, flags.mean(), labelled / rows)
        values = shares[member]
    best = 0.0
    for fill in (-np.inf, np.inf):
        ranks = scipy.stats.rankdata(np.where(np.isnan(values), fill, values))
        auc = float((ranks[flags].mean() - (flags.sum() + 1) / 2) / (~flags).sum())
        best = max(best, auc, 1 - auc)
    return best


def _has_periods(column: _SortableColumn, different: FloatArray) -> bool:
    """Whether the values are months, quarters or weeks with their years, as 2026-03 or 202603."""
    if column.levels is not None:
        return len(column.levels) > 1 and _all_match(_PERIOD, column.levels)
    if len(different) <= 2 or not _is_whole(different):
        return False
    return _all_match(_PERIOD, (f"{value:.0f}" for value in different[:MOST_CHECKED]))


def _looks_like_time(column: _SortableColumn, different: FloatArray) -> bool:
    """Whether the values are years."""
    if column.levels is not None or not _is_whole(different):
        return False
    return bool(different[0] >= 1900 and different[-1] < 2100)


def _all_match(pattern: re.Pattern[str], texts: Iterable[str]) -> bool:
    return all(pattern.fullmatch(text) for text in texts)


def _is_whole(values: FloatArray) -> bool:
    return bool((values % 1 == 0).all())


def _is_assigned(different: FloatArray, n: int) -> bool:
    """Whether whole numbers are all different, more than chance allows."""
    if len(different) < n or not _is_whole(different):
        return False
    return repeats_too_rarely(n, n, int(different[-1] - different[0]) + 1)


def _is_sorted(values: FloatArray, positive: BoolArray) -> bool:
    """Whether both classes are in the order of the column, with three different values or more."""
    if np.isnan(values).any():
        return False
    steps_of_positives = np.diff(values[positive])
    steps_of_unlabeled = np.diff(values[~positive])
    if np.count_nonzero(steps_of_positives) < 2 or np.count_nonzero(steps_of_unlabeled) < 2:
        return False
    steps = np.concatenate([steps_of_positives, steps_of_unlabeled])
    return bool((steps >= 0).all() or (steps <= 0).all())


def _thinned(values: FloatArray, positive: BoolArray) -> tuple[FloatArray, BoolArray]:
    """At most 20,000 values of each class, with their flags."""
    labelled = every_kth(values[positive])
    unlabeled = every_kth(values[~positive])
    values = np.concatenate([labelled, unlabeled])
    return values, np.arange(len(values)) < len(labelled)


def compared_with_others(
    notes: Sequence[Note], area_without: Callable[[str], float]
) -> tuple[Note, ...]:
    """The notes; of strong columns those whose errors are less than half of those of all others.

    ``area_without`` is the AUC of labelled against unlabeled rows by all columns but one. A column
    that is known when the label is has no such lead: others know a part of what it knows.
    """
    compared = []
    for note in notes:
        if note.code != "strong":
            compared.append(note)
            continue
        others = area_without(note.column)
        if 1 - note.number < (1 - others) / 2:
            doubt = Note("nearly-gives-away", note.column, note.number, f"{others:.3f}")
            compared.append(doubt)
    return _worst_first(compared)


# -- rows --


def _row_notes(rows: FloatArray, positive: BoolArray, scenario: str) -> list[Note]:
    """Notes about copies within the samples, and about positives among the unlabeled rows."""
    notes = []
    keys = row_keys(rows)
    _, positive_counts = np.unique(keys[positive], return_counts=True)
    _, unlabeled_counts = np.unique(keys[~positive], return_counts=True)
    copies = 1 - (len(positive_counts) + len(unlabeled_counts)) / len(keys)
    if copies >= COPIES and are_copies(rows, keys):
        notes.append(Note("copies", "", copies))
    share = reappearing(keys[positive], keys[~positive])
    if share is not None:
        code = "case-control" if scenario == "case-control" else "other-scenario"
        notes.append(Note(code, "", share))
    return notes
