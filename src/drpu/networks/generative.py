"""Generators of both classes, trained on positive and unlabeled rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from drpu import networks
from drpu._arrays import FloatArray
from drpu._checks import require
from drpu._codec import POSITIVE, Array, Items, Kept, NotKept, Whole, kept
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError
from drpu.networks.function import Weights, check_weights

if TYPE_CHECKING:
    from drpu.networks.adversarial import Generator

FURTHEST = 4.0  # standardised values are clipped here for the training
IMAGE = (28, 28)  # rows of this shape get convolutions


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
    def _modules(self) -> tuple[Generator, Generator]:
        """The networks of positives and of negatives, on their device."""
        require("torch", extra="torch", for_="GenPUClassifier")
        return networks.load_generator(self, self.positive), networks.load_generator(
            self, self.negative
        )


def _arrays(generator: Generator) -> Weights:
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
