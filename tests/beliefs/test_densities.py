"""Laws of a learned density: missing and unusual evidence, the cut, and truths that are drawn from it."""

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks._pool import simulated
from drpu.beliefs.density import NormalMixture, learned_density
from drpu.beliefs.priors import (
    FAR_OFF,
    LOG_ODDS,
    STEP,
    cut_distribution,
    log_odds_of_cut,
    prior_distribution,
    prior_evidence,
)
from tails_data import drawn

SIZES = ("positives", "unlabeled")
FITS = range(20_000, 20_060)  # of the simulator, none of which is learned from


@pytest.fixture(scope="module")
def density():
    return learned_density("training_prior")


@pytest.fixture(scope="module")
def evidence():
    return prior_evidence(drawn(0, 200, 2000, 0.3))


@pytest.fixture(scope="module")
def distributions():
    """What is believed about sixty simulated fits."""
    found = []
    for number in FITS:
        fit = simulated(number)
        found.append(prior_distribution(fit.tails, labelled_share=fit.facts.labelled or None))
    return found


# -- evidence ----------------------------------------------------------------------------------------


def edge_of(density, name):
    return density.high[density.names.index(name)]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("side", [-1, 1])
def test_row_counts_beyond_the_learned_range_are_those_of_its_edge(density, evidence, name, side):
    edge = edge_of(density, name)
    if side == -1:
        edge = density.low[density.names.index(name)]
    at_edge = density.mixture({**evidence, name: edge})
    beyond = density.mixture({**evidence, name: edge + 5 * side})
    assert np.array_equal(beyond.log_weight, at_edge.log_weight)
    assert np.array_equal(beyond.mean, at_edge.mean)
    assert np.array_equal(beyond.spread, at_edge.spread)


def test_other_evidence_beyond_the_learned_range_widens_by_its_distance(density, evidence):
    for name in set(density.names) - set(SIZES):
        edge = edge_of(density, name)
        scale = density.scale[density.names.index(name)]
        at_edge = density.mixture({**evidence, name: edge})
        beyond = density.mixture({**evidence, name: edge + 2 * scale})
        assert np.array_equal(beyond.log_weight, at_edge.log_weight), name
        assert np.array_equal(beyond.mean, at_edge.mean), name
        assert beyond.spread == pytest.approx(3 * at_edge.spread), name


def test_missing_evidence_has_its_stated_value(density, evidence):
    assert evidence["labelled"] is None
    stated = density.missing[density.names.index("labelled")]
    unknown = density.mixture(evidence)
    known = density.mixture({**evidence, "labelled": stated})
    assert np.array_equal(unknown.mean, known.mean)
    assert np.array_equal(unknown.spread, known.spread)


def test_the_evidence_of_counts_is_the_one_that_was_learned_from(density, evidence):
    assert set(evidence) == set(density.names)
    assert np.isfinite([value for value in evidence.values() if value is not None]).all()


@pytest.mark.parametrize("share", [None, 0.05, 0.4])
def test_a_single_sample_says_so_and_has_its_labelled_share(share):
    evidence = prior_evidence(drawn(0, 200, 2000, 0.3), labelled_share=share)
    if share is None:
        assert (evidence["single"], evidence["labelled"]) == (0, None)
    else:
        assert evidence["single"] == 1
        assert evidence["labelled"] == pytest.approx(np.log(share / (1 - share)))


# -- the distribution --------------------------------------------------------------------------------

NORMAL = NormalMixture(np.log([0.7, 0.3]), np.array([-1.0, -2.0]), np.array([0.2, 1.5]))


def test_no_prior_is_possible_above_the_cut():
    for cut in (-6.0, -2.0, 0.0):
        distribution = cut_distribution(NORMAL, cut)
        assert distribution.weight[cut + STEP <= LOG_ODDS].sum() == 0
        assert distribution.weight.sum() == pytest.approx(1)
        assert distribution.quantile(0.999) <= 1 / (1 + np.exp(-cut - STEP))


def test_below_the_cut_the_density_keeps_its_shape():
    whole = cut_distribution(NORMAL, 8.0)
    cut = cut_distribution(NORMAL, -1.0)
    kept = cut.weight > 0
    ratio = cut.weight[kept] / whole.weight[kept]
    assert ratio == pytest.approx(np.full(kept.sum(), ratio[0]))


def test_the_distribution_of_counts_is_cut_at_their_limit(distributions):
    for number, distribution in zip(FITS, distributions, strict=True):
        cut = log_odds_of_cut(simulated(number).tails)
        assert distribution.weight[cut + STEP <= LOG_ODDS].sum() == 0


def test_a_labelled_share_moves_a_prior_of_unlabeled_rows_to_that_of_the_population():
    distribution = cut_distribution(NORMAL, 8.0)
    population = distribution.with_labelled(0.2)
    assert population.mean == pytest.approx(0.2 + 0.8 * distribution.mean)
    assert population.quantile(0.3) == pytest.approx(0.2 + 0.8 * distribution.quantile(0.3))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_limits_hold_at_their_level_where_truths_are_drawn_from_the_density(distributions, level):
    rng = np.random.default_rng(1)
    draws = 100
    held = 0
    for distribution in distributions:
        truths = rng.choice(distribution.prior, size=draws, p=distribution.weight)
        low = distribution.quantile((1 - level) / 2)
        high = distribution.quantile((1 + level) / 2)
        held += ((low <= truths) & (truths <= high)).sum()
    runs = draws * len(distributions)
    # Limits lie between priors of the grid, which moves the level by .02 at most.
    assert binom.ppf(1e-4, runs, level) - 0.02 * runs <= held
    assert held <= binom.ppf(1 - 1e-4, runs, level) + 0.02 * runs


def test_identified_priors_are_seldom_far_off_where_truths_are_drawn_from_the_density(distributions):
    rng = np.random.default_rng(2)
    identified = [distribution for distribution in distributions if distribution.identified]
    assert 5 < len(identified) < len(distributions)
    far_off = 0
    for distribution in identified:
        truths = rng.choice(distribution.prior, size=200, p=distribution.weight)
        far_off += (np.abs(truths - distribution.mean) > FAR_OFF).sum()
    runs = 200 * len(identified)
    chance = learned_density("training_prior").chance_of_far_off
    assert far_off <= binom.ppf(1 - 1e-4, runs, chance)
    for distribution in distributions:
        assert distribution.identified == (distribution.chance_of_far_off < chance)


def test_values_that_stand_for_a_distribution_have_its_mean_and_limits(distributions):
    for distribution in distributions:
        quantiles = np.array(distribution.quantiles)
        assert (np.diff(quantiles) >= 0).all()
        assert quantiles.mean() == pytest.approx(distribution.mean, abs=0.02)
        assert quantiles[0] == pytest.approx(distribution.quantile(0.05))
        assert quantiles[-1] == pytest.approx(distribution.quantile(0.95))
