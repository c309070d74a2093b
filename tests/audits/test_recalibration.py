"""Laws of recalibration: a map of the log-odds from a few answers, and the share of positives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from drpu.audits.evaluation import Answers, draw_rows, make_strata
from drpu.audits.recalibration import (
    DesignedSample,
    assisted_share,
    continued_map,
    for_next_period,
    join_samples,
    recalibrate,
)
from drpu.priors.figures import exact_limit
from drpu.state.reference import FARTHEST, TRAINED, LogOddsMap, RowLogOdds, bounded_log_odds

TAILS = (0.025, 0.025)
answers = st.lists(st.tuples(st.floats(-20, 20), st.booleans()), min_size=1, max_size=40)
centres = st.builds(LogOddsMap, st.floats(-4, 4), st.floats(0.05, 4))


def split(parts):
    return np.array([z for z, _ in parts]), np.array([y for _, y in parts])


def fit_map(z, y, centre: LogOddsMap = TRAINED) -> LogOddsMap:
    return continued_map([(z, y)], centre=centre, memory=1.0)


def period(seed: int, n: int, intercept: float = 0.0, slope: float = 1.0, spread: float = 2.0):
    """Trained log-odds and classes of a period in which the map is ``intercept + slope z``."""
    rng = np.random.default_rng(seed)
    z = np.clip(spread * rng.normal(size=n), -FARTHEST, FARTHEST)
    return z, rng.random(n) < expit(intercept + slope * z)


def at_random(z, y, n: int, seed: int) -> DesignedSample:
    at = np.random.default_rng(seed).permutation(len(z))[:n]
    return DesignedSample.of(z[at], Answers(y[at], np.zeros(n, dtype=np.int64), np.array([len(z)])))


def by_score(z, y, n: int, seed: int) -> DesignedSample:
    strata = make_strata(z, expit(z), n, 0.5)
    at = draw_rows(strata, z, np.random.RandomState(seed))
    return DesignedSample.of(z[at], Answers(y[at], strata.of(z[at]), strata.rows))


# -- the map -------------------------------------------------------------------------------------


@given(centres)
def test_without_answers_the_map_is_its_centre(centre):
    found = fit_map(np.empty(0), np.empty(0, dtype=bool), centre=centre)
    assert_allclose([found.intercept, found.slope], [centre.intercept, centre.slope], rtol=1e-9)
    assert found.n == 0


def test_with_many_answers_the_map_is_the_logistic_fit():
    z, y = period(0, 20_000, -1.0, 0.6)
    found = fit_map(z, y)

    def loss(at):
        eta = at[0] + at[1] * z
        return -np.where(y, log_expit(eta), log_expit(-eta)).mean()

    fit = minimize(loss, [0.0, 1.0], tol=1e-12).x
    # The prior moves the fit by its gradient, at most 4, over the information, about 3000.
    assert_allclose([found.intercept, found.slope], fit, atol=4e-3)
    spread = np.sqrt([found.covariance[0], found.covariance[2]])
    assert (np.abs([found.intercept + 1, found.slope - 0.6]) < 4 * spread).all()
    assert (spread < 0.05).all()


@given(answers, centres)
@settings(max_examples=60, deadline=None)
def test_no_other_map_is_likelier(parts, centre):
    z, y = split(parts)
    z = np.clip(z, -FARTHEST, FARTHEST)
    found = fit_map(z, y, centre=centre)

    def loss(a, b):
        eta, ratio = a + b * z, b / centre.slope
        return (
            -np.where(y, log_expit(eta), log_expit(-eta)).sum()
            + (a - centre.intercept) ** 2 / 18
            + 4 * (ratio - math.log(ratio))
        )

    best = loss(found.intercept, found.slope)
    for step in ((0.01, 0), (-0.01, 0), (0, 0.01), (0, -0.01), (0.01, -0.01)):
        other = found.intercept + step[0], found.slope * (1 + step[1])
        assert loss(*other) >= best - 1e-9


@given(answers, centres)
@settings(max_examples=60, deadline=None)
def test_the_slope_is_positive_and_everything_is_finite(parts, centre):
    found = fit_map(*split(parts), centre=centre)
    assert found.slope > 0
    assert np.isfinite([found.intercept, found.slope, *found.covariance, *found.information]).all()
    variance_a, shared, variance_b = found.covariance
    assert variance_a > 0
    assert variance_a * variance_b > shared**2


@given(st.lists(st.sampled_from([-math.inf, -1e300, -1.0, 0.0, 2.0, 1e300, math.inf]), min_size=1))
@settings(deadline=None)
def test_extreme_log_odds_do_not_overflow(values):
    z = np.array(values)
    found = fit_map(z, z > 0)
    assert np.isfinite([found.intercept, found.slope]).all()
    p = found.probability(z)
    assert ((p > 0) & (p < 1)).all()
    assert np.isfinite(bounded_log_odds(np.array([0.0, 1e-300, 0.5, 1.0]))).all()


@given(answers, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_answers_does_not_matter(parts, random):
    z, y = split(parts)
    order = random.sample(range(len(parts)), len(parts))
    one, other = fit_map(z, y), fit_map(z[order], y[order])
    assert_allclose([one.intercept, one.slope], [other.intercept, other.slope], rtol=1e-6, atol=1e-7)


def test_answers_of_several_periods_add_up_where_nothing_moves():
    together, kept, last = [], [], []
    for run in range(15):
        parts = [period(100 * run + k, 40, -1.0, 0.7) for k in range(5)]
        joined = np.concatenate([z for z, _ in parts]), np.concatenate([y for _, y in parts])
        for found, errors in (
            (fit_map(*joined), together),
            (continued_map(parts, memory=1.0), kept),
            (continued_map(parts, memory=0.0), last),
        ):
            errors.append((found.intercept + 1.0) ** 2 + (found.slope - 0.7) ** 2)
    # 200 answers have a fifth of the variance of 40; the choice of the memory costs a part of the gain.
    assert np.mean(together) < 0.35 * np.mean(last)
    assert np.mean(kept) < 0.6 * np.mean(last)


def test_old_answers_are_forgotten_where_the_map_moves():
    old, new = period(0, 400, 2.0, 1.0), period(1, 400, -2.0, 1.0)
    found, alone = continued_map([old, new], memory=1.0), fit_map(*new)
    assert_allclose(found.intercept, alone.intercept, atol=0.5 * math.sqrt(alone.covariance[0]))
    assert found.n < 500


@given(st.floats(0, 1))
def test_old_answers_count_as_much_as_the_memory_says(memory):
    z, y = period(0, 50)
    old = fit_map(z, y)
    kept = for_next_period(old, memory)
    assert_allclose(kept.n, memory * old.n)
    assert_allclose(kept.information, memory * np.array(old.information))
    assert (kept.intercept, kept.slope) == (old.intercept, old.slope)
    assert kept.covariance[0] >= old.covariance[0] * (1 - 1e-9)
    assert kept.covariance[0] <= TRAINED.covariance[0] * (1 + 1e-9)


@given(st.floats(0.001, 0.999), centres)
def test_the_mean_of_a_map_set_to_a_share_is_the_share(share, start):
    population = RowLogOdds.of(period(0, 400)[0])
    found = start.with_share(share, population)
    assert_allclose(found.probability(population.z).mean(), share, rtol=1e-6)
    assert found.slope == start.slope


# -- the share of positives ----------------------------------------------------------------------


@pytest.mark.parametrize("design", [at_random, by_score])
@pytest.mark.parametrize("found", [TRAINED, LogOddsMap(2.0, 0.3), LogOddsMap(-3.0, 2.0)])
def test_the_share_has_no_bias_under_the_design_for_any_map(design, found):
    z, y = period(1, 1000, -1.5, 0.5)
    mean = found.probability(z).mean()
    values = [mean + design(z, y, 30, seed).residual(found) for seed in range(400)]
    # Four standard errors of the mean of 400 audits of the same rows.
    assert abs(np.mean(values) - y.mean()) < 4 * np.std(values) / 20


@pytest.mark.parametrize("n", [5, 50])
@pytest.mark.parametrize(("intercept", "slope"), [(0.0, 1.0), (-3.5, 1.0), (-1.0, 0.0), (0.0, 2.5)])
@pytest.mark.parametrize("design", [pytest.param(at_random, marks=pytest.mark.slow), by_score])
def test_limits_hold_for_good_wrong_and_useless_scores(design, intercept, slope, n):
    z, _ = period(2, 100_000, intercept, slope)
    truth = expit(intercept + slope * z).mean()
    held, runs = 0, 60
    for seed in range(runs):
        z, y = period(seed, 800, intercept, slope)
        sample = design(z, y, n, seed)
        found = fit_map(sample.z, sample.positive)
        share = assisted_share(found, RowLogOdds.of(z), sample, tails=TAILS)
        held += share.low <= truth <= share.high
    # Three standard errors of a share of 0.95 in 60 runs.
    assert held / runs > 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)


@given(answers, centres, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_limits_differ_and_contain_a_value_inside_0_and_1(parts, found, strata):
    z, y = split(parts)
    stratum = np.arange(len(z)) % strata
    sample = DesignedSample.of(z, Answers(y, stratum, np.full(strata, 100)))
    share = assisted_share(found, RowLogOdds.of(np.linspace(-5, 5, 100 * strata)), sample)
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert 0 < share.value < 1
    assert share.high - share.low > 1e-3
    assert share.variance > 0


@pytest.mark.parametrize("kind", [True, False])
@pytest.mark.parametrize("n", [1, 10, 100])
def test_answers_of_one_kind_give_a_limit_and_leave_a_finite_map(kind, n):
    z, _ = period(0, 2000)
    sample = at_random(z, np.full(2000, kind), n, 0)
    population = RowLogOdds.of(z)
    found = fit_map(sample.z, sample.positive)
    share = assisted_share(found, population, sample)
    assert (share.high == 1.0) if kind else (share.low == 0.0)
    assert np.isfinite(found.with_share(share.value, population).intercept)


@given(st.integers(1, 60), st.data())
@settings(max_examples=40, deadline=None)
def test_a_score_without_information_gives_the_limits_of_clopper_and_pearson(n, data):
    hits = data.draw(st.integers(0, n))
    y = np.arange(n) < hits
    sample = DesignedSample.of(np.zeros(n), Answers(y, np.zeros(n, dtype=np.int64), np.array([n])))
    share = assisted_share(fit_map(sample.z, y), RowLogOdds.of(np.zeros(500)), sample)
    ends = [exact_limit(hits, n, 0.025, upper=upper) for upper in (False, True)]
    assert_allclose([share.low, share.high], ends, atol=1e-3)


def test_a_good_score_makes_limits_narrower_and_estimates_better():
    widths, errors = [], []
    for seed in range(60):
        z, y = period(seed, 1500, 0.0, 1.0, 4.0)
        sample = at_random(z, y, 50, seed)
        share = assisted_share(fit_map(sample.z, sample.positive), RowLogOdds.of(z), sample)
        plain = sample.plain_share(TAILS, 1500)
        widths.append((share.high - share.low, plain.high - plain.low))
        errors.append((abs(share.value - y.mean()), abs(plain.value - y.mean())))
    assert np.mean(widths, axis=0)[0] < 0.75 * np.mean(widths, axis=0)[1]
    assert np.mean(errors, axis=0)[0] < 0.8 * np.mean(errors, axis=0)[1]


def test_two_random_audits_of_the_same_rows_are_one():
    z, y = period(0, 1000)
    parts = [slice(0, 20), slice(20, 50)]
    samples = [
        DesignedSample.of(z[at], Answers(y[at], np.zeros(len(z[at]), dtype=np.int64), np.array([1000])))
        for at in parts
    ]
    both = join_samples(samples)
    zeros = np.zeros(50, dtype=np.int64)
    whole = DesignedSample.of(z[:50], Answers(y[:50], zeros, np.array([1000])))
    assert_allclose(both.weight, whole.weight)
    assert (both.stratum == whole.stratum).all()
    assert both.unseen == 0


@pytest.mark.parametrize("designs", [(by_score, at_random), (by_score, by_score)])
def test_joined_audits_have_no_bias(designs):
    z, y = period(3, 1000, -1.0)
    values = []
    for seed in range(300):
        joined = join_samples([design(z, y, 20, seed + 1000 * k) for k, design in enumerate(designs)])
        assert_allclose(joined.weight.sum(), 1.0)
        values.append(joined.weight @ joined.positive)
    assert abs(np.mean(values) - y.mean()) < 4 * np.std(values) / math.sqrt(300)


def test_strata_without_answers_may_have_any_share():
    z = np.linspace(-2, 2, 100)
    stratum = np.zeros(10, dtype=np.int64)
    sample = DesignedSample.of(z[:10], Answers(np.zeros(10, dtype=bool), stratum, np.array([60, 40])))
    share = assisted_share(TRAINED, RowLogOdds.of(z), sample)
    assert sample.unseen == pytest.approx(0.4)
    assert share.low == 0
    assert share.high > 0.4
    assert share.high < 1


@pytest.mark.parametrize("design", [at_random, by_score])
def test_the_share_is_the_mean_of_the_recalibrated_map(design):
    z, y = period(4, 1000, -1.0, 0.5)
    population = RowLogOdds.of(z)
    found, share = recalibrate(population, [design(z, y, 40, 0), design(z, y, 20, 1)])
    assert_allclose(population.mean(found.probability(z)), share.value, rtol=1e-9)
    ranges = RowLogOdds.of(np.unique(z), np.unique(z, return_counts=True)[1].astype(float))
    again, same = recalibrate(ranges, [design(z, y, 40, 0), design(z, y, 20, 1)])
    assert_allclose([again.intercept, same.low, same.high], [found.intercept, share.low, share.high])
