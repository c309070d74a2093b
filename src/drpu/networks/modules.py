"""The networks of this library as torch modules: their layers, their scores and their ONNX form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu._arrays import FloatArray, Rows
from drpu.exceptions import ArtifactError, DataError, ParameterError
from drpu.models.features import CLIP
from drpu.models.graphs import Graph, onnx_log_softplus
from drpu.networks.function import NetworkFunction, Weights
from drpu.networks.loop import (
    as_floats,
    as_tensor,
    own_defaults,
    pick_device,
    precision,
    private_random,
    rows_at_once,
    weight_dtype,
)

MakesModule: TypeAlias = nn.Module | Callable[[], nn.Module]

WIDTH = 64  # channels of the first layer; 6.6 million weights
SAMPLED = 8192  # rows that the mean and spread of pixels are computed from
LEAST_SIDE = 8  # smallest side, of which one pixel is left after three poolings
MOST_CHANNELS = 16  # a larger first axis is probably a side of an image with channels last
# The output at which the ratio is 1, which is its mean over unlabeled rows: the initial output.
START = {"softplus": math.log(math.e - 1), "relu": 1.0, "identity": 1.0, "exp": 0.0, "score": 0.0}
LOW = -15.0  # below this output log softplus is computed by its series


# -- layers ----------------------------------------------------------------------------------------


def perceptron(shape: Sequence[int], hidden: Sequence[int], *, start: float = 0.0) -> nn.Module:
    """A multilayer perceptron with one output, initially ``start``, for rows of the given shape."""
    widths = [math.prod(shape), *hidden]
    layers: list[nn.Module] = [nn.Flatten()]
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), nn.BatchNorm1d(following), nn.ReLU()]
    last = nn.Linear(widths[-1], 1)
    nn.init.constant_(last.bias, start)
    return nn.Sequential(*layers, last)


def image_shape(shape: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width of rows of the given shape, which has two or three axes."""
    with_channels = (1, *shape) if len(shape) == 2 else tuple(shape)
    if len(with_channels) == 3 and min(with_channels[1:]) >= LEAST_SIDE:
        channels, height, width = with_channels
        return channels, height, width

    advice = ""
    if len(shape) == 1:
        advice = " If the pixels were put into columns, pass X.reshape(-1, height, width)."
    elif len(shape) == 3 and shape[2] <= MOST_CHANNELS and min(shape[:2]) >= LEAST_SIDE:
        advice = " If the channels come last, pass numpy.moveaxis(X, -1, 1)."
    raise DataError(
        "network='resnet9' needs images of shape (height, width) or (channels, height, width), "
        f"with sides of at least {LEAST_SIDE} pixels, got rows of shape {tuple(shape)}.{advice}"
    )


class ResNet9(nn.Module):
    """Eight convolutions in two residual blocks and four other layers, and one linear layer.

    Pixels are standardised by the mean and spread of each channel, which are buffers and so belong
    to the state. On a GPU the memory format is channels last, which is faster. The linear layer is
    computed in full precision, because priors are estimated from the order of its outputs.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, shape: Sequence[int], width: int = WIDTH, *, start: float = 0.0) -> None:
        super().__init__()
        channels, _, _ = image_shape(shape)
        self.channels = channels
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))
        self.layers = nn.Sequential(
            *_convolution(channels, width),
            *_convolution(width, 2 * width, pool=True),
            Residual(2 * width),
            *_convolution(2 * width, 4 * width, pool=True),
            *_convolution(4 * width, 8 * width, pool=True),
            Residual(8 * width),
        )
        self.last = nn.Linear(8 * width, 1)
        nn.init.constant_(self.last.bias, start)

    def standardise(self, rows: Any) -> None:
        """Set mean and spread of each channel from rows that the network will receive."""
        every = -(-len(rows) // SAMPLED)  # evenly spaced rows, because they may be sorted by class
        pixels = as_floats(as_tensor(rows[::every]), torch.float32)
        images = pixels.reshape(-1, self.channels, *rows.shape[-2:])
        self.mean.copy_(images.mean((0, 2, 3)))
        self.spread.copy_(images.std((0, 2, 3), correction=0).clamp(min=1e-6))

    def forward(self, rows: Tensor) -> Tensor:
        """One output for each row."""
        features = self.features(rows)
        with torch.autocast(rows.device.type, enabled=False):
            output: Tensor = self.last(features.to(self.last.weight.dtype))
        return output

    def features(self, rows: Tensor) -> Tensor:
        """The largest value of each channel of the last convolution, for each row."""
        images = rows.unsqueeze(1) if rows.ndim == 3 else rows
        images = (images - self.mean[:, None, None]) / self.spread[:, None, None]
        if images.is_cuda:
            # A copy: with one channel `contiguous` would leave the strides, and so all layers,
            # channels first.
            images = images.clone(memory_format=torch.channels_last)
        largest: Tensor = self.layers(images).amax((2, 3))
        return largest


class Residual(nn.Module):
    """Two convolutions whose result is added to their input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        first = _convolution(channels, channels)
        second = _convolution(channels, channels)
        self.layers = nn.Sequential(*first, *second)

    def forward(self, images: Tensor) -> Tensor:
        """Images of the same shape."""
        added: Tensor = images + self.layers(images)
        return added


def _convolution(channels_in: int, channels_out: int, *, pool: bool = False) -> list[nn.Module]:
    """Convolution, batch norm and ReLU.

    Pooling comes before the batch norm, which then has fewer pixels.
    """
    convolution = nn.Conv2d(channels_in, channels_out, 3, padding=1, bias=False)
    norm = nn.BatchNorm2d(channels_out)
    if pool:
        return [convolution, nn.MaxPool2d(2), norm, nn.ReLU()]
    return [convolution, norm, nn.ReLU()]


# -- modules ---------------------------------------------------------------------------------------


def make_network(
    name: str, shape: Sequence[int], widths: Sequence[int], *, start: float = 0.0
) -> nn.Module:
    """An untrained network of this library for rows of a shape."""
    if name == "resnet9":
        return ResNet9(shape, widths[0], start=start)
    return perceptron(shape, widths, start=start)


def make_module(module: MakesModule, seed: int = 0) -> nn.Module:
    """A copy of the user's module, or a new one from the user's function, with seeded weights."""
    if isinstance(module, nn.Module):
        return deepcopy(module)
    with private_random(seed, torch.device("cpu")):
        made = module()
    if not isinstance(made, nn.Module):
        raise ParameterError(f"module must make a torch.nn.Module, got {type(made).__name__}.")
    return made


@own_defaults()
def load_module(function: NetworkFunction, dtype: torch.dtype | None = None) -> nn.Module:
    """The network of a function with its weights, on its device and in evaluation mode.

    ``dtype`` is the type of the weights; by default that of the training.
    """
    module = _without_weights(function)
    module = module.to(dtype=dtype or weight_dtype(function.dtype))
    device = pick_device(function.device)
    of_user = function.network == "module"
    if not of_user:
        module = module.to_empty(device=device)
    module = module.to(device)
    load_weights(module, function.weights, strict=of_user)
    return module.eval()


def _without_weights(function: NetworkFunction) -> nn.Module:
    """One network of a function, before its weights are loaded."""
    if function.network != "module":
        with torch.device("meta"):
            return make_network(function.network, function.input_shape, function.widths)
    if function.module is None:
        raise ArtifactError(
            "module must be a function that returns the network: this function was fitted with a "
            "custom network, of which only the weights were kept. Pass module=YourNetwork."
        )
    return make_module(function.module)


@own_defaults()
def exact_module(function: NetworkFunction) -> nn.Module:
    """The network with which a row has the same score in any batch, up to float64 or float32.

    Products of float32 round differently with the size of the batch. A network of the user may
    contain numbers of fixed types, so it stays as it is.
    """
    if function.network == "module":
        return function.torch_module
    if function.network == "perceptron" or pick_device(function.device).type == "cpu":
        return load_module(function, torch.float64)
    return function.torch_module


def load_weights(module: nn.Module, weights: Weights, *, strict: bool = True) -> None:
    """Copy arrays into a module; a number may have shape (1,), as in files."""
    state = module.state_dict()
    values = {}
    for name, array in weights.items():
        value = torch.tensor(array)
        if value.shape == (1,) and name in state and state[name].ndim == 0:
            value = value[0]
        values[name] = value
    try:
        module.load_state_dict(values, strict=strict)
    except RuntimeError as error:
        raise ArtifactError(f"module must be the network that was fitted: {error}") from error


# -- scores ----------------------------------------------------------------------------------------


@own_defaults()
@torch.no_grad()
def scores(function: NetworkFunction, module: nn.Module, X: Rows, dtype: str) -> FloatArray:
    """The scores of rows by the module of a function, in float64; ``dtype`` is that of products."""
    weight = next(module.parameters())
    at_once = rows_at_once(X.shape[1:], weight.device)
    outputs = []
    with precision(dtype, weight.device):
        for start in range(0, X.shape[0], at_once):
            rows = X[start : start + at_once]
            if function.scaling is not None:
                rows = function.scaling.softly_clipped(rows)
            batch = as_floats(as_tensor(rows).to(weight.device), weight.dtype)
            outputs.append(module(batch).reshape(-1).double().cpu())
    log_ratio = log_ratio_of(function.head, torch.cat(outputs))
    return np.asarray(log_ratio.numpy(), dtype=np.float64)


def ratio_of(head: str, output: Tensor) -> Tensor:
    """The ratio that a head makes of outputs."""
    match head:
        case "softplus":
            return F.softplus(output)
        case "relu":
            return F.relu(output)
        case "exp":
            return output.exp()
        case _:  # the identity, for modules that are linear in their weights
            return output


def log_ratio_of(head: str, output: Tensor) -> Tensor:
    """The log of the ratio, computed so that small ratios keep their order; outputs for a score."""
    match head:
        case "softplus":
            # Far below 0, log softplus(g) = g - exp(g) / 2 + ..., with no log of a tiny number.
            series = output - output.clamp(max=0).exp() / 2
            upper = F.softplus(output.clamp(min=LOW)).log()
            return torch.where(output < LOW, series, upper)
        case "relu" | "identity":  # outputs below 0 are ratios of 0
            return F.relu(output).log()
        case _:
            return output


# -- ONNX ------------------------------------------------------------------------------------------


def onnx_scores(graph: Graph, function: NetworkFunction, X: str) -> str:
    """The scores of a network for the rows ``X`` of an ONNX graph, of shape (rows, 1)."""
    output = _onnx_output(graph, function, X)
    match function.head:
        case "softplus":
            return onnx_log_softplus(graph, output, LOW)
        case "relu" | "identity":
            return graph.op("Log", graph.op("Max", output, [[0.0]]))
        case _:
            return output


def _onnx_output(graph: Graph, function: NetworkFunction, X: str) -> str:
    """The last output of a network, before its head, of shape (rows, 1)."""
    x = X
    if function.scaling is not None:
        op = graph.op
        z = op("Div", op("Sub", x, function.scaling.shift), function.scaling.scale)
        square = op("Mul", op("Div", z, CLIP), op("Div", z, CLIP))
        x = op("Div", z, op("Sqrt", op("Add", square, 1.0)))

    return _onnx_module(graph, function.torch_module, function.input_shape, x)


def _onnx_module(graph: Graph, module: Any, shape: Sequence[int], x: str) -> str:
    if isinstance(module, ResNet9):
        return _onnx_resnet9(graph, module, shape, x)
    if not isinstance(module, nn.Sequential):
        raise ArtifactError(
            "only sequential networks (torch.nn.Sequential) and the networks of drpu can be "
            f"exported with their calibration, got a {type(module).__name__}: export the module "
            "itself with torch.onnx and keep the rest in Python."
        )
    if len(shape) > 1:
        if not isinstance(module[0], nn.Flatten):
            raise ArtifactError(
                "a sequential network can be exported for rows of numbers, or with "
                f"torch.nn.Flatten as the first layer, got rows of shape {tuple(shape)}: export "
                "the module itself with torch.onnx and keep the rest in Python."
            )
        x = graph.op("Reshape", x, graph.constant([0, math.prod(shape)], np.int64))
    for layer in module:
        x = _onnx_layer(graph, layer, x)
    return x


def _onnx_layer(graph: Graph, layer: Any, x: str) -> str:
    """One layer of a perceptron, in float64."""
    kind = type(layer)
    if kind in (nn.Flatten, nn.Dropout, nn.Identity):
        return x
    if kind is nn.ReLU:
        return graph.op("Max", x, [[0.0]])
    weights = _arrays(layer)
    if kind is nn.Linear:
        product = graph.op("MatMul", x, weights["weight"].T)
        if "bias" not in weights:
            return product
        return graph.op("Add", product, weights["bias"])
    if kind is nn.BatchNorm1d and layer.track_running_stats:
        scale, shift = _normalisation(layer)
        return graph.op("Add", graph.op("Mul", x, scale), shift)
    raise ArtifactError(f"a layer of kind {kind.__name__} cannot be exported to ONNX by drpu.")


def _onnx_resnet9(graph: Graph, module: ResNet9, shape: Sequence[int], x: str) -> str:
    """A ResNet9; convolutions are in float32, as runtimes have no others, the rest in float64."""
    op = graph.op
    mean = module.mean.double().cpu().numpy()[:, None, None]
    spread = module.spread.double().cpu().numpy()[:, None, None]
    images = op("Reshape", x, graph.constant([0, *image_shape(shape)], np.int64))
    images = op("Div", op("Sub", images, mean), spread)
    images = op("Cast", images, to=int(graph.onnx.TensorProto.FLOAT))
    for layer in module.layers:
        images = _onnx_image_layer(graph, layer, images)
    features = op("ReduceMax", images, axes=[2, 3], keepdims=0)
    return _onnx_layer(graph, module.last, graph.double(features))


def _onnx_image_layer(graph: Graph, layer: Any, x: str) -> str:
    """One layer of a residual network, in float32."""
    kind = type(layer)
    if kind is Residual:
        images = x
        for inner in layer.layers:
            images = _onnx_image_layer(graph, inner, images)
        return graph.op("Add", x, images)
    if kind is nn.ReLU:
        return graph.op("Relu", x)
    if kind is nn.MaxPool2d:
        return graph.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    if kind is nn.Conv2d:
        weight = graph.constant(_arrays(layer)["weight"], np.float32)
        return graph.op("Conv", x, weight, pads=[1, 1, 1, 1])
    scale, shift = _normalisation(layer)  # of a batch norm, the only other kind
    scaled = graph.op("Mul", x, graph.constant(scale[:, None, None], np.float32))
    return graph.op("Add", scaled, graph.constant(shift[:, None, None], np.float32))


def _normalisation(layer: Any) -> tuple[Any, Any]:
    """Scale and shift of a fitted batch norm."""
    weights = _arrays(layer)
    scale = weights.get("weight", 1.0) / np.sqrt(weights["running_var"] + layer.eps)
    shift = weights.get("bias", 0.0) - weights["running_mean"] * scale
    return scale, shift


def _arrays(layer: Any) -> dict[str, Any]:
    """The weights of a layer as arrays of float64, by name."""
    return {name: value.double().cpu().numpy() for name, value in layer.state_dict().items()}
