"""Laws of the excess-risk certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom

from drpu.core.bregman import bregman_risk
from drpu.core.certificate import excess_risk_bound, risk_upper_limit, shift_bound_constant
from drpu.core.decision import ratio_threshold
from drpu.exceptions import ParameterError, PriorError

inside = st.floats(0.01, 0.99)


def discrete(rng, size=12, prior=0.3):
    """A world of ``size`` kinds of rows: their shares in both classes, in U, and the true ratio."""
    positive, negative = rng.dirichlet(np.ones(size)), rng.dirichlet(np.ones(size))
    unlabeled = prior * positive + (1 - prior) * negative
    return positive, negative, unlabeled, positive / unlabeled


def risk(flagged, positive, negative, prior, cost):
    missed, wrong = positive @ ~flagged, negative @ flagged
    return (1 - cost) * prior * missed + cost * (1 - prior) * wrong


def lsif(ratio, positive, unlabeled):
    return unlabeled @ ratio**2 / 2 - positive @ ratio


@given(pi=inside, pi_test=inside, cost=inside)
def test_the_constant_is_that_of_the_theorem(pi, pi_test, cost):
    c0 = cost * pi * (1 - pi_test) / ((1 - cost) * (1 - pi) * pi_test + cost * pi * (1 - pi_test))
    written = pi * (cost + pi_test - 2 * cost * pi_test) / (c0 + pi - 2 * c0 * pi)
    assert_allclose(shift_bound_constant(pi, pi_test, cost=cost), written, rtol=1e-9)


@given(pi=inside)
def test_without_shift_the_constant_is_the_prior(pi):
    assert_allclose(shift_bound_constant(pi, pi), pi, rtol=1e-12)


def test_the_constant_at_the_ends():
    assert shift_bound_constant(1.0, 0.5) == math.inf
    assert shift_bound_constant(1.0, 1.0, cost=0.2) == 0.8
    assert shift_bound_constant(0.0, 0.5) == 0.25


@pytest.mark.parametrize("seed", range(40))
def test_no_ratio_does_worse_than_its_certificate(seed):
    rng = np.random.default_rng(seed)
    pi, pi_test, cost = rng.uniform(0.05, 0.95, 3)
    positive, negative, unlabeled, truth = discrete(rng, prior=pi)
    ratio = np.maximum(truth + rng.normal(0, rng.choice([0.02, 0.2, 1.0]), len(truth)), 0)
    theta = ratio_threshold(pi, pi_test, cost=cost)
    excess = risk(ratio > theta, positive, negative, pi_test, cost)
    excess -= risk(truth > theta, positive, negative, pi_test, cost)

    measured, best = lsif(ratio, positive, unlabeled), lsif(truth, positive, unlabeled)
    known = excess_risk_bound(measured, pi, pi_test, cost=cost, best_risk=best)
    assert 0 <= excess <= known + 1e-12
    assert known <= excess_risk_bound(measured, pi, pi_test, cost=cost)


def test_the_certificate_is_zero_for_the_true_ratio_of_classes_apart():
    positive, unlabeled = np.array([0.0, 1.0]), np.array([0.7, 0.3])
    truth = positive / unlabeled
    assert_allclose(lsif(truth, positive, unlabeled), -1 / 0.6)
    assert_allclose(excess_risk_bound(lsif(truth, positive, unlabeled), 0.3, 0.6), 0.0, atol=1e-7)


@given(risk=st.floats(-2, 50), pi=inside, pi_test=st.floats(0, 1), cost=inside)
def test_the_certificate_never_exceeds_the_worst_classifier(risk, pi, pi_test, cost):
    bound = excess_risk_bound(risk, pi, pi_test, cost=cost)
    assert 0 <= bound <= (1 - cost) * pi_test + cost * (1 - pi_test) + 1e-12
    assert bound <= excess_risk_bound(risk + 0.1, pi, pi_test, cost=cost)


def test_the_upper_limit_of_the_risk_covers():
    rng, runs, hits = np.random.default_rng(0), 400, 0
    positive, _, unlabeled, truth = discrete(rng)
    ratio = truth * rng.uniform(0.5, 1.5, len(truth))
    true_risk = lsif(ratio, positive, unlabeled)
    for _ in range(runs):
        p, u = rng.choice(ratio, 200, p=positive), rng.choice(ratio, 1000, p=unlabeled)
        hits += risk_upper_limit(p, u) >= true_risk
    assert binom.ppf(1e-4, runs, 0.93) <= hits < runs


def test_the_upper_limit_meets_the_risk_at_one_half():
    rng = np.random.default_rng(1)
    p, u = rng.random(50), rng.random(80)
    assert_allclose(risk_upper_limit(p, u, level=0.5), bregman_risk(p, u))
    assert risk_upper_limit(p[:1], u) == math.inf


def test_arguments_that_break_their_rule_are_named():
    with pytest.raises(PriorError, match="best_risk"):
        excess_risk_bound(-1.0, 0.0, 0.5)
    with pytest.raises(PriorError, match="test_prior"):
        excess_risk_bound(-1.0, 0.5, 1.5)
    with pytest.raises(ParameterError, match="cost"):
        shift_bound_constant(0.5, 0.5, cost=1.0)
    with pytest.raises(ParameterError, match="holdout_risk"):
        excess_risk_bound(math.nan, 0.5, 0.5)
