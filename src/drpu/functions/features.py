"""Standardised columns, dense or sparse."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances
from sklearn.utils.sparsefuncs import mean_variance_axis

from drpu._samples import is_sparse, n_rows, take_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.functions.links import exact_product

__all__ = ["MIN_ROWS", "Basis", "Kind", "Scaling", "make_basis", "median_distance"]

CLIP = 3.0  # limit of softly clipped values, in standard deviations


@dataclass(frozen=True, slots=True)
class Scaling:
    """Shift and scale of each column."""

    shift: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: Rows, weight: FloatArray | None) -> Scaling:
        """Mean and standard deviation of the columns; constant columns have scale 1."""
        if is_sparse(X):
            mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=weight)
        else:
            mean = (
                X.mean(axis=0, dtype=np.float64) if weight is None else np.average(X, axis=0, weights=weight)
            )
            variance = np.average((X - mean) ** 2, axis=0, weights=weight)
        tiny = variance <= (1e-10 * np.maximum(1e-10, np.abs(mean))) ** 2
        return cls(mean, np.where(tiny, 1.0, np.sqrt(np.where(tiny, 1.0, variance))))

    @classmethod
    def none(cls, d: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(d), np.ones(d))

    def times(self, X: Rows, M: FloatArray) -> FloatArray:
        """Standardised rows times the matrix ``M``; sparse rows stay sparse."""
        if is_sparse(X):
            return np.asarray(X @ (M / self.scale[:, None]) - (self.shift / self.scale) @ M)
        return exact_product((X - self.shift) / self.scale, M)

    def squared_norms(self, X: Rows) -> FloatArray:
        """Squared length of each standardised row."""
        if not is_sparse(X):
            Z = np.ascontiguousarray((X - self.shift) / self.scale)  # the order in memory is that of the sums
            return np.asarray(np.einsum("ij,ij->i", Z, Z))
        inverse = self.scale**-2.0
        cross = X.multiply(X) @ inverse - 2 * (X @ (self.shift * inverse))
        return np.asarray(cross + (self.shift**2) @ inverse)

    def softly_clipped(self, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Standardised values z as z / sqrt(1 + (z / 3)^2) in float32: no outlier exceeds 3."""
        z = (X - self.shift) / self.scale
        return np.asarray(z / np.sqrt(1 + (z / CLIP) ** 2), dtype=np.float32)


Kind = Literal["features", "centroids", "rows"]

MIN_ROWS = 5  # a mean of fewer rows would reveal too much about them
_CLUSTER_ROWS = 10_000  # k-means uses at most this many rows
_PAIR_ROWS = 500


@dataclass(frozen=True, slots=True)
class Basis:
    """Gaussian bumps on points, or random Fourier features of the Gaussian kernel.

    Features are computed in two steps. Only the second depends on the width, so a grid of
    widths shares the first.
    """

    kind: Kind
    points: FloatArray  # (m, d): centres, or frequencies at width 1
    phase: FloatArray  # (m,) for features, empty otherwise
    scaling: Scaling

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return int(self.points.shape[0])

    def project(self, X: Rows) -> FloatArray:
        """The part of the features of ``X`` that does not depend on the width, (n, m)."""
        inner = self.scaling.times(X, self.points.T)
        if self.kind == "features":
            return inner
        inner *= -2  # squared distances, in place, because allocating memory costs more than the arithmetic
        inner += np.einsum("ij,ij->i", self.points, self.points)
        inner += self.scaling.squared_norms(X)[:, None]
        return np.maximum(inner, 0, out=inner)

    def shape(self, projected: FloatArray, width: float, *, out: FloatArray | None = None) -> FloatArray:
        """Features at a width, (n, m); ``out`` may be ``projected`` if it is not needed again."""
        if self.kind != "features":
            scaled = np.multiply(projected, -0.5 / width**2, out=out)
            return np.exp(scaled, out=scaled)
        scaled = np.divide(projected, width, out=out)
        scaled += self.phase
        np.cos(scaled, out=scaled)
        scaled *= np.sqrt(2 / self.size)
        return scaled


def make_basis(kind: Kind, unlabeled: Rows, size: int, scaling: Scaling, rng: np.random.Generator) -> Basis:
    """At most ``size`` basis functions of a kind, determined by the unlabeled rows."""
    if kind == "features":
        frequencies = rng.standard_normal((size, unlabeled.shape[1]))
        return Basis(kind, frequencies, rng.uniform(0, 2 * np.pi, size), scaling)
    place = _centroids if kind == "centroids" else _some_rows
    return Basis(kind, place(unlabeled, size, scaling, rng), np.empty(0), scaling)


def median_distance(X: Rows, scaling: Scaling, rng: np.random.Generator) -> float:
    """Median distance between two standardised rows, from a sample of them."""
    chosen = rng.permutation(n_rows(X))[:_PAIR_ROWS]
    Z, _ = _standardised(take_rows(X, chosen), scaling)
    distances = pairwise_distances(Z)[np.triu_indices(len(chosen), k=1)]
    distances = distances[distances > 1e-12]
    return float(np.median(distances)) if distances.size else 1.0


def _some_rows(X: Rows, size: int, scaling: Scaling, rng: np.random.Generator) -> FloatArray:
    Z, origin = _standardised(take_rows(X, rng.permutation(n_rows(X))[:size]), scaling)
    return np.asarray((Z.toarray() if is_sparse(Z) else Z) - origin)


def _centroids(X: Rows, size: int, scaling: Scaling, rng: np.random.Generator) -> FloatArray:
    """Means of clusters, without those smaller than MIN_ROWS."""
    chosen = np.sort(rng.permutation(n_rows(X))[:_CLUSTER_ROWS])
    size = min(size, len(chosen) // MIN_ROWS)
    if size == 0:
        return np.empty((0, X.shape[1]))
    Z, origin = _standardised(take_rows(X, chosen), scaling)
    groups = _clusters(Z, size, int(rng.integers(2**31)))
    counts = np.bincount(groups, minlength=size)
    member = sparse.csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), (size, len(groups)))
    sums = member @ Z
    sums = sums.toarray() if is_sparse(sums) else sums
    large = counts >= MIN_ROWS
    return np.asarray(sums[large] / counts[large, None] - origin)


def _clusters(Z: Rows, size: int, seed: int) -> IntArray:
    with warnings.catch_warnings():  # fewer distinct rows than clusters: drop the empty ones
        warnings.simplefilter("ignore", ConvergenceWarning)
        groups = KMeans(size, n_init=1, max_iter=20, random_state=seed).fit_predict(Z)
    return np.asarray(groups, dtype=np.int64)


def _standardised(X: Rows, scaling: Scaling) -> tuple[Rows, FloatArray]:
    """Rows divided by their scale, and the position of the standardised origin among them.

    Centring would make a sparse matrix dense, so the origin is shifted instead.
    """
    origin = scaling.shift / scaling.scale
    if is_sparse(X):
        return (X.astype(np.float64) @ sparse.diags_array(1 / scaling.scale)).tocsr(), origin
    return (X - scaling.shift) / scaling.scale, np.zeros_like(origin)
