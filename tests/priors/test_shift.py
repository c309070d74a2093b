"""The growth of the negatives between two samples, and the priors of new rows that follow from it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from drpu import ScoreTails
from drpu.priors import Growth, later_priors
from drpu.priors.matching import growth_since
from tails_data import scores

inner = st.floats(0.05, 0.95)


def pair(rng, n_positive, n, before, now, separation=2.0):
    """Tails of the new sample and of its reference."""
    reference = ScoreTails(rng.normal(separation, 1, n_positive)).update(scores(rng, n, before, separation))
    return reference.empty().update(scores(rng, n, now, separation)), reference


def exact_pair(positive, negative, before, now):
    """Tails whose unlabeled counts are mixtures of the two classes without any noise."""
    n = 10**12

    def counts(prior):
        return np.rint(n * (prior * positive + (1 - prior) * negative)).astype(np.int64)

    empty = ScoreTails(np.arange(len(positive) - 1)).with_positives(counts(1.0))
    return empty.empty().add_counts(counts(now)), empty.empty().add_counts(counts(before))


def cell_shares(seed, size, *, first):
    """Random masses of cells; no positive is in the first one, below all levels."""
    shares = np.random.default_rng(seed).dirichlet(np.ones(size))
    return shares if first else np.append(0.0, shares[1:] / shares[1:].sum())


def shifted(tails, reference, train_prior):
    """The prior of new rows if that of training is known."""
    growth = growth_since(tails, reference, train_prior)
    if growth is None:
        return train_prior
    return min(max(1 - growth.value * (1 - train_prior), 0), 1)


# -- the prior from a known training prior ---------------------------------------------------------


@pytest.mark.parametrize(("before", "now"), [(0.4, 0.6), (0.5, 0.1), (0.2, 0.9)])
def test_estimates_approach_the_new_prior_as_samples_grow(before, now):
    rng = np.random.default_rng(0)
    errors = {}
    for n in (50, 5000):
        samples = [pair(rng, n, 4 * n, before, now) for _ in range(10)]
        errors[n] = np.mean([abs(shifted(*tails, before) - now) for tails in samples])
    # With a known training prior, standard errors are of order 1 / sqrt(n): .015 here.
    assert errors[5000] < 0.025
    assert errors[5000] < errors[50]


def test_a_sample_like_its_reference_has_its_prior():
    tails, reference = pair(np.random.default_rng(1), 500, 5000, 0.3, 0.3)
    assert_allclose(shifted(reference, reference, 0.3), 0.3, atol=1e-9)
    assert abs(shifted(tails, reference, 0.3) - 0.3) < 0.05


@pytest.mark.parametrize("train_prior", [0.0, 0.3, 1.0])
def test_a_score_that_never_changes_has_seen_nothing_move(train_prior):
    reference = ScoreTails([1.0] * 20).update([1.0] * 50)
    tails = reference.empty().update([1.0] * 30)
    assert shifted(tails, reference, train_prior) == pytest.approx(train_prior, abs=1e-9)


def test_with_positives_only_in_training_nothing_else_can_be_seen():
    tails, reference = pair(np.random.default_rng(3), 300, 1000, 1.0, 0.5)
    assert shifted(tails, reference, 1.0) == 1


@pytest.mark.parametrize("now", [0.0, 0.4, 1.0])
def test_with_negatives_only_in_training_the_new_prior_is_found(now):
    tails, reference = pair(np.random.default_rng(4), 2000, 10_000, 0.0, now)
    assert abs(shifted(tails, reference, 0.0) - now) < 0.04


@given(st.integers(0, 10**6), st.integers(3, 8), inner, inner)
def test_the_growth_is_exact_on_exact_mixtures_however_wrong_its_densities(seed, size, before, now):
    # Every function of the score gives the correct result; the plateau only selects one.
    positive, negative = cell_shares(seed, size, first=False), cell_shares(seed + 1, size, first=True)
    assert_allclose(shifted(*exact_pair(positive, negative, before, now), before), now, atol=1e-3)


# -- the growth of the negatives -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_positive", "n", "before", "now", "separation"),
    [(20, 1500, 0.3, 0.6, 1.0), (50, 1000, 0.05, 0.6, 3.0), (100, 1000, 0.3, 0.05, 2.0)],
)
def test_the_growth_lies_within_its_error(n_positive, n, before, now, separation):
    rng = np.random.default_rng(3)
    truth = (1 - now) / (1 - before)
    runs = 100
    errors = []
    for _ in range(runs):
        tails, reference = pair(rng, n_positive, n, before, now, separation)
        growth = growth_since(tails, reference, before)
        errors.append((growth.value - truth) / growth.spread)
    # If no positive could be below all others, the first would be held by 69 %.
    assert np.mean(np.abs(errors) <= 2) >= 0.85


def test_a_rough_training_prior_moves_the_growth_by_less_than_its_error():
    tails, reference = pair(np.random.default_rng(5), 300, 3000, 0.3, 0.6)
    exact = growth_since(tails, reference, 0.3)
    rough = growth_since(tails, reference, 0.15)
    assert abs(rough.value - exact.value) < exact.spread


def test_more_rows_make_the_growth_surer():
    spreads = []
    for n in (200, 2000, 20_000):
        tails, reference = pair(np.random.default_rng(6), n, n, 0.3, 0.6)
        spreads.append(growth_since(tails, reference, 0.3).spread)
    assert spreads == sorted(spreads, reverse=True)


def test_a_score_that_separates_nothing_has_no_growth():
    reference = ScoreTails([1.0] * 10).update([1.0] * 100)
    assert growth_since(reference.empty().update([1.0, 0.0]), reference, 0.3) is None


def test_tied_positives_count_as_they_are():
    """Half of the positives have the upper of two scores, and so half of the new positives."""
    reference = ScoreTails([0.0, 1.0] * 10).update([0.0] * 1600 + [1.0] * 400)
    tails = reference.empty().update([0.0] * 700 + [1.0] * 300)
    growth = growth_since(tails, reference, 0.4)
    assert growth.value == pytest.approx(0.2 / 0.3, abs=0.02)


def test_growth_is_never_negative():
    reference = ScoreTails([0.0, 1.0, 2.0]).update([-1.0, -1.0, 0.5])
    growth = growth_since(reference.empty().update([5.0] * 20), reference, 0.3)
    assert 0 <= growth.value < 0.01


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
