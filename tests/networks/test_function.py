"""Laws of NetworkFunction and ClassGenerators: files, copies, sizes, modules of the user."""

import json
import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import torch
from image_data import pictures
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from drpu import DRPUClassifier, NetworkRatio, export_onnx
from drpu._codec import decode, encode
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ArtifactError, DataError
from drpu.models.graphs import Graph
from drpu.models.learner import LOG_LIMIT, Function
from drpu.networks import modules
from drpu.networks.function import ClassGenerators, Game

RNG = np.random.default_rng(0)
POSITIVE, UNLABELED = RNG.normal(1, 1, (60, 3)), RNG.normal(0, 1, (200, 3))
IMAGES = RNG.random((60, 16, 16)).astype(np.float32)
SMALL = {"alpha": 0.3, "epochs": 2, "batch_size": 50, "random_state": 0, "device": "cpu"}


def fitted(**changes) -> Function:
    return NetworkRatio(**SMALL | {"hidden": (8, 4)} | changes).fit_ratio(POSITIVE, UNLABELED)


def of_images(**changes) -> Function:
    return NetworkRatio(**SMALL | {"hidden": (2,)} | changes).fit_ratio(IMAGES[:20], IMAGES)


def user_net() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


CASES = {
    "perceptron": fitted,
    "float64": lambda: fitted(dtype="float64"),
    "linear": lambda: fitted(hidden=()),
    "images": of_images,
}


@pytest.fixture(scope="module", params=CASES)
def function(request):
    return CASES[request.param]()


def rows_of(function: Function) -> np.ndarray:
    return IMAGES if len(function.input_shape) > 1 else UNLABELED


def written(function: Function) -> Function:
    """The function after a way through a file, in which numbers have shape (1,)."""
    tree, arrays, blobs = encode(function)
    assert not blobs
    arrays = {name: np.atleast_1d(array) for name, array in arrays.items()}
    return decode(json.loads(json.dumps(tree)), arrays, {}, Function)


def test_files_keep_the_scores_and_the_facts(function):
    again = written(function)
    assert_array_equal(again.log_ratio(rows_of(function)), function.log_ratio(rows_of(function)))
    assert_array_equal(again.history["risk"], function.history["risk"])
    facts = [(f.alpha, f.best_epoch, f.head, f.describe()) for f in (again, function)]
    assert facts[0] == facts[1]


def test_pickles_hold_arrays_and_no_modules(function):
    function.log_ratio(rows_of(function))
    again = pickle.loads(pickle.dumps(function))
    assert "torch_module" not in vars(again)
    assert "_exact_module" not in vars(again)
    assert_array_equal(again.log_ratio(rows_of(function)), function.log_ratio(rows_of(function)))


def test_functions_hold_no_row(function):
    kept = b"".join(array.tobytes() for array in encode(function).arrays.values())
    for row in rows_of(function):
        assert row.tobytes() not in kept
        assert row.astype(np.float32).tobytes() not in kept
    assert function.keeps == {}


def test_fast_scores_are_scores_up_to_rounding(function):
    assert_allclose(
        function.fast_score(rows_of(function)), function.score(rows_of(function)), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"widths": (2**20,) * 1000},
        {"widths": (2**20, 2**20), "input_shape": (2**24,)},
        {"network": "resnet9", "widths": (2**20,), "input_shape": (2**12, 2**12), "scaling": None},
    ],
)
def test_a_file_that_names_a_huge_network_is_refused_before_it_is_made(changes, monkeypatch):
    function = fitted()
    monkeypatch.setattr(nn.Module, "__init__", lambda *_, **__: pytest.fail("a module was made"))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="must"):
            replace(function, **changes)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"widths": (8, 5)}, "must be floats of shape"),
        ({"network": "resnet9", "scaling": None}, "needs images and one width"),
        ({"network": "module"}, "scaling must be given"),
        ({"scaling": None}, "scaling must be given"),
        ({"input_shape": (4,)}, "shape of a row"),
        ({"input_shape": (2**13, 2**13)}, "at most"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(DataError, match=message):
        replace(fitted(), **changes)


def test_weights_that_belong_to_no_layer_are_refused():
    function = fitted()
    more = function.weights | {"99.weight": np.zeros((1, 1), np.float32)}
    with pytest.raises(DataError, match="arrays of weights"):
        replace(function, weights=more)
    integers = {name: value.astype(np.int64) for name, value in function.weights.items()}
    with pytest.raises(DataError, match="must be floats"):
        replace(function, weights=integers)


def test_a_network_of_the_user_is_needed_after_reading():
    function = fitted(module=user_net, hidden=None)
    again = written(function)
    with pytest.raises(ArtifactError, match="Pass module=YourNetwork"):
        again.log_ratio(UNLABELED)
    for module in (user_net, user_net()):
        found = again.with_module(module)
        assert_array_equal(found.log_ratio(UNLABELED), function.log_ratio(UNLABELED))
    with pytest.raises(ArtifactError, match="must be the network that was fitted"):
        again.with_module(lambda: nn.Linear(3, 1)).log_ratio(UNLABELED)
    named = fitted()
    assert named.with_module(user_net) is named


def generators(shape):
    game = Game(4, 16, 2e-3, 5, (6,), (1.0, 1.0, 0.1), "cpu", 0)
    rows = RNG.random((60, *shape))
    pair = SamplePair(Sample(rows[:20]), Sample(rows))
    return ClassGenerators.learn(pair, prior=0.4, game=game, seed=0)


@pytest.mark.parametrize("shape", [(3,), (2, 5), (28, 28)])
def test_generators_keep_their_rows(shape):
    made = generators(shape)
    tree, arrays, _ = encode(made)
    again = decode(tree, arrays, {}, ClassGenerators)
    for kind in (True, False):
        assert_array_equal(again.sample(30, positive=kind, seed=1), made.sample(30, positive=kind, seed=1))


def test_parts_of_generators_that_do_not_fit_are_refused():
    made = generators((3,))
    with pytest.raises(DataError, match="must be floats of shape"):
        replace(made, hidden=(7,))
    with pytest.raises(DataError, match="shape of a row"):
        replace(made, mean=made.mean[:2])


def test_scoring_leaves_the_random_numbers_of_torch_alone(function):
    torch.manual_seed(3)
    before = torch.get_rng_state()
    replace(function).log_ratio(rows_of(function))
    assert torch.equal(torch.get_rng_state(), before)


# -- graphs of networks for images -------------------------------------------------------------------


@pytest.fixture(scope="module")
def runtime():
    pytest.importorskip("onnx", reason="part of the onnx extra")
    return pytest.importorskip("onnxruntime", reason="runs the exported graphs")


NETWORK = {"hidden": (2,), "epochs": 3, "batch_size": 50, "alpha": 0.3, "device": "cpu", "random_state": 0}


def samples(shape):
    """Positive and unlabeled images."""
    return pictures(100, True, 0, shape), pictures(150, np.arange(150) < 60, 1, shape)


def classifier_of_images(shape=(16, 18), **changes):
    clf = DRPUClassifier(NetworkRatio(**NETWORK | changes), prior=0.4, holdout=0.3, random_state=0)
    return clf.fit_pu(*samples(shape))


def graph_scores(runtime, function, X: np.ndarray) -> np.ndarray:
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
        ((3, 17, 16), {"augment": "shift-flip"}),
        ((16, 18), {"network": "perceptron"}),
    ],
    ids=["resnet9", "channels", "perceptron"],
)
def test_the_graph_has_the_scores_of_python(runtime, shape, changes):
    model = NetworkRatio(**NETWORK | changes).fit_ratio(*samples(shape))
    test = pictures(40, np.arange(40) < 20, 2, shape)
    assert_allclose(graph_scores(runtime, model, test), model.log_ratio(test), rtol=1e-5, atol=1e-5)


def test_a_classifier_of_images_is_exported_with_its_calibration(runtime, tmp_path):
    clf = classifier_of_images()
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


def test_a_network_of_usual_size_keeps_the_precision(runtime):
    """Errors of float32 do not grow with the width: 6.6 million random weights."""
    shape = (3, 16, 16)
    rows = pictures(20, True, 0, shape), pictures(40, False, 1, shape)
    small = NetworkRatio(**NETWORK).fit_ratio(*rows)
    torch.manual_seed(0)
    state = modules.ResNet9(shape).state_dict()
    weights = {k: v.numpy() for k, v in state.items() if not k.endswith("num_batches_tracked")}
    function = replace(small, widths=(64,), weights=weights)
    test = pictures(3, False, 0, shape)
    assert_allclose(graph_scores(runtime, function, test), function.log_ratio(test), rtol=1e-5, atol=1e-5)


def test_the_identity_is_cut_at_zero_in_the_graph_too(runtime):
    shape = (16, 18)
    function = NetworkRatio(**NETWORK).fit_ratio(*samples(shape))
    function = replace(function, head="identity")
    test = pictures(40, np.arange(40) < 20, 2, shape)
    found = np.clip(graph_scores(runtime, function, test), -LOG_LIMIT, LOG_LIMIT)
    assert_allclose(found, function.log_ratio(test), rtol=1e-5, atol=1e-4)


def test_networks_of_other_kinds_are_refused_with_the_way_out(runtime, tmp_path):
    def convolution():
        return nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 14 * 16, 1))

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = convolution()

        def forward(self, rows):
            return self.layers(rows)

    for module in (convolution, Whole):
        clf = classifier_of_images((1, 16, 18), module=module, hidden=None)
        with pytest.raises(ArtifactError, match=r"with torch\.onnx"):
            export_onnx(clf, tmp_path / "x.onnx")
        assert not (tmp_path / "x.onnx").exists()
