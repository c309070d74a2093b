"""Laws of the test of prior shift and of performance without labels."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import binom

from drpu.core.decision import ratio_threshold
from drpu.core.diagnostics import (
    Performance,
    expected_performance,
    mixture_test,
    threshold_limits,
)
from drpu.core.prior.estimate import PriorEstimate
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, PriorError

FIELDS = ("accuracy", "precision", "recall", "false_positive_rate", "flagged", "cost")


def mixture(rng, n, prior, apart=2.0, move=0.0):
    return rng.normal(move, 1, n) + apart * (rng.random(n) < prior)


def pair(rng, n_positive=200, n=3000, n_new=2000, prior=0.3, new=0.6, move=0.0):
    tails = ScoreTails(rng.normal(2, 1, n_positive))
    reference = tails.empty().update(mixture(rng, n, prior))
    return tails.empty().update(mixture(rng, n_new, new, move=move)), reference


# -- prior shift, or not ---------------------------------------------------------------------


@pytest.mark.parametrize(("n_positive", "new"), [(60, 0.1), (60, 0.9), (300, 0.1), (300, 0.6), (300, 1.0)])
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
    reference = tails.empty().update(mixture(rng, 50_000, 0.4, apart=4.0))
    strangers = np.concatenate((mixture(rng, 40_000, 0.4, apart=4.0), np.full(10_000, 20.0)))
    found = mixture_test(tails.empty().update(strangers), reference)
    assert 0.1 < found.misfit < 0.25
    assert found.between[1] == np.inf
    assert mixture_test(reference, reference).misfit == 0.0


def test_the_growth_is_that_of_the_negatives():
    rng = np.random.default_rng(3)
    found = mixture_test(*pair(rng, 2000, 40_000, 40_000, prior=0.3, new=0.65))
    assert_allclose(found.growth, 0.5, atol=0.05)


def test_the_test_does_not_see_the_scale_of_the_score():
    rng = np.random.default_rng(4)
    p, u, v = rng.normal(2, 1, 100), mixture(rng, 900, 0.3), mixture(rng, 700, 0.6)

    def run(scores):
        reference = ScoreTails(scores(p)).update(scores(u))
        found = mixture_test(reference.empty().update(scores(v)), reference)
        return found.statistic, found.degrees, found.p_value, found.misfit, found.growth

    assert run(np.exp) == run(lambda s: s)


def test_equal_copies_of_every_score_count_once():
    rng = np.random.default_rng(5)
    p, u, v = rng.normal(2, 1, 100), mixture(rng, 900, 0.3), mixture(rng, 700, 0.6)
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


# -- performance without labels --------------------------------------------------------------


@pytest.mark.parametrize("new", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("threshold", [0.0, 1.0, 2.0])
def test_expected_performance_is_what_labels_would_show(new, threshold):
    rng = np.random.default_rng(6)
    tails = ScoreTails(rng.normal(2, 1, 20_000)).update(mixture(rng, 200_000, 0.3))
    found = expected_performance(tails, 0.3, new, threshold, cost=0.2)
    recall, wrong = ndtr(2 - threshold), ndtr(-threshold)
    flagged = new * recall + (1 - new) * wrong
    expected = {
        "accuracy": new * recall + (1 - new) * (1 - wrong),
        "precision": new * recall / flagged,
        "recall": recall,
        "false_positive_rate": wrong,
        "flagged": flagged,
        "cost": 0.8 * new * (1 - recall) + 0.2 * (1 - new) * wrong,
    }
    for name, value in expected.items():
        assert_allclose(getattr(found, name), value, atol=0.03, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(
    positive=st.lists(st.integers(-3, 6), min_size=1, max_size=30),
    unlabeled=st.lists(st.integers(-6, 6), min_size=1, max_size=30),
    train_prior=st.sampled_from([0.0, 0.3, 0.999, 1.0]),
    test_prior=st.sampled_from([0.0, 0.4, 1.0]),
)
def test_performance_at_many_thresholds_is_that_at_each(positive, unlabeled, train_prior, test_prior):
    tails = ScoreTails(positive).update(unlabeled)
    curve = expected_performance(tails, train_prior, test_prior, [-np.inf, *tails.levels, np.inf])
    for name in FIELDS:
        values = np.asarray(getattr(curve, name))
        some = np.asarray(curve.flagged) > 0 if name == "precision" else np.ones(len(values), dtype=bool)
        assert np.isnan(values[~some]).all(), name  # without flagged rows there is no precision
        assert ((values[some] >= 0) & (values[some] <= 1)).all(), name
        alone = [
            getattr(expected_performance(tails, train_prior, test_prior, t), name) for t in curve.threshold
        ]
        assert_allclose(values, alone)
    assert_allclose(2 * np.asarray(curve.cost), 1 - np.asarray(curve.accuracy), atol=1e-12)


def test_thresholds_run_from_all_rows_to_none():
    rng = np.random.default_rng(7)
    tails = ScoreTails(rng.normal(2, 1, 50)).update(mixture(rng, 500, 0.3))
    curve = expected_performance(tails, 0.3, 0.6, [-np.inf, *tails.levels, np.inf])
    assert (curve.flagged[0], curve.flagged[-1]) == (1.0, 0.0)
    assert (curve.recall[0], curve.false_positive_rate[0]) == (1.0, 1.0)
    assert_allclose([curve.accuracy[0], curve.accuracy[-1]], [0.6, 0.4])
    assert (np.diff(curve.recall) <= 0).all()


def test_one_threshold_gives_numbers_and_many_give_arrays():
    tails = ScoreTails([1.0, 2.0, np.inf]).update([0.0, 1.0, np.inf])
    one = expected_performance(tails, 0.3, 0.5, 1.5)
    assert isinstance(one, Performance)
    assert all(isinstance(getattr(one, name), float) for name in FIELDS)
    assert expected_performance(tails, 0.3, 0.5, [[1.0], [2.0]]).recall.shape == (2, 1)


def test_performance_refuses_what_cannot_be():
    tails = ScoreTails([1.0, 2.0]).update([0.0, 1.0])
    with pytest.raises(PriorError, match="test_prior"):
        expected_performance(tails, 0.3, -0.1, 1.0)
    with pytest.raises(DataError, match="NaN"):
        expected_performance(tails, 0.3, 0.5, np.nan)


# -- from priors to thresholds ----------------------------------------------------------------


def test_threshold_limits_hold_every_threshold_between_the_limits():
    train = PriorEstimate(0.3, 0.2, 0.5, 0.95, "best-bin")
    test = PriorEstimate(0.5, 0.35, 0.7, 0.95, "matching")
    low, high = threshold_limits(train, test, cost=0.3)
    inside = [
        ratio_threshold(pi, pi_test, cost=0.3)
        for pi in np.linspace(0.2, 0.5, 21)
        for pi_test in np.linspace(0.35, 0.7, 21)
    ]
    assert_allclose([min(inside), max(inside)], [low, high])


def test_known_priors_leave_one_threshold():
    assert threshold_limits(0.3, 0.6) == (ratio_threshold(0.3, 0.6),) * 2
    assert threshold_limits(0.3, PriorEstimate(0.5, 0.0, 1.0, 0.95, "matching")) == (-np.inf, np.inf)
