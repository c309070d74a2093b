"""Of several folds, the models count new rows; one more model, fitted to all rows, labels them."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from drpu import DRPUClassifier, RatioLearner, make_gaussian_pu
from drpu._codec import decode, encode
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ArtifactError
from drpu.models import auto, cross_fit
from drpu.models.auto import AutoRatio, SizeDecisions
from drpu.models.crossfit import Folds
from drpu.models.learner import Function
from drpu.state.fitted import label_offsets


@dataclass(frozen=True, eq=False)
class Distance(Function):
    """The score of a row is its distance from the mean of the positives."""

    mean: float
    sizes: tuple

    @property
    def n_columns(self):
        return 1

    def _score(self, X):
        return X[:, 0] - self.mean


class Mean(RatioLearner):
    def fit_checked(self, pair, holdout=None):
        return Distance(pair.positive.rows.mean(), (len(pair.positive), len(pair.unlabeled)))


class Refitted(Mean):
    def for_labels(self, pair, folds):
        return Refitted()


def pair():
    rng = np.random.default_rng(0)
    return SamplePair(Sample(rng.normal(1, 1, (12, 1))), Sample(rng.normal(0, 1, (30, 1))))


def test_the_model_of_all_rows_changes_nothing_that_is_held_out():
    (plain, before), (folded, held) = (
        cross_fit(model, pair(), holdout=3, random_state=0) for model in (Mean(), Refitted())
    )
    assert plain.whole is None
    assert folded.whole.sizes == (12, 30)
    assert [model.sizes for model in folded.functions] == [(8, 20)] * 3
    assert_array_equal(held.positive.rows, before.positive.rows)
    assert_array_equal(held.unlabeled.rows, before.unlabeled.rows)
    X = np.arange(4.0)[:, None]
    assert_array_equal(folded.fold_scores(X), plain.fold_scores(X))


@pytest.mark.parametrize("holdout", [0, 0.3])
def test_a_single_model_labels_what_it_counts(holdout):
    folded, _ = cross_fit(Refitted(), pair(), holdout=holdout, random_state=0)
    assert folded.whole is None
    assert folded.label_functions == folded.functions == folded.all_functions


def test_scores_have_the_columns_of_the_folds_first():
    folded, _ = cross_fit(Refitted(), pair(), holdout=3, random_state=0)
    X = np.arange(5.0)[:, None]
    scores = folded.scores(X)
    assert scores.shape == (5, 4)
    assert_array_equal(folded.counted(scores), folded.fold_scores(X))
    assert_array_equal(folded.labelling(scores), folded.label_scores(X))
    assert_array_equal(folded.label_scores(X)[:, 0], folded.whole.score(X))
    assert_array_equal(folded.log_ratio(X), folded.whole.log_ratio(X))


# -- the default -----------------------------------------------------------------------------


@pytest.mark.parametrize(("positives", "weighted"), [(300, False), (320, False), (400, True)])
def test_all_models_are_averaged_or_all_are_weighted(positives, weighted, monkeypatch):
    monkeypatch.setattr(auto, "AUTO", replace(auto.AUTO, enough_positives=300))
    rng = np.random.default_rng(0)
    samples = Sample(rng.normal(1, 1, (positives, 2))), Sample(rng.normal(0, 1, (600, 2)))
    folded, _ = cross_fit(AutoRatio(random_state=0), SamplePair(*samples), holdout=4, random_state=0)
    for model in folded.all_functions:
        averaged = np.array_equal(model.weights, [0.5, 0.25, 0.25]) and model.constant == 0
        assert averaged != weighted


def test_labels_of_sparse_rows_come_from_the_folds():
    rng = np.random.default_rng(0)
    X = sparse.random(200, 30, density=0.2, random_state=rng, format="csr")
    folded, _ = cross_fit(
        AutoRatio(random_state=0), SamplePair(Sample(X[:60]), Sample(X[60:])), holdout=2, random_state=0
    )
    assert folded.whole is None
    assert_array_equal(folded.label_scores(X), folded.fold_scores(X))


@pytest.mark.parametrize("folds", [2, 5, 10])
@pytest.mark.parametrize("start", [auto.AUTO.few_positives, auto.AUTO.enough_positives])
def test_a_size_is_that_of_the_smallest_fold(folds, start):
    U = Sample(np.zeros((20, 1)))
    sizes = [
        SizeDecisions.of(SamplePair(Sample(np.zeros((n, 1))), U), folds) for n in range(start, 3 * start)
    ]
    some = [size.trees if start == auto.AUTO.few_positives else size.weighted for size in sizes]
    first = some.index(True)
    assert not any(some[:first])
    assert all(some[first:])
    n = start + first
    assert n - -(-n // folds) >= start > n - 1 - -(-(n - 1) // folds)


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(60, 240, prior=0.4, separation=2.5, dimensions=2, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DRPUClassifier(holdout=2, random_state=0).fit(*data.X_y())


def test_labels_need_the_model_of_all_rows_only(clf, data, monkeypatch):
    X = data.unlabeled
    labels, counts = clf.predict(X), clf.count(X)
    copy = Folds(clf.model_.functions, clf.model_.whole)
    with monkeypatch.context() as patch:
        patch.setattr(Folds, "fold_scores", None)
        assert_array_equal(clf.predict(X), labels)
    with monkeypatch.context() as patch:
        patch.setattr(Folds, "label_scores", None)
        assert_array_equal(clf.count(X).counts, counts.counts)
    assert_array_equal(copy.label_scores(X)[:, 0], clf.model_.whole.score(X))


@pytest.mark.filterwarnings("ignore::drpu.exceptions.FewPositivesWarning")
def test_the_ratio_is_a_mean_over_the_variation_of_fold_models(clf, data):
    X, fitted = data.unlabeled, clf.fitted_
    assert_allclose(label_offsets(fitted).mean(), 0, atol=1e-12)
    scores = fitted.model.label_scores(X)
    means = np.mean([fitted.calibration(scores[:, 0] + offset) for offset in label_offsets(fitted)], axis=0)
    assert_allclose(np.exp(fitted.log_ratio(X)), means, rtol=1e-6)
    order = np.argsort(scores[:, 0])
    assert np.all(np.diff(fitted.log_ratio(X)[order]) >= 0)
    plain = DRPUClassifier("boosted", holdout=2, random_state=0).fit(*data.X_y()).fitted_
    assert_array_equal(label_offsets(plain), [0.0])


def test_true_labels_are_compared_with_the_labels_that_are_predicted(clf, data):
    X, y = data.unlabeled, data.unlabeled_labels
    assert_allclose(clf.evaluate(X, y).accuracy.value, np.mean(clf.predict(X) == y), rtol=1e-9)
    plan = clf.plan_audit(X, n=len(X), population="new", random_state=0)
    found = clf.evaluate(plan.answer(y[plan.rows]))
    assert_allclose(found.accuracy.value, np.mean(clf.predict(X) == y), rtol=1e-9)


def test_a_file_needs_a_function_that_counts(clf):
    tree, arrays, blobs = encode(Folds((clf.model_.whole,)))
    tree["fields"] |= {"functions": [], "whole": tree["fields"]["functions"][0]}
    with pytest.raises(ArtifactError, match=r"functions \(number of items\): must be from 1"):
        decode(tree, arrays, blobs, Folds)
