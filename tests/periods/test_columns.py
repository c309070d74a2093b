"""Columns that moved more than a new prior explains: their tests, their ranges, and their names."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from drpu import (
    BoostedRatio,
    DRPUClassifier,
    PriorEstimate,
    PriorMonitor,
    count_batches,
    load,
    make_gaussian_pu,
    save,
)
from drpu._codec import encode
from drpu.exceptions import DataError, ShiftWarning, silent
from drpu.periods.shift_tests import column_shifts
from drpu.tables.values import Cells, count_columns, profile_columns

NAMES = ["age", "amount", "code", "gaps"]


def sample(rng, n, prior, *, factor=1.0):
    """Rows whose classes differ in every column; ``factor`` scales the amounts."""
    positive = rng.random(n) < prior
    rows = rng.normal(positive[:, None], 1, (n, 4))
    rows[:, 1] = factor * np.exp(rows[:, 1])
    rows[:, 2] = np.floor(4 * rng.random(n) * (1 + positive))
    rows[rng.random(n) < 0.1 + 0.2 * positive, 3] = np.nan
    return rows


@pytest.fixture(scope="module")
def profiles():
    rng = np.random.default_rng(0)
    return profile_columns(sample(rng, 400, 1.0), sample(rng, 4000, 0.3), NAMES)


def shifts_of(profiles, rows, train, test):
    return column_shifts(profiles, count_columns([profile.cells for profile in profiles], rows), train, test)


TRAIN = PriorEstimate(0.3, 0.27, 0.33, 0.95, "combined")


def near(prior):
    return PriorEstimate(prior, max(prior - 0.04, 0), prior + 0.04, 0.95, "matching")


def test_the_words_of_one_text_do_not_outvote_other_columns():
    rng = np.random.default_rng(0)

    def rows(n, prior, prior_of_text):
        """Three numbers, and a text of twelve encoded columns with another share of positives."""
        numbers = rng.normal(rng.random((n, 1)) < prior, 1, (n, 3))
        return np.hstack([numbers, rng.normal(rng.random((n, 1)) < prior_of_text, 1, (n, 12))])

    names = ["age", "amount", "price"] + 12 * ["text"]
    profiles = profile_columns(rows(400, 1.0, 1.0), rows(4000, 0.3, 0.3), names)
    shifts = shifts_of(profiles, rows(1500, 0.2, 0.9), TRAIN, near(0.2))
    assert {shift.name for shift in shifts if shift.p_value < 0.001} == {"text"}


@pytest.mark.parametrize("found", [None, 0.5])  # the estimate is right, or far off
@pytest.mark.parametrize("prior", [0.05, pytest.param(0.3, marks=pytest.mark.slow), 0.8])
def test_a_change_of_the_prior_alone_moves_no_column(profiles, prior, found):
    rng = np.random.default_rng(int(100 * prior))
    alarms = sum(
        min(
            shift.p_value
            for shift in shifts_of(profiles, sample(rng, 1500, prior), TRAIN, near(found or prior))
        )
        < 0.05
        for _ in range(40)
    )
    assert alarms <= 6  # 40 tries at .05: 6 or fewer in 98 %


@pytest.mark.parametrize("factor", [1e-4, 1e4, 2.0])  # all rows lie below or above those of training, or some
def test_a_factor_on_an_amount_is_noticed_and_named(profiles, factor):
    rng = np.random.default_rng(8)
    rows = sample(rng, 1500, 0.3, factor=factor)
    shifts = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["amount"]
    rows[:, 3] = 100 + rows[:, 3]  # missing values stay beside those that lie above
    moved = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert sorted(shift.name for shift in moved if shift.p_value < 0.001) == ["amount", "gaps"]
    assert shifts[0].name == "amount"
    if factor == 2.0:
        assert 0.05 < shifts[0].misfit < 0.3  # without the small move that does not matter


def test_more_missing_values_are_a_move(profiles):
    rng = np.random.default_rng(8)
    rows = sample(rng, 1500, 0.3)
    rows[rng.random(1500) < 0.3, 0] = np.nan
    shifts = shifts_of(profiles, rows, TRAIN, near(0.3))
    assert [shift.name for shift in shifts if shift.p_value < 0.001] == ["age"]


def secret_rows(rng, n):
    """Columns of different values: measured, with few digits, mostly 0, mostly missing, evenly spaced."""
    amounts = np.where(rng.random(n) < 0.9, 0.0, np.round(rng.exponential(9e4, n), 2))
    gaps = np.where(rng.random(n) < 0.97, np.nan, rng.normal(size=n))
    columns = (
        rng.normal(size=n),
        np.round(rng.normal(5e4, 1e4, n), 1),
        amounts,
        gaps,
        500.0 * rng.permutation(n),
    )
    return np.column_stack(columns)


@pytest.mark.parametrize(("n_positive", "n_unlabeled"), [(4, 60), (7, 30), (200, 2000)])
def test_no_value_of_fewer_than_six_rows_is_in_a_record(n_positive, n_unlabeled):
    rng = np.random.default_rng(2)
    P, U = secret_rows(rng, n_positive), secret_rows(rng, n_unlabeled)
    profiles = profile_columns(P, U, "abcde")
    assert len(profiles) == 5
    for column, profile in enumerate(profiles):
        tree, arrays, _ = encode(profile)
        kept = json.dumps(tree) + " ".join(repr(float(x)) for array in arrays.values() for x in array.flat)
        values, counts = np.unique(np.concatenate([P, U])[:, column], return_counts=True)
        secrets = values[(counts < 6) & ((values % 1 > 0) | (values > n_unlabeled))]  # not like counts
        assert not [secret for secret in secrets if repr(float(secret)) in kept.split()]
        assert set(secrets).isdisjoint(np.concatenate([array.ravel() for array in arrays.values()]))


def test_one_row_does_not_decide_a_limit():
    rng = np.random.default_rng(3)
    P, U = rng.normal(size=(100, 1)), rng.normal(size=(900, 1))
    before = profile_columns(P, U, "a")[0].cells.edges
    for row, secret in zip(range(0, 900, 90), rng.normal(size=10), strict=True):
        changed = U.copy()
        changed[row] = secret
        after = profile_columns(P, changed, "a")[0].cells.edges
        assert np.abs(after - before).max() < 0.05
        assert secret not in after


def test_constant_empty_and_wide_columns_are_no_trouble():
    P, U = np.ones((50, 2)), np.ones((300, 2))
    P[:, 1] = U[:, 1] = np.nan
    profiles = profile_columns(P, U, "ab")
    shifts = shifts_of(profiles, U[:100], TRAIN, TRAIN)
    assert {shift.p_value for shift in shifts} == {1.0}
    assert profile_columns(np.ones((2, 3000)), np.ones((2, 3000)), range(3000)) == ()
    with pytest.raises(DataError, match="the 2 columns"):
        shifts_of(profiles, np.ones((4, 3)), TRAIN, TRAIN)
    with pytest.raises(DataError, match="ranges of the profiles"):
        column_shifts(profiles, np.ones(3, dtype=np.int64), TRAIN, TRAIN)


def test_cells_are_half_open_and_count_every_value():
    cells = Cells(np.array([-1.0, 0.0, 2.5]))
    values = np.array([-3.0, -1.0, -0.5, 0.0, 0.0, 2.4, 2.5, 9.0, np.nan])
    assert cells.count(values).tolist() == [1, 2, 3, 2, 1]
    codes = Cells(np.empty(0), np.array([0, 1, 2, 3, 2]))
    assert codes.count(np.array([0.0, np.nan, 1.0, 2.0, 4.0, 3.0, 77.0])).tolist() == [2, 2, 2, 1]
    assert codes.tested.tolist() == [0, 3]  # neither rare and unseen levels, nor those with few rows


def test_few_other_values_say_nothing_about_the_distance_of_values():
    """In rows standardised by themselves the frequent value moves by hundredths of a deviation."""
    rng = np.random.default_rng(9)
    samples = []
    for n, others in ((520, 3), (500, 16)):
        rows = np.column_stack([rng.normal(size=n), np.arange(n) < others])
        samples.append((rows - rows.mean(axis=0)) / rows.std(axis=0))
    old, new = samples
    shifts = shifts_of(profile_columns(old[::13], old, "ab"), new, TRAIN, near(0.3))
    assert min(shift.p_value for shift in shifts) > 0.001


# -- names of columns that moved ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(
        300, 1500, prior=0.3, test_prior=0.1, n_test=4000, separation=3, dimensions=2, random_state=0
    )


@pytest.fixture(scope="module")
def named(data):
    X, y = data.X_y()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(amount=np.exp(rng.normal(size=len(X))))
    return DRPUClassifier("kernel", scenario="case-control", random_state=0).fit(frame, y)


def new_rows(data, factor=1.0):
    rng = np.random.default_rng(2)
    amount = factor * np.exp(rng.normal(size=len(data.test)))
    return pd.DataFrame(data.test, columns=["a", "b"]).assign(amount=amount)


def test_later_dates_are_no_move_and_longer_durations_are(data):
    X, y = data.X_y()
    rng = np.random.default_rng(4)

    def dated(rows, start, longer):
        days = pd.to_timedelta(rng.integers(0, 90, len(rows)), unit="D")
        frame = pd.DataFrame(rows, columns=["a", "b"])
        return frame.assign(opened=pd.Timestamp(start) + days, waited=days * longer)

    clf = DRPUClassifier("boosted", scenario="case-control", random_state=0)
    clf.fit(dated(X, "2026-01-01", 1), y)
    assert clf.adapt(dated(data.test, "2026-04-01", 1)).shift_ == "prior"
    with pytest.warns(ShiftWarning, match="'waited'"):
        moved = clf.adapt(dated(data.test, "2026-04-01", 5))
    assert [shift.name for shift in moved.moved_columns_] == ["waited"]


def test_counts_name_the_columns_that_moved(named, data, tmp_path):
    rows = new_rows(data, 2.0)
    rows.to_parquet(tmp_path / "june.parquet")
    counts = [named.count(rows.iloc[k::3]) for k in range(3)]
    sources = [named.count(rows), counts[0] + counts[1] + counts[2]]
    sources += [count_batches(named, tmp_path / "june.parquet", batch_size=100)]
    for seen in sources:
        assert_array_equal(seen.columns, sources[0].columns)
        with pytest.warns(ShiftWarning, match="'amount'"):
            assert [shift.name for shift in named.adapt(seen).moved_columns_] == ["amount"]
    again = sources[0].record().tails()
    assert_array_equal(again.columns, sources[0].columns)


def test_a_stream_names_the_columns_that_moved(named, data, tmp_path):
    monitor = PriorMonitor(named)
    assert monitor.update(new_rows(data)).moved_columns == ()
    monitor = PriorMonitor(named)
    for k in range(2):
        reading = monitor.update(new_rows(data, 2.0).iloc[k::2])
    assert [shift.name for shift in reading.moved_columns] == ["amount"]
    assert not reading.trusted
    assert "column 'amount' moved" in str(reading)
    assert monitor.adapted().moved_columns_ == reading.moved_columns
    monitor.save(tmp_path / "monitor")
    again = PriorMonitor.load(tmp_path / "monitor", named)
    assert_array_equal(again.tails.columns, monitor.tails.columns)


def test_counts_without_columns_are_as_good_for_the_prior(named, data):
    whole = named.count(new_rows(data, 2.0))
    bare = replace(whole.record(), columns=None).tails()
    some = named.count(new_rows(data).iloc[:9])
    assert bare == whole
    assert bare.columns is None
    assert (bare + some).columns is None  # known for some rows only
    assert (named.fitted_.no_counts() + some).columns.tolist() == some.columns.tolist()
    assert named.adapt(bare).moved_columns_ == ()
    assert bare.record().columns is None
    weighted = named.count(new_rows(data), sample_weight=np.ones(len(data.test)))
    assert weighted.columns is None


def visits(rng, n, prior, levels=300):
    """Rows with a category of many levels of the same frequency, and an amount that is usually 0."""
    ill = rng.random(n) < prior
    X = rng.normal(ill[:, None], 1.0, (n, 3))
    gain = np.where(rng.random(n) < 0.1 + 0.1 * ill, np.exp(rng.normal(7 + ill, 1)), 0.0)
    ward = np.where(rng.random(n) < 0.3 + 0.4 * ill, "a", rng.choice(["b", "c", "d"], n))
    city = [f"city{k}" for k in rng.integers(0, levels, n)]
    return pd.DataFrame(X, columns=["x", "y", "z"]).assign(
        amount=np.exp(X[:, 0]), gain=gain, ward=ward, city=city
    )


@pytest.fixture(scope="module", params=["classifier", BoostedRatio(n_rounds=20)])
def many_levels(request):
    rng = np.random.default_rng(5)
    X = pd.concat([visits(rng, 300, 1.0), visits(rng, 2000, 0.4)], ignore_index=True)
    return DRPUClassifier(request.param, holdout=2, scenario="case-control", random_state=0).fit(
        X, np.repeat([1, 0], [300, 2000])
    )


@pytest.mark.filterwarnings("error::drpu.exceptions.UnseenLevelsWarning")
@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_prior_shift_alone_is_no_move_of_columns(many_levels):
    """Over 24 samples at three priors: at p < .001 for all columns together, two are all but impossible."""
    rng = np.random.default_rng(6)
    with silent():
        found = [
            many_levels.adapt(visits(rng, 1500, prior)).moved_columns_
            for prior in (0.05, 0.4, 0.8)
            for _ in range(8)
        ]
    assert sum(map(bool, found)) <= 1


@pytest.mark.parametrize(("column", "factor"), [("amount", 1.5), ("gain", 4.0)])
@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_a_factor_is_named_among_columns_of_all_kinds(many_levels, column, factor):
    new = visits(np.random.default_rng(7), 4000, 0.2)
    with pytest.warns(ShiftWarning, match=repr(column)):
        moved = many_levels.adapt(new.assign(**{column: factor * new[column]})).moved_columns_
    assert [shift.name for shift in moved] == [column]


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_other_shares_of_frequent_levels_are_named(many_levels, tmp_path):
    rng = np.random.default_rng(8)
    new = visits(rng, 3000, 0.4)
    new["ward"] = np.where(rng.random(3000) < 0.3, "d", new["ward"])
    with pytest.warns(ShiftWarning, match="'ward'"):
        adapted = many_levels.adapt(new)
    assert [shift.name for shift in adapted.moved_columns_] == ["ward"]
    save(many_levels, tmp_path / "levels.drpu")
    with pytest.warns(ShiftWarning):
        again = load(tmp_path / "levels.drpu", trusted=True).adapt(many_levels.count(new))
    assert again.moved_columns_ == adapted.moved_columns_
