"""Properties of each of the other PU methods, their models, and their accuracy on digits."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression

from drpu import (
    ElkanNotoClassifier,
    GenPUClassifier,
    NetworkRatio,
    NNPUClassifier,
    PUaClassifier,
    PULDClassifier,
    UPUClassifier,
    VPUClassifier,
    load,
    make_gaussian_pu,
    make_pu,
    save,
)
from drpu.exceptions import ArtifactError, DataError, ParameterError, PriorError
from drpu.networks.learner import NetworkScore
from learners import KernelScore, LinearScore
from rival_settings import TINY, fitted, labelled_toy, make_toy


@pytest.fixture(scope="module")
def toy():
    return make_toy()


# -- single methods --------------------------------------------------------------------------------------


def test_pua_without_a_test_prior_is_nnpu(toy):
    nnpu = fitted(NNPUClassifier("linear", scenario="case-control"), toy, prior=0.4)
    pua = fitted(PUaClassifier("linear", scenario="case-control"), toy, prior=0.4)
    assert_array_equal(pua.decision_function(toy.test), nnpu.decision_function(toy.test))
    assert pua.test_prior_ == pua.prior_


def test_pua_follows_its_test_prior(toy):
    rare, frequent = (
        fitted(
            PUaClassifier("linear", loss="logistic", test_prior=q, scenario="case-control"), toy, prior=0.4
        )
        for q in (0.1, 0.9)
    )
    assert rare.predict_proba(toy.test)[:, 1].mean() < frequent.predict_proba(toy.test)[:, 1].mean()


@pytest.mark.parametrize("method", [pytest.param("km2", marks=pytest.mark.slow), "auto"])
def test_pua_reads_the_test_prior_from_rows(method):
    data = make_gaussian_pu(
        200, 500, prior=0.5, test_prior=0.15, separation=5, dimensions=2, n_test=500, random_state=0
    )
    X, y = data.X_y()
    clf = PUaClassifier("linear", prior=method, scenario="case-control", random_state=0).fit(
        X, y, X_test=data.test
    )
    assert abs(clf.test_prior_.value - 0.15) < 0.07
    apart = PUaClassifier("linear", prior=method, random_state=0).fit_pu(
        data.positive, data.unlabeled, X_test=data.test
    )
    assert_allclose(apart.decision_function(data.test), clf.decision_function(data.test))
    with pytest.raises(ParameterError, match="pass one of the two"):
        PUaClassifier(test_prior=0.2, scenario="case-control").fit(X, y, X_test=data.test)


def test_vpu_wants_a_network_and_a_given_prior_sets_its_scale(toy):
    with pytest.raises(ParameterError, match="MixUp"):
        fitted(VPUClassifier("kernel", scenario="case-control"), toy)
    net = NetworkScore(hidden=(16,), epochs=10, learning_rate=1e-2, batch_size=100)
    clf = fitted(VPUClassifier(net, scenario="case-control"), toy, prior=0.4)
    assert_allclose(clf.predict_proba(toy.unlabeled)[:, 1].mean(), 0.4, atol=1e-6)
    free = fitted(VPUClassifier(net, scenario="case-control"), toy)
    assert free.predict_proba(toy.unlabeled)[:, 1].max() == 1.0


def test_vpu_keeps_the_epoch_with_the_lowest_holdout_risk(toy):
    net = NetworkScore(hidden=(32,), epochs=12, learning_rate=3e-2, batch_size=50)
    model = fitted(VPUClassifier(net, scenario="case-control"), toy).model_
    assert model.best_epoch == 1 + np.argmin(model.history["holdout_risk"])


def test_genpu_moves_to_a_new_prior_with_the_same_generators(toy):
    clf = fitted(TINY["genpu"], toy, prior=0.4, steps=100, n_generated=200)
    rare = clf.at_prior(0.05)
    assert rare.generators_ is clf.generators_
    assert rare.test_prior_.value == 0.05
    assert clf.test_prior_.value == 0.4
    assert rare.predict_proba(toy.test)[:, 1].mean() < clf.predict_proba(toy.test)[:, 1].mean()
    with pytest.raises(PriorError, match="strictly between 0 and 1"):
        clf.at_prior(0.0)


def test_genpu_plays_less_where_there_are_few_rows(toy):
    game = GenPUClassifier(scenario="case-control")._game
    assert (game(20).steps, game(20).batch_size) == (100, 10)
    assert (game(10_000).steps, game(10_000).batch_size) == (2000, 128)
    assert GenPUClassifier(steps=7, batch_size=9, scenario="case-control")._game(20).steps == 7
    for name in ("steps", "batch_size"):
        with pytest.raises(ParameterError, match=f"{name} must be one of 'auto'"):
            fitted(GenPUClassifier(scenario="case-control"), toy, **{name: "many"})
    wrong = {"learning_rate": 0, "hidden": 8, "strengths": (1, np.inf, 1)}
    for name, value in wrong.items():
        with pytest.raises(ParameterError, match=f"{name} must"):
            fitted(GenPUClassifier(scenario="case-control"), toy, **{name: value})


@pytest.mark.parametrize("model", ["kernel", "linear"])
@pytest.mark.parametrize("shape", [(28, 28), (3, 8, 8), (5,)])
def test_genpu_on_images_is_saved(model, shape, tmp_path):
    rng = np.random.default_rng(0)
    clf = GenPUClassifier(
        model, steps=2, batch_size=4, n_generated=20, prior=0.5, scenario="case-control", random_state=0
    )
    clf.fit_pu(rng.random((12, *shape)), rng.random((20, *shape)))
    save(clf, tmp_path / "images.drpu")
    rows, loaded = rng.random((9, *shape)), load(tmp_path / "images.drpu")
    assert clf.generators_.sample(3, positive=True, seed=0).shape == (3, *shape)
    with pytest.raises(DataError, match=r"rows of shape|features"):
        clf.predict(rows[..., 1:])
    assert_array_equal(loaded.predict_proba(rows), clf.predict_proba(rows))
    assert_array_equal(
        loaded.at_prior(0.2, random_state=1).predict_proba(rows),
        clf.at_prior(0.2, random_state=1).predict_proba(rows),
    )
    other = clone(clf).fit_pu(rng.random((12, 2, 2)), rng.random((20, 2, 2)))
    with pytest.raises(DataError, match="the model must have 4 columns"):
        replace(other.record(), model=clf.model_)


def test_puld_refuses_networks():
    with pytest.raises(ParameterError, match="large-margin"):
        PULDClassifier("network", scenario="case-control").fit([[0.0], [1.0]], [0, 1])


def test_elkan_noto_divides_by_the_share_of_positives_that_is_labelled():
    X, label = labelled_toy()
    sample = make_pu(X, label, labelled=0.3, scenario="single-sample", random_state=0)
    clf = ElkanNotoClassifier(LogisticRegression(), scenario="single-sample", random_state=0)
    clf.fit(sample.X, sample.y)
    assert abs(clf.constant_ - 0.3) < 0.06
    assert abs(clf.prior_.value - 0.5) < 0.1


def test_elkan_noto_keeps_the_ranking_that_clipping_loses(toy):
    clf = fitted(ElkanNotoClassifier(LogisticRegression(), scenario="case-control"), toy, prior=0.6)
    certain = clf.predict_proba(toy.test)[:, 1] == 1
    assert certain.sum() > 10
    assert len(np.unique(clf.decision_function(toy.test[certain]))) > 10


# -- models ----------------------------------------------------------------------------------------------


def test_networks_of_scores_and_of_ratios_have_the_same_defaults():
    ratio, score = NetworkRatio().get_params(), NetworkScore().get_params()
    assert score == ratio | {"betas": (0.9, 0.999)}


def test_a_torch_module_of_the_user_is_trained_and_loaded(toy, tmp_path):
    from torch import nn

    def make():
        return nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

    clf = fitted(NNPUClassifier(make(), scenario="case-control"), toy)
    save(clf, tmp_path / "a.drpu")
    with pytest.raises(ArtifactError, match="module"):
        load(tmp_path / "a.drpu")
    back = load(tmp_path / "a.drpu", module=make)
    assert_array_equal(back.decision_function(toy.test), clf.decision_function(toy.test))


def test_unknown_models_are_named(toy):
    for clf in (UPUClassifier("forest", scenario="case-control"), UPUClassifier(3, scenario="case-control")):
        with pytest.raises(ParameterError, match="model must be"):
            fitted(clf, toy)
    with pytest.raises(ParameterError, match="ridge"):
        fitted(UPUClassifier(LinearScore(ridge="best"), scenario="case-control"), toy)


def test_the_closed_form_of_the_squared_loss_has_the_lowest_penalised_risk(toy):
    from drpu._samples import Sample, SamplePair
    from drpu.models.risks import ShiftedRisk, get_loss

    objective = ShiftedRisk(0.4, 0.4, get_loss("squared"))
    model = LinearScore(ridge=1e-2).fit_score(
        SamplePair(Sample(toy.positive), Sample(toy.unlabeled)), objective
    )

    def penalised(coef, intercept):
        other = replace(model, coef=coef, intercept=intercept)
        risk = objective.risk(other.score(toy.positive), other.score(toy.unlabeled), None, None).value
        return risk + 1e-2 / 2 * coef @ coef

    lowest = penalised(model.coef, model.intercept)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        step = size * rng.normal(size=len(model.coef) + 1)
        for sign in (-1, 1):
            moved = penalised(model.coef + sign * step[1:], model.intercept + sign * step[0])
            assert moved > lowest + 1e-3 * (step @ step)  # a parabola: no slope at the lowest point


def test_weights_count_as_repeated_rows(toy):
    X, y = toy.X_y()
    w = np.random.default_rng(0).integers(1, 4, len(X))
    model = UPUClassifier(LinearScore(ridge=1e-2), prior=0.4, scenario="case-control", random_state=0)
    weighted = clone(model).fit(X, y, sample_weight=w).decision_function(toy.test)
    repeated = clone(model).fit(np.repeat(X, w, axis=0), np.repeat(y, w)).decision_function(toy.test)
    assert_allclose(weighted, repeated, rtol=1e-3, atol=1e-3)


# -- accuracy on digits ----------------------------------------------------------------------------------


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
        UPUClassifier(KernelScore(ridge=1e-3), scenario="case-control"),
        NNPUClassifier(KernelScore(ridge=1e-5), scenario="case-control"),
        NNPUClassifier(NetworkScore(hidden=(100, 100), epochs=40), scenario="case-control"),
        PUaClassifier(KernelScore(ridge=1e-5), scenario="case-control"),
        VPUClassifier(
            NetworkScore(hidden=(100, 100), epochs=40, batch_size=200, learning_rate=1e-3),
            scenario="case-control",
        ),
        PULDClassifier(scenario="case-control"),
        ElkanNotoClassifier(ExtraTreesClassifier(50, min_samples_leaf=2), scenario="case-control"),
    ],
    ids=["upu", "nnpu", "nnpu-network", "pua", "vpu", "puld", "elkan-noto"],
)
def test_even_digits_are_told_from_odd_ones(classifier, digits):
    positive, unlabeled, prior, X, y = digits
    clf = clone(classifier).set_params(random_state=0, prior=prior)
    assert clf.fit_pu(positive, unlabeled).score(X, y) > 0.85
