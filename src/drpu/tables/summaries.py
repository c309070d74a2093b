"""Summaries of columns whose rows are in many parts; their sum determines how each column is read."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import DataTypeError
from drpu.tables.columns import (
    CATEGORY,
    DATE,
    FEWEST,
    NUMBER,
    Column,
    as_day,
    as_number,
    check_value_type,
    hashable,
    is_category_type,
    is_missing,
    is_number_type,
    is_time_type,
    is_whole,
    level_name,
    mapped,
    numeric,
    string_use,
)
from drpu.tables.frames import Frame

__all__ = ["ColumnSummary", "TableSummary", "summarize"]

VALUES = "values"  # the type does not determine the kind of the column, so its values do
MOST = 2**14  # different values of a summary; for columns with more, it is approximate


@dataclass(frozen=True, slots=True)
class Run:
    """Increasing (1) or decreasing (-1) whole numbers, or a single one (0), at a place in the table."""

    place: tuple[int, int]
    first: float
    last: float
    direction: int


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A summary of some rows of a column, from which its kind is determined; summaries of parts are added.

    Attributes
    ----------
    source : str
        The kind by the type of the column, or ``"values"`` if it depends on the values.
    rows, present : int
        Number of rows, and of rows without a missing value.
    numbers, dates, texts, whole : bool
        Whether all values can be read as numbers or dates, are strings, are whole numbers.
    runs : tuple of Run, or None
        Whole numbers that are all different and in order, in each part; None if they are not.
    levels : dict
        Rows of the most frequent values. Up to 16,384 different values it is complete; beyond, every
        value of more than one row in 16,384 is there, and its rows are counted too low by
        at most that share (the summary of Misra and Gries).
    hashes : dict
        The smallest hashes of different values, and whether each value has several words. Their number,
        or the largest of them, gives the number of different values to about 1 %.
    example : object
        A value that is neither a string nor a number nor a date, if there is one.
    """

    source: str
    rows: int = 0
    present: int = 0
    numbers: bool = True
    dates: bool = True
    texts: bool = True
    whole: bool = True
    runs: tuple[Run, ...] | None = ()
    levels: Mapping[str, int] = field(default_factory=dict)
    hashes: Mapping[int, bool] = field(default_factory=dict)
    example: Any = None

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if not (self.rows and other.rows):
            return self if self.rows else other
        levels = Counter(self.levels)
        levels.update(other.levels)
        runs = None if self.runs is None or other.runs is None else self.runs + other.runs
        return ColumnSummary(
            self.source if self.source == other.source else f"{self.source} and {other.source}",
            self.rows + other.rows,
            self.present + other.present,
            self.numbers and other.numbers,
            self.dates and other.dates,
            self.texts and other.texts,
            self.whole and other.whole,
            runs,
            _frequent(levels),
            _smallest({**self.hashes, **other.hashes}),
            other.example if self.example is None else self.example,
        )

    def read(self, name: str) -> Column:
        """The column as it would be read if all rows were in memory."""
        if self.source in (NUMBER, DATE, CATEGORY):
            return Column(self.source, is_id=self.source == NUMBER and self.whole and self._counts_up())
        if self.source != VALUES:
            raise DataTypeError(
                f"column {name!r} holds {self.source} in different partitions: give it one type first."
            )
        if self.numbers:
            return Column(NUMBER, is_id=self.whole and self._counts_up())
        if self.dates:
            return Column(DATE)
        if self.example is not None:
            check_value_type(name, self.example)
        use = string_use(self.present, self.different, self._spaced) if self.texts else (False, False)
        return Column(CATEGORY, is_id=use[0], is_text=use[1])

    @property
    def different(self) -> float:
        """Number of different values: exact up to 16,384, an estimate beyond."""
        if len(self.hashes) < MOST:
            return len(self.hashes)
        return min((MOST - 1) / (max(self.hashes) / 2**64), float(self.present))

    @property
    def _spaced(self) -> float:
        return sum(self.hashes.values()) / max(1, len(self.hashes))

    def _counts_up(self) -> bool:
        """Whether whole numbers are all different and monotone over the whole table."""
        if self.runs is None or self.rows < FEWEST or self.present < self.rows:
            return False
        runs = sorted(self.runs, key=lambda run: run.place)
        ways = {run.direction for run in runs if run.direction}
        ways |= {int(np.sign(after.first - before.last)) for before, after in pairwise(runs)}
        return ways in ({1}, {-1})


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summaries of the columns of a part of a table, by name; those of parts are added."""

    columns: Mapping[str, ColumnSummary]

    @classmethod
    def of(cls, frame: Frame, place: tuple[int, int] = (0, 0)) -> TableSummary:
        """Summaries of all columns of a frame."""
        return cls({name: summarize(name, frame.column(j), place) for j, name in enumerate(frame.names)})

    def __add__(self, other: TableSummary) -> TableSummary:
        return TableSummary({name: own + other.columns[name] for name, own in self.columns.items()})


def summarize(name: str, series: nw.Series[Any], place: tuple[int, int] = (0, 0)) -> ColumnSummary:
    """The summary of a part of a column; ``place`` orders the parts of a table."""
    n = len(series)
    if is_number_type(series.dtype):
        whole = bool(series.dtype.is_integer())
        found = numeric(series) if whole else None
        present = n if found is None else int((~np.isnan(found)).sum())
        return ColumnSummary(
            NUMBER, n, present, whole=whole, runs=None if found is None else _runs(found, place)
        )
    if is_time_type(series.dtype):
        return ColumnSummary(DATE, n, n, runs=None)
    values = series.to_list()
    if is_category_type(series.dtype):
        levels = Counter(level for level in mapped(values, level_name) if level is not None)
        return ColumnSummary(CATEGORY, n, sum(levels.values()), runs=None, levels=_frequent(levels))
    return _of_values(name, values, place)


def _of_values(name: str, values: list[Any], place: tuple[int, int]) -> ColumnSummary:
    counts = {v: n for v, n in Counter(map(hashable(name), values)).items() if not is_missing(v)}
    levels: Counter[str] = Counter()
    for value, n in counts.items():
        levels[level_name(value)] += n
    numbers, whole = _reads(as_number, counts), all(map(is_whole, counts))
    runs = None
    if numbers and whole:
        runs = _runs(np.array(mapped(values, as_number, gap=np.nan), dtype=np.float64), place)
    return ColumnSummary(
        VALUES,
        len(values),
        sum(counts.values()),
        numbers,
        _reads(as_day, counts),
        all(isinstance(value, str) for value in counts),
        whole,
        runs,
        _frequent(levels),
        _smallest({_hash(level): len(level.split()) > 1 for level in levels}),
        next((value for value in counts if not _is_plain(value)), None),
    )


def _is_plain(value: Any) -> bool:
    try:
        check_value_type("", value)
    except DataTypeError:
        return False
    return True


def _reads(read: Callable[[Any], float], values: Iterable[Any]) -> bool:
    try:
        for value in values:
            read(value)
    except (TypeError, ValueError):
        return False
    return True


def _runs(numbers: FloatArray, place: tuple[int, int]) -> tuple[Run, ...] | None:
    if not len(numbers):
        return ()
    steps = np.diff(numbers)
    if np.isnan(numbers).any() or not ((steps > 0).all() or (steps < 0).all()):
        return None
    direction = int(np.sign(numbers[-1] - numbers[0]))
    return (Run(place, float(numbers[0]), float(numbers[-1]), direction),)


def _hash(level: str) -> int:
    return int.from_bytes(hashlib.blake2b(level.encode(), digest_size=8).digest(), "little")


def _frequent(levels: Counter[str]) -> dict[str, int]:
    """The most frequent levels; if some are dropped, the count of the first one is subtracted from all."""
    if len(levels) <= MOST:
        return dict(levels)
    least = heapq.nlargest(MOST + 1, levels.values())[-1]
    return {level: n - least for level, n in levels.items() if n > least}


def _smallest(hashes: dict[int, bool]) -> dict[int, bool]:
    if len(hashes) <= MOST:
        return hashes
    return {key: hashes[key] for key in heapq.nsmallest(MOST, hashes)}
