"""Generators of both classes, trained on positive and unlabeled rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from drpu._codec import POSITIVE, Array, Items, Kept, NotKept, Whole, kept
from drpu._optional import require
from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.exceptions import DataError
from drpu.networks.function import Weights, check_weights, load_weights

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

    noise: Annotated[int, Whole(1, 2**20)]  # dimension of the noise that they map to standardised rows
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
        from drpu.networks.device import pick_device
        from drpu.networks.generative_training import play

        positive, unlabeled = pair.positive, pair.unlabeled
        mean = np.average(unlabeled.rows, axis=0, weights=unlabeled.weight)
        spread = np.sqrt(np.average((unlabeled.rows - mean) ** 2, axis=0, weights=unlabeled.weight))
        # Nearly constant columns are divided by a larger scale, so that their noise is not amplified.
        scale = np.maximum(spread, max(1e-2 * float(spread.mean()), 1e-12))
        rows = [np.clip((part.rows - mean) / scale, -FURTHEST, FURTHEST) for part in (positive, unlabeled)]
        settings = replace(game, device=pick_device(game.device))
        weights = positive.weights(), unlabeled.weights()
        modules = play(rows[0], rows[1], weights, settings, prior=prior, seed=seed)
        states = [{name: value.cpu().numpy() for name, value in m.state_dict().items()} for m in modules]
        return cls(game.noise, game.hidden, mean, scale, states[0], states[1], settings.device)

    def sample(self, n: int, *, positive: bool, seed: int) -> FloatArray:
        """``n`` generated rows of one class."""
        from drpu.networks.generative_training import generate

        rows = generate(self._modules[0 if positive else 1], n, self.noise, seed)
        return np.asarray(self.mean + self.scale * rows)

    @cached_property
    def _modules(self) -> tuple[Any, Any]:
        """The two networks, on their device."""
        torch = require("torch", extra="torch", for_="GenPUClassifier")
        from drpu.networks.device import pick_device
        from drpu.networks.generative_training import make_generator

        modules = []
        for weights in (self.positive, self.negative):
            with torch.device("meta"):  # the weights follow
                made = make_generator(self.mean.shape, self.noise, self.hidden)
            module = made.to_empty(device=pick_device(self.device))
            load_weights(module, weights)
            modules.append(module.eval())
        return modules[0], modules[1]


def generator_shapes(
    shape: Sequence[int], noise: int, hidden: Sequence[int]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the weights of a generator."""
    if tuple(shape) == IMAGE:
        sizes = [("0", (64 * 49, noise), 64 * 49), ("3", (64, 32, 4, 4), 32), ("5", (32, 1, 4, 4), 1)]
    else:
        widths = [noise, *hidden, math.prod(shape)]
        sizes = [(f"{2 * i}", (after, before), after) for i, (before, after) in enumerate(pairwise(widths))]
    for place, weight, bias in sizes:
        yield f"{place}.weight", weight
        yield f"{place}.bias", (bias,)
