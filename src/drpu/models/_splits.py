"""Rows to train on and rows to hold out, with the rows of a group on one side."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drpu._samples import SamplePair
from drpu._typing import IntArray

__all__ = ["Split", "draw_splits"]

Split = tuple[IntArray, IntArray]  # positions to train on, positions held out


def draw_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[tuple[Split, Split]]:
    """Splits of both samples: ``holdout`` folds, or one split that holds out that fraction.

    Rows of one group, in either sample, are on the same side. If there are
    too few groups, there are fewer folds, and none if two are not possible.
    """
    if pair.positive.groups is None and pair.unlabeled.groups is None:
        sizes = len(pair.positive), len(pair.unlabeled)
        return list(zip(*(_row_splits(n, holdout, rng) for n in sizes), strict=True))
    most = int(holdout) if holdout >= 1 else 1
    for folds in range(most, 0 if holdout < 1 else 1, -1):
        splits = list(_group_splits(pair, folds if holdout >= 1 else holdout, rng))
        if splits and all(part.size for split in splits for half in split for part in half):
            return splits
    return []


def _row_splits(n: int, holdout: int | float, rng: np.random.RandomState) -> Iterator[Split]:
    order = rng.permutation(n)
    if holdout < 1:
        parts = [order[: min(max(1, round(n * holdout)), n - 1)]]
    else:
        parts = np.array_split(order, int(holdout))
    for kept in parts:
        seen = np.ones(n, dtype=bool)
        seen[kept] = False
        yield np.flatnonzero(seen), np.sort(kept)


def _group_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> Iterator[tuple[Split, Split]]:
    codes, n_groups = _codes(pair)
    of_positive = np.bincount(codes[0], minlength=n_groups)
    of_unlabeled = np.bincount(codes[1], minlength=n_groups)
    fold = np.empty(n_groups, dtype=np.int64)
    with_positives = of_positive > 0
    # groups with positives are balanced by their positives, the others by their rows
    for chosen, sizes in ((with_positives, of_positive), (~with_positives, of_unlabeled)):
        fold[chosen] = _deal(sizes[chosen], holdout, rng)
    held = [fold[code] for code in codes]
    for k in range(int(holdout)) if holdout >= 1 else [0]:
        positive, unlabeled = ((np.flatnonzero(part != k), np.flatnonzero(part == k)) for part in held)
        yield positive, unlabeled


def _codes(pair: SamplePair) -> tuple[list[IntArray], int]:
    """Group numbers of the rows of both samples; a row without a group gets its own number."""
    known = [s.groups for s in (pair.positive, pair.unlabeled) if s.groups is not None]
    names, inverse = np.unique(np.concatenate(known), return_inverse=True)
    start, used, codes = len(names), 0, []
    for sample in (pair.positive, pair.unlabeled):
        if sample.groups is None:
            codes.append(np.arange(start, start + len(sample)))
            start += len(sample)
        else:
            codes.append(inverse[used : used + len(sample)])
            used += len(sample)
    return codes, start


def _deal(sizes: IntArray, holdout: int | float, rng: np.random.RandomState) -> IntArray:
    """A fold for each group, of about equal sizes; with a fraction, 0 is held out and 1 is not."""
    fold = np.empty(len(sizes), dtype=np.int64)
    order = rng.permutation(len(sizes))
    middle = (np.cumsum(sizes[order]) - sizes[order] / 2) / max(sizes.sum(), 1)
    fold[order] = np.floor(middle * holdout) if holdout >= 1 else middle >= holdout
    return fold
