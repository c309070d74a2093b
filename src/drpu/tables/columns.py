"""The kind of a column of a table: numbers, dates, categories, identifiers or free text."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import DataError, DataTypeError

__all__ = [
    "CATEGORY",
    "DATE",
    "FEWEST",
    "NUMBER",
    "Column",
    "as_day",
    "as_number",
    "by_frequency",
    "check_value_type",
    "counted",
    "hashable",
    "is_category_type",
    "is_missing",
    "is_number_type",
    "is_time_type",
    "is_whole",
    "level_name",
    "mapped",
    "numeric",
    "read_column",
    "read_numbers",
    "string_use",
]

NUMBER, DATE, CATEGORY = "number", "date", "category"

FEWEST = 20  # with fewer values, "all are different" is no sign of an identifier
ID_SHARE = 0.95  # strings with at least this share of different values are identifiers
TEXT_SHARE = 0.5  # the same for strings with spaces, which are free text

_DAY = 86_400.0
_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d{0,14})?(\.\d*)?([eE][+-]?\d{1,3})?")
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d.*)?)?")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the training table: its kind, and numbers or level names for the rows.

    ``levels`` has one name for each row, None for a missing value. It is None for numbers and dates.
    """

    kind: str
    numbers: FloatArray | None = None
    levels: list[str | None] | None = None
    is_id: bool = False
    is_text: bool = False


def read_column(name: str, parts: Sequence[nw.Series[Any]]) -> Column:
    """The column of a training table, whose rows may be given in several parts."""
    dtypes = [part.dtype for part in parts]
    if all(is_number_type(dtype) for dtype in dtypes):
        numbers = [numeric(part) for part in parts]
        whole = all(dtype.is_integer() for dtype in dtypes)
        return Column(NUMBER, np.concatenate(numbers), is_id=whole and _counts_up(numbers))
    if all(is_time_type(dtype) for dtype in dtypes):
        return Column(DATE, np.concatenate([_days(part) for part in parts]))
    values = [part.to_list() for part in parts]
    if all(is_category_type(dtype) for dtype in dtypes):
        return Column(CATEGORY, levels=mapped([value for part in values for value in part], level_name))
    return _read_values(name, values)


def read_numbers(name: str, kind: str, series: nw.Series[Any]) -> FloatArray:
    """Numbers or dates of later rows, for a column that had them in training."""
    if kind == NUMBER and is_number_type(series.dtype):
        return numeric(series)
    if kind == DATE and is_time_type(series.dtype):
        return _days(series)
    if kind == DATE and is_number_type(series.dtype):
        raise DataTypeError(f"column {name!r} had dates in training and has numbers here.")
    read = as_number if kind == NUMBER else as_day
    try:
        return np.array(mapped(series.to_list(), read, gap=math.nan), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} had {kind}s in training; here {error}") from error


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, NA, NaT, or a string of spaces only."""
    if value is None:
        return True
    if isinstance(value, str):
        return not value or value.isspace()
    try:
        differs = value != value  # NaN and NaT differ from themselves; NA gives neither True nor False
        return bool(differs) if isinstance(differs, (bool, np.bool_)) else type(value).__name__ == "NAType"
    except (TypeError, ValueError):
        return False


def level_name(value: Any) -> str:
    """The name of the level of a value: 1, 1.0 and "1" are the same level."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _read_values(name: str, parts: list[list[Any]]) -> Column:
    """The kind of a column, from its values."""
    values = [value for part in parts for value in part]
    distinct = [value for value in dict.fromkeys(map(hashable(name), values)) if not is_missing(value)]
    texts = [isinstance(value, str) for value in distinct]
    for kind, read in ((NUMBER, as_number), (DATE, as_day)):
        try:
            numbers = [np.array(mapped(part, read, gap=math.nan), dtype=np.float64) for part in parts]
        except (TypeError, ValueError):
            continue
        whole = kind == NUMBER and all(is_whole(value) for value in distinct)
        return Column(kind, np.concatenate(numbers), is_id=whole and _counts_up(numbers))
    for value in distinct:
        check_value_type(name, value)
    levels = mapped(values, level_name)
    is_id, is_text = False, False
    if all(texts):
        present = sum(1 for value in values if not is_missing(value))
        spaced = sum(1 for value in distinct if len(value.split()) > 1)
        is_id, is_text = string_use(present, len(distinct), spaced / max(1, len(distinct)))
    return Column(CATEGORY, levels=levels, is_id=is_id, is_text=is_text)


def string_use(present: int, distinct: float, spaced: float) -> tuple[bool, bool]:
    """Whether strings are identifiers, and whether they are free text.

    ``present`` rows have ``distinct`` different strings, of which a share ``spaced`` has several words.
    """
    if present < FEWEST:
        return False, False
    share = distinct / present
    return share >= ID_SHARE and spaced <= 0.5, share >= TEXT_SHARE and spaced > 0.5


def check_value_type(name: str, value: Any) -> None:
    """Raise for a value of a column that is neither a string nor a number nor a date."""
    if not isinstance(value, (str, bool, np.bool_, int, float, np.number, Decimal, dt.date, dt.time)):
        raise DataTypeError(
            f"column {name!r} holds a value of type {type(value).__name__}: argument must be a string "
            "or a number. Turn it into columns of numbers or strings first."
        )


def _counts_up(parts: list[FloatArray]) -> bool:
    """Whether whole numbers are all different and monotone in each part, as row numbers are."""
    numbers = np.concatenate(parts)
    if len(numbers) < FEWEST or np.isnan(numbers).any():
        return False
    steps = [np.diff(part) for part in parts]
    one_way = all((step > 0).all() for step in steps) or all((step < 0).all() for step in steps)
    return bool(one_way) and len(np.unique(numbers)) == len(numbers)


def hashable(name: str) -> Callable[[Any], Any]:
    """A function that returns its value, and raises for values that cannot be hashed."""

    def check(value: Any) -> Any:
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise DataTypeError(
                f"column {name!r} holds a {type(value).__name__}: argument must be a string or a number. "
                "Turn it into columns of numbers or strings first."
            )
        return value

    return check


def mapped(values: Iterable[Any], read: Callable[[Any], Any], gap: Any = None) -> list[Any]:
    """The result of ``read`` for each value; it is called once for each different value."""
    known: dict[Any, Any] = {}
    found = []
    for value in values:
        try:
            found.append(known[value])
        except KeyError:
            known[value] = gap if is_missing(value) else read(value)
            found.append(known[value])
        except TypeError:  # a value that cannot be hashed is neither a number nor a name
            raise TypeError(f"a value is of type {type(value).__name__}.") from None
    return found


# -- single values -----------------------------------------------------------------------------


def as_number(value: Any) -> float:
    """The number in a value: its own, or that of a string which is a plain number."""
    if isinstance(value, str):
        text = value.strip()
        if not text or text in "+-." or not _PLAIN_NUMBER.fullmatch(text):
            raise ValueError(f"a value is not a number: {value[:40]!r}.")
        return float(text)
    if isinstance(value, (bool, np.bool_, int, float, np.number, Decimal)) and not isinstance(value, complex):
        return float(value)
    raise TypeError(f"a value is of type {type(value).__name__}, not a number.")


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, or a string of digits."""
    if isinstance(value, str):
        return value.strip().lstrip("+-").isdecimal()
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_day(value: Any) -> float:
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


# -- typed columns -----------------------------------------------------------------------------


def is_number_type(dtype: Any) -> bool:
    """Whether a column of this type holds numbers or booleans."""
    return bool(dtype.is_numeric()) or dtype == nw.Boolean


def is_time_type(dtype: Any) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return isinstance(dtype, (nw.Date, nw.Datetime, nw.Duration, nw.Time)) or dtype in (nw.Date, nw.Time)


def is_category_type(dtype: Any) -> bool:
    """Whether a column of this type is declared to be a category."""
    return bool(dtype == nw.Categorical or dtype == nw.Enum)


def numeric(series: nw.Series[Any]) -> FloatArray:
    """Numbers, with NaN for missing values."""
    if series.dtype not in (nw.Float64, nw.Float32):
        series = series.cast(nw.Float64)
    return np.asarray(series.to_numpy(), dtype=np.float64)


def _days(series: nw.Series[Any]) -> FloatArray:
    """Dates in days since 1970-01-01, durations and times of the day in days."""
    if isinstance(series.dtype, nw.Duration):
        microseconds = series.dt.total_microseconds()
    elif series.dtype == nw.Time:
        return np.array(mapped(series.to_list(), _time_of_day, gap=math.nan), dtype=np.float64)
    else:
        microseconds = series.dt.timestamp("us")
    return numeric(microseconds) / (_DAY * 1e6)


def _time_of_day(value: dt.time) -> float:
    return (value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6) / _DAY


def counted(levels: Iterable[str | None]) -> list[tuple[str, int]]:
    """Levels with their numbers of rows, in order of frequency, and by name if equally frequent."""
    return by_frequency(Counter(level for level in levels if level is not None))


def by_frequency(rows: Mapping[str, int]) -> list[tuple[str, int]]:
    """Levels with their numbers of rows, in order of frequency, and by name if equally frequent."""
    return sorted(rows.items(), key=lambda item: (-item[1], item[0]))
