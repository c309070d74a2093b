"""Types of columns: how a column is recognised, and how its values become numbers or codes.

A type of column is one class. It recognises a column from its summary, learns what it needs to know
about it, encodes rows, and says how encoded rows are compared. A new type is one class in a file of
its own and its place in :data:`drpu.tables.encoder.COLUMN_TYPES`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import narwhals as nw
import numpy as np

from drpu._arrays import FloatArray
from drpu._codec import Items, Kept, NotKept, Number, Text, kept
from drpu.exceptions import DataError, DataTypeError, UnreadableValuesWarning
from drpu.tables.dates import DATE, DIGITS, FORMS, PARTS, TIME, onnx_part, part_of
from drpu.tables.summaries import ColumnSummary
from drpu.tables.values import (
    CATEGORY,
    FEW,
    NUMBER,
    RANGES,
    RARE,
    READERS,
    VALUES,
    Cells,
    common_name,
    days,
    declared_kind,
    distinct_values,
    hash_of,
    is_missing_cell,
    is_whole,
    level_name,
    most_frequent,
    numeric,
    unusable,
    zones_of,
    zones_of_series,
)

_CODE = re.compile(r"0\d+")  # digits with leading zeros, such as a postal code
# Names of columns that hold one number for each case, such as "id", "case_no" and "CustomerID".
_NAME_OF_IDS = re.compile(
    r"(.*[\W_])?(id|ids|uuid|guid|key|nr|no|number)\.?|.*[a-z0-9](ID|Id|Key|Nr|No|Number)",
)
_OTHER_DATE = re.compile(r"\d\d?[-/. ](\d\d?|[^\W\d]{3,9}\.?)[-/. ](19|20)?\d\d( .*)?")
LEFT_OUT = "left out"
MISSING = 0  # code of a missing value
OTHER = 1  # code of rare and unseen levels
FIRST = 2  # code of the most frequent level
LEVEL_ROWS = 5  # a level with fewer rows is rare
MOST_LEVELS = 255  # maximum number of levels of a column; the others count as rare
FREQUENT = 50  # minimum number of training rows of a level for its share to be compared
ID_SHARE = 0.95  # strings with at least this share of different values are identifiers
FEW_UNREADABLE = 0.05  # share of rows with texts that are no numbers, which are read as missing
MANY_UNSEEN = 0.2  # increase of the share of rare and unseen levels that causes a warning


@dataclass(frozen=True)
class Column(Kept, ABC):
    """One column of a training table; each subclass is a type of column."""

    name: str
    kind: ClassVar[str]
    is_number: ClassVar[bool] = False  # whether encoded values are the numbers of the table
    has_codes: ClassVar[bool] = False  # whether encoded values are codes of levels
    # Whether a program that reads text files may parse the column; otherwise it leaves it as text.
    may_be_parsed: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:
        """The column with this summary; None if it is of another type."""

    @abstractmethod
    def encode(self, series: nw.Series[Any]) -> FloatArray:
        """Numbers or codes of the rows, of shape (n,) or (n, width)."""

    @property
    def width(self) -> int:
        """Number of encoded columns; 0 if the column is not used."""
        return 1

    @property
    def note(self) -> str:
        """Code of the note that users get about the column, see drpu.tables.notes."""
        return ""

    @property
    def detail(self) -> str:
        """What the note says about the column."""
        return ""

    @property
    def levels(self) -> tuple[str, ...]:
        """Values of the data that are kept."""
        return ()

    def cells(self) -> list[Cells | None]:
        """For each encoded column the cells in which rows are counted; None for quantiles."""
        return [None] * self.width

    def sortable(self, encoded: FloatArray) -> FloatArray | None:
        """One encoded column in an order that has a meaning; None if it has none."""
        return encoded

    def many_unseen(self, encoded: FloatArray) -> float | None:
        """Share of rows with levels that training did not keep, if it is unexpectedly large."""
        return None

    def code_counts(self, summary: ColumnSummary) -> dict[int, int]:
        """Training rows of each code."""
        return {}

    @property
    def compared_codes(self) -> list[int]:
        """Codes of the levels whose shares are compared with those of new rows."""
        return []

    def onnx(self, graph: Any, inputs: Mapping[str, str]) -> tuple[str, bool]:
        """The encoded column in a graph, and whether its input is a string.

        ``inputs`` are the names of the inputs by column.
        """
        return inputs[self.name], False


def _read(column: Column, series: nw.Series[Any], form: str) -> FloatArray:
    """Numbers or dates of rows whose type is not the declared one; ``form`` is how to read them.

    A few texts that cannot be read are missing values, with a warning.
    """
    values, rows = distinct_values(column.name, series.to_list())
    numbers = np.full(len(values), np.nan)
    unreadable = []
    first_error = ""
    for position, value in enumerate(values):
        if is_missing_cell(value):
            continue
        try:
            numbers[position] = READERS[form](value)
        except ValueError as error:
            unreadable.append(position)
            first_error = first_error or str(error)
        except TypeError as error:
            raise DataError(f"{_unlike_training(column)} {error} Correct it.") from error
    if unreadable:
        share = float(np.isin(rows, unreadable).mean())
        _check_few_unreadable(column, share, first_error)
        texts = ", ".join(repr(values[position])[:40] for position in unreadable[:5])
        n_rows = np.isin(rows, unreadable).sum()
        UnreadableValuesWarning.issue(
            f"{_unlike_training(column)} {n_rows:,} of {len(rows):,} rows have other values, which "
            f"are read as missing: {texts}."
        )
    return numbers[rows]


def _check_few_unreadable(column: Column, share: float, first_error: str) -> None:
    if share <= FEW_UNREADABLE:
        return
    raise DataError(
        f"{_unlike_training(column)} {first_error} This is so in {share:.0%} of the rows, and up "
        f"to {FEW_UNREADABLE:.0%} are read as missing. Make such values missing or correct them, "
        "or fit again with rows that have such values: the column is a category then."
    )


def _unlike_training(column: Column) -> str:
    return f"column {column.name!r} had {column.kind}s in training; here"


@kept("number-column")
@dataclass(frozen=True)
class NumberColumn(Column):
    """Numbers and booleans, and strings that are all plain numbers."""

    kind: ClassVar[str] = NUMBER
    is_number: ClassVar[bool] = True
    may_be_parsed: ClassVar[bool] = True
    # Whether the training rows had them as text, and whether nearly all were different whole
    # numbers; unknown after loading.
    from_text: Annotated[bool, NotKept] = field(default=False, compare=False)
    different: Annotated[bool, NotKept] = field(default=False, compare=False)

    @classmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        if not summary.is_kind(NUMBER):
            return None
        from_text = summary.texts and bool(summary.levels)
        return cls(name, from_text, summary.share_of_different >= ID_SHARE)

    @property
    def note(self) -> str:  # noqa: D102
        if self.from_text:
            return "numbers-as-text"
        if self.different:
            return "different-numbers"
        return ""

    def encode(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        if declared_kind(series.dtype) == NUMBER:
            return numeric(series)
        return _read(self, series, NUMBER)


@kept("date-column")
@dataclass(frozen=True)
class DateColumn(Column):
    """Dates, durations and times of the day.

    Dates are read as days since 1970-01-01, of which the ``parts`` are used that later rows share
    with those of training (see :mod:`drpu.tables.dates`), and the days since earlier columns of
    dates. Durations and times of the day are days, too.

    ``zoned`` is whether the training dates had a time zone; None if they were durations or times.
    Dates with a zone are those of clocks in UTC. Dates of the other kind would be hours away, so
    they are refused.
    """

    kind: ClassVar[str] = DATE
    may_be_parsed: ClassVar[bool] = True
    zoned: bool | None = None
    form: Annotated[str, Text(pattern="|".join(FORMS))] = DATE  # how texts and numbers are read
    parts: Annotated[tuple[Annotated[str, Text(pattern="|".join(PARTS))], ...], Items()] = (TIME,)
    since: Annotated[tuple[str, ...], Items()] = ()  # columns of dates that are subtracted

    @classmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        form = summary.date_form
        if form is None:
            return None
        if len(summary.zones) == 2:
            raise DataTypeError(
                f"column {name!r} has dates with a time zone and dates without one, which may be "
                "hours apart: add the zone to all of them, or remove it."
            )
        zones = summary.zones
        if form == DIGITS:
            zones = frozenset([False])
        if not zones:
            return cls(name)
        (zoned,) = zones
        return cls(name, zoned, form, summary.covered[form].parts)

    def with_time(self) -> DateColumn:
        """The column with time itself among its parts."""
        return replace(self, parts=tuple(dict.fromkeys((TIME, *self.parts))))

    @property
    def is_date(self) -> bool:
        """Whether the values are dates, not durations or times of the day."""
        return self.zoned is not None

    @property
    def width(self) -> int:  # noqa: D102
        return len(self.parts) + len(self.since)

    @property
    def note(self) -> str:  # noqa: D102
        if not self.is_date or TIME in self.parts:
            return ""
        if self.width == 0:
            return "only-time"
        return "dates"

    @property
    def detail(self) -> str:  # noqa: D102
        uses = list(self.parts)
        for name in self.since:
            uses.append(f"days since {name!r}")
        if len(uses) < 2:
            return "".join(uses)
        return f"{', '.join(uses[:-1])} and {uses[-1]}"

    def cells(self) -> list[Cells | None]:
        """Quantiles of time and of differences.

        Months, weekdays and hours are not compared: they say when rows were collected, and new
        rows are rarely collected for as long as those of training.
        """
        not_compared = Cells(np.empty(0))
        cells: list[Cells | None] = []
        for part in self.parts:
            if part == TIME:
                cells.append(None)
            else:
                cells.append(not_compared)
        return cells + [None] * len(self.since)

    def encode(
        self, series: nw.Series[Any], days_of_others: Mapping[str, FloatArray] | None = None
    ) -> FloatArray:
        """The parts, and the days since the columns of dates that are subtracted."""
        return self.encode_days(self.days(series), days_of_others or {})

    def encode_days(self, days: FloatArray, days_of_others: Mapping[str, FloatArray]) -> FloatArray:
        """The same from days since 1970-01-01, of this column and of others."""
        columns = []
        for part in self.parts:
            columns.append(part_of(part, days))
        for name in self.since:
            columns.append(days - days_of_others[name])
        return np.array(columns).reshape(len(columns), len(days)).T

    def days(self, series: nw.Series[Any]) -> FloatArray:
        """Days since 1970-01-01, or durations and times in days."""
        kind = declared_kind(series.dtype)
        if kind == NUMBER and self.form != DIGITS:
            raise DataTypeError(f"column {self.name!r} had dates in training and has numbers here.")
        if kind == DATE:
            self._check_zones(zones_of_series(series))
            return days(series)
        encoded = _read(self, series, self.form)
        if self.zoned is not None:
            values = np.array(series.to_list(), dtype=object)
            self._check_zones(zones_of(set(values[~np.isnan(encoded)].tolist())))
        return encoded

    def onnx(self, graph: Any, inputs: Mapping[str, str]) -> tuple[str, bool]:
        """The parts and differences; inputs are days since 1970-01-01."""
        days = inputs[self.name]
        columns = []
        for part in self.parts:
            columns.append(onnx_part(graph, part, days))
        for name in self.since:
            columns.append(graph.op("Sub", days, inputs[name]))
        return graph.op("Concat", *columns, axis=1), False

    def _check_zones(self, zones: frozenset[bool]) -> None:
        """Raise if dates have a time zone and those of training had none, or the other way."""
        if self.zoned is None or zones <= {self.zoned}:
            return
        if self.zoned:
            raise DataTypeError(
                f"column {self.name!r} had dates with a time zone in training, and has dates "
                "without one here: add the zone, as in 2026-06-30T12:00+02:00."
            )
        raise DataTypeError(
            f"column {self.name!r} had dates without a time zone in training, and has dates with "
            "one here: convert them to the clocks of training, and remove the zone."
        )


@kept("left-out-column")
@dataclass(frozen=True)
class LeftOutColumn(Column):
    """Identifiers: different strings without spaces, or different whole numbers.

    Whole numbers, as strings or not, are identifiers if they are in order, too long to be exact,
    repeat less often than independent values can, or have a name such as "id" or "case_no".
    Others, such as populations and amounts, are numbers.
    """

    kind: ClassVar[str] = LEFT_OUT

    @classmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:  # noqa: D102
        different = summary.share_of_different >= ID_SHARE
        if summary.is_kind(NUMBER):
            identifies = summary.counts_up or (different and _is_assigned(name, summary))
        else:
            identifies = summary.texts and different and summary.spaced <= 0.5
        return cls(name) if identifies else None

    def encode(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        return np.empty((len(series), 0))

    @property
    def width(self) -> int:  # noqa: D102
        return 0

    @property
    def note(self) -> str:  # noqa: D102
        return "left-out"


def _is_assigned(name: str, summary: ColumnSummary) -> bool:
    """Whether different whole numbers were given to the rows, and measure nothing."""
    if not summary.whole:
        return False
    is_long = summary.exact <= 0.5
    return is_long or summary.assigned or _NAME_OF_IDS.fullmatch(name) is not None


@kept("category-column")
@dataclass(frozen=True)
class CategoryColumn(Column):
    """Codes of levels: 0 for a missing value, 1 for a rare or unseen level, 2 for the first level.

    Levels are sorted by frequency. A level is rare if it has fewer than 5 rows, or if 255 others
    are more frequent.
    """

    kind: ClassVar[str] = CATEGORY
    has_codes: ClassVar[bool] = True
    levels: Annotated[tuple[str, ...], Items(0, MOST_LEVELS)] = ()
    # Rows of each level; unknown after loading.
    rows: Annotated[tuple[int, ...], NotKept] = field(default=(), compare=False)
    # Share of rows with rare levels to expect.
    rare: Annotated[float, Number(0, 1)] = field(default=0.0, compare=False)
    # Whether all values look like dates that cannot be read; unknown after loading.
    other_dates: Annotated[bool, NotKept] = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if len(set(self.levels)) != len(self.levels):
            raise DataError(f"column {self.name!r:.100} names a level twice.")

    @classmethod
    def learn(cls, name: str, summary: ColumnSummary) -> Self | None:
        """A category with the levels that are frequent enough.

        The share of rows with rare levels that new rows will have is estimated by leaving each
        training row out: a level that is frequent enough by one row only counts as rare.
        """
        if summary.sources == {VALUES} and summary.example is not None:
            raise unusable(name, summary.example)
        counts = summary.levels
        if not summary.texts:  # beside numbers, the string "1.0" is the number 1
            counts = Counter()
            for level, n in summary.levels.items():
                counts[common_name(level)] += n
        levels = most_frequent(counts, MOST_LEVELS, least=LEVEL_ROWS)
        rows = [counts[level] for level in levels]
        rare = 0.0
        if summary.present:
            frequent_without_one = [n for n in rows if n > LEVEL_ROWS]
            rare = 1 - sum(frequent_without_one) / summary.present
        other_dates = bool(counts) and all(map(_OTHER_DATE.fullmatch, counts))
        return cls(name, tuple(levels), tuple(rows), rare, other_dates)

    @property
    def note(self) -> str:  # noqa: D102
        if self.other_dates:
            return "other-dates"
        has_leading_zeros = any(_CODE.fullmatch(level) for level in self.levels)
        is_code = has_leading_zeros and all(is_whole(level) for level in self.levels)
        return "codes" if is_code else ""

    def encode(self, series: nw.Series[Any]) -> FloatArray:  # noqa: D102
        distinct, rows = distinct_values(self.name, series.to_list())
        codes = [self._code(value) for value in distinct]
        return np.array(codes, dtype=np.float64)[rows]

    def _code(self, value: Any) -> int:
        if is_missing_cell(value):
            return MISSING
        is_text = isinstance(value, str)
        if is_text:
            code = self._codes.get(level_name(value))
            if code is not None:
                return code
        codes = self._codes_by_common_name.get(common_name(value), [])
        if len(codes) == 1:
            return codes[0]
        if codes and not is_text:
            texts = " and ".join(repr(self.levels[code - FIRST]) for code in codes[:2])
            raise DataTypeError(
                f"column {self.name!r} has the number {value} here, which training had as the "
                f"texts {texts}: read the column as text."
            )
        return OTHER

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {level: FIRST + k for k, level in enumerate(self.levels)}

    @cached_property
    def _codes_by_common_name(self) -> dict[str, list[int]]:
        """Codes of the levels that are different spellings of a value, by their common name."""
        codes: dict[str, list[int]] = {}
        for level, code in self._codes.items():
            codes.setdefault(common_name(level), []).append(code)
        return codes

    def code_counts(self, summary: ColumnSummary) -> dict[int, int]:  # noqa: D102
        missing = summary.rows - summary.present
        counts = (missing, summary.present - sum(self.rows), *self.rows)  # MISSING, OTHER, FIRST...
        return {code: n for code, n in enumerate(counts) if n > 0}

    @property
    def compared_codes(self) -> list[int]:  # noqa: D102
        return [FIRST + k for k, n in enumerate(self.rows) if n >= FREQUENT]

    def cells(self) -> list[Cells | None]:
        """Cells of the codes.

        Codes are sorted by frequency in training, and frequent levels were frequent partly by
        chance. Ranges of codes would therefore change even if nothing changed. Many levels are put
        into cells by a hash of their names instead, and levels with few rows are not compared.
        A training row counts as one of a rare level if its level would be rare without it: the
        share of rare levels is then that of new rows of the same kind.
        """
        cells = np.full(FIRST + len(self.levels), FEW, dtype=np.int64)
        cells[MISSING] = 0
        cells[OTHER] = RARE
        compared = self.compared_codes
        for place, code in enumerate(compared):
            if len(compared) > RANGES:
                place = hash_of(self.levels[code - FIRST]) % RANGES
            cells[code] = FEW + 1 + place
        held_out = cells.copy()
        for code, n in enumerate(self.rows, start=FIRST):
            if n == LEVEL_ROWS:
                held_out[code] = RARE
        return [Cells(np.empty(0), cells, held_out=held_out)]

    def sortable(self, encoded: FloatArray) -> FloatArray | None:
        """Positions of the levels in alphabetical order, which dates and numbers as text have."""
        positions = np.full(FIRST + len(self.levels), np.nan)
        alphabetical = np.argsort(np.array(self.levels, dtype=object))
        positions[FIRST + alphabetical] = np.arange(len(self.levels))
        positions[OTHER] = -1.0 if self.levels else 0.0
        return positions[encoded.astype(np.int64)]

    def many_unseen(self, encoded: FloatArray) -> float | None:  # noqa: D102
        share = float(np.mean(encoded == OTHER))
        if self.levels and share - self.rare > MANY_UNSEEN:
            return share
        return None

    def onnx(self, graph: Any, inputs: Mapping[str, str]) -> tuple[str, bool]:
        """Codes of a column of strings in NFC; the empty string is a missing value."""
        codes = np.arange(FIRST, FIRST + len(self.levels), dtype=float)
        encoded = graph.op(
            "LabelEncoder",
            inputs[self.name],
            domain="ai.onnx.ml",
            keys_strings=["", *self.levels],
            values_floats=[float(MISSING), *codes],
            default_float=float(OTHER),
        )
        return graph.double(encoded), True
