"""Families of score distributions: survival functions, samples and identified priors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, gammaincc, logit, ndtr, stdtr

from drpu.priors.tails import ScoreTails

Array = np.ndarray

SURVIVAL: dict[str, Callable[[Array], Array]] = {
    "normal": lambda z: ndtr(-z),
    "uniform": lambda z: np.clip(1 - z, 0, 1),
    "t3": lambda z: stdtr(3, -z),
    "laplace": lambda z: np.where(z > 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z))),
    "logistic": lambda z: expit(-z),
    "exponential": lambda z: np.exp(-np.maximum(z, 0)),
    "gamma2": lambda z: gammaincc(2, np.maximum(z, 0)),
    "gamma6": lambda z: gammaincc(6, np.maximum(z, 0)),
}

DRAW: dict[str, Callable[[np.random.Generator, int], Array]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "uniform": lambda rng, n: rng.random(n),
    "t3": lambda rng, n: rng.standard_t(3, n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "logistic": lambda rng, n: rng.logistic(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "gamma2": lambda rng, n: rng.gamma(2, size=n),
    "gamma6": lambda rng, n: rng.gamma(6, size=n),
}

Mixture = tuple[tuple[float, str, float, float], ...]  # (proportion, shape, location, scale)


def mixture_survival(parts: Mixture, at: Array) -> Array:
    terms = [share * SURVIVAL[shape]((at - loc) / scale) for share, shape, loc, scale in parts]
    return np.asarray(np.sum(terms, axis=0))


def draw_mixture(parts: Mixture, rng: np.random.Generator, n: int) -> Array:
    sizes = rng.multinomial(n, [part[0] for part in parts])
    drawn = [
        loc + scale * DRAW[shape](rng, k) for (_, shape, loc, scale), k in zip(parts, sizes, strict=True)
    ]
    return np.concatenate(drawn)


@dataclass(frozen=True)
class Family:
    """Score distributions of the two classes; ``cuts`` make the score discrete, ``cap`` limits it."""

    name: str
    positive: Mixture
    negative: Mixture
    cuts: tuple[float, ...] = ()
    cap: float = math.inf
    chosen_on: bool = field(default=False)  # one of the families used to choose the rules

    def scores(self, latent: Array) -> Array:
        """The observed scores of latent ones."""
        if self.cuts:
            return np.searchsorted(self.cuts, latent, side="right").astype(float)
        return np.asarray(np.minimum(latent, self.cap))

    def survival(self, of: str, levels: Array) -> Array:
        """Probability that a class scores at least each level."""
        at = levels
        if self.cuts:
            at = np.concatenate(([-np.inf], self.cuts))[levels.astype(int)]
        return mixture_survival(self.positive if of == "positive" else self.negative, at)

    def thresholds(self) -> Array:
        """A fine grid of scores, or all scores if they are discrete."""
        if self.cuts:
            return np.arange(len(self.cuts) + 1.0)
        grid = np.linspace(-12, 60, 40_001)
        grid = grid[grid <= self.cap]
        return grid[self.survival("positive", grid) > 1e-12]

    @property
    def youden(self) -> float:
        """The largest difference of the two survival functions."""
        at = self.thresholds()
        return float((self.survival("positive", at) - self.survival("negative", at)).max())

    def tails(self, rng: np.random.Generator, n_positive: int) -> ScoreTails:
        """Tails of newly drawn positives, without counts."""
        return ScoreTails(self.scores(draw_mixture(self.positive, rng, n_positive)))


def normal(loc: float, scale: float = 1.0) -> Mixture:
    return ((1.0, "normal", loc, scale),)


QUARTERS = tuple(np.arange(-6, 12, 0.25))
PERCENTS = tuple(2 + logit((np.arange(100) + 0.5) / 100) / 2)  # a probability rounded to two decimals

FAMILIES = {
    family.name: family
    for family in (
        Family("g1", normal(1), normal(0), chosen_on=True),
        Family("g2", normal(2), normal(0), chosen_on=True),
        Family("g3", normal(3), normal(0), chosen_on=True),
        Family("g4", normal(4), normal(0), chosen_on=True),
        Family("pure40", ((0.4, "uniform", 7, 1), (0.6, "normal", 1.5, 1)), normal(0), chosen_on=True),
        Family("pure10", ((0.1, "uniform", 7, 1), (0.9, "normal", 1.5, 1)), normal(0), chosen_on=True),
        Family("t3", ((1.0, "t3", 4, 1),), ((1.0, "t3", 0, 1),), chosen_on=True),
        Family("red10", normal(3), ((0.9, "normal", 0, 1), (0.1, "normal", 3, 1)), chosen_on=True),
        Family("ties", normal(3), normal(0), cuts=QUARTERS, chosen_on=True),
        Family("clip", normal(3), normal(0), cap=3.0, chosen_on=True),
        Family(
            "scram",
            ((0.98, "normal", 3, 1), (0.02, "uniform", 12, 1)),
            ((0.98, "normal", 0, 1), (0.02, "uniform", 12, 1)),
            chosen_on=True,
        ),
        Family("laplace", ((1.0, "laplace", 3, 1),), ((1.0, "laplace", 0, 1),)),
        Family("gamma", ((1.0, "gamma6", 0, 1),), ((1.0, "gamma2", 0, 1),)),
        Family("wide positives", normal(2, 1.5), normal(0)),
        Family("wide negatives", normal(3), normal(0, 1.5)),
        Family("hard negatives", normal(4), ((0.85, "normal", 0, 1), (0.15, "normal", 2.5, 0.7))),
        Family("two modes", ((0.5, "normal", 1.5, 1), (0.5, "normal", 5, 1)), normal(0)),
        Family("logistic", ((1.0, "logistic", 4, 1),), ((1.0, "logistic", 0, 1),)),
        Family("exponential", ((1.0, "exponential", 0, 6),), ((1.0, "exponential", 0, 1),)),
        Family("two decimals", normal(3), normal(0), cuts=PERCENTS),
        Family("six leaves", normal(3), normal(0), cuts=(0.0, 1.0, 1.5, 2.5, 3.5)),
    )
}


def draw_rows(family: Family, rng: np.random.Generator, n: int, prior: float) -> Array:
    k = rng.binomial(n, prior)
    return np.concatenate((draw_mixture(family.positive, rng, k), draw_mixture(family.negative, rng, n - k)))
