import numpy as np
import pytest
from class_samples import draw
from numpy.testing import assert_allclose

from drpu import BoostedRatio
from drpu._samples import Sample, SamplePair
from drpu.models.risks import LOGISTIC, bregman_risk


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
    risk = bregman_risk(*(model.log_ratio(X) for X in held), generator=LOGISTIC, log=True)
    assert_allclose(model.holdout_risk, risk, rtol=1e-6)
    train, unseen = (SamplePair(*map(Sample, samples)) for samples in (rows, held))
    grown = learner.as_grown(model, train, unseen)
    assert grown.n_rounds == model.n_rounds
    for rounds in (1, 200):
        other = grown.set_params(n_rounds=rounds).fit_ratio(*rows)
        assert risk <= bregman_risk(*(other.log_ratio(X) for X in held), generator=LOGISTIC, log=True) + 1e-9
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


def test_missing_values_are_learnt_from(rows):
    rng = np.random.default_rng(0)
    positive, unlabeled = (X.copy() for X in rows)
    positive[rng.random(positive.shape) < 0.5] = np.nan  # missing values are evidence for a positive
    unlabeled[rng.random(unlabeled.shape) < 0.1] = np.nan
    model = BoostedRatio(random_state=0).fit_ratio(positive, unlabeled)
    gaps, none = model.ratio([[np.nan] * 3, [0.0, 0.0, 0.0]])
    assert gaps > 2 * none
