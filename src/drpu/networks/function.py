"""Fitted networks, ratios and generators: weights as arrays, and a torch module on first use."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, cast

import numpy as np

from drpu import networks
from drpu._arrays import FloatArray, Rows
from drpu._checks import require
from drpu._codec import POSITIVE, Array, Items, Kept, NotKept, Number, Whole, kept
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError, PixelScaleWarning
from drpu.models.features import Scaling
from drpu.models.learner import Function

if TYPE_CHECKING:
    from torch import nn

    from drpu.networks.adversarial import RowGenerator

MOST_VALUES = 2**24  # largest number of values of a row
MOST_LAYERS = 1000
MOST_UNITS = 2**20
BRIGHTEST = 255  # a pixel of eight bits is a number from 0 to 1
# Factors by which the largest value of images may differ from that in training.
TOO_LARGE = 10
TOO_SMALL = 100
# Of generators.
FURTHEST = 4.0  # standardised values are clipped here for the training
IMAGE = (28, 28)  # rows of this shape get convolutions

Weights = dict[str, Annotated[FloatArray, Array("...", "any")]]
Size = Annotated[int, Whole(1, MOST_VALUES)]


@kept("network")
@dataclass(frozen=True, eq=False)
class NetworkFunction(Function):
    """The log-ratio or the score of a trained network.

    Attributes
    ----------
    network : {"perceptron", "resnet9", "module"}
        A network of this library, or one of the user.
    widths : tuple of int
        Widths of the layers of a perceptron; the channels of the first layer of ``resnet9``.
    input_shape : tuple of int
        Shape of one row.
    weights : dict of str to array
        The state of the module, without counters of batches.
    scaling : Scaling or None
        Of the columns, for a perceptron.
    head : str
        From the output to the log-ratio; ``"score"`` leaves it as it is.
    dtype : str
        Precision of the training.
    alpha : float or None
        Strength of the non-negative correction; None for a score.
    best_epoch : int
        The epoch that was kept, counted from 1.
    history : dict of str to array
        By epoch: ``risk``, as reported by the objective, and ``holdout_risk`` if rows were held
        out.
    pixels : pair of float or None
        Smallest and largest value of the training images as the network got them; None for other
        rows.
    device : "auto" or torch device
        Where rows are scored. It is not stored in files.
    module : torch.nn.Module or callable, optional
        The user's network, or a function that returns it. It is not stored in files.
    """

    statistics: ClassVar[tuple[str, ...]] = (
        "means and standard deviations of the columns, smallest and largest pixel, "
        "weights of networks",
    )
    accepts_sparse = False
    accepts_nd = True

    network: Literal["perceptron", "resnet9", "module"]
    widths: Annotated[tuple[Annotated[int, Whole(1, MOST_UNITS)], ...], Items(high=MOST_LAYERS)]
    input_shape: Annotated[tuple[Size, ...], Items(1, 32)]
    weights: Weights
    scaling: Scaling | None
    head: Literal["softplus", "relu", "identity", "exp", "score"]
    dtype: Literal["float32", "tf32", "bfloat16", "float64"]
    alpha: Annotated[float, Number(0, 1)] | None
    best_epoch: Annotated[int, Whole(0)]
    history: dict[str, Annotated[FloatArray, Array("e", low=-np.inf, high=np.inf, nan=True)]]
    pixels: tuple[float, float] | None = None
    device: Annotated[Any, NotKept] = "auto"
    module: Annotated[Any, NotKept] = None

    def __post_init__(self) -> None:
        if math.prod(self.input_shape) > MOST_VALUES:
            raise DataError(
                f"a row must have at most {MOST_VALUES} values, got shape {self.input_shape}."
            )
        if (self.scaling is not None) is not (self.network == "perceptron"):
            raise DataError("scaling must be given for a perceptron, and for no other network.")
        if self.scaling is not None and self.scaling.shift.shape != self.input_shape:
            raise DataError(
                f"scaling must have the shape of a row, {self.input_shape}, got "
                f"{self.scaling.shift.shape}."
            )
        if self.network != "module":
            shapes = weight_shapes(self.network, self.input_shape, self.widths)
            check_weights(self.weights, shapes)

    def with_module(self, module: Any) -> Self:
        """The same function; ``module`` is the user's network, or makes it."""
        if self.network != "module":
            return self
        return replace(self, module=module)

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
                f"{name} must be floats on the scale of the training images, from {low:g} to "
                f"{high:g}, got uint8, which a network divides by 255: convert them as in training."
            )
        new_low, new_high = pixel_range(X, self.network)
        largest = max(abs(new_low), abs(new_high))
        largest_in_training = max(abs(low), abs(high))
        too_large = largest > TOO_LARGE * largest_in_training
        too_small = 0 < largest < largest_in_training / TOO_SMALL
        if too_large or too_small:
            PixelScaleWarning.issue(
                f"{name} has values of up to {largest:g}, and the training images had values of up "
                f"to {largest_in_training:g}:",
                advice="scale them as in training. Images of uint8 are divided by 255, "
                "others are not.",
            )

    @property
    def holdout_risk(self) -> float | None:
        """The risk on holdout rows at the epoch that was kept, or None without holdout rows."""
        risks = self.history.get("holdout_risk")
        if risks is None:
            return None
        return float(risks[self.best_epoch - 1])

    def describe(self) -> str:
        """The kind of network, with its layers."""
        if self.network == "module":
            return "a network of the user"
        layers = "-".join(map(str, self.widths))
        return f"{self.network} {layers}"

    @cached_property
    def torch_module(self) -> nn.Module:
        """The network on its device, in evaluation mode; a perceptron expects scaled columns."""
        return cast("nn.Module", torch_networks().load_module(self))

    @cached_property
    def _exact_module(self) -> nn.Module:
        return cast("nn.Module", torch_networks().exact_module(self))

    def _score(self, X: Rows) -> FloatArray:
        return np.asarray(torch_networks().scores(self, self._exact_module, X, "float32"))

    def fast_score(self, X: Rows) -> FloatArray:
        """Scores of checked rows in the precision of the training, ``dtype``.

        This is faster than :meth:`score`, and a row may get another score in another batch, up to
        the rounding of ``dtype``.
        """
        return np.asarray(torch_networks().scores(self, self.torch_module, X, self.dtype))

    def onnx(self, graph: Any, X: str) -> str:
        """Add the scores of the rows ``X`` to an ONNX graph; the name of the (rows, 1) result."""
        return str(torch_networks().onnx_scores(graph, self, X))


def torch_networks() -> Any:
    """The module :mod:`drpu.networks.modules`, which needs torch and is imported on first use."""
    require("torch", extra="torch", for_="a network")
    return networks.modules


def pixel_range(images: Rows, network: str) -> tuple[float, float]:
    """Smallest and largest value of images as a network gets them.

    Pixels of eight bits are divided by 255, except by a perceptron.
    """
    low = float(images.min())
    high = float(images.max())
    if images.dtype == np.uint8 and network != "perceptron":
        return low / BRIGHTEST, high / BRIGHTEST
    return low, high


def weight_shapes(
    network: str, shape: Sequence[int], widths: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights of a network of this library, without counters of batches."""
    if network == "resnet9":
        return _resnet9(shape, widths)
    return _perceptron(shape, widths)


def _perceptron(
    shape: Sequence[int], widths: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    place = 1
    all_widths = [math.prod(shape), *widths]
    for width, following in pairwise(all_widths):
        yield f"{place}.weight", (following, width)
        yield f"{place}.bias", (following,)
        yield from _batch_norm(f"{place + 1}", following)
        place += 3
    yield f"{place}.weight", (1, all_widths[-1])
    yield f"{place}.bias", (1,)


def _resnet9(shape: Sequence[int], widths: Sequence[int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    if len(shape) not in (2, 3) or len(widths) != 1:
        raise DataError(
            f"a resnet9 needs images and one width, got rows of shape {shape} and {widths}."
        )
    channels = shape[0] if len(shape) == 3 else 1
    width = widths[0]
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
    """Compare weights with those of a network.

    No module is made, because a file can name any size.
    """
    count = 0
    for name, shape in shapes:
        count += 1
        weight = weights.get(name)
        if weight is None:
            raise DataError(f"the weight {name} must be floats of shape {shape}, got none.")
        if weight.shape != shape or weight.dtype.kind != "f":
            raise DataError(
                f"the weight {name} must be floats of shape {shape}, got {weight.dtype} of shape "
                f"{weight.shape}."
            )
    if count != len(weights):
        raise DataError(
            f"a network of these layers has {count} arrays of weights, got {len(weights)}."
        )


# -- generators of rows ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Game:
    """Training options of the generators and discriminators; already checked."""

    steps: int
    batch_size: int
    learning_rate: float
    noise: int
    hidden: tuple[int, ...]
    strengths: tuple[float, float, float]
    device: Any
    verbose: int


@kept("generators")
@dataclass(frozen=True, eq=False)
class ClassGenerators(Kept):
    """A generator of positive and one of negative rows."""

    # dimension of the noise that they map to standardised rows
    noise: Annotated[int, Whole(1, 2**20)]
    # widths of the layers for rows that are no images of 28 by 28 pixels
    hidden: Annotated[tuple[Annotated[int, Whole(1, 2**20)], ...], Items(high=100)]
    mean: Annotated[FloatArray, Array("...")]  # of the standardisation
    scale: Annotated[FloatArray, Array("...", low=POSITIVE)]
    positive: Weights  # of the two networks
    negative: Weights
    device: Annotated[Any, NotKept] = "cpu"  # where rows are generated

    def __post_init__(self) -> None:
        if not 1 <= self.mean.ndim <= 4 or self.mean.shape != self.scale.shape:
            raise DataError(f"mean and scale must have the shape of a row, got {self.mean.shape}.")
        for weights in (self.positive, self.negative):
            check_weights(weights, generator_shapes(self.mean.shape, self.noise, self.hidden))

    @classmethod
    def learn(cls, pair: SamplePair, *, prior: float, game: Game, seed: int) -> ClassGenerators:
        """Generators of both classes; ``prior`` is that of the unlabeled rows."""
        require("torch", extra="torch", for_="GenPUClassifier")
        rows = pair.unlabeled.rows
        weight = pair.unlabeled.weight
        mean = np.average(rows, axis=0, weights=weight)
        spread = np.sqrt(np.average((rows - mean) ** 2, axis=0, weights=weight))
        # Nearly constant columns are divided by a larger scale, so that their noise is not
        # amplified.
        scale = np.maximum(spread, max(1e-2 * float(spread.mean()), 1e-12))

        def standardised(sample: Sample) -> Sample:
            clipped = np.clip((sample.rows - mean) / scale, -FURTHEST, FURTHEST)
            return Sample(clipped, sample.weight)

        samples = SamplePair(standardised(pair.positive), standardised(pair.unlabeled))
        positive, negative = networks.train_generators(samples, game, prior=prior, seed=seed)
        return cls(
            game.noise,
            game.hidden,
            mean,
            scale,
            _arrays(positive),
            _arrays(negative),
            positive.device,
        )

    def sample(self, n: int, *, positive: bool, seed: int) -> FloatArray:
        """``n`` generated rows of one class."""
        of_positives, of_negatives = self._modules
        generator = of_positives if positive else of_negatives
        return np.asarray(self.mean + self.scale * generator.sample(n, seed))

    @cached_property
    def _modules(self) -> tuple[RowGenerator, RowGenerator]:
        """The networks of positives and of negatives, on their device."""
        require("torch", extra="torch", for_="GenPUClassifier")
        return networks.load_generator(self, self.positive), networks.load_generator(
            self, self.negative
        )


def _arrays(generator: RowGenerator) -> Weights:
    return {name: value.cpu().numpy() for name, value in generator.state_dict().items()}


def generator_shapes(
    shape: Sequence[int], noise: int, hidden: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights of a generator."""
    if tuple(shape) == IMAGE:
        yield "0.weight", (64 * 49, noise)
        yield "0.bias", (64 * 49,)
        yield "3.weight", (64, 32, 4, 4)
        yield "3.bias", (32,)
        yield "5.weight", (32, 1, 4, 4)
        yield "5.bias", (1,)
        return
    widths = [noise, *hidden, math.prod(shape)]
    for i, (width, following) in enumerate(pairwise(widths)):
        yield f"{2 * i}.weight", (following, width)
        yield f"{2 * i}.bias", (following,)
