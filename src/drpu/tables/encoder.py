"""TableEncoder: how the columns of a table become numbers and category codes, or indicators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Any, Self

import narwhals as nw
import numpy as np

from drpu._codec import Items, Kept, Whole, kept
from drpu._typing import FloatArray
from drpu.exceptions import DataError, DataTypeError, IdColumnWarning, UnseenLevelsWarning
from drpu.tables.cells import Cells
from drpu.tables.columns import (
    MISSING,
    OTHER,
    CategoryColumn,
    ColumnPlan,
    DateColumn,
    LeftOutColumn,
    NumberColumn,
)
from drpu.tables.frames import Frame, aligned, columns_named
from drpu.tables.summaries import ColumnSummary, TableSummary
from drpu.tables.text import TextColumn

# A column is of the first type that recognises it.
COLUMN_TYPES: tuple[type[ColumnPlan], ...] = (
    LeftOutColumn,
    NumberColumn,
    DateColumn,
    TextColumn,
    CategoryColumn,
)

MOST_INDICATORS = 30  # maximum number of columns of a category; its other codes share one more


@kept("indicators")
@dataclass(frozen=True)
class Indicators:
    """One column of zeros and ones for each frequent code of a category.

    ``codes``: For each category, the codes that have their own column.
    ``rest``: Whether the other codes of a category share one more column. This is the case if training
    had such codes. Otherwise an unknown code has a 0 in every column of its category.
    """

    n_columns: Annotated[int, Whole(1, 2**31)]  # number of columns with categories as codes
    categories: Annotated[tuple[int, ...], Items(dim="c")]  # positions of the categories
    codes: Annotated[tuple[Annotated[tuple[int, ...], Items(1)], ...], Items(dim="c")]
    rest: Annotated[tuple[bool, ...], Items(dim="c")]

    def __post_init__(self) -> None:
        different = len(set(self.categories)) == len(self.categories)
        if not different or not all(0 <= j < self.n_columns for j in self.categories):
            raise DataError("the categories of indicators must be different positions of columns.")
        if any(list(codes) != sorted(set(codes)) for codes in self.codes):
            raise DataError("the codes of indicators must be sorted and different.")

    @classmethod
    def of(cls, rows: FloatArray, categories: Sequence[int], most: int = MOST_INDICATORS) -> Self:
        """Indicators for the most frequent codes in ``rows``; no label is used."""
        counts = {}
        for j in categories:
            values, n = np.unique(rows[:, j], return_counts=True)
            counts[j] = {int(value): int(k) for value, k in zip(values, n, strict=True)}
        return cls.of_counts(rows.shape[1], counts, most)

    @classmethod
    def of_counts(
        cls, n_columns: int, counts: Mapping[int, Mapping[int, int]], most: int = MOST_INDICATORS
    ) -> Self:
        """Indicators for the most frequent codes of each category, from the number of rows of every code."""
        codes = tuple(
            tuple(sorted(sorted(rows, key=lambda code: (-rows[code], code))[:most]))
            for rows in counts.values()
        )
        return cls(
            n_columns, tuple(counts), codes, tuple(len(rows) > most for rows in counts.values())
        )

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The numbers of ``rows``, followed by the indicators of each category."""
        numbers = self.numbers
        out = np.zeros((len(rows), self.n_out), dtype=rows.dtype)
        out[:, : len(numbers)] = rows[:, numbers]
        start = len(numbers)
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            known = np.array(codes, dtype=rows.dtype)
            place = np.minimum(np.searchsorted(known, rows[:, j]), len(known) - 1)
            own = known[place] == rows[:, j]
            out[np.flatnonzero(own), start + place[own]] = 1
            if rest:
                out[~own, start + len(known)] = 1
            start += len(known) + rest
        return out

    def codes_in(self, rows: FloatArray) -> FloatArray:
        """The rows with codes again; a code without its own column becomes that of rare levels."""
        found = np.full((len(rows), self.n_columns), float(OTHER))
        start = self.n_columns - len(self.categories)
        found[:, self.numbers] = rows[:, :start]
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            shown = rows[:, start : start + len(codes)]
            found[:, j] = np.where(shown.any(axis=1), np.array(codes)[shown.argmax(axis=1)], OTHER)
            start += len(codes) + rest
        return found

    @property
    def numbers(self) -> list[int]:
        """Positions of the columns that are no categories."""
        return sorted(set(range(self.n_columns)) - set(self.categories))

    @property
    def n_out(self) -> int:
        """Number of columns of the result."""
        return self.n_columns - len(self.categories) + sum(map(len, self.codes)) + sum(self.rest)

    @property
    def sources(self) -> list[int]:
        """The column that each column of the result comes from."""
        found = self.numbers
        for j, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            found += [j] * (len(codes) + rest)
        return found


MANY_UNSEEN = 0.2  # increase of the share of rare and unseen levels that causes a warning
ENOUGH_ROWS = 50  # minimum number of rows for that warning
# Up to this number of rows, columns of these types are read together: the same numbers in less time.
FEW_ROWS = 1000
PLAIN = (nw.Float64, nw.Float32, nw.Int64, nw.Int32, nw.Int16, nw.Int8)


@kept("table")
@dataclass(frozen=True)
class TableEncoder(Kept):
    """Reads the columns of a table by name and returns numbers and category codes. Labels are not used."""

    columns: Annotated[
        tuple[ColumnPlan, ...], Items(1)
    ]  # all columns of the training table, in their order
    named: bool  # whether columns are found by name; otherwise by position
    indicators: Indicators | None = (
        None  # if given, categories become indicator columns instead of codes
    )

    def __post_init__(self) -> None:
        if len({plan.name for plan in self.columns}) != len(self.columns):
            raise DataError("a table encoder names a column twice.")
        if not self.used:
            raise DataError("a table encoder leaves all columns out.")
        shown, plans = self.indicators, self.encoded
        if shown is not None and (
            shown.n_columns != len(plans)
            or not all(isinstance(plans[j], CategoryColumn) for j in shown.categories)
        ):
            raise DataError("the indicators of a table encoder must have its columns.")

    @classmethod
    def fit(cls, parts: Sequence[Frame], *, expand: bool = False) -> tuple[Self, FloatArray]:
        """The encoder of a training table and its encoded rows; the rows may be given in several samples.

        With ``expand`` categories become indicator columns, otherwise codes.
        """
        first = parts[0]
        # positive and unlabeled rows are the only tables that are fitted together
        same = partial(
            aligned, names=first.names, named=first.named, rows="unlabeled", of="positive"
        )
        parts = [first, *map(same, parts[1:])]
        summaries = TableSummary.of_samples(parts).columns
        encoder = cls.of_summaries(summaries, expand=expand, named=first.named)
        return encoder, np.concatenate([encoder.transform(part, warn=False) for part in parts])

    @classmethod
    def of_summaries(
        cls, summaries: Mapping[str, ColumnSummary], *, expand: bool = False, named: bool = True
    ) -> Self:
        """The encoder of a training table from the summaries of its columns."""
        if not summaries:
            raise DataError("X must have at least one column, got a table with 0 feature(s).")
        plans = [_plan(name, summary) for name, summary in summaries.items()]
        if all(isinstance(plan, LeftOutColumn) for plan in plans):  # one column is always kept
            last = plans[-1].name
            plans[-1] = _plan(last, summaries[last], leave_out=False)
        encoder = cls(tuple(plans), named)
        if encoder.left_out:
            IdColumnWarning.issue(
                f"{columns_named(encoder.left_out)}: every row has a different value, as in an "
                "identifier, which says nothing about new rows. It is left out:",
                advice="drop it from X, or declare it a category to keep it.",
                command="name it in --drop.",
            )
        if not expand or not encoder.categories:
            return encoder
        codes = {j: plan.code_counts(summaries[plan.name]) for j, plan in enumerate(encoder.encoded)
                 if isinstance(plan, CategoryColumn)}  # fmt: skip
        return replace(encoder, indicators=Indicators.of_counts(len(encoder.encoded), codes))

    @classmethod
    def numbers(cls, names: Sequence[str]) -> Self:
        """An encoder of named columns that are all numeric."""
        return cls(tuple(NumberColumn(str(name)) for name in names), named=True)

    @cached_property
    def used(self) -> tuple[ColumnPlan, ...]:
        """The columns that are used as features."""
        return tuple(plan for plan in self.columns if plan.width)

    @cached_property
    def encoded(self) -> tuple[ColumnPlan, ...]:
        """For each encoded column before indicators, the column that it comes from."""
        return tuple(plan for plan in self.columns for _ in range(plan.width))

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that are not used."""
        return tuple(plan.name for plan in self.columns if not plan.width)

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the columns that a reader of text files has to leave as text.

        How later files are read must not depend on their rows: with the rest of the column left out, "true",
        "1.0" and "NA" look like a truth value, a number and a missing value. Numbers and dates may be parsed
        by the reader, with :data:`drpu.tables.values.NULL_WORDS` as missing values.
        """
        return tuple(
            plan.name for plan in self.columns if not isinstance(plan, (NumberColumn, DateColumn))
        )

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the encoded columns that hold category codes."""
        if self.indicators is not None:
            return ()
        return tuple(j for j, plan in enumerate(self.encoded) if isinstance(plan, CategoryColumn))

    @property
    def plain(self) -> bool:
        """Whether every column is numeric and is used unchanged."""
        return all(isinstance(plan, NumberColumn) for plan in self.columns)

    @property
    def sources(self) -> list[ColumnPlan]:
        """For each column of the encoded rows, the column of the table that it comes from."""
        shown = self.indicators
        return list(self.encoded) if shown is None else [self.encoded[j] for j in shown.sources]

    @property
    def width(self) -> int:
        """Number of columns of the encoded rows."""
        return len(self.encoded) if self.indicators is None else self.indicators.n_out

    def transform(self, frame: Frame, *, warn: bool = True) -> FloatArray:
        """The encoded rows of a table with the columns of training, in any order.

        ``warn`` is whether to warn about many unseen levels.
        """
        names = [plan.name for plan in self.columns]
        frame = aligned(frame, names, named=self.named, optional=frozenset(self.left_out))
        at = {name: j for j, name in enumerate(frame.names if self.named else names)}
        frame = frame.select([at[plan.name] for plan in self.used])
        kinds = list(frame.columns.schema.values())
        values = self._values(frame, kinds)
        if warn:
            self._warn_of_unseen(values)
        # in single precision only if all columns have it
        single = all(kind == nw.Float32 for kind in kinds)
        matrix = np.empty(
            (len(frame), len(self.encoded)), dtype=np.float32 if single else np.float64
        )
        start = 0
        for plan, column in zip(self.used, values, strict=True):
            matrix[:, start : start + plan.width] = column.reshape(len(frame), plan.width)
            start += plan.width
        return matrix if self.indicators is None else self.indicators(matrix)

    def _values(self, frame: Frame, kinds: Sequence[Any]) -> list[FloatArray]:
        """Numbers or codes of the used columns."""
        found: dict[int, FloatArray] = {}
        numbers = [
            k
            for k, plan in enumerate(self.used)
            if kinds[k] in PLAIN and isinstance(plan, NumberColumn)
        ]
        if numbers and len(frame) <= FEW_ROWS:
            block = frame.select(numbers).columns.to_numpy()
            if block.dtype.kind in "if":  # types of Arrow in pandas give objects
                found = dict(zip(numbers, block.T, strict=True))
        for k, plan in enumerate(self.used):
            if k not in found:
                found[k] = plan.values(frame.column(k))
        return [found[k] for k in range(len(self.used))]

    def by_column(self, values: FloatArray) -> FloatArray:
        """Sums of values over the encoded columns of each column of the table; a last column is kept."""
        found = np.zeros((len(values), len(self.columns) + 1))
        at = {plan.name: j for j, plan in enumerate(self.columns)}
        for k, plan in enumerate(self.sources):
            found[:, at[plan.name]] += values[:, k]
        found[:, -1] = values[:, -1]
        return found

    def check_array(self) -> None:
        """Raise if an array cannot replace the table, because some columns are not numeric."""
        others = [plan.name for plan in self.used if not isinstance(plan, NumberColumn)]
        if others:
            raise DataTypeError(
                f"X must be a table, not an array: training read {columns_named(others)} as categories, "
                "dates or texts."
            )

    def transform_array(self, X: Any) -> Any:
        """The used columns of an array of numbers, by position."""
        keep = [j for j, plan in enumerate(self.columns) if plan.width]
        return X if len(keep) == len(self.columns) else X[:, keep]

    def kept_values(self) -> dict[str, int]:
        """Number of values that each column keeps, if there are any."""
        return {plan.name: len(plan.levels) for plan in self.used if plan.levels}

    def _warn_of_unseen(self, values: Sequence[FloatArray]) -> None:
        if len(values[0]) < ENOUGH_ROWS:
            return
        many = []
        for plan, codes in zip(self.used, values, strict=True):
            if isinstance(plan, CategoryColumn) and plan.levels:
                share = float(np.mean(codes == OTHER))
                if share - plan.rare > MANY_UNSEEN:
                    many.append(f"{plan.name!r} ({share:.0%})")
        if many:
            UnseenLevelsWarning.issue(
                f"many rows have levels that training did not keep, in {', '.join(many[:8])}: they count "
                "as rare levels. Check whether the coding of the column has changed."
            )


def _plan(name: str, summary: ColumnSummary, *, leave_out: bool = True) -> ColumnPlan:
    """The plan of a column; ``leave_out`` is whether it may be left out."""
    if len(summary.sources) > 1:
        kinds = " and ".join(sorted(summary.sources))
        raise DataTypeError(
            f"column {name!r} holds {kinds} in different partitions: give it one type first."
        )
    found = (
        kind.of(name, summary) for kind in COLUMN_TYPES if leave_out or kind is not LeftOutColumn
    )
    return next(plan for plan in found if plan is not None)


def fixed_cells(table: TableEncoder | None, columns: int) -> list[Cells | None]:
    """Cells of each encoded column that holds levels or indicators; None for columns of numbers."""
    if table is None or columns != table.width:
        return [None] * columns
    if table.indicators is None:
        return [cells for plan in table.used for cells in plan.cells()]
    shown = table.indicators
    found = [
        cells
        for plan in table.used
        if not isinstance(plan, CategoryColumn)
        for cells in plan.cells()
    ]
    for j, codes, rest in zip(shown.categories, shown.codes, shown.rest, strict=True):
        plan = table.encoded[j]
        assert isinstance(plan, CategoryColumn)
        frequent = {MISSING, *plan.frequent}
        found += [_indicator(code in frequent) for code in codes] + [_indicator(False)] * rest
    return found


def _indicator(tested: bool) -> Cells:
    return Cells(np.array([0.5]) if tested else np.empty(0))
