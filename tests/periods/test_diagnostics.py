"""Laws of the test of prior shift."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom

from drpu import ScoreTails
from drpu.exceptions import DataError
from drpu.periods.shift_tests import mixture_test


def mixture(rng, n, prior, apart=2.0, move=0.0):
    return rng.normal(move, 1, n) + apart * (rng.random(n) < prior)


def pair(rng, n_positive=200, n=3000, n_new=2000, prior=0.3, new=0.6, move=0.0):
    tails = ScoreTails(rng.normal(2, 1, n_positive))
    reference = tails.empty().update(mixture(rng, n, prior))
    return tails.empty().update(mixture(rng, n_new, new, move=move)), reference


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
