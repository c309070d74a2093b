"""Rows that are not independent, and weights that have no scale."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
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
from drpu.tables.copies import copied_positives

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(150, 600, prior=0.4, separation=3, random_state=0)


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


def test_fewer_groups_than_folds_mean_fewer_folds(toy):
    X, y = toy.X_y()
    clf = DRPUClassifier("classifier", holdout=5, scenario="case-control", random_state=0)
    assert len(clf.fit(X, y, groups=np.arange(len(y)) % 3).model_.functions) == 3


def test_one_group_means_no_split(toy):
    X, y = toy.X_y()
    for holdout in ("auto", 5, 0.2):
        clf = DRPUClassifier("classifier", holdout=holdout, scenario="case-control", random_state=0).fit(
            X, y, groups=np.zeros(len(y))
        )
        assert len(clf.model_.functions) == 1


def test_groups_of_one_row_are_rows(toy):
    X, y = toy.X_y()
    plain = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(X, y)
    alone = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(
        X, y, groups=[f"row {i}" for i in range(len(y))]
    )
    assert alone.tails_.n_positive == plain.tails_.n_positive
    assert alone.tails_.n == plain.tails_.n
    assert abs(alone.prior_.value - plain.prior_.value) < 0.1


def test_intervals_count_groups(toy):
    X, y = toy.X_y()
    twice = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    groups = np.repeat(np.arange(len(y)), 2)
    clf = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(*twice, groups=groups)
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
        DRPUClassifier("classifier", scenario="case-control").fit(*toy.X_y(), groups=groups)


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
        clf = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(*copied)
    assert clf.tails_.n_positive == pytest.approx(150)
    plain = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(X, y)
    assert clf.train_prior_.low <= 0.4 <= clf.train_prior_.high
    width = plain.train_prior_.high - plain.train_prior_.low
    assert clf.train_prior_.high - clf.train_prior_.low > 0.6 * width


def test_rows_of_a_coarse_table_are_not_copies():
    rng = np.random.RandomState(0)
    positive, unlabeled = (rng.randint(0, 4, (n, 3)).astype(float) for n in (400, 2000))
    assert copied_positives(SamplePair(Sample(positive), Sample(unlabeled)), rng) is None


def test_positives_in_a_corner_of_a_coarse_table_are_not_copies():
    # 5 % of the population are positives, which take few of the values that there are
    rng = np.random.RandomState(0)
    positive = rng.randint(0, 2, (300, 4)).astype(float)
    unlabeled = np.vstack([rng.randint(0, 2, (100, 4)), rng.randint(3, 30, (1900, 4))]).astype(float)
    assert copied_positives(SamplePair(Sample(positive), Sample(unlabeled)), rng) is None


def test_copies_in_sparse_rows_are_found(toy):
    from scipy import sparse

    pair = SamplePair(
        Sample(sparse.csr_array(np.repeat(toy.positive, 2, axis=0))), Sample(sparse.csr_array(toy.unlabeled))
    )
    groups = copied_positives(pair, np.random.RandomState(0))
    assert len(np.unique(groups)) == 150


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
        clf = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(X, y, groups=groups)
        assert clf.tails_.n_positive < 60
