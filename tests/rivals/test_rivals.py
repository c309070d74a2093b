"""Laws of all other PU methods: validation, labels, priors, scenarios and probabilities."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from drpu import (
    ElkanNotoClassifier,
    NNPUClassifier,
    PriorEstimate,
    PUaClassifier,
    PULDClassifier,
    UPUClassifier,
    load,
    make_pu,
    save,
)
from drpu.exceptions import (
    ArtifactError,
    DataError,
    DataTypeError,
    LabelError,
    ParameterError,
    PriorBoundaryWarning,
    PriorError,
)
from drpu.models.registry import LearntElsewhere
from drpu.networks.learner import NetworkScore
from learners import KernelScore, LinearScore
from rival_settings import TINY, fitted, labelled_toy, make_toy, rivals

WITH_PRIOR = {name: clf for name, clf in TINY.items() if name not in ("vpu", "elkan-noto")}


@pytest.fixture(scope="module")
def toy():
    return make_toy()


# -- labels, rows and errors -----------------------------------------------------------------------------


@rivals
@pytest.mark.parametrize(
    "names", [("no", "yes"), pytest.param((-1, 1), marks=pytest.mark.slow), (False, True), (1, 0)]
)
def test_answers_come_in_the_coding_of_the_labels(rival, toy, names):
    X, y = toy.X_y()
    plain = clone(rival).set_params(random_state=0).fit(X, y)
    coded = clone(rival).set_params(random_state=0, pos_label=names[1]).fit(X, np.array(names)[y])
    assert_array_equal(coded.classes_, names)
    assert_array_equal(coded.predict(toy.test), np.array(names)[plain.predict(toy.test)])


@rivals
def test_a_missing_label_means_unlabeled(rival, toy):
    X, y = toy.X_y()
    gaps = clone(rival).set_params(random_state=0).fit(X, np.where(y == 1, 1.0, np.nan))
    assert_array_equal(gaps.predict(toy.test), fitted(rival, toy).predict(toy.test))


@rivals
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_keep_their_columns_and_arrays_apart_agree(rival, toy, library):
    frames = pytest.importorskip(library)
    X, y = toy.X_y()
    table, new = (frames.DataFrame({"a": rows[:, 0], "b": rows[:, 1]}) for rows in (X, toy.test))
    clf = clone(rival).set_params(random_state=0).fit(table, frames.Series(y))
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    apart = clone(rival).set_params(random_state=0).fit_pu(toy.positive, toy.unlabeled)
    assert_allclose(clf.decision_function(new), apart.decision_function(toy.test))
    assert_array_equal(clf.predict(new[["b", "a"]]), clf.predict(new))


WRONG_PARAMETERS = [
    ({"pos_label": 7}, LabelError, "pos_label"),
    ({"scenario": "other"}, ParameterError, "scenario"),
    ({"cost": 1.0}, ParameterError, "cost"),
    ({"prior": "km3"}, ParameterError, "prior must"),
    ({"prior": 1.2}, PriorError, "prior must lie"),
]


@rivals
def test_bad_input_is_named(rival, toy):
    """Missing values and a wrong number of rows are among the checks of scikit-learn."""
    X, y = toy.X_y()
    for labels, message in ((np.ones(len(X)), "one class only"), (np.arange(len(X)) % 3, "got 3")):
        with pytest.raises(LabelError, match=message):
            clone(rival).fit(X, labels)
    for weight, message in ((np.full(len(X), -1.0), "sample_weight must be finite"), (1.0 - y, "one class")):
        with pytest.raises(DataError, match=message):
            clone(rival).fit(X, y, sample_weight=weight)
    for parameters, error, message in WRONG_PARAMETERS:
        with pytest.raises(error, match=message):
            clone(rival).set_params(**parameters).fit(X, y)


@rivals
def test_sparse_rows_are_taken_or_refused_by_name(rival, toy):
    X, y = toy.X_y()
    clf = clone(rival).set_params(random_state=0)
    if clf.__sklearn_tags__().input_tags.sparse:
        dense = clone(clf).fit(X, y).decision_function(toy.test)
        assert_allclose(
            clf.fit(sparse.csr_array(X), y).decision_function(sparse.csr_array(toy.test)),
            dense,
            rtol=1e-3,
            atol=1e-3,
        )
    else:
        with pytest.raises(DataTypeError, match="toarray"):
            clf.fit(sparse.csr_array(X), y)


# -- priors and scenarios --------------------------------------------------------------------------------


@pytest.mark.parametrize("rival", WITH_PRIOR.values(), ids=WITH_PRIOR)
def test_a_prior_may_be_a_number_an_estimate_or_a_name(rival, toy):
    given = PriorEstimate(0.4, 0.3, 0.5, 0.9, "elsewhere")
    assert fitted(rival, toy, prior=given).prior_ == given
    assert fitted(rival, toy, prior=0.4).prior_ == PriorEstimate.given(0.4)
    assert_array_equal(
        fitted(rival, toy, prior=given).predict(toy.test), fitted(rival, toy, prior=0.4).predict(toy.test)
    )


@pytest.mark.parametrize("method", ["km1", "km2", "auto", "best-bin"])
def test_named_priors_are_close_on_a_clear_toy(toy, method):
    clf = fitted(UPUClassifier("linear", scenario="case-control"), toy, prior=method)
    assert abs(clf.prior_.value - 0.4) < 0.1
    assert clf.prior_.method == ("learned" if method == "auto" else method)


def test_images_have_priors_too():
    rng = np.random.default_rng(0)
    positive, rest = rng.normal(1, 0.3, (60, 4, 4)), rng.normal(-1, 0.3, (60, 4, 4))
    net = NetworkScore(hidden=(8,), epochs=5, batch_size=32)
    clf = NNPUClassifier(net, random_state=0).fit_pu(positive[:30], np.concatenate([positive[30:], rest]))
    assert 0.1 < clf.prior_.value < 0.6
    assert clf.predict(positive).shape == (60,)


@rivals
def test_a_single_sample_has_the_prior_of_all_rows(rival):
    X, y, _ = make_pu(*labelled_toy(), prior=0.5, labelled=0.4, scenario="single-sample", random_state=0)
    clf = clone(rival).set_params(random_state=0, scenario="single-sample", prior=0.5).fit(X, y)
    assert_allclose(clf.prior_.value, 0.5)
    with pytest.raises(PriorError, match=r"strictly between 0\.2"):
        clone(clf).set_params(prior=0.15).fit(X, y)


@pytest.mark.parametrize("name", ["upu", "nnpu", "puld", "elkan-noto"])
def test_both_scenarios_learn_the_same_law(name):
    X, label = labelled_toy()
    X_new, y_new = X[:200], label[:200].astype(int)
    single = make_pu(X[200:], label[200:], labelled=0.4, scenario="single-sample", random_state=0)
    beside = make_pu(X[200:], label[200:], labelled=60, scenario="case-control", random_state=0)
    for sample in (single, beside):
        clf = clone(TINY[name]).set_params(random_state=0, scenario=sample.scenario, prior=sample.prior)
        assert clf.fit(sample.X, sample.y).score(X_new, y_new) > 0.9


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_single_sample_gives_the_posterior_of_the_population(loss):
    """With most positives labelled, few unlabeled rows are positive, but many of the population are."""
    X, label = labelled_toy()
    sample = make_pu(X, label, labelled=0.8, scenario="single-sample", random_state=0)
    clf = UPUClassifier("linear", loss=loss, prior=sample.prior, scenario="single-sample", random_state=0)
    posterior = clf.fit(sample.X, sample.y).predict_proba(X)[:, 1]
    assert abs(posterior.mean() - label.mean()) < 0.06


def test_an_estimate_at_the_boundary_is_moved_with_a_warning():
    rng = np.random.default_rng(0)
    with pytest.warns(PriorBoundaryWarning):
        clf = UPUClassifier("linear", prior="best-bin", random_state=0).fit_pu(
            rng.normal(20, 1, (200, 1)), rng.normal(-20, 1, (400, 1))
        )
    assert clf.prior_.value == 0.01


# -- probabilities and costs -----------------------------------------------------------------------------


@rivals
def test_probabilities_are_probabilities_or_absent(rival, toy):
    clf = fitted(rival, toy)
    if not hasattr(clf, "predict_proba"):
        return
    p = clf.predict_proba(toy.test)
    assert p.min() >= 0
    assert p.max() <= 1
    assert_allclose(p.sum(axis=1), 1)
    assert_array_equal(p[:, 1] > 0.5, clf.decision_function(toy.test) > 1e-9)


def test_scores_without_a_posterior_do_not_pretend():
    for clf in (
        NNPUClassifier(scenario="case-control"),
        PUaClassifier(scenario="case-control"),
        PULDClassifier(scenario="case-control"),
        UPUClassifier(loss="sigmoid", scenario="case-control"),
    ):
        assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        NNPUClassifier(scenario="case-control").predict_proba([[0.0]])
    assert hasattr(NNPUClassifier(loss="logistic", scenario="case-control"), "predict_proba")


@rivals
def test_false_positives_that_cost_more_become_rarer(rival, toy):
    cheap, dear = (fitted(rival, toy, cost=cost).predict(toy.test).mean() for cost in (0.05, 0.95))
    assert dear <= cheap


def test_the_posterior_of_upu_is_calibrated_on_the_toy(toy):
    clf = fitted(UPUClassifier(LinearScore(ridge=1e-4), scenario="case-control"), toy, prior=0.4)
    truth = toy.classes.posterior(toy.test, 0.4)
    assert np.abs(clf.predict_proba(toy.test)[:, 1] - truth).mean() < 0.08


# -- files and pipelines -----------------------------------------------------------------------------


@rivals
def test_what_is_loaded_answers_as_what_was_saved(rival, toy, tmp_path):
    X, y = toy.X_y()
    clf = clone(rival).set_params(random_state=0, prior=PriorEstimate(0.4, 0.3, 0.5, 0.9, "elsewhere"))
    clf.fit(pd.DataFrame(X, columns=["a", "b"]), np.where(y == 1, "yes", ""))
    save(clf, tmp_path / "once.drpu")
    save(load(tmp_path / "once.drpu", trusted=True), tmp_path / "twice.drpu")
    back = load(tmp_path / "twice.drpu", trusted=True)
    new = pd.DataFrame(toy.test, columns=["a", "b"])
    assert type(back) is type(clf)
    assert_array_equal(back.decision_function(new), clf.decision_function(new))
    assert_array_equal(back.predict(new[["b", "a"]]), clf.predict(new))
    with pytest.raises(DataError, match="none called 'a'"):
        back.predict(new[["b"]])
    assert back.prior_ == clf.prior_
    assert back.get_params(deep=False).keys() == clf.get_params(deep=False).keys()
    if isinstance(
        back.get_params()["classifier" if "classifier" in back.get_params() else "model"], LearntElsewhere
    ):
        with pytest.raises(ParameterError, match="must be set before this classifier is fitted again"):
            clone(back).fit(X, y)
    else:
        assert clone(back).fit(X, y).predict(toy.test).shape == (len(toy.test),)


@pytest.mark.parametrize("cost", ["a", (), 0.0, 2.0, None])
def test_a_record_has_a_cost(toy, cost):
    record = fitted(
        UPUClassifier(KernelScore(n_features=20), prior=0.4, scenario="case-control"), toy
    ).record()
    with pytest.raises(ParameterError, match="cost must"):
        replace(record, parameters=record.parameters | {"cost": cost})


def test_rows_inside_a_classifier_are_not_saved_unasked(toy, tmp_path):
    clf = fitted(ElkanNotoClassifier(KNeighborsClassifier(), scenario="case-control"), toy)
    with pytest.raises(ArtifactError, match="training rows"):
        save(clf, tmp_path / "a.drpu")
