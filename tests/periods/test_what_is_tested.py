"""Levels that training never saw, moves too small to matter, and rows too few to test."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

import tails_data
from drpu import DRPUClassifier, KernelRatio, ScoreTails, count_batches, load, save
from drpu.exceptions import DataError, FewRowsWarning, ShiftWarning, silent
from drpu.periods.shift_tests import mixture_test
from drpu.report.texts import only_prior_text, shift_text
from drpu.tables.values import Cells, count_columns, profile_columns
from tails_data import mixture

QUICK = KernelRatio(n_centres=30, width=1.0, ridge=0.1)
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
        clf = DRPUClassifier(QUICK, scenario="case-control", random_state=0)
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
def test_rows_are_not_accepted_where_their_periods_are_rejected():
    """The changes of two months cancel in the sum of their rows."""
    rng = np.random.default_rng(8)
    X = flights(rng, 1200, 0.5).assign(month=np.repeat(["2024-01", "2024-02"], 600))
    y = (X["delay"] > 1) & (rng.random(1200) < 0.5)
    with silent():
        clf = DRPUClassifier("boosted", scenario="single-sample", random_state=0)
        clf.fit(X, y.astype(int), periods="month")
    months = [flights(rng, 500, 0.5) for _ in range(2)]
    months[0]["airport"] = np.where(rng.random(500) < 0.4, "north", months[0]["airport"])
    months[1]["airport"] = np.where(rng.random(500) < 0.66, "south", months[1]["airport"])
    new = pd.concat(months, ignore_index=True)
    assert clf.adapt(new).shift_ == "prior"
    new["month"] = np.repeat(["2024-03", "2024-04"], 500)
    groups = clf.adapt_by(new, by="month")
    assert [group.shift for group in groups] == ["other", "other"]
    whole = clf.adapt(new)
    assert whole.shift_ == "other"
    assert [shift.name for shift in whole.moved_columns_] == ["airport"]


# -- the test of prior shift -------------------------------------------------------------------------


def pair(rng, n_positive=200, n=3000, n_new=2000, **options):
    return tails_data.pair(rng, n_positive, n, n_new, apart=2.0, **options)


# -- prior shift, or not ---------------------------------------------------------------------


REPEATED = [pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((60, 0.9), (300, 0.1), (300, 0.6))]


@pytest.mark.parametrize(("n_positive", "new"), [(60, 0.1), (300, 1.0), *REPEATED])
def test_prior_shift_is_rejected_no_more_often_than_stated(n_positive, new):
    rng, runs = np.random.default_rng(0), 250
    p_values = np.array([mixture_test(*pair(rng, n_positive, new=new)).p_value for _ in range(runs)])
    assert (p_values < 0.05).sum() <= binom.ppf(1 - 1e-4, runs, 0.07)
    assert (p_values < 0.5).sum() >= binom.ppf(1e-4, runs, 0.25)  # and not too small either


def test_other_shifts_are_found():
    rng, runs = np.random.default_rng(1), 60
    found = [mixture_test(*pair(rng, 300, move=0.6)).p_value < 0.05 for _ in range(runs)]
    assert sum(found) >= binom.ppf(1e-4, runs, 0.9)


def test_the_misfit_is_the_share_of_rows_that_belong_to_no_class():
    rng = np.random.default_rng(2)
    tails = ScoreTails(rng.normal(4, 1, 3000))
    reference = tails.empty().update(mixture(rng, 50_000, 0.4, 4.0))
    strangers = np.concatenate((mixture(rng, 40_000, 0.4, 4.0), np.full(10_000, 20.0)))
    found = mixture_test(tails.empty().update(strangers), reference)
    assert 0.1 < found.misfit < 0.25
    assert found.between[1] == np.inf
    assert mixture_test(reference, reference).misfit == 0.0


def test_the_growth_is_that_of_the_negatives():
    rng = np.random.default_rng(3)
    found = mixture_test(*pair(rng, 2000, 40_000, 40_000, prior=0.3, new=0.65))
    assert_allclose(found.growth, 0.5, atol=0.05)


@pytest.mark.parametrize("new", [0.0, 0.02])
def test_rows_without_positives_are_possible_at_the_true_prior_and_not_at_a_low_one(new):
    rng, runs = np.random.default_rng(6), 60
    pairs = [pair(rng, 300, prior=0.6, new=new) for _ in range(runs)]
    true = [mixture_test(*each, most_prior=0.6) for each in pairs]
    assert sum(found.p_value < 0.05 for found in true) <= binom.ppf(1 - 1e-4, runs, 0.07)
    for each in pairs[:10]:
        found = mixture_test(*each, most_prior=0.3)
        assert found.p_value < 1e-6
        # 300 positives give (1 - new) / (1 - prior) with a standard error of about 5 %
        assert_allclose(found.needs_prior, 1 - 0.4 / (1 - new), atol=0.08)
        assert mixture_test(*each).needs_prior is None


def test_the_test_does_not_see_the_scale_of_the_score():
    rng = np.random.default_rng(4)
    p, u, v = rng.normal(2, 1, 100), mixture(rng, 900, 0.3, 2.0), mixture(rng, 700, 0.6, 2.0)

    def run(scores):
        reference = ScoreTails(scores(p)).update(scores(u))
        found = mixture_test(reference.empty().update(scores(v)), reference)
        return found.statistic, found.degrees, found.p_value, found.misfit, found.growth

    assert run(np.exp) == run(lambda s: s)


def test_equal_copies_of_every_score_count_once():
    rng = np.random.default_rng(5)
    p, u, v = rng.normal(2, 1, 100), mixture(rng, 900, 0.3, 2.0), mixture(rng, 700, 0.6, 2.0)
    plain, thrice = ScoreTails(p).update(u), ScoreTails(p, copies=3).update(np.tile(u, 3))
    once = mixture_test(plain.empty().update(v), plain)
    assert_allclose(
        mixture_test(thrice.empty(copies=1).update(v), thrice).statistic, once.statistic, rtol=1e-9
    )
    weighted = ScoreTails(p, np.full(100, 2.0)).update(u, np.full(900, 3.0))
    assert_allclose(mixture_test(weighted.empty().update(v), weighted).statistic, once.statistic, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    positive=st.lists(st.integers(-3, 6), min_size=1, max_size=60),
    unlabeled=st.lists(st.integers(-6, 6), min_size=1, max_size=80),
    new=st.lists(st.integers(-6, 6), min_size=1, max_size=80),
)
def test_the_test_answers_whatever_is_counted(positive, unlabeled, new):
    reference = ScoreTails(positive).update(unlabeled)
    found = mixture_test(reference.empty().update(new), reference)
    assert found.statistic >= 0
    assert 0 <= found.p_value <= 1
    assert 0 <= found.misfit <= 1
    assert found.between[0] < found.between[1]


def test_empty_tails_and_other_positives_are_refused():
    with pytest.raises(DataError, match="same positive scores"):
        mixture_test(ScoreTails([1.0]).update([1.0]), ScoreTails([2.0]).update([1.0]))
    with pytest.raises(DataError, match="empty"):
        mixture_test(ScoreTails([1.0]), ScoreTails([1.0]).update([1.0]))
