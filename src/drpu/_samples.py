"""Rows with weights: one sample, and the pair of positive and unlabeled samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows, as_numpy


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return bool(scipy.sparse.issparse(X))


def is_matrix(X: Any) -> bool:
    """Whether ``X`` is a dense matrix: no images, sparse rows or data frame."""
    return isinstance(X, np.ndarray) and X.ndim == 2


def without_repeats(X: Rows) -> Rows:
    """``X`` with repeated entries of a sparse matrix summed up, which is what they mean."""
    if not is_sparse(X) or X.has_canonical_format:
        return X
    X = X.copy()
    X.sum_duplicates()
    return X


def indexable(X: Any) -> Any:
    """An array or CSR matrix of rows that may be a list, a tensor or any sparse matrix."""
    if is_sparse(X):
        return X.tocsr()
    return np.asarray(as_numpy(X))


def n_rows(X: Rows) -> int:
    """Number of rows of an array or sparse matrix."""
    return int(X.shape[0])


def varied_columns(parts: Sequence[Rows]) -> BoolArray:
    """Whether each column has two different values in several matrices; a gap is a value."""
    varied = np.zeros(parts[0].shape[1], dtype=bool)
    first = parts[0][0]
    for rows in parts:
        if is_sparse(rows):
            varied[rows.tocsr().indices] = True
            continue
        different = rows[:, ~varied] != first[~varied]
        gaps = np.isnan(rows[:, ~varied]) & np.isnan(first[~varied])
        varied[~varied] = (different & ~gaps).any(axis=0)
    return varied


def row_keys(rows: FloatArray) -> Any:
    """One number for each row of a dense matrix; equal rows have equal numbers."""
    keys = np.zeros(len(rows), dtype=np.uint64)
    for k in range(rows.shape[1]):
        column = rows[:, k].astype(np.float64) + 0.0  # one zero
        column[np.isnan(column)] = np.nan  # one NaN
        keys = mixed_bits(keys ^ np.ascontiguousarray(column).view(np.uint64))
    return keys


def mixed_bits(bits: Any) -> Any:
    """Integers of 64 bits as others that look random; products wrap around."""
    product = bits * np.uint64(0x9E3779B97F4A7C15)
    return product ^ (product >> np.uint64(29))


def stack_rows(*parts: Rows) -> Rows:
    """The parts stacked vertically; sparse parts give a sparse matrix, data frames a data frame."""
    if hasattr(parts[0], "stack"):
        return parts[0].stack(parts)
    if any(is_sparse(part) for part in parts):
        return scipy.sparse.vstack(parts, format="csr")
    return np.concatenate(parts)


def at_rows(values: Any, index: Any) -> Any:
    """The values of the rows at ``index``; None if there are none."""
    if values is None:
        return None
    return values[index]


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows, their weights and the groups that they belong to.

    Without weights every row has weight 1. Rows of one group, such as all rows of a
    customer, depend on each other; without groups all rows are independent.

    ``place``: Positions of the rows in a larger sample for which a learner has prepared something,
    or -1 for rows that are not part of it.
    """

    rows: Rows
    weight: FloatArray | None = None
    groups: IntArray | None = None
    place: IntArray | None = None

    def __len__(self) -> int:
        return n_rows(self.rows)

    @property
    def total(self) -> float:
        """Sum of the weights, or the number of rows if there are none."""
        if self.weight is None:
            return float(len(self))
        return float(self.weight.sum())

    @property
    def n_independent(self) -> int:
        """Number of groups, or the number of rows if there are no groups."""
        if self.groups is None:
            return len(self)
        return len(np.unique(self.groups))

    def take(self, index: Any) -> Sample:
        """The rows at ``index`` with their weights, groups and places."""
        return Sample(
            self.rows[index],
            at_rows(self.weight, index),
            at_rows(self.groups, index),
            at_rows(self.place, index),
        )

    def placed(self) -> Sample:
        """The same sample as the larger one to which places refer."""
        return replace(self, place=np.arange(len(self)))

    def joined(self, other: Sample) -> Sample:
        """The rows of both; those of ``other`` are independent if there are groups."""
        if len(other) == 0:
            return self
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([self.weights(), other.weights()])
        groups = self.groups
        if groups is not None:
            groups = np.append(groups, -1 - np.arange(len(other)))
        place = self.place
        if place is not None:
            place = np.append(place, np.full(len(other), -1))
        return Sample(stack_rows(self.rows, other.rows), weight, groups, place)

    def at_most(self, n: int, rng: np.random.Generator) -> Sample:
        """The sample itself, or ``n`` randomly drawn rows if it has more."""
        if len(self) <= n:
            return self
        return self.take(np.sort(rng.choice(len(self), n, replace=False)))

    def weights(self) -> FloatArray:
        """One weight per row; ones if there are no weights."""
        if self.weight is None:
            return np.ones(len(self))
        return self.weight


@dataclass(frozen=True, slots=True)
class SamplePair:
    """A positive and an unlabeled sample with the same columns."""

    positive: Sample
    unlabeled: Sample

    def __len__(self) -> int:
        return len(self.positive) + len(self.unlabeled)

    @property
    def weighted(self) -> bool:
        """Whether rows of either sample have weights."""
        return self.positive.weight is not None or self.unlabeled.weight is not None

    @property
    def labelled_fraction(self) -> float:
        """Fraction of the labelled positives among all rows, by weight."""
        return self.positive.total / (self.positive.total + self.unlabeled.total)

    @property
    def smallest_total(self) -> float:
        """The smaller of the two total weights."""
        return min(self.positive.total, self.unlabeled.total)

    def take(self, positive: IntArray, unlabeled: IntArray) -> SamplePair:
        """The rows of each sample at the given positions."""
        return SamplePair(self.positive.take(positive), self.unlabeled.take(unlabeled))

    def at_most(self, n: int, rng: np.random.Generator) -> SamplePair:
        """At most ``n`` randomly drawn rows of each sample."""
        return SamplePair(self.positive.at_most(n, rng), self.unlabeled.at_most(n, rng))

    def with_rows(self, positive: Rows, unlabeled: Rows) -> SamplePair:
        """The same samples with something else in place of their rows, such as scores."""
        return SamplePair(
            replace(self.positive, rows=positive), replace(self.unlabeled, rows=unlabeled)
        )

    def placed(self) -> SamplePair:
        """The same samples as the larger ones to which places refer."""
        return SamplePair(self.positive.placed(), self.unlabeled.placed())

    def stacked(self) -> Rows:
        """Positive rows followed by unlabeled rows."""
        return stack_rows(self.positive.rows, self.unlabeled.rows)

    def flags(self) -> FloatArray:
        """1 for the positive and 0 for the unlabeled rows, in the order of :meth:`stacked`."""
        return np.repeat([1.0, 0.0], [len(self.positive), len(self.unlabeled)])

    def weights(self) -> FloatArray | None:
        """Weights in the order of :meth:`stacked`, or None if neither sample has weights."""
        if not self.weighted:
            return None
        return np.concatenate([self.positive.weights(), self.unlabeled.weights()])

    def unit_weights(self) -> FloatArray | None:
        """Weights with mean 1, because the minimum size of a tree leaf refers to rows."""
        weight = self.weights()
        if weight is None:
            return None
        return np.asarray(weight / weight.mean())

    def equal_weights(self) -> FloatArray:
        """Weights with which both samples have the same total, the harmonic mean of their totals.

        The odds are then the ratio, and the sum of p(1 - p) at constant odds is as without them.
        The gradient of the mean loss is as large with rare positives as with frequent ones, so
        that fits to rare positives do not stop too early.
        """
        positive = 2 * (1 - self.labelled_fraction) * self.positive.weights()
        unlabeled = 2 * self.labelled_fraction * self.unlabeled.weights()
        return np.concatenate([positive, unlabeled])

    def varied(self) -> BoolArray:
        """Whether each column of these matrices has two different values; a gap is a value."""
        return varied_columns([self.positive.rows, self.unlabeled.rows])

    def log_odds(self) -> float:
        """Log of the total positive over the total unlabeled weight.

        A ratio is the odds divided by its exponential.
        """
        return float(np.log(self.positive.total / self.unlabeled.total))
