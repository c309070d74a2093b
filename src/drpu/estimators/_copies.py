"""Labelled positives that were listed more than once."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from drpu._samples import Sample, SamplePair, is_sparse, take_rows
from drpu._typing import IntArray, Rows
from drpu.exceptions import CopiedPositivesWarning
from drpu.tables.frames import FrameRows

__all__ = ["copied_positives", "grouped_copies"]

_MOST_ROWS = 20_000  # unlabeled rows that are compared with the positives
# Rows of a coarse table coincide by chance. If chance is the reason, positives coincide with
# unlabeled rows at least prior times as often as with each other; priors below this are ignored.
_LEAST_PRIOR = 0.02
_LEAST_EXCESS = 5  # number of coinciding rows above chance before there is a warning


def grouped_copies(pair: SamplePair) -> SamplePair:
    """The pair with copies of a labelled positive in one group, unless the user gave groups."""
    if pair.positive.groups is not None:
        return pair
    groups = copied_positives(pair, np.random.RandomState(0))
    if groups is None:
        return pair
    positive = Sample(pair.positive.rows, pair.positive.weight, groups)
    warnings.warn(
        f"{len(positive) - positive.n_independent} of the {len(positive)} labelled positives are copies of "
        "others. Copies stay in one fold and count once in intervals. If they are different cases with "
        "equal values, pass groups with a value for each row.",
        CopiedPositivesWarning,
        stacklevel=5,
    )
    return SamplePair(positive, pair.unlabeled)


def copied_positives(pair: SamplePair, rng: np.random.RandomState) -> IntArray | None:
    """Group numbers of the positives, in which copies of a row share one; None without copies.

    Rows that coincide only because columns take few values are independent and
    are not grouped. Let q be the chance that two positives coincide and c the chance
    that a positive and an unlabeled row do. A fraction of the unlabeled rows, the prior,
    are positives, so q is at most c / prior. Positives that coincide more often than that
    have been copied.
    """
    n = len(pair.positive)
    if n < 2:
        return None
    groups, counts = _coinciding(pair.positive.rows)
    repeated = n - len(counts)
    if repeated < _LEAST_EXCESS:
        return None
    pairs = float((counts.astype(np.float64) * (counts - 1)).sum()) / 2
    unlabeled = pair.unlabeled.rows
    if len(pair.unlabeled) > _MOST_ROWS:
        unlabeled = take_rows(unlabeled, np.sort(rng.permutation(len(pair.unlabeled))[:_MOST_ROWS]))
    met = _matches(pair.positive.rows, unlabeled)
    by_chance = (met + 1) / (n * unlabeled.shape[0]) / _LEAST_PRIOR * n * (n - 1) / 2
    return groups if pairs > by_chance + _LEAST_EXCESS else None


def _coinciding(rows: Rows) -> tuple[IntArray, IntArray]:
    """Group numbers of equal rows, and the sizes of the groups."""
    _, groups, counts = np.unique(_keys(rows), return_inverse=True, return_counts=True)
    return groups.ravel(), counts


def _matches(positive: Rows, unlabeled: Rows) -> int:
    """Number of pairs of a positive and an unlabeled row that are equal."""
    keys, counts = np.unique(_keys(positive), return_counts=True)
    others, other_counts = np.unique(_keys(unlabeled), return_counts=True)
    _, at, other_at = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
    return int((counts[at].astype(np.int64) * other_counts[other_at]).sum())


def _keys(rows: Rows) -> np.ndarray[Any, Any]:
    """One comparable value for each row, equal where the rows are equal."""
    if isinstance(rows, FrameRows):
        return rows.keys()
    if is_sparse(rows):
        rows = rows.tocsr()
        parts = [
            rows.indices[a:b].tobytes() + rows.data[a:b].tobytes()
            for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        ]
        return np.array([hash(part) for part in parts], dtype=np.int64)
    flat = np.ascontiguousarray(np.asarray(rows).reshape(rows.shape[0], -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
