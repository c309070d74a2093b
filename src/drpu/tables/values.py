"""Single values of a column: missing ones, numbers, dates, and names of levels; and columns with a type."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.exceptions import DataTypeError

__all__ = [
    "CATEGORY",
    "DATE",
    "NUMBER",
    "READERS",
    "VALUES",
    "days",
    "declared_kind",
    "different",
    "hash_of",
    "is_missing",
    "is_missing_cell",
    "is_plain",
    "is_whole",
    "level_name",
    "mapped",
    "missing",
    "numeric",
    "unusable",
]

NUMBER, DATE, CATEGORY = "number", "date", "category"
VALUES = "values"  # the type does not determine the kind of a column, so its values do

_DAY = 86_400.0
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,14})?(\.\d*)?([eE][+-]?\d{1,3})?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d.*)?)?")


# -- missing values ----------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA."""
    if value is None or isinstance(value, str):
        return value is None
    try:
        differs = value != value  # NaN and NaT differ from themselves; a comparison with NA gives NA
    except (TypeError, ValueError, ArithmeticError):
        return False
    return bool(differs) if isinstance(differs, (bool, np.bool_)) else differs is value


def is_missing_cell(value: Any) -> bool:
    """Whether a cell of a table is missing; a string of spaces is, too."""
    return not value or value.isspace() if isinstance(value, str) else is_missing(value)


def missing(values: np.ndarray[Any, Any]) -> BoolArray:
    """Which values of an array are missing."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    return np.array([is_missing(value) for value in values], dtype=bool)


# -- the values of a column --------------------------------------------------------------------


def different(name: str, values: Sequence[Any]) -> tuple[list[Any], IntArray]:
    """The different values of the column ``name``, and for each row the position of its value."""
    known: dict[Any, int] = {}
    try:
        found = [known.setdefault(value, len(known)) for value in values]
    except TypeError:
        odd = next(value for value in values if not _can_be_hashed(value))
        raise unusable(name, odd) from None
    return list(known), np.array(found, dtype=np.int64)


def mapped(name: str, values: Sequence[Any], read: Callable[[Any], float], gap: float) -> FloatArray:
    """The number that ``read`` gives for each value; it is called once for each different value."""
    found, rows = different(name, values)
    numbers = [gap if is_missing_cell(value) else read(value) for value in found]
    return np.array(numbers, dtype=np.float64)[rows]


def unusable(name: str, value: Any) -> DataTypeError:
    """The error for a value of a column that is neither a string nor a number nor a date."""
    return DataTypeError(
        f"column {name!r} holds a {type(value).__name__}: argument must be a string or a number. Turn it into "
        "columns of numbers or strings first."
    )


def is_plain(value: Any) -> bool:
    """Whether a value is a string, a number, a date or a time."""
    return isinstance(value, (str, bool, np.bool_, int, float, np.number, Decimal, dt.date, dt.time)) and (
        not isinstance(value, (complex, np.complexfloating))
    )


def level_name(value: Any) -> str:
    """The name of the level of a value: 1, 1.0 and "1" are the same level."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def hash_of(text: str) -> int:
    """A hash in 64 bits that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, or a string of digits."""
    if isinstance(value, str):
        return value.strip().lstrip("+-").isdecimal()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _as_number(value: Any) -> float:
    """The number in a value: its own, or that of a string which is a plain number."""
    if isinstance(value, str):
        text = value.strip()
        if not text or text in "+-." or not _PLAIN_NUMBER.fullmatch(text):
            raise ValueError(f"a value is not a number: {value[:40]!r}.")
        return float(text)
    if isinstance(value, (bool, np.bool_, int, float, np.number, Decimal)) and is_plain(value):
        return float(value)
    raise TypeError(f"a value is of type {type(value).__name__}, not a number.")


def _as_day(value: Any) -> float:
    """Days since 1970-01-01, in UTC; a date without a time zone is taken as UTC."""
    if isinstance(value, str):
        if not _ISO_DATE.fullmatch(value.strip()):
            raise ValueError(f"a value is not a date as in 2026-06-30: {value[:40]!r}.")
        value = dt.datetime.fromisoformat(value.strip())
    if isinstance(value, np.datetime64):
        return float(value.astype("datetime64[us]").astype(np.int64)) / (_DAY * 1e6)
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)
        return moment.timestamp() / _DAY
    if isinstance(value, dt.date):
        return float(value.toordinal() - dt.date(1970, 1, 1).toordinal())
    raise TypeError(f"a value is of type {type(value).__name__}, not a date.")


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
    if isinstance(dtype, (nw.Date, nw.Datetime, nw.Duration, nw.Time)) or dtype in (nw.Date, nw.Time):
        return DATE
    return CATEGORY if dtype in (nw.Categorical, nw.Enum) else VALUES


def numeric(series: nw.Series[Any]) -> FloatArray:
    """Numbers, with NaN for missing values."""
    if series.dtype not in (nw.Float64, nw.Float32):
        series = series.cast(nw.Float64)
    return np.asarray(series.to_numpy(), dtype=np.float64)


def days(series: nw.Series[Any]) -> FloatArray:
    """Dates in days since 1970-01-01, durations and times of the day in days."""
    if isinstance(series.dtype, nw.Duration):
        microseconds = series.dt.total_microseconds()
    elif series.dtype == nw.Time:
        return mapped(series.name, series.to_list(), _time_of_day, math.nan)
    else:
        microseconds = series.dt.timestamp("us")
    return numeric(microseconds) / (_DAY * 1e6)


def _time_of_day(value: dt.time) -> float:
    return (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / _DAY
