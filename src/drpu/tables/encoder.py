"""TableEncoder: how the columns of a table become numbers and category codes, or indicators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Self

import narwhals as nw
import numpy as np

from drpu._arrays import FloatArray
from drpu._codec import Items, Kept, Whole, kept
from drpu._results import html_text
from drpu.exceptions import (
    DataError,
    DataTypeError,
    IdColumnWarning,
    ParameterError,
    UnseenLevelsWarning,
)
from drpu.tables.columns import (
    MISSING,
    OTHER,
    CategoryColumn,
    Column,
    DateColumn,
    LeftOutColumn,
    NumberColumn,
)
from drpu.tables.frames import Frame, aligned, columns_named, composed, read_frame
from drpu.tables.summaries import ColumnSummary, TableSummary
from drpu.tables.text import TextColumn
from drpu.tables.values import Cells, most_frequent

# A column is of the first type that recognises it.
COLUMN_TYPES: tuple[type[Column], ...] = (
    DateColumn,
    LeftOutColumn,
    NumberColumn,
    TextColumn,
    CategoryColumn,
)

MOST_INDICATORS = 30  # maximum number of columns of a category; its other codes share one more
ENOUGH_ROWS = 50  # minimum number of rows for the warning of unseen levels
# Up to this number of rows, columns of these types are read together, which takes less time.
ROWS_READ_TOGETHER = 1000
PLAIN_TYPES = (nw.Float64, nw.Float32, nw.Int64, nw.Int32, nw.Int16, nw.Int8)


@dataclass(frozen=True, slots=True)
class Keep:
    """The columns that are used although new rows have values that no training row has.

    ``time`` are columns of dates whose time is used, ``ids`` identifiers. True stands for all of
    them, False for none.
    """

    time: bool | tuple[str, ...] = False
    ids: bool | tuple[str, ...] = False

    @classmethod
    def of(cls, estimator: Any) -> Keep:
        """What the parameters ``keep_time`` and ``keep_ids`` of an estimator say."""
        return cls(_names_to_keep(estimator, "keep_time"), _names_to_keep(estimator, "keep_ids"))

    def keeps_time(self, name: str) -> bool:
        """Whether the time of a column of dates is used."""
        return self.time is True or (isinstance(self.time, tuple) and name in self.time)

    def keeps_ids(self, name: str) -> bool:
        """Whether a column is used although it is an identifier."""
        return self.ids is True or (isinstance(self.ids, tuple) and name in self.ids)

    def check(self, columns: Sequence[Column]) -> None:
        """Raise if a column of the table has no such name, or no time that could be kept."""
        names = [column.name for column in columns]
        dates = [column.name for column in columns if _is_date(column)]
        _check_names("keep_time", self.time, dates, "columns of dates")
        _check_names("keep_ids", self.ids, names, "columns of X")


def _check_names(
    parameter: str, names: bool | tuple[str, ...], possible: Sequence[str], kind: str
) -> None:
    """Raise unless all names that were given are possible."""
    if isinstance(names, bool):
        return
    for name in names:
        if name not in possible:
            choice = columns_named(possible) or "none"
            rule = f"names of {kind}, got {name!r}; there are {choice}."
            option = parameter.replace("_", "-")
            raise ParameterError(
                f"{parameter} must be True, False or {rule}",
                command=f"--{option} must be {rule}",
            )


def _names_to_keep(estimator: Any, parameter: str) -> bool | tuple[str, ...]:
    value = getattr(estimator, parameter, False)
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    names = value
    if isinstance(value, str):
        names = [value]
    is_list = isinstance(names, (list, tuple))
    if not is_list or not all(isinstance(name, str) for name in names):
        raise ParameterError(
            f"{parameter} must be True, False or a list of names of columns, got {value!r:.100}."
        )
    return tuple(map(composed, names))


@dataclass(frozen=True, slots=True)
class IndicatorBlock:
    """The indicators of one category, which are next to each other."""

    category: int  # position of the category among the columns with codes
    codes: tuple[int, ...]
    rest: bool
    start: int  # position of the first indicator

    @property
    def width(self) -> int:
        """Number of indicators."""
        return len(self.codes) + self.rest


@kept("indicators")
@dataclass(frozen=True)
class Indicators:
    """One column of zeros and ones for each frequent code of a category.

    ``codes``: For each category, the codes that have a column.
    ``rest``: Whether the other codes of a category share one more column. This is the case if
    training had such codes. Otherwise an unknown code has a 0 in every column of its category.
    """

    n_columns: Annotated[int, Whole(1, 2**31)]  # number of columns with categories as codes
    categories: Annotated[tuple[int, ...], Items(dim="c")]  # positions of the categories
    codes: Annotated[tuple[Annotated[tuple[int, ...], Items(1)], ...], Items(dim="c")]
    rest: Annotated[tuple[bool, ...], Items(dim="c")]

    def __post_init__(self) -> None:
        different = len(set(self.categories)) == len(self.categories)
        if not different or not all(0 <= j < self.n_columns for j in self.categories):
            raise DataError("the categories of indicators must be different positions of columns.")
        for codes in self.codes:
            if list(codes) != sorted(set(codes)):
                raise DataError("the codes of indicators must be sorted and different.")

    @classmethod
    def of(cls, rows: FloatArray, categories: Sequence[int], most: int = MOST_INDICATORS) -> Self:
        """Indicators for the most frequent codes in ``rows``; no label is used."""
        counts = {}
        for j in categories:
            codes, n_rows = np.unique(rows[:, j], return_counts=True)
            counts[j] = dict(zip(codes.astype(int).tolist(), n_rows.tolist(), strict=True))
        return cls.of_counts(rows.shape[1], counts, most)

    @classmethod
    def of_counts(
        cls, n_columns: int, counts: Mapping[int, Mapping[int, int]], most: int = MOST_INDICATORS
    ) -> Self:
        """Indicators for the most frequent codes of each category, from the rows of every code."""
        frequent = []
        rest = []
        for rows_of_codes in counts.values():
            frequent.append(tuple(sorted(most_frequent(rows_of_codes, most))))
            rest.append(len(rows_of_codes) > most)
        return cls(n_columns, tuple(counts), tuple(frequent), tuple(rest))

    def __call__(self, rows: FloatArray) -> FloatArray:
        """The numbers of ``rows``, followed by the indicators of each category."""
        numbers = self.numbers
        out = np.zeros((len(rows), self.n_out), dtype=rows.dtype)
        out[:, : len(numbers)] = rows[:, numbers]
        for block in self.blocks:
            codes = rows[:, block.category]
            known = np.array(block.codes, dtype=rows.dtype)
            place = np.minimum(np.searchsorted(known, codes), len(known) - 1)
            has_column = known[place] == codes
            out[np.flatnonzero(has_column), block.start + place[has_column]] = 1
            if block.rest:
                out[~has_column, block.start + len(known)] = 1
        return out

    def codes_in(self, rows: FloatArray) -> FloatArray:
        """The rows with codes again; a code without a column becomes that of rare levels."""
        out = np.full((len(rows), self.n_columns), float(OTHER))
        out[:, self.numbers] = rows[:, : len(self.numbers)]
        for block in self.blocks:
            flags = rows[:, block.start : block.start + len(block.codes)]
            codes = np.array(block.codes)[flags.argmax(axis=1)]
            out[:, block.category] = np.where(flags.any(axis=1), codes, OTHER)
        return out

    @cached_property
    def blocks(self) -> list[IndicatorBlock]:
        """The indicators of each category, which follow the numbers."""
        blocks = []
        start = self.n_columns - len(self.categories)
        for category, codes, rest in zip(self.categories, self.codes, self.rest, strict=True):
            block = IndicatorBlock(category, codes, rest, start)
            blocks.append(block)
            start += block.width
        return blocks

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
        sources = self.numbers
        for block in self.blocks:
            sources += [block.category] * block.width
        return sources


@kept("table")
@dataclass(frozen=True)
class TableEncoder(Kept):
    """The columns of a table by name, and their rows as numbers and codes. Labels are not used."""

    columns: Annotated[tuple[Column, ...], Items(1)]  # all columns of the training table, in order
    named: bool  # whether columns are found by name; otherwise by position
    indicators: Indicators | None = None  # if not None, categories become indicators, not codes
    ignored: tuple[str, ...] = ()  # other columns of the training table, which the user left out

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.columns):
            raise DataError("a table encoder names a column twice.")
        if not self.used:
            raise DataError("a table encoder leaves all columns out.")
        earlier: set[str] = set()
        for column in self.columns:
            if isinstance(column, DateColumn):
                if not earlier.issuperset(column.since):
                    raise DataError("a table encoder subtracts dates that come later or are none.")
                earlier.add(column.name)
        if self.indicators is None:
            return
        fits = self.indicators.n_columns == len(self.encoded)
        if not fits or not all(self.encoded[j].has_codes for j in self.indicators.categories):
            raise DataError("the indicators of a table encoder must have its columns.")

    @classmethod
    def fit(
        cls, parts: Sequence[Frame], *, expand: bool = False, keep: Keep | None = None
    ) -> tuple[Self, FloatArray]:
        """The encoder of a training table and its encoded rows, which may be in several samples.

        With ``expand`` categories become indicator columns, otherwise codes. ``keep`` are columns
        that are used although new rows have other values.
        """
        first, *others = parts
        samples = [first]
        for part in others:  # only positive and unlabeled rows are fitted together
            samples.append(
                aligned(part, first.names, named=first.named, rows="unlabeled", of="positive")
            )
        summaries = TableSummary.of_samples(samples).columns
        encoder = cls.of_summaries(summaries, expand=expand, named=first.named, keep=keep)
        encoded = [encoder.transform(sample, warn=False) for sample in samples]
        return encoder, np.concatenate(encoded)

    @classmethod
    def of_summaries(
        cls,
        summaries: Mapping[str, ColumnSummary],
        *,
        expand: bool = False,
        named: bool = True,
        keep: Keep | None = None,
    ) -> Self:
        """The encoder of a training table from the summaries of its columns."""
        if not summaries:
            raise DataError("X must have at least one column, got a table with 0 feature(s).")
        keep = keep or Keep()
        columns = []
        for name, summary in summaries.items():
            columns.append(_learn_column(name, summary, keep))
        keep.check(columns)
        columns = _with_differences(columns)
        if not any(column.width for column in columns):  # one column is always used
            last = columns[-1].name
            columns[-1] = _learn_column(last, summaries[last], Keep(time=True, ids=True))
        encoder = cls(tuple(columns), named)
        identifiers = [column.name for column in columns if isinstance(column, LeftOutColumn)]
        if identifiers:
            IdColumnWarning.issue(
                f"{columns_named(identifiers)}: almost every row has a different value, as in an "
                "identifier, which says nothing about new rows. It is left out:",
                advice="drop it from X, or name it in keep_ids to use it.",
                command="name it in --drop, or in --keep-ids to use it.",
            )
        if not expand or not encoder.categories:
            return encoder
        counts = {}
        for j in encoder.categories:
            column = encoder.encoded[j]
            counts[j] = column.code_counts(summaries[column.name])
        return replace(encoder, indicators=Indicators.of_counts(len(encoder.encoded), counts))

    def __str__(self) -> str:
        names = ", ".join([column.name for column in self.used])
        return f"uses {len(self.used)} of {len(self.columns)} columns: {names}"

    def _repr_html_(self) -> str:
        return html_text(self)

    @cached_property
    def names(self) -> list[str]:
        """Names of all columns of the training table."""
        return [column.name for column in self.columns]

    @cached_property
    def used_positions(self) -> list[int]:
        """Positions of the columns that are used as features."""
        return [j for j, column in enumerate(self.columns) if column.width]

    @cached_property
    def read_positions(self) -> list[int]:
        """Positions of the columns that are read: those used, and dates that are subtracted."""
        subtracted = set(self._dates_of_differences)
        positions = []
        for j, column in enumerate(self.columns):
            if column.width or column.name in subtracted:
                positions.append(j)
        return positions

    @cached_property
    def read(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return tuple(self.columns[j] for j in self.read_positions)

    @property
    def _dates_of_differences(self) -> tuple[str, ...]:
        """Names of the columns of dates that others subtract."""
        names: list[str] = []
        for column in self.columns:
            if isinstance(column, DateColumn):
                names += column.since
        return tuple(dict.fromkeys(names))

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """The columns that are used as features."""
        return tuple(self.columns[j] for j in self.used_positions)

    @cached_property
    def encoded(self) -> tuple[Column, ...]:
        """For each encoded column before indicators, the column that it comes from."""
        encoded: list[Column] = []
        for column in self.columns:
            encoded += [column] * column.width
        return tuple(encoded)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Names of the columns that are not used."""
        names_read = {column.name for column in self.read}
        return tuple(name for name in self.names if name not in names_read)

    @property
    def free_texts(self) -> tuple[str, ...]:
        """Names of the columns of free text, whose words can be named."""
        if self.indicators is not None:
            return ()
        return tuple(column.name for column in self.used if isinstance(column, TextColumn))

    def texts_of(self, X: Any) -> dict[str, Any]:
        """The columns of free text of a data frame as they are."""
        if not self.free_texts:
            return {}
        frame = read_frame(X)
        texts = {}
        for name in self.free_texts:
            position = frame.positions[name] if self.named else self.names.index(name)
            texts[name] = np.array(frame.column(position).to_list(), dtype=object)
        return texts

    def text_place(self, name: str) -> tuple[slice, TextColumn]:
        """Where a column of free text is in encoded rows, and the column."""
        start = 0
        for column in self.used:
            if column.name == name:
                assert isinstance(column, TextColumn)
                return slice(start, start + column.width), column
            start += column.width
        raise DataError(f"there is no column {name!r}.")

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the columns that a reader of text files has to leave as text.

        How later files are read must not depend on their rows: with the rest of the column left
        out, "true", "1.0" and "NA" look like a truth value, a number and a missing value. Numbers
        and dates may be parsed by the reader, with :data:`drpu.tables.values.NULL_WORDS` as missing
        values.
        """
        return tuple(column.name for column in self.columns if not column.may_be_parsed)

    @property
    def categories(self) -> tuple[int, ...]:
        """Positions of the encoded columns that hold category codes."""
        if self.indicators is not None:
            return ()
        return tuple(j for j, column in enumerate(self.encoded) if column.has_codes)

    @property
    def plain(self) -> bool:
        """Whether every column is numeric and is used unchanged."""
        return all(column.is_number for column in self.columns)

    @property
    def sources(self) -> list[Column]:
        """For each column of the encoded rows, the column of the table that it comes from."""
        if self.indicators is None:
            return list(self.encoded)
        return [self.encoded[j] for j in self.indicators.sources]

    def source_names(self, chosen: Any) -> list[str]:
        """Names of the columns of the table that the ``chosen`` encoded columns come from."""
        names = []
        for column, is_chosen in zip(self.sources, chosen, strict=True):
            if is_chosen and column.name not in names:
                names.append(column.name)
        return names

    @property
    def width(self) -> int:
        """Number of columns of the encoded rows."""
        if self.indicators is None:
            return len(self.encoded)
        return self.indicators.n_out

    def ignoring(self, names: Iterable[str]) -> Self:
        """The same encoder; later tables may have the columns ``names`` without a warning."""
        others = [name for name in dict.fromkeys(names) if name not in self.names]
        return replace(self, ignored=tuple(others))

    def transform(self, frame: Frame, *, warn: bool = True) -> FloatArray:
        """The encoded rows of a table with the columns of training, in any order.

        ``warn`` is whether to warn about many unseen levels.
        """
        if self.ignored and frame.named:
            frame = frame.without(self.ignored)
        frame = aligned(frame, self.names, named=self.named, optional=frozenset(self.left_out))
        if self.named:  # columns that are not used may be absent, which moves the others
            frame = frame.select_names([column.name for column in self.read])
        else:
            frame = frame.select(self.read_positions)
        types = frame.types
        values = self._encode_columns(frame, types)
        if warn:
            self._warn_of_unseen(values)
        precision: Any = np.float64
        if all(dtype == nw.Float32 for dtype in types):
            precision = np.float32
        matrix = np.empty((len(frame), len(self.encoded)), dtype=precision)
        start = 0
        for column, encoded in zip(self.read, values, strict=True):
            matrix[:, start : start + column.width] = encoded.reshape(len(frame), column.width)
            start += column.width
        if self.indicators is None:
            return matrix
        return self.indicators(matrix)

    def _encode_columns(self, frame: Frame, types: Sequence[Any]) -> list[FloatArray]:
        plain_numbers = self._plain_numbers(frame, types)
        days = {}
        encoded = []
        for k, column in enumerate(self.read):
            if k in plain_numbers:
                encoded.append(plain_numbers[k])
            elif isinstance(column, DateColumn):
                days[column.name] = column.days(frame.column(k))
                encoded.append(column.encode_days(days[column.name], days))
            else:
                encoded.append(column.encode(frame.column(k)))
        return encoded

    def _plain_numbers(self, frame: Frame, types: Sequence[Any]) -> dict[int, FloatArray]:
        """Columns of plain numbers by position, if they can be read together."""
        if len(frame) > ROWS_READ_TOGETHER:
            return {}
        numbers = []
        for k, column in enumerate(self.read):
            if column.is_number and types[k] in PLAIN_TYPES:
                numbers.append(k)
        if not numbers:
            return {}
        block = frame.select(numbers).columns.to_numpy()
        if block.dtype.kind not in "if":  # types of Arrow in pandas give objects
            return {}
        return dict(zip(numbers, block.T, strict=True))

    def _warn_of_unseen(self, values: Sequence[FloatArray]) -> None:
        if len(values[0]) < ENOUGH_ROWS:
            return
        shares = []
        for column, encoded in zip(self.read, values, strict=True):
            share = column.many_unseen(encoded)
            if share is not None:
                shares.append(f"{column.name!r} ({share:.0%})")
        if shares:
            UnseenLevelsWarning.issue(
                f"many rows have levels that training did not keep, in {', '.join(shares[:8])}: "
                "they count as rare levels. Check whether the coding of the column has changed."
            )

    def by_column(self, values: FloatArray) -> FloatArray:
        """Sums over the encoded columns of each column of the table; a last column is kept."""
        sums = np.zeros((len(values), len(self.columns) + 1))
        position = {name: j for j, name in enumerate(self.names)}
        for k, column in enumerate(self.sources):
            sums[:, position[column.name]] += values[:, k]
        sums[:, -1] = values[:, -1]
        return sums

    def check_array(self) -> None:
        """Raise if an array cannot replace the table, because columns are not numeric."""
        not_numeric = [column.name for column in self.used if not column.is_number]
        if not_numeric:
            raise DataTypeError(
                f"X must be a table, not an array: training read {columns_named(not_numeric)} as "
                "categories, dates or texts. Pass a data frame, a dict or a list of dicts."
            )

    def transform_array(self, X: Any) -> Any:
        """The used columns of an array of numbers, by position."""
        if len(self.used) == len(self.columns):
            return X
        return X[:, self.used_positions]

    def kept_values(self) -> dict[str, int]:
        """Number of values that each column keeps, without columns that keep none."""
        return {column.name: len(column.levels) for column in self.used if column.levels}


def _learn_column(name: str, summary: ColumnSummary, keep: Keep) -> Column:
    """The column, of the first type that recognises it and is not to be left out."""
    if len(summary.sources) > 1:
        kinds = " and ".join(sorted(summary.sources))
        raise DataTypeError(
            f"column {name!r} holds {kinds} in different partitions: give it one type first."
        )
    for column_type in COLUMN_TYPES:
        if column_type is LeftOutColumn and keep.keeps_ids(name):
            continue
        column = column_type.learn(name, summary)
        if isinstance(column, DateColumn) and keep.keeps_time(name):
            column = column.with_time()
        if column is not None:
            return column
    raise AssertionError("every column can be a category")


def _is_date(column: Column) -> bool:
    return isinstance(column, DateColumn) and column.is_date


def _with_differences(columns: Sequence[Column]) -> list[Column]:
    """The columns; each one of dates has the days since every earlier one of the same clocks."""
    all_columns: list[Column] = []
    earlier: list[DateColumn] = []
    for column in columns:
        if isinstance(column, DateColumn) and column.is_date:
            since = [other.name for other in earlier if other.zoned == column.zoned]
            earlier.append(column)
            column = replace(column, since=tuple(since))
        all_columns.append(column)
    return all_columns


def fixed_cells(table: TableEncoder | None, columns: int) -> list[Cells | None]:
    """Cells of each encoded column that holds levels or indicators; None for numbers."""
    if table is None or columns != table.width:
        return [None] * columns
    fixed: list[Cells | None] = []
    indicators = table.indicators
    zero_and_one = Cells(np.array([0.5]))
    not_compared = Cells(np.empty(0))
    for column in table.used:
        if indicators is None or not column.has_codes:
            fixed += column.cells()
    if indicators is None:
        return fixed
    for block in indicators.blocks:
        compared_codes = {MISSING, *table.encoded[block.category].compared_codes}
        for code in block.codes:
            if code in compared_codes:
                fixed.append(zero_and_one)
            else:
                fixed.append(not_compared)
        if block.rest:
            fixed.append(not_compared)
    return fixed
