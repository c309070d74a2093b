"""Summaries of columns whose rows are in many parts; their sum determines the types of the columns.

A summary is made before the type of its column is known, so it has what all types need to
recognise and learn their columns. A table in memory has one part for each sample, and its summaries
are exact.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu.tables.dates import DATE, DAY_FIRST, DIGITS, FORMS, MONTH_FIRST, Covered
from drpu.tables.frames import Frame
from drpu.tables.values import (
    CATEGORY,
    NUMBER,
    READERS,
    VALUES,
    days,
    declared_kind,
    distinct_values,
    hash_of,
    is_missing_cell,
    is_plain,
    is_whole,
    level_name,
    numeric,
    read_distinct,
    zones_of,
    zones_of_series,
)

FEWEST_VALUES = 20  # with fewer values, "all are different" is no sign of an identifier
BY_CHANCE = 0.001  # numbers that repeat less often than this probability allows were assigned
EXACT_DIGITS = 15  # whole numbers of so many digits differ as floats, too
MOST_DIFFERENT = 2**14  # different values of a summary; for columns with more, it is approximate


@dataclass(frozen=True, slots=True)
class Run:
    """Increasing (1) or decreasing (-1) whole numbers, or a single one (0), in a part."""

    place: tuple[int, ...]
    first: float
    last: float
    direction: int


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A summary of rows of a column, from which its type is determined; those of parts are added.

    ``levels``: Rows of the most frequent values. Up to ``most`` different values it is complete;
    beyond, every value of more than one row in ``most`` is in it, and its rows are counted too low
    by at most that share (the summary of Misra and Gries).
    ``sample``: If ``levels`` is not complete, the different values with the smallest hashes, by
    hash. The largest of these hashes gives the number of different values to about 1 %.
    """

    sources: frozenset[str]  # kinds by the types of the parts; "values" if the values determine it
    rows: int = 0
    present: int = 0  # number of rows without a missing value
    readable: frozenset[str] = frozenset(READERS)  # kinds that all values can be read as
    texts: bool = True  # whether all values are strings
    whole: bool = True  # whether all values are whole numbers
    zones: frozenset[bool] = frozenset()  # whether dates have a time zone: one answer or both
    covered: Mapping[str, Covered] = field(default_factory=dict)  # by dates, for each form
    # Whole numbers that are all different and in order in each part; None if they are not.
    runs: tuple[Run, ...] | None = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    sample: Mapping[int, str] | None = None
    example: Any = None  # a value that is neither a string nor a number nor a date
    most: float = MOST_DIFFERENT  # maximum number of different values to keep

    @classmethod
    def of_kind(
        cls, kind: str, rows: int = 1, zones: frozenset[bool] = frozenset()
    ) -> ColumnSummary:
        """The summary of a column whose type determines its kind, without reading rows."""
        return cls(
            frozenset([kind]),
            rows=rows,
            present=rows,
            texts=False,
            whole=False,
            zones=zones,
            runs=None,
        )

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if not self.rows:
            return other
        if not other.rows:
            return self
        levels = Counter(self.levels)
        levels.update(other.levels)
        sample = None
        if self.sample is not None or other.sample is not None or len(levels) > self.most:
            sample = _smallest({**self._by_hash(), **other._by_hash()}, self.most)
        runs = None
        if self.runs is not None and other.runs is not None:
            runs = self.runs + other.runs
        covered = {}
        for form in self.covered.keys() & other.covered.keys():
            covered[form] = self.covered[form] + other.covered[form]
        return ColumnSummary(
            sources=self.sources | other.sources,
            rows=self.rows + other.rows,
            present=self.present + other.present,
            readable=self.readable & other.readable,
            texts=self.texts and other.texts,
            whole=self.whole and other.whole,
            zones=self.zones | other.zones,
            covered=covered,
            runs=runs,
            levels=_frequent(levels, self.most),
            sample=sample,
            example=other.example if self.example is None else self.example,
            most=self.most,
        )

    def is_kind(self, kind: str) -> bool:
        """Whether the column is of a kind, by its type or because all values can be read as it."""
        if self.sources == {VALUES}:
            return kind in self.readable
        return self.sources == {kind}

    @property
    def date_form(self) -> str | None:
        """The form of dates in which the values are read; None if they are no dates.

        None also if day and month could be exchanged in all texts.
        """
        if self.sources == {DATE}:
            return DATE
        if len(self.sources) != 1 or not self.readable.intersection(FORMS):
            return None
        if DIGITS in self.readable and self.covers_days(DIGITS):
            return DIGITS
        if self.sources != {VALUES} or NUMBER in self.readable:
            return None
        forms = self.readable.intersection((DATE, DAY_FIRST, MONTH_FIRST))
        if DATE in forms:
            return DATE
        return min(forms) if len(forms) == 1 else None

    def covers_days(self, form: str) -> bool:
        """Whether there are dates of a form."""
        return form in self.covered and bool(self.covered[form].days)

    @property
    def different(self) -> float:
        """Number of different values: exact if all levels are kept, an estimate otherwise."""
        if self.sample is None:
            return len(self.levels)
        return min((self.most - 1) / (max(self.sample) / 2**64), float(self.present))

    @property
    def share_of_different(self) -> float:
        """Different values per row of a column of strings or of long whole numbers.

        It is 0 for other columns and for few rows.
        """
        if self.sources not in ({VALUES}, {NUMBER}) or not (self.texts or self.whole):
            return 0.0
        if self.present < FEWEST_VALUES or self.readable.intersection((DAY_FIRST, MONTH_FIRST)):
            return 0.0
        return self.different / self.present

    @property
    def assigned(self) -> bool:
        """Whether whole numbers repeat so rarely that they were assigned to the rows."""
        if not self.levels or not self.whole:
            return False
        numbers = [int(text) for text in self._known_values()]
        possible = max(numbers) - min(numbers) + 1
        return repeats_too_rarely(self.present, round(self.different), possible)

    @property
    def spaced(self) -> float:
        """Share of the different values that have several words."""
        texts = self._known_values()
        with_spaces = [text for text in texts if len(text.split()) > 1]
        return len(with_spaces) / max(1, len(texts))

    @property
    def exact(self) -> float:
        """Share of the different values with so few letters that they are exact as a float."""
        texts = self._known_values()
        short = [text for text in texts if len(text) <= EXACT_DIGITS]
        return len(short) / max(1, len(texts))

    def _known_values(self) -> list[str]:
        """Different values as text: all of them, or the sample."""
        if self.sample is None:
            return list(self.levels)
        return list(self.sample.values())

    def sampled_values(self) -> list[str]:
        """At most 16,384 different values as text, by hash: a random sample if there are more."""
        sample = _smallest(dict(self._by_hash()), MOST_DIFFERENT)
        return [sample[key] for key in sorted(sample)]

    @property
    def counts_up(self) -> bool:
        """Whether whole numbers are all different and monotone over each sample of the table."""
        if self.runs is None or not self.whole:
            return False
        if self.rows < FEWEST_VALUES or self.present < self.rows:
            return False
        runs = sorted(self.runs, key=lambda run: run.place)
        directions = {run.direction for run in runs if run.direction}
        for before, after in pairwise(runs):
            if before.place[0] == after.place[0]:
                directions.add(int(np.sign(after.first - before.last)))
        return directions in ({1}, {-1})

    def _by_hash(self) -> Mapping[int, str]:
        if self.sample is not None:
            return self.sample
        return _hashed(self.levels)


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summaries of the columns of a part of a table, by name; those of parts are added."""

    columns: Mapping[str, ColumnSummary]

    @classmethod
    def of(cls, frame: Frame, place: tuple[int, ...] = ()) -> TableSummary:
        """Summaries of all columns of a frame; ``place`` orders the parts of a table."""
        summaries = {}
        for j, name in enumerate(frame.names):
            summaries[name] = summarize(name, frame.column(j), (0, *place))
        return cls(summaries)

    @classmethod
    def of_samples(cls, frames: list[Frame]) -> TableSummary:
        """Exact summaries of all columns of samples in memory, which have the same columns.

        A column whose types differ between the samples is read by its values.
        """
        summaries = {}
        for j, name in enumerate(frames[0].names):
            parts = [frame.column(j) for frame in frames]
            source = _common_kind(parts)
            total = ColumnSummary(frozenset())
            for sample, part in enumerate(parts):
                total += summarize(name, part, (sample,), source=source, most=math.inf)
            summaries[name] = total
        return cls(summaries)

    def __add__(self, other: TableSummary) -> TableSummary:
        summaries = {}
        for name, summary in self.columns.items():
            summaries[name] = summary + other.columns[name]
        return TableSummary(summaries)


def repeats_too_rarely(n: int, different: int, possible: int) -> bool:
    """Whether n values repeat each other less often than independent ones can.

    Of n independent values among R possible ones, at least n - R (1 - (1 - 1/R)^n) repeat others in
    expectation: that many if all values are equally likely, and more if not, as for amounts.
    """
    if possible < 2:
        return False
    expected = n + possible * math.expm1(n * math.log1p(-1 / possible))
    repeats = max(n - different, 0)
    return bool(scipy.special.pdtr(repeats, max(expected, 0.0)) < BY_CHANCE)


def _common_kind(parts: Sequence[nw.Series[Any]]) -> str:
    """The kind of a column by the types of its parts; if they differ, the values determine it."""
    kinds = {declared_kind(part.dtype) for part in parts}
    if len(kinds) == 1:
        return kinds.pop()
    return VALUES


def summarize(
    name: str,
    series: nw.Series[Any],
    place: tuple[int, ...],
    *,
    source: str | None = None,
    most: float = MOST_DIFFERENT,
) -> ColumnSummary:
    """The summary of a part of a column; ``place`` is the sample, and what orders its parts."""
    source = source or declared_kind(series.dtype)
    if source in (VALUES, CATEGORY):
        return _summary_of_values(name, series.to_list(), place, source, most)
    if source == DATE:
        summary = ColumnSummary.of_kind(DATE, rows=len(series), zones=zones_of_series(series))
        return replace(summary, covered={DATE: Covered.by(days(series))})
    if not series.dtype.is_integer():
        return ColumnSummary.of_kind(source, rows=len(series))
    numbers = numeric(series)
    present = numbers[~np.isnan(numbers)]
    if 2 * (np.abs(present) >= 10**EXACT_DIGITS).sum() >= len(present) > 0:
        of_values = _summary_of_values(name, series.to_list(), place, source, most)
        return replace(of_values, runs=_runs(numbers, place))
    return _summary_of_numbers(numbers, present, place, most)


def _summary_of_numbers(
    numbers: FloatArray, present: FloatArray, place: tuple[int, ...], most: float
) -> ColumnSummary:
    """The summary of whole numbers; their values are kept if half of them differ."""
    different, counts = np.unique(present, return_counts=True)
    readable = {NUMBER}
    covered = {}
    dates = _dates_of_digits(different)
    if dates is not None:
        readable.add(DIGITS)
        covered[DIGITS] = Covered.by(dates)
    levels: Counter[str] = Counter()
    if 2 * len(different) >= len(present):
        names = different.astype(np.int64).astype(str).tolist()
        levels = Counter(dict(zip(names, counts.tolist(), strict=True)))
    sample = None
    if len(levels) > most:
        sample = _smallest(_hashed(levels), most)
    return ColumnSummary(
        frozenset([NUMBER]),
        rows=len(numbers),
        present=len(present),
        readable=frozenset(readable),
        texts=False,
        covered=covered,
        runs=_runs(numbers, place),
        levels=_frequent(levels, most),
        sample=sample,
        most=most,
    )


def _dates_of_digits(different: FloatArray) -> FloatArray | None:
    """Whole numbers as days since 1970-01-01 if all are dates such as 20260630."""
    if len(different) and (different[0] < 19_000_101 or different[-1] > 20_991_231):
        return None
    try:
        return read_distinct(different.astype(np.int64).tolist(), READERS[DIGITS])
    except ValueError:
        return None


def _summary_of_values(
    name: str, values: list[Any], place: tuple[int, ...], source: str, most: float
) -> ColumnSummary:
    distinct, rows = distinct_values(name, values)
    counts = np.bincount(rows, minlength=len(distinct)).tolist()
    levels: Counter[str] = Counter()
    present = []
    texts = True
    whole = True
    example = None
    for value, n in zip(distinct, counts, strict=True):
        if is_missing_cell(value):
            continue
        present.append(value)
        levels[level_name(value)] += n
        texts = texts and isinstance(value, str)
        whole = whole and is_whole(value)
        if example is None and not is_plain(value):
            example = value
    readable = frozenset(kind for kind, read in READERS.items() if _reads_all(read, present))
    covered = {}
    for form in readable.intersection(FORMS):
        covered[form] = Covered.by(read_distinct(present, READERS[form]))
    zones = zones_of(present) if covered else frozenset()
    runs = None
    if whole and NUMBER in readable and source == VALUES:
        runs = _runs(read_distinct(distinct, READERS[NUMBER])[rows], place)
    sample = None
    if len(levels) > most:
        sample = _smallest(_hashed(levels), most)
    return ColumnSummary(
        sources=frozenset([source]),
        rows=len(values),
        present=levels.total(),
        readable=readable,
        texts=texts,
        whole=whole,
        zones=zones,
        covered=covered,
        runs=runs,
        levels=_frequent(levels, most),
        sample=sample,
        example=example,
        most=most,
    )


def _reads_all(read: Callable[[Any], float], values: Iterable[Any]) -> bool:
    try:
        for value in values:
            read(value)
    except (TypeError, ValueError):
        return False
    return True


def _runs(numbers: FloatArray, place: tuple[int, ...]) -> tuple[Run, ...] | None:
    """One run if the numbers are in order, none if there are no numbers; None if not in order."""
    if not len(numbers):
        return ()
    if not np.isfinite(numbers).all():
        return None
    steps = np.diff(numbers)
    if not (steps > 0).all() and not (steps < 0).all():
        return None
    direction = int(np.sign(numbers[-1] - numbers[0]))
    return (Run(place, float(numbers[0]), float(numbers[-1]), direction),)


def _frequent(levels: Counter[str], most: float) -> dict[str, int]:
    """The most frequent levels; the largest count of those that are dropped is subtracted."""
    if len(levels) <= most:
        return dict(levels)
    least = heapq.nlargest(int(most) + 1, levels.values())[-1]
    return {level: n - least for level, n in levels.items() if n > least}


def _hashed(levels: Iterable[str]) -> dict[int, str]:
    return {hash_of(level): level for level in levels}


def _smallest(hashes: dict[int, str], most: float) -> dict[int, str]:
    if len(hashes) <= most:
        return hashes
    return {key: hashes[key] for key in heapq.nsmallest(int(most), hashes)}
