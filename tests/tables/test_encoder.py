"""Tables become numbers by stated rules, the same in every library."""

import json
import warnings
from dataclasses import dataclass, fields
from functools import reduce
from itertools import pairwise
from operator import add
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from tables_data import CONTAINERS, IDENTIFIERS, KINDS, N, claims

from codec_laws import check_kept
from drpu._codec import decode, encode, kept
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    IdColumnWarning,
    ParameterError,
    UnreadableValuesWarning,
    UnseenLevelsWarning,
)
from drpu.tables.columns import Column
from drpu.tables.encoder import COLUMN_TYPES, Indicators, Keep, TableEncoder, fixed_cells
from drpu.tables.frames import is_frame, read_frame, stack_frames, take_frame
from drpu.tables.notes import table_notes
from drpu.tables.summaries import TableSummary, summarize

MISSING, OTHER, FIRST = 0, 1, 2  # codes: of a gap, of rare and unseen levels, of the most frequent level


def fit(frame, **kept):
    return TableEncoder.fit([read_frame(frame)], keep=Keep(**kept))


@pytest.fixture(scope="module")
def encoder():
    with pytest.warns(IdColumnWarning, match="'claim'"):
        return fit(claims())[0]


def test_each_column_gets_the_kind_that_its_values_have(encoder):
    kinds = {plan.name: plan.kind for plan in encoder.columns}
    assert kinds == {
        "claim": "left out",
        "amount": "number",
        "ward": "category",
        "urgent": "number",
        "day": "date",
        "rooms": "number",
    }
    assert encoder.categories == (1,)
    assert encoder.left_out == ("claim",)


def test_levels_are_coded_by_frequency_and_gaps_have_a_code_of_their_own(encoder):
    frame = claims()
    codes = encoder.transform(read_frame(frame))[:, 1]
    order = frame["ward"].value_counts()
    assert [order[level] for level in encoder.used[1].levels] == sorted(order, reverse=True)
    for position, level in enumerate(encoder.used[1].levels):
        assert_array_equal(codes == FIRST + position, frame["ward"] == level)
    assert_array_equal(codes == MISSING, frame["ward"].isna())


def test_dates_are_days_since_1970():
    days = ["1970-01-02", "1970-01-01T12:00", "1969-12-31 00:00:00", None]
    zoned = ["1970-01-02 00:00Z", "1970-01-01T14:00+02:00", "1969-12-31 00:00:00+00:00", None]
    expected = [1.0, 0.5, -1.0, np.nan]
    for texts in (days, zoned):
        assert_array_equal(fit(pd.DataFrame({"day": texts, "x": 0.0}), time=True)[1][:, 0], expected)
    stamps = pd.to_datetime(pd.Series(days), format="ISO8601", utc=True)
    for column in (stamps, stamps.dt.tz_convert("Asia/Tokyo"), stamps.astype(object)):
        assert_array_equal(fit(pd.DataFrame({"day": column, "x": 0.0}), time=True)[1][:, 0], expected)
    spans = pd.DataFrame({"span": pd.to_timedelta([1.5, None], unit="D"), "x": 0.0})
    assert_array_equal(fit(spans)[1][:, 0], [1.5, np.nan])


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_table_means_the_same_in_every_library(encoder, container):
    with pytest.warns(IdColumnWarning):
        own, rows = fit(container(claims()))
    assert own == encoder
    assert_array_equal(rows, encoder.transform(read_frame(claims())))
    assert_array_equal(
        encoder.transform(read_frame(container(claims(60, 1)))), own.transform(read_frame(claims(60, 1)))
    )


def test_rare_and_unseen_levels_share_a_code():
    values = ["a"] * 30 + ["b"] * 5 + ["c"] * 4
    encoder, rows = fit(pd.DataFrame({"x": values}))
    assert encoder.used[0].levels == ("a", "b")
    assert set(rows[35:, 0]) == {OTHER}
    assert encoder.transform(read_frame(pd.DataFrame({"x": ["new", "c", "b", " "]})))[:, 0].tolist() == [
        1,
        1,
        3,
        0,
    ]


def test_a_column_keeps_at_most_255_levels():
    values = [f"level{i % 400}" for i in range(4000)]
    encoder, rows = fit(pd.DataFrame({"x": values}))
    assert len(encoder.used[0].levels) == 255
    assert rows.max() == FIRST + 254


def test_many_unseen_levels_are_warned_of():
    encoder, _ = fit(pd.DataFrame({"sex": ["m", "f"] * 50}))
    with pytest.warns(UnseenLevelsWarning, match=r"'sex' \(100%\)"):
        encoder.transform(read_frame(pd.DataFrame({"sex": ["male", "female"] * 50})))


def test_levels_are_the_same_whatever_type_they_come_in():
    encoder, _ = fit(pd.DataFrame({"x": pd.Categorical([1, 2] * 20)}))
    for values in ([1, 2], [1.0, 2.0], ["1", "2"], pd.Categorical([1, 2]), pd.array([1, 2], dtype="Int64")):
        assert encoder.transform(read_frame(pd.DataFrame({"x": values})))[:, 0].tolist() == [FIRST, FIRST + 1]


@pytest.mark.parametrize(("values", "kind"), KINDS)
def test_the_kind_of_strings_and_objects_follows_from_all_values(values, kind):
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object), "other": 0.0})
    encoder, rows = fit(frame, time=True)
    assert encoder.columns[0].kind == kind
    assert rows.shape == (len(values), 2)


# -- identifiers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("values", "left_out"), IDENTIFIERS)
def test_a_column_is_an_identifier_by_its_values(values, left_out):
    frame = pd.DataFrame({"x": values, "other": 0.0})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder, rows = fit(frame)
    assert encoder.left_out == (("x",) if left_out else ())
    assert len(caught) == left_out
    assert rows.shape[1] == 2 - left_out


@pytest.mark.parametrize("seed", range(5))
def test_amounts_with_few_repeats_are_no_identifiers(seed):
    rng = np.random.default_rng(seed)
    n = 3000
    amounts = {
        "income": rng.lognormal(10.5, 0.7, n),
        "population": rng.lognormal(10, 1.5, n),
        "price": rng.gamma(4, 80_000, n),
        "meters": rng.uniform(0, 1e7, n),
        "born": rng.normal(0, 1e5, n),
    }
    frame = pd.DataFrame({name: values.astype(int) for name, values in amounts.items()})
    assert (frame.nunique() > 0.95 * n).any()
    encoder, _ = fit(frame)
    assert encoder.left_out == ()


def test_numbers_that_repeat_too_rarely_are_identifiers_and_can_be_kept():
    rng = np.random.default_rng(0)
    n = 14_000
    numbers = 10**6 + rng.choice(9 * 10**6, n, replace=False)  # seven digits, in no order
    frame = pd.DataFrame({"client": numbers, "x": rng.normal(size=n)})
    with pytest.warns(IdColumnWarning, match="'client'.*keep_ids"):
        encoder, rows = fit(frame)
    assert encoder.left_out == ("client",)
    assert rows.shape == (n, 1)
    for names in (True, ("client",)):
        assert fit(frame, ids=names)[0].left_out == ()
    few = frame.head(500)  # so few numbers may all differ by chance: the name decides
    assert fit(few)[0].left_out == ()
    for name in ("id", "client_id", "ClientID", "case no."):
        with pytest.warns(IdColumnWarning):
            assert fit(few.rename(columns={"client": name}))[0].left_out == (name,)


def test_numbers_with_decimals_are_never_identifiers():
    frame = pd.DataFrame({"id": np.arange(1000) + 0.5, "x": 0.0})
    assert fit(frame)[0].left_out == ()


def test_parts_of_a_table_find_the_identifiers_of_the_whole():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"client": rng.permutation(30_000), "x": rng.integers(0, 9, 30_000)})
    parts = [TableSummary.of(read_frame(frame[k::7]), (k,)) for k in range(7)]
    with pytest.warns(IdColumnWarning):
        assert TableEncoder.of_summaries(reduce(add, parts).columns).left_out == ("client",)


@pytest.mark.parametrize("names", [{"time": ("x",)}, {"time": ("absent",)}, {"ids": ("absent",)}])
def test_columns_to_keep_must_be_there(names):
    with pytest.raises(ParameterError, match=r"must be True, False or names of columns of .*, got '"):
        fit(pd.DataFrame({"day": pd.Timestamp("2026-01-01"), "x": np.arange(30.0)}), **names)


def test_the_last_column_is_never_left_out():
    frame = pd.DataFrame({"a": range(40), "b": [f"u{i}" for i in range(40)]})
    with pytest.warns(IdColumnWarning, match="'a'") as caught:
        encoder, rows = fit(frame)
    assert len(caught) == 1
    assert encoder.left_out == ("a",)
    assert set(rows[:, 0]) == {OTHER}


def test_identifiers_that_count_up_in_both_samples_are_found():
    parts = [read_frame(pd.DataFrame({"id": range(a, b), "x": 0.0})) for a, b in ((500, 540), (0, 300))]
    with pytest.warns(IdColumnWarning):
        encoder, rows = TableEncoder.fit(parts)
    assert encoder.left_out == ("id",)
    assert len(rows) == 340


# -- tables that cannot be read --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [([{"a": 1}, 2], "dict"), ([[1], [2]], "list"), ([object(), 1], "object"), ([1j, 2], "complex")],
)
def test_values_of_other_types_are_refused_by_name(values, message):
    with pytest.raises(DataTypeError, match=rf"'x'.*{message}.*argument must be a string or a number"):
        fit(pd.DataFrame({"x": pd.Series(values, dtype=object)}))


def test_a_column_must_keep_its_kind(encoder):
    frame = claims(30, 6)
    with pytest.raises(
        DataError, match="'amount' had numbers in training; here a value is not a number: 'x'"
    ):
        encoder.transform(read_frame(frame.assign(amount="x")))
    with pytest.raises(DataTypeError, match="'day' had dates"):
        encoder.transform(read_frame(frame.assign(day=1.0)))
    with pytest.raises(DataTypeError, match="'ward' holds a list"):
        encoder.transform(read_frame(frame.assign(ward=[[1]] * 30)))


@pytest.mark.parametrize(("name", "text"), [("rooms", ">3"), ("day", "30 Jone")])
def test_a_few_texts_among_numbers_and_dates_are_missing(encoder, name, text):
    frame = claims(100, 6)
    expected = encoder.transform(read_frame(frame))
    odd = frame.assign(**{name: frame[name].astype(str)})
    odd.loc[[7, 20], name] = text
    with pytest.warns(UnreadableValuesWarning, match=rf"'{name}' had .* 2 of 100 rows .* missing: '{text}'"):
        rows = encoder.transform(read_frame(odd))
    column = [column.name for column in encoder.encoded].index(name)
    assert np.isnan(rows[[7, 20], column]).all()
    expected[[7, 20], column] = np.nan
    assert_array_equal(rows, expected)
    odd.loc[:5, name] = text
    with pytest.raises(DataError, match=r"This is so in 8% of the rows, .* or fit again"):
        encoder.transform(read_frame(odd))


def test_names_of_both_kinds_and_names_twice_are_refused():
    with pytest.raises(DataError, match="must all be strings"):
        read_frame(pd.DataFrame([[1, 2]], columns=["a", 1]))
    with pytest.raises(DataError, match="unique"):
        read_frame(pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_frames_without_names_count_by_position():
    encoder, _ = fit(pd.DataFrame([["a", 1.0], ["b", 2.0]] * 10))
    assert not encoder.named
    assert encoder.transform(read_frame(pd.DataFrame([["a", 1.0]], columns=[5, 6]))).tolist() == [
        [FIRST, 1.0]
    ]
    with pytest.raises(DataError, match="3 unnamed features, but training had 2"):
        encoder.transform(read_frame(pd.DataFrame([["a", 1.0, 2.0]])))


def test_arrays_and_sparse_frames_are_no_tables():
    assert not is_frame(np.zeros((2, 2)))
    assert not is_frame([[1, 2]])
    assert not is_frame(pd.DataFrame.sparse.from_spmatrix(sparse.eye(3)))


@pytest.mark.parametrize("container", [lambda frame: frame, *CONTAINERS[:-1]])
def test_rows_are_taken_and_stacked_in_their_own_library(container):
    frame = container(claims())
    parts = [take_frame(frame, np.arange(N) < 50), take_frame(frame, np.arange(50, N))]
    again = stack_frames(parts)
    assert type(again) is type(frame)
    with pytest.warns(IdColumnWarning):
        assert_array_equal(fit(again)[1], fit(frame)[1])


def test_single_precision_is_kept():
    assert fit(pd.DataFrame({"a": np.ones(3, np.float32)}))[1].dtype == np.float32
    assert fit(pd.DataFrame({"a": np.ones(3, np.float32), "b": 1.0}))[1].dtype == np.float64


# -- state ---------------------------------------------------------------------------------------


def again_from(encoder, **fields):
    """The encoder after it was written and read, with other fields in the file."""
    tree, arrays, blobs = encode(encoder)
    tree = json.loads(json.dumps(tree))
    tree["fields"] |= fields
    return decode(tree, arrays, blobs, TableEncoder)


def test_the_encoder_is_plain_data(encoder):
    check_kept(encoder)
    assert again_from(encoder).kept_values() == {"ward": 3}


@kept("test-percent-column")
@dataclass(frozen=True)
class PercentColumn(Column):
    """Shares written as "12 %"."""

    kind: ClassVar[str] = "percent"

    @classmethod
    def learn(cls, name, summary):
        percents = [level.endswith(" %") for level in summary.levels]
        return cls(name) if percents and all(percents) else None

    def encode(self, series):
        return np.array([float(text.removesuffix(" %")) for text in series.to_list()])


def test_a_new_type_of_column_is_one_class_and_its_place_in_the_list(monkeypatch):
    monkeypatch.setattr("drpu.tables.encoder.COLUMN_TYPES", (PercentColumn, *COLUMN_TYPES))
    numbers = np.random.default_rng(0).permutation(np.arange(60.0))
    shares = [f"{number:.0f} %" for number in numbers]
    frame = pd.DataFrame({"share": shares, "ward": ["a", "b", "c"] * 20})
    encoder, rows = fit(frame)
    assert [column.kind for column in encoder.columns] == ["percent", "category"]
    assert_array_equal(rows[:, 0], numbers)
    assert encoder.text_columns == ("share", "ward")
    assert encoder.categories == (1,)
    assert fixed_cells(encoder, 2)[0] is None
    assert again_from(encoder) == encoder
    notes = table_notes(rows[:30], rows[30:], encoder)
    assert [(note.code, note.column) for note in notes] == [("identifier", "share")]
    with pytest.raises(DataTypeError, match="'share'"):
        encoder.check_array()


def column(kind="number-column", **fields):
    return {"kind": kind, "fields": {"name": "a"} | fields}


@pytest.mark.parametrize(
    "damage",
    [
        {"columns": []},
        {"columns": [column("indicators")]},
        {"columns": [column("left-out-column")]},
        {"columns": [column(), column()]},
        {"columns": [column("category-column", levels=["x", "x"], rare=0.0)]},
    ],
)
def test_a_damaged_file_is_refused(encoder, damage):
    with pytest.raises(ArtifactError):
        again_from(encoder, **damage)


# -- codes become indicator columns ---------------------------------------------------------------

codes = st.lists(st.integers(0, 6), min_size=1, max_size=30)


@given(train=codes, new=codes)
def test_a_row_has_one_in_the_column_of_its_code_and_nowhere_else(train, new):
    rows = np.column_stack([np.arange(len(train)), train]).astype(float)
    indicators = Indicators.of(rows, [1])
    out = indicators(np.column_stack([np.zeros(len(new)), new]).astype(float))
    assert out.shape == (len(new), indicators.n_out) == (len(new), 1 + len(set(train)))
    expected = np.equal.outer(new, sorted(set(train)))
    assert_array_equal(out[:, 1:], expected)  # a code that training did not have is 0 everywhere


def test_beyond_the_most_frequent_codes_the_rest_share_a_column():
    rows = np.array([[0.0]] * 5 + [[1.0]] * 4 + [[2.0]] * 3 + [[3.0]])
    indicators = Indicators.of(rows, [0], most=2)
    assert indicators(np.array([[0.0], [1.0], [2.0], [3.0], [9.0]])).tolist() == [
        [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]
    ]  # fmt: skip
    assert decode(*encode(indicators), Indicators) == indicators


@pytest.mark.parametrize(
    "damage",
    [{"categories": [5]}, {"categories": [0, 0]}, {"codes": [[2, 1]]}, {"codes": [[]]}, {"rest": []}],
)
def test_damaged_indicators_are_refused(damage):
    tree, arrays, blobs = encode(Indicators.of(np.array([[0.0], [1.0]]), [0]))
    tree["fields"] |= damage
    with pytest.raises(ArtifactError):
        decode(tree, arrays, blobs, Indicators)


# -- encoders of parts of a table --------------------------------------------------------------------


def parts_of(frame, cuts):
    ends = [0, *sorted(cuts), len(frame)]
    return [read_frame(take_frame(frame, np.arange(a, b))) for a, b in pairwise(ends)]


def facts(plan):
    return {field.name: getattr(plan, field.name) for field in fields(plan)}


def summary(frame, cuts=()):
    """The sum of the summaries of the parts between the cuts, the last part first."""
    found = [TableSummary.of(part, (k, 0)) for k, part in enumerate(parts_of(frame, cuts))]
    return reduce(add, found[::-1]).columns


def both(frame, cuts=(), **options):
    """The encoder of the whole frame, and that of the summaries, with their warnings."""
    encoders, notices = [], []
    for make in (
        lambda: TableEncoder.fit([read_frame(frame)], **options)[0],
        lambda: TableEncoder.of_summaries(summary(frame, cuts), **options),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            encoders.append(make())
        notices.append([str(w.message) for w in caught])
    assert notices[0] == notices[1]
    return encoders


@pytest.mark.parametrize("container", [lambda frame: frame, *CONTAINERS[:-1]])
def test_parts_of_a_table_give_the_encoder_of_the_whole(container):
    whole, parts = both(container(claims()), (0, 17, 17, 80))
    assert parts == whole
    assert [facts(plan) for plan in parts.columns] == [facts(plan) for plan in whole.columns]


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, N), max_size=6))
def test_every_division_gives_the_same_encoder(cuts):
    whole, parts = both(claims(), cuts, expand=True)
    assert parts == whole
    assert isinstance(parts.indicators, Indicators)


COLUMNS = [values for values, _ in IDENTIFIERS]
COLUMNS += [pd.Series(values, dtype=object) for values, _ in KINDS]
COLUMNS += [[*range(20, 40), *range(20)], pd.Series([*range(39), None], dtype="Int64"), ["1"] * 39 + ["x"]]


@pytest.mark.parametrize("values", COLUMNS)
def test_the_rules_of_a_column_are_those_of_a_whole_table(values):
    frame = pd.DataFrame({"x": values, "other": 0.0})
    whole, parts = both(frame, (1, 2, 13, 30))
    assert parts == whole


def test_strange_values_are_refused_by_name():
    odd = pd.DataFrame({"odd": pd.Series([1j, 2] * 20, dtype=object)})
    with pytest.raises(DataTypeError, match="'odd' holds a complex"):
        TableEncoder.of_summaries(summary(odd, (9,)))
    with pytest.raises(DataTypeError, match="'x' holds a list"):
        summary(pd.DataFrame({"x": [[1], [2]]}))
    types = [TableSummary.of(read_frame(pd.DataFrame({"x": x}))) for x in ([1.0, 2.0], ["a", "b"])]
    with pytest.raises(DataTypeError, match="'x' holds number and values in different partitions"):
        TableEncoder.of_summaries((types[0] + types[1]).columns)


def test_memory_is_bounded_and_frequent_levels_survive():
    rng = np.random.default_rng(0)
    n = 6000
    frequent = rng.choice([f"common{k}" for k in range(8)], n)
    values = np.where(rng.random(n) < 0.5, frequent, [f"rare{k}" for k in range(n)])
    parts = parts_of(pd.DataFrame({"x": values}), range(500, n, 500))
    found = reduce(add, (summarize("x", part.column(0), (0, k), most=64) for k, part in enumerate(parts)))
    assert len(found.levels) <= 64
    assert len(found.sample) == 64
    true = pd.Series(values).value_counts()
    for k in range(8):  # too low by at most one row in 64
        assert 0 <= true[f"common{k}"] - found.levels[f"common{k}"] <= n / 64
    # the 64 smallest of so many hashes give their number with a standard error of an eighth
    assert abs(found.different / len(true) - 1) < 0.5


def test_an_identifier_of_many_rows_is_recognised():
    frame = pd.DataFrame({"id": [f"C{k:07d}" for k in range(40_000)], "x": 0.0})
    with pytest.warns(IdColumnWarning, match="'id'"):
        encoder = TableEncoder.of_summaries(summary(frame, (10_000, 30_000)))
    assert encoder.left_out == ("id",)
    rows = encoder.transform(read_frame(frame.iloc[:5]))
    assert_array_equal(rows, np.zeros((5, 1)))
