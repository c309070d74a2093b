"""Adaptation decides what moved: a pure prior shift is followed, other changes only as far as supported."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from periods_data import QUICK, rows

from drpu import Audit, DRPUClassifier, KernelRatio, load, save
from drpu.exceptions import (
    BacktestWarning,
    DataError,
    LabelError,
    ParameterError,
    SeparationWarning,
    ShiftWarning,
    TrainingTableWarning,
)

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.LabelledSampleWarning")


def test_a_pure_prior_shift_is_adapted_to_fully(clf):
    X, y, _ = rows(1, 3000, 0.1)
    adapted, assumed = clf.adapt(X), clf.adapt(X, shift="prior")
    assert adapted.shift_ == assumed.shift_ == "prior"
    assert abs(adapted.prior_.value - assumed.prior_.value) < 0.01
    assert np.mean(adapted.predict(X) != assumed.predict(X)) < 0.01
    assert abs(adapted.prior_.value - y.mean()) < 0.04


def test_a_drifting_column_with_a_steady_posterior_leaves_labels_unchanged(clf):
    X = rows(2, 3000, 0.3, drift=1.5)[0]
    with pytest.warns(ShiftWarning, match="labels stay as trained.*answers for 20 rows.*new fit"):
        adapted = clf.adapt(X)
    assert adapted.shift_ == "other"
    assert "other" in repr(adapted)
    assert_array_equal(adapted.predict(X), clf.predict(X))
    assert_array_equal(adapted.predict_proba(X), clf.predict_proba(X))
    assert not adapted.prior_.identified
    assert adapted.prior_.upper is None
    assert "at most" not in str(adapted.prior_)
    assert adapted.prior_.low <= 0.3 <= adapted.prior_.high


def test_a_training_prior_that_rows_contradict_is_named_and_not_used():
    sizes = ((5, 400, 1), (6, 3000, 0.6), (7, 2000, 0.05))
    positive, unlabeled, X = (rows(seed, n, prior)[0] for seed, n, prior in sizes)
    told = DRPUClassifier("kernel", prior=0.2, random_state=0).fit_pu(positive, unlabeled)
    with pytest.warns(ShiftWarning, match="at least [56].% of the unlabeled training rows are positive"):
        adapted = told.adapt(X)
    assert adapted.shift_ == "other"
    assert not adapted.prior_.identified
    assert adapted.prior_.low < adapted.prior_.high
    assert_array_equal(adapted.predict(X), told.predict(X))

    right = DRPUClassifier("kernel", prior=0.6, random_state=0).fit_pu(positive, unlabeled)
    assert right.adapt(X).shift_ == "prior"


def test_nothing_moves_on_request(clf):
    X = rows(3, 1000, 0.1)[0]
    kept = clf.adapt(X, shift="none")
    assert kept.shift_ == "none"
    assert kept.prior_ == clf.prior_
    assert_array_equal(kept.predict(X), clf.predict(X))
    with pytest.raises(ParameterError, match="shift must be one of"):
        clf.adapt(X, shift="some")


def test_labels_that_arrived_move_the_prior_under_other_shift(clf):
    X, y, labels = rows(4, 3000, 0.6, drift=1.5)
    with pytest.warns(ShiftWarning, match="as far as the backtest or labels"):
        with_labels = clf.adapt(X, labels)
    with pytest.warns(ShiftWarning):
        without = clf.adapt(X)
    assert abs(with_labels.prior_.value - y.mean()) < abs(without.prior_.value - y.mean())
    assert with_labels.prior_.low <= y.mean() <= with_labels.prior_.high
    assert with_labels.reading_.sources == ("rows", "labels")


def test_labels_need_a_single_sample_and_the_labels_of_training(clf):
    X, y, _ = rows(5, 600, 0.4)
    alone = DRPUClassifier("kernel", scenario="case-control", random_state=0)
    with pytest.warns(TrainingTableWarning, match="alone tells labelled from unlabeled"):
        alone.fit(X, y.astype(int))
    with pytest.raises(ParameterError, match="scenario='single-sample'"):
        alone.adapt(X, y.astype(int))
    with pytest.raises(ParameterError, match="scenario='single-sample'"):
        DRPUClassifier("kernel", scenario="case-control").fit(X, y.astype(int), periods=np.zeros(len(y)))
    with pytest.raises(DataError, match="same number of rows"):
        clf.adapt(X, np.zeros(5))
    with pytest.raises(LabelError, match="labels of training"):
        clf.adapt(X, np.full(len(X), 7))


@pytest.fixture(scope="module")
def stationary():
    X, _, labels = rows(6, 5000, 0.3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["month"] = np.repeat([f"2026-{k:02d}" for k in range(1, 6)], 1000)
    clf = DRPUClassifier(QUICK, scenario="single-sample", random_state=0)
    return clf.fit(frame, labels, periods="month"), frame, labels


def test_a_backtest_reads_each_past_period_of_a_column_that_is_no_feature(stationary):
    clf, _, _ = stationary
    periods = clf.backtest_.periods
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    assert [period.name for period in periods] == ["2026-02", "2026-03", "2026-04", "2026-05"]
    assert all(period.rows == 1000 for period in periods)
    # nothing moves: the spread is below the pooled value, to which it is shrunk
    assert clf.backtest_.spread < 0.4
    # four periods: the mean of their squared moves is below four times the noise with probability .997
    noise = np.sqrt(np.mean([period.noise for period in periods]))
    assert np.sqrt(np.mean([period.seen**2 for period in periods])) < 2 * noise


def test_without_a_backtest_everything_else_is_the_same(stationary):
    clf, frame, labels = stationary
    plain = DRPUClassifier(QUICK, scenario="single-sample", random_state=0)
    X = frame[["a", "b", "c"]]
    plain.fit(X, labels)
    assert plain.backtest_ is None
    assert_array_equal(plain.predict_proba(X), clf.predict_proba(X))


@pytest.mark.parametrize(
    ("periods", "reason"),
    [(np.zeros(5000), "1 period"), (np.repeat(["a", "b"], [4990, 10]), "no period of 30 rows")],
)
def test_too_few_periods_are_a_warning_and_a_fit(stationary, periods, reason):
    _, frame, labels = stationary
    clf = DRPUClassifier(QUICK, scenario="single-sample", random_state=0)
    with pytest.warns(BacktestWarning, match=reason):
        clf.fit(frame[["a", "b", "c"]], labels, periods=periods)
    assert clf.backtest_ is None


def test_saved_and_loaded_classifiers_adapt_alike(stationary, tmp_path):
    clf = stationary[0]
    save(clf, tmp_path / "clf.drpu")
    back = load(tmp_path / "clf.drpu")
    assert back.backtest_ == clf.backtest_
    X, _, labels = rows(7, 2000, 0.5, drift=1.5)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.warns(ShiftWarning):
        here, there = clf.adapt(frame, labels), back.adapt(frame, labels)
    assert here.prior_ == there.prior_
    assert_array_equal(here.predict_proba(frame), there.predict_proba(frame))
    save(here, tmp_path / "june.drpu")
    june = load(tmp_path / "june.drpu")
    assert june.shift_ == "other"
    assert_array_equal(june.predict_proba(frame), here.predict_proba(frame))


# -- answers ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def audited(clf):
    X, y, _ = rows(8, 3000, 0.15, drift=1.0)
    at = np.random.default_rng(8).choice(len(y), 200, replace=False)
    with pytest.warns(ShiftWarning, match="used for these rows only"):
        return clf.adapt(X, audit=Audit.random(at, y[at])), X, y


def test_answers_set_the_mean_probability_near_the_prior(audited, clf):
    june, X, y = audited
    assert june.shift_ == "answers"
    assert june.map_.slope > 0
    # probabilities are averaged where labels are decided, so their mean is near the prior
    assert_allclose(june.predict_proba(X)[:, 1].mean(), june.prior_.value, atol=0.01)
    assert june.prior_.low < y.mean() < june.prior_.high
    assert june.train_prior_ == clf.train_prior_  # answers about rows with other changes leave it


def test_later_rows_start_from_the_map(audited, tmp_path):
    june, X, _ = audited
    same = june.adapt(X)
    assert same.shift_ == "prior"
    assert_allclose(same.prior_.value, june.prior_.value, atol=0.01)
    july, y, _ = rows(9, 3000, 0.3, drift=1.0)
    adapted = june.adapt(july)
    assert adapted.shift_ == "prior"
    assert abs(adapted.prior_.value - y.mean()) < 0.06
    save(june, tmp_path / "june.drpu")
    back = load(tmp_path / "june.drpu")
    assert back.map_ == june.map_
    assert back.adapt(july).prior_ == adapted.prior_
    assert_array_equal(back.adapt(july).predict_proba(july), adapted.predict_proba(july))


@pytest.mark.filterwarnings("ignore::drpu.exceptions.ShiftWarning")
def test_answers_of_two_months_add_up(clf, audited):
    june, X, y = audited
    at = np.random.default_rng(10).choice(len(y), 50, replace=False)
    again = june.adapt(X, audit=Audit.random(at, y[at]))
    alone = clf.adapt(X, audit=Audit.random(at, y[at]))
    assert again.map_.n == alone.map_.n == 50
    # the reading of the rows starts from the answers of June, and both limits apply
    now, without_june = again.test_prior_, alone.test_prior_
    assert now.high - now.low <= without_june.high - without_june.low


# -- labels that are no fair sample ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "seed"),
    [("auto", 1), (KernelRatio(), 0), *(pytest.param("auto", k, marks=pytest.mark.slow) for k in (0, 2))],
)
def test_noise_keeps_its_trained_labels_and_hardly_moves_the_prior(model, seed):
    rng = np.random.default_rng(seed)
    X, label = rng.normal(size=(900, 3)), rng.random(900) < 0.2
    with pytest.warns(SeparationWarning):
        clf = DRPUClassifier(model, scenario="single-sample", random_state=0).fit(X, label)
    with pytest.warns(SeparationWarning):
        later = clf.adapt(new := rng.normal(size=(600, 3)))
    assert not clf.prior_.identified
    assert not later.prior_.identified
    assert np.mean(later.predict(new) == clf.predict(new)) > 0.99
    assert abs(later.prior_.value - clf.train_prior_.value) < 0.1
