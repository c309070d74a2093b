"""Laws of risks: of uPU, nnPU, PUa and VPU on finite spaces, where expectations are sums, and of ratios."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from drpu.exceptions import ParameterError
from drpu.models.risks import (
    GENERATORS,
    LOSSES,
    ShiftedRisk,
    VariationalRisk,
    bregman_risk,
    get_loss,
    mixup_penalty,
    nonnegative_bregman_risk,
)

losses = pytest.mark.parametrize("loss", sorted(LOSSES))
shares = st.floats(0.05, 0.95)
scores = hnp.arrays(np.float64, 7, elements=st.floats(-20, 20))

# Five points: probability of each under the positive and the negative class.
IN_POSITIVE = np.array([0.02, 0.08, 0.15, 0.25, 0.5])
IN_NEGATIVE = np.array([0.4, 0.3, 0.2, 0.1, 0.0])


def mixture(prior):
    return prior * IN_POSITIVE + (1 - prior) * IN_NEGATIVE


def classification_risk(g, prior, loss, cost=0.5):
    value = get_loss(loss).value
    missed = 2 * (1 - cost) * prior * (IN_POSITIVE @ value(g))
    return missed + 2 * cost * (1 - prior) * (IN_NEGATIVE @ value(-g))


@losses
@given(prior=shares, cost=shares, g=hnp.arrays(np.float64, 5, elements=st.floats(-20, 20)))
def test_the_unbiased_risk_is_the_classification_risk(loss, prior, cost, g):
    unbiased = ShiftedRisk(prior, prior, get_loss(loss), cost)
    risk = unbiased.criterion(g, g, IN_POSITIVE, mixture(prior))
    assert_allclose(risk, classification_risk(g, prior, loss, cost), rtol=1e-9, atol=1e-9)


@losses
@given(pi=shares, pi_test=shares, g=hnp.arrays(np.float64, 5, elements=st.floats(-20, 20)))
def test_the_shifted_risk_is_that_of_the_test_population(loss, pi, pi_test, g):
    corrected = ShiftedRisk(pi, pi_test, get_loss(loss), corrected=True)
    risk = corrected.risk(g, g, IN_POSITIVE, mixture(pi))
    assert_allclose(risk.value, classification_risk(g, pi_test, loss), rtol=1e-8, atol=1e-8)


@given(pi=shares, pi_test=shares, cost=shares, p=scores, u=scores)
def test_a_shifted_prior_is_a_cost(pi, pi_test, cost, p, u):
    missed, alarmed = (1 - cost) * pi_test / pi, cost * (1 - pi_test) / (1 - pi)
    factor = missed + alarmed
    shifted = ShiftedRisk(pi, pi_test, cost=cost, corrected=True).risk(p, u)
    costly = ShiftedRisk(pi, pi, cost=alarmed / factor, corrected=True).risk(p, u)
    assert_allclose(shifted.value, factor * costly.value, rtol=1e-12, atol=1e-12)
    assert_allclose(shifted.objective, factor * costly.objective, rtol=1e-12, atol=1e-12)


# -- branches of the correction ------------------------------------------------------


def branch_scores(negative_part):
    """Scores for which B is positive, or below zero."""
    p, u = np.array([0.5, 2.0, 1.0]), np.array([0.3, -1.0, 0.7, 1.5])
    return (p + 6, u - 6) if negative_part == "below" else (p, u)


@losses
@pytest.mark.parametrize("side", ["above", "below"])
@pytest.mark.parametrize(("pi", "pi_test", "gamma"), [(0.5, 0.5, 1.0), (0.5, 0.2, 0.7)])
def test_both_branches_report_and_descend_what_they_should(loss, side, pi, pi_test, gamma):
    p, u = branch_scores(side)
    value = get_loss(loss).value
    A = pi_test * value(p).mean()
    B = value(-u).mean() - pi * value(-p).mean()
    k = (1 - pi_test) / (1 - pi)
    assert (B < 0) == (side == "below")
    risk = ShiftedRisk(pi, pi_test, get_loss(loss), corrected=True, gamma=gamma).risk(p, u)
    assert_allclose(risk.value, A + k * max(B, 0), rtol=1e-12)
    assert_allclose(risk.objective, A + k * B if B >= 0 else -gamma * k * B, rtol=1e-12)


def test_beta_lets_the_negative_part_go_below_zero():
    p, u = branch_scores("below")

    def risk(beta):
        return ShiftedRisk(0.5, 0.5, corrected=True, beta=beta).risk(p, u)

    free = ShiftedRisk(0.5, 0.5).criterion(p, u)
    assert_allclose(risk(10.0), (free, free), rtol=1e-12)
    assert risk(0.0).value > free
    assert_allclose(risk(0.1).value, risk(0.0).value - 0.1, rtol=1e-12)


@losses
@pytest.mark.parametrize("side", ["above", "below"])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_gradient_by_scores_is_the_finite_difference(loss, side, corrected, weighted):
    p, u = branch_scores(side)
    w = (np.array([1.0, 2.0, 0.5]), np.array([0.1, 1.0, 3.0, 1.0])) if weighted else (None, None)
    objective = ShiftedRisk(0.5, 0.3, get_loss(loss), cost=0.4, corrected=corrected)
    check_gradient(objective, p, u, w)


def check_gradient(objective, p, u, w):
    value, by_p, by_u = objective.gradient(p, u, *w)
    assert_allclose(value, objective.risk(p, u, *w).value, rtol=1e-12)
    wanted = differences(lambda x: objective.risk(x[:3], x[3:], *w).value, np.concatenate([p, u]))
    assert_allclose(np.concatenate([by_p, by_u]), wanted, atol=1e-7)


def differences(f, x, step=1e-6):
    eye = np.eye(len(x)) * step
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in eye])


# -- a single sample ------------------------------------------------------------------


@given(prior=st.floats(0.2, 0.9), labelled=st.floats(0.05, 0.95))
def test_the_variational_risk_of_a_single_sample_is_that_of_the_population(prior, labelled):
    c = prior * labelled
    g = np.array([-2.0, -1.0, 0.5, 1.0, 3.0])
    whole = VariationalRisk().criterion(g, g, IN_POSITIVE, mixture(prior))
    rest = mixture((prior - c) / (1 - c))
    parts = VariationalRisk(c).criterion(g, g, IN_POSITIVE, rest)
    assert_allclose(parts, whole, rtol=1e-10, atol=1e-12)


# -- VPU --------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", [0.2, 0.5, 0.8])
def test_the_variational_risk_is_least_at_the_true_posterior(prior):
    p_all = mixture(prior)
    posterior = prior * IN_POSITIVE / p_all
    # The last point is certainly positive: its score is infinite, approximated by 30.
    objective = VariationalRisk()

    def risk(g):
        scores = np.append(g, 30.0)
        return objective.criterion(scores, scores, IN_POSITIVE, p_all)

    best = minimize(risk, np.zeros(4), tol=1e-9).x
    assert_allclose(1 / (1 + np.exp(-best)), posterior[:-1], atol=1e-4)


def test_a_factor_of_the_posterior_changes_no_variational_risk():
    rng = np.random.default_rng(0)
    p, u = rng.uniform(0.1, 0.9, 5), rng.uniform(0.1, 0.9, 8)

    def risk(a):
        return VariationalRisk().criterion(np.log(a * p / (1 - a * p)), np.log(a * u / (1 - a * u)))

    assert_allclose(risk(1.0), risk(0.25), rtol=1e-12)


def test_mixup_costs_nothing_where_the_score_is_straight():
    share = np.array([0.0, 0.25, 1.0])
    phi = np.array([0.2, 0.5, 0.8])
    target = share * phi + 1 - share
    mixed = np.log(target) - np.log1p(-np.minimum(target, 1 - 1e-16))
    unlabeled = np.log(phi / (1 - phi))
    assert mixup_penalty(mixed, unlabeled, share) < 1e-25
    assert mixup_penalty(mixed - 1, unlabeled, share) > 0.01


# -- numerics -----------------------------------------------------------------------------


@losses
def test_risks_are_finite_at_extreme_scores(loss):
    p, u = np.array([-800.0, 800.0]), np.array([800.0, -800.0, 1e5])
    for corrected in (True, False):
        objective = ShiftedRisk(0.5, 0.5, get_loss(loss), corrected=corrected)
        assert np.isfinite(objective.risk(p, u)).all()
        for part in objective.gradient(p, u):
            assert np.isfinite(part).all()


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_the_variational_risk_is_finite_at_extreme_scores(share):
    for p, u in ((-800.0, 800.0), (800.0, -800.0), (-1e5, -1e5)):
        p, u = np.full(3, p), np.full(4, u)
        assert np.isfinite(VariationalRisk(share).criterion(p, u))
    assert np.isfinite(mixup_penalty(np.array([-1e5, 1e5]), np.array([1e5, -1e5]), np.array([0.0, 1.0])))


@losses
def test_numpy_and_torch_agree_on_stacks(loss):
    rng = np.random.default_rng(0)
    p, u = rng.normal(0, 3, (4, 6)), rng.normal(0, 3, (4, 9))
    w = rng.random((4, 6)), rng.random((4, 9))
    tensors = [torch.tensor(x) for x in (p, u, *w)]
    shifted = ShiftedRisk(0.4, 0.2, get_loss(loss), corrected=True)
    pairs = [*zip(shifted.risk(p, u, *w), shifted.risk(*tensors), strict=True)]
    variational = VariationalRisk(0.1)
    pairs.append((variational.criterion(p, u, *w), variational.criterion(*tensors)))
    for ours, theirs in pairs:
        assert ours.shape == (4,)
        assert_allclose(theirs.numpy(), ours, rtol=1e-12, atol=1e-12)


# -- losses ---------------------------------------------------------------------------------


@losses
@given(z=st.floats(-30, 30))
def test_the_slope_of_a_loss_is_its_derivative(loss, z):
    z = np.float64(z)
    value = get_loss(loss).value
    assert_allclose(get_loss(loss).slope(z), (value(z + 1e-5) - value(z - 1e-5)) / 2e-5, atol=1e-7)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@given(eta=shares)
def test_the_posterior_of_a_loss_is_where_its_conditional_risk_is_least(loss, eta):
    chosen = get_loss(loss)
    g = chosen.level(eta)
    assert_allclose(chosen.posterior(np.array([g])), eta, rtol=1e-9)
    assert_allclose(eta * chosen.slope(g), (1 - eta) * chosen.slope(-g), atol=1e-12)


def test_an_unknown_loss_is_named():
    with pytest.raises(
        ParameterError, match="loss must be one of 'logistic', 'squared', 'sigmoid', got 'hinge'"
    ):
        get_loss("hinge")


# -- Bregman divergences ----------------------------------------------------------------------

every_generator = pytest.mark.parametrize("f", GENERATORS.values(), ids=GENERATORS)
ratios = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(1e-3, 1e3))
weights = hnp.arrays(np.int64, 6, elements=st.integers(1, 5))

RNG = np.random.default_rng(0)
T = np.geomspace(1e-3, 1e3, 61)
Z = np.linspace(-12, 12, 61)
POSITIVE, UNLABELED = RNG.gamma(3, 0.6, 7), RNG.gamma(1, 1.0, 11)


def parts(f, positive, unlabeled, alpha):
    """A and B of the non-negative risk, written out from their definition."""
    kept = (-f.slope(positive) + alpha * f.conjugate(positive)).mean()
    return kept, f.conjugate(unlabeled).mean() - alpha * f.conjugate(positive).mean()


# -- generators --------------------------------------------------------------------


VALUES = {
    "lsif": lambda t: t**2 / 2,
    "ukl": lambda t: t * np.log(t) - t,
    "bkl": lambda t: t * np.log(t) - (1 + t) * np.log(1 + t),
}


@every_generator
def test_conjugate_is_t_times_slope_minus_value(f):
    value = VALUES[f.name](T)
    assert_allclose(f.conjugate(T), T * f.slope(T) - value, rtol=1e-9, atol=1e-12 * T.max())
    assert f.conjugate(np.zeros(2)).tolist() == [0.0, 0.0]


@every_generator
def test_values_are_convex_and_their_slope_is_the_derivative(f):
    h = 1e-5 * T
    value = VALUES[f.name]
    assert_allclose((value(T + h) - value(T - h)) / (2 * h), f.slope(T), rtol=1e-5, atol=1e-6)
    assert (np.diff(f.slope(T)) > 0).all()  # convex


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_extreme_log_ratios_stay_finite_and_exact_under_the_logistic_generator(kind):
    f = GENERATORS["bkl"]
    z = np.array([-1e4, -745.0, 745.0, 1e4])
    assert_allclose(np.asarray(f.slope_of_log(kind(z))), [-1e4, -745.0, 0, 0], atol=1e-300)
    assert_allclose(np.asarray(f.conjugate_of_log(kind(z))), [0, 0, 745.0, 1e4], atol=1e-300)


def test_gradients_stay_finite_at_extreme_log_ratios():
    z = torch.tensor([-1e4, -745.0, 0.0, 745.0, 1e4], dtype=torch.float64, requires_grad=True)
    bregman_risk(z, z, generator=GENERATORS["bkl"], log=True).backward()
    assert torch.isfinite(z.grad).all()


# -- risks -------------------------------------------------------------------------


@given(positive=ratios, unlabeled=ratios)
def test_the_uncorrected_risk_of_lsif_is_half_the_square_minus_the_mean(positive, unlabeled):
    expected = (unlabeled**2).mean() / 2 - positive.mean()
    assert_allclose(bregman_risk(positive, unlabeled), expected, rtol=1e-12, atol=1e-9)


def test_the_uncorrected_risk_of_bkl_is_the_logistic_loss():
    p, u = Z[30:40], Z[10:45]
    expected = np.log1p(np.exp(-p)).mean() + np.log1p(np.exp(u)).mean()
    assert_allclose(bregman_risk(p, u, generator=GENERATORS["bkl"], log=True), expected, rtol=1e-12)


@every_generator
@given(positive=ratios, unlabeled=ratios, alpha=st.floats(0, 1))
def test_numpy_and_torch_agree_on_every_risk(f, positive, unlabeled, alpha):
    tensors = torch.from_numpy(positive), torch.from_numpy(unlabeled)
    plain = bregman_risk(positive, unlabeled, generator=f)
    assert_allclose(bregman_risk(*tensors, generator=f).item(), plain, rtol=1e-12, atol=1e-12)
    kept, rest = parts(f, positive, unlabeled, alpha)
    scale = 1e-12 * (abs(kept) + abs(rest) + f.conjugate(unlabeled).mean() + f.conjugate(positive).mean())
    if abs(rest) <= 10 * scale:  # at the boundary, rounding may select the other branch
        return
    numpy = nonnegative_bregman_risk(positive, unlabeled, alpha=alpha, generator=f)
    tensor = nonnegative_bregman_risk(*tensors, alpha=alpha, generator=f)
    for a, b in zip(numpy, tensor, strict=True):
        assert_allclose(b.item(), a, rtol=1e-12, atol=scale)


@every_generator
@given(positive=ratios, unlabeled=ratios, alpha=st.floats(0, 1))
def test_value_and_objective_follow_their_definition(f, positive, unlabeled, alpha):
    kept, rest = parts(f, positive, unlabeled, alpha)
    scale = 1e-9 * (1 + abs(kept) + abs(rest) + f.conjugate(unlabeled).mean() + f.conjugate(positive).mean())
    risk = nonnegative_bregman_risk(positive, unlabeled, alpha=alpha, generator=f)
    assert_allclose(risk.value, kept + max(0, rest), atol=scale)
    if abs(rest) > scale:
        assert_allclose(risk.objective, kept + rest if rest > 0 else -rest, atol=scale)


@every_generator
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("alpha", "negative"), [(0.0, False), (0.1, False), (5.0, True)])
def test_autograd_gives_the_gradient_of_the_branch_that_is_taken(f, log, alpha, negative):
    positive, unlabeled = (np.log(POSITIVE), np.log(UNLABELED)) if log else (POSITIVE, UNLABELED)
    p, u = (torch.tensor(x, requires_grad=True) for x in (positive, unlabeled))
    nonnegative_bregman_risk(p, u, alpha=alpha, generator=f, log=log).objective.backward()

    def branch(a, b):
        a, b = (np.exp(a), np.exp(b)) if log else (a, b)
        kept, rest = parts(f, a, b, alpha)
        assert (rest < 0) == negative
        return -rest if negative else kept + rest

    assert_allclose(p.grad, differences(lambda x: branch(x, unlabeled), positive), rtol=1e-6, atol=1e-8)
    assert_allclose(u.grad, differences(lambda x: branch(positive, x), unlabeled), rtol=1e-6, atol=1e-8)


@every_generator
def test_the_branch_needs_no_look_at_the_data(f):
    # vmap refuses any Python branch on a value, as a captured graph on a device would.
    p = torch.from_numpy(RNG.gamma(2, 1, (4, 5)))
    u = torch.from_numpy(RNG.gamma(1, 1, (4, 9)))
    alpha = torch.tensor([0.0, 0.1, 2.0, 9.0], dtype=torch.float64)
    mapped = torch.func.vmap(lambda a, b, c: nonnegative_bregman_risk(a, b, alpha=c, generator=f))(
        p, u, alpha
    )
    stacked = nonnegative_bregman_risk(p, u, alpha=alpha, generator=f)
    for one, other in zip(mapped, stacked, strict=True):
        assert_allclose(one, other, rtol=1e-12)


@every_generator
@pytest.mark.parametrize("log", [False, True])
def test_a_stack_of_models_is_the_models_one_by_one(f, log):
    p, u = RNG.gamma(2, 1, (3, 5)), RNG.gamma(1, 1, (3, 9))
    alpha = np.array([0.0, 0.3, 4.0])
    plain = bregman_risk(p, u, generator=f, log=log)
    stack = nonnegative_bregman_risk(p, u, alpha=alpha, generator=f, log=log)
    assert plain.shape == stack.value.shape == stack.objective.shape == (3,)
    for i in range(3):
        one = nonnegative_bregman_risk(p[i], u[i], alpha=alpha[i], generator=f, log=log)
        assert_allclose((stack.value[i], stack.objective[i]), one, rtol=1e-12)
        assert_allclose(plain[i], bregman_risk(p[i], u[i], generator=f, log=log), rtol=1e-12)


@every_generator
@given(w=weights, v=weights, alpha=st.sampled_from([0.0, 0.2, 5.0]))
def test_a_weight_is_a_repetition(f, w, v, alpha):
    p, u = POSITIVE[:6], UNLABELED[:6]
    given_weights = {"positive_weight": w.astype(float), "unlabeled_weight": v.astype(float)}
    weighted = nonnegative_bregman_risk(p, u, alpha=alpha, generator=f, **given_weights)
    repeated = nonnegative_bregman_risk(np.repeat(p, w), np.repeat(u, v), alpha=alpha, generator=f)
    assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-12)
    assert_allclose(
        bregman_risk(p, u, generator=f, **given_weights),
        bregman_risk(np.repeat(p, w), np.repeat(u, v), generator=f),
        rtol=1e-10,
        atol=1e-12,
    )


@every_generator
@pytest.mark.parametrize("alpha", [0.0, 0.2, 5.0])
def test_log_and_plain_risks_agree(f, alpha):
    plain = nonnegative_bregman_risk(POSITIVE, UNLABELED, alpha=alpha, generator=f)
    logs = nonnegative_bregman_risk(np.log(POSITIVE), np.log(UNLABELED), alpha=alpha, generator=f, log=True)
    assert_allclose(logs, plain, rtol=1e-12)


def test_a_step_on_the_device_keeps_the_type_it_was_given():
    p, u = (torch.tensor(x, dtype=torch.float32) for x in (POSITIVE, UNLABELED))
    for generator in GENERATORS.values():
        risk = nonnegative_bregman_risk(p, u, alpha=0.3, generator=generator)
        assert risk.value.dtype == risk.objective.dtype == torch.float32
