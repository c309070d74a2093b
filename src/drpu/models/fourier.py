"""Functions that are linear in random cosines, or in the columns.

Ratios are fitted by logistic regression, and scores of the other methods by full-batch gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray

from drpu import _lazy
from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_integer, check_random_state, check_real
from drpu._codec import Array, Number, kept
from drpu._samples import Sample, SamplePair, is_sparse, n_rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.choices import FOURIER, LINEAR
from drpu.models.features import (
    MEANS,
    MIN_ROWS,
    Basis,
    Scaling,
    median_distance,
    rounded_factor,
    row_step,
    standardised,
)
from drpu.models.graphs import Graph
from drpu.models.learner import Function, RatioLearner, ScoreLearner, Scorer, within_limits
from drpu.models.risks import LOSSES, PUObjective, ShiftedRisk

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

    def features(self, X: Rows, *, linear: bool) -> NDArray[np.float32]:
        """Cosines of all rows, and the columns themselves if ``linear``, computed in chunks.

        Like those of scores they are computed in float32.
        """
        columns = self.n_columns if linear else 0
        features = np.empty((n_rows(X), self.size + columns), dtype=np.float32)
        buffer = np.empty((min(_CHUNK, len(features)), self.size))
        for start in range(0, len(features), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            Z = self.standardised(X[chunk])
            waves = features[chunk, : self.size]
            waves[:] = self.angles(Z, out=buffer[: len(Z)])
            np.cos(waves, out=waves)
            waves *= np.float32(self.amplitude)
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

    # set for fits to parts of the same samples
    shared: SharedCosines | None = field(default=None, init=False)

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> FourierFunction:
        """The density ratio of checked samples."""
        check_integer("n_features", self.n_features, low=1)
        check_real("C", self.C, low=1e-12)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        shared = self.shared
        if shared is None:
            shared = self.share(pair, rng, fits=1)
        cosines = shared.cosines
        n_fits = min(FOURIER.most_fits, len(pair.unlabeled) // FOURIER.most_rows)
        coefs = []
        intercepts = []
        for _ in range(max(n_fits, 1)):
            coef, intercept = self._fit_part(shared, pair.at_most(FOURIER.most_rows, rng))
            coefs.append(coef)
            intercepts.append(intercept)

        mean = np.mean(coefs, axis=0)
        linear = None
        if len(mean) > cosines.size:
            linear = mean[cosines.size :] * cosines.column_factor
        return FourierFunction(cosines, mean[: cosines.size], float(np.mean(intercepts)), linear)

    def share(self, pair: SamplePair, rng: np.random.Generator, *, fits: int) -> SharedCosines:
        """Random cosines for so many fits to parts of these samples."""
        cosines = _draw_cosines(pair, self.n_features, rng)
        if fits == 1 or self.linear or len(pair) > FOURIER.shared_rows:
            return SharedCosines(cosines)
        positive = cosines.features(pair.positive.rows, linear=False)
        return SharedCosines(cosines, positive, cosines.features(pair.unlabeled.rows, linear=False))

    def _fit_part(self, shared: SharedCosines, pair: SamplePair) -> tuple[FloatArray, float]:
        """Coefficients and the intercept of the log-ratio."""
        linear = self.linear and shared.cosines.n_columns <= FOURIER.linear_columns
        features = shared.features(pair, linear=linear)
        regression = _lazy.LogisticRegression(C=self.C, max_iter=200, tol=1e-3)
        with _lazy.config_context(assume_finite=True):  # cosines are
            regression.fit(features, pair.flags(), sample_weight=pair.equal_weights())
        coef = regression.coef_[0].astype(np.float64)
        return coef, float(regression.intercept_[0])


@dataclass(frozen=True, eq=False)
class SharedCosines:
    """Cosines for several fits to parts of two samples; no label is used.

    ``positive``, ``unlabeled``: The cosines of the rows of both samples, if there are few rows.
    """

    cosines: Cosines
    positive: NDArray[np.float32] | None = None
    unlabeled: NDArray[np.float32] | None = None

    def features(self, pair: SamplePair, *, linear: bool) -> NDArray[np.float32]:
        """Features of a part of the samples, whose rows have places in them."""
        if self.positive is None or self.unlabeled is None or linear:
            return self.cosines.features(pair.stacked(), linear=linear)
        features = np.empty((len(pair), self.cosines.size), dtype=np.float32)
        n_positive = len(pair.positive)
        self._fill(features[:n_positive], pair.positive, self.positive)
        self._fill(features[n_positive:], pair.unlabeled, self.unlabeled)
        return features

    def _fill(
        self, features: NDArray[np.float32], sample: Sample, known: NDArray[np.float32]
    ) -> None:
        """Copy the cosines of rows that have a place, and compute those of others."""
        place = sample.place
        if place is None:
            place = np.full(len(sample), -1)
        np.take(known, place, axis=0, out=features, mode="clip")
        others = np.flatnonzero(place < 0)
        if others.size:
            features[others] = self.cosines.features(sample.rows[others], linear=False)


def _draw_cosines(pair: SamplePair, size: int, rng: np.random.Generator) -> Cosines:
    """Random cosines, whose widths are spread around the median distance of unlabeled rows."""
    sample = pair.unlabeled.at_most(FOURIER.most_rows, rng)
    if len(sample) < MIN_ROWS:
        sample = sample.joined(pair.positive.at_most(FOURIER.most_rows, rng))
    rows = sample.rows
    scaling = Scaling.none(rows.shape[1])
    if len(sample) >= MIN_ROWS:
        scaling = Scaling.of(rows, sample.weight)
    typical = median_distance(rows, scaling, rng)
    width = typical * np.exp(rng.uniform(np.log(FOURIER.narrow), np.log(FOURIER.wide), size))
    varied = pair.varied()  # other columns change no draw
    frequencies = np.zeros((len(varied), size))
    frequencies[varied] = rng.standard_normal((int(varied.sum()), size)) / width
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

    Columns are divided by their standard deviations. Where these are smaller than those of frequent
    columns, columns are divided by these instead: otherwise the rare words of texts would have the
    largest values. Sparse rows are not centred.
    """

    fits_in_threads: ClassVar[bool] = True

    C: float = 0.1

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> LinearFunction:
        """The density ratio of checked samples."""
        check_real("C", self.C, low=1e-12)
        rows = pair.stacked()
        scaling = _bounded_scaling(rows)
        if is_sparse(rows):
            scaling = Scaling(np.zeros_like(scaling.shift), scaling.scale)
        scaled, _ = standardised(rows, scaling)
        regression = _lazy.LogisticRegression(C=self.C, max_iter=1000)
        regression.fit(scaled, pair.flags(), sample_weight=pair.weights())
        coef = regression.coef_[0] * np.sqrt(rows.shape[1])
        return LinearFunction(scaling, coef, float(regression.intercept_[0]) - pair.log_odds())


def _bounded_scaling(rows: Rows) -> Scaling:
    """Means and scales of the columns, such that rows have a certain mean squared length.

    A scale is proportional to the standard deviation of the column, but not to less than that of
    frequent columns; nor, as columns may have different units, than the usual size of values.
    """
    scaling = Scaling.of(rows, None)
    entries = scipy.sparse.csr_array(rows)
    width = int(rows.shape[1])
    filled = np.bincount(entries.indices, minlength=width)  # entries of each column
    squares = np.bincount(entries.indices, weights=entries.data**2.0, minlength=width)
    used = np.flatnonzero(filled)
    if not used.size:
        return scaling
    usual = np.median(np.sqrt(squares[used] / filled[used]))
    order = used[np.argsort(scaling.scale[used])]
    entries_below = np.cumsum(filled[order])
    frequent = np.searchsorted(entries_below, LINEAR.frequent * entries_below[-1])
    scale = np.maximum(scaling.scale, min(scaling.scale[order[frequent]], usual))
    length = float((squares / scale**2).sum()) / n_rows(rows)
    return Scaling(scaling.shift, scale * math.sqrt(length / LINEAR.length))


# -- scores of the other methods -------------------------------------------------------------------

RIDGES = np.logspace(-5, -1, 5)  # of ridge="auto", for features with a mean squared norm of 1
FALLBACK_RIDGE = 1e-3  # used if there are too few rows to choose a ridge
FEWEST_TO_CHOOSE = 10
MOST_ROWS = 50_000  # more unlabeled rows do not improve a fit of a few hundred coefficients
NARROW = 0.4  # smallest width of a kernel, in median distances between rows
WIDE = 1.0  # largest width
MOST_STEPS = 300
FOLDS = 5
MOST_TO_FOLD = 10_000  # with more rows a single split replaces the folds


class Designs(NamedTuple):
    """The features of both samples."""

    positive: Design
    unlabeled: Design

    def scores(self, w: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Scores of both samples, from coefficients and, as the last number, the intercept."""
        positive = self.positive.times(w[:-1]) + w[-1]
        return positive, self.unlabeled.times(w[:-1]) + w[-1]

    def gradient(self, by_positive: FloatArray, by_unlabeled: FloatArray) -> FloatArray:
        """Derivatives by the coefficients and the intercept, from those by the scores."""
        slope = self.positive.adjoint(by_positive) + self.unlabeled.adjoint(by_unlabeled)
        return np.append(slope, by_positive.sum() + by_unlabeled.sum())


@dataclass(eq=False, repr=False)
class LinearScore(ScoreLearner):
    """Learns a score that is linear in the standardised columns."""

    _: KW_ONLY
    ridge: float | str = "auto"  # "auto": chosen by the criterion of held-out rows
    random_state: Any = None

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> LinearFunction:
        """The score that minimises the objective for checked samples."""
        assert isinstance(objective, ShiftedRisk)  # VPU needs a network
        features, designs = self.designs(pair)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        ridge = self._choose_ridge(objective, designs, rng)
        w = next(_path(objective, designs, [ridge], precision=1e-9))
        return LinearFunction(features, w[:-1], float(w[-1]), ridge)

    def designs(self, pair: SamplePair) -> tuple[Scaling | Basis, Designs]:
        """Features, which are set by the unlabeled rows, and those of both samples."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        features = self._features(pair.unlabeled, rng)
        unlabeled = pair.unlabeled.at_most(MOST_ROWS, rng)
        return features, Designs(design(features, pair.positive), design(features, unlabeled))

    def _features(self, unlabeled: Sample, rng: np.random.Generator) -> Scaling | Basis:
        return Scaling.of(unlabeled.rows, unlabeled.weight)

    def _choose_ridge(
        self, objective: ShiftedRisk, designs: Designs, rng: np.random.Generator
    ) -> float:
        if not isinstance(self.ridge, str):
            return check_real("ridge", self.ridge, low=1e-12)
        if self.ridge != "auto":
            raise ParameterError(f"ridge must be a positive number or 'auto', got {self.ridge!r}.")
        for rows in designs:
            no_weight = rows.weight is not None and (rows.weight <= 0).any()
            if len(rows) < FEWEST_TO_CHOOSE or no_weight:  # a fold could have no weight at all
                return FALLBACK_RIDGE
        return choose_ridge(objective, designs, RIDGES, rng)


@dataclass(eq=False, repr=False)
class KernelScore(LinearScore):
    """Learns a smooth score: linear in random Fourier features, which approximate Gaussian kernels.

    The widths of the kernels are distributed below the median distance between rows, so
    no width has to be chosen. The function contains random numbers and coefficients, no rows.
    """

    n_features: int = 500

    def _features(self, unlabeled: Sample, rng: np.random.Generator) -> Basis:
        scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
        size = check_integer("n_features", self.n_features, low=1)
        typical = median_distance(unlabeled.rows, scaling, rng)
        width = typical * np.exp(rng.uniform(np.log(NARROW), np.log(WIDE), size))
        frequencies = rng.standard_normal((size, unlabeled.rows.shape[1])) / width[:, None]
        return Basis("features", frequencies, rng.uniform(0, 2 * np.pi, size), scaling)


def choose_ridge(
    objective: ShiftedRisk, designs: Designs, ridges: FloatArray, rng: np.random.Generator
) -> float:
    """The ridge with the lowest mean criterion on held-out rows, in five folds or one split."""
    positive, unlabeled = designs
    strongest_first = np.sort(ridges)[::-1]
    n_splits = 1 if len(positive) + len(unlabeled) > MOST_TO_FOLD else FOLDS
    positive_splits = _splits(len(positive), n_splits, rng)
    unlabeled_splits = _splits(len(unlabeled), n_splits, rng)
    risks = np.zeros(len(ridges))
    for k in range(n_splits):
        train_positive, held_positive = positive_splits[k]
        train_unlabeled, held_unlabeled = unlabeled_splits[k]
        train = Designs(positive.take(train_positive), unlabeled.take(train_unlabeled))
        held = Designs(positive.take(held_positive), unlabeled.take(held_unlabeled))
        for i, w in enumerate(_path(objective, train, strongest_first, precision=1e-6)):
            criterion = objective.criterion(
                *held.scores(w), held.positive.weight, held.unlabeled.weight
            )
            risks[i] += float(criterion)
    return float(strongest_first[np.argmin(risks)])


def _splits(n: int, n_splits: int, rng: np.random.Generator) -> list[tuple[IntArray, IntArray]]:
    """Positions of training rows and of held-out rows, of which each is a fifth."""
    parts = np.array_split(rng.permutation(n), FOLDS)[:n_splits]
    return [(np.setdiff1d(np.arange(n), held), np.sort(held)) for held in parts]


def _path(
    objective: ShiftedRisk, designs: Designs, ridges: Iterable[float], *, precision: float
) -> Iterator[FloatArray]:
    """Coefficients, the intercept last, that minimise the objective plus ``ridge / 2 |w|^2``.

    The intercept is not penalised. Each minimisation starts from the solution of the previous
    ridge.
    """
    positive = designs.positive
    start = np.zeros(positive.width + 1)
    loss = objective.loss.name
    dense = positive.scaling is None and not is_sparse(positive.rows)
    for ridge in ridges:
        if loss == "squared" and dense and not objective.corrected:
            yield _solve(objective, designs, ridge)
        elif loss == "sigmoid":
            # The sigmoid loss is flat far from 0, where its gradient vanishes. Therefore only the
            # solutions of the logistic loss serve as starting points.
            convex = replace(objective, loss=LOSSES["logistic"])
            start = _minimise(convex, designs, ridge, start, precision)
            yield _minimise(objective, designs, ridge, start, precision)
        else:
            start = _minimise(objective, designs, ridge, start, precision)
            yield start


def _minimise(
    objective: ShiftedRisk, designs: Designs, ridge: float, start: FloatArray, precision: float
) -> FloatArray:
    def value(w: FloatArray) -> tuple[float, FloatArray]:
        risk, by_positive, by_unlabeled = objective.gradient(
            *designs.scores(w), designs.positive.weight, designs.unlabeled.weight
        )
        slope = designs.gradient(by_positive, by_unlabeled)
        slope[:-1] += ridge * w[:-1]
        return risk + ridge / 2 * float(w[:-1] @ w[:-1]), slope

    options: Any = {"maxiter": MOST_STEPS, "ftol": precision}
    solution = scipy.optimize.minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x, dtype=np.float64)


def _solve(objective: ShiftedRisk, designs: Designs, ridge: float) -> FloatArray:
    """Closed form for the squared loss: one Newton step from zero, as the gradient is linear."""
    positive, unlabeled = designs
    weights = (positive.weight, unlabeled.weight)
    zeros = (np.zeros(len(positive)), np.zeros(len(unlabeled)))
    ones = (np.ones(len(positive)), np.ones(len(unlabeled)))
    _, *slopes_at_zero = objective.gradient(*zeros, *weights)
    _, *slopes_at_one = objective.gradient(*ones, *weights)
    hessian = np.diag(np.append(np.full(positive.width, ridge), 0.0))
    slope = np.zeros(positive.width + 1)
    for part, at_zero, at_one in zip(designs, slopes_at_zero, slopes_at_one, strict=True):
        F = np.column_stack([part.rows, np.ones(len(part))])
        hessian += F.T @ ((at_one - at_zero)[:, None] * F)
        slope += F.T @ at_zero
    solution, *_ = np.linalg.lstsq(hessian, -slope, rcond=None)
    return np.asarray(solution)
