"""Single values of a column: missing ones, numbers, dates, and names of levels; and columns with a type."""

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

NUMBER, DATE, CATEGORY = "number", "date", "category"
VALUES = "values"  # the type does not determine the kind of a column, so its values do

# Words for a missing number or date in text; in a category they are levels.
NULL_WORDS = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A",
    "NA", "NULL", "NaN", "None", "n/a", "nan", "null",
)  # fmt: skip

_DAY = 86_400_000_000  # microseconds
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TRUTH = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,14})?(\.\d*)?([eE][+-]?\d{1,3})?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d.*)?)?")
_ISO_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


# -- missing values ----------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        differs = (
            value != value
        )  # NaN and NaT differ from themselves; a comparison with NA gives NA
    except (TypeError, ValueError, ArithmeticError):
        return False
    return bool(differs) if isinstance(differs, (bool, np.bool_)) else differs is value


def is_missing_cell(value: Any) -> bool:
    """Whether a cell of a table is missing; a string of spaces is, too."""
    return not value or value.isspace() if isinstance(value, str) else is_missing(value)


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
        zoned = isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone
        values = (series.dt.replace_time_zone(None) if zoned else series).to_native()
    try:
        flat = np.asarray(
            as_numpy(values) if not hasattr(values, "to_numpy") else values.to_numpy()
        )
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
        found = values.astype("datetime64[M]").astype(str).astype(object)
        found[np.isnat(values)] = None
        return found
    if values.dtype != object:
        return values
    dates = [isinstance(value, dt.date) and not is_missing(value) for value in values.tolist()]
    pairs = zip(values.tolist(), dates, strict=True)
    return np.array(
        [value.strftime("%Y-%m") if date else value for value, date in pairs], dtype=object
    )


def missing(values: np.ndarray[Any, Any]) -> BoolArray:
    """Which values of an array are missing."""
    if values.dtype.kind in "fmM":  # numbers, durations and dates
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([is_missing(value) for value in values], dtype=bool)


# -- the values of a column --------------------------------------------------------------------


def different(name: str, values: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The different values of the column ``name``, and for each row the position of its value.

    Values of different types are different: ``1 == True`` in Python, but they are different levels.
    """
    known: dict[Any, int] = {}
    try:
        found = [known.setdefault((value.__class__, value), len(known)) for value in values]
    except TypeError:
        odd = next(value for value in values if not _can_be_hashed(value))
        raise unusable(name, odd) from None
    return [value for _, value in known], np.array(found, dtype=np.int64)


def mapped(
    name: str, values: Sequence[Any], read: Callable[[Any], float], gap: float
) -> FloatArray:
    """The number that ``read`` gives for each value; it is called once for each different value."""
    found, rows = different(name, values)
    numbers = [gap if is_missing_cell(value) else read(value) for value in found]
    return np.array(numbers, dtype=np.float64)[rows]


def unusable(name: str, value: Any) -> DataTypeError:
    """The error for a value of a column that is neither a string nor a number nor a date."""
    return DataTypeError(
        f"column {name!r} holds a {type(value).__name__}: argument must be a string or a number. Turn it "
        "into columns of numbers or strings first."
    )


def is_plain(value: Any) -> bool:
    """Whether a value is a string, a number, a date or a time."""
    return isinstance(
        value, (str, bool, np.bool_, int, float, np.number, Decimal, dt.date, dt.time)
    ) and (not isinstance(value, (complex, np.complexfloating)))


def level_name(value: Any) -> str:
    """The name of the level of a value: 1 and 1.0 are the same level, and so are a day and its midnight."""
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
            pass
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
    """The number in a value: its own, or that of a string which is a plain number or a truth value."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        return float(_TRUTH[text]) if text in _TRUTH else _plain_number(text)
    if isinstance(value, (bool, np.bool_, int, float, np.number, Decimal)) and is_plain(value):
        try:
            return float(value)
        except OverflowError:  # an integer; a string or decimal with as many digits is infinite
            return math.inf if value > 0 else -math.inf
    raise TypeError(f"a value is of type {type(value).__name__}, not a number.")


def _plain_number(text: str) -> float:
    if not text or text in "+-." or not _PLAIN_NUMBER.fullmatch(text):
        raise ValueError(f"a value is not a number: {text[:40]!r}.")
    return float(text)


def _as_day(value: Any) -> float:
    """Days since 1970-01-01, in UTC, or days of a time of the day; without a time zone a date is in UTC."""
    if isinstance(value, str):
        text = value.strip()
        if text in NULL_WORDS:
            return math.nan
        value = dt.time.fromisoformat(text) if _ISO_TIME.fullmatch(text) else _moment(text)
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / _DAY
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return float((moment - _EPOCH) // dt.timedelta(microseconds=1)) / _DAY
    if isinstance(value, dt.date):
        return float(value.toordinal() - _EPOCH.toordinal())
    if isinstance(value, dt.time):
        return _time_of_day(value)
    raise TypeError(f"a value is of type {type(value).__name__}, not a date.")


def _moment(text: str) -> dt.datetime:
    if not _ISO_DATE.fullmatch(text):
        raise ValueError(f"a value is not a date as in 2026-06-30: {text[:40]!r}.")
    return dt.datetime.fromisoformat(text)


# Kinds of columns that are read value by value, with the function that gives the number of a value.
READERS: dict[str, Callable[[Any], float]] = {NUMBER: _as_number, DATE: _as_day}


def _can_be_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


# -- columns with a type -----------------------------------------------------------------------


def declared_kind(dtype: Any) -> str:
    """The kind of a column by its type: number, date or category; ``"values"`` for all other types."""
    if dtype.is_numeric() or dtype == nw.Boolean:
        return NUMBER
    if isinstance(dtype, (nw.Date, nw.Datetime, nw.Duration, nw.Time)) or dtype in (
        nw.Date,
        nw.Time,
    ):
        return DATE
    return CATEGORY if dtype in (nw.Categorical, nw.Enum) else VALUES


def numeric(series: nw.Series[Any]) -> FloatArray:
    """Numbers, with NaN for missing values."""
    if not series.dtype.is_integer() and series.dtype not in (nw.Float64, nw.Float32):
        series = series.cast(nw.Float64)  # which Arrow refuses for integers above 2**53
    return np.asarray(series.to_numpy(), dtype=np.float64)


def days(series: nw.Series[Any]) -> FloatArray:
    """Dates in days since 1970-01-01, durations and times of the day in days."""
    if isinstance(series.dtype, nw.Duration):
        microseconds = series.dt.total_microseconds()
    elif series.dtype == nw.Time:
        return mapped(series.name, series.to_list(), _time_of_day, math.nan)
    else:
        microseconds = series.dt.timestamp("us")
    return numeric(microseconds) / _DAY


def _time_of_day(value: dt.time) -> float:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    return (seconds * 1_000_000 + value.microsecond) / _DAY
