"""Laws of recalibration: a map of the log-odds from a few answers, and the share of positives."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logit

from drpu import PriorEstimate
from drpu.audits.evaluation import Answers
from drpu.audits.recalibration import (
    DesignedSample,
    MapBelief,
    PossibleMaps,
    averaged_map,
    join_samples,
    keeping_recall,
    map_of_others,
    recalibrate,
    supported_map,
)
from drpu.priors.figures import exact_limit
from drpu.state.reference import FARTHEST, TRAINED, LogOddsMap, RowLogOdds, bounded_log_odds

TAILS = (0.025, 0.025)
answers = st.lists(st.tuples(st.floats(-20, 20), st.booleans()), min_size=1, max_size=40)
centres = st.builds(LogOddsMap, st.floats(-4, 4), st.floats(0.05, 4))


def split(parts):
    return np.array([z for z, _ in parts]), np.array([y for _, y in parts])


GRID = RowLogOdds.of(np.linspace(-5, 5, 201))


def answered(z, y, **options) -> DesignedSample:
    """Answers about rows at random."""
    if len(z) == 0:
        return DesignedSample(z, y, np.empty(0, dtype=np.int64), np.empty(0))
    return DesignedSample.of(z, Answers.random(y, **options))


def fit_map(z, y, centre: LogOddsMap = TRAINED, **options) -> LogOddsMap:
    return averaged_map(MapBelief(centre), GRID, answered(z, y, **options)).map


def period(seed: int, n: int, intercept: float = 0.0, slope: float = 1.0, spread: float = 2.0):
    """Trained log-odds and classes of a period in which the map is ``intercept + slope z``."""
    rng = np.random.default_rng(seed)
    z = np.clip(spread * rng.normal(size=n), -FARTHEST, FARTHEST)
    return z, rng.random(n) < expit(intercept + slope * z)


def at_random(z, y, n: int, seed: int) -> DesignedSample:
    at = np.random.default_rng(seed).permutation(len(z))[:n]
    return DesignedSample.of(z[at], Answers(y[at], np.zeros(n, dtype=np.int64), np.array([len(z)])))


def by_score(z, y, n: int, seed: int) -> DesignedSample:
    """Answers about ``n / 5`` rows of each of five strata, which grow with the score."""
    ranks = np.argsort(np.argsort(z)) / len(z)
    stratum = np.searchsorted([0.4, 0.6, 0.75, 0.9], ranks, side="right")
    random = np.random.RandomState(seed)
    drawn = [random.choice(np.flatnonzero(stratum == h), n // 5, replace=False) for h in range(5)]
    at = np.concatenate(drawn)
    return DesignedSample.of(z[at], Answers(y[at], stratum[at], np.bincount(stratum)))


def share_of(sample, z, centre: LogOddsMap = TRAINED):
    """The share of positives in the population of rows with the trained log-odds ``z``."""
    return recalibrate(RowLogOdds.of(z), [sample], belief=MapBelief(centre))[1]


# -- the map -------------------------------------------------------------------------------------


def read_prior(low, high):
    return PriorEstimate((low + high) / 2, low, high, 0.95, "efficient")


@pytest.mark.parametrize("slope", [0.3, 1.0, 2.0])
def test_without_answers_the_map_decides_as_its_centre(slope):
    centre = LogOddsMap(-0.5, slope)
    averaged = fit_map(np.empty(0), np.empty(0, dtype=bool), centre=centre)
    assert_allclose(averaged.intercept / averaged.slope, centre.intercept / slope, atol=0.06)
    assert averaged.slope <= slope  # averaged probabilities are nearer to 1/2
    assert averaged.n == 0


def test_with_many_answers_the_map_is_the_logistic_fit():
    z, y = period(0, 5_000, -1.0, 0.8)
    averaged = fit_map(z, y)

    def loss(at):
        eta = at[0] + at[1] * z
        return -np.where(y, log_expit(eta), log_expit(-eta)).mean()

    fit = minimize(loss, [0.0, 1.0], tol=1e-12).x
    # The grid has steps of about 0.1 in the intercept and 0.2 in the log of the slope.
    assert_allclose([averaged.intercept, averaged.slope], fit, atol=0.15)


@pytest.mark.parametrize("n", [1, 3])
def test_few_answers_move_a_precise_reading_little_and_a_rough_one_more(n):
    z = np.full(n, 0.0)
    y = np.ones(n, dtype=bool)
    moves = []
    for reading, only_prior in ((read_prior(0.45, 0.55), True), (read_prior(0.1, 0.9), False)):
        belief = MapBelief.of(TRAINED, reading, only_prior=only_prior)
        moves.append(averaged_map(belief, GRID, answered(z, y)).map.log_odds([0.0])[0])
    assert 0 < moves[0] < 0.6 * moves[1]
    assert moves[0] < 0.5 * n**0.5


extremes = st.sampled_from([-math.inf, -1e300, 0.0, 1e300, math.inf])


@given(st.lists(st.tuples(st.floats(-20, 20) | extremes, st.booleans()), min_size=1, max_size=40), centres)
@settings(max_examples=60, deadline=None)
def test_the_slope_is_positive_and_everything_is_finite(parts, centre):
    z, y = split(parts)
    averaged = fit_map(z, y, centre=centre)
    p = averaged.probability(z)
    assert ((p > 0) & (p < 1)).all()
    assert averaged.slope > 0
    assert np.isfinite([averaged.intercept, averaged.slope, *averaged.covariance]).all()
    variance_a, shared, variance_b = averaged.covariance
    assert variance_a > 0
    assert variance_a * variance_b > shared**2


@given(answers)
@settings(max_examples=40, deadline=None)
def test_one_more_positive_answer_never_lowers_the_log_odds_of_its_row(parts):
    z, y = split(parts)
    z = np.clip(z, -FARTHEST, FARTHEST)
    more = fit_map(np.append(z, z[0]), np.append(y, True))
    less = fit_map(np.append(z, z[0]), np.append(y, False))
    near = np.clip(z[0], -3, 3)  # where the line follows the averaged probabilities
    assert more.log_odds([near])[0] >= less.log_odds([near])[0] - 0.05


def test_wrong_answers_are_expected_at_a_stated_rate():
    z, y = period(5, 4000, -1.0, 0.8)
    wrong = np.random.default_rng(0).random(4000) < 0.1
    plain = fit_map(z, y ^ wrong)
    corrected = fit_map(z, y ^ wrong, error_rate=0.1)
    assert_allclose([corrected.intercept, corrected.slope], [-1.0, 0.8], atol=0.2)
    assert plain.slope < 0.85 * corrected.slope


def supported(sample, rows, centre, cost=0.5) -> LogOddsMap:
    belief = MapBelief(centre)
    maps = PossibleMaps.after(belief, sample)
    return supported_map(averaged_map(belief, rows, sample).map, maps, rows, centre, cost)


@given(answers, centres, st.sampled_from([0.2, 0.5, 0.7]))
@settings(max_examples=60, deadline=None)
def test_labels_become_clearly_worse_with_a_small_probability_only(parts, centre, cost):
    sample = answered(*split(parts))
    found = supported(sample, GRID, centre, cost)
    maps = PossibleMaps.after(MapBelief(centre), sample)
    for each in (0.2, 0.5, 0.8, cost):
        flagged = found.log_odds(GRID.z) > logit(each)
        before = centre.log_odds(GRID.z) > logit(each)
        loss = (each - maps.probability(GRID.z)) @ (flagged.astype(float) - before) / len(GRID.z)
        assert maps.weight[loss > 0.015 + 1e-9].sum() <= 0.02 + 1e-2  # less likely maps are left out


def test_three_answers_of_one_kind_do_not_decide_about_all_rows_but_sixty_do():
    rows = RowLogOdds.of(np.random.default_rng(0).normal(0.8, 0.1, 400))  # scores that tell little
    for n, changed in ((3, False), (60, True)):
        found = supported(answered(rows.z[:n], np.zeros(n, dtype=bool)), rows, TRAINED)
        assert (found.log_odds(rows.z) < 0).all() == changed
        if not changed:
            assert np.mean(found.log_odds(rows.z) < 0) < 0.2


@pytest.mark.parametrize("intercept", [-2.0, 0.0, 2.0])
def test_with_many_answers_all_of_the_move_is_supported(intercept):
    z, y = period(2, 600, intercept, 0.7)
    belief = MapBelief(TRAINED)
    sample = answered(z, y)
    aim = averaged_map(belief, GRID, sample).map
    maps = PossibleMaps.after(belief, sample)
    assert supported_map(aim, maps, GRID, TRAINED, 0.5) == aim


@given(st.floats(-4, 4), st.floats(0.3, 2), st.sampled_from([0.2, 0.5, 0.8]))
def test_two_thirds_of_the_expected_recall_are_kept(intercept, slope, cost):
    z, _ = period(3, 500)
    rows = RowLogOdds.of(z)
    probability = TRAINED.probability(z)
    kept = keeping_recall(LogOddsMap(intercept, slope), rows, probability, cost)
    before = probability[probability > cost].sum()
    after = probability[kept.log_odds(z) > logit(cost)].sum()
    assert after >= 0.666 * before
    assert kept.intercept >= intercept
    if kept.intercept > intercept + 1e-6:  # no higher than needed: one row less is below that
        assert after <= 2 / 3 * before + probability.max() + 1e-9


@pytest.mark.parametrize("n", [1, 4, 12, 30, 1000])
def test_of_few_expected_positives_a_third_stays_by_two_standard_deviations(n):
    rows = RowLogOdds.of(np.full(1000, logit(0.9)) + np.linspace(0, 1e-3, 1000), np.full(1000, n / 900))
    probability = np.full(1000, 0.9)
    kept = keeping_recall(LogOddsMap(-20.0), rows, probability, 0.5)
    part = float(np.mean(kept.log_odds(rows.z) > 0))
    assert part >= 0.666
    assert part - 2 * np.sqrt(part * (1 - part) / n) >= 1 / 3 - 0.01


@given(centres, st.sampled_from([0.2, 0.5, 0.8]), st.floats(-3, 3), st.floats(0.1, 1), st.floats(0, 3))
@settings(deadline=None)
def test_a_map_for_other_log_odds_gives_the_same_labels(found, cost, start, slope, bend):
    z = np.linspace(-6, 6, 201)
    others = start + slope * z - bend * np.logaddexp(0, z - 1) * slope / 4
    moved = map_of_others(found, RowLogOdds.of(z), others, cost)
    clear = np.abs(found.log_odds(z) - logit(cost)) > 1e-6
    flagged = found.log_odds(z) > logit(cost)
    assert np.array_equal((moved.log_odds(others) > logit(cost))[clear], flagged[clear])
    if bend == 0:  # a line: probabilities and their variance are the same
        assert_allclose(moved.intercept + moved.slope * others, found.log_odds(z), atol=1e-6)
    flat = map_of_others(found, RowLogOdds.of(z), np.zeros(201), cost)
    assert np.isfinite([flat.intercept, flat.slope]).all()


def test_rows_that_are_certain_have_finite_log_odds():
    assert np.isfinite(bounded_log_odds(np.array([0.0, 1e-300, 0.5, 1.0]))).all()


@given(answers, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_the_order_of_answers_does_not_matter(parts, random):
    z, y = split(parts)
    order = random.sample(range(len(parts)), len(parts))
    one, other = fit_map(z, y), fit_map(z[order], y[order])
    assert_allclose([one.intercept, one.slope], [other.intercept, other.slope], rtol=1e-6, atol=1e-7)


@given(st.floats(0.001, 0.999), centres)
def test_the_mean_of_a_map_set_to_a_share_is_the_share(share, start):
    population = RowLogOdds.of(period(0, 400)[0])
    found = start.with_share(share, population)
    assert_allclose(found.probability(population.z).mean(), share, rtol=1e-6)
    assert found.slope == start.slope


# -- the share of positives ----------------------------------------------------------------------


@pytest.mark.parametrize("design", [at_random, by_score])
@pytest.mark.parametrize("found", [TRAINED, LogOddsMap(2.0, 0.3), LogOddsMap(-3.0, 2.0)])
@pytest.mark.parametrize("error_rate", [0.0, 0.2])
def test_the_share_has_no_bias_under_the_design_for_any_map(design, found, error_rate):
    z, y = period(1, 1000, -1.5, 0.5)
    mean = found.probability(z).mean()
    rng = np.random.default_rng(0)
    values = []
    for seed in range(400):
        answers = y ^ (rng.random(len(y)) < error_rate)
        sample = replace(design(z, answers, 30, seed), error_rate=error_rate)
        values.append(mean + sample.residual(found))
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
        share = share_of(sample, z)
        held += share.low <= truth <= share.high
    # Three standard errors of a share of 0.95 in 60 runs.
    assert held / runs > 0.95 - 3 * math.sqrt(0.95 * 0.05 / runs)


@given(answers, centres, st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_limits_differ_and_contain_a_value_inside_0_and_1(parts, centre, strata):
    z, y = split(parts)
    stratum = np.arange(len(z)) % strata
    sample = DesignedSample.of(z, Answers(y, stratum, np.full(strata, 100)))
    share = share_of(sample, np.linspace(-5, 5, 100 * strata), centre)
    assert 0 <= share.low <= share.value <= share.high <= 1
    assert share.high - share.low > 1e-3
    assert share.variance > 0


@given(st.integers(1, 60), st.data())
@settings(max_examples=40, deadline=None)
def test_a_score_without_information_gives_the_limits_of_clopper_and_pearson(n, data):
    hits = data.draw(st.integers(0, n))
    y = np.arange(n) < hits
    sample = DesignedSample.of(np.zeros(n), Answers(y, np.zeros(n, dtype=np.int64), np.array([n])))
    share = share_of(sample, np.zeros(500))
    ends = [exact_limit(hits, n, 0.025, upper=upper) for upper in (False, True)]
    assert_allclose([share.low, share.high], ends, atol=1e-3)


def test_a_good_score_makes_limits_narrower_and_estimates_better():
    widths, errors = [], []
    for seed in range(60):
        z, y = period(seed, 1500, 0.0, 1.0, 4.0)
        sample = at_random(z, y, 50, seed)
        share = share_of(sample, z)
        plain = sample.plain_share(TAILS, 1500)
        widths.append((share.high - share.low, plain.high - plain.low))
        errors.append((abs(share.value - y.mean()), abs(plain.value - y.mean())))
    assert np.mean(widths, axis=0)[0] < 0.75 * np.mean(widths, axis=0)[1]
    assert np.mean(errors, axis=0)[0] < 0.8 * np.mean(errors, axis=0)[1]


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
    share = share_of(sample, z)
    assert sample.unseen == pytest.approx(0.4)
    assert share.low == 0
    assert share.high > 0.4
    assert share.high < 1
