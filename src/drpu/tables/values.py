"""Values of a column: single cells, columns with a type, and counts of rows in ranges.

The ranges of a column are fixed in training. The counts of positive and of unlabeled training rows
in them are the profile of the column, which the counts of new rows are compared with.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Annotated, Any, TypeVar

import narwhals as nw
import numpy as np

from drpu import _lazy
from drpu._arrays import BoolArray, FloatArray, IntArray, as_numpy
from drpu._checks import check_readable
from drpu._codec import Array, NotKept, kept
from drpu.exceptions import DataError, DataTypeError
from drpu.tables.dates import (
    DATE,
    DAY_FIRST,
    DIGITS,
    FORMS,
    MONTH_FIRST,
    iso_moment,
    moment,
    moment_of_digits,
)

T = TypeVar("T", int, str)

NUMBER = "number"
CATEGORY = "category"
VALUES = "values"  # the type does not determine the kind of a column, so its values do

# Words for a missing number or date in text; in a category they are levels.
NULL_WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
    "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip

_NUMBERS = (bool, np.bool_, int, float, np.number, Decimal)
_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
# Leading zeros are those of codes. Python reads no more than 4300 digits as an integer.
_WHOLE_NUMBER = r"[+-]?(0|[1-9]\d{0,4299})"
_PLAIN_NUMBER = re.compile(rf"({_WHOLE_NUMBER}|[+-]?)(\.\d*)?([eE][+-]?\d{{1,3}})?")
_PLAIN_WHOLE_NUMBER = re.compile(_WHOLE_NUMBER)
_ISO_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


# -- missing values --


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        differs = value != value  # NaN and NaT differ from themselves
    except (TypeError, ValueError, ArithmeticError):
        return False
    if isinstance(differs, (bool, np.bool_)):
        return bool(differs)
    return differs is value  # a comparison with NA gives NA


def is_missing_cell(value: Any) -> bool:
    """Whether a cell of a table is missing; a string of spaces is, too."""
    if isinstance(value, str):
        return not value or value.isspace()
    return is_missing(value)


def as_series(values: Any) -> nw.Series[Any] | None:
    """A column of pandas, polars or Arrow, in chunks or not; None for other values."""
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(values, arrow.Array):
        values = arrow.chunked_array([values])
    series = nw.from_native(values, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def flat_values(name: str, values: Any) -> np.ndarray[Any, Any]:
    """One value per row; dates with a time zone are those of the clocks in that zone."""
    check_readable(name, values)
    series = as_series(values)
    if series is not None:
        if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone:
            series = series.dt.replace_time_zone(None)
        values = series.to_native()
    try:
        if hasattr(values, "to_numpy"):
            flat = np.asarray(values.to_numpy())
        else:
            flat = np.asarray(as_numpy(values))
    except ValueError as error:
        raise DataTypeError(f"{name} must have one value per row: {error}") from error
    if flat.ndim != 1:
        raise DataTypeError(
            f"{name} must have one dimension, one value per row, got shape {flat.shape}."
        )
    return flat


def group_codes(name: str, groups: Any, n: int) -> IntArray:
    """Group numbers from values of any type, one per row."""
    check_readable(name, groups)
    try:
        values = _lazy.column_or_1d(as_numpy(groups))
    except ValueError as error:
        value = repr(groups) if isinstance(groups, str) else f"shape {np.shape(groups)}"
        raise DataError(
            f"{name} must have one value per row, as X['customer'] has, got {value}."
        ) from error
    if len(values) != n:
        raise DataError(f"{name} must have one value per row, {n}, got {len(values)}.")
    if missing(values).any():
        raise DataError(
            f"{name} must not hold missing values: give a row without a group its own value."
        )
    try:
        _, codes = np.unique(values, return_inverse=True)
    except TypeError:  # values of several types cannot be sorted
        _, codes = np.unique(values.astype(str), return_inverse=True)
    return np.asarray(codes, dtype=np.int64)


def most_frequent(counts: Mapping[T, int], most: int, *, least: int = 1) -> list[T]:
    """The names with at least so many rows, the most frequent first, at most ``most`` of them."""
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return [name for name in ordered[:most] if counts[name] >= least]


def positions_in(names: Sequence[Any], values: Iterable[Any]) -> IntArray:
    """The position of each value among different names."""
    position = {name: k for k, name in enumerate(names)}
    return np.array([position[value] for value in values], dtype=np.int64)


def by_month(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values, with dates as calendar months, such as "2024-05", and None for missing ones.

    Texts and whole numbers are dates if all of them are, in one form of :mod:`drpu.tables.dates`.
    Other texts are in NFC, as the names of levels are.
    """
    if values.dtype.kind == "M":
        months = values.astype("datetime64[M]").astype(str).astype(object)
        months[np.isnat(values)] = None
        return months
    if values.dtype.kind not in "UOiu":
        return values
    form = form_of_dates(values.tolist())
    if form is None and values.dtype.kind in "iu":
        return values
    if form is None and values.dtype.kind == "U":
        return np.array([level_name(text) for text in values.tolist()])
    months = values.astype(object)
    for k, value in enumerate(values.tolist()):
        if is_missing_cell(value):
            continue
        if form is not None and not isinstance(value, dt.date):
            months[k] = _moment_of(value, form).strftime("%Y-%m")
        elif isinstance(value, str):
            months[k] = level_name(value)
        elif isinstance(value, dt.date):
            months[k] = value.strftime("%Y-%m")
    return months


def form_of_dates(values: Iterable[Any]) -> str | None:
    """The form in which all texts and whole numbers among the values are dates, if there is one.

    None also if day and month could be exchanged in all of them.
    """
    different = set()
    for value in values:
        if isinstance(value, (str, int, np.integer)) and not is_missing_cell(value):
            different.add(value)
    if not different:
        return None
    forms = [form for form in FORMS if _all_moments(different, form)]
    if DATE in forms:
        return DATE
    if len(forms) == 1:
        return forms[0]
    return None


def _all_moments(values: Iterable[Any], form: str) -> bool:
    try:
        for value in values:
            _moment_of(value, form)
    except ValueError:
        return False
    return True


def _moment_of(value: Any, form: str) -> dt.datetime:
    if form == DIGITS:
        return moment_of_digits(str(value).strip())
    return moment(str(value).strip(), form)


def missing(values: np.ndarray[Any, Any]) -> BoolArray:
    """Which values of an array are missing."""
    if values.dtype.kind in "fmM":  # numbers, durations and dates
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([is_missing(value) for value in values], dtype=bool)


# -- the values of a column --


def distinct_values(name: str, values: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The distinct values of the column ``name``, and for each row the position of its value.

    Values of different types are distinct: ``1 == True`` in Python, but they are different levels.
    """
    positions: dict[tuple[type, Any], int] = {}
    rows = []
    for value in values:
        try:
            rows.append(positions.setdefault((value.__class__, value), len(positions)))
        except TypeError:  # it has no hash
            raise unusable(name, value) from None
    distinct = [value for _, value in positions]
    return distinct, np.array(rows, dtype=np.int64)


def read_rows(name: str, values: Sequence[Any], read: Callable[[Any], float]) -> FloatArray:
    """The number that ``read`` gives for the value of each row, NaN for missing ones."""
    distinct, rows = distinct_values(name, values)
    return read_distinct(distinct, read)[rows]


def read_distinct(distinct: Sequence[Any], read: Callable[[Any], float]) -> FloatArray:
    """The number that ``read`` gives for each value, NaN for missing ones."""
    numbers = np.full(len(distinct), np.nan)
    for position, value in enumerate(distinct):
        if not is_missing_cell(value):
            numbers[position] = read(value)
    return numbers


def unusable(name: str, value: Any) -> DataTypeError:
    """The error for a value of a column that is neither a string nor a number nor a date."""
    return DataTypeError(
        f"column {name!r} holds a {type(value).__name__}: argument must be a string or a number. "
        "Turn it into columns of numbers or strings first."
    )


def is_plain(value: Any) -> bool:
    """Whether a value is a string, a number, a date or a time."""
    if isinstance(value, np.complexfloating):  # a number of NumPy without an order
        return False
    return isinstance(value, (str, *_NUMBERS, dt.date, dt.time))


def level_name(value: Any) -> str:
    """The name of the level of a value; 1.0 has that of 1, and a midnight that of its day.

    Texts are in NFC: two forms of Unicode for one letter look the same.
    """
    if isinstance(value, str):
        return unicodedata.normalize("NFC", str(value))  # which may be one of NumPy
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, dt.datetime) and value.tzinfo is None and value.time() == dt.time():
        return str(value.date())
    return str(value)


def common_name(value: Any) -> str:
    """The name that all spellings of a value share: "1.0" has that of 1, "true" that of True.

    Spellings of a number differ between CSV files, Parquet files and libraries.
    """
    if not isinstance(value, str):
        return level_name(value)
    text = value.strip()
    if text in _TRUTH:
        return level_name(_TRUTH[text])
    if _PLAIN_WHOLE_NUMBER.fullmatch(text):
        return str(int(text))  # as a float, long numbers would be equal
    for read in (_plain_number, iso_moment):
        try:
            return level_name(read(text))
        except ValueError:
            continue
    return level_name(value)


def hash_of(text: str) -> int:
    """A hash in 64 bits that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(as_bytes(text), digest_size=8).digest(), "little")


def as_bytes(text: str) -> bytes:
    """A text in UTF-8; halves of surrogate pairs, which Python allows, are kept."""
    return text.encode("utf-8", "surrogatepass")


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, or a string of digits."""
    if isinstance(value, str):
        return value.strip().lstrip("+-").isdecimal()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _as_number(value: Any) -> float:
    """The value as a number; a string must be a plain number or a truth value."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        if text in _TRUTH:
            return float(_TRUTH[text])
        return _plain_number(text)
    if not isinstance(value, _NUMBERS) or not is_plain(value):
        raise TypeError(f"a value is of type {type(value).__name__}, not a number.")
    try:
        return float(value)
    except OverflowError:  # an integer; a string or decimal with as many digits is infinite
        return math.inf if value > 0 else -math.inf


def _plain_number(text: str) -> float:
    if not text or text in "+-." or not _PLAIN_NUMBER.fullmatch(text):
        raise ValueError(f"a value is not a number: {text[:40]!r}.")
    return float(text)


def _as_day(value: Any, form: str = DATE) -> float:
    """Days since 1970-01-01, or the time of the day in days; without a time zone in UTC."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        if _ISO_TIME.fullmatch(text):
            return _time_of_day(dt.time.fromisoformat(text))
        value = moment(text, form)
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / _DAY
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            value = value.replace(tzinfo=dt.UTC)
        return float((value - _EPOCH) // dt.timedelta(microseconds=1)) / _DAY
    if isinstance(value, dt.date):
        return float(value.toordinal() - _EPOCH.toordinal())
    if isinstance(value, dt.time):
        return _time_of_day(value)
    raise TypeError(f"a value is of type {type(value).__name__}, not a date.")


def _as_day_of_digits(value: Any) -> float:
    """Days since 1970-01-01 of a number or a text such as 20260630."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        return _as_day(moment_of_digits(text))
    if isinstance(value, (dt.date, dt.time, np.datetime64, bool, np.bool_)):
        raise TypeError(f"a value is of type {type(value).__name__}, not eight digits.")
    return _as_day(moment_of_digits(level_name(value)))


def has_zone(value: Any) -> bool | None:
    """Whether a date has a time zone; None for times of the day and missing values."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS or _ISO_TIME.fullmatch(text):
            return None
        try:
            value = iso_moment(text)
        except ValueError:  # other forms have no zone
            return False
    if isinstance(value, dt.datetime):
        return value.tzinfo is not None
    if isinstance(value, (dt.date, np.datetime64)):
        return False
    return None


def zones_of(values: Iterable[Any]) -> frozenset[bool]:
    """Whether dates have a time zone: one or both answers, or none if there are no dates."""
    zones = set()
    for value in values:
        if not is_missing_cell(value):
            zone = has_zone(value)
            if zone is not None:
                zones.add(zone)
    return frozenset(zones)


def zones_of_series(series: nw.Series[Any]) -> frozenset[bool]:
    """The same for a column of dates by its type."""
    if series.null_count() == len(series):
        return frozenset()
    if isinstance(series.dtype, nw.Datetime):
        return frozenset([series.dtype.time_zone is not None])
    if series.dtype == nw.Date:
        return frozenset([False])
    return frozenset()


# Numbers and forms of dates, which are recognised value by value; the functions read a value.
READERS: dict[str, Callable[[Any], float]] = {
    NUMBER: _as_number,
    DATE: _as_day,
    DAY_FIRST: partial(_as_day, form=DAY_FIRST),
    MONTH_FIRST: partial(_as_day, form=MONTH_FIRST),
    DIGITS: _as_day_of_digits,
}


# -- columns with a type --


def declared_kind(dtype: Any) -> str:
    """The kind of a column by its type: number, date or category; ``"values"`` for other types."""
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBER
    if isinstance(dtype, (nw.Date, nw.Datetime, nw.Duration, nw.Time)):
        return DATE
    if dtype in (nw.Date, nw.Time):
        return DATE
    if dtype in (nw.Categorical, nw.Enum):
        return CATEGORY
    return VALUES


def numeric(series: nw.Series[Any]) -> FloatArray:
    """Numbers, with NaN for missing values."""
    too_long = series.dtype in (nw.Int128, nw.UInt128)  # which NumPy does not have
    plain = series.dtype.is_integer() or series.dtype in (nw.Float64, nw.Float32)
    if too_long or not plain:
        series = series.cast(nw.Float64)  # which Arrow refuses for integers above 2**53
    return np.asarray(series.to_numpy(), dtype=np.float64)


def days(series: nw.Series[Any]) -> FloatArray:
    """Dates in days since 1970-01-01, durations and times of the day in days."""
    if series.dtype == nw.Time:
        return read_rows(series.name, series.to_list(), _time_of_day)
    if isinstance(series.dtype, nw.Duration):
        return numeric(series.dt.total_microseconds()) / _DAY
    return numeric(series.dt.timestamp("us")) / _DAY


def _time_of_day(value: dt.time) -> float:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) / _DAY


RANGES = 12  # ranges of values per column, besides one for missing values
RANGE_SHARES = tuple(k / (RANGES // 2) for k in range(1, RANGES // 2))  # shares of the quantiles
MOST_PROFILED_ROWS = 200_000  # of larger samples every k-th row is used
MOST_PROFILED_COLUMNS = 500  # rows with more columns, such as counts of words, are not profiled
RARE = 1  # cell of the rare and the unseen levels of a category
FEW = 2  # cell of its levels with few rows
DEVIATIONS = 1.93  # distance of the outer quantiles of normal values, in standard deviations
MARGIN = 0.2  # a move of a column by less than so many deviations is none; see benchmarks.few
LEAST_DISTANCE = 0.05  # values that differ by less than so many deviations are not told apart
# A few very large values make the deviation large. It counts as at most so many times the spread of
# the quantiles: for the margin, and for the least distance.
LONG_TAILS = 2.0
LONGEST_TAILS = 10.0
MIDDLE = 0.4871  # not one half: the middle of evenly spaced values may be the value of a row
PARTS = np.array([-1, -0.5, -0.25, -0.1, 0, 0.1, 0.25, 0.5, 1])  # of the margin: moves of limits
CONSTANT = 0.9  # the same for a column with one value, as a share of it, or of 1 if that is larger
# A limit between ranges is the mean of so many neighbouring values, so that no row decides it. The
# mean of an odd number of evenly spaced values would be one of them.
NEIGHBOURS = 6


@kept("cells")
@dataclass(frozen=True)
class Cells:
    """The division of the values of a column.

    ``edges``: Limits between ranges of numbers; one more cell is for missing values.
    ``codes``: For a category, the cell of each code instead: 0 for missing values, 1 for levels
    that are rare or that training did not have, 2 for levels with few rows, and more for the
    others. Which levels have few rows depends on the training rows, so that cell is not compared.
    ``margin``: Values that move by less than this have not moved; not kept in files.
    ``held_out``: ``codes`` with the levels that would be rare without one of their rows in the
    cell of rare levels: the cells of training rows; not kept in files.
    """

    edges: Annotated[FloatArray, Array("e")]
    codes: Annotated[IntArray, Array("k", dtype="int", low=0, high=1000)] | None = None
    margin: Annotated[float, NotKept] = field(default=0.0, compare=False)
    held_out: Annotated[IntArray | None, NotKept] = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if (np.diff(self.edges) <= 0).any():
            raise DataError("the limits between the ranges of a column must ascend.")

    @classmethod
    def between(cls, quantiles: Sequence[FloatArray], deviation: float | None = None) -> Cells:
        """Cells with limits about in the middle between neighbouring quantiles of a column.

        A limit on a value that many rows have would be crossed by all of them if the column
        moved by a rounding error. Quantiles that are closer than :data:`LEAST_DISTANCE` times the
        ``deviation`` of the column are one value: a move by less does not matter. Without it the
        spread of the quantiles is used.
        """
        values = np.concatenate(list(quantiles))
        values = np.unique(values[np.isfinite(values)])
        if len(values) == 0:
            return cls(np.empty(0))
        if len(values) == 1:
            # nothing else is known of the scale: 1 is the distance of indicators and the
            # deviation of standardised columns
            distance = CONSTANT * max(abs(float(values[0])), 1.0)
            return cls(np.array([values[0] - distance, values[0] + distance]))
        spread = float(values[-1] - values[0]) / DEVIATIONS
        if deviation is None:
            deviation = spread
        least = LEAST_DISTANCE * min(deviation, LONGEST_TAILS * spread)
        limits = []
        last_kept = values[0]
        for value, following in itertools.pairwise(values):
            if following - last_kept > least:
                limits.append(value + MIDDLE * (following - value))
                last_kept = following
        margin = MARGIN * np.clip(deviation, spread, LONG_TAILS * spread)
        return cls(np.unique(limits), margin=float(max(margin, least)))

    @property
    def n(self) -> int:
        """Number of cells."""
        if self.codes is None:
            return len(self.edges) + 2
        return max(int(self.codes.max()), FEW) + 1

    @property
    def tested(self) -> IntArray:
        """The cells whose shares are compared with each other."""
        cells = np.arange(self.n)
        if self.codes is None:
            return cells
        return np.delete(cells, [RARE, FEW])

    @property
    def of_training(self) -> Cells:
        """The cells in which training rows are counted; :meth:`ColumnProfile.of` adds them up."""
        if self.codes is not None:
            return self if self.held_out is None else Cells(self.edges, self.held_out)
        return Cells(np.unique(self._with_margins()))

    def _with_margins(self) -> FloatArray:
        """The limits, moved by parts of the margin."""
        return self.edges + self.margin * PARTS[:, None]

    def added_up(self, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Counts in the cells, and near their limits, from counts of :attr:`of_training`."""
        if self.codes is not None:
            return counts, np.zeros((len(PARTS), 0))
        below = np.cumsum(counts)[np.searchsorted(self.of_training.edges, self._with_margins())]
        unmoved = below[len(PARTS) // 2]
        present = counts[:-1].sum()
        cells = np.diff(np.concatenate(([0.0], unmoved, [present, present + counts[-1]])))
        return cells, below - unmoved

    def count(self, values: FloatArray) -> IntArray:
        """Counts of values in the cells."""
        if self.codes is not None:
            return np.bincount(self._cells_of(values, self.codes), minlength=self.n)
        # limits in sorted values are several times faster than a search for each value
        below = np.searchsorted(np.sort(values), [*self.edges, np.nan])  # missing values come last
        return np.diff([0, *below, len(values)]).astype(np.int64)

    def _cells_of(self, values: FloatArray, cell_of_code: IntArray) -> IntArray:
        """The cell of each code of a category; codes that training did not have are rare."""
        codes = np.where(np.isnan(values), 0, values).astype(np.int64)
        known = (codes >= 0) & (codes < len(cell_of_code))
        cells = np.full(len(codes), RARE)
        cells[known] = cell_of_code[codes[known]]
        return cells


@kept("column-profile")
@dataclass(frozen=True)
class ColumnProfile:
    """Counts of positive and unlabeled training rows in the ranges of one column.

    ``positive_near``, ``unlabeled_near``: How many more rows are below each limit if it moves by
    each of :data:`PARTS` of the margin; negative if it moves down.
    """

    name: str  # name of the column, or its position
    cells: Cells  # each limit is the mean of twelve values, so that it is not the value of a row
    positive: Annotated[FloatArray, Array("c", low=0)]
    unlabeled: Annotated[FloatArray, Array("c", low=0)]
    positive_near: Annotated[FloatArray, Array("sn")]
    unlabeled_near: Annotated[FloatArray, Array("sn")]

    def __post_init__(self) -> None:
        rule = ""
        near = (len(PARTS), len(self.cells.edges))
        if self.positive_near.shape != near or self.unlabeled_near.shape != near:
            rule = "near its limits"
        counted = min(self.positive.sum(), self.unlabeled.sum()) >= 1
        if len(self.positive) != self.cells.n or not counted:
            rule = "in its ranges"
        if rule:
            raise DataError(f"the profile of column {self.name!r:.100} must have counts {rule}.")

    @classmethod
    def of(cls, name: str, cells: Cells, positive: IntArray, unlabeled: IntArray) -> ColumnProfile:
        """The profile from counts of training rows in the cells :attr:`Cells.of_training`."""
        in_cells, near = cells.added_up(positive.astype(np.float64))
        unlabeled_in_cells, unlabeled_near = cells.added_up(unlabeled.astype(np.float64))
        return cls(name, cells, in_cells, unlabeled_in_cells, near, unlabeled_near)

    def with_unlabeled(self, counts: FloatArray) -> ColumnProfile:
        """The profile with other rows in place of the unlabeled ones, equally dense at limits."""
        scale = counts.sum() / self.unlabeled.sum()
        return replace(self, unlabeled=counts, unlabeled_near=scale * self.unlabeled_near)


def profile_columns(
    positive: Any, unlabeled: Any, names: Sequence[str], cells: Sequence[Cells | None] = ()
) -> tuple[ColumnProfile, ...]:
    """Profiles of the columns of two dense samples; none if there are more than 500 columns."""
    if len(names) > MOST_PROFILED_COLUMNS:
        return ()
    positive = _thinned(positive)
    unlabeled = _thinned(unlabeled)
    profiles = []
    for k, name in enumerate(names):
        positive_values = np.asarray(positive[:, k], dtype=np.float64)
        unlabeled_values = np.asarray(unlabeled[:, k], dtype=np.float64)
        column_cells = cells[k] if cells else None
        if column_cells is None:
            quantiles = [_quantiles(positive_values), _quantiles(unlabeled_values)]
            column_cells = Cells.between(quantiles, _deviation(unlabeled_values))
        of_training = column_cells.of_training
        positive_counts = of_training.count(positive_values)
        unlabeled_counts = of_training.count(unlabeled_values)
        profiles.append(
            ColumnProfile.of(str(name), column_cells, positive_counts, unlabeled_counts)
        )
    return tuple(profiles)


def count_columns(cells: Sequence[Cells], rows: Any) -> IntArray:
    """Counts of dense rows in the cells of each column, all columns in one array."""
    if rows.shape[1] != len(cells):
        raise DataError(
            f"rows must have the {len(cells)} columns of the profiles, got {rows.shape[1]}."
        )
    counts = [np.empty(0, dtype=np.int64)]
    for k, column_cells in enumerate(cells):
        values = np.ascontiguousarray(rows[:, k], dtype=np.float64)
        counts.append(column_cells.count(values))
    return np.concatenate(counts)


def column_quantiles(rows: Any) -> FloatArray:
    """Quantiles of each column at :data:`RANGE_SHARES`; NaN if there are fewer than six values.

    The shape is (d, 2 * shares): quantiles of all values, then quantiles of the values that are not
    repeated among the first ones. Without the latter, an amount that is usually 0 would have a
    single range. Each quantile is the mean of the six values around it.
    """
    quantiles = np.empty((rows.shape[1], 2 * len(RANGE_SHARES)))
    for k in range(rows.shape[1]):
        quantiles[k] = _quantiles(np.asarray(rows[:, k], dtype=np.float64))
    return quantiles


def smooth_medians(rows: Any) -> FloatArray:
    """Means of the six middle values of columns, so that no row decides; 0 if there are fewer."""
    medians = np.empty(rows.shape[1])
    for k, column in enumerate(rows.T):
        present = column[~np.isnan(column)]
        medians[k] = _smooth_quantiles(present, shares=(0.5,))[0]
    return np.nan_to_num(medians)


def mean_of_neighbours(neighbours: FloatArray) -> FloatArray:
    """Means of rows of ascending values; equal ones are a frequent value, kept exactly."""
    first = neighbours[:, 0]
    means = (neighbours / neighbours.shape[1]).sum(axis=1)
    return np.where(first == neighbours[:, -1], first, means)


def _quantiles(values: FloatArray) -> FloatArray:
    """Quantiles of the values, and of the values that are not repeated among them."""
    present = values[~np.isnan(values)]
    quantiles = _smooth_quantiles(present, RANGE_SHARES)
    repeated = quantiles[1:][quantiles[1:] == quantiles[:-1]]
    quantiles_of_others = np.full(len(RANGE_SHARES), np.nan)
    if len(repeated) > 0:
        others = present[~np.isin(present, repeated)]
        quantiles_of_others = _smooth_quantiles(others, RANGE_SHARES)
    return np.concatenate([quantiles, quantiles_of_others])


def _smooth_quantiles(values: FloatArray, shares: Sequence[float]) -> FloatArray:
    """Means of the six values around each quantile; NaN if there are fewer values."""
    n = len(values)
    if n < NEIGHBOURS:
        return np.full(len(shares), np.nan)
    middle = np.ceil(np.array(shares) * (n - 1)).astype(np.int64)
    first = np.clip(middle - NEIGHBOURS // 2, 0, n - NEIGHBOURS)
    ranks = first[:, None] + np.arange(NEIGHBOURS)
    sorted_at_ranks = np.partition(values, np.unique(ranks))
    return mean_of_neighbours(sorted_at_ranks[ranks])


def _deviation(values: FloatArray) -> float | None:
    """Standard deviation of the finite values; None if there is none."""
    finite = values[np.isfinite(values)]
    if len(finite) == 0:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(finite.std())
    return deviation if math.isfinite(deviation) else None


def _thinned(rows: Any) -> Any:
    """Every k-th row, so that at most :data:`MOST_PROFILED_ROWS` remain."""
    step = -(-rows.shape[0] // MOST_PROFILED_ROWS)
    return rows[:: max(step, 1)]
