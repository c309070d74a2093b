"""Counts with fewer levels: errors within the bound, and valid tails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from drpu.exceptions import ParameterError
from drpu.priors.estimate import prior_from_tails
from drpu.priors.reduction import coarsen
from drpu.priors.tails import ScoreTails

# Ties, neighbours in the last digit, infinities and ordinary numbers.
coarse_values = st.sampled_from([-np.inf, -3.0, -0.1, 0.0, 0.1, np.nextafter(0.1, 1), 0.5, 2.0, np.inf])
values = st.one_of(coarse_values, st.floats(-50, 50))
positives = st.lists(values, min_size=1, max_size=60)
samples = st.lists(values, min_size=1, max_size=60)


def toy(seed=0, n_positive=500, n=5000, prior=0.3):
    rng = np.random.default_rng(seed)
    k = rng.binomial(n, prior)
    positive, unlabeled = rng.normal(2, 1, n_positive), np.r_[rng.normal(2, 1, k), rng.normal(-1, 1, n - k)]
    r = np.exp(3 * positive - 1.5), np.exp(3 * unlabeled - 1.5)
    return tuple(np.log(x / (prior * x + 1 - prior)) for x in r)


# -- fewer levels --------------------------------------------------------------------------


def at(tails, thresholds, survival):
    """``survival`` at the kept level at or below each threshold."""
    return survival[np.searchsorted(tails.levels, thresholds, side="right") - 1]


@given(positive=positives, unlabeled=samples, levels=st.integers(2, 30))
def test_no_curve_is_further_off_than_stated(positive, unlabeled, levels):
    exact = ScoreTails(positive).update(unlabeled)
    coarse, coarsening = coarsen(exact, levels)
    for name, error in (
        ("positive_survival", coarsening.positive_error),
        ("survival", coarsening.unlabeled_error),
    ):
        truth = getattr(exact, name)
        kept = at(coarse, exact.levels, getattr(coarse, name))
        assert (kept >= truth - 1e-12).all()
        assert (kept <= truth + error + 1e-12).all()


@given(data=st.data(), levels=st.integers(2, 30))
def test_the_error_is_at_most_two_over_the_levels(data, levels):
    # Integers: different values never differ in the last digits only.
    numbers = st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=80)
    exact = ScoreTails(data.draw(numbers)).update(data.draw(numbers))
    coarse, coarsening = coarsen(exact, levels)
    assert len(coarse.levels) <= levels
    assert coarsening.positive_error <= 2 / levels + 1e-12
    assert coarsening.unlabeled_error <= 2 / levels + 1e-12


@given(positive=positives, unlabeled=samples, levels=st.integers(2, 30))
def test_counts_are_kept_whole_and_no_finite_score_is(positive, unlabeled, levels):
    exact = ScoreTails(positive).update(unlabeled)
    coarse = coarsen(exact, levels)[0]
    assert coarse == coarse.record().tails()
    assert (coarse.n, coarse.n_positive) == (exact.n, exact.n_positive)
    assert coarse.counts.sum() == exact.counts.sum()
    # The counts of positives do not depend on which levels were shifted.
    assert_array_equal(ScoreTails(coarse.levels).update(positive).counts, coarse.positive_counts)
    assert not set(coarse.levels[np.isfinite(coarse.levels)]) & set(positive)


def test_weights_stay_in_the_counts():
    rng = np.random.default_rng(0)
    exact = ScoreTails(rng.normal(2, 1, 200), rng.random(200)).update(rng.normal(0, 1, 500), rng.random(500))
    coarse = coarsen(exact, 20)[0]
    assert_allclose([coarse.n, coarse.n_positive], [exact.n, exact.n_positive])
    assert_allclose(coarse.counts.sum(), exact.counts.sum())


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_a_hundred_levels_hardly_move_the_prior(prior):
    moves = []
    for seed in range(6):
        positive, unlabeled = toy(seed, 1000, 10_000, prior)
        exact = ScoreTails(positive).update(unlabeled)
        found = prior_from_tails(coarsen(exact, 100)[0])
        moves.append(abs(found.value - prior_from_tails(exact).value))
    assert np.mean(moves) < 0.01
    assert np.max(moves) <= 2 / 100


@pytest.mark.parametrize("levels", [1, 0, 2.5, "many"])
def test_levels_that_make_no_sense_are_refused(levels):
    with pytest.raises(ParameterError, match="levels"):
        coarsen(ScoreTails([1.0, 2.0]), levels)
