"""Boosted trees and forests: weights, gaps, stopping, size."""

import numpy as np
import pytest
from class_samples import draw
from numpy.testing import assert_allclose
from scipy import sparse

from drpu import BoostedRatio, make_gaussian_pu
from drpu._samples import Sample, SamplePair
from drpu.models.risks import GENERATORS, bregman_risk
from learners import ForestRatio


@pytest.fixture
def rows():
    return draw(np.random.default_rng(0), 100, 400)


def test_log_loss_starts_from_the_odds_of_the_weights():
    same = np.zeros((40, 1)), np.zeros((60, 1))
    weights = {"positive_weight": np.full(40, 3.0), "unlabeled_weight": np.full(60, 0.5)}
    assert_allclose(BoostedRatio().fit_ratio(*same, **weights).ratio(same[0]), 1, rtol=1e-6)


def test_holdout_rows_stop_the_trees_where_their_risk_is_lowest(rows):
    held = draw(np.random.default_rng(5), 60, 200)
    learner = BoostedRatio(early_stopping=True, n_rounds=200, random_state=0)
    model = learner.fit_ratio(*rows, holdout=held)

    def risk_of(function):
        return bregman_risk(*map(function.log_ratio, held), generator=GENERATORS["bkl"], log=True)

    risk = risk_of(model)
    assert_allclose(model.holdout_risk, risk, rtol=1e-6)
    train, unseen = (SamplePair(*map(Sample, samples)) for samples in (rows, held))
    grown = learner.as_grown(model, train, unseen)
    assert grown.n_rounds == model.n_rounds
    for rounds in (1, 200):
        other = grown.set_params(n_rounds=rounds).fit_ratio(*rows)
        assert risk <= risk_of(other) + 1e-9
    assert 1 <= model.n_rounds < 200


def test_trees_that_are_stopped_find_a_product_of_three_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12_000, 16))
    product = np.sign(X[:, 0] * X[:, 1] * X[:, 2])  # no column, and no pair of columns, says anything
    positive = rng.random(len(X)) < 0.5 + 0.45 * product
    scores = [
        BoostedRatio(early_stopping=True, column_share=share, random_state=0)
        .fit_ratio(X[:6000][positive[:6000]], X[6000:9000])
        .log_ratio(X[9000:])
        for share in (None, 0.5)
    ]
    # A model without any knowledge has a correlation of 0 with a standard error of 0.018.
    whole, half = (np.corrcoef(score, product[9000:])[0, 1] for score in scores)
    assert whole > half + 0.1


def test_few_positives_do_not_stop_the_trees(rows):
    model = BoostedRatio(random_state=0).fit_ratio(*rows)
    assert model.n_rounds == 150
    assert np.isnan(model.holdout_risk)


@pytest.mark.parametrize("learner", [BoostedRatio(random_state=0), ForestRatio(random_state=0)])
def test_missing_values_are_learnt_from(rows, learner):
    rng = np.random.default_rng(0)
    positive, unlabeled = (X.copy() for X in rows)
    positive[rng.random(positive.shape) < 0.5] = np.nan  # missing values are evidence for a positive
    unlabeled[rng.random(unlabeled.shape) < 0.1] = np.nan
    model = learner.fit_ratio(positive, unlabeled)
    gaps, none = model.ratio([[np.nan] * 3, [0.0, 0.0, 0.0]])
    assert gaps > 2 * none


# -- forests -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(200, 600, prior=0.4, separation=3, dimensions=4, random_state=0)


@pytest.fixture(scope="module")
def forest(data):
    return ForestRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)


def test_odds_do_not_depend_on_the_size_of_the_unlabeled_sample(data):
    many = np.repeat(data.unlabeled, 5, axis=0)
    few, lots = (
        ForestRatio(min_leaf=leaf, random_state=0).fit_ratio(data.positive, rows).ratio(data.unlabeled)
        for leaf, rows in ((20, data.unlabeled), (100, many))
    )
    assert np.corrcoef(few, lots)[0, 1] > 0.95
    assert abs(np.mean(few) - np.mean(lots)) < 0.1


def test_no_row_is_certain(data, forest):
    share = 0.25 / 150
    reach = np.log((1 - share) / share) + np.log(600 / 200)
    far = np.vstack([data.unlabeled, np.full((1, 4), 1e6), np.full((1, 4), -1e6)])
    assert np.abs(forest.log_ratio(far)).max() <= reach + 1e-9


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
    forest = ForestRatio(30, random_state=0).fit_ratio(data.positive, data.unlabeled, unlabeled_weight=weight)
    assert np.isfinite(forest.log_ratio(data.unlabeled)).all()


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_score_as_dense_ones(data, kind):
    positive, unlabeled = (np.where(np.abs(X) < 0.8, 0, X) for X in (data.positive, data.unlabeled))
    dense = ForestRatio(20, random_state=0).fit_ratio(positive, unlabeled)
    thin = ForestRatio(20, random_state=0).fit_ratio(kind(positive), kind(unlabeled))
    assert_allclose(thin.log_ratio(kind(unlabeled)), thin.log_ratio(unlabeled), rtol=1e-9)
    assert np.corrcoef(thin.log_ratio(unlabeled), dense.log_ratio(unlabeled))[0, 1] > 0.9


@pytest.mark.parametrize("most", [2, 5, 64])
def test_trees_have_at_most_the_leaves_asked_for(most, data):
    forest = ForestRatio(3, most_leaves=most, random_state=0).fit_ratio(data.positive, data.unlabeled)
    leaves = forest.trees.booster.predict(data.unlabeled, pred_leaf=True).reshape(len(data.unlabeled), -1)
    assert {len(np.unique(tree)) for tree in leaves.T} <= set(range(2, most + 1))
