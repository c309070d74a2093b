"""The ONNX form of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from drpu.exceptions import ArtifactError
from drpu.models.features import CLIP
from drpu.models.graphs import Graph, onnx_log_softplus
from drpu.networks.augment import test_views
from drpu.networks.function import NetworkFunction
from drpu.networks.modules import Ensemble, Residual, ResNet9, image_shape
from drpu.networks.objectives import LOW


def network_scores(graph: Graph, function: NetworkFunction, X: str) -> str:
    """The scores of a network, of shape (rows, 1)."""
    op, x = graph.op, network_output(graph, function, X)
    match function.head:
        case "softplus":
            return onnx_log_softplus(graph, x, LOW)
        case "relu" | "identity":
            return op("Log", op("Max", x, [[0.0]]))
        case _:
            return x


def network_output(graph: Graph, function: NetworkFunction, X: str) -> str:
    """The last output of a network, before its head, of shape (rows, 1)."""
    x, shape, module = X, function.input_shape, function.torch_module
    if function.scaling is not None:
        op = graph.op
        z = op("Div", op("Sub", x, function.scaling.shift), function.scaling.scale)
        square = op("Mul", op("Div", z, CLIP), op("Div", z, CLIP))
        x = op("Div", z, op("Sqrt", op("Add", square, 1.0)))
    views = test_views(function.views)
    if len(views) < 2:
        return _output(graph, module, shape, x)
    outputs = _output(graph, module, shape, _viewed(graph, views, shape, x))
    apart = graph.op("Reshape", outputs, graph.constant([len(views), -1, 1], np.int64))
    return graph.op("Div", graph.total(apart, axis=0, keep=False), float(len(views)))


def _output(graph: Graph, module: Any, shape: Sequence[int], x: str) -> str:
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
    kind = type(layer)
    if kind in (nn.Flatten, nn.Dropout, nn.Identity):
        return x
    if kind is nn.ReLU:
        return graph.op("Max", x, [[0.0]])
    weights = _weights(layer)
    if kind is nn.Linear:
        product = graph.op("MatMul", x, weights["weight"].T)
        return graph.op("Add", product, weights["bias"]) if "bias" in weights else product
    if kind is nn.BatchNorm1d and layer.track_running_stats:
        scale, shift = _normalisation(layer, weights)
        return graph.op("Add", graph.op("Mul", x, scale), shift)
    raise ArtifactError(f"a layer of kind {kind.__name__} cannot be exported to ONNX by drpu.")


def _viewed(graph: Graph, views: Sequence[Any], shape: Sequence[int], x: str) -> str:
    """All views of all images, one view after the other."""
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
    kind = type(layer)
    if kind is Residual:
        return graph.op("Add", x, _image_layers(graph, layer.layers, x))
    if kind is nn.ReLU:
        return graph.op("Relu", x)
    if kind is nn.MaxPool2d:
        return graph.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    weights = _weights(layer)
    if kind is nn.Conv2d:
        return graph.op("Conv", x, graph.constant(weights["weight"], np.float32), pads=[1, 1, 1, 1])
    if kind is not nn.BatchNorm2d:
        raise ArtifactError(f"a layer of kind {kind.__name__} cannot be exported to ONNX by drpu.")
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
