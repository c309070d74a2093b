"""Columns that moved more than a new prior explains are named, from rows and from counts."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from drpu import BoostedRatio, DRPUClassifier, PriorMonitor, count_batches, make_gaussian_pu
from drpu._codec import decode, encode
from drpu.exceptions import ShiftWarning
from drpu.periods.read import columns_moved
from drpu.tables.values import ColumnProfile


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ShiftWarning)
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
def test_other_shares_of_frequent_levels_are_named(many_levels):
    rng = np.random.default_rng(8)
    new = visits(rng, 3000, 0.4)
    new["ward"] = np.where(rng.random(3000) < 0.3, "d", new["ward"])
    with pytest.warns(ShiftWarning, match="'ward'"):
        adapted = many_levels.adapt(new)
    assert [shift.name for shift in adapted.moved_columns_] == ["ward"]
    fitted, seen = many_levels.fitted_, many_levels.count(new)
    profiles = tuple(decode(*encode(profile), ColumnProfile) for profile in fitted.columns.profiles)
    again = replace(fitted, columns=replace(fitted.columns, profiles=profiles))
    moved = columns_moved(again, many_levels.reference_, seen, adapted.prior_)
    assert moved == adapted.moved_columns_
