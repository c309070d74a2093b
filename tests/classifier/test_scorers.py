"""Scorers that need positive and unlabeled rows only, compared with true labels."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import (
    AUCScorer,
    Costs,
    CostScorer,
    DRPUClassifier,
    ElkanNotoClassifier,
    make_gaussian_pu,
    ratio_risk_scorer,
)
from drpu.exceptions import DataError, ParameterError, PriorError

PRIOR = 0.3


@pytest.fixture(scope="module")
def world():
    """A classifier, fresh positive and unlabeled rows, and fresh rows with their true labels."""
    settings = {"prior": PRIOR, "test_prior": PRIOR, "separation": 2, "dimensions": 2}
    train = make_gaussian_pu(400, 1000, random_state=0, **settings)
    fresh = make_gaussian_pu(4000, 4000, n_test=8000, random_state=1, **settings)
    clf = DRPUClassifier("classifier", prior=PRIOR, random_state=0).fit(*train.X_y())
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
    flagged = clf.at_prior(PRIOR, cost=cost).predict(rows) == 1
    truth = ((1 - cost) * (labels & ~flagged) + cost * (flagged & ~labels.astype(bool))).mean()
    assert_allclose(-CostScorer(PRIOR, cost=cost)(clf, X, y), truth, atol=0.012)


def test_amounts_give_the_cost_in_their_unit(world):
    clf, (X, y), _ = world
    costs = Costs(false_alarm=3, miss=1)
    assert_allclose(CostScorer(PRIOR, cost=costs)(clf, X, y), 4 * CostScorer(PRIOR, cost=0.75)(clf, X, y))


def test_search_and_importance_work_without_true_labels():
    X, y = make_gaussian_pu(220, 500, prior=0.3, separation=3, random_state=0).X_y()
    X = np.column_stack([X, np.random.default_rng(0).normal(size=len(X))])
    pipeline = make_pipeline(StandardScaler(), DRPUClassifier("classifier", random_state=0))
    search = GridSearchCV(
        pipeline, {"drpuclassifier__calibrate": [True, False]}, scoring=CostScorer(0.3), cv=2
    ).fit(X, y)
    assert search.best_score_ < 0
    found = permutation_importance(
        search.best_estimator_, X, y, scoring=AUCScorer(0.3), n_repeats=3, random_state=0
    )
    assert found.importances_mean[0] > 0.1
    assert abs(found.importances_mean[1]) < 0.02  # a column of noise


@pytest.mark.filterwarnings("ignore::drpu.exceptions.MorePositivesWarning")
def test_rivals_are_scored_by_the_labels_that_they_give(world):
    _, (X, y), _ = world
    rival = ElkanNotoClassifier(random_state=0).fit(X[:4500], y[:4500])
    assert -0.5 < CostScorer(PRIOR)(rival, X, y) < 0


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
