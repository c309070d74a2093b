"""Types of columns: how a column is recognised, and how its values become numbers or category codes.

A type of column is one class: it recognises a column from its summary, is kept in files, and encodes rows.
:data:`drpu.tables.encoder.COLUMN_TYPES` lists them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import narwhals as nw
import numpy as np

from drpu._codec import Items, Kept, NotKept, Number, kept
from drpu._typing import FloatArray
from drpu.exceptions import DataError, DataTypeError
from drpu.tables.cells import RANGES, RARE, Cells
from drpu.tables.summaries import FEWEST, ColumnSummary
from drpu.tables.values import (
    CATEGORY,
    DATE,
    NUMBER,
    READERS,
    VALUES,
    common_name,
    days,
    declared_kind,
    different,
    hash_of,
    is_missing_cell,
    mapped,
    numeric,
    unusable,
)

# Codes of a missing value, of rare and unseen levels, and of the most frequent level.
MISSING, OTHER, FIRST = 0, 1, 2
LEFT_OUT = "left out"
FEWEST_ROWS = 5  # a level with fewer rows is rare
MOST_LEVELS = 255  # maximum number of levels of a column; the others count as rare
FREQUENT = 50  # minimum number of training rows of a level for its share to be compared
ID_SHARE = 0.95  # strings with at least this share of different values are identifiers


@dataclass(frozen=True)
class ColumnPlan(Kept, ABC):
    """How one column of a table is read; each subclass is a type of column."""

    name: str
    kind: ClassVar[str]

    @classmethod
    @abstractmethod
    def of(cls, name: str, summary: ColumnSummary) -> ColumnPlan | None:
        """The plan of a column with this summary; None if the column is of another type."""

    @abstractmethod
    def values(self, series: nw.Series[Any]) -> FloatArray:
        """Numbers or codes of the rows, of shape (n,) or (n, width)."""

    @property
    def width(self) -> int:
        """Number of encoded columns."""
        return 1

    @property
    def levels(self) -> tuple[str, ...]:
        """Values of the data that the plan keeps."""
        return ()

    def cells(self) -> list[Cells | None]:
        """For each encoded column the cells in which rows are counted; None for ranges between quantiles."""
        return [None] * self.width

    def onnx(self, graph: Any, column: str) -> tuple[str, bool]:
        """The encoded column in a graph with the input ``column``, and whether that is a string."""
        return column, False


def _read(plan: ColumnPlan, series: nw.Series[Any]) -> FloatArray:
    """Numbers or dates of rows whose type is not the declared one."""
    try:
        return mapped(plan.name, series.to_list(), READERS[plan.kind], math.nan)
    except DataTypeError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(
            f"column {plan.name!r} had {plan.kind}s in training; here {error} Correct it, or make it missing."
        ) from error


@kept("number-column")
@dataclass(frozen=True)
class NumberColumn(ColumnPlan):
    """Numbers and booleans, and strings that are all plain numbers."""

    kind: ClassVar[str] = NUMBER

    @classmethod
    def of(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        return cls(name) if summary.is_kind(NUMBER) else None

    def values(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        return numeric(series) if declared_kind(series.dtype) == NUMBER else _read(self, series)


@kept("date-column")
@dataclass(frozen=True)
class DateColumn(ColumnPlan):
    """Dates, and strings that are all dates as in 2026-06-30: days since 1970-01-01.

    Durations and times of the day are days, too.
    """

    kind: ClassVar[str] = DATE

    @classmethod
    def of(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        return cls(name) if summary.is_kind(DATE) else None

    def values(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        kind = declared_kind(series.dtype)
        if kind == NUMBER:
            raise DataTypeError(f"column {self.name!r} had dates in training and has numbers here.")
        return days(series) if kind == DATE else _read(self, series)


@kept("left-out-column")
@dataclass(frozen=True)
class LeftOutColumn(ColumnPlan):
    """Identifiers: different strings without spaces, or whole numbers that are all different and monotone."""

    kind: ClassVar[str] = LEFT_OUT

    @classmethod
    def of(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        if summary.is_kind(NUMBER):
            return cls(name) if summary.counts_up else None
        share, spaced = string_shares(summary)
        return cls(name) if share >= ID_SHARE and spaced <= 0.5 else None

    def values(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        return np.empty((len(series), 0))

    @property
    def width(self) -> int:  # noqa: D102
        return 0


def string_shares(summary: ColumnSummary) -> tuple[float, float]:
    """Different strings per row, and the share of them with several words; 0 if other values decide."""
    strings = summary.sources == {VALUES} and summary.texts and not summary.is_kind(DATE)
    if not strings or summary.present < FEWEST:
        return 0.0, 0.0
    return summary.different / summary.present, summary.spaced


@kept("category-column")
@dataclass(frozen=True)
class CategoryColumn(ColumnPlan):
    """Levels by frequency: 0 for a missing value, 1 for a rare or unseen level, and 2, 3, ... for the levels.

    A level is rare if it has fewer than 5 rows, or if 255 others are more frequent.
    """

    kind: ClassVar[str] = CATEGORY
    levels: Annotated[tuple[str, ...], Items(0, MOST_LEVELS)] = ()
    # Rows of each level; unknown after loading.
    rows: Annotated[tuple[int, ...], NotKept] = field(default=(), compare=False)
    # Share of rows with rare levels to expect.
    rare: Annotated[float, Number(0, 1)] = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise DataError(f"column {self.name!r:.100} names a level twice.")

    @classmethod
    def of(cls, name: str, summary: ColumnSummary) -> Self | None:
        """A category with the levels that are frequent enough.

        The share of rows with rare levels that new rows will have is estimated by leaving each training row
        out: a level that is frequent enough by one row only counts as rare.
        """
        if summary.sources == {VALUES} and summary.example is not None:
            raise unusable(name, summary.example)
        levels = Counter(summary.levels)
        if not summary.texts:  # strings beside numbers: "1.0" is the number 1
            levels = Counter()
            for level, n in summary.levels.items():
                levels[common_name(level)] += n
        counts = sorted(levels.items(), key=lambda item: (-item[1], item[0]))
        kept = [(level, n) for level, n in counts if n >= FEWEST_ROWS][:MOST_LEVELS]
        sure = sum(n for _, n in kept if n > FEWEST_ROWS)
        rare = 1 - sure / summary.present if summary.present else 0.0
        return cls(name, tuple(level for level, _ in kept), tuple(n for _, n in kept), rare)

    def values(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        found, rows = different(self.name, series.to_list())
        return np.array([self._code(value) for value in found], dtype=np.float64)[rows]

    def _code(self, value: Any) -> int:
        if is_missing_cell(value):
            return MISSING
        exact = self._known.get(value) if isinstance(value, str) else None
        if exact is not None:
            return exact
        same = self._spellings.get(common_name(value), [])
        if len(same) > 1 and not isinstance(value, str):
            texts = " and ".join(repr(self.levels[code - FIRST]) for code in same[:2])
            raise DataTypeError(
                f"column {self.name!r} has the number {value} here, which training had as the texts {texts}: "
                "read the column as text."
            )
        return same[0] if len(same) == 1 else OTHER

    @cached_property
    def _known(self) -> dict[str, int]:
        """Codes of the levels."""
        return {level: FIRST + k for k, level in enumerate(self.levels)}

    @cached_property
    def _spellings(self) -> dict[str, list[int]]:
        """Codes of the levels that are different spellings of one value."""
        found: dict[str, list[int]] = {}
        for level, code in self._known.items():
            found.setdefault(common_name(level), []).append(code)
        return found

    def code_counts(self, summary: ColumnSummary) -> dict[int, int]:
        """Rows of each code."""
        rows = {MISSING: summary.rows - summary.present, OTHER: summary.present - sum(self.rows)}
        rows |= {FIRST + k: n for k, n in enumerate(self.rows)}
        return {code: n for code, n in rows.items() if n > 0}

    @property
    def frequent(self) -> list[int]:
        """Codes of the levels whose shares are compared."""
        return [FIRST + k for k, n in enumerate(self.rows) if n >= FREQUENT]

    def cells(self) -> list[Cells | None]:
        """Cells of the codes.

        Codes are sorted by frequency in training, and frequent levels were frequent partly by chance. Ranges
        of codes would therefore change even if nothing changed. Levels are put into cells by a hash of their
        names instead, and rare levels are not compared.
        """
        codes = np.full(FIRST + len(self.levels), RARE, dtype=np.int64)
        codes[MISSING] = 0
        few = len(self.frequent) <= RANGES
        for place, code in enumerate(self.frequent):
            codes[code] = RARE + 1 + (place if few else hash_of(self.levels[code - FIRST]) % RANGES)
        return [Cells(np.empty(0), codes)]

    def onnx(self, graph: Any, column: str) -> tuple[str, bool]:
        """Codes of a column of strings; the empty string is a missing value."""
        codes = graph.op(
            "LabelEncoder",
            column,
            domain="ai.onnx.ml",
            keys_strings=["", *self.levels],
            values_floats=[
                float(MISSING),
                *np.arange(FIRST, FIRST + len(self.levels), dtype=float),
            ],
            default_float=float(OTHER),
        )
        return graph.double(codes), True
