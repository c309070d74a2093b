"""Rows of known class beside labelled positives: known negatives and answers."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import roc_auc_score

from drpu import Audit, DRPUClassifier, load, save
from drpu.audits.labelling import answer_weights
from drpu.exceptions import (
    ContradictionWarning,
    DataError,
    DataTypeError,
    FewNegativesWarning,
    LabelError,
    ParameterError,
)
from drpu.models.crossfit import negative_share

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


def draw(seed: int, n: int = 2000, rate=0.3):
    """Rows whose class depends on a product of columns, their class, and whether they are labelled."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    y = rng.random(n) < 1 / (1 + np.exp(2 - 3 * X[:, 0] * X[:, 1] - 2 * X[:, 2]))
    return X, y, y & (rng.random(n) < rate)


def clf(model="boosted", **options):
    return DRPUClassifier(model, random_state=0, **{"scenario": "single-sample", "holdout": 2} | options)


def auc(fitted, seed=99):
    X, y, _ = draw(seed, 4000)
    return roc_auc_score(y, fitted.decision_function(X))


@pytest.mark.parametrize(("model", "scenario"), [("auto", "single-sample"), ("kernel", "case-control")])
def test_without_known_negatives_nothing_changes(model, scenario):
    X, _, label = draw(0, 600)
    plain = clf(model, scenario=scenario).fit(X, label.astype(int))
    with pytest.warns(FewNegativesWarning, match="no row has the label -1"):
        asked = clf(model, scenario=scenario, negative_label=-1).fit(X, label.astype(int))
    assert_array_equal(plain.decision_function(X), asked.decision_function(X))
    assert plain.train_prior_ == asked.train_prior_


def test_many_fair_answers_approach_the_supervised_ranking():
    """Answers about all unlabeled rows close most of the gap to the same learner with all true labels."""
    gaps, gains = [], []
    for seed in range(2):
        X, y, label = draw(seed)
        none = auc(clf().fit(X, label.astype(int)))
        supervised = clf(scenario="case-control").fit(X, y.astype(int))
        rest = np.flatnonzero(~label)
        gains.append(auc(clf().fit(X, label.astype(int), audits=[Audit.random(rest, y[rest])])) - none)
        gaps.append(auc(supervised) - none)
    assert np.mean(gaps) > 0.02
    assert np.mean(gains) > 0.8 * np.mean(gaps)


def test_biased_negatives_do_not_harm_the_ranking():
    losses = []
    for seed in range(3):
        X, y, label = draw(seed)
        codes = np.where(label, 1, 0)
        none = auc(clf().fit(X, codes))
        at = np.flatnonzero(~y & (X[:, 3] > 1))[:200]  # a column that has nothing to do with the class
        codes[at] = -1
        losses.append(auc(clf(negative_label=-1).fit(X, codes)) - none)
    assert np.mean(losses) > -0.005


@pytest.mark.parametrize("model", ["auto", "boosted"])
def test_a_blend_is_saved_exported_and_explained(model, tmp_path):
    X, y, label = draw(1, 600)
    codes = np.where(label, 1, np.where(~y, -1, 0))
    fitted = clf(model, negative_label=-1).fit(X, codes)
    assert "known negatives have" in repr(fitted)
    save(fitted, tmp_path / "a.drpu")
    assert_array_equal(load(tmp_path / "a.drpu").decision_function(X), fitted.decision_function(X))
    parts = fitted.contributions(X[:5])
    assert_allclose(parts.sum(axis=1), fitted.model_.label_scores(X[:5]).mean(axis=1), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("codes", "negative", "classes"),
    [
        (np.array([1, 0, -1]), -1, np.array([0, 1])),
        (pd.array([True, None, False], dtype="boolean"), False, np.array([False, True])),
        (pd.array([1, None, 0], dtype="Int8"), 0, np.array([0, 1], dtype=np.int8)),
        (pd.array([1, 0, -1], dtype="Int64"), -1, np.array([0, 1])),
        (pd.array(["yes", None, "no"], dtype="string"), "no", np.array(["no", "yes"], dtype=object)),
        (np.array(["yes", None, "no"], dtype=object), "no", np.array(["no", "yes"], dtype=object)),
        (np.array([1, np.nan, 0], dtype=np.float32), 0, np.array([0, 1], dtype=np.float32)),
    ],
)
def test_predictions_have_the_type_of_labels_with_known_negatives(codes, negative, classes):
    X, y, label = draw(0, 800)
    values = codes[codes_of(label, y)]
    for container in (values, pd.Series(values)):
        fitted = clf("classifier", negative_label=negative).fit(X, container)
        assert fitted.classes_.tolist() == classes.tolist()
        assert fitted.predict(X).dtype == classes.dtype
        assert set(fitted.predict(X).tolist()) == set(classes.tolist())
    with pytest.raises(LabelError, match="negative_label must be a name or a number, as the label 'yes'"):
        clf("classifier", negative_label=0).fit(
            X, np.array(["yes", None, 0], dtype=object)[codes_of(label, y)]
        )


def codes_of(label, y):
    """0 for labelled positives, 2 for known negatives and 1 for the other rows."""
    return np.where(label, 0, np.where(y, 1, 2))


def test_few_negatives_are_told():
    X, y, label = draw(0, 600)
    codes = np.where(label, 1, 0)
    codes[np.flatnonzero(~y)[:5]] = -1
    with pytest.warns(FewNegativesWarning, match="5 known negatives"):
        clf("classifier", negative_label=-1).fit(X, codes)
    with pytest.raises(LabelError, match="negative_label must not be pos_label"):
        clf("classifier", pos_label=1, negative_label=1).fit(X, codes)


def test_negatives_are_a_third_sample_in_fit_pu():
    X, y, label = draw(0, 800)
    for scenario in ("single-sample", "case-control"):
        fitted = clf("classifier", scenario=scenario).fit_pu(X[label], X[~label & y], X[~y])
        expected = (~label & y).sum() + (0 if scenario == "case-control" else (~y).sum())
        assert fitted.tails_.n == expected


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["single-sample", "case-control"])
@pytest.mark.parametrize("of", ["unlabeled", "all"])
def test_answers_set_the_training_prior(scenario, of):
    X, y, label = draw(2)
    first = clf("classifier", scenario=scenario).fit(X, label.astype(int))
    rows = np.flatnonzero(~label) if of == "unlabeled" else np.arange(len(y))
    plan = first.plan_audit(X[rows], n=150, random_state=1)
    again = clf("classifier", scenario=scenario).fit(
        X, label.astype(int), audits=[plan.answer(y[rows][plan.rows])]
    )
    truth = y.mean() if scenario == "single-sample" else y[~label].mean()
    assert again.train_prior_.method == "audit"
    assert again.train_prior_.low <= truth <= again.train_prior_.high


def test_answers_that_contradict_labels_are_told():
    X, y, label = draw(0, 600)
    rows = np.concatenate([np.flatnonzero(label)[:20], np.flatnonzero(~label)[:40]])
    wrong = y[rows].copy()
    wrong[:3] = False
    with pytest.warns(ContradictionWarning, match="3 labelled rows were answered as negative"):
        clf("kernel").fit(X, label.astype(int), audits=[Audit.random(rows, wrong)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContradictionWarning)
        clf("kernel").fit(X, label.astype(int), audits=[Audit.random(rows, y[rows])])


def test_answers_about_other_rows_train_only():
    X, _, label = draw(2)
    more, truth, _ = draw(5, 600)
    first = clf().fit(X, label.astype(int))
    plan = first.plan_audit(more, n=300, random_state=0)
    audit = plan.answer(truth[plan.rows])
    again = clf().fit(X, label.astype(int), audits=[(more, audit)])
    assert again.train_prior_.method != "audit"
    assert auc(again) > auc(first)
    with pytest.raises(DataError, match="planned on 600 rows"):
        clf().fit(X, label.astype(int), audits=[audit])


# -- bounds, and what is refused ------------------------------------------------------------------


def test_sensitivity_starts_from_the_training_prior():
    X, _, label = draw(0, 1500)
    fitted = clf("classifier").fit(X, label.astype(int))
    # the mean probability is that of the calibration, which is fitted to the same counts
    assert abs(fitted.sensitivity(1.0).prior - fitted.train_prior_.value) < 0.02
    with pytest.raises(ParameterError, match="k must"):
        fitted.sensitivity(0.5)


TWICE = Audit.random(range(50), [0, 1] * 25)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"groups": "customer"}, DataError, "groups must have one value per row, .* got 'customer'"),
        (
            {"groups": np.ones((3, 2))},
            DataError,
            r"groups must have one value per row, .* got shape \(3, 2\)",
        ),
        ({"audits": 3}, DataTypeError, "audit must be an Audit"),
        ({"audits": [TWICE, TWICE]}, DataError, "must not be given twice"),
    ],
)
def test_groups_and_answers_that_cannot_be_used_are_one_clear_error(options, error, message):
    X, _, label = draw(0, 300)
    with pytest.raises(error, match=message):
        clf("classifier").fit(X, label.astype(int), **options)


def test_the_label_of_negatives_is_one_label():
    X, _, label = draw(0, 300)
    with pytest.raises(LabelError, match="negative_label must be one label"):
        clf("classifier", negative_label=np.ones(300)).fit(X, label.astype(int))


# -- the share of the score against known negatives --------------------------------------------------


def samples(seed: int, n: int = 3000, prior: float = 0.3, rate: float = 0.3):
    """Whether rows are labelled, their class, and two independent readings of it."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prior
    label = y & (rng.random(n) < rate)
    return label, y, rng.normal(size=n) + y, rng.normal(size=n) + y


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=30).map(np.array), st.floats(0.1, 10))
def test_weights_sum_to_the_effective_number_and_have_no_scale(chance, factor):
    weight = answer_weights(chance)
    assert_allclose(weight, answer_weights(factor * chance), rtol=1e-9)
    assert weight.sum() <= len(chance) * (1 + 1e-9)
    assert_allclose(weight.sum(), weight.sum() ** 2 / (weight @ weight), rtol=1e-9)


def test_two_equally_good_scores_are_averaged():
    shares = [
        negative_share(label, one, other) for label, _, one, other in (samples(seed) for seed in range(20))
    ]
    assert 0.3 < np.mean(shares) < 0.6


@pytest.mark.parametrize("seed", range(5))
def test_a_score_that_misleads_is_not_used(seed):
    label, _, one, other = samples(seed)
    assert negative_share(label, one, -other) == 0
    assert negative_share(label, one, np.random.default_rng(seed).normal(size=len(one))) <= 0.2


@pytest.mark.parametrize("seed", range(5))
def test_a_much_better_score_replaces_the_other(seed):
    label, y, _, other = samples(seed, n=20_000)
    assert negative_share(label, np.random.default_rng(seed).normal(size=len(y)), 2 * other) >= 0.7


@given(st.integers(0, 9))
def test_few_labelled_rows_choose_nothing(n):
    labelled = np.arange(50) < n
    assert negative_share(labelled, np.zeros(50), 1.0 * labelled) == 0


def test_the_order_of_rows_does_not_matter():
    label, _, one, other = samples(0)
    order = np.random.default_rng(0).permutation(len(label))
    assert negative_share(label, one, other) == negative_share(label[order], one[order], other[order])
