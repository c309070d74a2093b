"""Laws that hold for every rival: the door, labels, priors, scenarios, and what they claim to know."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from drpu import (
    ElkanNotoClassifier,
    GenPUClassifier,
    NetworkRatio,
    NNPUClassifier,
    PriorEstimate,
    PUaClassifier,
    PULDClassifier,
    UPUClassifier,
    VPUClassifier,
    load,
    make_gaussian_pu,
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
from drpu.models.network_score import NetworkScore
from drpu.models.scores import KernelScore, LinearScore

pytest.importorskip("torch")

# Small enough to be fitted dozens of times; what they are worth is tested further down.
SMOOTH, NET = KernelScore(50, ridge=1e-3), NetworkScore(hidden=(8,), epochs=2)
GAME = {"steps": 3, "hidden": (8,), "batch_size": 8, "n_generated": 20}
TINY = {
    "upu": UPUClassifier(SMOOTH, prior=0.4),
    "upu-squared": UPUClassifier(LinearScore(ridge=1e-3), loss="squared", prior=0.4),
    "nnpu": NNPUClassifier(SMOOTH, prior=0.4),
    "nnpu-network": NNPUClassifier(NET, loss="logistic", prior=0.4),
    "pua": PUaClassifier(LinearScore(ridge=1e-3), prior=0.4, test_prior=0.3),
    "vpu": VPUClassifier(NET),
    "genpu": GenPUClassifier(KernelScore(20, ridge=1e-3), prior=0.4, **GAME),
    "puld": PULDClassifier(KernelScore(50), rounds=2, prior=0.4),
    "elkan-noto": ElkanNotoClassifier(LogisticRegression()),
}
rivals = pytest.mark.parametrize("rival", TINY.values(), ids=TINY)
WITH_PRIOR = {name: clf for name, clf in TINY.items() if name not in ("vpu", "elkan-noto")}


def exempted(classifier):
    """Checks that a randomised or cross-validated fit to weights cannot pass, with the reason."""
    if type(getattr(classifier, "model", None)) is LinearScore:
        return {}
    reason = "rows repeated and rows weighted are different draws to folds, batches and kernel means"
    return dict.fromkeys(
        ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
        reason,
    )


@pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [*TINY.values(), UPUClassifier()],
    expected_failed_checks=exempted,
    xfail_strict=False,  # with few rows and no folds, Elkan-Noto may pass
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def toy():
    return make_gaussian_pu(
        100, 250, prior=0.4, test_prior=0.4, separation=5, dimensions=2, n_test=400, random_state=0
    )


def fitted(rival, toy, **parameters):
    parameters = {"random_state": 0} | parameters
    return clone(rival).set_params(**parameters).fit(*toy.X_y())


# -- labels, rows and errors ---------------------------------------------------------------


@rivals
@pytest.mark.parametrize("names", [("no", "yes"), (-1, 1)])
def test_answers_come_in_the_coding_of_the_labels(rival, toy, names):
    X, y = toy.X_y()
    plain = clone(rival).set_params(random_state=0).fit(X, y)
    coded = clone(rival).set_params(random_state=0).fit(X, np.array(names)[y])
    assert_array_equal(coded.classes_, names)
    assert_array_equal(coded.predict(toy.test), np.array(names)[plain.predict(toy.test)])


@rivals
def test_pos_label_says_which_label_is_positive(rival, toy):
    X, y = toy.X_y()
    plain = clone(rival).set_params(random_state=0).fit(X, y)
    turned = clone(rival).set_params(random_state=0, pos_label=0).fit(X, 1 - y)
    assert_array_equal(turned.predict(toy.test), 1 - plain.predict(toy.test))


@rivals
def test_a_missing_label_means_unlabeled(rival, toy):
    X, y = toy.X_y()
    gaps = clone(rival).set_params(random_state=0).fit(X, np.where(y == 1, 1.0, np.nan))
    assert_array_equal(gaps.predict(toy.test), fitted(rival, toy).predict(toy.test))


@rivals
def test_frames_keep_their_columns_and_arrays_apart_agree(rival, toy):
    X, y = toy.X_y()
    frame = pd.DataFrame(X, columns=["a", "b"])
    clf = clone(rival).set_params(random_state=0).fit(frame, y)
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    apart = clone(rival).set_params(random_state=0).fit_pu(toy.positive, toy.unlabeled)
    assert_allclose(
        clf.decision_function(pd.DataFrame(toy.test, columns=["a", "b"])), apart.decision_function(toy.test)
    )


@rivals
def test_each_row_is_answered_alone(rival, toy):
    clf = fitted(rival, toy)
    whole = clf.decision_function(toy.test[:20])
    assert_allclose(clf.decision_function(toy.test[7:9]), whole[7:9], rtol=1e-4, atol=1e-5)
    assert_array_equal(clf.predict(toy.test[:20]), clf.classes_[(whole > 0).astype(int)])


@rivals
def test_bad_input_is_named(rival, toy):
    X, y = toy.X_y()
    clf = clone(rival)
    with pytest.raises(NotFittedError):
        clf.predict(X)
    with pytest.raises(LabelError, match="one class only"):
        clf.fit(X, np.ones(len(X)))
    with pytest.raises(LabelError, match="got 3"):
        clf.fit(X, np.arange(len(X)) % 3)
    with pytest.raises(DataError, match="NaN"):
        clf.fit(np.full_like(X, np.nan), y)
    with pytest.raises(DataError, match="same number of rows"):
        clf.fit(X, y[:-1])
    with pytest.raises(ParameterError, match="scenario"):
        clone(clf).set_params(scenario="other").fit(X, y)
    with pytest.raises(ParameterError, match="cost"):
        clone(clf).set_params(cost=1.0).fit(X, y)
    with pytest.raises(ParameterError, match="prior must"):
        clone(clf).set_params(prior="km3").fit(X, y)
    with pytest.raises(PriorError, match="prior must lie"):
        clone(clf).set_params(prior=1.2).fit(X, y)


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


# -- priors and scenarios --------------------------------------------------------------------


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
    clf = fitted(UPUClassifier("linear"), toy, prior=method)
    assert abs(clf.prior_.value - 0.4) < 0.1
    assert clf.prior_.method == ("combined" if method == "auto" else method)


def test_images_have_priors_too():
    rng = np.random.default_rng(0)
    positive, rest = rng.normal(1, 0.3, (60, 4, 4)), rng.normal(-1, 0.3, (60, 4, 4))
    net = NetworkScore(hidden=(8,), epochs=5, batch_size=32)
    clf = NNPUClassifier(net, random_state=0).fit_pu(positive[:30], np.concatenate([positive[30:], rest]))
    assert 0.1 < clf.prior_.value < 0.6
    assert clf.predict(positive).shape == (60,)


@rivals
def test_a_single_sample_has_the_prior_of_all_rows(rival):
    X, y, _ = make_pu(*_labelled_toy(), prior=0.5, labelled=0.4, scenario="single-sample", random_state=0)
    clf = clone(rival).set_params(random_state=0, scenario="single-sample", prior=0.5).fit(X, y)
    assert_allclose(clf.prior_.value, 0.5)
    with pytest.raises(PriorError, match=r"strictly between 0\.2"):
        clone(clf).set_params(prior=0.15).fit(X, y)


def _labelled_toy():
    rng = np.random.default_rng(0)
    label = rng.random(600) < 0.5
    return rng.normal(np.where(label, 2.0, -2.0)[:, None], 1, (600, 2)), label


@pytest.mark.parametrize("name", ["upu", "nnpu", "puld", "elkan-noto"])
def test_both_scenarios_learn_the_same_law(name):
    X, label = _labelled_toy()
    X_new, y_new = X[:200], label[:200].astype(int)
    single = make_pu(X[200:], label[200:], labelled=0.4, scenario="single-sample", random_state=0)
    beside = make_pu(X[200:], label[200:], labelled=60, scenario="case-control", random_state=0)
    for sample in (single, beside):
        clf = clone(TINY[name]).set_params(random_state=0, scenario=sample.scenario, prior=sample.prior)
        assert clf.fit(sample.X, sample.y).score(X_new, y_new) > 0.9


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_a_single_sample_gives_the_posterior_of_the_population(loss):
    """With most positives labelled, the rows without a label are hardly positive, the population is."""
    X, label = _labelled_toy()
    sample = make_pu(X, label, labelled=0.8, scenario="single-sample", random_state=0)
    clf = UPUClassifier("linear", loss=loss, prior=sample.prior, scenario="single-sample", random_state=0)
    posterior = clf.fit(sample.X, sample.y).predict_proba(X)[:, 1]
    assert abs(posterior.mean() - label.mean()) < 0.06


def test_an_estimate_at_the_edge_is_moved_and_said():
    rng = np.random.default_rng(0)
    with pytest.warns(PriorBoundaryWarning):
        clf = UPUClassifier("linear", prior="best-bin", random_state=0).fit_pu(
            rng.normal(20, 1, (200, 1)), rng.normal(-20, 1, (400, 1))
        )
    assert clf.prior_.value == 0.01


# -- probabilities and costs -----------------------------------------------------------------


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
    for clf in (NNPUClassifier(), PUaClassifier(), PULDClassifier(), UPUClassifier(loss="sigmoid")):
        assert not hasattr(clf, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        NNPUClassifier().predict_proba([[0.0]])
    assert hasattr(NNPUClassifier(loss="logistic"), "predict_proba")


@rivals
def test_false_positives_that_cost_more_become_rarer(rival, toy):
    cheap, dear = (fitted(rival, toy, cost=cost).predict(toy.test).mean() for cost in (0.05, 0.95))
    assert dear <= cheap


def test_the_posterior_of_upu_is_calibrated_on_the_toy(toy):
    clf = fitted(UPUClassifier(LinearScore(ridge=1e-4)), toy, prior=0.4)
    truth = toy.classes.posterior(toy.test, 0.4)
    assert np.abs(clf.predict_proba(toy.test)[:, 1] - truth).mean() < 0.08


# -- each method's own -------------------------------------------------------------------------


def test_pua_without_a_test_prior_is_nnpu(toy):
    nnpu = fitted(NNPUClassifier("linear"), toy, prior=0.4)
    pua = fitted(PUaClassifier("linear"), toy, prior=0.4)
    assert_array_equal(pua.decision_function(toy.test), nnpu.decision_function(toy.test))
    assert pua.test_prior_ == pua.prior_


def test_pua_follows_its_test_prior(toy):
    rare, frequent = (
        fitted(PUaClassifier("linear", loss="logistic", test_prior=q), toy, prior=0.4) for q in (0.1, 0.9)
    )
    assert rare.predict_proba(toy.test)[:, 1].mean() < frequent.predict_proba(toy.test)[:, 1].mean()


@pytest.mark.parametrize("method", ["km2", "auto"])
def test_pua_reads_the_test_prior_from_rows(method):
    data = make_gaussian_pu(
        200, 500, prior=0.5, test_prior=0.15, separation=5, dimensions=2, n_test=500, random_state=0
    )
    X, y = data.X_y()
    clf = PUaClassifier("linear", prior=method, random_state=0).fit(X, y, X_test=data.test)
    assert abs(clf.test_prior_.value - 0.15) < 0.07
    apart = PUaClassifier("linear", prior=method, random_state=0).fit_pu(
        data.positive, data.unlabeled, X_test=data.test
    )
    assert_allclose(apart.decision_function(data.test), clf.decision_function(data.test))
    with pytest.raises(ParameterError, match="give one of the two"):
        PUaClassifier(test_prior=0.2).fit(X, y, X_test=data.test)


def test_vpu_wants_a_network_and_a_given_prior_sets_its_scale(toy):
    with pytest.raises(ParameterError, match="MixUp"):
        fitted(VPUClassifier("kernel"), toy)
    net = NetworkScore(hidden=(16,), epochs=10, learning_rate=1e-2, batch_size=100)
    clf = fitted(VPUClassifier(net), toy, prior=0.4)
    assert_allclose(clf.predict_proba(toy.unlabeled)[:, 1].mean(), 0.4, atol=1e-6)
    free = fitted(VPUClassifier(net), toy)
    assert free.predict_proba(toy.unlabeled)[:, 1].max() == 1.0


def test_vpu_keeps_the_epoch_with_the_lowest_holdout_risk(toy):
    net = NetworkScore(hidden=(32,), epochs=12, learning_rate=3e-2, batch_size=50)
    model = fitted(VPUClassifier(net), toy).model_
    assert model.best_epoch_ == 1 + np.argmin(model.history_["holdout_risk"])


def test_genpu_moves_to_a_new_prior_with_the_same_generators(toy):
    clf = fitted(TINY["genpu"], toy, prior=0.4, steps=100, n_generated=200)
    rare = clf.at_prior(0.05)
    assert rare.generators_ is clf.generators_
    assert rare.test_prior_.value == 0.05
    assert clf.test_prior_.value == 0.4
    assert rare.predict_proba(toy.test)[:, 1].mean() < clf.predict_proba(toy.test)[:, 1].mean()
    with pytest.raises(PriorError, match="strictly between 0 and 1"):
        clf.at_prior(0.0)


def test_genpu_generates_images_of_28_by_28():
    rng = np.random.default_rng(0)
    clf = GenPUClassifier("linear", steps=2, batch_size=4, n_generated=20, prior=0.5, random_state=0)
    clf.fit_pu(rng.random((12, 28, 28)), rng.random((20, 28, 28)))
    assert clf.generators_.sample(3, positive=True, seed=0).shape == (3, 28, 28)
    assert clf.predict(rng.random((4, 28, 28))).shape == (4,)
    with pytest.raises(DataError, match="rows of shape"):
        clf.predict(rng.random((4, 28, 27)))


def test_puld_refuses_networks():
    with pytest.raises(ParameterError, match="large-margin"):
        PULDClassifier("network").fit([[0.0], [1.0]], [0, 1])


def test_elkan_noto_divides_by_the_share_of_positives_that_is_labelled():
    X, label = _labelled_toy()
    sample = make_pu(X, label, labelled=0.3, scenario="single-sample", random_state=0)
    clf = ElkanNotoClassifier(LogisticRegression(), scenario="single-sample", random_state=0)
    clf.fit(sample.X, sample.y)
    assert abs(clf.constant_ - 0.3) < 0.06
    assert abs(clf.prior_.value - 0.5) < 0.1


def test_elkan_noto_keeps_the_ranking_that_clipping_loses(toy):
    clf = fitted(ElkanNotoClassifier(LogisticRegression()), toy, prior=0.6)
    certain = clf.predict_proba(toy.test)[:, 1] == 1
    assert certain.sum() > 10
    assert len(np.unique(clf.decision_function(toy.test[certain]))) > 10


# -- models -----------------------------------------------------------------------------------


def test_a_network_ratio_passes_its_options_on(toy):
    clf = fitted(NNPUClassifier(NetworkRatio(hidden=(5,), epochs=3)), toy)
    assert len(clf.model_.history_["risk"]) == 3
    assert clf.model_.hidden == (5,)
    with pytest.raises(ParameterError, match="alpha must be left at its default"):
        fitted(NNPUClassifier(NetworkRatio(alpha=0.3)), toy)


def test_networks_of_scores_and_of_ratios_have_the_same_defaults():
    ratio, score = NetworkRatio().get_params(), NetworkScore().get_params()
    assert score == {name: ratio[name] for name in score}


def test_a_torch_module_of_the_user_is_trained_and_loaded(toy, tmp_path):
    from torch import nn

    def make():
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

    clf = fitted(NNPUClassifier(make()), toy)
    save(clf, tmp_path / "a.drpu")
    with pytest.raises(ArtifactError, match="module"):
        load(tmp_path / "a.drpu")
    back = load(tmp_path / "a.drpu", module=make)
    assert_array_equal(back.decision_function(toy.test), clf.decision_function(toy.test))


def test_unknown_models_are_named(toy):
    for clf in (UPUClassifier("forest"), UPUClassifier(3)):
        with pytest.raises(ParameterError, match="model must be"):
            fitted(clf, toy)
    with pytest.raises(ParameterError, match="ridge"):
        fitted(UPUClassifier(LinearScore(ridge="best")), toy)


def test_the_closed_form_of_the_squared_loss_is_where_the_gradient_is_zero(toy):
    from drpu.core.losses import get_loss
    from drpu.core.objective import ShiftedRisk
    from drpu.models.folds import Sample

    objective = ShiftedRisk(0.4, 0.4, get_loss("squared"))
    model = LinearScore(ridge=1e-2).fit_score(Sample(toy.positive), Sample(toy.unlabeled), objective)
    P, U = model._design(Sample(toy.positive)), model._design(Sample(toy.unlabeled))
    _, by_p, by_u = objective.gradient(model.score(toy.positive), model.score(toy.unlabeled), None, None)
    assert_allclose(P.adjoint(by_p) + U.adjoint(by_u) + 1e-2 * model.coef_, 0, atol=1e-10)
    assert_allclose(by_p.sum() + by_u.sum(), 0, atol=1e-10)


def test_weights_count_as_repeated_rows(toy):
    X, y = toy.X_y()
    w = np.random.default_rng(0).integers(1, 4, len(X))
    model = UPUClassifier(LinearScore(ridge=1e-2), prior=0.4, random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=w).decision_function(toy.test)
    repeated = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w)).decision_function(toy.test)
    assert_allclose(weighted, repeated, rtol=1e-3, atol=1e-3)


# -- save and load -------------------------------------------------------------------------------


@rivals
def test_what_is_loaded_answers_as_what_was_saved(rival, toy, tmp_path):
    X, y = toy.X_y()
    clf = clone(rival).set_params(random_state=0, prior=PriorEstimate(0.4, 0.3, 0.5, 0.9, "elsewhere"))
    clf.fit(pd.DataFrame(X, columns=["a", "b"]), np.where(y == 1, "yes", "no"))
    save(clf, tmp_path / "rival.drpu")
    back = load(tmp_path / "rival.drpu")
    new = pd.DataFrame(toy.test, columns=["a", "b"])
    assert type(back) is type(clf)
    assert_array_equal(back.decision_function(new), clf.decision_function(new))
    assert_array_equal(back.predict(new), clf.predict(new))
    assert back.prior_ == clf.prior_
    assert back.get_params(deep=False).keys() == clf.get_params(deep=False).keys()
    assert clone(back).fit(X, y).predict(toy.test).shape == (len(toy.test),)


def test_rows_inside_a_classifier_are_not_saved_unasked(toy, tmp_path):
    clf = fitted(ElkanNotoClassifier(KNeighborsClassifier()), toy)
    with pytest.raises(ArtifactError, match="training rows"):
        save(clf, tmp_path / "a.drpu")


def test_the_risk_classifiers_do_not_import_torch():
    code = (
        "import sys, drpu.estimators.risk, drpu.estimators.margin, drpu.estimators.classic, "
        "drpu.estimators.variational, drpu.estimators.generative; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# -- digits: what they are worth --------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    """Even against odd: 1,300 training rows of which 250 are labelled positives."""
    X, digit = load_digits(return_X_y=True)
    even = digit % 2 == 0
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:1300], order[1300:]
    positive = train[even[train]][:250]
    unlabeled = np.setdiff1d(train, positive)
    return X[positive], X[unlabeled], float(even[unlabeled].mean()), X[test], even[test].astype(int)


@pytest.mark.parametrize(
    "classifier",
    [
        UPUClassifier(KernelScore(ridge=1e-3)),
        NNPUClassifier(KernelScore(ridge=1e-5)),
        NNPUClassifier(NetworkScore(hidden=(100, 100), epochs=40)),
        PUaClassifier(KernelScore(ridge=1e-5)),
        VPUClassifier(NetworkScore(hidden=(100, 100), epochs=40, batch_size=200, learning_rate=1e-3)),
        PULDClassifier(),
        ElkanNotoClassifier(ExtraTreesClassifier(50, min_samples_leaf=2)),
    ],
    ids=["upu", "nnpu", "nnpu-network", "pua", "vpu", "puld", "elkan-noto"],
)
def test_even_digits_are_told_from_odd_ones(classifier, digits):
    positive, unlabeled, prior, X, y = digits
    clf = clone(classifier).set_params(random_state=0, prior=prior)
    assert clf.fit_pu(positive, unlabeled).score(X, y) > 0.85
