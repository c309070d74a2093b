from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import lsq_linear
from scipy.special import expit

from drpu import ScoreTails
from drpu._codec import decode, encode
from drpu.exceptions import ArtifactError, DataError, PriorError
from drpu.priors import fit_plateau, normal_scores
from drpu.priors.calibration import Calibration, calibrate, population_ratio
from drpu.priors.plateau import Plateau

grades = st.integers(0, 6).map(float)  # few values, so that there are many ties
positives = st.lists(grades, min_size=1, max_size=12)
unlabeled = st.lists(grades | st.just(-1.0), min_size=1, max_size=25)


def counted(positive, scores):
    return ScoreTails(positive).update(scores)


def mixture(rng, n_positive, n, prior, separation=3.0):
    label = rng.random(n) < prior
    return counted(rng.normal(separation, 1, n_positive), rng.normal(separation * label, 1))


def monotone_cells(tails):
    """The step of a calibration, without a ceiling."""
    return calibrate(tails, 0.0).steps


def brute_force(tails):
    """Monotone least squares by another algorithm: non-negative increments."""
    p, u = tails.positive_counts / tails.positive_counts.sum(), tails.counts / tails.counts.sum()
    steps = np.tril(np.ones((len(u), len(u))))
    root = np.sqrt(u)
    fit = lsq_linear(root[:, None] * steps, p / root, bounds=(0, np.inf), method="bvls", tol=1e-14)
    return steps @ fit.x


# -- the step ----------------------------------------------------------------------------


@given(positives, unlabeled)
def test_cells_minimise_the_least_squares_risk_among_increasing_functions(positive, scores):
    tails = counted(positive, [*np.unique(positive), -1.0, *scores])  # no cell without a row
    cells = monotone_cells(tails)
    assert (np.diff(cells) >= 0).all()
    assert_allclose(cells, brute_force(tails), atol=1e-8)


@given(positives, unlabeled)
def test_mean_of_the_cells_over_the_unlabeled_rows_is_one(positive, scores):
    tails = counted(positive, [*scores, max(positive)])
    assert_allclose(tails.counts @ monotone_cells(tails) / tails.counts.sum(), 1, rtol=1e-9)


@pytest.mark.parametrize(
    ("scores", "cells"),
    [
        ([0.0, 1.0], [0, 1, 1e12]),  # no row is above the top level: as large as a ratio can be
        ([0.0, 0.0], [0, 1e12, 1e12]),
        ([0.0, 2.0], [0, 2, 2]),  # an inner cell without rows is pooled with the next
    ],
)
def test_cells_without_rows_have_the_ratio_that_minimises_the_risk(scores, cells):
    assert_allclose(monotone_cells(counted([1.0, 2.0], scores)), cells)


# -- the plateau -------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.1, 0.5, 0.9])
def test_no_nearby_plateau_is_likelier(prior):
    tails = mixture(np.random.default_rng(1), 150, 600, prior)
    s, positive, unlabeled = normal_scores(tails), tails.positive_counts, tails.counts

    def likelihood(rho, intercept, slope):
        c = tails.n_positive / (tails.n_positive + tails.n)
        g = c / (c + (1 - c) * rho) * expit(intercept + slope * s)
        return positive @ np.log(g) + unlabeled @ np.log1p(-g) + np.log(rho * (1 - rho))

    fit = fit_plateau(tails)
    best = likelihood(fit.prior, fit.intercept, fit.slope)
    rng = np.random.default_rng(2)
    for size in (1e-3, 1e-2, 0.1):
        for nudge in size * rng.normal(size=(30, 3)):
            rho = float(np.clip(fit.prior + 0.2 * nudge[0], 1e-3, 1 - 1e-3))
            assert likelihood(rho, fit.intercept + nudge[1], fit.slope * np.exp(nudge[2])) < best + 1e-4


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.8])
def test_a_binormal_plateau_is_recovered(prior):
    # Classes N(2, 1) and N(-1, 1): the posterior is logistic in the score with slope 3.
    rng = np.random.default_rng(3)
    label = rng.random(60_000) < prior
    tails = counted(rng.normal(2, 1, 6000), rng.normal(np.where(label, 2, -1), 1))
    fit = fit_plateau(tails)
    assert abs(fit.prior - prior) < 0.02
    z = np.linspace(-2.5, 0.5, 50)
    odds = np.exp(3 * (z + 2) - 1.5)
    assert_allclose(fit(z), odds / (prior * odds + 1 - prior), rtol=0.15, atol=0.03)


@given(st.floats(0, 1), st.floats(-5, 5), st.floats(0.1, 5), st.floats(0.01, 0.99))
def test_plateau_increases_to_one_over_the_prior(prior, intercept, slope, labelled):
    fit = Plateau(prior, intercept, slope, labelled)
    ratio = fit(np.array([-50.0, -1.0, 0.0, 1.0, 50.0, np.inf]))
    assert (np.diff(ratio) >= 0).all()
    assert (ratio >= 0).all()
    assert np.isfinite(ratio).all()
    if prior > 1e-6:
        assert_allclose(ratio[-1], 1 / prior, rtol=1e-3)


@pytest.mark.parametrize(
    ("positive", "scores"),
    [
        ([1.0], [1.0]),
        ([1.0], [0.0]),
        ([1.0, 1.0, 1.0], [1.0, 1.0]),
        ([1.0, 2.0], [5.0] * 50),
        ([1.0, 2.0], [-5.0] * 50),
        ([1e-300, 1e300], [0.0, 1.0, 1e300]),
        ([-690.0, 690.0], [-690.0, 0.0, 690.0]),
        ([-np.inf, 0.0, np.inf], [-np.inf, 0.0, 1.0, np.inf]),
        ([np.inf, np.inf], [0.0, np.inf]),
    ],
)
def test_scores_without_shape_still_have_a_plateau(positive, scores):
    fit = fit_plateau(counted(positive, scores))
    assert 0 < fit.prior < 1
    assert fit.slope > 0
    assert np.isfinite([fit.intercept, fit.slope]).all()


# -- the map -----------------------------------------------------------------------------


@pytest.fixture
def tails():
    return mixture(np.random.default_rng(6), 100, 500, 0.4)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("prior", [0.0, 0.1, 0.4, 1.0])
def test_calibrated_ratios_increase_below_their_ceiling(tails, prior, share):
    ratio = calibrate(tails, prior, labelled_share=share)(np.r_[-np.inf, np.linspace(-9, 9, 999), np.inf])
    ceiling = np.inf if prior == 0 else 1 / prior
    assert (np.diff(ratio) >= -1e-12 * ratio[1:]).all()
    assert (ratio >= 0).all()
    assert ratio.max() <= population_ratio(min(ceiling, 1e12), share) * (1 + 1e-12)


def test_calibrated_ratio_is_the_mean_of_the_step_and_the_curve(tails):
    fit = calibrate(tails, 0.4)
    scores = np.linspace(-3, 3, 50)
    steps = monotone_cells(tails)[np.searchsorted(tails.levels, scores, side="right")]
    curve = np.interp(scores, tails.levels, (fit.curve[:-1] + fit.curve[1:]) / 2, fit.curve[0], fit.curve[-1])
    assert_allclose(fit(scores), (np.minimum(steps, 2.5) + np.minimum(curve, 2.5)) / 2, rtol=1e-12)


def test_calibrated_ratios_approach_the_true_ones():
    rng = np.random.default_rng(7)
    errors = []
    for n in (200, 20_000):
        fit = calibrate(mixture(rng, n, 5 * n, 0.4), 0.4)
        s = rng.normal(3 * (rng.random(5000) < 0.4), 1)
        odds = np.exp(3 * s - 4.5)
        errors.append(np.mean(np.abs(fit(s) - odds / (0.4 * odds + 0.6))))
    assert errors[1] < min(0.04, errors[0])


def test_priors_that_cannot_be_are_refused(tails):
    with pytest.raises(PriorError, match="prior must lie between 0 and 1"):
        calibrate(tails, 1.5)


@pytest.mark.parametrize("share", [0.0, 0.25])
def test_a_file_keeps_the_map(tails, share):
    fit = calibrate(tails, 0.4, labelled_share=share)
    again = decode(*encode(fit), Calibration)
    scores = np.linspace(-5, 5, 200)
    assert_array_equal(again(scores), fit(scores))


DAMAGE = {
    "a step less": lambda fit: {"steps": fit.steps[1:]},
    "falling steps": lambda fit: {"steps": fit.steps[::-1]},
    "negative steps": lambda fit: {"steps": fit.steps - 10},
    "NaN in steps": lambda fit: {"steps": np.where(fit.steps > 1, np.nan, fit.steps)},
    "a point less": lambda fit: {"curve": fit.curve[1:]},
    "a falling curve": lambda fit: {"curve": fit.curve[::-1]},
    "falling levels": lambda fit: {"levels": fit.levels[::-1]},
    "NaN in levels": lambda fit: {"levels": fit.levels * np.nan},
    "a ceiling below 1": lambda fit: {"ceiling": 0.5},
    "a ceiling of nothing": lambda fit: {"ceiling": float("nan")},
    "a share above 1": lambda fit: {"labelled_share": 1.5},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_damaged_maps_are_not_written(tails, damage):
    fit = calibrate(tails, 0.4)
    with pytest.raises((DataError, ArtifactError)):
        encode(replace(fit, **damage(fit)))


# -- scenarios ---------------------------------------------------------------------------


@given(st.floats(0, 1e6), st.floats(0, 0.999))
def test_population_ratio_is_one_where_the_ratio_is_one(ratio, share):
    assert_allclose(population_ratio(1.0, share), 1, rtol=1e-12)
    assert population_ratio(ratio, 0.0) == ratio
    assert (population_ratio(ratio, share) - 1) * (ratio - 1) >= 0


@given(st.floats(0.01, 1), st.floats(0, 0.99))
def test_ceilings_of_both_populations_agree(prior, share):
    # The unlabeled rows have the prior `prior`, the population share + (1 - share) * prior.
    assert_allclose(population_ratio(1 / prior, share), 1 / (share + (1 - share) * prior), rtol=1e-9)


def test_population_ratio_is_that_of_the_densities():
    rng = np.random.default_rng(8)
    positive, rest = rng.random(20), rng.random(20)
    population = 0.3 * positive + 0.7 * rest
    assert_allclose(population_ratio(positive / rest, 0.3), positive / population, rtol=1e-12)
