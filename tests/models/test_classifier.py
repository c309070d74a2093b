from dataclasses import replace

import numpy as np
import pytest
from class_samples import draw
from numpy.testing import assert_allclose
from scipy.special import logit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from codec_laws import check_edits, round_trip
from drpu import ClassifierRatio
from drpu._codec import encode
from drpu.exceptions import ArtifactError, ParameterError
from drpu.models.estimators import write_estimators

MADE_OF_ROWS = [
    KNeighborsClassifier(),
    CalibratedClassifierCV(SVC(), cv=2),
    GaussianProcessClassifier(),
    make_pipeline(StandardScaler(), Nystroem(n_components=10), LogisticRegression()),
    make_pipeline(KNNImputer(), LogisticRegression()),
    make_pipeline(SimpleImputer(), LogisticRegression()),  # medians are values of rows
    make_pipeline(RobustScaler(), LogisticRegression()),
    HistGradientBoostingClassifier(max_iter=3),  # and so are the limits of its bins
    BaggingClassifier(KNeighborsClassifier(), n_estimators=2),
    VotingClassifier([("a", LogisticRegression()), ("b", KNeighborsClassifier())], voting="soft"),
]
NOT_OF_ROWS = [
    None,
    GaussianNB(),
    make_pipeline(StandardScaler(), RBFSampler(random_state=0), LogisticRegression()),
    CalibratedClassifierCV(LinearSVC(), cv=2),
    DecisionTreeClassifier(max_depth=2),
    RandomForestClassifier(5),
    ExtraTreesClassifier(5),
    GradientBoostingClassifier(n_estimators=3),
    MLPClassifier((3,), max_iter=400, tol=1e-2),
    VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
    StackingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], cv=2),
]


@pytest.fixture
def rows():
    return draw(np.random.default_rng(0), 30, 90)


@pytest.mark.parametrize("weighted", [False, True])
def test_ratio_is_the_odds_times_the_sizes(rows, weighted):
    rng = np.random.default_rng(1)
    w_p, w_u = (rng.random(30), rng.random(90)) if weighted else (np.ones(30), np.ones(90))
    weights = {"positive_weight": w_p, "unlabeled_weight": w_u} if weighted else {}
    model = ClassifierRatio(GaussianNB()).fit_ratio(*rows, **weights)
    plain = GaussianNB().fit(np.vstack(rows), np.repeat([1, 0], [30, 90]), sample_weight=np.r_[w_p, w_u])
    odds = np.exp(np.diff(plain.predict_log_proba(rows[1]), axis=1)[:, 0])
    assert_allclose(model.ratio(rows[1]), odds * w_u.sum() / w_p.sum(), rtol=1e-9)


def test_default_is_a_logistic_regression_on_standardised_columns(rows):
    positive, unlabeled = (X * [1.0, 1e6, 1e-6] for X in rows)
    scaled = ClassifierRatio().fit_ratio(positive, unlabeled)
    assert_allclose(
        scaled.log_ratio(unlabeled), ClassifierRatio().fit_ratio(*rows).log_ratio(rows[1]), atol=1e-3
    )


@pytest.mark.parametrize("classifier", [None, LogisticRegression(C=1e6, max_iter=10_000)])
def test_extreme_odds_keep_their_order(classifier):
    rng = np.random.default_rng(0)
    model = ClassifierRatio(classifier).fit_ratio(rng.normal(2, 1, (60, 1)), rng.normal(-2, 1, (60, 1)))
    scores = model.log_ratio(np.linspace(0, 60, 50)[:, None])
    assert (np.diff(scores) > 0).all()
    assert scores.max() > 40  # odds that 1 - p cannot hold
    assert not model.smoothed


@pytest.mark.parametrize("classifier", [DecisionTreeClassifier(), RandomForestClassifier(20)])
def test_certain_probabilities_are_smoothed_in_order(classifier, rows):
    model = ClassifierRatio(classifier, random_state=0).fit_ratio(*rows)
    p = model.estimator.predict_proba(rows[1])[:, 1]
    assert model.smoothed
    smooth = (120 * p + 0.5) / 121
    assert_allclose(model.log_ratio(rows[1]), logit(smooth) + np.log(90 / 30), rtol=1e-9)


def test_weights_reach_the_last_step_of_a_pipeline(rows):
    rng = np.random.default_rng(0)
    w_p, w_u = rng.integers(1, 4, 30), rng.integers(1, 4, 90)
    nested = make_pipeline(make_pipeline(LogisticRegression(tol=1e-8)))
    weighted = ClassifierRatio(nested).fit_ratio(*rows, positive_weight=w_p, unlabeled_weight=w_u)
    direct = LogisticRegression(tol=1e-8).fit(
        np.vstack(rows),
        np.repeat([1, 0], [30, 90]),
        sample_weight=np.concatenate([w_p / w_p.mean(), w_u / w_u.mean()]),
    )
    odds = direct.decision_function(rows[1]) - np.log(30 / 90)
    assert_allclose(weighted.log_ratio(rows[1]), odds, atol=1e-6)


def test_weights_that_a_classifier_cannot_take_are_an_error(rows):
    with pytest.raises(ParameterError, match="KNeighborsClassifier"):
        ClassifierRatio(KNeighborsClassifier()).fit_ratio(*rows, positive_weight=np.ones(30))


@pytest.mark.parametrize("classifier", MADE_OF_ROWS, ids=lambda c: type(c).__name__)
def test_classifiers_made_of_rows_say_so(classifier, rows):
    model = ClassifierRatio(classifier, random_state=0).fit_ratio(*rows)
    assert "values of training rows" in model.keeps.values()
    assert round_trip(model).keeps == model.keeps


@pytest.mark.parametrize("classifier", NOT_OF_ROWS, ids=lambda c: type(c).__name__)
def test_other_classifiers_hold_no_row_and_come_back_from_a_file(classifier, rows):
    model = ClassifierRatio(classifier, random_state=0).fit_ratio(*rows)
    assert model.keeps == {}
    assert_allclose(round_trip(model).log_ratio(rows[1]), model.log_ratio(rows[1]), rtol=0, atol=1e-12)
    (archive,) = encode(model).blobs.values()
    for X in rows:
        for dtype in (np.float64, np.float32):
            assert not any(row.astype(dtype).tobytes() in archive for row in X)


def test_means_of_few_rows_are_values_of_rows():
    rng = np.random.default_rng(0)
    few, many = (ClassifierRatio(GaussianNB()).fit_ratio(*draw(rng, n, 90)) for n in (4, 6))
    assert few.keeps == {"GaussianNB": "values of training rows"}
    assert many.keeps == {}


class Stranger(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


class Unwritable(Stranger):
    def fit(self, X, y):
        self.lines_ = (line for line in "ab")
        return super().fit(X, y)


def test_what_others_keep_is_not_known(rows):
    model = ClassifierRatio(Stranger()).fit_ratio(*rows)
    assert model.keeps == {"Stranger": "maybe values of training rows"}


def test_an_archive_is_opened_when_rows_are_scored_and_not_before(rows):
    model = round_trip(ClassifierRatio(GaussianNB()).fit_ratio(*rows))
    broken = replace(model, archive=model.archive[:200])
    assert broken.describe() == "the odds of GaussianNB"
    with pytest.raises(ArtifactError, match="cannot be read"):
        broken.log_ratio(rows[1])
    two = replace(model, archive=write_estimators([model.estimator] * 2))
    with pytest.raises(ArtifactError, match="one classifier"):
        two.log_ratio(rows[1])
    wrong = replace(model, archive=write_estimators([GaussianNB().fit(rows[1], np.arange(90) % 3)]))
    with pytest.raises(ArtifactError, match="labels 0 and 1"):
        wrong.log_ratio(rows[1])
    check_edits(model)


def test_what_skops_cannot_write_is_refused_by_name(rows):
    model = ClassifierRatio(Unwritable()).fit_ratio(*rows)
    with pytest.raises(ArtifactError, match="Unwritable"):
        encode(model)


@pytest.mark.parametrize(
    ("classifier", "message"),
    [
        (LinearSVC(), r"classifier must .*CalibratedClassifierCV\(LinearSVC\(\)\)"),
        ("forest", "classifier must"),
        (RandomForestClassifier, "classifier must"),
        (StackingClassifier([("a", GaussianNB())], final_estimator=LinearSVC(), cv=2), "classifier must"),
    ],
)
def test_what_has_no_probabilities_is_refused(classifier, message, rows):
    with pytest.raises(ParameterError, match=message):
        ClassifierRatio(classifier).fit_ratio(*rows)
