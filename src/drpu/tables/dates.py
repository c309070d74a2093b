"""Dates: which texts and whole numbers are dates, and what later dates share with earlier ones.

A form is how the values of a column are read. Texts that can be read in one way only are of the
form ``"date"``, whatever their order of day, month and year. In 03/04/2026 the order is that of the
other values of the column, and 20260403 is a date if all values of the column are such numbers.

Time itself only grows: no later row has a value that a training row had. The month, the day of the
week and the hour come again, if training had enough of them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._arrays import FloatArray

DATE = "date"
DAY_FIRST = "day-first"
MONTH_FIRST = "month-first"
DIGITS = "digits"
FORMS = (DATE, DAY_FIRST, MONTH_FIRST, DIGITS)

TIME = "time"
MONTH = "month"
WEEKDAY = "weekday"
HOUR = "hour"
PARTS = (TIME, MONTH, WEEKDAY, HOUR)

_MONTHS_OF_YEAR = 12
_DAYS_OF_WEEK = 7
_MILLISECONDS = 86_400_000  # of a day
_HOUR = 3_600_000  # in milliseconds
_THURSDAY = 3  # the weekday of 1970-01-01, counted from Monday
_FIRST_YEAR_OF_TWO_DIGITS = 1969  # 69 is 1969 and 68 is 2068, as in POSIX


# -- texts -----------------------------------------------------------------------------------------

_MONTH_NAMES = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_TIME = r"(?P<hour>\d\d?):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?(?: ?(?P<half>[ap])m)?"
_CLOCK = rf"(?:,?[ T] ?{_TIME})?"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:?\d\d.*)?)?")
_YEAR = r"(?P<year>\d{4}|\d\d)"
_LONG_YEAR = r"(?P<year>\d{4})"
_NAME = r"(?P<name>[a-z]{3,9})\.?"
_DAY = r"(?P<day>\d\d?)"
_MONTH = r"(?P<month>\d\d?)"
_PLAIN_FORMS = (
    rf"{_LONG_YEAR}([-/.]){_MONTH}\2{_DAY}{_CLOCK}",  # 2026/06/30
    rf"{_DAY}\. ?{_MONTH}\. ?{_LONG_YEAR}{_CLOCK}",  # 30.06.2026; 10.11.26 may be a version
    rf"{_DAY}\.?[- /]{_NAME},?[- /]{_YEAR}{_CLOCK}",  # 30. June 2026
    rf"{_NAME} {_DAY}(?:st|nd|rd|th)?,? {_LONG_YEAR}{_CLOCK}",  # June 30, 2026
    rf"{_NAME}[- /]{_YEAR}",  # Jun-26
    rf"{_LONG_YEAR}[-/]{_MONTH}",  # 2026-06
)
_SLASHED_FORMS = {
    DAY_FIRST: rf"{_DAY}([-/]){_MONTH}\2{_YEAR}{_CLOCK}",  # 30/06/2026
    MONTH_FIRST: rf"{_MONTH}([-/]){_DAY}\2{_YEAR}{_CLOCK}",  # 06/30/2026
}
_PLAIN = tuple(re.compile(form, re.IGNORECASE) for form in _PLAIN_FORMS)
_SLASHED = {name: re.compile(form, re.IGNORECASE) for name, form in _SLASHED_FORMS.items()}
_DATE_OF_DIGITS = re.compile(r"(19|20)\d{6}")


def iso_moment(text: str) -> dt.datetime:
    """The moment in a text such as 2026-06-30 or 2026-06-30T12:00+02:00."""
    if not _ISO_DATE.fullmatch(text):
        raise ValueError(f"a value is not a date as in 2026-06-30: {text[:40]!r}.")
    return dt.datetime.fromisoformat(text)


def moment(text: str, form: str = DATE) -> dt.datetime:
    """The moment in a text of a form; a month is its first day."""
    if _ISO_DATE.fullmatch(text):
        return dt.datetime.fromisoformat(text)
    patterns = _PLAIN
    if form in _SLASHED:
        patterns = (_SLASHED[form], *_PLAIN)
    for pattern in patterns:
        match = pattern.fullmatch(text)
        if match is not None:
            return _moment_of(match.groupdict())
    raise ValueError(f"a value is not a date as in 2026-06-30: {text[:40]!r}.")


def moment_of_digits(text: str) -> dt.datetime:
    """The moment in eight digits, such as 20260630."""
    if not _DATE_OF_DIGITS.fullmatch(text):
        raise ValueError(f"a value is not a date as in 20260630: {text[:40]!r}.")
    return dt.datetime(int(text[:4]), int(text[4:6]), int(text[6:]))


def _moment_of(fields: Mapping[str, str | None]) -> dt.datetime:
    """The moment of the named groups of a match; raises ``ValueError`` if there is none."""
    year = int(fields["year"] or 0)
    if year < 100:
        year += 1900
        if year < _FIRST_YEAR_OF_TWO_DIGITS:
            year += 100
    name = fields.get("name")
    month = int(fields.get("month") or 0)
    if name is not None:
        month = _month_number(name.lower())
    return dt.datetime(year, month, int(fields.get("day") or 1), *_clock(fields))


def _month_number(name: str) -> int:
    """The number of an English month, or of its first letters; raises ``ValueError``."""
    for number, month in enumerate(_MONTH_NAMES, start=1):
        if name == month or (name == "sept" and number == 9) or name == month[:3]:
            return number
    raise ValueError(f"{name!r} is no month.")


def _clock(fields: Mapping[str, str | None]) -> tuple[int, int, int]:
    hour = int(fields.get("hour") or 0)
    half = fields.get("half")
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(f"there is no hour {hour} before or after noon.")
        hour = hour % 12
        if half.lower() == "p":
            hour += 12
    return hour, int(fields.get("minute") or 0), int(fields.get("second") or 0)


# -- what a table covers ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Covered:
    """What the dates of a column cover; that of parts of a column is added.

    ``months`` and ``days`` are the first different ones, one more than a year and a week have.
    """

    months: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    clocks: bool = False  # whether any date has a time of the day other than midnight
    months_only: bool = True  # whether all dates are the first day of a month

    @classmethod
    def by(cls, days: FloatArray) -> Covered:
        """What some dates cover, as days since 1970-01-01; missing ones count for nothing."""
        days = np.unique(days[np.isfinite(days)])
        milliseconds = _whole_milliseconds(days)
        whole_days = np.floor(milliseconds / _MILLISECONDS)
        return cls(
            _first_of(months_since_1970(whole_days), _MONTHS_OF_YEAR),
            _first_of(whole_days, _DAYS_OF_WEEK),
            bool((milliseconds != whole_days * _MILLISECONDS).any()),
            bool((_day_of_month(whole_days) == 1).all()),
        )

    def __add__(self, other: Covered) -> Covered:
        return Covered(
            _first_of(self.months | other.months, _MONTHS_OF_YEAR),
            _first_of(self.days | other.days, _DAYS_OF_WEEK),
            self.clocks or other.clocks,
            self.months_only and other.months_only,
        )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of which later dates have the values that these dates have."""
        parts = []
        if len(self.months) > _MONTHS_OF_YEAR:
            parts.append(MONTH)
        if len(self.days) > _DAYS_OF_WEEK and not self.months_only:
            parts.append(WEEKDAY)
        if len(self.days) > 1 and self.clocks:
            parts.append(HOUR)
        return tuple(parts)


def _first_of(values: Iterable[Any], most: int) -> frozenset[int]:
    """The smallest different values, one more than ``most`` of them."""
    different = sorted({int(value) for value in values})
    return frozenset(different[: most + 1])


def _whole_milliseconds(days: FloatArray) -> FloatArray:
    return np.floor(days * _MILLISECONDS + 0.5)


# -- parts -----------------------------------------------------------------------------------------


def part_of(name: str, days: FloatArray) -> FloatArray:
    """A part of dates that are days since 1970-01-01: the month from 1, the weekday from Monday."""
    if name == TIME:
        return days
    milliseconds = _whole_milliseconds(days)
    whole_days = np.floor(milliseconds / _MILLISECONDS)
    if name == MONTH:
        month: FloatArray = months_since_1970(whole_days) % _MONTHS_OF_YEAR + 1
        return month
    if name == WEEKDAY:
        weekday: FloatArray = (whole_days + _THURSDAY) % _DAYS_OF_WEEK
        return weekday
    hour: FloatArray = np.floor((milliseconds - whole_days * _MILLISECONDS) / _HOUR)
    return hour


# In the calendar that starts on 1 March of the year 0, the leap day is the last day of a year. An
# era of 400 years has 146,097 days, and the days before a month are (153 m + 2) // 5.
_DAYS_TO_1970 = 719_468
_ERA = 146_097
_MARCH = 2  # months of a year before it starts


def months_since_1970(whole_days: FloatArray) -> FloatArray:
    """Whole months from 1970-01 to the month of each day, which counts from 1970-01-01."""
    year, month, _ = _march_calendar(whole_days)
    return (year - 1970) * _MONTHS_OF_YEAR + month + _MARCH


def _day_of_month(whole_days: FloatArray) -> FloatArray:
    _, _, day = _march_calendar(whole_days)
    return day


def _march_calendar(whole_days: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Year and month of the calendar that starts on 1 March, and the day of the month from 1."""
    days = whole_days + _DAYS_TO_1970
    era = np.floor(days / _ERA)
    day_of_era = days - era * _ERA
    leap_days = np.floor(day_of_era / 1460) - np.floor(day_of_era / 36_524)
    leap_days += np.floor(day_of_era / 146_096)
    year_of_era = np.floor((day_of_era - leap_days) / 365)
    day_of_year = day_of_era - _days_before(year_of_era)
    month = np.floor((5 * day_of_year + 2) / 153)
    day = day_of_year - np.floor((153 * month + 2) / 5) + 1
    return year_of_era + era * 400, month, day


def _days_before(year_of_era: FloatArray) -> FloatArray:
    return 365 * year_of_era + np.floor(year_of_era / 4) - np.floor(year_of_era / 100)


# -- parts in an ONNX graph ------------------------------------------------------------------------


def onnx_part(graph: Any, name: str, days: str) -> str:
    """The same part of dates in a graph."""
    if name == TIME:
        return days
    op = graph.op

    def floor_of(x: str, divisor: float) -> str:
        return str(op("Floor", op("Div", x, divisor)))

    milliseconds = op("Floor", op("Add", op("Mul", days, float(_MILLISECONDS)), 0.5))
    whole_days = floor_of(milliseconds, float(_MILLISECONDS))
    if name == HOUR:
        rest = op("Sub", milliseconds, op("Mul", whole_days, float(_MILLISECONDS)))
        return floor_of(rest, float(_HOUR))
    if name == WEEKDAY:
        shifted = op("Add", whole_days, float(_THURSDAY))
        weeks = op("Mul", floor_of(shifted, float(_DAYS_OF_WEEK)), float(_DAYS_OF_WEEK))
        return str(op("Sub", shifted, weeks))
    return _onnx_month(op, floor_of, whole_days)


def _onnx_month(op: Any, floor_of: Callable[[str, float], str], whole_days: str) -> str:
    days = op("Add", whole_days, float(_DAYS_TO_1970))
    era = floor_of(days, float(_ERA))
    day_of_era = op("Sub", days, op("Mul", era, float(_ERA)))
    without_leap_days = op("Sub", day_of_era, floor_of(day_of_era, 1460.0))
    without_leap_days = op("Add", without_leap_days, floor_of(day_of_era, 36_524.0))
    without_leap_days = op("Sub", without_leap_days, floor_of(day_of_era, 146_096.0))
    year = floor_of(without_leap_days, 365.0)
    day_of_year = op("Sub", day_of_era, op("Mul", year, 365.0))
    day_of_year = op("Sub", day_of_year, floor_of(year, 4.0))
    day_of_year = op("Add", day_of_year, floor_of(year, 100.0))
    month = floor_of(op("Add", op("Mul", day_of_year, 5.0), 2.0), 153.0)
    from_january = op("Add", month, float(_MARCH))
    years = floor_of(from_january, float(_MONTHS_OF_YEAR))
    within_year = op("Sub", from_january, op("Mul", years, float(_MONTHS_OF_YEAR)))
    return str(op("Add", within_year, 1.0))
