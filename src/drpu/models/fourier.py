"""Log-ratios that are linear in random cosines, or in the columns, by logistic regression.

:class:`LinearFunction` is also what the score learners of :mod:`drpu.models.scores` return.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.linear_model import LogisticRegression

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_integer, check_random_state, check_real
from drpu._codec import Array, Number, kept
from drpu._samples import Sample, SamplePair, is_sparse, n_rows
from drpu.exceptions import DataError
from drpu.models.choices import FOURIER
from drpu.models.features import (
    MEANS,
    Basis,
    Scaling,
    median_distance,
    rounded_factor,
    row_step,
    standardised,
)
from drpu.models.graphs import Graph
from drpu.models.learner import Function, RatioLearner, Scorer, within_limits

# -- random cosines -------------------------------------------------------------------------------

_CHUNK = 256  # rows of cosines computed at a time, so that they fit into the cache


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
    far: Annotated[float, Number(1e-6, 1e6)]  # columns are clipped at this many deviations
    length: Annotated[float, Number(1e-6, 1e6)]

    def __post_init__(self) -> None:
        if self.scaling.shift.shape != self.frequencies.shape[:1] or not self.phase.size:
            raise DataError(
                "the scaling of cosines must have their columns, and there must be a cosine."
            )

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
        """Factor of the columns as features: a row of them is as long as a row of cosines."""
        return math.sqrt(self.length / self.n_columns)

    def same(self, other: Cosines) -> bool:
        """Whether the other cosines are the same functions of rows."""
        if self is other:
            return True
        pairs = (
            (self.frequencies, other.frequencies),
            (self.phase, other.phase),
            (self.scaling.shift, other.scaling.shift),
            (self.scaling.scale, other.scaling.scale),
            (self.far, other.far),
            (self.length, other.length),
        )
        return all(np.array_equal(first, second) for first, second in pairs)

    @property
    def step(self) -> float:
        """Standardised values are rounded to multiples of this step."""
        return row_step(self.n_columns, self.far)

    def standardised(self, X: Rows) -> FloatArray:
        """Standardised columns, clipped, and rounded so that the product in the angles is exact."""
        # In C order: einsum adds up rows of another order differently.
        Z = np.subtract(X, self.scaling.shift, order="C")
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
        features: FloatArray = np.empty((n_rows(X), self.size + columns), dtype=dtype)
        for start in range(0, len(features), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            Z = self.standardised(X[chunk])
            features[chunk, : self.size] = self.amplitude * np.cos(self.angles(Z))
            if linear:
                features[chunk, self.size :] = self.column_factor * Z
        return features


@kept("fourier")
@dataclass(frozen=True, eq=False)
class FourierFunction(Function):
    """Log-ratio that is linear in cosines, and in the columns if ``linear`` is not None."""

    statistics: ClassVar[tuple[str, ...]] = MEANS
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
        return _scores_of([self], X)[:, 0]

    @classmethod
    def together(cls, functions: Sequence[Self]) -> Scorer:
        """The scores of several functions; cosines that they have in common are computed once."""
        groups: list[list[int]] = []
        for i, function in enumerate(functions):
            for group in groups:
                if functions[group[0]].cosines.same(function.cosines):
                    group.append(i)
                    break
            else:
                groups.append([i])

        def scores(X: Rows) -> FloatArray:
            columns = np.empty((n_rows(X), len(functions)))
            for group in groups:
                columns[:, group] = _scores_of([functions[i] for i in group], X)
            return within_limits(columns)

        return scores

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the log-ratios of the rows ``X`` to the graph."""
        op = graph.op
        cosines = self.cosines
        z = op("Div", op("Sub", X, cosines.scaling.shift), cosines.scaling.scale)
        z = op("Min", op("Max", z, [[-cosines.far]]), [[cosines.far]])
        z = op("Mul", op("Round", op("Div", z, cosines.step)), cosines.step)
        waves = op("Add", op("MatMul", z, cosines.frequencies), cosines.phase)
        # Python also computes the cosines in float32. With the same rounding, rows near a step of
        # the calibration stay on the same side.
        single = op("Cast", waves, to=int(graph.onnx.TensorProto.FLOAT))
        values = graph.double(op("Cos", single))
        weights = (self.coef * cosines.amplitude)[:, None]
        total = op("Add", op("MatMul", values, weights), self.intercept)
        if self.linear is None:
            return total
        return op("Add", total, op("MatMul", z, self.linear[:, None]))


def _scores_of(functions: Sequence[FourierFunction], X: Rows) -> FloatArray:
    """The scores of functions of the same cosines, (rows, functions)."""
    cosines = functions[0].cosines
    weights = [function.coef * cosines.amplitude for function in functions]
    scores = np.empty((n_rows(X), len(functions)))
    # One pair of buffers for all chunks: new memory would cost more than the cosines.
    wide_buffer = np.empty((min(_CHUNK, len(scores)), cosines.size))
    single_buffer = np.empty_like(wide_buffer, dtype=np.float32)
    for start in range(0, len(scores), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        rows = X[chunk]
        waves = wide_buffer[: len(rows)]
        angles = single_buffer[: len(rows)]
        # Cosines are many times faster in float32, which changes the sum by about 1e-6. einsum
        # sums a row in the same order in every batch, which a matrix product does not guarantee.
        Z = cosines.standardised(rows)
        angles[:] = cosines.angles(Z, out=waves)
        waves[:] = np.cos(angles, out=angles)
        for i, function in enumerate(functions):
            sums = np.einsum("ij,j->i", waves, weights[i])
            if function.linear is not None:
                sums += np.einsum("ij,j->i", Z, function.linear)
            scores[chunk, i] = sums + function.intercept
    return scores


@dataclass(eq=False, repr=False)
class FourierRatio(RatioLearner):
    """Log-ratio linear in cosines of random directions, by logistic regression of P against U.

    The cosines approximate Gaussian kernels whose widths are spread around the median
    distance between rows, so that no width has to be chosen. Above 40,000 unlabeled rows
    up to eight samples of 20,000 rows are fitted, and their coefficients are averaged.
    Random numbers and coefficients are kept, but no rows.
    """

    accepts_sparse = False
    fits_in_threads: ClassVar[bool] = True

    n_features: int = 1000
    _: KW_ONLY
    C: float = 0.1  # inverse strength of the shrinkage
    linear: bool = False  # whether columns are features, too; with few rows, this can add errors
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> FourierFunction:
        """The density ratio of checked samples."""
        size = check_integer("n_features", self.n_features, low=1)
        check_real("C", self.C, low=1e-12)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        unlabeled = pair.unlabeled.at_most(FOURIER.most_rows, rng)
        cosines = _draw_cosines(unlabeled, size, rng)

        positive = pair.positive.at_most(FOURIER.most_rows, rng)
        coef, intercept = self._fit_part(cosines, SamplePair(positive, unlabeled))
        coefs = [coef]
        intercepts = [intercept]
        n_fits = min(FOURIER.most_fits, len(pair.unlabeled) // FOURIER.most_rows)
        while len(coefs) < n_fits:
            positive = pair.positive.at_most(FOURIER.most_rows, rng)
            unlabeled = pair.unlabeled.at_most(FOURIER.most_rows, rng)
            coef, intercept = self._fit_part(cosines, SamplePair(positive, unlabeled))
            coefs.append(coef)
            intercepts.append(intercept)

        mean = np.mean(coefs, axis=0)
        linear = None
        if len(mean) > size:
            linear = mean[size:] * cosines.column_factor
        return FourierFunction(cosines, mean[:size], float(np.mean(intercepts)), linear)

    def _fit_part(self, cosines: Cosines, pair: SamplePair) -> tuple[FloatArray, float]:
        """Coefficients and the intercept of the log-ratio; of many rows with half the memory."""
        linear = self.linear and cosines.n_columns <= FOURIER.linear_columns
        dtype = np.float64 if len(pair) <= FOURIER.exact_rows else np.float32
        features = cosines.features(pair.stacked(), linear=linear, dtype=dtype)
        regression = LogisticRegression(C=self.C, max_iter=200, tol=1e-3)
        regression.fit(features, pair.flags(), sample_weight=pair.weights())
        return regression.coef_[0], float(regression.intercept_[0]) - pair.log_odds()


def _draw_cosines(unlabeled: Sample, size: int, rng: np.random.Generator) -> Cosines:
    """Random cosines, whose widths are spread around the median distance of unlabeled rows."""
    scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
    typical = median_distance(unlabeled.rows, scaling, rng)
    width = typical * np.exp(rng.uniform(np.log(FOURIER.narrow), np.log(FOURIER.wide), size))
    frequencies = rng.standard_normal((unlabeled.rows.shape[1], size)) / width
    phase = rng.uniform(0, 2 * np.pi, size)
    return Cosines(scaling, rounded_factor(frequencies), phase, FOURIER.far, FOURIER.length)


# -- columns --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Design:
    """Features and weights of rows: a dense matrix, or sparse rows that are scaled on the fly."""

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
    """Standardised columns of a sample over the root of their number, or its random features."""
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

    statistics: ClassVar[tuple[str, ...]] = MEANS

    features: Scaling | Basis
    coef: Annotated[FloatArray, Array("m")]  # coefficients of the features
    intercept: float  # added to their sum
    ridge: Annotated[float, Number(low=0)] | None = None  # in use; None if the fit had none

    def __post_init__(self) -> None:
        size = self.n_columns
        if isinstance(self.features, Basis):
            size = self.features.size
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
        parts = []
        for start in range(0, n_rows(X), _SCORED_ROWS):
            rows = Sample(X[start : start + _SCORED_ROWS])
            parts.append(design(self.features, rows).times(self.coef))
        return np.asarray(np.concatenate(parts) + self.intercept, dtype=np.float64)

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the scores of the rows ``X`` to the graph."""
        if isinstance(self.features, Basis):
            phi = self.features.onnx(graph, 1.0, X)
            coef = self.coef
        else:
            phi = graph.op("Div", graph.op("Sub", X, self.features.shift), self.features.scale)
            coef = self.coef / np.sqrt(self.n_columns)
        return graph.op("Add", graph.op("MatMul", phi, coef[:, None]), self.intercept)


@dataclass(eq=False, repr=False)
class LinearRatio(RatioLearner):
    """Log-ratio linear in the columns, by logistic regression of P against U; for sparse rows.

    Columns are divided by their standard deviations. Those of sparse rows are not centred.
    """

    fits_in_threads: ClassVar[bool] = True

    C: float = 0.1

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> LinearFunction:
        """The density ratio of checked samples."""
        check_real("C", self.C, low=1e-12)
        rows = pair.stacked()
        scaling = Scaling.of(rows, None)
        if is_sparse(rows):
            scaling = Scaling(np.zeros_like(scaling.shift), scaling.scale)
        scaled, _ = standardised(rows, scaling)
        regression = LogisticRegression(C=self.C, max_iter=1000)
        regression.fit(scaled, pair.flags(), sample_weight=pair.weights())
        coef = regression.coef_[0] * np.sqrt(rows.shape[1])
        return LinearFunction(scaling, coef, float(regression.intercept_[0]) - pair.log_odds())
