"""Notes about a training table: columns and rows that may make a fit worthless for later rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import xlogy
from scipy.stats import rankdata

from drpu._codec import Kept, Number, Text, kept
from drpu._typing import BoolArray, FloatArray
from drpu.tables.columns import FIRST, MISSING, CategoryColumn, LeftOutColumn
from drpu.tables.encoder import TableEncoder
from drpu.tables.text import TextColumn

FEWEST = 20  # minimum number of labelled rows, and of unlabeled ones
GIVES_AWAY = (
    0.998  # AUC of one column that no honest column reaches if a few unlabeled rows are positive
)
MOST_ROWS = 20_000  # rows of a class that are ranked or compared in pairs
MOST_COLUMNS = 500  # wider rows, such as pixels, are not checked column by column
COPIES = 0.01  # minimum share of copies to be noted
BY_CHANCE = (
    1000  # equal rows are so much more frequent than by chance, because columns are dependent
)
MOST_NOTES = 50
COPIED = 5  # minimum number of positives that are copies of unlabeled rows
EXCESS = 6.63  # quantile of chi-squared at 99 %: more pairs of equal rows between two samples than by chance

_PERIOD = re.compile(r"(19|20)\d\d[-/. ]?(0[1-9]|1[0-2]|[Qq][1-4]|[Ww]\d\d)")
_OTHER_DATE = re.compile(r"\d\d?[-/. ](\d\d?|[^\W\d]{3,9}\.?)[-/. ](19|20)?\d\d( .*)?")
_DROP = "drop it", "--drop {column}"
# By code: what was found, and the ways out in Python and on the command line. The worst comes first.
_TEXTS = {
    "gives-away": (
        "{column!r} alone tells labelled from unlabeled rows (AUC {number:.3f}), as if made from the label, "
        "and is used",
        *_DROP,
    ),
    "missing-by-label": (
        "{column!r} is missing in {number:.0%} of the labelled or of the unlabeled rows and hardly in the "
        "others, as if filled in with the label, and is used",
        *_DROP,
    ),
    "time": (
        "{column!r} sorts with time ({number:.0f} different values), so that later rows have values that no "
        "training row has, and is used",
        "pass it as periods, or drop it",
        "--period {column}, or --drop {column}",
    ),
    "identifier": (
        "{column!r} has {number:.0f} whole numbers, all different, as row numbers in another order have, and "
        "is used",
        *_DROP,
    ),
    "other-scenario": (
        "{number:.0%} of the labelled positives are also among the unlabeled rows, so they are no part of "
        "one sample",
        "use scenario='case-control'",
        "--scenario case-control",
    ),
    "copies": (
        "{number:.1%} of the rows are copies of others; copies of a labelled row count once, the others as "
        "they are",
        "keep one of each, or pass groups",
        "keep one of each",
    ),
    "other-dates": (
        "{column!r} has dates in another form than 2026-06-30, so they are categories that later rows do not "
        "have",
        "convert it to dates, or drop it",
        "write them as 2026-06-30, or --drop {column}",
    ),
    "constant": ("{column!r} has at most one value in all rows and no effect", *_DROP),
    "rare": (
        "no text in {column!r} occurs five times, so all are one level without effect",
        *_DROP,
    ),
    "case-control": (
        "{number:.0%} of the labelled positives are also among the unlabeled rows: the two samples were "
        "drawn separately, as scenario case-control says",
        "",
        "",
    ),
    "left-out": ("{column!r} is left out, because every row has a different value", "", ""),
    "text": ("{column!r} is free text, read as {number:.0f} columns", "", ""),
}


@kept("note")
@dataclass(frozen=True)
class Note(Kept):
    """One finding about a training table."""

    code: Annotated[str, Text(pattern="|".join(_TEXTS))]  # what was found, a key of ``_TEXTS``
    column: str = ""  # the column, or an empty string if the note is about rows
    number: Annotated[float, Number(0)] = 0.0  # an AUC, a share or a count, depending on the code

    def __str__(self) -> str:
        return self.text()

    @property
    def doubtful(self) -> bool:
        """Whether there is something to do about it."""
        return bool(_TEXTS[self.code][1])

    def text(self, *, command_line: bool = False) -> str:
        """The finding and the way out, for users of Python or of the command line."""
        found, in_python, in_terminal = _TEXTS[self.code]
        way = in_terminal if command_line else in_python
        form = f"{found}: {way}" if way else found
        return form.format(column=self.column, number=self.number)


def table_notes(
    positive: Any,
    unlabeled: Any,
    table: TableEncoder | None = None,
    *,
    scenario: str = "case-control",
) -> tuple[Note, ...]:
    """Notes about encoded training rows, the worst first; none for sparse rows and images."""
    if not all(isinstance(rows, np.ndarray) and rows.ndim == 2 for rows in (positive, unlabeled)):
        return ()
    plans = () if table is None else table.columns
    found = [Note("left-out", plan.name) for plan in plans if isinstance(plan, LeftOutColumn)]
    found += [Note("text", plan.name, plan.width) for plan in plans if isinstance(plan, TextColumn)]
    if min(len(positive), len(unlabeled)) >= FEWEST:
        rows = np.concatenate([positive, unlabeled])
        flags = np.repeat([True, False], [len(positive), len(unlabeled)])
        columns = list(_columns(rows, table)) if rows.shape[1] <= MOST_COLUMNS else []
        found += [note for column in columns if (note := _of_column(column, flags)) is not None]
        found += _of_rows(rows, flags, scenario)
    order = list(_TEXTS)
    return tuple(sorted(found, key=lambda note: order.index(note.code))[:MOST_NOTES])


def list_of_notes(notes: Sequence[Note], *, command_line: bool = False, most: int = 6) -> str:
    """The notes as a numbered list for one warning, at most ``most`` of them."""
    lines = [
        f"({k}) {note.text(command_line=command_line)}"
        for k, note in enumerate(notes[:most], start=1)
    ]
    more = len(notes) - most
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class _Column:
    """Values of one column in an order that means something; names of levels for a category."""

    name: str
    values: FloatArray
    levels: tuple[str, ...] | None = None


def _columns(rows: FloatArray, table: TableEncoder | None) -> Iterator[_Column]:
    """Columns of numbers, dates and categories; the levels of a category in alphabetical order."""
    if table is None:
        yield from (_Column(str(k), rows[:, k]) for k in range(rows.shape[1]))
        return
    if table.indicators is not None:
        rows = table.indicators.codes_in(rows)
    for k, plan in enumerate(table.encoded):
        if isinstance(plan, CategoryColumn):
            order = np.full(FIRST + len(plan.levels), np.nan)
            order[FIRST + np.argsort(np.array(plan.levels, dtype=object))] = np.arange(
                len(plan.levels)
            )
            order[MISSING + 1] = -1.0 if len(plan.levels) else 0.0  # rare levels
            yield _Column(plan.name, order[rows[:, k].astype(np.int64)], plan.levels)
        elif not isinstance(plan, TextColumn):
            yield _Column(plan.name, rows[:, k])


def _of_column(column: _Column, positive: BoolArray) -> Note | None:
    """The worst finding about a column."""
    values, gaps = column.values, np.isnan(column.values)
    shares = gaps[positive].mean(), gaps[~positive].mean()
    if max(shares) >= GIVES_AWAY and min(shares) <= 1 - GIVES_AWAY:
        return Note("missing-by-label", column.name, float(max(shares)))
    different = np.unique(values[~gaps])
    if len(different) + gaps.any() <= 1:
        return Note(
            "rare" if column.levels == () and not gaps.all() else "constant", column.name, 1.0
        )
    auc = _auc(column, positive)
    if auc >= GIVES_AWAY:
        return Note("gives-away", column.name, auc)
    if _is_period(column, different) or (not gaps.any() and _is_sorted(values, positive)):
        return Note("time", column.name, len(different))
    if column.levels and all(map(_OTHER_DATE.fullmatch, column.levels)):
        return Note("other-dates", column.name, len(different))
    whole = column.levels is None and len(different) == len(values) and (different % 1 == 0).all()
    if whole and np.ptp(different) < 2 * len(values):  # so dense and all different is no accident
        return Note("identifier", column.name, len(values))
    return None


def _auc(column: _Column, positive: BoolArray) -> float:
    """The AUC of labelled against unlabeled rows; of a category, by the share of labelled rows of a level."""
    values, flags = _thinned(column.values, positive)
    if column.levels is not None:
        levels, member = np.unique(np.nan_to_num(values, nan=-2.0), return_inverse=True)
        n, hits = np.bincount(member), np.bincount(member, flags, len(levels))
        values = np.where(n < FEWEST // 4, flags.mean(), hits / n)[member]
    found = []
    for fill in (-np.inf, np.inf):
        ranks = rankdata(np.where(np.isnan(values), fill, values))
        auc = (ranks[flags].mean() - (flags.sum() + 1) / 2) / (~flags).sum()
        found += [float(auc), float(1 - auc)]
    return max(found)


def _is_period(column: _Column, different: FloatArray) -> bool:
    """Whether the values are months, quarters or weeks with their years, as 2026-03 or 202603."""
    if column.levels is not None:
        return len(column.levels) > 1 and all(map(_PERIOD.fullmatch, column.levels))
    names = (
        [f"{value:.0f}" for value in different[:MOST_COLUMNS]] if (different % 1 == 0).all() else []
    )
    return len(names) > 2 and all(map(_PERIOD.fullmatch, names))


def _is_sorted(values: FloatArray, positive: BoolArray) -> bool:
    """Whether the rows of both classes are in the order of the column, which has three values or more."""
    steps = [np.diff(values[flags]) for flags in (positive, ~positive)]
    one_way = all((step >= 0).all() for step in steps) or all((step <= 0).all() for step in steps)
    return one_way and all(np.count_nonzero(step) >= 2 for step in steps)


def _thinned(values: FloatArray, positive: BoolArray) -> tuple[FloatArray, BoolArray]:
    """At most 20,000 values of each class, with their flags."""
    parts = [values[flags] for flags in (positive, ~positive)]
    parts = [part[:: -(-len(part) // MOST_ROWS)] for part in parts]
    return np.concatenate(parts), np.repeat([True, False], [len(part) for part in parts])


def _of_rows(rows: FloatArray, positive: BoolArray, scenario: str) -> list[Note]:
    keys = _keys(rows)
    found = []
    counts = np.concatenate(
        [np.unique(keys[flags], return_counts=True)[1] for flags in (positive, ~positive)]
    )
    share = 1 - len(counts) / len(keys)
    pairs = _equal_pairs(counts)
    if share >= COPIES and pairs > BY_CHANCE * _pairs_by_chance(rows):
        found.append(Note("copies", "", share))
    reappearing = _reappearing(keys[positive], keys[~positive])
    if reappearing is not None:
        code = "case-control" if scenario == "case-control" else "other-scenario"
        found.append(Note(code, "", reappearing))
    return found


def reappearing_share(positive: Any, unlabeled: Any) -> float | None:
    """Share of the labelled rows that are also among the unlabeled ones, if it is more than by chance.

    None if it is not, and if it cannot be told: with few rows, sparse rows and images.
    """
    if not all(isinstance(rows, np.ndarray) and rows.ndim == 2 for rows in (positive, unlabeled)):
        return None
    if min(len(positive), len(unlabeled)) < FEWEST:
        return None
    return _reappearing(_keys(positive), _keys(unlabeled))


def _reappearing(positive_keys: Any, unlabeled_keys: Any) -> float | None:
    """The same from the keys of the rows.

    Rows of a coarse table coincide by chance. Then rows of one sample coincide with each other as well: with
    the probabilities p and u of a value in the two samples, sum(p u) is at most sqrt(sum(p^2) sum(u^2)), so
    the expected pairs between the samples are at most twice the geometric mean of those within them. This is
    tested by a likelihood ratio.
    """
    copied = np.isin(positive_keys, unlabeled_keys)
    share = float(copied.mean())
    twins = max(_twins(positive_keys), _twins(unlabeled_keys))
    if copied.sum() < COPIED or share <= max(COPIES, COPIED * twins):
        return None
    positive_values, positive_counts = np.unique(positive_keys, return_counts=True)
    unlabeled_values, unlabeled_counts = np.unique(unlabeled_keys, return_counts=True)
    _, in_positive, in_unlabeled = np.intersect1d(
        positive_values, unlabeled_values, assume_unique=True, return_indices=True
    )
    between = float(positive_counts[in_positive] @ unlabeled_counts[in_unlabeled])
    within_positive = _equal_pairs(positive_counts)
    within_unlabeled = _equal_pairs(unlabeled_counts)
    if _excess_between(within_positive, within_unlabeled, between) < EXCESS:
        return None
    return share


def _excess_between(within_positive: float, within_unlabeled: float, between: float) -> float:
    """Likelihood ratio statistic of more pairs between two samples than those within them explain.

    With all pairs divided by the shares s and 1 - s of the samples, at most s^2, (1 - s)^2 and 2 s (1 - s) of
    them are expected within and between, as for genotypes. 0 if there are not more pairs between them.
    """
    pairs = np.array([within_positive, within_unlabeled, between])
    total = pairs.sum()
    s = (within_positive + between / 2) / total
    expected = total * np.array([s**2, (1 - s) ** 2, 2 * s * (1 - s)])
    if between <= expected[2]:
        return 0.0
    return float(2 * xlogy(pairs, pairs / expected).sum())


def _equal_pairs(counts: Any) -> float:
    """Pairs of equal rows, from the number of rows of each value."""
    return float((counts * (counts - 1.0)).sum()) / 2


def _keys(rows: FloatArray) -> Any:
    """One number for each row; equal rows have equal numbers."""
    keys = np.zeros(len(rows), dtype=np.uint64)
    for k in range(rows.shape[1]):
        column = rows[:, k].astype(np.float64) + 0.0  # one zero
        column[np.isnan(column)] = np.nan  # one NaN
        mixed = (keys ^ np.ascontiguousarray(column).view(np.uint64)) * np.uint64(
            0x9E3779B97F4A7C15
        )
        keys = mixed ^ (mixed >> np.uint64(29))
    return keys


def _twins(keys: Any) -> float:
    """Share of the rows that equal another one."""
    _, member, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return float((counts[member] > 1).mean())


def _pairs_by_chance(rows: FloatArray) -> float:
    """Expected pairs of equal rows if the columns were independent."""
    some = rows[:: -(-len(rows) // MOST_ROWS)]
    n, chance = len(some), 1.0
    for k in range(rows.shape[1]):
        _, counts = np.unique(some[:, k], return_counts=True)
        chance *= max(float((counts * (counts - 1.0)).sum()), 1.0) / (n * (n - 1))
    return chance * len(rows) * (len(rows) - 1) / 2
