import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from drpu import make_gaussian_pu
from drpu.models.boosted import ForestRatio


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(200, 600, prior=0.4, separation=3, dimensions=4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return ForestRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)


def test_odds_do_not_depend_on_the_size_of_the_unlabeled_sample(data):
    many = np.repeat(data.unlabeled, 5, axis=0)
    few, lots = (
        ForestRatio(min_leaf=leaf, random_state=0).fit_ratio(data.positive, rows).ratio(data.unlabeled)
        for leaf, rows in ((20, data.unlabeled), (100, many))
    )
    assert np.corrcoef(few, lots)[0, 1] > 0.95
    assert abs(np.mean(few) - np.mean(lots)) < 0.1


def test_no_row_is_certain(data, model):
    share = 0.25 / 150
    reach = np.log((1 - share) / share) + np.log(600 / 200)
    far = np.vstack([data.unlabeled, np.full((1, 4), 1e6), np.full((1, 4), -1e6)])
    assert np.abs(model.log_ratio(far)).max() <= reach + 1e-9


def test_weights_shift_the_ratio_towards_the_rows_that_carry_them(data):
    heavy = np.where(data.unlabeled.sum(axis=1) > 0, 5.0, 1.0)
    plain, weighted = (
        ForestRatio(random_state=0).fit_ratio(data.positive, data.unlabeled, unlabeled_weight=w)
        for w in (None, heavy)
    )
    top = data.positive
    assert weighted.ratio(top).mean() < plain.ratio(top).mean()
    # Ratios refer to the weighted rows, over which their mean is 1.
    assert abs(np.average(weighted.ratio(data.unlabeled), weights=heavy) - 1) < 0.15


@pytest.mark.parametrize("draw", ["random", "exponential"])
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_weights_of_any_size_and_spread_are_met(data, draw, unit):
    weight = getattr(np.random.default_rng(6), draw)(size=600) ** 3
    plain, scaled = (
        ForestRatio(30, random_state=0).fit_ratio(
            data.positive, data.unlabeled, positive_weight=np.full(200, u), unlabeled_weight=u * weight
        )
        for u in (1.0, unit)
    )
    assert_allclose(scaled.log_ratio(data.unlabeled), plain.log_ratio(data.unlabeled), atol=0.02)


def test_rows_of_weight_zero_are_met(data):
    weight = np.r_[np.ones(300), np.zeros(300)]
    model = ForestRatio(30, random_state=0).fit_ratio(data.positive, data.unlabeled, unlabeled_weight=weight)
    assert np.isfinite(model.log_ratio(data.unlabeled)).all()


def test_missing_values_are_values(data):
    rng = np.random.default_rng(3)
    positive, unlabeled = (
        np.where(rng.random(X.shape) < 0.2, np.nan, X) for X in (data.positive, data.unlabeled)
    )
    scores = ForestRatio(random_state=0).fit_ratio(positive, unlabeled)
    assert np.isfinite(scores.log_ratio(unlabeled)).all()
    assert scores.log_ratio(positive).mean() > scores.log_ratio(unlabeled).mean() + 0.5
    assert np.isfinite(scores.log_ratio(np.full((1, 4), np.nan))).all()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_score_as_dense_ones(data, kind):
    positive, unlabeled = (np.where(np.abs(X) < 0.8, 0, X) for X in (data.positive, data.unlabeled))
    dense = ForestRatio(20, random_state=0).fit_ratio(positive, unlabeled)
    thin = ForestRatio(20, random_state=0).fit_ratio(kind(positive), kind(unlabeled))
    assert_allclose(thin.log_ratio(kind(unlabeled)), thin.log_ratio(unlabeled), rtol=1e-9)
    assert np.corrcoef(thin.log_ratio(unlabeled), dense.log_ratio(unlabeled))[0, 1] > 0.9


@pytest.mark.parametrize("most", [2, 5, 64])
def test_trees_have_at_most_the_leaves_asked_for(most, data):
    model = ForestRatio(3, most_leaves=most, random_state=0).fit_ratio(data.positive, data.unlabeled)
    leaves = model.trees.booster.predict(data.unlabeled, pred_leaf=True).reshape(len(data.unlabeled), -1)
    assert {len(np.unique(tree)) for tree in leaves.T} <= set(range(2, most + 1))
