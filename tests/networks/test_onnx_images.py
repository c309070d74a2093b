"""The graph of a network for images agrees with Python."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

pytest.importorskip("onnx")

import torch
from image_data import pictures
from torch import nn

from drpu import NetworkRatio
from drpu.exceptions import ArtifactError
from drpu.models.graphs import Graph
from drpu.models.learner import LOG_LIMIT
from drpu.networks.modules import Ensemble, ResNet9

runtime = pytest.importorskip("onnxruntime")

NETWORK = {"hidden": (2,), "epochs": 3, "batch_size": 50, "alpha": 0.3, "device": "cpu", "random_state": 0}


def fitted(shape=(16, 18), prior=0.4, **changes):
    from drpu import DRPUClassifier

    images = np.concatenate(
        [pictures(100, True, 0, shape), pictures(150, np.arange(150) < 60, seed=1, shape=shape)]
    )
    clf = DRPUClassifier(
        NetworkRatio(**NETWORK | changes), prior=prior, holdout=0.3, scenario="case-control", random_state=0
    )
    return clf.fit(images, np.arange(len(images)) < 100)


def graph_scores(function, X: np.ndarray) -> np.ndarray:
    """Log-ratios of a function by its graph, without calibration."""
    graph = Graph()
    scores = function.onnx(graph, "X")
    column = graph.constant([1], np.int64)
    graph.op("Squeeze", scores, column, output="ratio")
    made = graph.model({"X": ["rows", *X.shape[1:]]}, {"ratio": graph.onnx.TensorProto.DOUBLE}, {})
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    pixels = X / 255 if function.scaling is None else X.astype(np.float64)  # a perceptron scales them itself
    return session.run(["ratio"], {"X": pixels})[0]


@pytest.mark.parametrize(
    ("shape", "changes"),
    [
        ((16, 18), {}),
        ((3, 17, 16), {"augment": "shift-flip", "average_views": True}),
        ((16, 18), {"teachers": 2, "students": 2, "augment": "crop", "average_views": True}),
        ((16, 18), {"network": "perceptron", "teachers": 1, "students": 2}),
    ],
    ids=["resnet9", "views", "ensemble", "perceptrons"],
)
def test_the_graph_has_the_scores_of_python(shape, changes):
    rows = pictures(100, True, 0, shape), pictures(150, np.arange(150) < 60, 1, shape)
    model = NetworkRatio(**NETWORK | changes).fit_ratio(*rows)
    test = pictures(40, np.arange(40) < 20, 2, shape)
    assert_allclose(graph_scores(model, test), model.log_ratio(test), rtol=1e-5, atol=1e-5)


def test_a_classifier_of_images_is_exported_with_its_calibration(tmp_path):
    from drpu import export_onnx

    clf = fitted()
    export_onnx(clf, tmp_path / "images.onnx")
    session = runtime.InferenceSession(tmp_path / "images.onnx", providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == ["rows", 16, 18]
    test = pictures(60, np.arange(60) < 30, 2, (16, 18))
    feed = {"X": test / 255, "prior": np.array([0.6]), "cost": np.array([0.5])}
    ratio, probability, label = session.run(["ratio", "probability", "label"], feed)
    at = clf.at_prior(0.6)
    assert_allclose(ratio, at.ratio(test), rtol=1e-4, atol=1e-4)
    assert_allclose(probability, at.predict_proba(test)[:, 1], rtol=1e-4, atol=1e-4)
    assert (label == at.predict(test)).all()


def test_a_network_of_usual_size_keeps_the_precision():
    """Errors of float32 do not grow with the width: 6.6 million random weights."""
    shape = (3, 16, 16)
    rows = pictures(20, True, 0, shape), pictures(40, False, 1, shape)
    small = NetworkRatio(**NETWORK).fit_ratio(*rows)
    torch.manual_seed(0)
    state = ResNet9(shape).state_dict()
    weights = {k: v.numpy() for k, v in state.items() if not k.endswith("num_batches_tracked")}
    function = replace(small, widths=(64,), weights=weights)
    test = pictures(3, False, 0, shape)
    assert_allclose(graph_scores(function, test), function.log_ratio(test), rtol=1e-5, atol=1e-5)


def test_the_identity_is_cut_at_zero_in_the_graph_too():
    shape = (16, 18)
    rows = pictures(100, True, 0, shape), pictures(150, np.arange(150) < 60, 1, shape)
    learner = NetworkRatio(**NETWORK | {"head": "identity", "generator": "lsif"})
    function = learner.fit_ratio(*rows)
    test = pictures(40, np.arange(40) < 20, 2, shape)
    found = np.clip(graph_scores(function, test), -LOG_LIMIT, LOG_LIMIT)
    assert_allclose(found, function.log_ratio(test), rtol=1e-5, atol=1e-4)


def test_networks_of_other_kinds_are_refused_with_the_way_out(tmp_path):
    from drpu import export_onnx

    def convolution():
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 16, 1))

    for module in (convolution, lambda: Ensemble([convolution()])):
        clf = fitted((1, 16, 18), module=module, hidden=None)
        with pytest.raises(ArtifactError, match=r"with torch\.onnx"):
            export_onnx(clf, tmp_path / "x.onnx")
        assert not (tmp_path / "x.onnx").exists()
