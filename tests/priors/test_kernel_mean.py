import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.linalg import eigh
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from drpu import KernelMeanPrior, exceptions
from drpu.priors.kernel_mean import DistanceCurve

BISECTION_STEP = 7 / 256  # of the brackets between 1 and 8 that are searched


def sample(prior, n=150, dims=2, apart=3.5, seed=0):
    rng = np.random.default_rng(seed)
    shift = apart / np.sqrt(dims)
    unlabeled = rng.normal(0, 1, (n, dims)) + shift * (np.arange(n) < round(prior * n))[:, None]
    return rng.normal(shift, 1, (n, dims)), unlabeled


def root(K):
    values, vectors = eigh(K)
    seen = values > 1e-13 * values[-1]
    return np.sqrt(values[seen])[:, None] * vectors[:, seen].T


def hull_distance(F, u):
    """Distance of F u from the hull of F's columns, as a non-negative least-squares problem.

    The shortest mixture of the columns a_i = f_i - F u solves min |A x|^2 + (1'x - 1)^2
    up to its scale (Lawson and Hanson).
    """
    A = F - (F @ u)[:, None]
    x, _ = nnls(np.vstack([A, np.ones(len(u))]), np.append(np.zeros(len(A)), 1.0), maxiter=100 * len(u))
    return np.linalg.norm(A @ x) / x.sum()


def published_procedure(positive, unlabeled, method):
    """KM1 and KM2 as their authors describe them, every program solved."""
    n, m = len(unlabeled), len(positive)
    X = np.vstack([unlabeled, positive])
    distances = cdist(X, X)
    contrast = np.repeat([1 / n, -1 / m], [n, m])
    kernels = [np.exp(-(distances**2) / (2 * w**2)) for w in np.median(distances) * np.logspace(-1, 1, 5)]
    K = max(kernels, key=lambda K: contrast @ K @ contrast)
    scale, F = np.sqrt(contrast @ K @ contrast), root(K)

    def slope(low, high):
        targets = [np.repeat([lam / n, (1 - lam) / m], [n, m]) for lam in (low, high)]
        return (hull_distance(F, targets[1]) - hull_distance(F, targets[0])) / (high - low)

    stop = 1 / np.sqrt(min(n, m))
    if method == "km2" or stop > 0.9 * scale:
        stop = 0.8 * slope(1.0, 1.05) + 0.2 * scale
    left, right = 1.0, 8.0
    while right - left > 0.04:
        middle = (left + right) / 2
        left, right = (left, middle) if slope(middle, middle + 0.02) > stop else (middle, right)
    return (left + right) / 2


@pytest.mark.parametrize("method", ["km1", "km2"])
@pytest.mark.parametrize(("prior", "dims"), [(0.2, 2), (0.5, 2), (0.5, 10), (0.7, 30)])
def test_estimate_is_that_of_the_published_procedure(method, prior, dims):
    positive, unlabeled = sample(prior, n=60, dims=dims)
    ours = KernelMeanPrior(method).estimate(positive, unlabeled).value
    assert abs(1 / (1 - ours) - published_procedure(positive, unlabeled, method)) < BISECTION_STEP + 1e-9


@pytest.mark.parametrize("dims", [2, 40])
@pytest.mark.parametrize("lam", [1.05, 1.7, 2.5, 6.0])
def test_distance_is_that_of_the_hull(dims, lam):
    positive, unlabeled = sample(0.4, n=160, dims=dims)
    curve = DistanceCurve(unlabeled, positive)
    u = np.repeat([lam / 160, (1 - lam) / 160], 160)
    assert_allclose(curve.distance(lam), hull_distance(root(curve.kernel), u), atol=2.5e-4 * curve.scale)


# Over twelve other seeds the errors had mean .015, .003, -.044 and standard deviation .02, .027, .037:
# KM2 underestimates high priors. The margins are the bias and four standard errors of a mean of three.
@pytest.mark.parametrize(
    ("prior", "most"), [(0.1, 0.065), pytest.param(0.4, 0.07, marks=pytest.mark.slow), (0.7, 0.13)]
)
def test_priors_of_separated_gaussians_are_found(prior, most):
    errors = [
        KernelMeanPrior("km2").estimate(*sample(prior, n=200, seed=seed)).value - prior for seed in range(3)
    ]
    assert abs(np.mean(errors)) < most


@pytest.mark.parametrize("method", ["km1", "km2"])
def test_identical_samples_give_the_largest_estimate_and_a_warning(method):
    rows = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(exceptions.PriorBoundaryWarning, match="lower bound"):
        prior = KernelMeanPrior(method).estimate(rows, rows)
    assert 0.87 < prior.value <= 0.875


def test_constant_rows_are_one_sample():
    with pytest.warns(exceptions.PriorBoundaryWarning):
        assert KernelMeanPrior().estimate(np.ones((5, 2)), np.ones((7, 2))).value <= 0.875


def test_order_shifting_turning_and_scaling_of_all_rows_change_nothing():
    positive, unlabeled = sample(0.4, n=80)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    plain = KernelMeanPrior().estimate(positive, unlabeled).value
    samples = positive[::-1], unlabeled[::-1]
    moved = KernelMeanPrior().estimate(*(30 * rows @ turn + 5 for rows in samples)).value
    assert_allclose(moved, plain, atol=1e-12)


@pytest.mark.parametrize("dims", [60, 300])  # fewer and more columns than rows
def test_wide_rows_are_read_on_their_principal_components(dims):
    positive, unlabeled = sample(0.4, n=100)
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(dims, 2)))[0].T
    plain = KernelMeanPrior().estimate(positive, unlabeled).value
    wide = KernelMeanPrior(max_dims=2).estimate(positive @ axes, unlabeled @ axes).value
    assert_allclose(wide, plain, atol=1e-12)


@pytest.mark.parametrize("dims", [60, 300])
def test_sparse_rows_give_what_dense_rows_give(dims):
    rng = np.random.default_rng(0)
    positive = rng.normal(1, 1, (80, dims)) * (rng.random((80, dims)) < 0.2)
    unlabeled = rng.normal(0, 1, (90, dims)) * (rng.random((90, dims)) < 0.2)
    unlabeled[:30] = rng.permuted(positive[:30], axis=0)
    dense = KernelMeanPrior().estimate(positive, unlabeled).value
    thin = KernelMeanPrior().estimate(sparse.csr_matrix(positive), sparse.coo_matrix(unlabeled)).value
    assert thin == dense


def test_draw_of_rows_follows_the_seed():
    positive, unlabeled = sample(0.4, n=300, apart=2.0)
    values = [
        KernelMeanPrior(max_rows=40, random_state=seed).estimate(positive, unlabeled).value
        for seed in (0, 0, 1, 2, 3)
    ]
    assert values[0] == values[1]
    assert len(set(values)) > 1


def test_limits_say_nothing_and_say_so():
    prior = KernelMeanPrior("km1").estimate(*sample(0.4, n=40))
    assert (prior.low, prior.high, prior.method) == (0.0, 1.0, "km1")


@pytest.mark.parametrize(
    ("settings", "positive", "unlabeled", "words"),
    [
        ({"method": "km3"}, np.ones((3, 2)), np.ones((3, 2)), "method must be one of"),
        ({"max_rows": 1}, np.ones((3, 2)), np.ones((3, 2)), "max_rows must be at least 2"),
        ({}, np.ones(3), np.ones((3, 2)), "positive must have two dimensions"),
        ({}, np.ones((3, 2)), np.ones((0, 2)), "unlabeled must hold at least one row"),
        ({}, np.ones((3, 2)), np.full((3, 2), np.nan), "unlabeled must be finite"),
        ({}, np.ones((3, 2)), np.ones((3, 4)), "same columns, got 2 and 4"),
        ({}, np.array([["a", "b"]]), np.ones((3, 2)), "positive must hold numbers"),
    ],
)
def test_what_cannot_be_used_is_named(settings, positive, unlabeled, words):
    with pytest.raises(exceptions.DRPUError, match=words):
        KernelMeanPrior(**settings).estimate(positive, unlabeled)
