"""Holdout rows, which are used to choose among fits and not for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drpu._samples import SamplePair
from drpu._typing import IntArray

__all__ = ["MIN_HELD", "Split", "carve"]

MIN_HELD = 5  # with fewer rows of either kind a holdout risk is mostly noise


@dataclass(frozen=True, slots=True)
class Split:
    """Training rows and, if there are enough rows, holdout rows."""

    train: SamplePair
    held: SamplePair | None


def carve(
    pair: SamplePair,
    holdout: SamplePair | None,
    fraction: float,
    rng: np.random.Generator,
    *,
    most: int | None = None,
) -> Split:
    """The pair and the given holdout rows, or ``fraction`` of the pair as holdout rows.

    ``most`` limits the rows of either sample that are held out. If the fraction has fewer
    than :data:`MIN_HELD` rows of either kind, nothing is held out and ``held`` is None.
    """
    if holdout is not None:
        return Split(pair, holdout)
    held_p, rest_p = _shuffled(len(pair.positive), fraction, rng, most)
    held_u, rest_u = _shuffled(len(pair.unlabeled), fraction, rng, most)
    if min(held_p.size, held_u.size) < MIN_HELD:
        return Split(pair, None)
    train, held = pair.take(rest_p, rest_u), pair.take(held_p, held_u)
    if min(train.smallest_total, held.smallest_total) <= 0:
        return Split(pair, None)
    return Split(train, held)


def _shuffled(
    n: int, fraction: float, rng: np.random.Generator, most: int | None
) -> tuple[IntArray, IntArray]:
    order = rng.permutation(n)
    kept = round(fraction * n) if most is None else min(round(fraction * n), most)
    return np.sort(order[:kept]), np.sort(order[kept:])
