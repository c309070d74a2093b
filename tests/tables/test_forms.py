"""The same row is encoded alike in every library and file, whatever the other rows are."""

import datetime as dt
import io
from itertools import pairwise, product

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from pyarrow import csv, parquet

from drpu.exceptions import DataTypeError, DRPUError
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.values import NULL_WORDS, is_missing, is_missing_cell

DAYS = [dt.date(2026, 1, 1), dt.date(2026, 2, 28), dt.date(1969, 12, 31)]
MOMENTS = [dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 31, 23, 59, 59, 999_999), dt.datetime(1960, 3, 1, 7)]
POOLS = {
    "amounts": [0.0, -1.5, 2.0, 1e-7, 3.25e14],
    "counts": [0, 1, 2, -5, 10**15],
    "flags": [True, False],
    "answers": ["true", "false", "unknown"],
    "truths": ["true", "false"],
    "versions": ["1.0", "1.10", "1.1", "2.1-beta"],
    "countries": ["NA", "ZA", "DE", "null"],
    "codes": ["007", "12", "3.50"],
    "words": ["yes", "no", "a b", "é", "=1", "#N/A"],
    "texts of numbers": ["1", "2.50", "-3e2", "NA"],
    "texts of dates": ["2026-06-30", "2026-07-01T12:00:00.25", "n/a"],
    "days": DAYS,
    "moments": MOMENTS,
    "times": [dt.time(0, 0), dt.time(12, 30), dt.time(23, 59, 59)],
}
TYPES = {
    "amounts": pa.float64(), "counts": pa.int64(), "flags": pa.bool_(), "days": pa.date32(),
    "moments": pa.timestamp("us"), "times": pa.time64("us"),
}  # fmt: skip


def table(pools, rows):
    """An Arrow table of one column for each pool; None is a missing value."""
    found = {"other": pa.array([0.5] * len(rows))}  # an empty line of a CSV file is no row
    for k, name in enumerate(pools):
        values = [None if row[k] is None else POOLS[name][row[k] % len(POOLS[name])] for row in rows]
        found[name] = pa.array(values, TYPES.get(name, pa.string()))
    return pa.table(found)


def from_csv(arrow, encoder=None):
    """The table after it was written as CSV and read again, by the kinds of training if there are any."""
    buffer = io.BytesIO()
    csv.write_csv(arrow, buffer)
    # At fit, types are guessed, except that a reader finds digits with leading zeros.
    texts = dict.fromkeys(["codes"] if encoder is None else encoder.text_columns, pa.string())
    options = csv.ConvertOptions(column_types=texts, null_values=["", *NULL_WORDS], strings_can_be_null=False)
    return csv.read_csv(io.BytesIO(buffer.getvalue()), convert_options=options)


def from_parquet(arrow, encoder=None):
    buffer = io.BytesIO()
    parquet.write_table(arrow, buffer)
    return parquet.read_table(io.BytesIO(buffer.getvalue()))


FORMS = {
    "pandas": lambda arrow, _=None: arrow.to_pandas(),
    "pandas types": lambda arrow, _=None: arrow.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda arrow, _=None: pd.DataFrame(arrow.to_pydict(), dtype=object),
    "polars": lambda arrow, _=None: pl.from_arrow(arrow),
    "parquet": from_parquet,
    "csv": from_csv,
}
pools = st.lists(st.sampled_from(sorted(POOLS)), min_size=1, max_size=4, unique=True)


@st.composite
def tables(draw):
    """Names of pools, and rows: positions in the pools."""
    names = draw(pools)
    cell = st.one_of(st.none(), st.integers(0, 5))
    row = st.tuples(*[cell] * len(names))
    return names, draw(st.lists(row, min_size=3, max_size=6)) * draw(st.integers(2, 8))


def encode(encoder, frame):
    """Encoded rows, or the type of error."""
    try:
        return encoder.transform(read_frame(frame), warn=False)
    except DRPUError as error:
        return type(error)


@settings(max_examples=50, deadline=None)
@given(data=tables(), cuts=st.lists(st.integers(0, 48), max_size=3), seed=st.integers(0, 99))
def test_later_rows_are_encoded_alike_in_any_form_order_and_division(data, cuts, seed):
    names, rows = data
    arrow = table(names, rows)
    encoder, whole = TableEncoder.fit([read_frame(arrow)])
    order = np.random.default_rng(seed).permutation(len(rows))
    ends = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for form in FORMS.values():
        for low, high in pairwise(ends):
            part = arrow.take(pa.array(order[low:high]))
            assert_array_equal(encode(encoder, form(part, encoder)), whole[order[low:high]])


@settings(max_examples=50, deadline=None)
@given(data=tables(), seed=st.integers(0, 99))
def test_tables_are_learnt_alike_in_any_form_and_order(data, seed):
    names, rows = data
    arrow = table(names, rows)
    assume(all(column.null_count < len(rows) for column in arrow.columns))  # or its type is lost in text
    encoder, whole = TableEncoder.fit([read_frame(arrow)])
    order = np.random.default_rng(seed).permutation(len(rows))
    for form in FORMS.values():
        own, found = TableEncoder.fit([read_frame(form(arrow.take(pa.array(order))))])
        assert own == encoder
        assert_array_equal(found, whole[order])


BIG = 2**60 + 1
NUMBERS = {
    "float64": [1.5, None, 0.1], "float32": [1.5, None, 0.1], "Float64": [1.5, None, 0.1],
    "double[pyarrow]": [1.5, None, 0.1], "int64": [BIG, -BIG, 3], "Int64": [BIG, None, 3],
    "int8": [1, -2, 3], "bool": [True, False, True],
}  # fmt: skip


@pytest.mark.parametrize("form", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_numbers_are_the_same_read_together_and_one_by_one(form):
    for kinds in product(NUMBERS, repeat=2):
        columns = {str(k): pd.array(NUMBERS[kind], dtype=kind) for k, kind in enumerate(kinds)}
        frame = pd.DataFrame(columns)
        encoder, _ = TableEncoder.fit([read_frame(form(frame))])
        together = encoder.transform(read_frame(form(frame)))
        many = frame.iloc[np.arange(1003) % 3].reset_index(drop=True)  # read column by column
        alone = encoder.transform(read_frame(form(many)))[:3]
        assert together.dtype == alone.dtype
        assert_array_equal(together, alone)


# -- single rules ----------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[1, True, "x"], [True, 1, "x"], ["x", 1.0, True]])
def test_one_and_true_are_different_levels_in_any_order(values):
    frame = pd.DataFrame({"x": pd.Series(values * 20, dtype=object)})
    encoder = TableEncoder.fit([read_frame(frame)])[0]
    assert sorted(encoder.used[0].levels) == ["1", "True", "x"]
    later = pd.DataFrame({"x": pd.Series([True, 1, "true", "1.0", 1.0], dtype=object)})
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0]):
        found = dict(zip(order, encoder.transform(read_frame(later.iloc[order]))[:, 0], strict=True))
        assert found[0] == found[2] != found[1] == found[3] == found[4]


def category(levels):
    return TableEncoder.fit([read_frame(pd.DataFrame({"x": levels * 20, "other": 0.0}))])[0]


def codes(encoder, values):
    return encoder.transform(read_frame(pd.DataFrame({"x": values, "other": 0.0})))[:, 0].tolist()


def test_spellings_of_a_number_a_truth_value_or_a_day_find_its_level():
    versions = category(["1.0", "2.50", "x"])
    assert codes(versions, ["1.0", "2.50"]) == codes(versions, [1.0, 2.5]) == codes(versions, ["1", "2.5"])
    assert 1 not in codes(versions, [1.0, 2.5])  # the code of unseen levels
    answers = category(["true", "false", "unknown"])
    assert codes(answers, ["true", "false"]) == codes(answers, [True, False])
    days = category(["2026-01-01", "never"])
    assert codes(days, ["2026-01-01"]) == codes(days, [dt.date(2026, 1, 1)]) == codes(days, [MOMENTS[0]])


def test_a_number_that_training_had_in_two_spellings_is_refused():
    versions = category(["1.1", "1.10", "2.0-beta"])
    assert len(set(codes(versions, ["1.1", "1.10", "1.100"]))) == 3
    with pytest.raises(DataTypeError, match=r"'1\.1' and '1\.10'.*read the column as text"):
        codes(versions, [1.1])


def test_strings_of_spaces_are_missing_in_tables_only():
    gaps = [None, np.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT", "D")]
    others = [0, False, "", " ", "nan", np.array([1.0]), object()]
    assert all(map(is_missing, gaps))
    assert not any(map(is_missing, others))
    assert [is_missing_cell(value) for value in others] == [False, False, True, True, False, False, False]
