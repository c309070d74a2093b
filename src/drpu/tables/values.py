"""Single values of a column (missing, numbers, dates, names of levels), and columns with a type."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from drpu._arrays import as_numpy
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.exceptions import DataTypeError

NUMBER = "number"
DATE = "date"
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
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,14})?(\.\d*)?([eE][+-]?\d{1,3})?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d.*)?)?")
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


def by_month(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values, with dates as calendar months, such as "2024-05", and None for missing ones."""
    if values.dtype.kind == "M":
        months = values.astype("datetime64[M]").astype(str).astype(object)
        months[np.isnat(values)] = None
        return months
    if values.dtype != object:
        return values
    return np.array([_month_of(value) for value in values.tolist()], dtype=object)


def _month_of(value: Any) -> Any:
    """The month of a date; other values, and missing ones, as they are."""
    if isinstance(value, dt.date) and not is_missing(value):
        return value.strftime("%Y-%m")
    return value


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
    try:
        rows = [positions.setdefault((value.__class__, value), len(positions)) for value in values]
    except TypeError:
        unhashable = next(value for value in values if not _can_be_hashed(value))
        raise unusable(name, unhashable) from None
    distinct = [value for _, value in positions]
    return distinct, np.array(rows, dtype=np.int64)


def _can_be_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


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
    """The name of the level of a value; 1.0 has that of 1, and a midnight that of its day."""
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
    for read in (_plain_number, _moment):
        try:
            return level_name(read(text))
        except ValueError:
            continue
    return value


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


def _as_day(value: Any) -> float:
    """Days since 1970-01-01, or the time of the day in days; without a time zone in UTC."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        if _ISO_TIME.fullmatch(text):
            return _time_of_day(dt.time.fromisoformat(text))
        value = _moment(text)
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


def _moment(text: str) -> dt.datetime:
    if not _ISO_DATE.fullmatch(text):
        raise ValueError(f"a value is not a date as in 2026-06-30: {text[:40]!r}.")
    return dt.datetime.fromisoformat(text)


# Kinds of columns that can be recognised value by value, with the function that reads a value.
READERS: dict[str, Callable[[Any], float]] = {NUMBER: _as_number, DATE: _as_day}


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
    if not series.dtype.is_integer() and series.dtype not in (nw.Float64, nw.Float32):
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
