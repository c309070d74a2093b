from dataclasses import replace

import numpy as np
import pytest
from class_samples import draw
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from drpu import KernelRatio
from drpu.exceptions import DataError
from drpu.models import Scaling
from drpu.models.features import exact_product, make_basis, rounded_factor, row_step
from drpu.models.risks import bregman_risk

KINDS = ["features", "centroids", "rows"]


@pytest.fixture
def rows():
    return draw(np.random.default_rng(0), 60, 200)


@pytest.mark.parametrize("kind", KINDS)
def test_closed_form_solves_the_normal_equations(kind):
    rows = draw(np.random.default_rng(0), 60, 2000)  # more than are read at a time
    positive, unlabeled = rows
    settings = {"n_centres": 20, "width": 1.5, "ridge": 0.03, "random_state": 0}
    model = KernelRatio(kind, **settings).fit_ratio(*rows)

    def design(X):  # the constant comes first and is not shrunk
        phi = model.basis.shape(model.basis.project(X), model.width)
        return np.column_stack([np.ones(len(X)), phi])

    phi = design(unlabeled)
    penalty = 0.03 * np.diag([0.0] + [1.0] * model.basis.size)
    weights = np.linalg.solve(phi.T @ phi / len(phi) + penalty, design(positive).mean(axis=0))
    learnt = np.r_[model.intercept, model.coef]
    assert_allclose(learnt, weights, rtol=1e-6, atol=1e-8)


def test_basis_functions_are_gaussians_of_the_standardised_distance(rows):
    _, unlabeled = rows
    basis = KernelRatio("rows", n_centres=7, width=1.3, ridge=1.0, random_state=0).fit_ratio(*rows).basis
    Z = (unlabeled - unlabeled.mean(axis=0)) / unlabeled.std(axis=0)
    distance = np.linalg.norm(Z[:, None] - basis.points, axis=2)
    got = basis.shape(basis.project(unlabeled), 1.3)
    assert_allclose(got, np.exp(-(distance**2) / (2 * 1.3**2)), atol=1e-10)


def test_random_features_have_the_inner_products_of_the_gaussian_kernel(rows):
    X = rows[1][:10]
    basis = make_basis("features", X, 20_000, Scaling.none(3), np.random.default_rng(0))
    phi = basis.shape(basis.project(X), 2.0)
    kernel = np.exp(-np.sum((X[:, None] - X) ** 2, axis=2) / 8)
    assert_allclose(phi @ phi.T, kernel, atol=5 / np.sqrt(20_000))


def test_integer_weights_are_repeated_rows(rows):
    positive, unlabeled = rows
    rng = np.random.default_rng(2)
    w_p, w_u = rng.integers(0, 4, len(positive)), rng.integers(0, 4, len(unlabeled))
    settings = {"n_centres": 30, "width": 1.5, "ridge": 0.01, "random_state": 0}
    learner = KernelRatio("features", **settings)
    weighted = learner.fit_ratio(positive, unlabeled, positive_weight=w_p, unlabeled_weight=w_u)
    repeated = learner.fit_ratio(np.repeat(positive, w_p, axis=0), np.repeat(unlabeled, w_u, axis=0))
    assert_allclose(weighted.log_ratio(unlabeled), repeated.log_ratio(unlabeled), rtol=1e-8)


def test_width_and_ridge_have_the_lowest_risk_on_the_holdout(rows):
    rng = np.random.default_rng(3)
    held = draw(rng, 40, 150)
    chosen = KernelRatio(random_state=0).fit_ratio(*rows, holdout=held)
    again = KernelRatio(width=chosen.width, ridge=chosen.ridge, random_state=0).fit_ratio(*rows)
    ratios = [np.maximum(0, again.ratio(X)) for X in held]
    assert_allclose(chosen.holdout_risk, bregman_risk(*ratios), atol=0.01)
    for width in (0.3, 1.0, 3.0):
        for ridge in (1e-3, 1e-1):
            other = KernelRatio(width=width, ridge=ridge, random_state=0).fit_ratio(*rows, holdout=held)
            assert chosen.holdout_risk < other.holdout_risk + 0.02


def test_fits_below_zero_keep_their_order():
    rng = np.random.default_rng(0)
    model = KernelRatio("rows", ridge=1e-6, width=0.6, random_state=0).fit_ratio(*draw(rng, 200, 1000, d=1))
    X = np.linspace(-3, 3, 400)[:, None]
    raw = model.intercept + model.basis.shape(model.basis.project(X), model.width) @ model.coef
    assert (raw < 0).any()
    assert_array_equal(np.argsort(model.log_ratio(X)), np.argsort(raw))
    assert_allclose(model.ratio(X), np.maximum(raw, 0), atol=0.004)


def test_parts_that_do_not_fit_together_are_refused(rows):
    function = KernelRatio(random_state=0).fit_ratio(*rows)
    with pytest.raises(DataError, match="coef"):
        replace(function, coef=function.coef[:-1])
    with pytest.raises(DataError, match="phase"):
        replace(function.basis, phase=np.zeros(3))
    with pytest.raises(DataError, match="one shape"):
        Scaling(np.zeros(3), np.ones(2))


def test_centroids_are_means_of_at_least_five_rows():
    rng = np.random.default_rng(0)
    unlabeled = np.vstack([rng.normal(0, 1, (50, 2)), rng.normal(50, 0.1, (4, 2)), [[900.0, -900.0]]])
    basis = KernelRatio(n_centres=10, random_state=0).fit_ratio(unlabeled[:20], unlabeled).basis
    assert 0 < basis.size <= 10
    centres = basis.scaling.shift + basis.scaling.scale * basis.points
    for centre in centres:
        assert np.linalg.norm(unlabeled - centre, axis=1).min() > 1e-9
    assert not (np.abs(centres) > 40).any()


# -- sums that do not depend on the batch --------------------------------------------------


def by_rounded_factor(A, B):
    step = row_step(A.shape[1], np.abs(A).max())
    return (np.rint(A / step) * step) @ rounded_factor(B)


@pytest.mark.parametrize(("product", "digits"), [(exact_product, 2.0**-40), (by_rounded_factor, 2.0**-19)])
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 300), scale=st.floats(-200, 200))
def test_products_do_not_depend_on_the_order_of_the_terms(product, digits, seed, d, scale):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_t(2, (5, d)) * 2.0**scale, rng.standard_t(2, (d, 4))
    order = rng.permutation(d)
    found = product(A, B)
    assert_array_equal(product(A[:, order], B[order]), found)
    largest = np.abs(A).max() * np.abs(B).max(axis=0)
    assert (np.abs(found - A @ B) <= d * largest * digits).all()
