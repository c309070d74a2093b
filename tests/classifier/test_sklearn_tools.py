"""Tools of scikit-learn around a classifier: callbacks, metadata routing, thresholds and calibration."""

import inspect
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import DRPUClassifier, KernelRatio
from drpu.exceptions import MissingExtraError

SHARE, LABELLED = 0.4, 0.5


@pytest.fixture(scope="module")
def rows():
    """Rows, their true labels, and labels of half of the positives."""
    rng = np.random.default_rng(0)
    positive = rng.random(1200) < SHARE
    X = rng.normal(3.0 * positive, 1)[:, None]
    return X, positive, positive & (rng.random(1200) < LABELLED)


def untrained():
    return DRPUClassifier(KernelRatio(width=1.0, ridge=0.1, n_centres=30), holdout=2, random_state=0)


@pytest.fixture(scope="module")
def clf(rows):
    X, _, labelled = rows
    return untrained().fit(X[:600], labelled[:600])


# -- callbacks ---------------------------------------------------------------------------------------


class Record:
    """A callback that keeps what it is told."""

    def __init__(self):
        self.events = []
        self.fitted = None

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, fitted_estimator=None):
        self.events.append(f"end {context.task_name}")
        if fitted_estimator is not None:
            self.fitted = fitted_estimator.predict_proba(X)


def test_a_fit_is_a_task_of_twenty_parts_with_the_fitted_classifier_at_the_end(rows):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    X, _, labelled = rows
    record = Record()
    clf = untrained().set_callbacks(record).fit(X, labelled)
    parts = ["begin part", "end part"] * 20
    assert record.events == ["setup", "begin fit", *parts, "end fit", "teardown"]
    assert_array_equal(record.fitted, clf.predict_proba(X))
    assert_array_equal(clf.predict_proba(X), untrained().fit(X, labelled).predict_proba(X))


def test_callbacks_are_told_that_a_fit_failed_and_can_be_taken_away(rows):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    X, _, labelled = rows
    record = Record()
    clf = untrained().set_callbacks(record)
    with pytest.raises(ValueError, match="labels"):
        clf.fit(X, np.full(len(X), "a"))
    assert record.events == ["setup", "begin fit", "teardown"]
    clf.set_callbacks().fit_pu(X[labelled], X[~labelled])
    assert len(record.events) == 3


def test_periods_that_are_fitted_again_are_no_tasks_of_their_own(rows):
    pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")
    X, _, labelled = rows
    record = Record()
    untrained().set_callbacks(record).fit(X, labelled, periods=np.arange(1200) // 400)
    assert record.events.count("begin fit") == 1


def test_older_versions_of_scikit_learn_have_no_callbacks(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    with pytest.raises(MissingExtraError, match=r"scikit-learn 1\.9"):
        untrained().set_callbacks(Record())


# -- metadata routing --------------------------------------------------------------------------------


def test_every_argument_of_fit_can_be_routed():
    arguments = list(inspect.signature(DRPUClassifier.fit).parameters)[3:]  # after self, X and y
    with config_context(enable_metadata_routing=True):
        clf = untrained().set_fit_request(**dict.fromkeys(arguments, True))
        assert {"sample_weight", "groups", "periods", "audits"} <= set(arguments)
        assert clf.get_metadata_routing().fit.requests == dict.fromkeys(arguments, True)


def test_a_pipeline_routes_weights_to_the_classifier(rows):
    X, _, labelled = rows
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    scaler = StandardScaler().fit(X)
    with config_context(enable_metadata_routing=True):
        clf = untrained().set_fit_request(sample_weight=True)
        scaling = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaling, clf).fit(X, labelled, sample_weight=weight)
        routed = pipeline.predict_proba(X)
    direct = untrained().fit(scaler.transform(X), labelled, sample_weight=weight)
    assert_allclose(routed, direct.predict_proba(scaler.transform(X)))


# -- thresholds and calibration ----------------------------------------------------------------------


def test_a_fixed_threshold_is_a_cost(clf, rows):
    X = rows[0][600:]
    fixed = FixedThresholdClassifier(FrozenEstimator(clf), threshold=0.3).fit(X, np.arange(len(X)) % 2)
    assert_array_equal(fixed.predict(X), clf.at_cost(0.3).predict(X))


def test_a_threshold_tuned_with_true_labels_is_a_cost(clf, rows):
    X, positive, _ = rows
    tuned = TunedThresholdClassifierCV(
        FrozenEstimator(clf), scoring="accuracy", cv="prefit", refit=False
    ).fit(X[600:], positive[600:])
    labels = tuned.predict(X)
    assert_array_equal(labels, clf.at_cost(tuned.best_threshold_).predict(X))
    own = clf.predict(X[600:]) == positive[600:]
    assert (labels[600:] == positive[600:]).mean() >= own.mean()


def test_calibration_with_true_labels_gives_their_share(clf, rows):
    X, positive, _ = rows
    calibrated = CalibratedClassifierCV(FrozenEstimator(clf)).fit(X[600:], positive[600:])
    mean = calibrated.predict_proba(X[600:])[:, 1].mean()
    assert_allclose(mean, positive[600:].mean(), atol=0.01)  # Platt's targets are not quite 0 and 1


def test_calibration_with_labels_of_training_gives_the_share_of_labelled_rows(rows):
    X, _, labelled = rows
    calibrated = CalibratedClassifierCV(clone(untrained()), cv=2).fit(X, labelled)
    mean = calibrated.predict_proba(X)[:, 1].mean()
    assert_allclose(mean, labelled.mean(), atol=0.02)
    assert mean < 0.6 * untrained().fit(X, labelled).predict_proba(X)[:, 1].mean()
