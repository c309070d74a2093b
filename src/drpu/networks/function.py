"""Networks as functions: weights as arrays, and a torch module that is made on first use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np

from drpu._codec import Array, Items, NotKept, Number, Text, Whole, kept
from drpu._optional import require
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ArtifactError, DataError, PixelScaleWarning
from drpu.models.features import Scaling
from drpu.models.function import Function

if TYPE_CHECKING:
    from torch import nn

MOST_VALUES = 2**24  # largest number of values of a row
MOST_LAYERS, MOST_UNITS = 1000, 2**20
BRIGHTEST = 255  # a pixel of eight bits is a number from 0 to 1
TOO_LARGE, TOO_SMALL = 10, 100  # factors by which the largest value of images may differ from training

Weights = dict[str, Annotated[FloatArray, Array("...", "any")]]
Size = Annotated[int, Whole(1, MOST_VALUES)]


@kept("network")
@dataclass(frozen=True, eq=False)
class NetworkFunction(Function):
    """The log-ratio or the score of a trained network, or of the mean output of several networks.

    Attributes
    ----------
    network : {"perceptron", "resnet9", "module"}
        A network of this library, or one of the user.
    widths : tuple of int
        Widths of the layers of a perceptron; the channels of the first layer of ``resnet9``.
    members : int
        Number of networks whose outputs are averaged.
    input_shape : tuple of int
        Shape of one row.
    weights : dict of str to array
        The state of the module, without counters of batches.
    scaling : Scaling or None
        Of the columns, for a perceptron.
    head : str
        From the output to the log-ratio; ``"score"`` leaves it as it is.
    views : str or None
        Names of changes of images, over which outputs are averaged.
    dtype : str
        Precision of the training.
    alpha : float or None
        Strength of the non-negative correction; None for a score.
    best_epoch : int
        The epoch that was kept, counted from 1.
    history : dict of str to array
        ``risk``, as reported by the objective, and ``holdout_risk`` if rows were held out, by epoch.
    pixels : pair of float or None
        Smallest and largest value of the training images as the network got them; None for other rows.
    device : "auto" or torch device
        Where rows are scored. It is not stored in files.
    module : torch.nn.Module or callable, optional
        The user's network, or a function that returns it. It is not stored in files.
    """

    statistics: ClassVar[tuple[str, ...]] = (
        "means and standard deviations of the columns, smallest and largest pixel, weights of networks",
    )
    accepts_sparse = False
    accepts_nd = True

    network: Literal["perceptron", "resnet9", "module"]
    widths: Annotated[tuple[Annotated[int, Whole(1, MOST_UNITS)], ...], Items(high=MOST_LAYERS)]
    members: Annotated[int, Whole(1, 1000)]
    input_shape: Annotated[tuple[Size, ...], Items(1, 32)]
    weights: Weights
    scaling: Scaling | None
    head: Literal["softplus", "relu", "identity", "exp", "score"]
    views: Annotated[str, Text(most=100)] | None
    dtype: Literal["float32", "tf32", "bfloat16", "float64"]
    alpha: Annotated[float, Number(0, 1)] | None
    best_epoch: Annotated[int, Whole(0)]
    history: dict[str, Annotated[FloatArray, Array("e", low=-np.inf, high=np.inf, nan=True)]]
    pixels: tuple[float, float] | None = None
    device: Annotated[Any, NotKept] = "auto"
    module: Annotated[Any, NotKept] = None

    def __post_init__(self) -> None:
        if math.prod(self.input_shape) > MOST_VALUES:
            raise DataError(f"a row must have at most {MOST_VALUES} values, got shape {self.input_shape}.")
        if (self.scaling is not None) is not (self.network == "perceptron"):
            raise DataError("scaling must be given for a perceptron, and for no other network.")
        if self.scaling is not None and self.scaling.shift.shape != self.input_shape:
            raise DataError(
                f"scaling must have the shape of a row, {self.input_shape}, got {self.scaling.shift.shape}."
            )
        if self.network != "module":
            shapes = weight_shapes(self.network, self.input_shape, self.widths, self.members)
            check_weights(self.weights, shapes)

    def with_module(self, module: Any) -> Self:
        """The same function; ``module`` is the user's network, or makes it."""
        return replace(self, module=module) if self.network == "module" else self

    @property
    def n_columns(self) -> int:
        """Number of columns; the first dimension of images."""
        return self.input_shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        return self.input_shape

    def check_scale(self, name: str, X: Rows) -> None:
        """Raise or warn if the pixels of checked images are on another scale than in training."""
        if self.pixels is None:
            return
        low, high = self.pixels
        unit = -0.1 <= low <= high <= 1.1  # also of images that were resized, which can overshoot
        if X.dtype == np.uint8 and self.network != "perceptron" and not unit:
            raise DataError(
                f"{name} must be floats on the scale of the training images, from {low:g} to {high:g}, got "
                "uint8, which a network divides by 255: convert them as in training."
            )
        most, found = (max(map(abs, pixels)) for pixels in (self.pixels, pixel_range(X, self.network)))
        if found > TOO_LARGE * most or 0 < found < most / TOO_SMALL:
            PixelScaleWarning.issue(
                f"{name} has values of up to {found:g}, and the training images had values of up to "
                f"{most:g}:",
                advice="scale them as in training. Images of uint8 are divided by 255, others are not.",
            )

    @property
    def holdout_risk(self) -> float | None:
        """The risk on holdout rows at the epoch that was kept, or None without holdout rows."""
        risks = self.history.get("holdout_risk")
        return None if risks is None else float(risks[self.best_epoch - 1])

    def describe(self) -> str:
        """The kind of network, with its layers."""
        layers = "-".join(map(str, self.widths))
        name = "a network of the user" if self.network == "module" else f"{self.network} {layers}"
        return name if self.members == 1 else f"{self.members} x {name}"

    @cached_property
    def torch_module(self) -> nn.Module:
        """The network on its device, in evaluation mode; a perceptron expects scaled columns."""
        return self._make()

    @cached_property
    def _exact_module(self) -> nn.Module:
        """The network with which a row has the same score in any batch, up to float64 or float32.

        Products of float32 round differently with the size of the batch. A network of the user may contain
        numbers of fixed types, so it stays as it is.
        """
        import torch

        from drpu.networks.device import pick_device

        own = self.network != "module" or self.members > 1
        if own and (self.network == "perceptron" or pick_device(self.device).type == "cpu"):
            return self._make(torch.float64)
        return self.torch_module

    def _score(self, X: Rows) -> FloatArray:
        require("torch", extra="torch", for_="a network")
        return self._scores(self._exact_module, X, "float32")

    def fast_score(self, X: Rows) -> FloatArray:
        """Scores of checked rows in the precision of the training, ``dtype``.

        This is faster than :meth:`score`, and a row may get another score in another batch, up to the
        rounding of ``dtype``.
        """
        return self._scores(self.torch_module, X, self.dtype)

    def onnx(self, graph: Any, X: str) -> str:
        """Add the scores of the rows ``X`` to an ONNX graph; the name of the (rows, 1) result."""
        from drpu.networks.graphs import network_scores

        return network_scores(graph, self, X)

    def _scores(self, module: nn.Module, X: Rows, dtype: str) -> FloatArray:
        import torch

        from drpu.networks.modules import outputs
        from drpu.networks.objectives import log_ratio_of

        output = torch.as_tensor(outputs(module, X, scaling=self.scaling, views=self.views, dtype=dtype))
        return np.asarray(log_ratio_of(self.head, output).numpy(), dtype=np.float64)

    def _make(self, dtype: Any = None) -> nn.Module:
        """The module with the weights of this function, in their type or another one."""
        torch = require("torch", extra="torch", for_="a network")
        from drpu.networks.device import pick_device, weight_dtype
        from drpu.networks.modules import Ensemble, make_module, make_network

        def make() -> nn.Module:
            if self.network == "module":
                if self.module is None:
                    raise ArtifactError(
                        "module must be a function that returns the network: this function was fitted with a "
                        "custom network, of which only the weights were kept. Pass module=YourNetwork."
                    )
                return make_module(self.module)
            with torch.device("meta"):  # the weights follow
                return make_network(self.network, self.input_shape, self.widths)

        made = [make() for _ in range(self.members)]
        module = made[0] if self.members == 1 else Ensemble(made)
        module = module.to(dtype=dtype or weight_dtype(self.dtype))
        device = pick_device(self.device)
        module = module.to(device) if self.network == "module" else module.to_empty(device=device)
        load_weights(module, self.weights, strict=self.network == "module")
        return module.eval()


def pixel_range(images: Rows, network: str) -> tuple[float, float]:
    """Smallest and largest value of images as a network gets them; a perceptron does not divide by 255."""
    unit = BRIGHTEST if images.dtype == np.uint8 and network != "perceptron" else 1
    return float(images.min()) / unit, float(images.max()) / unit


def weight_shapes(
    network: str, shape: Sequence[int], widths: Sequence[int], members: int = 1
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights of a network of this library, without counters of batches."""
    for i in range(members):
        own = _resnet9(shape, widths) if network == "resnet9" else _perceptron(shape, widths)
        yield from ((f"members.{i}.{name}" if members > 1 else name, size) for name, size in own)


def _perceptron(shape: Sequence[int], widths: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    place = 1
    for width, following in pairwise([math.prod(shape), *widths]):
        yield f"{place}.weight", (following, width)
        yield f"{place}.bias", (following,)
        yield from _batch_norm(f"{place + 1}", following)
        place += 3
    yield f"{place}.weight", (1, widths[-1] if widths else math.prod(shape))
    yield f"{place}.bias", (1,)


def _resnet9(shape: Sequence[int], widths: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    if len(shape) not in (2, 3) or len(widths) != 1:
        raise DataError(f"a resnet9 needs images and one width, got rows of shape {shape} and {widths}.")
    channels, width = (shape[0] if len(shape) == 3 else 1), widths[0]
    yield "mean", (channels,)
    yield "spread", (channels,)
    # Position of each convolution, of its batch norm, and its channels.
    layers = (
        ("0", "1", channels, width),
        ("3", "5", width, 2 * width),
        ("7.layers.0", "7.layers.1", 2 * width, 2 * width),
        ("7.layers.3", "7.layers.4", 2 * width, 2 * width),
        ("8", "10", 2 * width, 4 * width),
        ("12", "14", 4 * width, 8 * width),
        ("16.layers.0", "16.layers.1", 8 * width, 8 * width),
        ("16.layers.3", "16.layers.4", 8 * width, 8 * width),
    )
    for convolution, norm, before, after in layers:
        yield f"layers.{convolution}.weight", (after, before, 3, 3)
        yield from _batch_norm(f"layers.{norm}", after)
    yield "last.weight", (1, 8 * width)
    yield "last.bias", (1,)


def _batch_norm(place: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name in ("weight", "bias", "running_mean", "running_var"):
        yield f"{place}.{name}", (width,)


def check_weights(weights: Weights, shapes: Iterable[tuple[str, tuple[int, ...]]]) -> None:
    """Compare weights with those of a network. No module is made, because a file can name any size."""
    count = 0
    for name, shape in shapes:
        count += 1
        found = weights.get(name)
        if found is None or found.shape != shape or found.dtype.kind != "f":
            got = "none" if found is None else f"{found.dtype} of shape {found.shape}"
            raise DataError(f"the weight {name} must be floats of shape {shape}, got {got}.")
    if count != len(weights):
        raise DataError(f"a network of these layers has {count} arrays of weights, got {len(weights)}.")


def load_weights(module: nn.Module, weights: Weights, *, strict: bool = True) -> None:
    """Copy arrays into a module; a number may have shape (1,), as in files."""
    import torch

    own = module.state_dict()
    values = {name: torch.tensor(value) for name, value in weights.items()}
    for name, value in values.items():
        if value.shape == (1,) and name in own and own[name].ndim == 0:
            values[name] = value[0]
    try:
        module.load_state_dict(values, strict=strict)
    except RuntimeError as error:
        raise ArtifactError(f"module must be the network that was fitted: {error}") from error
