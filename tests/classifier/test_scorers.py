"""Scorers that need positive and unlabeled rows only, compared with true labels."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import (
    AUCScorer,
    Costs,
    CostScorer,
    PUStratifiedKFold,
    make_gaussian_pu,
    ratio_risk_scorer,
)
from drpu.exceptions import DataError, LabelError, ParameterError, PriorError
from shared_fixtures import case_control

PRIOR = 0.3


@pytest.fixture(scope="module")
def world():
    """A classifier, fresh positive and unlabeled rows, and fresh rows with their true labels."""
    settings = {"prior": PRIOR, "test_prior": PRIOR, "separation": 2, "dimensions": 2}
    train = make_gaussian_pu(400, 1000, random_state=0, **settings)
    fresh = make_gaussian_pu(4000, 4000, n_test=8000, random_state=1, **settings)
    clf = case_control(prior=PRIOR).fit(*train.X_y())
    return clf, fresh.X_y(), (fresh.test, fresh.test_labels)


def test_the_area_is_that_against_true_negatives(world):
    clf, (X, y), (rows, labels) = world
    truth = roc_auc_score(labels, clf.decision_function(rows))
    assert_allclose(AUCScorer(prior=PRIOR)(clf, X, y), truth, atol=0.02)  # three standard errors of either
    assert AUCScorer()(clf, X, y) < truth  # the plain area bounds it from below
    assert AUCScorer(prior=0.5)(clf, X, y) > truth


@pytest.mark.parametrize("cost", [0.5, 0.2, 0.8])
def test_the_cost_is_that_of_true_labels(world, cost):
    clf, (X, y), (rows, labels) = world
    flagged = clf.at_prior(PRIOR).at_cost(cost).predict(rows) == 1
    truth = ((1 - cost) * (labels & ~flagged) + cost * (flagged & ~labels.astype(bool))).mean()
    assert_allclose(-CostScorer(PRIOR, cost=cost)(clf, X, y), truth, atol=0.012)


def test_amounts_give_the_cost_in_their_unit(world):
    clf, (X, y), _ = world
    costs = Costs(false_alarm=3, miss=1)
    assert_allclose(CostScorer(PRIOR, cost=costs)(clf, X, y), 4 * CostScorer(PRIOR, cost=0.75)(clf, X, y))


def test_search_and_importance_work_without_true_labels():
    X, y = make_gaussian_pu(220, 500, prior=0.3, separation=3, random_state=0).X_y()
    X = np.column_stack([X, np.random.default_rng(0).normal(size=len(X))])
    pipeline = make_pipeline(StandardScaler(), case_control())
    search = GridSearchCV(
        pipeline, {"drpuclassifier__calibrate": [True, False]}, scoring=CostScorer(0.3), cv=2
    ).fit(X, y)
    assert search.best_score_ < 0
    found = permutation_importance(
        search.best_estimator_, X, y, scoring=AUCScorer(0.3), n_repeats=3, random_state=0
    )
    assert found.importances_mean[0] > 0.1
    assert abs(found.importances_mean[1]) < 0.02  # a column of noise


@pytest.mark.parametrize("scorer", [AUCScorer(), CostScorer(PRIOR), ratio_risk_scorer])
def test_rows_and_labels_of_different_lengths_are_refused(world, scorer):
    clf, (X, y), _ = world
    with pytest.raises(DataError, match="same number of rows"):
        scorer(clf, X, y[:-3])


def test_wrong_arguments_are_named():
    with pytest.raises(PriorError, match="prior must be below 1"):
        AUCScorer(prior=1.0)
    with pytest.raises(ParameterError, match="cost must lie"):
        CostScorer(0.3, cost=1.5)
    with pytest.raises(ParameterError, match="decision_function or predict_proba"):
        AUCScorer()(object(), np.ones((2, 1)), [0, 1])


CODINGS = {
    "yes or None": lambda y: np.where(y == 1, "yes", None),
    "1 or NaN": lambda y: np.where(y == 1, 1.0, np.nan),
    "True or NA": lambda y: pd.Series(np.where(y == 1, True, None), dtype="boolean"),
    "7 or NaN": lambda y: pd.array(np.where(y == 1, 7, None), dtype="Int64"),
}


@pytest.mark.parametrize("coding", CODINGS)
def test_a_missing_label_is_scored_as_not_positive(world, coding):
    _, (X, y), _ = world
    labels = CODINGS[coding](y)
    same = case_control(prior=PRIOR).fit(X[3600:5000], labels[3600:5000])
    plain = case_control(prior=PRIOR).fit(X[3600:5000], y[3600:5000])
    assert same.score(X, labels) == plain.score(X, y)
    weight = np.arange(len(X))
    assert same.score(X, labels, weight) == pytest.approx(plain.score(X, y, weight))
    for scorer in (AUCScorer(), CostScorer(PRIOR), ratio_risk_scorer):
        assert scorer(same, X, labels) == scorer(plain, X, y)
    with pytest.raises(LabelError, match="the labels of training"):
        same.score(X[:2], ["strange", None])


@pytest.mark.parametrize("cv", [KFold(3, shuffle=True, random_state=0), PUStratifiedKFold(3)])
def test_a_search_works_with_missing_labels_and_no_scoring(cv):
    X, y = make_gaussian_pu(240, 400, prior=0.3, separation=3, random_state=0).X_y()
    labels = CODINGS["yes or None"](y)
    clf = case_control()
    search = GridSearchCV(clf, {"calibrate": [True, False]}, cv=cv, error_score="raise").fit(X, labels)
    assert 0.5 < search.best_score_ <= 1
    assert np.isfinite(cross_val_score(clf, X, labels, cv=cv, scoring=AUCScorer(), error_score="raise")).all()


def test_every_fold_has_its_share_of_positives_and_whole_groups():
    labels = np.array([None] * 57 + ["yes"] * 12, dtype=object)
    groups = np.repeat(np.arange(23), 3)
    positive = labels == "yes"
    for folds in (PUStratifiedKFold(3), PUStratifiedKFold(3, shuffle=True, random_state=1)):
        held = [test for _, test in folds.split(labels, labels)]
        assert [int(positive[test].sum()) for test in held] == [4, 4, 4]
        assert_allclose(np.sort(np.concatenate(held)), np.arange(69))
        for train, test in folds.split(labels, labels, groups):
            assert not set(groups[train]) & set(groups[test])
            assert positive[test].any()


@pytest.mark.parametrize("wrap", [list, lambda y: y.astype(object), lambda y: y[:, None], lambda y: y == 1])
def test_score_reads_labels_in_every_container(world, wrap):
    clf, _, (X, y) = world
    assert clf.score(X, wrap(y)) == np.mean(clf.predict(X) == y)


def test_score_refuses_what_it_cannot_compare(world):
    clf, _, (X, y) = world
    for wrong in ({"y": y[:-1]}, {"y": y, "sample_weight": [1.0]}, {"y": y, "sample_weight": 0.0 * y}):
        with pytest.raises(DataError):
            clf.score(X, **wrong)
    with pytest.raises(LabelError, match="'maybe'"):
        clf.score(X, ["maybe"] * len(y))


def test_a_search_over_costs_needs_a_scorer_that_knows_what_mistakes_cost():
    X, y = make_gaussian_pu(200, 600, prior=0.4, separation=3, random_state=0).X_y()
    clf = case_control()
    amounts = Costs(5, 200)
    costs = {"cost": [0.95, 0.5, amounts]}
    folds = PUStratifiedKFold(2)
    by_accuracy = GridSearchCV(clf, costs, cv=folds).fit(X, y)
    assert by_accuracy.best_params_["cost"] == 0.95  # unlabeled positives count as negatives
    own = CostScorer(0.4, cost=amounts, own_cost=True)
    assert GridSearchCV(clf, costs, scoring=own, cv=folds).fit(X, y).best_params_["cost"] == amounts
    at_amounts = GridSearchCV(clf, costs, scoring=CostScorer(0.4, cost=amounts), cv=folds).fit(X, y)
    scores = at_amounts.cv_results_["mean_test_score"]
    assert np.ptp(scores) == 0  # every candidate decides at the cost of the scorer
