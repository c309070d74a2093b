"""Laws of the confidence limits of priors."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import binom

import tails_data
from drpu import PriorEstimate, ScoreTails
from drpu.priors import prior_from_tails
from drpu.priors.limits import critical_value, ratio_limits, shift_limits
from tails_data import mixture


def pair(seed, **options):
    return tails_data.pair(np.random.default_rng(seed), **options)


RULES = {
    "ratio": lambda new, reference, level: ratio_limits(reference, level),
    "shift": shift_limits,
    "known": lambda new, reference, level: shift_limits(new, reference, level, train_prior=0.3),
}

every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


# -- laws over all inputs ----------------------------------------------------------------


@pytest.mark.parametrize("n_new", [50, 1000])
def test_no_sample_is_known_to_have_no_positives(n_new):
    tails, reference = pair(0, n_new=n_new, prior=0.6, new=0.05)
    limits = shift_limits(tails, reference, 0.95, train_prior=0.2)  # the difference is below 0
    assert limits.low == 0
    assert 0 < limits.high < 0.2


@every_rule
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_positive", "new"), [(20, 0.6), (200, 0.1), (200, 0.9)])
def test_limits_widen_with_the_level(rule, seed, n_positive, new):
    tails, reference = pair(seed, n_positive=n_positive, new=new)
    found = [rule(tails, reference, level) for level in (0.05, 0.5, 0.8, 0.9, 0.95, 0.99, 0.9999)]
    low, high = np.array([limits.low for limits in found]), np.array([limits.high for limits in found])
    assert (np.diff(low) <= 0).all()
    assert (np.diff(high) >= 0).all()


def test_uneven_weights_widen_the_limits():
    rng = np.random.default_rng(7)
    p, u = rng.normal(2, 1, 300), mixture(rng, 3000, 0.4, 2.5)
    even = ratio_limits(ScoreTails(p).update(u), 0.95)
    uneven = ratio_limits(
        ScoreTails(p, rng.exponential(size=300) ** 2).update(u, rng.exponential(size=3000) ** 2), 0.95
    )
    assert uneven.high - uneven.low > even.high - even.low


# -- data with little information ---------------------------------------------------------


@pytest.mark.parametrize("positive", [[1.0], [1.0, 2.0, 3.0, 4.0], [0.0] * 30], ids=["one", "four", "tied"])
def test_nothing_is_claimed_without_positives_to_rank(positive):
    reference = ScoreTails(positive).update([0.0] * 40)
    new = reference.empty().update([0.0] * 10)
    for limits in (ratio_limits(reference, 0.95), shift_limits(new, reference, 0.95)):
        assert (limits.low, limits.high, limits.recall) == (0.0, 1.0, 1.0)


def test_a_score_the_wrong_way_round_gives_no_lower_limit():
    rng = np.random.default_rng(8)
    tails = ScoreTails(rng.normal(-3, 1, 50)).update(rng.normal(0, 1, 500))
    limits = ratio_limits(tails, 0.95)
    assert limits.low == 0.0
    assert limits.separation <= 0


def test_there_is_no_lower_limit_where_the_best_scored_rows_may_be_negatives():
    # The tails alone would give .73, .22 and .11, as if the best-scored rows were all positive.
    for apart in (0.1, 0.3, 1.0):
        assert ratio_limits(tails_data.drawn(1, 500, 5000, 0.3, apart), 0.95).low == 0
    assert ratio_limits(tails_data.drawn(1, 500, 5000, 0.3, 4.0), 0.95).low > 0.2


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_priors_at_the_ends_are_inside(prior):
    tails, reference = pair(9, prior=0.3, new=prior, apart=8.0)
    alone, beside = ratio_limits(tails, 0.95), shift_limits(tails, reference, 0.95)
    assert alone.low <= prior <= alone.high
    assert beside.low <= prior <= beside.high
    assert beside.high - beside.low < 0.2
    known = shift_limits(tails, reference, 0.95, train_prior=0.3)
    assert known.low - 0.03 <= prior <= known.high + 0.03


def test_a_handful_of_new_rows_proves_nothing():
    _, reference = pair(10, apart=6.0)
    for row in (-5.0, 6.0):
        limits = shift_limits(reference.empty().update([row]), reference, 0.95, train_prior=0.3)
        assert limits.high - limits.low > 0.3


@pytest.mark.parametrize("n_new", [50, 500])
def test_limits_stay_within_0_and_1_if_rows_score_higher_than_positives(n_new):
    _, reference = pair(12, apart=1.0)
    new = reference.empty().update(np.full(n_new, 9.0))
    vague = PriorEstimate(0.3, 0.1, 0.6, 0.95, "central", identified=False, upper=0.5)
    later = prior_from_tails(new, reference=reference, train_prior=vague, warn=False)
    for limits in (shift_limits(new, reference, 0.95), later):
        assert 0 <= limits.low <= limits.high <= 1


def test_a_reference_without_negatives_falls_back_on_one_sample():
    tails, reference = pair(11)
    assert shift_limits(tails, reference, 0.95, train_prior=1.0) == shift_limits(tails, reference, 0.95)


# -- coverage of the limits ------------------------------------------------------------------


def assert_covers(seed, coverage, holds, runs=150):
    """Check that ``holds(rng)`` is true as often as stated, but for a chance of 1e-4."""
    rng = np.random.default_rng(seed)
    assert sum(holds(rng) for _ in range(runs)) >= binom.ppf(1e-4, runs, coverage)


def counted(rng, tails, n, prior, apart):
    """``n`` rows of a Gaussian mixture, drawn cell by cell."""
    survival = prior * ndtr(apart - tails.levels) + (1 - prior) * ndtr(-tails.levels)
    share = -np.diff(np.concatenate(([1.0], survival, [0.0])))
    return replace(tails.record(), counts=rng.multinomial(n, np.maximum(share, 0))).tails()


@pytest.mark.parametrize("apart", [2.0, pytest.param(3.5, marks=pytest.mark.slow)])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_ratio_limits_cover_a_prior_with_a_pure_tail(apart, level):
    def holds(rng):
        tails = ScoreTails(rng.normal(apart, 1, 120))
        limits = ratio_limits(counted(rng, tails, 1500, 0.3, apart), level)
        return limits.low <= 0.3 <= limits.high

    assert_covers(20, level - 0.02, holds)


@pytest.mark.parametrize("new", [0.1, pytest.param(0.7, marks=pytest.mark.slow)])
@pytest.mark.parametrize("known", [None, 0.3])
def test_shift_limits_cover_the_new_prior(new, known):
    def holds(rng):
        tails = ScoreTails(rng.normal(2.5, 1, 120))
        reference = counted(rng, tails, 1500, 0.3, 2.5)
        limits = shift_limits(counted(rng, tails, 1000, new, 2.5), reference, 0.95, train_prior=known)
        return limits.low <= new <= limits.high

    assert_covers(21, 0.93, holds)


def test_a_known_prior_narrows_the_limits_to_about_half():
    widths = []
    for seed in range(20):
        tails, reference = pair(seed)
        found = [shift_limits(tails, reference, 0.95, train_prior=known) for known in (None, 0.3)]
        widths.append([limits.high - limits.low for limits in found])
    unknown, known = np.mean(widths, axis=0)
    assert known < 0.7 * unknown


def test_high_bounds_the_prior_where_negatives_reach_the_top():
    def holds(rng):  # a tenth of the negatives look like positives: 0.37 is the identified prior
        tails = ScoreTails(rng.normal(3, 1, 120))
        return ratio_limits(counted(rng, tails, 1500, 0.37, 3.0), 0.95).high >= 0.3

    assert_covers(22, 0.975, holds)


def test_saturated_scores_bound_what_can_be_seen():
    visible = 0.3 + 0.7 * ndtr(-2.5) / 0.5  # half of the positives share the top score

    def holds(rng):
        p, u = rng.normal(2.5, 1, 150), mixture(rng, 1500, 0.3, 2.5)
        limits = ratio_limits(ScoreTails(np.minimum(p, 2.5)).update(np.minimum(u, 2.5)), 0.95)
        return limits.low <= visible <= limits.high

    assert_covers(24, 0.93, holds, runs=120)


def test_separation_is_the_largest_difference_of_the_two_classes():
    _, reference = pair(25, n_positive=5000, n=50_000, apart=2.0)
    assert_allclose(ratio_limits(reference, 0.95).separation, 2 * ndtr(1.0) - 1, atol=0.05)


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
