"""Of dates, what later rows share with those of training is used; time itself only on request."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from codec_laws import check_kept
from drpu.tables.dates import Covered, moment, part_of
from drpu.tables.encoder import Keep, TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.notes import table_notes
from drpu.tables.values import by_month

N = 400
MOMENTS = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))


def fit(frame, **kept):
    return TableEncoder.fit([read_frame(frame)], keep=Keep(**kept))


def stamps(start, days, n=N, seed=0, hours=0):
    rng = np.random.default_rng(seed)
    dates = pd.Timestamp(start) + pd.to_timedelta(rng.integers(0, days, n), unit="D")
    return dates + pd.to_timedelta(rng.integers(0, hours + 1, n), unit="h")


def with_x(**columns):
    return pd.DataFrame(columns).assign(x=np.arange(N) / N)


# -- parts -----------------------------------------------------------------------------------------


@given(MOMENTS)
def test_parts_are_those_of_the_calendar(when):
    days = np.array([(when - dt.datetime(1970, 1, 1)) / dt.timedelta(days=1)])
    rounded = when + dt.timedelta(microseconds=500)  # parts are exact to a millisecond
    assert part_of("time", days) == days
    assert part_of("month", days) == rounded.month
    assert part_of("weekday", days) == rounded.weekday()
    assert part_of("hour", days) == rounded.hour


def test_a_missing_date_has_missing_parts():
    for part in ("time", "month", "weekday", "hour"):
        assert np.isnan(part_of(part, np.array([np.nan]))).all()


@pytest.mark.parametrize(
    ("days", "hours", "parts"),
    [
        (500, 23, ("month", "weekday", "hour")),
        (300, 23, ("weekday", "hour")),
        (90, 0, ("weekday",)),
        (6, 23, ("hour",)),
        (6, 0, ()),
    ],
)
def test_a_part_is_used_if_the_table_has_more_than_one_round_of_it(days, hours, parts):
    encoder, rows = fit(with_x(day=stamps("2025-02-03", days, hours=hours)))
    assert encoder.columns[0].parts == parts
    assert rows.shape == (N, len(parts) + 1)
    check_kept(encoder)


def test_later_rows_have_the_parts_of_earlier_ones():
    encoder, rows = fit(with_x(day=stamps("2024-01-01", 500, hours=23)))
    later = encoder.transform(read_frame(with_x(day=stamps("2027-01-01", 500, seed=1, hours=23))))
    for earlier_part, later_part in zip(rows.T[:3], later.T[:3], strict=True):
        assert set(later_part) <= set(earlier_part)


def test_time_is_used_on_request_only():
    frame = with_x(day=stamps("2026-01-01", 90))
    days = (frame["day"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    for kept in (True, ("day",)):
        encoder, rows = fit(frame, time=kept)
        assert encoder.columns[0].parts == ("time", "weekday")
        assert_array_equal(rows[:, 0], days)
    encoder, rows = fit(frame)
    (note,) = [note for note in table_notes(*np.split(rows, 2), encoder) if note.column == "day"]
    assert (note.code, note.column, note.detail) == ("dates", "day", "weekday")
    assert "keep_time" in note.text()
    assert "--keep-time day" in note.text(command_line=True)


def test_dates_without_a_part_are_not_used_and_may_be_absent():
    frame = with_x(day=stamps("2026-01-01", 5))
    encoder, rows = fit(frame)
    assert encoder.left_out == ("day",)
    assert_array_equal(encoder.transform(read_frame(frame.drop(columns="day"))), rows)
    only_dates, rows = fit(frame[["day"]])  # something has to be used
    assert only_dates.columns[0].parts == ("time",)


def test_days_between_the_dates_of_a_row_are_used():
    opened = stamps("2026-01-01", 5)
    waited = np.random.default_rng(1).integers(0, 40, N)
    frame = with_x(opened=opened, closed=opened + pd.to_timedelta(waited, unit="D"))
    encoder, rows = fit(frame)
    opened_column, closed_column, _ = encoder.columns
    assert opened_column.width == 0
    assert closed_column.since == ("opened",)
    assert encoder.left_out == ()  # the date that is subtracted is needed
    assert_array_equal(rows[:, -2], waited)
    assert closed_column.detail == "weekday and days since 'opened'"
    shuffled = frame[["x", "closed", "opened"]]
    assert_array_equal(encoder.transform(read_frame(shuffled)), rows)
    unnamed = frame.set_axis(range(3), axis=1)
    assert_array_equal(TableEncoder.fit([read_frame(unnamed)])[1], rows)


def test_parts_of_a_table_cover_what_the_table_covers():
    days = np.arange(500.0) + 0.25
    whole = Covered.by(days)
    assert whole == Covered.by(days[::3]) + Covered.by(days[1::3]) + Covered.by(days[2::3])
    assert whole.parts == ("month", "weekday", "hour")
    assert Covered.by(days[:100]).parts == ("weekday", "hour")


# -- texts -----------------------------------------------------------------------------------------

FORMATS = [
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%d.%m.%Y",
    "%b %d, %Y",
    "%B %d %Y",
    "%d. %B %Y",
    "%d-%b-%y",
    "%Y%m%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m/%d/%y",
]


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_of_dates_gives_the_same_rows(form):
    days = stamps("2023-01-01", 700)
    texts = days.strftime(form)
    expected = fit(with_x(day=days), time=True)[1]
    encoder, rows = fit(with_x(day=texts), time=True)
    assert_array_equal(rows, expected)
    check_kept(encoder)
    assert_array_equal(by_month(texts.to_numpy()), days.strftime("%Y-%m").to_numpy())
    first = with_x(day=texts).head(1)  # one row is read as the column was in training
    assert_array_equal(encoder.transform(read_frame(first)), expected[:1])


def test_numbers_of_eight_digits_are_dates_if_all_are():
    days = stamps("2023-01-01", 700)
    digits = days.strftime("%Y%m%d").astype(int)
    expected = fit(with_x(day=days))[1]
    encoder, rows = fit(with_x(day=digits))
    assert_array_equal(rows, expected)
    with_a_gap = pd.DataFrame({"day": [float(digits[0]), np.nan], "x": 0.0})  # pandas makes floats
    assert encoder.transform(read_frame(with_a_gap))[0, 0] == expected[0, 0]
    others = with_x(day=np.append(digits[1:], 20231301))
    assert fit(others)[0].columns[0].kind == "number"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nov 16, 2004", (2004, 11, 16)),
        ("Sept. 3rd, 2020 4:05 pm", (2020, 9, 3, 16, 5)),
        ("2026/3/1 12:30:05", (2026, 3, 1, 12, 30, 5)),
        ("1 Jul 99", (1999, 7, 1)),
        ("January 2023", (2023, 1, 1)),
        ("12:30 AM", None),
        ("10.11.06", None),  # a version, perhaps
        ("Nob 16, 2004", None),
        ("31. June 2023", None),
        ("2023-13", None),
        ("12", None),
        ("", None),
    ],
)
def test_a_text_is_a_date_or_is_refused(text, expected):
    if expected is None:
        with pytest.raises(ValueError):
            moment(text)
    else:
        assert moment(text) == dt.datetime(*expected)


def test_months_are_dates_without_weekdays():
    texts = stamps("2024-01-01", 700).strftime("%b-%y")
    assert fit(with_x(month=texts))[0].columns[0].parts == ("month",)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["Jan-23", None, "Feb-23"], ["2023-01", None, "2023-02"]),
        (["2026Q1", "2026Q2"], ["2026Q1", "2026Q2"]),
        (["01/02/2026", "02/03/2026"], ["01/02/2026", "02/03/2026"]),  # which is the month?
        ([3, 4], [3, 4]),
    ],
)
def test_only_dates_are_grouped_by_month(values, expected):
    dtypes = [object] if None in values else [object, None]
    for dtype in dtypes:
        assert by_month(np.array(values, dtype=dtype)).tolist() == expected
