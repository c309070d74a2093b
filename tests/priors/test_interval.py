"""Laws of the upper limit of a prior, which needs no assumption about the classes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import binom

from drpu import ScoreTails
from drpu.exceptions import ParameterError
from drpu.priors.limits import critical_value, upper_limit
from tails_data import drawn, mixture

LEVELS = (0.05, 0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)


# -- laws over all inputs ----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_positive", "prior"), [(20, 0.6), (200, 0.1), (200, 0.9)])
def test_the_limit_rises_with_the_level(seed, n_positive, prior):
    tails = drawn(seed, n_positive, 1000, prior, 2.5)
    limits = [upper_limit(tails, level).prior for level in LEVELS]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1] or limits[0] == 1


@pytest.mark.parametrize("seed", range(3))
def test_only_the_ranking_of_scores_matters(seed):
    rng = np.random.default_rng(seed)
    positive, unlabeled = rng.normal(1.5, 1, 200), mixture(rng, 2000, 0.3, 1.5)
    found = upper_limit(ScoreTails(positive).update(unlabeled), 0.95)
    moved = upper_limit(ScoreTails(np.arctan(positive)).update(np.arctan(unlabeled)), 0.95)
    assert moved == found


def test_more_rows_lower_the_limit_on_average():
    means = []
    for n in (100, 1000, 10_000):
        means.append(np.mean([upper_limit(drawn(seed, n, 5 * n, 0.3), 0.95).prior for seed in range(20)]))
    assert means == sorted(means, reverse=True)
    assert means[-1] > 0.3


def test_uneven_weights_raise_the_limit():
    rng = np.random.default_rng(7)
    positive, unlabeled = rng.normal(2, 1, 300), mixture(rng, 3000, 0.4, 2.5)
    even = ScoreTails(positive).update(unlabeled)
    uneven = ScoreTails(positive, rng.exponential(size=300) ** 2)
    uneven.update(unlabeled, rng.exponential(size=3000) ** 2)
    assert upper_limit(uneven, 0.95).prior > upper_limit(even, 0.95).prior


@pytest.mark.parametrize("level", [0, 1, -1, 95, np.nan])
def test_levels_lie_strictly_between_0_and_1(level):
    with pytest.raises(ParameterError, match="level must"):
        upper_limit(drawn(0, 50, 100, 0.3), level)


# -- data with little information ---------------------------------------------------------


@pytest.mark.parametrize("positive", [[1.0], [1.0, 2.0, 3.0, 4.0], [0.0] * 30], ids=["one", "four", "tied"])
def test_nothing_is_claimed_without_positives_to_rank(positive):
    limit = upper_limit(ScoreTails(positive).update([0.0] * 40), 0.95)
    assert (limit.prior, limit.recall) == (1.0, 1.0)


def test_a_score_the_wrong_way_round_limits_nothing():
    rng = np.random.default_rng(8)
    tails = ScoreTails(rng.normal(-3, 1, 50)).update(rng.normal(0, 1, 500))
    assert upper_limit(tails, 0.95).prior == 1


def test_no_sample_is_known_to_have_no_positives():
    for n in (50, 1000):
        limit = upper_limit(drawn(0, 200, n, 0.0, 8.0), 0.95).prior
        assert 0 < limit < 10 / n + 0.02


def test_a_sample_of_positives_can_be_all_positive():
    assert upper_limit(drawn(9, 200, 2000, 1.0, 8.0), 0.95).prior == 1


# -- coverage ------------------------------------------------------------------------------


def assert_covers(seed, coverage, holds, runs=150):
    """Check that ``holds(rng)`` is true as often as stated, but for a chance of 1e-4."""
    rng = np.random.default_rng(seed)
    assert sum(holds(rng) for _ in range(runs)) >= binom.ppf(1e-4, runs, coverage)


def counted(rng, tails, n, prior, apart):
    """``n`` rows of a Gaussian mixture, drawn cell by cell."""
    survival = prior * ndtr(apart - tails.levels) + (1 - prior) * ndtr(-tails.levels)
    share = -np.diff(np.concatenate(([1.0], survival, [0.0])))
    return replace(tails.record(), counts=rng.multinomial(n, np.maximum(share, 0))).tails()


@pytest.mark.parametrize("apart", [1.0, 3.5, 6.0])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_limit_holds_at_its_level(apart, level):
    def holds(rng):
        tails = ScoreTails(rng.normal(apart, 1, 120))
        return upper_limit(counted(rng, tails, 1500, 0.3, apart), level).prior >= 0.3

    assert_covers(20, (1 + level) / 2, holds)


@pytest.mark.parametrize("prior", [0.003, 0.01, 0.05])
def test_the_limit_holds_for_rare_positives(prior):
    def holds(rng):
        tails = ScoreTails(rng.normal(3.0, 1, 200))
        return upper_limit(counted(rng, tails, 4000, prior, 3.0), 0.95).prior >= prior

    assert_covers(21, 0.975, holds)


def test_the_limit_holds_where_negatives_reach_the_top():
    def holds(rng):  # a tenth of the negatives look like positives: 0.37 is the mixture proportion
        tails = ScoreTails(rng.normal(3, 1, 120))
        return upper_limit(counted(rng, tails, 1500, 0.37, 3.0), 0.95).prior >= 0.37

    assert_covers(22, 0.975, holds)


def test_the_limit_approaches_what_saturated_scores_show():
    visible = 0.3 + 0.7 * ndtr(-2.5) / 0.5  # half of the positives share the top score
    rng = np.random.default_rng(24)
    positive, unlabeled = rng.normal(2.5, 1, 20_000), mixture(rng, 200_000, 0.3, 2.5)
    tails = ScoreTails(np.minimum(positive, 2.5)).update(np.minimum(unlabeled, 2.5))
    assert visible - 0.005 < upper_limit(tails, 0.95).prior < visible + 0.02


# -- the parts -------------------------------------------------------------------------------


def test_the_critical_value_is_that_of_a_stepped_brownian_curve():
    rng = np.random.default_rng(26)
    step, points = np.log(2) / 4, 20
    clock = np.exp(step * np.arange(points))
    moves = rng.normal(size=(100_000, points)) * np.sqrt(np.diff(clock, prepend=0.0))
    highest = (moves.cumsum(axis=1) / np.sqrt(clock)).max(axis=1)
    for tail in (0.1, 0.025):
        c = critical_value(tail, step * (points - 1))
        assert_allclose((highest > c).mean(), tail, rtol=0.06)
