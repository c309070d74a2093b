"""Sections 3 to 5 of the DRPU paper: risks, divergences, excess risk, thresholds; exact on finite spaces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from worlds import (
    LSIF,
    ROUNDING,
    World,
    below,
    costs,
    equivalent_cost,
    priors,
    shift_constant,
    strongly_convex,
    value,
    worlds,
)

from drpu import ratio_threshold
from drpu.models.risks import GENERATORS, nonnegative_bregman_risk
from drpu.priors.calibration import ratio_posterior

# -- Section 3: risks ---------------------------------------------------------------


@pytest.mark.parametrize("f", GENERATORS.values(), ids=GENERATORS)
@given(drawn=worlds())
def test_differences_of_risks_are_divergences_and_the_true_ratio_is_best(f, drawn):
    world, rng = drawn
    r = world.ratios(rng)
    at_truth = -(world.mixture() * value(f, world.ratio)).sum()
    gap = world.objective(f, r) - at_truth
    size = 1 + np.abs(world.mixture() * value(f, r)).sum(-1)
    assert (gap >= -ROUNDING * size).all()
    assert_allclose(gap, world.divergence(f, r), rtol=1e-9, atol=1e-11 * size.max())
    assert_allclose(world.objective(f, world.ratio), at_truth, rtol=1e-9, atol=1e-9)


@given(drawn=worlds())
def test_at_the_optimum_the_risk_is_minus_half_the_mean_ratio_of_positives(drawn):
    world, _ = drawn
    mean_ratio = (world.positive * world.ratio).sum()
    assert_allclose(world.objective(LSIF, world.ratio), -mean_ratio / 2, rtol=1e-9)


@pytest.mark.parametrize("f", GENERATORS.values(), ids=GENERATORS)
@given(drawn=worlds(), share=st.floats(0, 1))
def test_up_to_the_prior_the_correction_changes_nothing_in_the_population(f, drawn, share):
    world, rng = drawn
    r = world.ratios(rng)
    corrected = nonnegative_bregman_risk(
        r,
        r,
        alpha=share * world.prior,
        generator=f,
        positive_weight=world.positive,
        unlabeled_weight=world.mixture(),
    )
    assert_allclose(corrected.value, world.objective(f, r), rtol=1e-9, atol=1e-9)


# -- Section 4.1: excess risk ------------------------------------------------------


@strongly_convex
@given(drawn=worlds(), cost=costs)
def test_theorem_1_excess_risk_is_below_the_root_of_the_divergence(f, mu, drawn, cost):
    world, rng = drawn
    pi, r = world.prior, world.ratios(rng)
    excess = world.risk(pi * r > cost, pi, cost) - world.bayes_risk(pi, cost)
    assert (excess >= -ROUNDING).all()
    assert below(excess, pi * np.sqrt(2 / mu * world.divergence(f, r)))


@strongly_convex
@given(drawn=worlds(), pi_test=priors, cost=costs)
def test_theorem_2_the_same_holds_after_a_shift_at_the_shifted_threshold(f, mu, drawn, pi_test, cost):
    world, rng = drawn
    pi, r = world.prior, world.ratios(rng)
    threshold = ratio_threshold(pi, pi_test, cost=cost)
    assert_allclose(threshold, equivalent_cost(pi, pi_test, cost) / pi, rtol=1e-9)
    excess = world.risk(r > threshold, pi_test, cost) - world.bayes_risk(pi_test, cost)
    assert (excess >= -ROUNDING).all()
    assert below(excess, shift_constant(pi, pi_test, cost) * np.sqrt(2 / mu * world.divergence(f, r)))


@given(pi=priors, cost=costs)
def test_theorem_2_without_a_shift_is_theorem_1(pi, cost):
    assert_allclose(equivalent_cost(pi, pi, cost), cost, rtol=1e-9)
    assert_allclose(shift_constant(pi, pi, cost), pi, rtol=1e-9)


@pytest.mark.parametrize("cost", [0.2, 0.5, 0.7])
@pytest.mark.parametrize(("pi", "c0"), [(0.5, 0.5), (0.4, 0.45), (0.3, 0.25)])
def test_the_constants_of_both_theorems_cannot_be_improved(pi, c0, cost):
    # Two points with posteriors c0 +- d, and a ratio that misclassifies both by a small margin.
    d, hair = 0.2, 1e-6
    share = (1 + (pi - c0) / d) / 2
    p, eta = np.array([share, 1 - share]), np.array([c0 + d, c0 - d])
    world = World(p * eta / pi, p * (1 - eta) / (1 - pi), pi)
    assert_allclose(world.positive.sum(), 1)
    odds = c0 * (1 - cost) * (1 - pi) / ((1 - c0) * cost * pi)  # of a negative, so that c_0 is c0
    pi_test = 1 / (1 + odds)

    r = (c0 + hair * np.array([-1, 1])) / pi
    excess = world.risk(r > ratio_threshold(pi, pi_test, cost=cost), pi_test, cost) - world.bayes_risk(
        pi_test, cost
    )
    bound = shift_constant(pi, pi_test, cost) * np.sqrt(2 * world.divergence(LSIF, r))
    assert_allclose(excess, bound, rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "curvature"), [("ukl", lambda t: 1 / t), ("bkl", lambda t: 1 / (t + t * t))]
)
@given(drawn=worlds(), cost=costs)
def test_other_generators_carry_the_bound_where_ratios_are_bounded(name, curvature, drawn, cost):
    world, rng = drawn
    most = 1 / world.prior
    pi, r = world.prior, np.minimum(world.ratios(rng), most)
    excess = world.risk(pi * r > cost, pi, cost) - world.bayes_risk(pi, cost)
    divergence = np.maximum(world.divergence(GENERATORS[name], r), 0)
    # A divergence near 0 is a difference of terms of order 1: its root has half the digits.
    assert np.all(excess <= pi * np.sqrt(2 / curvature(most) * (divergence + 1e-14)))


@given(drawn=worlds(), pi_test=st.floats(0, 1), cost=costs)
def test_thresholding_the_true_ratio_is_optimal_at_every_prior_and_cost(drawn, pi_test, cost):
    world, _ = drawn
    calls = world.ratio > ratio_threshold(world.prior, pi_test, cost=cost)
    assert_allclose(world.risk(calls, pi_test, cost), world.bayes_risk(pi_test, cost), atol=ROUNDING)


@given(drawn=worlds(), pi_test=priors, cost=costs)
def test_the_shifted_posterior_is_bayes_rule_and_meets_the_cost_at_the_threshold(drawn, pi_test, cost):
    world, _ = drawn
    expected = pi_test * world.positive / world.mixture(pi_test)
    assert_allclose(ratio_posterior(world.ratio, world.prior, pi_test), expected, rtol=1e-6, atol=1e-6)
    threshold = ratio_threshold(world.prior, pi_test, cost=cost)
    assert_allclose(ratio_posterior([threshold], world.prior, pi_test), cost, rtol=1e-8)


@given(drawn=worlds(), pi_test=priors, cost=costs)
def test_a_shift_of_the_prior_is_a_change_of_the_cost(drawn, pi_test, cost):
    world, rng = drawn
    pi, c0 = world.prior, equivalent_cost(world.prior, pi_test, cost)
    calls = rng.random((20, len(world.positive))) < 0.5
    before = world.risk(calls, pi, c0) / ((1 - c0) * pi + c0 * (1 - pi))
    after = world.risk(calls, pi_test, cost) / ((1 - cost) * pi_test + cost * (1 - pi_test))
    assert_allclose(after, before, rtol=1e-9, atol=ROUNDING)


# -- Section 5: generators, squared loss, AUC, estimated thresholds -----------------


@strongly_convex
@given(drawn=worlds())
def test_no_generator_of_the_same_convexity_is_tighter_than_the_quadratic(f, mu, drawn):
    world, rng = drawn
    r = world.ratios(rng)
    quadratic = mu * world.divergence(LSIF, r)
    assert below(quadratic, world.divergence(f, r))
    assert_allclose(
        quadratic, mu / 2 * ((world.ratio - r) ** 2 * world.mixture()).sum(-1), rtol=1e-6, atol=1e-9
    )


@given(drawn=worlds())
def test_the_quadratic_divergence_is_the_excess_squared_loss_plus_what_exceeds_one(drawn):
    # The proposition as corrected: (pi r - 1)(pi r - 2 eta + 1), and no factor 1 / pi^2.
    world, rng = drawn
    pi, p, eta = world.prior, world.mixture(), world.posterior
    s = pi * world.ratios(rng)

    def squared_risk(g):
        return (p * (eta * (g - 1) ** 2 + (1 - eta) * (g + 1) ** 2) / 4).sum(-1)

    excess = squared_risk(2 * np.minimum(s, 1) - 1) - squared_risk(2 * eta - 1)
    beyond = (p * (s > 1) * (s - 1) * (s - 2 * eta + 1)).sum(-1)
    assert (beyond >= 0).all()
    assert_allclose(2 * pi**2 * world.divergence(LSIF, s / pi), excess + beyond, rtol=1e-9, atol=1e-12)


@given(drawn=worlds())
def test_clipping_a_ratio_at_one_over_the_prior_never_hurts(drawn):
    world, rng = drawn
    r = world.ratios(rng)
    clipped = np.minimum(r, 1 / world.prior)
    assert below(world.divergence(LSIF, clipped), world.divergence(LSIF, r))


@strongly_convex
@given(drawn=worlds())
def test_the_excess_auc_risk_is_below_the_root_of_the_divergence(f, mu, drawn):
    world, rng = drawn
    r = world.ratios(rng)
    r[::4] = np.maximum(r[::4].round(1), 1e-9)  # ties among the scores, which count as half an error
    excess = world.ranking_risk(r) - world.ranking_risk(world.ratio)
    assert (excess >= -ROUNDING).all()
    assert below(excess, np.sqrt(2 / mu * world.divergence(f, r)) / (1 - world.prior))


def test_the_auc_bound_needs_a_tie_to_be_half_an_error():
    # Two similar classes and a constant score: counting ties as full errors would violate the bound.
    world = World(np.array([0.51, 0.49]), np.array([0.49, 0.51]), 0.5)
    constant = np.ones(2)
    bound = np.sqrt(2 * world.divergence(LSIF, constant)) / (1 - world.prior)
    assert world.ranking_risk(constant) - world.ranking_risk(world.ratio) <= bound
    assert world.ranking_risk(constant, tie=1.0) - world.ranking_risk(world.ratio, tie=1.0) > bound


@strongly_convex
@given(drawn=worlds(), pi_test=priors, cost=costs)
def test_the_bound_with_an_estimated_threshold_grows_by_its_error(f, mu, drawn, pi_test, cost):
    world, rng = drawn
    pi, r = world.prior, world.ratios(rng)
    threshold = ratio_threshold(pi, pi_test, cost=cost)
    estimated = rng.uniform(0, 1 / pi, (len(r), 1))  # all of (0, 1 / pi), the range of thresholds
    excess = world.risk(r > estimated, pi_test, cost) - world.bayes_risk(pi_test, cost)
    distance = np.sqrt(2 / mu * world.divergence(f, r))
    error = np.abs(estimated - threshold)[:, 0]
    assert below(excess, shift_constant(pi, pi_test, cost) * (2 * distance + error))


@given(pi=priors, pi_test=priors, cost=costs, angle=st.floats(0, 2 * np.pi))
def test_the_error_of_the_threshold_is_linear_in_those_of_the_priors(pi, pi_test, cost, angle):
    level = (1 - cost) * (1 - pi) * pi_test + cost * pi * (1 - pi_test)
    slopes = np.array([cost * (1 - pi_test) * (cost - pi_test), cost * (1 - cost) * (1 - pi)]) / level**2
    step = 1e-7 * np.array([np.cos(angle), np.sin(angle)])
    moved = ratio_threshold(pi + step[0], pi_test + step[1], cost=cost) - ratio_threshold(
        pi, pi_test, cost=cost
    )
    linear = -slopes @ step
    assert abs(moved) <= np.abs(slopes).max() * np.abs(step).sum() * (1 + 1e-3) + 1e-11 / level
    assert_allclose(moved, linear, rtol=1e-3, atol=1e-3 * np.abs(slopes * step).max() + 1e-11 / level)
