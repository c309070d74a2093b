"""Summaries of columns whose rows are in many parts; their sum determines how each column is read.

A table in memory has one part for each sample, and its summaries are exact.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from drpu._typing import FloatArray
from drpu.tables.frames import Frame
from drpu.tables.values import (
    CATEGORY,
    NUMBER,
    READERS,
    VALUES,
    declared_kind,
    different,
    hash_of,
    is_missing_cell,
    is_plain,
    is_whole,
    level_name,
    numeric,
)

FEWEST = 20  # with fewer values, "all are different" is no sign of an identifier
MOST = 2**14  # different values of a summary; for columns with more, it is approximate


@dataclass(frozen=True, slots=True)
class Run:
    """Increasing (1) or decreasing (-1) whole numbers, or a single one (0), at a place in a sample."""

    place: tuple[int, ...]
    first: float
    last: float
    direction: int


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """A summary of some rows of a column, from which its kind is determined; summaries of parts are added.

    ``levels``: Rows of the most frequent values. Up to ``most`` different values it is complete; beyond,
    every value of more than one row in ``most`` is there, and its rows are counted too low by at most
    that share (the summary of Misra and Gries).
    ``sample``: If ``levels`` is not complete, the different values with the smallest hashes, by hash. The
    largest of these hashes gives the number of different values to about 1 %.
    """

    sources: frozenset[
        str
    ]  # kinds by the types of the parts; "values" if the kind depends on the values
    rows: int = 0
    present: int = 0  # number of rows without a missing value
    readable: frozenset[str] = frozenset(
        READERS
    )  # kinds that all values can be read as: numbers, dates
    texts: bool = True  # whether all values are strings
    whole: bool = True  # whether all values are whole numbers
    runs: (
        tuple[Run, ...] | None
    ) = ()  # whole numbers, all different and in order in each part; None if not
    levels: Mapping[str, int] = field(default_factory=dict)
    sample: Mapping[int, str] | None = None
    example: Any = None  # a value that is neither a string nor a number nor a date, if there is one
    most: float = MOST  # maximum number of different values to keep

    @classmethod
    def of_kind(cls, kind: str) -> ColumnSummary:
        """The summary of a column whose type determines its kind, so that no rows have to be read."""
        return cls(frozenset([kind]), 1, 1, whole=False, runs=None)

    def __add__(self, other: ColumnSummary) -> ColumnSummary:
        if not (self.rows and other.rows):
            return self if self.rows else other
        levels = Counter(self.levels)
        levels.update(other.levels)
        complete = self.sample is None and other.sample is None and len(levels) <= self.most
        return ColumnSummary(
            self.sources | other.sources,
            self.rows + other.rows,
            self.present + other.present,
            self.readable & other.readable,
            self.texts and other.texts,
            self.whole and other.whole,
            None if self.runs is None or other.runs is None else self.runs + other.runs,
            _frequent(levels, self.most),
            None if complete else _smallest({**self._hashed(), **other._hashed()}, self.most),
            other.example if self.example is None else self.example,
            self.most,
        )

    def is_kind(self, kind: str) -> bool:
        """Whether the column is of a kind by its type, or because all values can be read as that kind."""
        return self.sources == {kind} or (self.sources == {VALUES} and kind in self.readable)

    @property
    def different(self) -> float:
        """Number of different values: exact if all levels are kept, an estimate otherwise."""
        if self.sample is None:
            return len(self.levels)
        return min((self.most - 1) / (max(self.sample) / 2**64), float(self.present))

    @property
    def spaced(self) -> float:
        """Share of the different values that have several words."""
        found = self.levels if self.sample is None else self.sample.values()
        return sum(len(text.split()) > 1 for text in found) / max(1, len(found))

    def some_values(self, most: int = MOST) -> list[str]:
        """Different values as text, in the order of their hashes: a random sample if there are more."""
        found = _smallest(dict(self._hashed()), most)
        return [found[key] for key in sorted(found)]

    @property
    def counts_up(self) -> bool:
        """Whether whole numbers are all different and monotone over each sample of the table."""
        if self.runs is None or not self.whole or self.rows < FEWEST or self.present < self.rows:
            return False
        runs = sorted(self.runs, key=lambda run: run.place)
        ways = {run.direction for run in runs if run.direction}
        for before, after in pairwise(runs):
            if before.place[0] == after.place[0]:
                ways.add(int(np.sign(after.first - before.last)))
        return ways in ({1}, {-1})

    def _hashed(self) -> Mapping[int, str]:
        return (
            {hash_of(level): level for level in self.levels} if self.sample is None else self.sample
        )


@dataclass(frozen=True, slots=True)
class TableSummary:
    """Summaries of the columns of a part of a table, by name; those of parts are added."""

    columns: Mapping[str, ColumnSummary]

    @classmethod
    def of(cls, frame: Frame, place: tuple[int, ...] = ()) -> TableSummary:
        """Summaries of all columns of a frame; ``place`` orders the parts of a table."""
        return cls(
            {
                name: summarize(name, frame.column(j), (0, *place))
                for j, name in enumerate(frame.names)
            }
        )

    @classmethod
    def of_samples(cls, frames: list[Frame]) -> TableSummary:
        """Exact summaries of all columns of samples in memory, which have the same columns.

        A column whose types differ between the samples is read by its values.
        """
        found = {}
        for j, name in enumerate(frames[0].names):
            parts = [frame.column(j) for frame in frames]
            sources = {declared_kind(part.dtype) for part in parts}
            source = VALUES if len(sources) > 1 else None
            summaries = [
                summarize(name, part, (k,), source, math.inf) for k, part in enumerate(parts)
            ]
            found[name] = sum(summaries[1:], summaries[0])
        return cls(found)

    def __add__(self, other: TableSummary) -> TableSummary:
        return TableSummary({name: own + other.columns[name] for name, own in self.columns.items()})


def summarize(
    name: str,
    series: nw.Series[Any],
    place: tuple[int, ...],
    source: str | None = None,
    most: float = MOST,
) -> ColumnSummary:
    """The summary of a part of a column; ``place`` is the sample, and what orders its parts."""
    source, n = source or declared_kind(series.dtype), len(series)
    if source in (VALUES, CATEGORY):
        return _of_values(name, series.to_list(), place, source, most)
    if source != NUMBER or not series.dtype.is_integer():
        return ColumnSummary(frozenset([source]), n, n, whole=False, runs=None)
    numbers = numeric(series)
    present = int((~np.isnan(numbers)).sum())
    return ColumnSummary(frozenset([NUMBER]), n, present, runs=_runs(numbers, place))


def _of_values(
    name: str, values: list[Any], place: tuple[int, ...], source: str, most: float
) -> ColumnSummary:
    found, rows = different(name, values)
    counts = np.bincount(rows, minlength=len(found)).tolist()
    levels: Counter[str] = Counter()
    present = []
    for value, n in zip(found, counts, strict=True):
        if not is_missing_cell(value):
            present.append(value)
            levels[level_name(value)] += n
    readable = frozenset(kind for kind, read in READERS.items() if _reads(read, present))
    whole, runs = all(map(is_whole, present)), None
    if whole and NUMBER in readable and source == VALUES:
        numbers = [
            math.nan if is_missing_cell(value) else READERS[NUMBER](value) for value in found
        ]
        runs = _runs(np.array(numbers, dtype=np.float64)[rows], place)
    hashed = None if len(levels) <= most else {hash_of(level): level for level in levels}
    return ColumnSummary(
        frozenset([source]),
        len(values),
        levels.total(),
        readable,
        all(isinstance(value, str) for value in present),
        whole,
        runs,
        _frequent(levels, most),
        None if hashed is None else _smallest(hashed, most),
        next((value for value in present if not is_plain(value)), None),
        most,
    )


def _reads(read: Callable[[Any], float], values: Iterable[Any]) -> bool:
    try:
        for value in values:
            read(value)
    except (TypeError, ValueError):
        return False
    return True


def _runs(numbers: FloatArray, place: tuple[int, ...]) -> tuple[Run, ...] | None:
    if not len(numbers):
        return ()
    steps = np.diff(numbers)
    if np.isnan(numbers).any() or not ((steps > 0).all() or (steps < 0).all()):
        return None
    direction = int(np.sign(numbers[-1] - numbers[0]))
    return (Run(place, float(numbers[0]), float(numbers[-1]), direction),)


def _frequent(levels: Counter[str], most: float) -> dict[str, int]:
    """The most frequent levels; if some are dropped, the count of the first one is subtracted from all."""
    if len(levels) <= most:
        return dict(levels)
    least = heapq.nlargest(int(most) + 1, levels.values())[-1]
    return {level: n - least for level, n in levels.items() if n > least}


def _smallest(hashes: dict[int, str], most: float) -> dict[int, str]:
    if len(hashes) <= most:
        return hashes
    return {key: hashes[key] for key in heapq.nsmallest(int(most), hashes)}
