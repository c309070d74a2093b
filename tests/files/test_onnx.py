"""Exported graphs give the results of Python."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu import Audit, BoostedRatio, DRPUClassifier, KernelRatio, NetworkRatio, export_onnx, make_gaussian_pu
from drpu.exceptions import ArtifactError, DataTypeError, ParameterError, ShiftWarning
from drpu.state.fitted import label_offsets

pytest.importorskip("onnx", reason="part of the onnx extra")

runtime = pytest.importorskip("onnxruntime", reason="runs the exported graphs")

MODELS = {
    "default": "auto",
    "kernel": KernelRatio(n_centres=30),
    "features": KernelRatio("features", n_centres=40),
    "boosted": BoostedRatio(n_rounds=30),
    "network": NetworkRatio(hidden=(16,), alpha=0.3, epochs=60, device="cpu"),
}


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(
        150, 500, prior=0.4, test_prior=0.2, n_test=400, separation=3, dimensions=3, random_state=1
    )


@pytest.fixture(scope="module")
def kernel(data):
    return DRPUClassifier(MODELS["kernel"], holdout=2, random_state=0).fit(*data.X_y())


def answers(classifier, X, prior, cost, folder):
    path = folder / "graph.onnx"
    export_onnx(classifier, path)
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    feed = {"X": np.asarray(X, dtype=np.float64), "prior": np.array([prior]), "cost": np.array([cost])}
    return session.run(["ratio", "probability", "label"], feed), session.get_modelmeta().custom_metadata_map


def assert_same(classifier, X, prior, cost, folder):
    (ratio, probability, label), _ = answers(classifier, X, prior, cost, folder)
    at = classifier.at_prior(prior).at_cost(cost)
    assert_allclose(ratio, at.ratio(X), rtol=1e-5, atol=1e-5)
    assert_allclose(probability, at.predict_proba(X)[:, 1], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(label, at.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_agrees_with_python_at_any_prior_and_cost(name, data, tmp_path):
    clf = DRPUClassifier(MODELS[name], holdout=2, random_state=0).fit(*data.X_y())
    for prior, cost in ((0.2, 0.5), (0.6, 0.9)):
        assert_same(clf, data.test, prior, cost, tmp_path)


def test_of_many_rows_only_those_at_a_step_of_the_calibration_differ(tmp_path):
    data = make_gaussian_pu(
        300, 1500, prior=0.3, test_prior=0.2, n_test=10_000, separation=3, dimensions=8, random_state=1
    )
    clf = DRPUClassifier(random_state=0).fit(*data.X_y())
    (_, probability, _), _ = answers(clf, data.test, 0.2, 0.5, tmp_path)
    apart = np.abs(probability - clf.at_prior(0.2).predict_proba(data.test)[:, 1]) > 1e-5
    # cosines are computed in float32: with an error of 1e-6 on a range of about 10, 300 steps and five
    # offsets, one row in some thousands is at a step
    assert apart.mean() < 1e-3
    fitted = clf.fitted_
    scores = fitted.model.label_scores(data.test[apart]) + label_offsets(fitted)
    gaps = np.abs(scores[..., None] - fitted.calibration.levels).min(axis=(1, 2))
    assert (gaps < 1e-6).all()


@pytest.mark.parametrize("options", [{"scenario": "single-sample"}, {"calibrate": False}, {"holdout": 0.3}])
def test_scenarios_folds_and_calibration_are_followed(options, data, tmp_path):
    clf = DRPUClassifier(MODELS["kernel"], random_state=0, **options).fit(*data.X_y())
    assert_same(clf, data.test, 0.3, 0.7, tmp_path)


@pytest.mark.parametrize("prior", [None, 0.6, 0.0])
def test_the_map_of_an_audit_is_followed(kernel, prior, data, tmp_path):
    plan = kernel.plan_audit(data.test, n=60, random_state=0)
    june = kernel.adapt(data.test, audit=plan.answer(data.test_labels[plan.rows]))
    assert june.map_ is not None
    assert_same(june, data.test, june.prior_.value if prior is None else prior, 0.7, tmp_path)


def test_the_map_of_an_audit_is_clipped(data, tmp_path):
    clf = DRPUClassifier(MODELS["kernel"], calibrate=False, holdout=2, random_state=0).fit(*data.X_y())
    june = clf.adapt(data.test, audit=Audit.random(np.arange(100), data.test_labels[:100]))
    assert (june.ratio(data.test) * june.train_prior_.value > 1 - 1e-9).any()  # log-odds of 7 after the clip
    (_, probability, label), _ = answers(june, data.test, 1e-6, 0.5, tmp_path)
    np.testing.assert_array_equal(label == 1, probability > 0.5)


def test_labels_that_stayed_as_trained_are_those_of_the_prior_in_the_metadata(kernel, data, tmp_path):
    moved = np.add(data.test, [2.0, -2.0, 3.0])
    with pytest.warns(ShiftWarning):
        june = kernel.adapt(moved)
    assert june.shift_ == "other"
    _, facts = answers(june, moved, 0.5, 0.5, tmp_path)
    (_, probability, label), _ = answers(june, moved, float(facts["drpu.prior"]), 0.5, tmp_path)
    np.testing.assert_array_equal(label, june.predict(moved))
    assert_allclose(probability, june.predict_proba(moved)[:, 1], rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::drpu.exceptions.UnusedNegativesWarning")
def test_known_negatives_are_in_the_graph(data, tmp_path):
    negative = make_gaussian_pu(
        1, 1, prior=0.0, n_test=300, test_prior=0.0, separation=3, dimensions=3, random_state=1
    ).test
    clf = DRPUClassifier(MODELS["boosted"], holdout=2, random_state=0)
    assert_same(clf.fit_pu(data.positive, data.unlabeled, negative), data.test, 0.3, 0.5, tmp_path)


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_one_class_left_is_met(kernel, prior, data, tmp_path):
    assert_same(kernel, data.test, prior, 0.5, tmp_path)


@pytest.mark.parametrize("model", [BoostedRatio(n_rounds=10), "auto"])
def test_training_rows_that_tie_with_a_level_stay_on_it(model, data, tmp_path):
    X, y = data.X_y()
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit(X.round(1), y)
    assert_same(clf, X.round(1), 0.3, 0.5, tmp_path)


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("model", [BoostedRatio(n_rounds=20), "auto"])
def test_missing_values_take_the_side_that_python_gives_them(model, data, tmp_path):
    X, y = data.X_y()
    rng = np.random.default_rng(0)
    gaps = np.where(rng.random(X.shape) < 0.2, np.nan, X)
    new = np.where(rng.random(data.test.shape) < 0.2, np.nan, data.test)
    for train in (gaps, X):
        clf = DRPUClassifier(model, holdout=2, random_state=0).fit(train, y)
        assert_same(clf, new, 0.3, 0.5, tmp_path)


def test_labels_are_those_of_the_user_where_they_are_integers(data, tmp_path):
    X, y = data.X_y()
    clf = DRPUClassifier(MODELS["kernel"], holdout=2, random_state=0).fit(X, np.where(y == 1, 7, -7))
    (_, _, label), about = answers(clf, data.test, 0.2, 0.5, tmp_path)
    assert set(label.tolist()) == {-7, 7}
    assert json.loads(about["drpu.classes"]) == [-7, 7]
    assert float(about["drpu.train_prior"]) == clf.prior_.value


def test_what_cannot_be_exported_is_refused_with_the_way_out(data, tmp_path):
    clf = DRPUClassifier("classifier", random_state=0).fit(*data.X_y())
    with pytest.raises(ArtifactError, match="choose the default"):
        export_onnx(clf, tmp_path / "x.onnx")
    with pytest.raises(DataTypeError, match="fitted DRPUClassifier"):
        export_onnx(DRPUClassifier(), tmp_path / "x.onnx")
    fitted = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
    with pytest.raises(ParameterError, match="classifier must have no budget, which a graph cannot keep"):
        export_onnx(fitted.at_budget(10, of=data.test), tmp_path / "x.onnx")
    assert not (tmp_path / "x.onnx").exists()
