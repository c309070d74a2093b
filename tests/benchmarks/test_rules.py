import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from benchmarks._rules import em, scott
from drpu import ScoreTails
from drpu.exceptions import ParameterError
from drpu.priors.calibration import monotone_cells

scores = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


def sample(prior, n_positive=500, n=5000, apart=3.0, seed=0):
    rng = np.random.default_rng(seed)
    positives = rng.binomial(n, prior)
    unlabeled = np.concatenate([rng.normal(apart, 1, positives), rng.normal(0, 1, n - positives)])
    return ScoreTails(rng.normal(apart, 1, n_positive)).update(unlabeled)


def by_the_book(tails, level):
    """The smallest ratio over all thresholds, with limits from the binomial test of scipy."""
    n, m = int(tails.n), int(tails.n_positive)
    best = 1.0
    for a, b in zip(tails.survival, tails.positive_survival, strict=True):
        # A two-sided interval at this level leaves (1 - level)/2 beyond each end.
        upper = binomtest(round(a * n), n).proportion_ci(level).high
        lower = binomtest(round(b * m), m).proportion_ci(level).low
        best = min(best, upper / lower)
    return best


@settings(max_examples=25, deadline=None)
@given(positive=scores, unlabeled=scores, level=st.sampled_from([0.5, 0.9, 0.99]))
def test_prior_is_the_least_ratio_of_exact_limits(positive, unlabeled, level):
    tails = ScoreTails(positive).update(unlabeled)
    assert scott(tails, level) == pytest.approx(by_the_book(tails, level), rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(positive=scores, unlabeled=scores)
def test_prior_is_a_share_that_grows_with_the_level(positive, unlabeled):
    tails = ScoreTails(positive).update(unlabeled)
    values = [scott(tails, level) for level in (0.5, 0.8, 0.95, 0.999)]
    assert values == sorted(values)
    assert values[0] > 0
    assert values[-1] <= 1


def test_prior_lies_above_the_ratio_it_bounds():
    tails = sample(0.4, n_positive=200, n=1000)
    assert scott(tails) > (tails.survival / tails.positive_survival).min()


@pytest.mark.parametrize(("prior", "low", "high"), [(0.0, 0.0, 0.02), (0.3, 0.27, 0.4), (1.0, 0.9, 1.0)])
def test_mean_prior_is_near_the_truth_and_not_below(prior, low, high):
    mean = np.mean([scott(sample(prior, seed=seed)) for seed in range(20)])
    assert low <= mean <= high


def test_bias_shrinks_as_samples_grow():
    small = np.mean([scott(sample(0.3, n_positive=50, n=250, seed=seed)) for seed in range(20)])
    large = np.mean([scott(sample(0.3, n_positive=20_000, n=100_000, seed=seed)) for seed in range(3)])
    assert abs(large - 0.3) < 0.5 * abs(small - 0.3)


@pytest.mark.parametrize("level", [0.0, 1.0, 1.2])
def test_level_lies_between_zero_and_one(level):
    with pytest.raises(ParameterError, match="level must lie strictly between 0 and 1"):
        scott(sample(0.3, n=50), level)


def later(n_positive, n, before, now, seed=0):
    """Counts of later rows, and of training rows."""
    reference = sample(before, n_positive, n, 2.0, seed)
    return reference.empty().update(
        np.random.default_rng(seed + 1).normal(2 * (np.arange(n) < now * n), 1)
    ), reference


def test_em_is_where_expectation_maximisation_ends():
    tails, reference = later(300, 1500, 0.5, 0.2)
    posterior = np.clip(0.5 * monotone_cells(reference), 0, 1)
    share, q = tails.counts / tails.counts.sum(), 0.5
    for _ in range(5000):
        up, down = posterior * q / 0.5, (1 - posterior) * (1 - q) / 0.5
        q = share @ (up / (up + down))
    assert_allclose(em(tails, reference, 0.5), q, atol=1e-5)


@pytest.mark.parametrize("train_prior", [0.0, 1.0])
def test_em_has_no_second_class_at_the_boundary(train_prior):
    assert em(*later(100, 500, 0.5, 0.2), train_prior) == train_prior


@pytest.mark.parametrize("now", [0.0, 0.3, 1.0])
def test_em_finds_the_later_prior(now):
    assert abs(em(*later(2000, 10_000, 0.4, now), 0.4) - now) < 0.04
