"""Forms of one value have one code or number; forms that mean something else are refused or noted."""

import unicodedata

import numpy as np
import pytest

from drpu import BoostedRatio, DRPUClassifier, KernelRatio
from drpu.exceptions import DataError, DataTypeError
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.notes import table_notes

pd = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


def encoded(values, new=None):
    """The column that training learns from the values, and the numbers of new values."""
    encoder, rows = TableEncoder.fit([read_frame(pd.DataFrame({"x": values}))])
    if new is not None:
        rows = encoder.transform(read_frame(pd.DataFrame({"x": new})))
    return encoder.columns[0], rows[:, 0]


# -- dates -----------------------------------------------------------------------------------------

NAIVE = pd.Series(pd.to_datetime("2026-03-01T12:00") + pd.to_timedelta(np.arange(60) % 7, unit="D"))
ZONED = NAIVE.dt.tz_localize("Europe/Berlin")
AS_TEXT = {"naive": [str(day.isoformat()) for day in NAIVE], "zoned": [day.isoformat() for day in ZONED]}
DATES = {
    "naive": {"type": NAIVE, "text": AS_TEXT["naive"], "objects": NAIVE.astype(object)},
    "zoned": {"type": ZONED, "text": AS_TEXT["zoned"], "objects": ZONED.astype(object)},
}


@pytest.mark.parametrize("new", ["type", "text", "objects"])
@pytest.mark.parametrize("trained", ["type", "text", "objects"])
@pytest.mark.parametrize(("had", "has"), [("zoned", "naive"), ("naive", "zoned")])
def test_dates_with_and_without_a_zone_are_not_mixed(had, has, trained, new):
    column, days = encoded(DATES[had][trained], DATES[had][new])
    assert column.kind == "date"
    assert column.zoned == (had == "zoned")
    np.testing.assert_array_equal(days, encoded(DATES[had][trained])[1])
    with pytest.raises(DataTypeError, match=r"column 'x' had dates with.* a time zone"):
        encoded(DATES[had][trained], DATES[has][new])


def test_an_instant_is_one_day_in_every_zone():
    _, days = encoded(ZONED, ZONED.dt.tz_convert("Asia/Tokyo"))
    np.testing.assert_array_equal(days, encoded(ZONED)[1])


@pytest.mark.parametrize("new", [[None] * 3, ["NA", "", None], pd.Series([pd.NaT] * 3, dtype=object)])
def test_missing_dates_have_any_zone(new):
    for had in DATES:
        assert np.isnan(encoded(DATES[had]["text"], new)[1]).all()


@pytest.mark.parametrize("dtype", ["datetime64[ns]", "datetime64[ns, Asia/Tokyo]"])
def test_a_column_without_dates_has_any_zone(dtype):
    for had in DATES:
        assert np.isnan(encoded(DATES[had]["type"], pd.Series([pd.NaT] * 3, dtype=dtype))[1]).all()


def test_training_dates_of_both_kinds_are_refused():
    mixed = AS_TEXT["naive"][:30] + AS_TEXT["zoned"][:30]
    with pytest.raises(DataTypeError, match="column 'x' has dates with a time zone and dates without"):
        encoded(mixed)


# -- texts -----------------------------------------------------------------------------------------


def test_levels_are_compared_in_one_form_of_unicode():
    levels = ["Übach", "Ñuñoa", "Łódź", "x"] * 10
    other = [unicodedata.normalize("NFD", level) for level in levels]
    assert other != levels
    for trained, new in ((levels, other), (other, levels)):
        column, codes = encoded(trained, new)
        assert sorted(column.levels) == sorted(set(levels))
        np.testing.assert_array_equal(codes, encoded(trained)[1])


def test_an_empty_table_with_text_ends_in_a_typed_error():
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(30)]
    frame = pd.DataFrame(
        {"note": [" ".join(rng.choice(words, 6)) for _ in range(200)], "a": rng.normal(size=200)}
    )
    clf = DRPUClassifier(BoostedRatio(n_rounds=2), holdout=2, random_state=0)
    clf.fit(frame, np.arange(200) % 5 == 0)
    for call in (clf.predict, clf.ratio, clf.adapt, clf.contributions, clf.count):
        with pytest.raises(DataError, match="0 sample"):
            call(frame[:0])


# -- numbers ---------------------------------------------------------------------------------------

LARGE = [2**53 + 1, 2**53 + 2, 2**60, 10**30, -(10**17), 7] * 10


def test_a_whole_number_and_its_text_are_one_number():
    numbers = [float(number) for number in LARGE]
    texts = [str(number) for number in LARGE]
    for trained in (LARGE, texts, numbers):
        for new in (LARGE, texts):
            column, read = encoded(pd.Series(trained, dtype=object), pd.Series(new, dtype=object))
            assert column.kind == "number"
            np.testing.assert_array_equal(read, numbers)


def test_texts_of_infinite_numbers_are_read_without_a_warning_of_numpy():
    column, numbers = encoded([str(10**400), "5"] * 20)
    assert column.kind == "number"
    assert np.isinf(numbers).sum() == 20


def test_long_codes_that_differ_in_the_last_digit_are_different_levels():
    levels = ["9007199254740993", "12", "x"] * 10
    _, codes = encoded(levels, ["9007199254740992", "9007199254740993", " 12 ", "12.0"])
    assert codes[0] != codes[1]
    assert codes[1] != codes[2] == codes[3]


# -- digits that are codes -------------------------------------------------------------------------


def notes_of(values):
    n = len(values)
    frame = pd.DataFrame({"x": values, "a": np.random.default_rng(0).normal(size=n)})
    encoder, rows = TableEncoder.fit([read_frame(frame)])
    half = n // 2
    notes = table_notes(rows[:half], rows[half:], encoder)
    return encoder.columns[0], {note.code: str(note) for note in notes if note.column == "x"}


def test_the_notes_say_what_digits_were_taken_for():
    rng = np.random.default_rng(1)
    few = rng.integers(100, 999, 40)
    column, notes = notes_of([str(number) for number in rng.choice(few, 500)])
    assert column.kind == "number"
    assert "read as numbers" in notes["numbers-as-text"]
    column, notes = notes_of([f"{number:05d}" for number in rng.choice(few, 500)])
    assert column.kind == "category"
    assert "is a category" in notes["codes"]
    column, notes = notes_of([f"{number:09d}" for number in rng.permutation(10**6)[:500]])
    assert column.kind == "left out"
    assert "left out" in notes["left-out"]
    column, notes = notes_of([str(10**17 + number) for number in rng.permutation(10**6)[:500]])
    assert column.kind == "left out"
    column, notes = notes_of(rng.choice(few, 500))
    assert column.kind == "number"
    assert not notes


@pytest.mark.parametrize("dtype", ["int64", "uint64", "object", "str"])
def test_long_whole_numbers_are_what_their_texts_are(dtype):
    codes = (2**53 + np.random.default_rng(0).permutation(10**6)[:200]).astype(dtype)
    column, notes = notes_of(codes)
    assert column.kind == "left out"
    assert "left out" in notes["left-out"]
    assert notes_of(np.tile(codes[:20], 10))[0].kind == "number"
    assert notes_of(np.random.default_rng(0).permutation(10**6)[:200])[0].kind == "number"


def test_columns_are_found_in_every_form_of_unicode():
    frame = pd.DataFrame({"caté": [1.0, 2.5], "b": [3.0, 4.5]})
    other = frame.rename(columns=lambda name: unicodedata.normalize("NFD", name)).iloc[::-1, ::-1]
    assert list(other.columns) != list(frame.columns)
    for trained, new in ((frame, other), (other, frame)):
        encoder, rows = TableEncoder.fit([read_frame(trained)])
        np.testing.assert_array_equal(encoder.transform(read_frame(new)), rows[::-1])


def nfd(text):
    return unicodedata.normalize("NFD", text)


def test_two_columns_with_one_name_in_two_forms_are_refused():
    frame = pd.DataFrame({"caté": [1.0, 2.5], nfd("caté"): [3.0, 4.5]})
    with pytest.raises(DataError, match="differ only in the form of Unicode"):
        read_frame(frame)


def test_groups_periods_and_labels_have_one_form_of_unicode():
    rng = np.random.default_rng(0)
    positive = rng.random(400) < 0.4
    names = np.array(["mañana", "tarde"])[np.arange(400) // 200]
    frame = pd.DataFrame({"a": rng.normal(3.0 * positive), "época": names})
    labels = np.where(positive & (rng.random(400) < 0.6), "sí", "no")
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=10)
    clf = DRPUClassifier(model, holdout=2, pos_label="sí", random_state=0)
    clf.fit(frame, labels, periods="época")

    other = frame.rename(columns=nfd).assign(**{nfd("época"): [nfd(name) for name in names]})
    np.testing.assert_array_equal(clf.predict_proba(other), clf.predict_proba(frame))
    both = [nfd(name) if k % 2 else name for k, name in enumerate(names)]
    mixed = np.array([nfd(name) for name in names], dtype=object)  # some of them texts of NumPy
    for by in (names, both, np.array(both, dtype=object), mixed):
        groups = clf.adapt_by(frame[["a"]], by=by)
        assert [group.name for group in groups] == ["mañana", "tarde"]
    assert str(clf.adapt_by(other, by="época")) == str(clf.adapt_by(frame, by=nfd("época")))
    truth = np.where(positive, "sí", "no")
    other_truth = np.where(positive, nfd("sí"), "no")
    assert clf.score(frame, other_truth) == clf.score(frame, truth)
