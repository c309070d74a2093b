"""Identities and gradients of generators and risks; NumPy and torch agree."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from drpu.exceptions import ParameterError
from drpu.models.risks import GENERATORS, bregman_risk, get_generator, nonnegative_bregman_risk

every_generator = pytest.mark.parametrize("f", GENERATORS.values(), ids=GENERATORS)
ratios = arrays(np.float64, st.integers(1, 12), elements=st.floats(1e-3, 1e3))
weights = arrays(np.int64, 6, elements=st.integers(1, 5))

RNG = np.random.default_rng(0)
T = np.geomspace(1e-3, 1e3, 61)
Z = np.linspace(-12, 12, 61)
POSITIVE, UNLABELED = RNG.gamma(3, 0.6, 7), RNG.gamma(1, 1.0, 11)


def parts(f, positive, unlabeled, alpha):
    """A and B of the non-negative risk, written out from their definition."""
    kept = (-f.slope(positive) + alpha * f.conjugate(positive)).mean()
    return kept, f.conjugate(unlabeled).mean() - alpha * f.conjugate(positive).mean()


def numeric_gradient(function, x, step=1e-6):
    """Central differences of a scalar function of a vector."""
    gradient = np.empty_like(x)
    for i in range(len(x)):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        gradient[i] = (function(up) - function(down)) / (2 * step)
    return gradient


# -- generators --------------------------------------------------------------------


def test_the_three_generators_have_their_formulas():
    assert_allclose(get_generator("lsif").value(T), T**2 / 2)
    assert_allclose(get_generator("ukl").value(T), T * np.log(T) - T)
    assert_allclose(get_generator("bkl").value(T), T * np.log(T) - (1 + T) * np.log(1 + T), rtol=1e-9)


@every_generator
def test_conjugate_is_t_times_slope_minus_value(f):
    assert_allclose(f.conjugate(T), T * f.slope(T) - f.value(T), rtol=1e-9, atol=1e-12 * T.max())


@every_generator
def test_values_are_convex_and_their_slope_is_the_derivative(f):
    h = 1e-5 * T
    assert_allclose((f.value(T + h) - f.value(T - h)) / (2 * h), f.slope(T), rtol=1e-5, atol=1e-6)
    assert (np.diff(f.slope(T)) > 0).all()  # convex


@every_generator
def test_value_and_conjugate_are_defined_at_zero(f):
    assert f.value(np.zeros(2)).tolist() == [0.0, 0.0]
    assert f.conjugate(np.zeros(2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_extreme_log_ratios_stay_finite_and_exact_under_the_logistic_generator(kind):
    f = get_generator("bkl")
    z = np.array([-1e4, -745.0, 745.0, 1e4])
    assert_allclose(np.asarray(f.slope_of_log(kind(z))), [-1e4, -745.0, 0, 0], atol=1e-300)
    assert_allclose(np.asarray(f.conjugate_of_log(kind(z))), [0, 0, 745.0, 1e4], atol=1e-300)


def test_gradients_stay_finite_at_extreme_log_ratios():
    z = torch.tensor([-1e4, -745.0, 0.0, 745.0, 1e4], dtype=torch.float64, requires_grad=True)
    bregman_risk(z, z, generator="bkl", log=True).backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize("wrong", ["kl", 3, None])
def test_an_unknown_generator_is_refused_by_name(wrong):
    with pytest.raises(
        ParameterError, match=rf"generator must be one of 'lsif', 'ukl', 'bkl', got {wrong!r}"
    ):
        bregman_risk(POSITIVE, UNLABELED, generator=wrong)


def test_a_generator_of_the_users_own_can_be_used():
    class Doubled(type(GENERATORS["lsif"])):
        def slope(self, t):
            return 2 * t

        def conjugate(self, t):
            return t * t

    twice = bregman_risk(POSITIVE, UNLABELED, generator=Doubled())
    assert_allclose(twice, 2 * bregman_risk(POSITIVE, UNLABELED))


# -- risks -------------------------------------------------------------------------


@given(positive=ratios, unlabeled=ratios)
def test_the_uncorrected_risk_of_lsif_is_half_the_square_minus_the_mean(positive, unlabeled):
    expected = (unlabeled**2).mean() / 2 - positive.mean()
    assert_allclose(bregman_risk(positive, unlabeled), expected, rtol=1e-12, atol=1e-9)


def test_the_uncorrected_risk_of_bkl_is_the_logistic_loss():
    p, u = Z[30:40], Z[10:45]
    expected = np.log1p(np.exp(-p)).mean() + np.log1p(np.exp(u)).mean()
    assert_allclose(bregman_risk(p, u, generator="bkl", log=True), expected, rtol=1e-12)


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

    assert_allclose(p.grad, numeric_gradient(lambda x: branch(x, unlabeled), positive), rtol=1e-6, atol=1e-8)
    assert_allclose(u.grad, numeric_gradient(lambda x: branch(positive, x), unlabeled), rtol=1e-6, atol=1e-8)


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
    for generator in GENERATORS:
        risk = nonnegative_bregman_risk(p, u, alpha=0.3, generator=generator)
        assert risk.value.dtype == risk.objective.dtype == torch.float32
