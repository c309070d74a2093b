"""Cross-fitting: rows are scored by models that have not seen them; what labels; fits side by side."""

import os
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from threadpoolctl import threadpool_info, threadpool_limits

from drpu import DRPUClassifier, KernelRatio, RatioLearner, _lazy, make_gaussian_pu
from drpu._codec import decode, encode
from drpu._samples import Sample, SamplePair
from drpu.exceptions import (
    ArtifactError,
    DataError,
    FewPositivesWarning,
    FewRowsWarning,
    ParameterError,
    heard,
    warn,
)
from drpu.models import cross_fit, crossfit, resolve_holdout
from drpu.models.crossfit import FEWEST_TO_SPLIT, run_jobs, threads_of_one_fit
from drpu.models.learner import Folds, Function
from drpu.state.fitted import label_offsets
from learners import AutoRatio, LinearRatio

MOST_TO_FOLD = 2000  # positives


@dataclass(frozen=True, eq=False)
class Seen(Function):
    """Remembers the rows it was fitted on and the rows it has scored; the score is the row's number."""

    seen: Any
    weights: Any
    rows: Any
    scored: list = field(default_factory=list)

    @property
    def n_columns(self):
        return 1

    def _score(self, X):
        self.scored.append(X[:, 0])
        return X[:, 0] / 10


class Spy(RatioLearner):
    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit_checked(self, pair, holdout=None):
        rows = pair.positive.rows[:, 0], pair.unlabeled.rows[:, 0]
        return Seen(tuple(map(set, rows)), (pair.positive.weight, pair.unlabeled.weight), rows)


@dataclass(frozen=True, eq=False)
class Tilted(Function):
    """The first column, and a small multiple of the second one that was estimated from rows."""

    multiple: float

    @property
    def n_columns(self):
        return 3

    def _score(self, X):
        return X[:, 0] + self.multiple * X[:, 1]


class TiltedRatio(RatioLearner):
    """The multiple is the mean of the third column over the training rows, 0 but for noise."""

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit_checked(self, pair, holdout=None):
        return Tilted(float(pair.unlabeled.rows[:, 2].mean()))


def numbered(n_positive, n_unlabeled, *, weighted=False):
    """Samples whose rows are their own numbers: 0, 1, ... and 1000, 1001, ..."""
    positive, unlabeled = np.arange(float(n_positive)), 1000 + np.arange(float(n_unlabeled))
    return SamplePair(
        Sample(positive[:, None], positive + 1 if weighted else None),
        Sample(unlabeled[:, None], unlabeled + 1 if weighted else None),
    )


# -- cross-fitting -------------------------------------------------------------------------


@pytest.mark.parametrize("folds", [2, 3, 5, 7])
@pytest.mark.parametrize("sizes", [(7, 7), (11, 40), (40, 11)])
def test_folds_score_every_row_once_by_a_model_that_has_not_seen_it(folds, sizes):
    model, held = cross_fit(Spy(), numbered(*sizes), holdout=folds, random_state=0)
    assert len(model.functions) == folds
    for kind, scores, start in ((0, held.positive.rows, 0), (1, held.unlabeled.rows, 1000)):
        rows = start + np.arange(sizes[kind])
        assert_allclose(np.sort(scores), rows / 10)
        for spy in model.functions:
            assert spy.seen[kind].isdisjoint(spy.scored[kind])
            assert spy.seen[kind] | set(spy.scored[kind]) == set(rows)


@pytest.mark.parametrize("folds", [2, 5])
def test_folds_are_of_nearly_equal_size(folds):
    model, _ = cross_fit(Spy(), numbered(23, 101), holdout=folds, random_state=0)
    for kind in (0, 1):
        sizes = [len(spy.scored[kind]) for spy in model.functions]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("share", [0.01, 0.2, 1 / 3, 0.99])
@pytest.mark.parametrize("sizes", [(2, 2), (10, 100)])
def test_a_share_is_kept_out_once_and_something_is_left_on_either_side(share, sizes):
    model, held = cross_fit(Spy(), numbered(*sizes), holdout=share, random_state=0)
    (spy,) = model.functions
    for kind, scores in ((0, held.positive.rows), (1, held.unlabeled.rows)):
        assert len(scores) == min(max(1, round(share * sizes[kind])), sizes[kind] - 1)
        assert len(spy.seen[kind]) + len(scores) == sizes[kind]
        assert spy.seen[kind].isdisjoint(spy.scored[kind])


def test_without_a_split_one_model_scores_its_own_rows():
    model, held = cross_fit(Spy(), numbered(3, 5, weighted=True), holdout=0)
    assert len(model.functions) == 1
    assert_allclose(held.positive.rows, [0, 0.1, 0.2])
    assert_allclose(held.unlabeled.rows, 100 + np.arange(5) / 10)
    assert_allclose(held.positive.weight, [1, 2, 3])


@pytest.mark.parametrize("holdout", [3, 0.4])
def test_weights_follow_their_rows(holdout):
    model, held = cross_fit(Spy(), numbered(12, 31, weighted=True), holdout=holdout, random_state=0)
    assert_allclose(held.positive.weight, 10 * held.positive.rows + 1)
    assert_allclose(held.unlabeled.weight, 10 * held.unlabeled.rows + 1)
    for spy in model.functions:
        for rows, weight in zip(spy.rows, spy.weights, strict=True):
            assert_array_equal(weight, rows + 1)


@pytest.mark.parametrize("holdout", [3, 0.4])
def test_equal_seeds_give_equal_splits(holdout):
    def seen(seed):
        model, _ = cross_fit(Spy(), numbered(30, 60), holdout=holdout, random_state=seed)
        return [spy.seen for spy in model.functions]

    assert seen(0) == seen(0) == seen(np.random.RandomState(0))
    assert seen(0) != seen(1)


# -- the models together -------------------------------------------------------------------


@pytest.fixture(scope="module")
def folded():
    rng = np.random.default_rng(1)
    samples = Sample(rng.normal(1, 1, (30, 3))), Sample(rng.normal(0, 1, (90, 3)))
    return cross_fit(LinearRatio(), SamplePair(*samples), holdout=3, random_state=0)[0]


def test_the_score_is_the_mean_over_the_models(folded):
    X = np.random.default_rng(2).normal(size=(10, 3))
    scores = folded.fold_scores(X)
    assert scores.shape == (10, 3)
    assert_array_equal(scores[:, 1], folded.functions[1].log_ratio(X))
    assert_allclose(folded.log_ratio(X), scores.mean(axis=1), rtol=1e-12)


def test_functions_of_folds_are_of_one_kind_and_have_the_same_columns(folded):
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    kernel = KernelRatio(random_state=0).fit_ratio(*samples)
    narrow = LinearRatio().fit_ratio(*(X[:, :2] for X in samples))
    for other in (kernel, narrow):
        with pytest.raises(DataError, match="one kind"):
            replace(folded, functions=(folded.functions[0], other))


# -- how to split --------------------------------------------------------------------------


@pytest.mark.parametrize("n_positive", [FEWEST_TO_SPLIT, 50, MOST_TO_FOLD])
@pytest.mark.parametrize("n_unlabeled", [FEWEST_TO_SPLIT, 10**6])
def test_auto_folds_small_data_keeps_a_share_of_large_data_and_splits_no_handful(n_positive, n_unlabeled):
    folds = resolve_holdout("auto", n_positive, n_unlabeled)
    assert isinstance(folds, int)
    assert min(5, n_positive, n_unlabeled) <= folds <= min(n_positive, n_unlabeled)
    assert resolve_holdout("auto", MOST_TO_FOLD + 1, 10**6) == 0.2
    for few in (1, FEWEST_TO_SPLIT - 1):
        assert resolve_holdout("auto", few, 1000) == resolve_holdout("auto", 1000, few) == 0


@pytest.mark.parametrize("holdout", [2, 5, 10, np.int64(3), 0.05, 0.5, 0.95, np.float64(0.3)])
def test_folds_and_shares_are_taken_as_they_are(holdout):
    assert resolve_holdout(holdout, 200, 200) == holdout  # at least ten rows on either side: no warning


@pytest.mark.parametrize(
    ("share", "sizes", "message"),
    [
        (0.999999, (300, 900), r"holdout=0\.999999 leaves 1 and 1 to train on: .* Lower it, or use 'auto'"),
        (0.95, (180, 900), "leaves 9 and 45 to train on: with fewer than 10 of either kind"),
        (0.95, (900, 180), "leaves 45 and 9 to train on"),
        (0.05, (180, 900), "holds out 9 and 45: .* the prior and the calibration are rough. Raise it"),
    ],
)
def test_a_share_with_few_rows_on_one_side_is_a_warning(share, sizes, message):
    with pytest.warns(FewPositivesWarning, match=message):
        assert resolve_holdout(share, *sizes) == share


@pytest.mark.parametrize(
    ("holdout", "sizes", "message"),
    [
        (1, (10, 20), "holdout must be at least 2"),
        (11, (10, 20), "more folds than there are"),
        (0.0, (10, 20), "strictly between 0 and 1"),
        (np.nan, (10, 20), "holdout must be a number"),
        (True, (10, 20), "holdout must be 'auto', a share"),
        (0.2, (1, 100), "needs two positives and two unlabeled rows"),
        (0.2, (100, 1), "needs two positives and two unlabeled rows"),
    ],
)
def test_what_is_no_split_is_refused(holdout, sizes, message):
    with pytest.raises(ParameterError, match=message):
        resolve_holdout(holdout, *sizes)


def test_a_warning_of_every_fold_is_given_once():
    class Warner(Spy):
        def fit_checked(self, pair, holdout=None):
            warn(FewRowsWarning("the rows have missing values"))
            return super().fit_checked(pair, holdout)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cross_fit(Warner(), numbered(20, 40), holdout=5, random_state=0)
    assert [w.category for w in caught] == [FewRowsWarning]


# -- of several folds, one more model labels ---------------------------------------------------------


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


def two_samples():
    rng = np.random.default_rng(0)
    return SamplePair(Sample(rng.normal(1, 1, (12, 1))), Sample(rng.normal(0, 1, (30, 1))))


def test_the_model_of_all_rows_changes_nothing_that_is_held_out():
    (plain, before), (folded, held) = (
        cross_fit(model, two_samples(), holdout=3, random_state=0) for model in (Mean(), Refitted())
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
    folded, _ = cross_fit(Refitted(), two_samples(), holdout=holdout, random_state=0)
    assert folded.whole is None
    assert folded.label_functions == folded.functions == folded.all_functions


def test_scores_have_the_columns_of_the_folds_first():
    folded, _ = cross_fit(Refitted(), two_samples(), holdout=3, random_state=0)
    X = np.arange(5.0)[:, None]
    scores = folded.scores(X)
    assert scores.shape == (5, 4)
    assert_array_equal(folded.counted(scores), folded.fold_scores(X))
    assert_array_equal(folded.labelling(scores), folded.label_scores(X))
    assert_array_equal(folded.label_scores(X)[:, 0], folded.whole.score(X))
    assert_array_equal(folded.log_ratio(X), folded.whole.log_ratio(X))


# -- the default -----------------------------------------------------------------------------


@pytest.mark.parametrize(("positives", "weighted"), [(1000, False), (1333, False), (1334, True)])
def test_all_models_are_averaged_or_all_are_weighted(positives, weighted):
    """Weighted from 1000 positives on in the smallest of the four folds."""
    rng = np.random.default_rng(0)
    samples = Sample(rng.normal(1, 1, (positives, 2))), Sample(rng.normal(0, 1, (600, 2)))
    folded, _ = cross_fit(AutoRatio(random_state=0), SamplePair(*samples), holdout=4, random_state=0)
    for model in folded.all_functions:
        averaged = np.array_equal(model.weights, np.full(3, 1 / 3)) and model.constant == 0
        assert averaged != weighted


def test_labels_of_sparse_rows_come_from_the_folds():
    rng = np.random.default_rng(0)
    X = sparse.random(200, 30, density=0.2, random_state=rng, format="csr")
    folded, _ = cross_fit(
        AutoRatio(random_state=0), SamplePair(Sample(X[:60]), Sample(X[60:])), holdout=2, random_state=0
    )
    assert folded.whole is None
    assert_array_equal(folded.label_scores(X), folded.fold_scores(X))


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(60, 240, prior=0.4, separation=2.5, dimensions=2, random_state=0)


@pytest.fixture(scope="module")
def clf(data):
    with heard():
        return DRPUClassifier(holdout=2, random_state=0).fit(*data.X_y())


def test_labels_need_the_model_of_all_rows_only(clf, data, monkeypatch):
    X = data.unlabeled
    labels, counts = clf.predict(X), clf.count(X)
    with monkeypatch.context() as patch:
        patch.setattr(type(clf.model_), "fold_scores", None)
        assert_array_equal(clf.predict(X), labels)
    with monkeypatch.context() as patch:
        patch.setattr(type(clf.model_), "label_scores", None)
        assert_array_equal(clf.count(X).counts, counts.counts)
    assert_array_equal(clf.model_.label_scores(X)[:, 0], clf.model_.whole.score(X))


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
    counted = replace(clf.model_, functions=(clf.model_.whole,), whole=None)
    tree, arrays, blobs = encode(counted)
    tree["fields"] |= {"functions": [], "whole": tree["fields"]["functions"][0]}
    with pytest.raises(ArtifactError, match=r"functions \(number of items\): must be from 1"):
        decode(tree, arrays, blobs, type(counted))


# -- fits side by side -------------------------------------------------------------------------------


def whereabouts(number):
    return number, os.getpid()


WORK = [(number,) for number in range(5)]


@pytest.mark.parametrize("jobs", [1, 2, 5, 9])
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("rows", [10, 10_000])
@pytest.mark.parametrize("work", [WORK, WORK[:1]])
def test_short_work_stays_in_this_process_and_in_order(jobs, threads, rows, work):
    found = list(run_jobs(whereabouts, work, jobs=jobs, threads=threads, rows=rows))
    assert found == [(number, os.getpid()) for (number,) in work]


def test_long_work_is_done_by_other_processes_after_the_first_call(monkeypatch):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 2)
    monkeypatch.setattr(crossfit, "_saved", lambda *_: 5.0)  # as if every call took long
    found = list(run_jobs(whereabouts, WORK, jobs=2, threads=False, rows=10))
    assert [number for number, _ in found] == list(range(5))
    places = [place for _, place in found]
    assert places[0] == os.getpid()
    assert os.getpid() not in places[1:]


@pytest.mark.parametrize(
    ("busy", "jobs", "saved"),
    [
        (10.0, 2, 20.0),  # one processor each: four calls take as long as two
        (10.0, 3, 20.0),  # four calls of three jobs still take two rounds
        (20.0, 2, 20.0),  # half of the processors each
        (40.0, 2, 0.0),  # a call uses all processors already
        (1.0, 4, 30.0),  # it mostly waits
    ],
)
def test_processes_save_less_if_a_call_uses_several_processors(monkeypatch, busy, jobs, saved):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 4)
    assert crossfit._saved(10.0, busy, 4, jobs) == saved


def test_a_single_fit_has_threads_if_it_has_many_values(monkeypatch):
    monkeypatch.setattr(_lazy, "cpu_count", lambda: 4)
    enough = np.zeros((200_000, 10))
    assert [threads_of_one_fit(jobs, [enough]) for jobs in (1, 2, 9)] == [1, 2, 4]
    assert threads_of_one_fit(2, [enough[1:], enough[:1]]) == 2
    assert threads_of_one_fit(2, [enough[1:]]) == 1
    assert threads_of_one_fit(2, [sparse.csr_array(enough)]) == 1  # no value is stored


def matrix_threads(*_):
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize("jobs", [1, 2])
def test_folds_in_threads_use_one_thread_for_products_of_matrices(jobs):
    with threadpool_limits(3, user_api="blas"):
        before = matrix_threads()
        calls = [run_jobs(matrix_threads, WORK, jobs=jobs, threads=True, rows=10_000) for _ in range(2)]
        found = [next(call) for call in calls]  # both run now
        assert [*found, *calls[0], *calls[1]] == [{1}] * 10  # the first to end does not restore the number
        assert matrix_threads() == before
        assert list(run_jobs(matrix_threads, WORK[:1], jobs=2, threads=True, rows=10_000)) == [before]


def test_rows_are_scored_with_one_thread_for_products_of_matrices(monkeypatch):
    seen = []

    def scorer(rows):
        seen.append((len(rows), *matrix_threads()))
        return np.zeros((len(rows), 1))

    data = make_gaussian_pu(50, 100, prior=0.5, separation=3, dimensions=2, random_state=0)
    folds = Folds((KernelRatio(random_state=0).fit_ratio(data.positive, data.unlabeled),))
    monkeypatch.setitem(vars(folds), "_fold_scorer", scorer)
    monkeypatch.setitem(vars(folds), "_label_scorer", scorer)
    with threadpool_limits(3, user_api="blas"):
        for score in (folds.fold_scores, folds.label_scores):
            score(np.zeros((100, 2)))
            score(np.zeros((1, 2)))  # a service scores single rows, for which the limit takes long
        assert matrix_threads() == {3}
    assert seen == [(100, 1), (1, 3)] * 2
