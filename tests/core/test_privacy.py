"""Reduced counts: errors within the bound, noise of the stated distribution, valid tails."""

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from drpu.core.prior.estimate import prior_from_tails
from drpu.core.reduction import GRID, GridCounts, Protection, coarsen, discrete_laplace, privatize
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, ParameterError

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
    coarse = coarsen(exact, levels)
    for name, error in (
        ("positive_survival", coarse.positive_error),
        ("survival", coarse.unlabeled_error),
    ):
        truth = getattr(exact, name)
        kept = at(coarse.tails, exact.levels, getattr(coarse.tails, name))
        assert (kept >= truth - 1e-12).all()
        assert (kept <= truth + error + 1e-12).all()


@given(data=st.data(), levels=st.integers(2, 30))
def test_the_error_is_at_most_two_over_the_levels(data, levels):
    # Integers: different values never differ in the last digits only.
    numbers = st.lists(st.integers(-30, 30).map(float), min_size=1, max_size=80)
    exact = ScoreTails(data.draw(numbers)).update(data.draw(numbers))
    coarse = coarsen(exact, levels)
    assert len(coarse.tails.levels) <= levels
    assert coarse.positive_error <= 2 / levels + 1e-12
    assert coarse.unlabeled_error <= 2 / levels + 1e-12


@given(positive=positives, unlabeled=samples, levels=st.integers(2, 30))
def test_counts_are_kept_whole_and_no_finite_score_is(positive, unlabeled, levels):
    exact = ScoreTails(positive).update(unlabeled)
    coarse = coarsen(exact, levels).tails
    assert coarse == ScoreTails.from_state(coarse.state())
    assert (coarse.n, coarse.n_positive) == (exact.n, exact.n_positive)
    assert coarse.counts.sum() == exact.counts.sum()
    # The counts of positives do not depend on which levels were shifted.
    assert_array_equal(ScoreTails(coarse.levels).update(positive).counts, coarse.positive_counts)
    assert not set(coarse.levels[np.isfinite(coarse.levels)]) & set(positive)


def test_weights_stay_in_the_counts():
    rng = np.random.default_rng(0)
    exact = ScoreTails(rng.normal(2, 1, 200), rng.random(200)).update(rng.normal(0, 1, 500), rng.random(500))
    coarse = coarsen(exact, 20).tails
    assert_allclose([coarse.n, coarse.n_positive], [exact.n, exact.n_positive])
    assert_allclose(coarse.counts.sum(), exact.counts.sum())


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_a_hundred_levels_hardly_move_the_prior(prior):
    moves = []
    for seed in range(6):
        positive, unlabeled = toy(seed, 1000, 10_000, prior)
        exact = ScoreTails(positive).update(unlabeled)
        found = prior_from_tails(coarsen(exact, 100).tails)
        moves.append(abs(found.value - prior_from_tails(exact).value))
    assert np.mean(moves) < 0.01
    assert np.max(moves) <= 2 / 100


@pytest.mark.parametrize("levels", [1, 0, 2.5, "many"])
def test_levels_that_make_no_sense_are_refused(levels):
    with pytest.raises(ParameterError, match="levels"):
        coarsen(ScoreTails([1.0, 2.0]), levels)


# -- noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_noise_is_two_sided_geometric(epsilon):
    draws = discrete_laplace(epsilon, 20_000, random.Random(0))
    q = np.exp(-epsilon)
    variance, fourth = 2 * q / (1 - q) ** 2, np.mean(draws.astype(float) ** 4)
    assert abs(draws.mean()) < 4 * np.sqrt(variance / len(draws))
    assert abs((draws**2).mean() - variance) < 4 * np.sqrt(fourth / len(draws))
    for k in range(-3, 4):
        p = (1 - q) / (1 + q) * q ** abs(k)
        assert abs((draws == k).mean() - p) < 4 * np.sqrt(p * (1 - p) / len(draws))


def test_a_row_changes_the_chance_of_any_noisy_count_by_at_most_the_budget():
    epsilon, n = 1.0, 40_000
    noise = discrete_laplace(epsilon, n, random.Random(1))
    here, there = (np.array([(noise + count == k).mean() for k in range(3, 9)]) for count in (5, 6))
    slack = 4 * np.sqrt(1 / (n * here) + 1 / (n * there))
    assert (np.abs(np.log(here / there)) <= epsilon + slack).all()


@given(
    positive=st.lists(values, min_size=1, max_size=30),
    unlabeled=samples,
    gone=st.integers(0, 29),
)
def test_removing_a_row_changes_one_count_by_one(positive, unlabeled, gone):
    whole = GridCounts.of(positive, unlabeled)
    assert (whole.positive.sum(), whole.unlabeled.sum()) == (len(positive), len(unlabeled))
    if len(positive) > 1:
        gone %= len(positive)
        less = GridCounts.of(positive[:gone] + positive[gone + 1 :], unlabeled)
        assert np.abs(whole.positive - less.positive).sum() == 1
        assert_array_equal(whole.unlabeled, less.unlabeled)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    epsilon=st.sampled_from([0.02, 0.1, 1.0, 10.0]),
    n_positive=st.integers(1, 3000),
    n=st.integers(1, 20_000),
)
def test_noisy_tails_are_legal(seed, epsilon, n_positive, n):
    counts = GridCounts.of(*toy(seed, n_positive, n))
    try:
        tails = privatize(counts, epsilon, random_state=seed)
    except DataError:  # the noise exceeds the counts of few rows
        assume(False)
    assert (tails.counts >= 0).all()
    assert tails.counts.any()
    assert (tails.positive_counts[1:] > 0).all()
    assert tails.counts.dtype == tails.positive_counts.dtype == np.int64
    assert set(tails.levels) <= set(GRID)


def test_counts_lost_in_noise_are_an_error_with_a_way_out():
    with pytest.raises(DataError, match="larger epsilon"):
        privatize(GridCounts.of([0.0] * 3, [0.0] * 50), 0.01, random_state=0)


def test_without_noise_the_counts_are_those_of_the_grid():
    positive, unlabeled = toy()
    tails = privatize(GridCounts.of(positive, unlabeled), 200.0, random_state=0)
    exact = tails.empty().update(unlabeled)
    assert tails.n_positive == len(positive)
    assert_array_equal(tails.counts, exact.counts)


def test_a_seed_repeats_the_noise_and_the_system_does_not():
    counts = GridCounts.of(*toy())
    assert privatize(counts, 1.0, random_state=3) == privatize(counts, 1.0, random_state=3)
    assert privatize(counts, 1.0, random_state=3) != privatize(counts, 1.0, random_state=4)
    assert privatize(counts, 1.0) != privatize(counts, 1.0)  # equal with probability 1e-30


def test_intervals_widen_with_the_noise():
    counts = GridCounts.of(*toy(0, 2000, 20_000))
    sizes = [privatize(counts, epsilon, random_state=0).n_positive for epsilon in (0.1, 0.5, 1.0, 50.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] < 1000
    assert sizes[-1] == pytest.approx(2000)
    priors = [prior_from_tails(privatize(counts, epsilon, random_state=0)) for epsilon in (0.1, 50.0)]
    assert priors[0].high - priors[0].low > 1.5 * (priors[1].high - priors[1].low)


def test_sizes_are_noisy_too():
    counts = GridCounts.of(*toy())
    sizes = {(t.n_positive, t.n) for t in (privatize(counts, 0.5, random_state=s) for s in range(8))}
    assert len(sizes) == 8


@pytest.mark.parametrize(("epsilon", "bound"), [(1.0, 0.05), (5.0, 0.04)])
def test_the_prior_survives_the_noise(epsilon, bound):
    errors = []
    for seed in range(10):
        counts = GridCounts.of(*toy(seed, 2000, 20_000))
        errors.append(prior_from_tails(privatize(counts, epsilon, random_state=seed)).value - 0.3)
    assert np.abs(errors).mean() < bound


@pytest.mark.parametrize("epsilon", [0.0, -1.0, np.inf, np.nan, "1"])
def test_budgets_that_make_no_sense_are_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        privatize(GridCounts.of([0.0], [0.0]), epsilon)


def test_damaged_counts_are_refused():
    good = np.zeros(len(GRID), dtype=np.int64)
    for bad in (good[1:], good - 1, good.astype(float)):
        with pytest.raises(DataError, match="unlabeled"):
            GridCounts(good, bad)


def test_a_protection_is_the_same_after_json():
    import json
    from dataclasses import asdict

    note = Protection("discrete-laplace", 9, epsilon=1.0, grid=(-4.0, 4.0, 0.25), not_covered=("model",))
    assert Protection(**json.loads(json.dumps(asdict(note)))) == note
