"""Rows that are not independent, and weights that have no scale."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import GroupKFold, cross_val_predict

from drpu import (
    BoostedRatio,
    DRPUClassifier,
    ElkanNotoClassifier,
    KernelRatio,
    NNPUClassifier,
    PULDClassifier,
    UPUClassifier,
    make_gaussian_pu,
)
from drpu._samples import Sample, SamplePair
from drpu.exceptions import CopiedPositivesWarning, DataError
from drpu.models.crossfit import draw_splits

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(150, 600, prior=0.4, separation=3, random_state=0)


def fit(X, y, *, holdout="auto", **options):
    clf = DRPUClassifier("classifier", holdout=holdout, scenario="case-control", random_state=0)
    return clf.fit(X, y, **options)


# -- folds ---------------------------------------------------------------------------------


@pytest.mark.parametrize("holdout", [2, 5, 0.3])
def test_rows_of_a_group_are_on_one_side_of_every_split(holdout):
    rng = np.random.RandomState(0)
    groups = rng.randint(40, size=300)
    rows = np.arange(300.0)[:, None]
    pair = SamplePair(Sample(rows[:80], None, groups[:80]), Sample(rows[80:], None, groups[80:]))
    splits = draw_splits(pair, holdout, rng)
    assert splits
    held_rows = []
    for (seen_p, held_p), (seen_u, held_u) in splits:
        seen = set(groups[:80][seen_p]) | set(groups[80:][seen_u])
        held = set(groups[:80][held_p]) | set(groups[80:][held_u])
        assert not seen & held
        assert len(seen_p) + len(held_p) == 80
        held_rows.extend(held_p)
    if holdout >= 1:
        assert sorted(held_rows) == list(range(80))


def test_there_are_no_more_folds_than_groups_and_one_group_means_no_split(toy):
    X, y = toy.X_y()
    assert len(fit(X, y, holdout=5, groups=np.arange(len(y)) % 3).model_.functions) == 3
    for holdout in ("auto", 5, 0.2):
        assert len(fit(X, y, holdout=holdout, groups=np.zeros(len(y))).model_.functions) == 1


def test_groups_of_one_row_are_rows(toy):
    X, y = toy.X_y()
    plain, alone = fit(X, y), fit(X, y, groups=[f"row {i}" for i in range(len(y))])
    assert alone.tails_.n_positive == plain.tails_.n_positive
    assert alone.tails_.n == plain.tails_.n
    assert abs(alone.prior_.value - plain.prior_.value) < 0.1


def test_intervals_count_groups(toy):
    X, y = toy.X_y()
    twice = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    groups = np.repeat(np.arange(len(y)), 2)
    clf = fit(*twice, groups=groups)
    assert clf.tails_.n_positive == pytest.approx(150)
    assert clf.tails_.n == pytest.approx(600)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2], "one value per row"),
        (np.full(750, np.nan), "missing"),
        (np.zeros((750, 2)), "one value per row"),
    ],
)
def test_groups_that_are_none_are_refused(toy, groups, message):
    with pytest.raises(DataError, match=message):
        fit(*toy.X_y(), groups=groups)


def test_groups_work_with_cross_validation(toy):
    X, y = toy.X_y()
    labels = cross_val_predict(
        DRPUClassifier("classifier", scenario="case-control", random_state=0),
        X,
        y,
        cv=GroupKFold(3),
        groups=np.arange(len(y)) // 5,
    )
    assert set(labels) <= {0, 1}


# -- copies --------------------------------------------------------------------------------


def test_copies_of_positives_are_found_and_count_once(toy):
    X, y = toy.X_y()
    copied = np.vstack([X, X[y == 1]]), np.concatenate([y, np.ones(150)])
    with pytest.warns(CopiedPositivesWarning, match="150 of the 300 labelled positives are copies"):
        clf = fit(*copied)
    assert clf.tails_.n_positive == pytest.approx(150)
    plain = fit(X, y)
    assert clf.train_prior_.low <= 0.4 <= clf.train_prior_.high
    width = plain.train_prior_.high - plain.train_prior_.low
    assert clf.train_prior_.high - clf.train_prior_.low > 0.6 * width


def coarse_rows(rng):
    return rng.integers(0, 4, (400, 3)), rng.integers(0, 4, (2000, 3))


def corner(rng):
    """Rows of which 5 % are positives, which take few of the values that there are."""
    unlabeled = np.vstack([rng.integers(0, 2, (100, 4)), rng.integers(3, 30, (1900, 4))])
    return rng.integers(0, 2, (300, 4)), unlabeled


@pytest.mark.parametrize("table", [coarse_rows, corner])
@pytest.mark.filterwarnings("error::drpu.exceptions.CopiedPositivesWarning")
def test_positives_of_a_coarse_table_are_not_copies(table):
    positive, unlabeled = table(np.random.default_rng(0))
    DRPUClassifier("classifier", random_state=0).fit_pu(positive.astype(float), unlabeled.astype(float))


def test_copies_in_sparse_rows_are_found(toy):
    twice = sparse.csr_array(np.repeat(toy.positive, 2, axis=0))
    with pytest.warns(CopiedPositivesWarning, match="150 of the 300"):
        DRPUClassifier("classifier", random_state=0).fit_pu(twice, sparse.csr_array(toy.unlabeled))


# -- weights -------------------------------------------------------------------------------

WEIGHTED = {
    "default": DRPUClassifier(scenario="case-control", random_state=0),
    "kernel": DRPUClassifier(KernelRatio(n_centres=20), holdout=2, scenario="case-control", random_state=0),
    "boosted": DRPUClassifier(BoostedRatio(n_rounds=20), holdout=2, scenario="case-control", random_state=0),
    "classifier": DRPUClassifier("classifier", scenario="single-sample", random_state=0),
    "upu": UPUClassifier("linear", prior=0.4, scenario="case-control", random_state=0),
    "nnpu": NNPUClassifier("kernel", prior=0.4, scenario="case-control", random_state=0),
    "puld": PULDClassifier("linear", prior=0.4, scenario="case-control", random_state=0),
    "elkan-noto": ElkanNotoClassifier(
        ExtraTreesClassifier(10, min_samples_leaf=2), scenario="case-control", random_state=0
    ),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_multiplying_all_weights_changes_nothing(toy, name):
    X, y = toy.X_y()
    weight = np.random.default_rng(0).uniform(0.5, 2, len(y))
    clf = WEIGHTED[name]
    once = clf.fit(X, y, sample_weight=weight).decision_function(toy.unlabeled)
    prior = clf.prior_.value
    thousand = clf.fit(X, y, sample_weight=1000 * weight).decision_function(toy.unlabeled)
    assert clf.prior_.value == pytest.approx(prior, abs=1e-9)
    assert_allclose(thousand, once, rtol=1e-9, atol=1e-9)


def test_groups_of_any_kind_are_read(toy):
    X, y = toy.X_y()
    codes = np.arange(len(y)) // 4
    for groups in (codes, codes.astype(str), pd.Series(codes).astype("category"), list(map(float, codes))):
        assert fit(X, y, groups=groups).tails_.n_positive < 60
