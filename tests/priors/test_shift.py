"""Readings of the prior of new rows, and what the best-scored rows say about it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import ScoreTails
from drpu.priors import Growth, fit_plateau, later_priors, normal_scores
from drpu.priors.limits import shift_limits
from drpu.priors.matching import (
    efficient,
    growth_since,
    match_negatives,
    match_samples,
    matching,
)
from drpu.priors.plateau import separation_of
from tails_data import drawn, scores

inner = st.floats(0.05, 0.95)
SHIFTS = {"matching": matching, "efficient": efficient}


def pair(rng, n_positive, n, before, now, separation=2.0):
    """Tails of the new sample and of its reference."""
    reference = ScoreTails(rng.normal(separation, 1, n_positive)).update(scores(rng, n, before, separation))
    return reference.empty().update(scores(rng, n, now, separation)), reference


def exact_pair(positive, negative, before, now):
    """Tails whose unlabeled counts are mixtures of the two classes without any noise.

    The reference has 10**12 positives and rows, for which the noise correction of
    matching is negligible.
    """
    n = 10**12

    def counts(prior):
        return np.rint(n * (prior * positive + (1 - prior) * negative)).astype(np.int64)

    empty = ScoreTails(np.arange(len(positive) - 1)).with_positives(counts(1.0))
    return empty.empty().add_counts(counts(now)), empty.empty().add_counts(counts(before))


def cell_shares(seed, size, *, first):
    """Random masses of cells; no positive is in the first one, below all levels."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(size))
    return shares if first else np.append(0.0, shares[1:] / shares[1:].sum())


# -- all of them -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize(("before", "now"), [(0.4, 0.6), (0.5, 0.1), (0.2, 0.9)])
def test_estimates_approach_the_new_prior_as_samples_grow(name, before, now):
    rng = np.random.default_rng(0)
    errors = {
        n: np.mean([abs(SHIFTS[name](*pair(rng, n, 4 * n, before, now), before) - now) for _ in range(10)])
        for n in (50, 5000)
    }
    # With a known training prior, standard errors are of order 1 / sqrt(n): .015 here.
    assert errors[5000] < 0.025
    assert errors[5000] < errors[50]


@pytest.mark.parametrize("name", SHIFTS)
def test_a_sample_like_its_reference_has_its_prior(name):
    tails, reference = pair(np.random.default_rng(1), 500, 5000, 0.3, 0.3)
    # Matching corrects for the noise of two samples although there is one.
    assert_allclose(SHIFTS[name](reference, reference, 0.3), 0.3, atol=1e-3)
    assert abs(SHIFTS[name](tails, reference, 0.3) - 0.3) < 0.05


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("train_prior", [0.0, 0.3, 1.0])
def test_a_score_that_never_changes_has_seen_nothing_move(name, train_prior):
    reference = ScoreTails([1.0] * 20).update([1.0] * 50)
    tails = reference.empty().update([1.0] * 30)
    assert SHIFTS[name](tails, reference, train_prior) == pytest.approx(train_prior, abs=1e-9)


@pytest.mark.parametrize("name", SHIFTS)
def test_with_positives_only_in_training_nothing_else_can_be_seen(name):
    tails, reference = pair(np.random.default_rng(3), 300, 1000, 1.0, 0.5)
    assert SHIFTS[name](tails, reference, 1.0) == 1


@pytest.mark.parametrize("name", SHIFTS)
@pytest.mark.parametrize("now", [0.0, 0.4, 1.0])
def test_with_negatives_only_in_training_the_new_prior_is_found(name, now):
    tails, reference = pair(np.random.default_rng(4), 2000, 10_000, 0.0, now)
    assert abs(SHIFTS[name](tails, reference, 0.0) - now) < 0.04


# -- matching ------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.integers(3, 8), inner, inner)
def test_efficient_is_exact_on_exact_mixtures_however_wrong_its_densities(seed, size, before, now):
    # Every function of the score gives the correct result; the plateau only selects one.
    positive, negative = cell_shares(seed, size, first=False), cell_shares(seed + 1, size, first=True)
    assert_allclose(efficient(*exact_pair(positive, negative, before, now), before), now, atol=1e-3)


def test_noise_does_not_pull_the_growth_towards_0():
    rng = np.random.default_rng(7)
    grown = [match_negatives(*pair(rng, 60, 300, 0.7, 0.2, 1.0)) for _ in range(400)]
    # The standard error of the median is about .07; uncorrected least squares have a median of 2.2.
    assert abs(np.median(grown) - 0.8 / 0.3) < 0.3


@pytest.mark.parametrize(
    ("n_positive", "n", "before", "now", "separation", "held"),
    [(20, 1500, 0.3, 0.6, 1.0, 0.93), (50, 1000, 0.05, 0.6, 3.0, 0.97), (100, 1000, 0.3, 0.05, 2.0, 0.95)],
)
def test_the_growth_is_unbiased_and_its_limits_hold_with_few_positives(
    n_positive, n, before, now, separation, held
):
    rng = np.random.default_rng(3)
    matches = [match_samples(*pair(rng, n_positive, n, before, now, separation)) for _ in range(400)]
    growth = (1 - now) / (1 - before)
    errors = np.array([match.value for match in matches]) - growth
    # Shares above thresholds that count their own positive would bias the first by 0.05.
    assert abs(errors.mean()) < 3 * errors.std() / np.sqrt(400)
    limits = np.array([match.limits(1.96) for match in matches])
    assert (limits[:, 0] <= growth).mean() >= held
    assert (limits[:, 1] >= growth).mean() >= held


def test_a_score_that_separates_nothing_has_no_growth():
    reference = ScoreTails([1.0] * 10).update([1.0] * 100)
    assert match_samples(reference.empty().update([1.0, 0.0]), reference) is None
    assert match_negatives(reference.empty().update([1.0, 0.0]), reference) == 1.0
    assert growth_since(reference.empty().update([1.0, 0.0]), reference, 0.3) is None


@pytest.mark.parametrize("now", [0.05, 0.5, 0.9])
def test_efficient_solves_its_moment_at_its_own_answer(now):
    tails, reference = pair(np.random.default_rng(10), 400, 2000, 0.3, now)
    q = efficient(tails, reference, 0.3)
    eta = np.clip(0.3 * fit_plateau(reference)(normal_scores(reference)), 0.01, 0.99)
    positive, negative = eta / 0.3, (1 - eta) / 0.7
    h = (positive - negative) / (q * positive + (1 - q) * negative)
    of_positive, before, after = (
        counts @ h / counts.sum() for counts in (reference.positive_counts, reference.counts, tails.counts)
    )
    again = 1 - 0.7 * (after - of_positive) / (before - of_positive)
    assert abs(again - q) < 0.004  # five rounds converge to well below the noise, about .02


def test_growth_is_never_negative():
    reference = ScoreTails([0.0, 1.0, 2.0]).update([-1.0, -1.0, 0.5])
    assert match_negatives(reference.empty().update([5.0] * 20), reference) == 0


def test_efficient_has_the_smallest_spread():
    rng = np.random.default_rng(8)
    draws = [pair(rng, 300, 1000, 0.5, 0.2) for _ in range(60)]
    error = {name: np.mean([(SHIFTS[name](*draw, 0.5) - 0.2) ** 2 for draw in draws]) for name in SHIFTS}
    assert error["efficient"] < 1.1 * error["matching"]
    assert np.sqrt(error["efficient"]) < 0.04


# -- training priors that are not known exactly ------------------------------------------


@given(
    priors=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=10),
    growth=st.floats(0.05, 4),
    spread=st.floats(0.02, 1),
)
def test_later_priors_are_those_of_bayes_with_equally_likely_later_priors(priors, growth, spread):
    weights, later = later_priors(priors, Growth(growth, spread))
    assert_allclose(weights.sum(), 1)
    shares = np.linspace(0, 1, 20_001)
    evidence, means = [], []
    for prior in priors:
        deviation = ((1 - shares) / (1 - prior) - growth) / spread
        log_density = -(deviation**2) / 2
        highest = log_density.max()
        density = np.exp(log_density - highest)
        evidence.append(highest + np.log(density.sum()))
        means.append(density @ shares / density.sum())
    expected = np.exp(np.array(evidence) - max(evidence))
    assert_allclose(weights, expected / expected.sum(), atol=0.001)
    assert_allclose(later, means, atol=0.001)


@given(priors=st.lists(st.floats(0.01, 0.9), min_size=2, max_size=10), now=inner)
def test_an_exact_growth_moves_every_training_prior_for_which_it_is_possible(priors, now):
    growth = (1 - now) / (1 - max(priors))
    weights, later = later_priors(priors, Growth(growth))
    expected = 1 - growth * (1 - np.array(priors))
    possible = expected >= 0
    assert_allclose(later[possible], expected[possible], atol=0.001)
    assert weights[expected < -0.01].sum() < 1e-6
    assert_allclose(later[~possible], 0, atol=0.001)


# -- evidence of the best-scored rows ----------------------------------------------------------------


def test_the_index_is_a_lower_bound_of_the_true_one():
    # For equal-variance normals the plateau's shape is right, so that its lower limit of the prior,
    # and with it the index, holds in all but about 2.5 % of samples: at most 4 of 40 (p = .003).
    true = 0.683  # two standard deviations apart
    above = sum(separation_of(drawn(seed, 300, 3000, 0.3, 2.0)).least_youden > true for seed in range(40))
    assert above <= 4


@pytest.mark.parametrize(
    "n", [1, pytest.param(3, marks=pytest.mark.slow), 5, pytest.param(20, marks=pytest.mark.slow), 60]
)
@pytest.mark.parametrize("prior", [0.0, 0.05, 0.3, 0.8])
def test_limits_hold_for_few_new_rows_where_the_training_prior_is_known(n, prior):
    rng = np.random.default_rng([n, round(100 * prior)])
    reference = drawn(3, 500, 5000, 0.3, 3.0)
    runs, missed = 200, 0
    for _ in range(runs):
        new = rng.normal(3.0 * (rng.random(n) < prior), 1)
        limits = shift_limits(reference.empty().update(new), reference, 0.95, train_prior=0.3)
        missed += not limits.low <= prior <= limits.high
    # At most 5 % by the binomial limits; three standard errors of 200 runs are 4.6 %.
    assert missed / runs < 0.096


def test_limits_of_the_training_prior_widen_those_of_the_new_one():
    reference = drawn(4, 500, 5000, 0.3, 3.0)
    for n in (20, 2000):
        new = reference.empty().update(np.random.default_rng(5).normal(0, 1, n))
        exact = shift_limits(new, reference, 0.95, train_prior=0.3)
        audited = shift_limits(new, reference, 0.95, train_prior=0.3, train_limits=(0.2, 0.4))
        assert audited.low <= exact.low
        assert audited.high > exact.high
