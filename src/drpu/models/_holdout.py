"""Holdout rows, which are used to choose among fits and not for training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drpu._samples import SamplePair
from drpu._typing import IntArray
from drpu.models._splits import draw_splits

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
    if pair.positive.groups is not None or pair.unlabeled.groups is not None:
        return _carve_groups(pair, fraction, rng)
    held_p, rest_p = _shuffled(len(pair.positive), fraction, rng, most)
    held_u, rest_u = _shuffled(len(pair.unlabeled), fraction, rng, most)
    if min(held_p.size, held_u.size) < MIN_HELD:
        return Split(pair, None)
    train, held = pair.take(rest_p, rest_u), pair.take(held_p, held_u)
    if min(train.smallest_total, held.smallest_total) <= 0:
        return Split(pair, None)
    return Split(train, held)


def _carve_groups(pair: SamplePair, fraction: float, rng: np.random.Generator) -> Split:
    """The same with all rows of a group on one side."""
    splits = draw_splits(pair, fraction, np.random.RandomState(rng.integers(2**31)))
    if not splits or min(held.size for _, held in splits[0]) < MIN_HELD:
        return Split(pair, None)
    (rest_p, held_p), (rest_u, held_u) = splits[0]
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
