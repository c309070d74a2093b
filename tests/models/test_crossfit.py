import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from drpu import KernelRatio, RatioLearner
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError, FewPositivesWarning, FewRowsWarning, ParameterError, warn
from drpu.models import cross_fit, resolve_holdout
from drpu.models.crossfit import FEWEST_TO_SPLIT, MOST_TO_FOLD, Folds
from drpu.models.fourier import LinearRatio
from drpu.models.learner import Function


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
            Folds((folded.functions[0], other))


def test_what_has_no_contributions_says_so(folded):
    with pytest.raises(ParameterError, match=r"linear fit.*boosted"):
        folded.contributions(np.zeros((2, 3)))


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
