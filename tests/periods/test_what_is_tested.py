"""Levels that training never saw, moves too small to matter, and rows too few to test."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from drpu import DRPUClassifier, count_batches, load, save
from drpu.exceptions import FewRowsWarning, ShiftWarning
from drpu.periods import read_new_rows
from drpu.report.texts import only_prior_text, shift_text
from drpu.tables.values import Cells, count_columns, profile_columns

QUIET = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


def flights(rng, n, prior, *, new_level=0.0, rare=0.1):
    """Rows with a number and a category that tell the classes apart, and some rare levels."""
    positive = rng.random(n) < prior
    airport = np.where(rng.random(n) < 0.3 + 0.3 * positive, "north", "south").astype(object)
    rare_rows = rng.random(n) < rare
    airport[rare_rows] = [f"small {k}" for k in rng.integers(0, 10_000, rare_rows.sum())]
    airport[rng.random(n) < new_level] = "opened later"
    return pd.DataFrame({"delay": rng.normal(2.0 * positive, 1.0), "airport": airport})


def fitted(model="boosted", **options):
    rng = np.random.default_rng(0)
    X = pd.concat([flights(rng, 200, 1.0), flights(rng, 1000, 0.4)], ignore_index=True)
    y = np.repeat([1, 0], [200, 1000])
    return DRPUClassifier(model, scenario="case-control", random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def classifier():
    return fitted()


@QUIET
@pytest.mark.parametrize("model", ["boosted", pytest.param(LogisticRegression(), marks=pytest.mark.slow)])
def test_a_new_level_in_half_of_the_rows_is_other_shift(model):
    rows = flights(np.random.default_rng(1), 600, 0.4, new_level=0.5)
    with pytest.warns(ShiftWarning, match="'airport'"):
        adapted = fitted(model).adapt(rows)
    assert adapted.shift_ == "other"
    assert "airport" in {shift.name for shift in adapted.moved_columns_}


@QUIET
def test_a_new_level_is_seen_in_counts_of_batches_and_after_loading(classifier, tmp_path):
    rows = flights(np.random.default_rng(2), 600, 0.4, new_level=0.5)
    save(classifier, tmp_path / "flights.drpu")
    loaded = load(tmp_path / "flights.drpu")
    counts = count_batches(loaded, [rows[:250], rows[250:]])
    assert np.array_equal(counts.columns, classifier.count(rows).columns)
    assert counts.columns.dtype == np.int64
    adapted = loaded.adapt(counts)
    assert adapted.shift_ == "other"
    assert adapted.moved_columns_ == classifier.adapt(rows).moved_columns_


@QUIET
@pytest.mark.parametrize("prior", [0.1, 0.4, 0.8])
def test_as_many_rare_levels_as_in_training_are_no_move(classifier, prior):
    """All of them are levels that training did not have, as most rare levels of training are."""
    rows = flights(np.random.default_rng(3), 600, prior)
    assert classifier.adapt(rows).moved_columns_ == ()


def test_limits_lie_between_the_values_of_a_discrete_column():
    rng = np.random.default_rng(4)
    positive, unlabeled = (rng.integers(0, 4, (n, 1)).astype(float) for n in (50, 500))
    (profile,) = profile_columns(positive, unlabeled, ["stars"])
    edges = profile.cells.edges
    assert np.abs(edges[:, None] - np.arange(4)).min() > 0.1
    moved = unlabeled + 0.05
    assert np.array_equal(count_columns([profile.cells], moved), profile.unlabeled)


def test_cells_of_training_rows_add_up_to_the_cells_of_new_rows():
    rng = np.random.default_rng(5)
    values = rng.normal(size=300)
    values[:20] = np.nan
    cells = Cells.between([np.quantile(values[20:], [0.2, 0.4, 0.6, 0.8])])
    counts, near = cells.added_up(cells.of_training.count(values).astype(float))
    assert np.array_equal(counts, cells.count(values))
    below = [np.count_nonzero(values < edge + cells.margin) for edge in cells.edges]
    now = [np.count_nonzero(values < edge) for edge in cells.edges]
    assert np.array_equal(near[-1], np.subtract(below, now))


def standardised(rows, source):
    return (rows - source.mean(axis=0)) / source.std(axis=0)


def ratings(rng, n, prior):
    """Discrete columns of which the first two tell the classes apart."""
    positive = rng.random(n) < prior
    grades = [rng.binomial(4, 0.3 + 0.3 * positive) for _ in range(2)]
    return np.column_stack([*grades, rng.integers(0, 5, (n, 4))]).astype(float)


@QUIET
@pytest.mark.parametrize("n_positive", [8, 80])
@pytest.mark.parametrize("own", [False, True])
def test_new_rows_that_only_their_scaling_moved_are_prior_shift(n_positive, own):
    """Of six samples, at most one is called another shift, however few positives there are."""
    called = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        positive, unlabeled, new = (ratings(rng, n, q) for n, q in ((n_positive, 1), (500, 0.4), (500, 0.3)))
        training = np.concatenate([positive, unlabeled])
        clf = DRPUClassifier("kernel", scenario="case-control", random_state=0)
        clf.fit(standardised(training, training), np.arange(len(training)) < n_positive)
        adapted = clf.adapt(standardised(new, new if own else training))
        assert not adapted.untested_
        called += adapted.shift_ == "other"
    assert called <= 1


@QUIET
def test_a_real_change_is_found_with_eight_positives():
    rng = np.random.default_rng(1)
    positive, unlabeled, new = (ratings(rng, n, q) for n, q in ((8, 1), (500, 0.4), (500, 0.4)))
    clf = DRPUClassifier("kernel", scenario="case-control", random_state=0).fit_pu(positive, unlabeled)
    new[:, 5] = 4 - (new[:, 5] // 2)
    assert clf.adapt(new).shift_ == "other"


@pytest.mark.parametrize(("n", "text"), [(1, "1 new row says little"), (5, "5 new rows say little")])
def test_a_handful_of_rows_is_said_to_be_untested(classifier, n, text):
    rows = flights(np.random.default_rng(6), n, 0.4, new_level=1.0)
    with pytest.warns(FewRowsWarning, match=text) as issued:
        adapted = classifier.adapt(rows)
    assert len(issued) == 1  # not that the classes are hardly separated, which would be the wrong cause
    assert "It cannot be tested whether only the prior has changed." in str(issued[0].message)
    assert adapted.shift_ == "prior"
    assert adapted.untested_
    assert "(untested)" in repr(adapted)
    assert "Untested" in adapted._repr_html_()
    assert shift_text(adapted).startswith("untested")
    assert only_prior_text(adapted) == "untested"
    assert not classifier.at_prior(0.3).untested_


@QUIET
def test_all_rows_are_not_accepted_where_their_parts_are_rejected(classifier):
    """The changes of two months cancel in the sum of their rows."""
    rng = np.random.default_rng(7)
    months = [flights(rng, 400, 0.4) for _ in range(2)]
    months[0]["airport"] = np.where(rng.random(400) < 0.4, "north", months[0]["airport"])
    months[1]["airport"] = np.where(rng.random(400) < 0.66, "south", months[1]["airport"])
    counts = [classifier.count(month) for month in months]
    facts = (classifier.fitted_, classifier.reference_)
    parts = [read_new_rows(*facts, part) for part in counts]
    assert "other" in [part.shift for part in parts]
    assert read_new_rows(*facts, counts[0] + counts[1]).shift == "prior"
    whole = read_new_rows(*facts, counts[0] + counts[1], parts=parts)
    assert whole.shift == "other"
    assert [shift.name for shift in whole.moved_columns] == ["airport"]


@QUIET
def test_adapt_uses_what_the_periods_of_its_rows_show():
    rng = np.random.default_rng(8)
    X = flights(rng, 1200, 0.5).assign(month=np.repeat(["2024-01", "2024-02"], 600))
    y = (X["delay"] > 1) & (rng.random(1200) < 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = DRPUClassifier("boosted", scenario="single-sample", random_state=0)
        clf.fit(X, y.astype(int), periods="month")
    months = [flights(rng, 500, 0.5) for _ in range(2)]
    months[0]["airport"] = np.where(rng.random(500) < 0.4, "north", months[0]["airport"])
    months[1]["airport"] = np.where(rng.random(500) < 0.6, "south", months[1]["airport"])
    new = pd.concat(months, ignore_index=True)
    new["month"] = np.repeat(["2024-03", "2024-04"], 500)
    groups = clf.adapt_by(new, by="month")
    assert [group.shift for group in groups] == ["other", "other"]
    assert clf.adapt(new).shift_ == "other"
