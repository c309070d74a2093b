"""Features of rows that kernel, Fourier and linear models share: scalings and Gaussian bases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray, Rows
from drpu._codec import Array, kept
from drpu._samples import Sample, is_sparse, n_rows
from drpu.exceptions import DataError
from drpu.models.graphs import Graph

# -- sums that do not depend on the batch ---------------------------------------------------------

_MANTISSA = 53  # bits of a float64


def exact_product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` to about 13 digits, each row the same in any batch.

    Both factors are split into a rounded part and a rounded rest. The three products
    that matter are exact, and are added in a fixed order.
    """
    bits = _bits(2 * A.shape[1])
    high_a = _rounded(A, bits, axis=1)
    high_b = _rounded(B, bits, axis=0)
    rest_a = _rounded(A - high_a, bits, axis=1)
    rest_b = _rounded(B - high_b, bits, axis=0)
    product: FloatArray = high_a @ high_b
    product += high_a @ rest_b
    product += rest_a @ high_b
    return product


def rounded_factor(B: FloatArray) -> FloatArray:
    """``B`` of shape (d, m) with each column rounded to a fixed step.

    Its product with rows that are multiples of :func:`row_step` is exact.
    """
    return _rounded(B, _bits(B.shape[0]), axis=0)


def row_step(columns: int, largest: float) -> float:
    """Step to round rows to whose absolute values are at most ``largest``."""
    _, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - _bits(columns))


def _bits(terms: int) -> int:
    """Bits that both factors may have so that a sum of ``terms`` products fits into a float64."""
    return max(1, (_MANTISSA - int(terms).bit_length()) // 2)


def _rounded(A: FloatArray, bits: int, axis: int) -> FloatArray:
    """``A`` in fixed point: ``bits`` bits below the largest absolute value along ``axis``."""
    _, exponent = np.frexp(np.abs(A).max(axis=axis, keepdims=True, initial=0.0))
    unit = np.ldexp(1.0, np.maximum(exponent - bits, -1000))  # which is not 0
    return np.asarray(np.rint(A / unit) * unit, dtype=np.float64)


# -- scaling --------------------------------------------------------------------------------------

MEANS = ("means and standard deviations of the columns, coefficients",)  # what a file keeps of them
# A column counts as constant if its standard deviation is below 1e-20; scales are larger.
LEAST_SCALE = 1e-30
CLIP = 3.0  # limit of softly clipped values, in standard deviations


@kept("scaling")
@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and scale of each column, or of each pixel of images."""

    shift: Annotated[FloatArray, Array("...")]
    scale: Annotated[FloatArray, Array("...", low=LEAST_SCALE)]

    def __post_init__(self) -> None:
        if self.shift.shape != self.scale.shape:
            raise DataError(
                "shift and scale must have one shape, "
                f"got {self.shift.shape} and {self.scale.shape}."
            )

    @classmethod
    def of(cls, X: Rows, weight: FloatArray | None) -> Scaling:
        """Mean and standard deviation of the columns; constant columns have scale 1."""
        if is_sparse(X):
            mean, variance = _lazy.mean_variance_axis(X.astype(np.float64), axis=0, weights=weight)
        else:
            if weight is None:
                mean = X.mean(axis=0, dtype=np.float64)
            else:
                mean = np.average(X, axis=0, weights=weight)
            variance = np.average((X - mean) ** 2, axis=0, weights=weight)
        is_constant = variance <= (1e-10 * np.maximum(1e-10, np.abs(mean))) ** 2
        return cls(mean, np.sqrt(np.where(is_constant, 1.0, variance)))

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
            # The order in memory is that of the sums.
            Z = np.ascontiguousarray((X - self.shift) / self.scale)
            return np.asarray(np.einsum("ij,ij->i", Z, Z))
        inverse = self.scale**-2.0
        cross = X.multiply(X) @ inverse - 2 * (X @ (self.shift * inverse))
        return np.asarray(cross + (self.shift**2) @ inverse)

    def softly_clipped(self, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Standardised values z as z / sqrt(1 + (z / 3)^2) in float32: no outlier exceeds 3."""
        z = (X - self.shift) / self.scale
        return np.asarray(z / np.sqrt(1 + (z / CLIP) ** 2), dtype=np.float32)


def standardised(X: Rows, scaling: Scaling) -> tuple[Rows, FloatArray]:
    """Rows divided by their scale, and the position of the standardised origin among them.

    Centring would make a sparse matrix dense, so the origin is shifted instead.
    """
    origin = scaling.shift / scaling.scale
    if is_sparse(X):
        scaled = X.astype(np.float64) @ scipy.sparse.diags_array(1 / scaling.scale)
        return scaled.tocsr(), origin
    return (X - scaling.shift) / scaling.scale, np.zeros_like(origin)


_PAIR_ROWS = 500  # rows between which distances are measured


def median_distance(X: Rows, scaling: Scaling, rng: np.random.Generator) -> float:
    """Median distance between two standardised rows, from a sample of them."""
    chosen = rng.permutation(n_rows(X))[:_PAIR_ROWS]
    Z, _ = standardised(X[chosen], scaling)
    distances = _lazy.pairwise_distances(Z)[np.triu_indices(len(chosen), k=1)]
    distances = distances[distances > 1e-12]
    return float(np.median(distances)) if distances.size else 1.0


# -- Gaussian bases -------------------------------------------------------------------------------

Kind = Literal["features", "centroids", "rows"]

MIN_ROWS = 5  # a mean of fewer rows would reveal too much about them
_CLUSTER_ROWS = 10_000  # k-means uses at most this many rows
# Values of a block of features: their 128 KiB fit into the cache and are not mapped anew by the
# allocator.
_CELLS = 2**14


@kept("basis")
@dataclass(frozen=True, eq=False)
class Basis:
    """Gaussian bumps on points, or random Fourier features of the Gaussian kernel.

    Features are computed in two steps. Only the second depends on the width, so a grid of
    widths shares the first.
    """

    kind: Kind  # what the points are
    points: Annotated[FloatArray, Array("md")]  # centres, or frequencies at width 1
    phase: Annotated[FloatArray, Array("p")]  # phases of the random features; empty for centres
    scaling: Scaling

    def __post_init__(self) -> None:
        phases = self.size if self.kind == "features" else 0
        if len(self.phase) != phases or self.scaling.shift.shape != self.points.shape[1:]:
            raise DataError(
                f"phase must have {phases} numbers, and scaling the columns of the points."
            )

    @property
    def size(self) -> int:
        """Number of basis functions."""
        return int(self.points.shape[0])

    def project(self, X: Rows) -> FloatArray:
        """The part of the features of ``X`` that does not depend on the width, (n, m)."""
        inner = self.scaling.times(X, self.points.T)
        if self.kind == "features":
            return inner
        # Squared distances, in place, because allocating memory costs more than the arithmetic.
        inner *= -2
        inner += np.einsum("ij,ij->i", self.points, self.points)
        inner += self.scaling.squared_norms(X)[:, None]
        return np.maximum(inner, 0, out=inner)

    def shape(
        self, projected: FloatArray, width: float, *, out: FloatArray | None = None
    ) -> FloatArray:
        """Features at a width, (n, m); ``out`` may be ``projected`` if it is not needed again."""
        if self.kind != "features":
            scaled = np.multiply(projected, -0.5 / width**2, out=out)
            return np.exp(scaled, out=scaled)
        scaled = np.divide(projected, width, out=out)
        scaled += self.phase
        np.cos(scaled, out=scaled)
        scaled *= np.sqrt(2 / self.size)
        return scaled

    def onnx(self, graph: Graph, width: float, X: str) -> str:
        """Add the features of the rows ``X`` at a width to the graph."""
        op = graph.op
        z = op("Div", op("Sub", X, self.scaling.shift), self.scaling.scale)
        inner = op("MatMul", z, self.points.T)
        if self.kind == "features":
            # The cosine is computed by the sine, which every runtime has in float64.
            wave = op("Sin", op("Add", op("Div", inner, width), self.phase + np.pi / 2))
            return op("Mul", wave, np.sqrt(2 / self.size))
        norms = np.einsum("ij,ij->i", self.points, self.points)
        distance = op("Sub", graph.total(op("Mul", z, z)), op("Mul", inner, 2.0))
        distance = op("Add", distance, norms)
        return op("Exp", op("Div", op("Max", distance, [[0.0]]), -2 * width**2))


def make_basis(
    kind: Kind, unlabeled: Rows, size: int, scaling: Scaling, rng: np.random.Generator
) -> Basis:
    """At most ``size`` basis functions of a kind, determined by the unlabeled rows."""
    if kind == "features":
        frequencies = rng.standard_normal((size, unlabeled.shape[1]))
        return Basis(kind, frequencies, rng.uniform(0, 2 * np.pi, size), scaling)
    if kind == "centroids":
        return Basis(kind, _centroids(unlabeled, size, scaling, rng), np.empty(0), scaling)
    rows = unlabeled[rng.permutation(n_rows(unlabeled))[:size]]
    Z, origin = standardised(rows, scaling)
    return Basis(kind, _dense(Z) - origin, np.empty(0), scaling)


def _centroids(X: Rows, size: int, scaling: Scaling, rng: np.random.Generator) -> FloatArray:
    """Means of clusters, without those smaller than MIN_ROWS."""
    chosen = np.sort(rng.permutation(n_rows(X))[:_CLUSTER_ROWS])
    size = min(size, len(chosen) // MIN_ROWS)
    if size == 0:
        return np.empty((0, X.shape[1]))
    Z, origin = standardised(X[chosen], scaling)
    n_clusters = min(size, _count_different(Z))
    seed = int(rng.integers(2**31))
    clusters = _lazy.KMeans(n_clusters, n_init=1, max_iter=20, random_state=seed).fit_predict(Z)
    counts = np.bincount(clusters, minlength=size)
    members = scipy.sparse.csr_array(
        (np.ones(len(clusters)), (clusters, np.arange(len(clusters)))), (size, len(clusters))
    )
    sums = _dense(members @ Z)
    large = counts >= MIN_ROWS
    return np.asarray(sums[large] / counts[large, None] - origin)


def _count_different(Z: Rows) -> int:
    """Number of different rows: KMeans warns of empty clusters if there are fewer of them.

    The different values of a random combination of the columns are counted.
    """
    weights = np.random.default_rng(0).normal(size=Z.shape[1])
    combined = Z @ weights if is_sparse(Z) else (Z * weights).sum(axis=1)
    return len(np.unique(combined))


def _dense(X: Rows) -> FloatArray:
    return np.asarray(X.toarray() if is_sparse(X) else X)


def blocks(sample: Sample, size: int) -> Iterator[tuple[Rows, FloatArray]]:
    """Rows and their weights in blocks, to limit the memory of their ``size`` features."""
    width = max(1, size)
    if not is_sparse(sample.rows):
        width = max(width, sample.rows.shape[1])
    step = max(1, _CELLS // width)
    weight = sample.weights()
    for start in range(0, len(sample), step):
        part = slice(start, start + step)
        yield sample.rows[part], weight[part]
