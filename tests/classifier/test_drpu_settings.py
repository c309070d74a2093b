"""Settings of DRPUClassifier, and its use with the tools of scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from drpu import (
    BoostedRatio,
    ClassifierRatio,
    DRPUClassifier,
    KernelRatio,
    make_gaussian_pu,
    ratio_risk_scorer,
)
from drpu.datasets import draw_at_prior
from drpu.exceptions import ParameterError
from drpu.models.choices import AUTO

# -- settings ----------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["classifier", "boosted"])
def test_parallel_folds_change_nothing(toy, model):
    X, y = toy.X_y()
    one, two = (
        DRPUClassifier(model, holdout=3, scenario="case-control", random_state=0, n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    assert one.prior_ == two.prior_
    assert one.tails_ == two.tails_
    assert_array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize(
    "model",
    [
        "kernel",
        KernelRatio(width=1.0, ridge=0.1),
        BoostedRatio(n_rounds=20),
        ClassifierRatio(LogisticRegression()),
        LogisticRegression(),
        RandomForestClassifier(20, min_samples_leaf=5),
    ],
    ids=lambda model: model if isinstance(model, str) else type(model).__name__,
)
@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_models_come_as_names_ratios_or_classifiers(toy, model):
    clf = DRPUClassifier(model, holdout=0.3, scenario="case-control", random_state=0).fit(*toy.X_y())
    assert clf.adapt(toy.test).score(toy.test, toy.test_labels) > 0.85  # the majority class has 0.84


def test_a_share_kept_out_scores_each_row_once(toy):
    clf = DRPUClassifier("classifier", holdout=0.25, scenario="case-control", random_state=0).fit(*toy.X_y())
    assert (clf.tails_.n_positive, clf.tails_.n) == (75, 225)
    assert len(clf.model_.functions) == 1


def test_folds_score_every_row_once_in_training_and_with_each_model_later(toy):
    clf = DRPUClassifier("classifier", holdout=4, scenario="case-control", random_state=0).fit(*toy.X_y())
    assert (clf.tails_.n_positive, clf.tails_.n) == (300, 900)
    counted = clf.fitted_.count(toy.test)
    assert counted.counts.sum() == 4 * len(toy.test)
    assert counted.n == len(toy.test)


def test_without_calibration_the_model_speaks_for_itself(toy):
    clf = DRPUClassifier(
        "classifier", holdout=0.3, calibrate=False, scenario="case-control", random_state=0
    ).fit(*toy.X_y())
    ratio, model = clf.ratio(toy.test), clf.model_.ratio(toy.test)
    assert_allclose(ratio, np.minimum(model, 1 / clf.prior_.value))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cost": 1.0}, "cost must lie strictly between 0 and 1, got 1.0"),
        ({"scenario": "both"}, "scenario must be one of 'auto', 'case-control', 'single-sample', got 'both'"),
        ({"prior": "magic"}, "prior must be one of 'auto'"),
        ({"prior": "matching"}, "prior must be one of 'auto'"),
        ({"prior": 30}, "a prior is the share of positives, not a percentage"),
        ({"label_delay": -1, "scenario": "single-sample"}, "label_delay must be .*at least 0, got -1"),
        (
            {"label_delay": 1, "scenario": "case-control"},
            "label_delay must be 0 with scenario='case-control'",
        ),
        ({"model": "deep"}, "model must be one of 'auto'"),
        ({"model": KernelRatio}, r"write KernelRatio\(\)"),
        ({"model": LogisticRegression}, r"write LogisticRegression\(\)"),
        *(
            ({"model": wrong}, "model must be a name, a density ratio")
            for wrong in (3, None, LinearSVC(), StandardScaler(), len)
        ),
        ({"holdout": 1}, "holdout must be at least 2, got 1"),
        ({"holdout": 0.0}, "holdout must lie strictly between 0 and 1"),
        ({"holdout": "half"}, "holdout must be 'auto'"),
        ({"holdout": 10_000}, "more folds than there are positives"),
        ({"calibrate": "yes"}, "calibrate must be True or False"),
        ({"n_jobs": 0}, "n_jobs must be None"),
        ({"n_jobs": "all"}, "n_jobs must be None"),
        ({"verbose": "yes"}, "verbose must be an integer"),
        ({"random_state": -1}, "random_state must be None"),
    ],
)
def test_a_wrong_setting_is_named_before_any_work(toy, parameters, message):
    with pytest.raises(ParameterError, match=message):
        DRPUClassifier(**parameters).fit(*toy.X_y())


@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function", "ratio", "adapt"])
def test_nothing_works_before_fit(toy, method):
    with pytest.raises(NotFittedError, match="call fit"):
        getattr(DRPUClassifier(scenario="case-control"), method)(toy.test)
    for attribute in ("prior_", "threshold_", "tails_", "model_"):
        with pytest.raises(NotFittedError):
            getattr(DRPUClassifier(scenario="case-control"), attribute)


# -- scikit-learn's tools ----------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")
def test_grid_search_needs_no_true_labels(toy):
    X, y = toy.X_y()
    pipe = make_pipeline(
        StandardScaler(),
        DRPUClassifier(
            KernelRatio(ridge=0.1, n_centres=50), holdout=0.3, scenario="case-control", random_state=0
        ),
    )
    grid = {"drpuclassifier__model__width": [0.02, 1.0]}
    search = GridSearchCV(pipe, grid, scoring=ratio_risk_scorer, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_["drpuclassifier__model__width"] == 1.0


def test_the_scorer_prefers_the_true_ratio(toy, fitted):
    X, y = toy.X_y()

    class Fixed:
        def __init__(self, ratio):
            self.ratio = ratio

    true = ratio_risk_scorer(Fixed(toy.ratio), X, y)
    assert true > ratio_risk_scorer(Fixed(lambda rows: np.ones(len(rows))), X, y)
    assert true > ratio_risk_scorer(fitted, X, y) - 0.02
    with pytest.raises(ParameterError, match="must have a ratio method"):
        ratio_risk_scorer(LogisticRegression(), X, y)


def test_a_test_set_at_another_prior_is_recognised_at_every_prior(toy, fitted):
    pool = make_gaussian_pu(
        10, 10, prior=0.5, n_test=8000, test_prior=0.5, separation=3, dimensions=2, random_state=5
    )
    for prior in (0.02, 0.3, 0.7, 0.98):
        X, _ = draw_at_prior(pool.test, pool.test_labels, prior, 2000, random_state=0)
        assert abs(fitted.adapt(X).prior_.value - prior) < 0.06


def test_the_default_says_what_it_did(toy, caplog):
    with caplog.at_level("INFO", logger="drpu"):
        clf = DRPUClassifier(holdout=2, scenario="case-control", random_state=0, verbose=1).fit(*toy.X_y())
    members = (
        f"log-ratio of 0.5 x a forest of {AUTO.fold_trees} trees + 0.25 x {AUTO.fold_rounds} boosted trees"
    )
    assert clf.model_.describe().startswith(f"2 folds of {members}")
    said = caplog.text
    assert "300 positives, 900 unlabeled rows" in said
    assert members in said
    assert str(clf.prior_) in said


def test_rows_are_scored_in_parts_without_a_trace(toy, fitted, monkeypatch):
    whole = fitted.decision_function(toy.test), fitted.fitted_.count(toy.test)
    monkeypatch.setattr("drpu.state.fitted._CHUNK", 97)
    assert_array_equal(fitted.decision_function(toy.test), whole[0])
    assert fitted.fitted_.count(toy.test) == whole[1]
