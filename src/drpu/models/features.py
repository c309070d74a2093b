"""Features of rows, and the functions that are linear in them: kernel, Fourier and linear."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.utils.sparsefuncs import mean_variance_axis

from drpu._codec import POSITIVE, Array, Number, kept
from drpu._samples import Sample, is_sparse, n_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import DataError
from drpu.models.function import Function
from drpu.models.graphs import Graph

# -- sums that do not depend on the batch -----------------------------------------------------------

_MANTISSA = 53  # bits of a float64


def exact_product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` to about 13 digits, each row the same in any batch.

    Both factors are split into a rounded part and a rounded rest. The three products
    that matter are exact, and are added in a fixed order.
    """
    bits = _bits(2 * A.shape[1])
    high_a, high_b = _rounded(A, bits, axis=1), _rounded(B, bits, axis=0)
    rest_a, rest_b = _rounded(A - high_a, bits, axis=1), _rounded(B - high_b, bits, axis=0)
    product: FloatArray = high_a @ high_b
    product += high_a @ rest_b
    product += rest_a @ high_b
    return product


def rounded_factor(B: FloatArray) -> FloatArray:
    """``B`` of shape (d, m) with each column rounded to a fixed step.

    Its product with rows that are multiples of :func:`row_step` is exact.
    """
    return _rounded(B, _bits(B.shape[0]), axis=0)


@lru_cache
def row_step(columns: int, largest: float) -> float:
    """Step to round rows to whose absolute values are at most ``largest``."""
    return math.ldexp(1.0, math.frexp(largest)[1] - _bits(columns))


def _bits(terms: int) -> int:
    """Bits that both factors may have so that a sum of ``terms`` products fits into a float64."""
    return max(1, (_MANTISSA - int(terms).bit_length()) // 2)


def _rounded(A: FloatArray, bits: int, axis: int) -> FloatArray:
    """``A`` in fixed point: ``bits`` bits below the largest absolute value along ``axis``."""
    _, exponent = np.frexp(np.abs(A).max(axis=axis, keepdims=True, initial=0.0))
    unit = np.ldexp(1.0, np.maximum(exponent - bits, -1000))  # which is not 0
    return np.asarray(np.rint(A / unit) * unit, dtype=np.float64)


# -- features -----------------------------------------------------------------------------------------

_MEANS = ("means and standard deviations of the columns, coefficients",)
CLIP = 3.0  # limit of softly clipped values, in standard deviations


@kept("scaling")
@dataclass(frozen=True, eq=False)
class Scaling:
    """Shift and scale of each column, or of each pixel of images."""

    shift: Annotated[FloatArray, Array("...")]
    scale: Annotated[FloatArray, Array("...", low=POSITIVE)]

    def __post_init__(self) -> None:
        if self.shift.shape != self.scale.shape:
            raise DataError(
                f"shift and scale must have one shape, got {self.shift.shape} and {self.scale.shape}."
            )

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

FLOOR = 0.01  # of ratios
MIN_ROWS = 5  # a mean of fewer rows would reveal too much about them
_CLUSTER_ROWS = 10_000  # k-means uses at most this many rows
_PAIR_ROWS = 500
# Values of a block of features: their 128 KiB fit into the cache and are not mapped anew by the allocator.
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
            raise DataError(f"phase must have {phases} numbers, and scaling the columns of the points.")

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
    if kind == "centroids":
        return Basis(kind, _centroids(unlabeled, size, scaling, rng), np.empty(0), scaling)
    rows = unlabeled[rng.permutation(n_rows(unlabeled))[:size]]
    Z, origin = standardised(rows, scaling)
    return Basis(kind, np.asarray((Z.toarray() if is_sparse(Z) else Z) - origin), np.empty(0), scaling)


def median_distance(X: Rows, scaling: Scaling, rng: np.random.Generator) -> float:
    """Median distance between two standardised rows, from a sample of them."""
    chosen = rng.permutation(n_rows(X))[:_PAIR_ROWS]
    Z, _ = standardised(X[chosen], scaling)
    distances = pairwise_distances(Z)[np.triu_indices(len(chosen), k=1)]
    distances = distances[distances > 1e-12]
    return float(np.median(distances)) if distances.size else 1.0


def _centroids(X: Rows, size: int, scaling: Scaling, rng: np.random.Generator) -> FloatArray:
    """Means of clusters, without those smaller than MIN_ROWS."""
    from sklearn.cluster import KMeans  # which nothing else needs

    chosen = np.sort(rng.permutation(n_rows(X))[:_CLUSTER_ROWS])
    size = min(size, len(chosen) // MIN_ROWS)
    if size == 0:
        return np.empty((0, X.shape[1]))
    Z, origin = standardised(X[chosen], scaling)
    # KMeans warns of empty clusters, so count the different values of a random combination of the columns.
    weights = np.random.default_rng(0).normal(size=Z.shape[1])
    different = len(np.unique(Z @ weights if is_sparse(Z) else (Z * weights).sum(axis=1)))
    seed = int(rng.integers(2**31))
    groups = KMeans(min(size, different), n_init=1, max_iter=20, random_state=seed).fit_predict(Z)
    counts = np.bincount(groups, minlength=size)
    member = sparse.csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), (size, len(groups)))
    sums = member @ Z
    sums = sums.toarray() if is_sparse(sums) else sums
    large = counts >= MIN_ROWS
    return np.asarray(sums[large] / counts[large, None] - origin)


def standardised(X: Rows, scaling: Scaling) -> tuple[Rows, FloatArray]:
    """Rows divided by their scale, and the position of the standardised origin among them.

    Centring would make a sparse matrix dense, so the origin is shifted instead.
    """
    origin = scaling.shift / scaling.scale
    if is_sparse(X):
        return (X.astype(np.float64) @ sparse.diags_array(1 / scaling.scale)).tocsr(), origin
    return (X - scaling.shift) / scaling.scale, np.zeros_like(origin)


def blocks(sample: Sample, size: int) -> Iterator[tuple[Rows, FloatArray]]:
    """Rows and their weights in blocks, to limit the memory of their ``size`` features."""
    X, weight = sample.rows, sample.weight
    step = max(1, _CELLS // max(1, size, 0 if is_sparse(X) else X.shape[1]))
    for start in range(0, len(sample), step):
        part = X[start : start + step]
        yield part, np.ones(n_rows(part)) if weight is None else weight[start : start + step]


@kept("kernel")
@dataclass(frozen=True, eq=False)
class KernelFunction(Function):
    """Log of a ratio that is linear in Gaussian basis functions, continued below 0.01 by its tangent.

    Fitted values below zero become ratios close to 0 and keep their order; the error is less than 0.004.

    ``width``, ``ridge``: The width and the ridge in use.
    ``holdout_risk``: Uncorrected least-squares risk of the chosen width and ridge, NaN if nothing was
    chosen.
    """

    statistics: ClassVar[tuple[str, ...]] = (
        "means and standard deviations of the columns, centres of clusters of rows, coefficients",
    )

    basis: Basis
    width: Annotated[float, Number(low=POSITIVE)]
    ridge: Annotated[float, Number(low=0)]
    coef: Annotated[FloatArray, Array("m")]  # coefficients of the basis functions
    intercept: float  # added to their sum
    holdout_risk: Annotated[float, Number(nan=True)] = np.nan

    def __post_init__(self) -> None:
        if len(self.coef) != self.basis.size:
            raise DataError(f"coef must have {self.basis.size} numbers, got {len(self.coef)}.")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.basis.points.shape[1])

    @property
    def keeps(self) -> dict[str, str]:
        """The centres, if they are training rows."""
        return {"KernelRatio": "training rows as centres"} if self.basis.kind == "rows" else {}

    def describe(self) -> str:
        """The number of basis functions."""
        what = "random features" if self.basis.kind == "features" else self.basis.kind
        return f"a kernel ratio of {self.basis.size} {what}"

    def _score(self, X: Rows) -> FloatArray:
        ratio = np.concatenate([self._ratios(part) for part, _ in blocks(Sample(X), self.basis.size)])
        return np.asarray(np.log(np.maximum(ratio, FLOOR)) + np.minimum(ratio - FLOOR, 0) / FLOOR)

    def _ratios(self, X: Rows) -> FloatArray:
        projected = self.basis.project(X)
        phi = self.basis.shape(projected, self.width, out=projected)
        # einsum sums a row in the same order in every batch, which a matrix product does not guarantee
        return np.asarray(self.intercept + np.einsum("ij,j->i", phi, self.coef))

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the log-ratios of the rows ``X`` to the graph."""
        phi = _onnx_basis(graph, self.basis, self.width, X)
        ratio = graph.op("Add", graph.op("MatMul", phi, self.coef[:, None]), self.intercept)
        below = graph.op("Min", graph.op("Sub", ratio, FLOOR), [[0.0]])
        above = graph.op("Log", graph.op("Max", ratio, [[FLOOR]]))
        return graph.op("Add", above, graph.op("Div", below, FLOOR))


def _onnx_basis(graph: Graph, basis: Basis, width: float, X: str) -> str:
    op = graph.op
    z = op("Div", op("Sub", X, basis.scaling.shift), basis.scaling.scale)
    inner = op("MatMul", z, basis.points.T)
    if basis.kind == "features":
        # The cosine is computed by the sine, which every runtime has in float64.
        wave = op("Sin", op("Add", op("Div", inner, width), basis.phase + np.pi / 2))
        return op("Mul", wave, np.sqrt(2 / basis.size))
    norms = np.einsum("ij,ij->i", basis.points, basis.points)
    distance = op("Add", op("Sub", graph.total(op("Mul", z, z)), op("Mul", inner, 2.0)), norms)
    return op("Exp", op("Div", op("Max", distance, [[0.0]]), -2 * width**2))


@kept("cosines")
@dataclass(frozen=True, eq=False)
class Cosines:
    """Cosines of random directions of the standardised and clipped columns.

    ``frequencies``: Rounded, so that the product with standardised columns is exact.
    ``length``: Squared length of a row of cosines; together with C it determines the shrinkage.
    """

    scaling: Scaling
    frequencies: Annotated[FloatArray, Array("dm")]
    phase: Annotated[FloatArray, Array("m")]  # added to the products
    far: Annotated[float, Number(1e-6, 1e6)]  # columns are clipped at this number of standard deviations
    length: Annotated[float, Number(1e-6, 1e6)]

    def __post_init__(self) -> None:
        if self.scaling.shift.shape != self.frequencies.shape[:1] or not self.phase.size:
            raise DataError("the scaling of cosines must have their columns, and there must be a cosine.")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.frequencies.shape[0])

    @property
    def size(self) -> int:
        """Number of cosines."""
        return len(self.phase)

    @property
    def amplitude(self) -> float:
        """The factor of each cosine."""
        return math.sqrt(2 * self.length / self.size)

    @property
    def column_factor(self) -> float:
        """Factor of the columns among the features: a row of columns is as long as a row of cosines."""
        return math.sqrt(self.length / self.n_columns)

    @property
    def step(self) -> float:
        """Standardised values are rounded to multiples of this step."""
        return row_step(self.n_columns, self.far)

    def standardised(self, X: Rows) -> FloatArray:
        """Standardised columns, clipped, and rounded so that the product in the angles is exact."""
        Z = np.subtract(X, self.scaling.shift, order="C")  # einsum adds up rows of another order differently
        Z /= self.scaling.scale
        Z = np.minimum(np.maximum(Z, -self.far, out=Z), self.far, out=Z)
        step = self.step
        Z /= step
        Z = np.rint(Z, out=Z)
        Z *= step  # now the product is exact in any order of summation
        return np.asarray(Z)

    def angles(self, Z: FloatArray, out: FloatArray | None = None) -> FloatArray:
        """Angles of standardised rows, (n, m)."""
        angles = np.matmul(Z, self.frequencies, out=out)
        angles += self.phase
        return np.asarray(angles)

    def features(self, X: Rows, *, linear: bool, dtype: type) -> FloatArray:
        """Cosines of all rows, and the columns themselves if ``linear``, computed in chunks."""
        columns = self.n_columns if linear else 0
        found: FloatArray = np.empty((n_rows(X), self.size + columns), dtype=dtype)
        for start in range(0, len(found), _CHUNK):
            at = slice(start, start + _CHUNK)
            Z = self.standardised(X[at])
            found[at, : self.size] = self.amplitude * np.cos(self.angles(Z))
            if linear:
                found[at, self.size :] = self.column_factor * Z
        return found


_CHUNK = 256  # rows of cosines computed at a time, so that they fit into the cache


@kept("fourier")
@dataclass(frozen=True, eq=False)
class FourierFunction(Function):
    """Log-ratio that is linear in cosines, and in the columns if ``linear`` is not None."""

    statistics: ClassVar[tuple[str, ...]] = _MEANS
    accepts_sparse = False

    cosines: Cosines
    coef: Annotated[FloatArray, Array("m")]
    intercept: float
    linear: Annotated[FloatArray, Array("d")] | None = None

    def __post_init__(self) -> None:
        if len(self.coef) != self.cosines.size:
            raise DataError(f"coef must have {self.cosines.size} numbers, got {len(self.coef)}.")
        if self.linear is not None and len(self.linear) != self.n_columns:
            raise DataError(f"linear must have {self.n_columns} numbers, got {len(self.linear)}.")

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.cosines.n_columns

    def describe(self) -> str:
        """The number of cosines."""
        return f"a smooth fit of {self.cosines.size} cosines"

    def _score(self, X: Rows) -> FloatArray:
        weights = self.coef * self.cosines.amplitude
        scores = np.empty(n_rows(X))
        # One pair of buffers for all chunks: new memory would cost more than the cosines.
        room = np.empty((min(_CHUNK, len(scores)), self.cosines.size))
        narrow = np.empty_like(room, dtype=np.float32)
        for start in range(0, len(scores), _CHUNK):
            at = slice(start, start + _CHUNK)
            rows = X[at]
            waves, angles = room[: len(rows)], narrow[: len(rows)]
            # Cosines are many times faster in float32, which changes the sum by about 1e-6. einsum sums
            # a row in the same order in every batch, which a matrix product does not guarantee.
            Z = self.cosines.standardised(rows)
            angles[:] = self.cosines.angles(Z, out=waves)
            waves[:] = np.cos(angles, out=angles)
            scores[at] = np.einsum("ij,j->i", waves, weights)
            if self.linear is not None:
                scores[at] += np.einsum("ij,j->i", Z, self.linear)
        return scores + self.intercept

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the log-ratios of the rows ``X`` to the graph."""
        op, cosines, single = graph.op, self.cosines, int(graph.onnx.TensorProto.FLOAT)
        z = op("Div", op("Sub", X, cosines.scaling.shift), cosines.scaling.scale)
        z = op("Min", op("Max", z, [[-cosines.far]]), [[cosines.far]])
        z = op("Mul", op("Round", op("Div", z, cosines.step)), cosines.step)
        waves = op("Add", op("MatMul", z, cosines.frequencies), cosines.phase)
        # Python also computes the cosines in float32. With the same rounding, rows near a step of the
        # calibration stay on the same side.
        values = graph.double(op("Cos", op("Cast", waves, to=single)))
        weights = (self.coef * cosines.amplitude)[:, None]
        total = op("Add", op("MatMul", values, weights), self.intercept)
        return total if self.linear is None else op("Add", total, op("MatMul", z, self.linear[:, None]))


@dataclass(frozen=True, slots=True)
class Design:
    """Features and weights of rows: a dense matrix, or sparse rows with a scaling applied on the fly."""

    rows: Rows
    weight: FloatArray | None
    scaling: Scaling | None = None
    factor: float = 1.0

    def __len__(self) -> int:
        return n_rows(self.rows)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.rows.shape[1])

    def times(self, w: FloatArray) -> FloatArray:
        """Scores of all rows."""
        if self.scaling is None:
            return np.asarray(self.rows @ w)
        return self.factor * self.scaling.times(self.rows, w[:, None])[:, 0]

    def adjoint(self, v: FloatArray) -> FloatArray:
        """Sum of the features of all rows, each multiplied by its entry of ``v``."""
        if self.scaling is None:
            return np.asarray(self.rows.T @ v)
        centred = np.asarray(self.rows.T @ v) - self.scaling.shift * v.sum()
        return np.asarray(self.factor * centred / self.scaling.scale)

    def take(self, index: IntArray) -> Design:
        """The rows at ``index``."""
        weight = None if self.weight is None else self.weight[index]
        return Design(self.rows[index], weight, self.scaling, self.factor)


def design(features: Scaling | Basis, sample: Sample) -> Design:
    """The standardised columns of a sample, divided by the root of their number, or its random features."""
    X = sample.rows
    if isinstance(features, Basis):
        return Design(features.shape(features.project(X), 1.0), sample.weight)
    factor = 1 / np.sqrt(X.shape[1])
    if is_sparse(X):
        return Design(X, sample.weight, features, factor)
    return Design((X - features.shift) * (factor / features.scale), sample.weight)


_SCORED_ROWS = 20_000  # rows whose features are computed at a time


@kept("linear")
@dataclass(frozen=True, eq=False)
class LinearFunction(Function):
    """Score that is linear in standardised columns or in random features, see :func:`design`."""

    statistics: ClassVar[tuple[str, ...]] = _MEANS

    features: Scaling | Basis
    coef: Annotated[FloatArray, Array("m")]  # coefficients of the features
    intercept: float  # added to their sum
    ridge: Annotated[float, Number(low=0)] | None = None  # the ridge in use; None if the fit had none

    def __post_init__(self) -> None:
        size = self.features.size if isinstance(self.features, Basis) else self.n_columns
        if self.coef.shape != (size,) or self._scaling.shift.ndim != 1:
            raise DataError(f"coef must have {size} numbers, got {len(self.coef)}.")

    @property
    def _scaling(self) -> Scaling:
        return self.features.scaling if isinstance(self.features, Basis) else self.features

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self._scaling.shift.size)

    def describe(self) -> str:
        """What the features are."""
        if isinstance(self.features, Scaling):
            return f"a linear fit of {self.n_columns} columns"
        return f"a smooth fit of {self.features.size} random features"

    def _score(self, X: Rows) -> FloatArray:
        parts = [
            design(self.features, Sample(X[start : start + _SCORED_ROWS])).times(self.coef)
            for start in range(0, n_rows(X), _SCORED_ROWS)
        ]
        return np.asarray(np.concatenate(parts) + self.intercept, dtype=np.float64)

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the scores of the rows ``X`` to the graph."""
        if isinstance(self.features, Basis):
            phi, coef = _onnx_basis(graph, self.features, 1.0, X), self.coef
        else:
            phi = graph.op("Div", graph.op("Sub", X, self.features.shift), self.features.scale)
            coef = self.coef / np.sqrt(self.n_columns)
        return graph.op("Add", graph.op("MatMul", phi, coef[:, None]), self.intercept)
