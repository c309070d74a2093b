"""A graph under construction: operators are called like functions and return names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from drpu._optional import require
from drpu.exceptions import ArtifactError
from drpu.functions.features import CLIP
from drpu.functions.links import _FLOOR
from drpu.tables.encoder import Indicators

__all__ = [
    "Graph",
    "boosted_scores",
    "forest_scores",
    "fourier_scores",
    "indicator_columns",
    "kernel_scores",
    "network_output",
    "network_scores",
    "tree_sum",
]

OPSET, OPSET_ML, IR = 17, 3, 8  # old enough for the runtimes in use


class Graph:
    """Nodes and constants in float64, in the order in which they were added."""

    def __init__(self) -> None:
        self.onnx = require("onnx", extra="onnx", for_="export_onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """The name of a constant."""
        name = f"c{len(self._constants)}"
        self._constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype=dtype), name))
        return name

    def op(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add an operator and return the name of its result; numbers and arrays become constants."""
        domain = attributes.pop("domain", "")
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        name = output or f"n{len(self._nodes)}"
        self._nodes.append(self.onnx.helper.make_node(kind, names, [name], domain=domain, **attributes))
        return name

    def total(self, x: str, *, axis: int = 1, keep: bool = True) -> str:
        """Sum along an axis."""
        return self.op("ReduceSum", x, self.constant([axis], np.int64), keepdims=int(keep))

    def mean(self, *parts: str, weights: Sequence[float] | None = None) -> str:
        """Mean of the parts; not all runtimes have the operator Mean in float64."""
        if weights is not None:
            parts = tuple(self.op("Mul", part, weight) for part, weight in zip(parts, weights, strict=True))
        total = parts[0]
        for part in parts[1:]:
            total = self.op("Add", total, part)
        return self.op("Div", total, float(len(parts) if weights is None else sum(weights)))

    def double(self, x: str) -> str:
        """The same in float64."""
        return self.op("Cast", x, to=int(self.onnx.TensorProto.DOUBLE))

    def model(
        self,
        inputs: dict[str, list[Any]],
        outputs: dict[str, int],
        about: dict[str, str],
        texts: Sequence[str] = (),
    ) -> Any:
        """The checked model; inputs by name with their shapes, outputs by name with their types.

        The inputs among ``texts`` are strings, all others float64.
        """
        helper, types = self.onnx.helper, self.onnx.TensorProto
        kinds = {name: types.STRING if name in texts else types.DOUBLE for name in inputs}
        graph = helper.make_graph(
            self._nodes,
            "drpu",
            [helper.make_tensor_value_info(name, kinds[name], shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, kind, ["rows"]) for name, kind in outputs.items()],
            self._constants,
        )
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="drpu")
        helper.set_model_props(model, about)
        self.onnx.checker.check_model(model)
        return model


def tree_sum(graph: Graph, booster: Any, X: str) -> str:
    """The sum of the trees for each row, of shape (rows, 1) in float64.

    The operator sums in float64 and rounds the sum to float32. Each leaf value is therefore split into a
    multiple of a power of two, whose sums are exact in float32, and a small remainder, summed separately.
    """
    trees = booster.dump_model()["tree_info"]
    sets = _category_sets(trees)
    rows: list[dict[str, Any]] = []
    for number, tree in enumerate(trees):
        _grow(tree["tree_structure"], number, [], rows, _places(sets, booster))
    X = _with_members(graph, X, sets)
    leaves = [row for row in rows if row["mode"] == "LEAF"]
    weights = np.array([row["weight"] for row in leaves])
    whole, rest = _split(weights, len(trees))

    def column(name: str) -> list[Any]:
        return [row[name] for row in rows]

    def tensor(values: Any, name: str) -> Any:
        return graph.onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64), name)

    sums = graph.op(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        n_targets=2,
        nodes_treeids=column("tree"),
        nodes_nodeids=column("node"),
        nodes_featureids=column("feature"),
        nodes_modes=column("mode"),
        nodes_truenodeids=column("yes"),
        nodes_falsenodeids=column("no"),
        nodes_missing_value_tracks_true=column("missing"),
        nodes_values_as_tensor=tensor(column("value"), "values"),
        target_treeids=[row["tree"] for row in leaves] * 2,
        target_nodeids=[row["node"] for row in leaves] * 2,
        target_ids=[0] * len(leaves) + [1] * len(leaves),
        target_weights_as_tensor=tensor(np.concatenate([whole, rest]), "weights"),
    )
    return graph.total(graph.double(sums))


def _split(weights: Any, trees: int) -> tuple[Any, Any]:
    """Multiples of a power of two whose sum over all trees has at most 23 bits, and the remainders."""
    most = max(float(np.abs(weights).max()) * trees, 1e-30)
    step = 2.0 ** (np.ceil(np.log2(most)) - 23)
    whole = np.round(weights / step) * step
    return whole, weights - whole


Sets = dict[tuple[int, str], None]  # a column and the codes that a split sends to the left


def _category_sets(trees: list[dict[str, Any]]) -> Sets:
    """The splits on categories, without repeated sets of codes."""
    found: Sets = {}
    waiting = [tree["tree_structure"] for tree in trees]
    while waiting:
        part = waiting.pop()
        if "split_feature" in part:
            waiting += [part["right_child"], part["left_child"]]
            if part["decision_type"] == "==":
                found[part["split_feature"], str(part["threshold"])] = None
    return found


def _places(sets: Sets, booster: Any) -> dict[tuple[int, str], int]:
    """Positions of the columns that :func:`_with_members` adds."""
    first = int(booster.num_feature())
    return {split: first + position for position, split in enumerate(sets)}


def _with_members(graph: Graph, X: str, sets: Sets) -> str:
    """The rows with a column for each set of codes, which is 1 if the code is in the set.

    The operator has a mode for equality, but runtimes merge such nodes, and not always correctly.
    """
    if not sets:
        return X
    columns = []
    for feature, threshold in sets:
        codes = np.array([[float(code) for code in threshold.split("||")]])
        column = graph.op("Gather", X, graph.constant([feature], np.int64), axis=1)
        columns.append(graph.total(graph.double(graph.op("Equal", column, codes))))
    return graph.op("Concat", X, *columns, axis=1)


def _grow(
    part: dict[str, Any],
    tree: int,
    own: list[int],
    rows: list[dict[str, Any]],
    places: dict[tuple[int, str], int],
) -> int:
    """Add a part of a tree and return the number of its first node; ``own`` counts the nodes of the tree."""
    row = _node(tree, own, rows)
    if "split_feature" not in part:
        row["weight"] = float(part.get("leaf_value", 0.0))
        return int(row["node"])
    row["mode"] = "BRANCH_LEQ"
    below, above = part["left_child"], part["right_child"]
    if part["decision_type"] == "==":
        row |= {"feature": places[part["split_feature"], str(part["threshold"])], "value": 0.5}
        below, above = above, below
    else:
        if part["decision_type"] != "<=" or part["missing_type"] == "Zero":
            raise ArtifactError("these trees treat zeros as missing values, which ONNX export cannot do.")
        # If training had no missing values, LightGBM treats a later one as 0.
        left = part["default_left"] if part["missing_type"] == "NaN" else part["threshold"] >= 0
        row |= {"feature": part["split_feature"], "missing": int(left), "value": float(part["threshold"])}
    row["yes"] = _grow(below, tree, own, rows, places)
    row["no"] = _grow(above, tree, own, rows, places)
    return int(row["node"])


def _node(tree: int, own: list[int], rows: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"tree": tree, "node": len(own), "feature": 0, "mode": "LEAF", "yes": 0, "no": 0}
    row |= {"missing": 0, "value": 0.0, "weight": 0.0}
    own.append(row["node"])
    rows.append(row)
    return row


def network_output(graph: Graph, model: Any, X: str) -> str:
    """The last output of a network, before its head, of shape (rows, 1)."""
    from drpu.networks.augment import test_views

    x = X
    if model.scaling_ is not None:
        op = graph.op
        z = op("Div", op("Sub", x, model.scaling_.shift), model.scaling_.scale)
        square = op("Mul", op("Div", z, CLIP), op("Div", z, CLIP))
        x = op("Div", z, op("Sqrt", op("Add", square, 1.0)))
    views = test_views(model.augment) if model.average_views else []
    if len(views) < 2:
        return _output(graph, model.module_, model.input_shape_, x)
    x = _viewed(graph, views, model.input_shape_, x)
    outputs = _output(graph, model.module_, model.input_shape_, x)
    apart = graph.op("Reshape", outputs, graph.constant([len(views), -1, 1], np.int64))
    return graph.op("Div", graph.total(apart, axis=0, keep=False), float(len(views)))


def _output(graph: Graph, module: Any, shape: Sequence[int], x: str) -> str:
    from torch import nn

    from drpu.networks.modules import Ensemble, ResNet9

    if isinstance(module, Ensemble):
        return graph.mean(*(_output(graph, member, shape, x) for member in module.members))
    if isinstance(module, ResNet9):
        return _residual_network(graph, module, shape, x)
    if not isinstance(module, nn.Sequential):
        raise ArtifactError(
            "only sequential networks (torch.nn.Sequential) and the networks of drpu can be exported "
            f"with their calibration, got a {type(module).__name__}: export the module itself with "
            "torch.onnx and keep the rest in Python."
        )
    if len(shape) > 1 and not isinstance(module[0], nn.Flatten):
        raise ArtifactError(
            "a sequential network can be exported for rows of numbers, or with torch.nn.Flatten as the first "
            f"layer, got rows of shape {tuple(shape)}: export the module itself with torch.onnx and keep the "
            "rest in Python."
        )
    if len(shape) > 1:
        x = graph.op("Reshape", x, graph.constant([0, math.prod(shape)], np.int64))
    for layer in module:
        x = _layer(graph, layer, x)
    return x


def _layer(graph: Graph, layer: Any, x: str) -> str:
    """One layer of a perceptron, in float64."""
    kind = type(layer).__name__
    if kind in ("Flatten", "Dropout", "Identity"):
        return x
    if kind == "ReLU":
        return graph.op("Max", x, [[0.0]])
    weights = _weights(layer)
    if kind == "Linear":
        product = graph.op("MatMul", x, weights["weight"].T)
        return graph.op("Add", product, weights["bias"]) if "bias" in weights else product
    if kind == "BatchNorm1d" and layer.track_running_stats:
        scale, shift = _normalisation(layer, weights)
        return graph.op("Add", graph.op("Mul", x, scale), shift)
    raise ArtifactError(f"a layer of kind {kind} cannot be exported to ONNX by drpu.")


# -- images ---------------------------------------------------------------------------------------------


def _viewed(graph: Graph, views: Sequence[Any], shape: Sequence[int], x: str) -> str:
    """All views of all images, one view after the other."""
    import torch

    *channels, height, width = shape
    pixels = height * width
    flat = graph.op("Reshape", x, graph.constant([0, *channels, pixels], np.int64))
    positions = torch.arange(pixels).reshape(1, height, width)
    parts = [
        graph.op("Gather", flat, graph.constant(view(positions).reshape(-1), np.int64), axis=len(shape) - 1)
        for view in views
    ]
    return graph.op("Reshape", graph.op("Concat", *parts, axis=0), graph.constant([0, *shape], np.int64))


def _residual_network(graph: Graph, module: Any, shape: Sequence[int], x: str) -> str:
    """A ResNet9, with convolutions in float32, because runtimes have no others, and the rest in float64."""
    from drpu.networks.modules import image_shape

    op = graph.op
    images = op("Reshape", x, graph.constant([0, *image_shape(shape)], np.int64))
    mean, spread = (part.double().cpu().numpy()[:, None, None] for part in (module.mean, module.spread))
    images = op("Div", op("Sub", images, mean), spread)
    images = op("Cast", images, to=int(graph.onnx.TensorProto.FLOAT))
    features = op("ReduceMax", _image_layers(graph, module.layers, images), axes=[2, 3], keepdims=0)
    return _layer(graph, module.last, graph.double(features))


def _image_layers(graph: Graph, layers: Any, x: str) -> str:
    for layer in layers:
        x = _image_layer(graph, layer, x)
    return x


def _image_layer(graph: Graph, layer: Any, x: str) -> str:
    """One layer of a residual network, in float32."""
    kind = type(layer).__name__
    if kind == "Residual":
        return graph.op("Add", x, _image_layers(graph, layer.layers, x))
    if kind == "ReLU":
        return graph.op("Relu", x)
    if kind == "MaxPool2":
        return graph.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    weights = _weights(layer)
    if kind == "Conv2d":
        return graph.op("Conv", x, graph.constant(weights["weight"], np.float32), pads=[1, 1, 1, 1])
    if kind != "BatchNorm2d":
        raise ArtifactError(f"a layer of kind {kind} cannot be exported to ONNX by drpu.")
    scale, shift = (
        graph.constant(part[:, None, None], np.float32) for part in _normalisation(layer, weights)
    )
    return graph.op("Add", graph.op("Mul", x, scale), shift)


def _normalisation(layer: Any, weights: dict[str, Any]) -> tuple[Any, Any]:
    """Scale and shift of a fitted batch norm."""
    scale = weights.get("weight", 1.0) / np.sqrt(weights["running_var"] + layer.eps)
    return scale, weights.get("bias", 0.0) - weights["running_mean"] * scale


def _weights(layer: Any) -> dict[str, Any]:
    return {name: value.double().cpu().numpy() for name, value in layer.state_dict().items()}


# -- kernels ---------------------------------------------------------------------------------------


def kernel_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a KernelRatio."""
    basis, op = model.basis_, graph.op
    z = op("Div", op("Sub", X, basis.scaling.shift), basis.scaling.scale)
    inner = op("MatMul", z, basis.points.T)
    if basis.kind == "features":
        # The cosine is computed by the sine, which every runtime has in float64.
        wave = op("Sin", op("Add", op("Div", inner, model.width_), basis.phase + np.pi / 2))
        phi = op("Mul", wave, np.sqrt(2 / basis.size))
    else:
        norms = np.einsum("ij,ij->i", basis.points, basis.points)
        distance = op("Add", op("Sub", graph.total(op("Mul", z, z)), op("Mul", inner, 2.0)), norms)
        phi = op("Exp", op("Div", op("Max", distance, [[0.0]]), -2 * model.width_**2))
    ratio = op("Add", op("MatMul", phi, model.coef_[:, None]), model.intercept_)
    return _log_above_floor(graph, ratio)


def _log_above_floor(graph: Graph, ratio: str) -> str:
    below = graph.op("Min", graph.op("Sub", ratio, _FLOOR), [[0.0]])
    return graph.op(
        "Add", graph.op("Log", graph.op("Max", ratio, [[_FLOOR]])), graph.op("Div", below, _FLOOR)
    )


def _softplus(graph: Graph, x: str) -> str:
    """log(1 + exp x) without overflow."""
    tail = graph.op("Log", graph.op("Add", graph.op("Exp", graph.op("Neg", graph.op("Abs", x))), 1.0))
    return graph.op("Add", graph.op("Max", x, [[0.0]]), tail)


def _log_softplus(graph: Graph, x: str, low: float) -> str:
    """Its logarithm; below ``low`` the first terms of the series, which keep the order."""
    op = graph.op
    upper = op("Log", _softplus(graph, op("Max", x, [[low]])))
    lower = op("Sub", x, op("Div", op("Exp", op("Min", x, [[0.0]])), 2.0))
    return op("Where", op("Less", x, low), lower, upper)


# -- trees ------------------------------------------------------------------------------------------


def boosted_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a BoostedRatio."""
    g = graph.op("Add", tree_sum(graph, model.booster_, X), model.offset_)
    link = getattr(model.loss_, "link", "exp")
    if link == "exp":
        return g
    return _log_above_floor(graph, g) if link == "identity" else _log_softplus(graph, g, -30.0)


def forest_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a ForestRatio."""
    op, n = graph.op, model.booster_.current_iteration()
    least = 0.25 / n
    share = op("Div", tree_sum(graph, model.booster_, X), float(n))
    share = op("Min", op("Max", share, [[least]]), [[1 - least]])
    odds = op("Div", share, op("Sub", 1.0, share))
    return op("Sub", op("Log", odds), model.offset_)


# -- cosines ----------------------------------------------------------------------------------------


def fourier_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a FourierRatio."""
    op, single = graph.op, int(graph.onnx.TensorProto.FLOAT)
    z = op("Div", op("Sub", X, model.scaling_.shift), model.scaling_.scale)
    z = op("Min", op("Max", z, [[-model.far_]]), [[model.far_]])
    z = op("Mul", op("Round", op("Div", z, model.step_)), model.step_)
    waves = op("Add", op("MatMul", z, model.frequencies_), model.phase_)
    # Python also computes the cosines in float32. With the same rounding, rows near a step of the
    # calibration stay on the same side.
    cosines = graph.double(op("Cos", op("Cast", waves, to=single)))
    weights = (model.coefficients_ * model._amplitude())[:, None]
    total = op("Add", op("MatMul", cosines, weights), model.intercept_)
    return total if model.linear_ is None else op("Add", total, op("MatMul", z, model.linear_[:, None]))


def indicator_columns(graph: Graph, indicators: Indicators, X: str) -> str:
    """Numbers and indicators of rows whose categories are codes."""
    op = graph.op

    def columns(positions: list[int]) -> str:
        return op("Gather", X, graph.constant(positions, np.int64), axis=1)

    numbers = [j for j in range(indicators.n_columns) if j not in set(indicators.categories)]
    parts = [columns(numbers)] if numbers else []
    for j, codes, rest in zip(indicators.categories, indicators.codes, indicators.rest, strict=True):
        own = graph.double(op("Equal", columns([j]), np.array([codes], dtype=np.float64)))
        parts.append(own)
        if rest:
            parts.append(op("Sub", 1.0, graph.total(own)))
    return op("Concat", *parts, axis=1)


# -- networks -----------------------------------------------------------------------------------------


def network_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a NetworkRatio."""
    op, x = graph.op, network_output(graph, model, X)
    if model.head == "softplus":
        return _log_softplus(graph, x, -15.0)
    if model.head == "bounded":
        minus = _softplus(graph, op("Neg", x))
        return op("Sub", float(np.log(model.bound_)), minus)
    return op("Log", op("Max", x, [[0.0]])) if model.head == "relu" else x
