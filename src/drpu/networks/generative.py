"""Generators of both classes, trained on positive and unlabeled rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._optional import require
from drpu._samples import SamplePair
from drpu._schema import Integer, List, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray
from drpu.exceptions import DataError

__all__ = ["ClassGenerators", "Game"]

FURTHEST = 4.0  # standardised values are clipped here for the training


@dataclass(frozen=True, slots=True)
class Game:
    """Training options of the generators and discriminators; already checked."""

    steps: int
    batch_size: int
    learning_rate: float
    noise: int
    hidden: tuple[int, ...]
    strengths: tuple[float, float, float]
    blur: float
    penalty: float
    device: Any
    verbose: int


def _problem(state: ModelState, _: dict[str, int]) -> str | None:
    for key, array in state.arrays.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            return f"the array {key[:100]} must hold finite numbers"
    for key in ("mean", "scale"):
        if key not in state.arrays or state.arrays[key].shape != tuple(state.config["shape"]):
            return f"{key} must have the shape of a row"
    return None


SCHEMA = Schema(
    "generator",
    config={
        "noise": Integer(1, 2**20),
        "hidden": List(Integer(1, 2**20), low=1, high=100),
        "shape": List(Integer(1, 2**24), low=1, high=4),
    },
    more_arrays=r"(positive|negative)\..+|mean|scale",
    also=_problem,
)


class ClassGenerators:
    """A generator of positive and one of negative rows.

    Attributes
    ----------
    modules : pair of torch.nn.Module
        Map noise to standardised rows.
    mean, scale : ndarray
        Mean and scale of the standardisation.
    """

    def __init__(
        self,
        modules: tuple[Any, Any],
        mean: FloatArray,
        scale: FloatArray,
        noise: int,
        hidden: tuple[int, ...],
    ) -> None:
        self.modules, self.mean, self.scale = modules, mean, scale
        self.noise, self.hidden = noise, hidden

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
        return cls(modules, mean, scale, game.noise, game.hidden)

    def sample(self, n: int, *, positive: bool, seed: int) -> FloatArray:
        """``n`` generated rows of one class."""
        from drpu.networks.generative_training import generate

        rows = generate(self.modules[0 if positive else 1], n, self.noise, seed)
        return np.asarray(self.mean + self.scale * rows)

    def state(self) -> ModelState:
        """Weights, means and scales."""
        arrays = {"mean": self.mean, "scale": self.scale}
        for name, module in zip(("positive", "negative"), self.modules, strict=True):
            arrays |= {f"{name}.{k}": v.cpu().numpy() for k, v in module.state_dict().items()}
        config = {"noise": self.noise, "hidden": list(self.hidden), "shape": list(self.mean.shape)}
        return ModelState("generators", config, arrays)

    @classmethod
    def from_state(cls, state: ModelState) -> ClassGenerators:
        """The generators restored from ``state``."""
        torch = require("torch", extra="torch", for_="GenPUClassifier")
        from drpu.networks.generative_training import make_generator

        SCHEMA.check(state)
        config, arrays = state.config, state.arrays
        noise, hidden, shape = config["noise"], tuple(config["hidden"]), tuple(config["shape"])
        with torch.device("meta"):  # uses no memory for networks of any size
            made = make_generator(shape, noise, hidden).state_dict()
        wanted = {k: tuple(v.shape) or (1,) for k, v in made.items()}
        modules = []
        for name in ("positive", "negative"):
            start = f"{name}."
            weights = {k.removeprefix(start): v for k, v in arrays.items() if k.startswith(start)}
            if wanted != {k: v.shape or (1,) for k, v in weights.items()}:
                raise DataError(
                    "the weights of a generator must be those of the layers that the state names."
                )
            module = make_generator(shape, noise, hidden)
            module.load_state_dict({k: torch.as_tensor(np.array(v)) for k, v in weights.items()})
            modules.append(module.eval())
        return cls((modules[0], modules[1]), arrays["mean"], arrays["scale"], noise, hidden)
