"""Divisions of the rows: folds, and holdout rows that choose among fits and are not trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drpu._arrays import FloatArray, IntArray
from drpu._samples import SamplePair
from drpu.exceptions import ParameterError

MIN_HELD = 5  # with fewer rows of either kind a holdout risk is mostly noise

Positions = tuple[IntArray, IntArray]  # positions to train on, positions held out
PairSplit = tuple[Positions, Positions]  # of the positive and of the unlabeled rows


@dataclass(frozen=True, slots=True)
class TrainAndHeld:
    """Training rows and, if there are enough rows, holdout rows."""

    train: SamplePair
    held: SamplePair | None


def hold_out(
    pair: SamplePair,
    holdout: SamplePair | None,
    fraction: float,
    rng: np.random.Generator,
    *,
    most: int | None = None,
) -> TrainAndHeld:
    """The pair and the given holdout rows, or ``fraction`` of the pair as holdout rows.

    ``most`` limits the rows of either sample that are held out. If the fraction has fewer
    than :data:`MIN_HELD` rows of either kind, nothing is held out and ``held`` is None.
    """
    if holdout is not None:
        return TrainAndHeld(pair, holdout)
    split = _one_split(pair, fraction, rng, most)
    if split is None:
        return TrainAndHeld(pair, None)
    (train_positive, held_positive), (train_unlabeled, held_unlabeled) = split
    if min(held_positive.size, held_unlabeled.size) < MIN_HELD:
        return TrainAndHeld(pair, None)
    if min(train_positive.size, train_unlabeled.size) == 0:
        raise ParameterError(f"holdout must leave rows to train on, got {fraction!r}: lower it.")
    train = pair.take(train_positive, train_unlabeled)
    held = pair.take(held_positive, held_unlabeled)
    if min(train.smallest_total, held.smallest_total) <= 0:
        return TrainAndHeld(pair, None)
    return TrainAndHeld(train, held)


def _one_split(
    pair: SamplePair, fraction: float, rng: np.random.Generator, most: int | None
) -> PairSplit | None:
    """One split of both samples; None if groups, of which each is on one side, are too few."""
    if pair.positive.groups is not None or pair.unlabeled.groups is not None:
        splits = draw_splits(pair, fraction, np.random.RandomState(rng.integers(2**31)))
        return splits[0] if splits else None
    positive = _shuffled(len(pair.positive), fraction, rng, most)
    unlabeled = _shuffled(len(pair.unlabeled), fraction, rng, most)
    return positive, unlabeled


def _shuffled(n: int, fraction: float, rng: np.random.Generator, most: int | None) -> Positions:
    order = rng.permutation(n)
    held = round(fraction * n)
    if most is not None:
        held = min(held, most)
    return np.sort(order[held:]), np.sort(order[:held])


def draw_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[PairSplit]:
    """Splits of both samples: ``holdout`` folds, or one split that holds out that fraction.

    Rows of one group, in either sample, are on the same side. If there are
    too few groups, there are fewer folds, and none if two are not possible.
    """
    if pair.positive.groups is None and pair.unlabeled.groups is None:
        positive = _row_splits(len(pair.positive), holdout, rng)
        unlabeled = _row_splits(len(pair.unlabeled), holdout, rng)
        return list(zip(positive, unlabeled, strict=True))
    if holdout < 1:
        return _complete(_group_splits(pair, holdout, rng))
    for folds in range(int(holdout), 1, -1):
        splits = _complete(_group_splits(pair, folds, rng))
        if splits:
            return splits
    return []


def _complete(splits: list[PairSplit]) -> list[PairSplit]:
    """The splits, or none of them if a side of one has no rows."""
    for positive, unlabeled in splits:
        sizes = [part.size for part in (*positive, *unlabeled)]
        if min(sizes) == 0:
            return []
    return splits


def count_held(n: int, share: float) -> int:
    """Number of rows that one split holds out; at least one row is on either side."""
    return min(max(1, round(n * share)), n - 1)


def _row_splits(n: int, holdout: int | float, rng: np.random.RandomState) -> list[Positions]:
    order = rng.permutation(n)
    parts = [order[: count_held(n, holdout)]]
    if holdout >= 1:
        parts = np.array_split(order, int(holdout))
    splits = []
    for held in parts:
        is_seen = np.ones(n, dtype=bool)
        is_seen[held] = False
        splits.append((np.flatnonzero(is_seen), np.sort(held)))
    return splits


def _group_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[PairSplit]:
    positive_codes, unlabeled_codes, n_groups = _group_codes(pair)
    positives = np.bincount(positive_codes, minlength=n_groups)
    unlabeled = np.bincount(unlabeled_codes, minlength=n_groups)
    # Groups with positives are balanced by their positives, the others by their rows.
    with_positives = np.flatnonzero(positives > 0)
    without = np.flatnonzero(positives == 0)
    fold = np.empty(n_groups, dtype=np.int64)
    fold[with_positives] = _dealt(positives[with_positives], holdout, rng)
    fold[without] = _dealt(unlabeled[without], holdout, rng)

    n_splits = int(holdout) if holdout >= 1 else 1
    return [
        (_positions(fold[positive_codes], k), _positions(fold[unlabeled_codes], k))
        for k in range(n_splits)
    ]


def _dealt(sizes: IntArray, holdout: int | float, rng: np.random.RandomState) -> IntArray:
    """The fold of each group; with a fraction, groups of fold 0 are held out and others are not."""
    order = rng.permutation(len(sizes))
    middle: FloatArray = (np.cumsum(sizes[order]) - sizes[order] / 2) / max(sizes.sum(), 1)
    fold = np.empty(len(sizes), dtype=np.int64)
    if holdout >= 1:
        fold[order] = np.floor(middle * holdout)
    else:
        fold[order] = middle >= holdout
    return fold


def _positions(fold: IntArray, held: int) -> Positions:
    """Positions of the rows that are not in a fold, and of those that are."""
    return np.flatnonzero(fold != held), np.flatnonzero(fold == held)


def _group_codes(pair: SamplePair) -> tuple[IntArray, IntArray, int]:
    """Group numbers of the rows of both samples, and how many there are.

    In a sample without groups every row is a group.
    """
    groups = [sample.groups for sample in (pair.positive, pair.unlabeled)]
    names, codes = np.unique(
        np.concatenate([known for known in groups if known is not None]), return_inverse=True
    )
    if pair.positive.groups is None:
        n_groups = len(names) + len(pair.positive)
        return np.arange(len(names), n_groups), codes, n_groups
    if pair.unlabeled.groups is None:
        n_groups = len(names) + len(pair.unlabeled)
        return codes, np.arange(len(names), n_groups), n_groups
    return codes[: len(pair.positive)], codes[len(pair.positive) :], len(names)
