"""Density ratios that are linear in Gaussian basis functions, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, ClassVar, NamedTuple, cast

import numpy as np
import scipy

from drpu._arrays import FloatArray, Rows
from drpu._checks import check_choice, check_fraction, check_integer, check_random_state, check_real
from drpu._codec import POSITIVE, Array, Number, kept
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError
from drpu.models.choices import KERNEL
from drpu.models.crossfit import TrainAndHeld, hold_out
from drpu.models.features import MIN_ROWS, Basis, Kind, Scaling, blocks, make_basis, median_distance
from drpu.models.graphs import Graph
from drpu.models.learner import Function, RatioLearner
from drpu.models.risks import LEAST_SQUARES

FLOOR = 0.01  # ratios below it are continued by a tangent of the logarithm


@kept("kernel")
@dataclass(frozen=True, eq=False)
class KernelFunction(Function):
    """Log of a ratio that is linear in Gaussian basis functions, below 0.01 continued by a tangent.

    Fitted values below zero become ratios close to 0 and keep their order; the error is less than
    0.004.

    ``width``, ``ridge``: The width and the ridge in use.
    ``holdout_risk``: Uncorrected least-squares risk of the chosen width and ridge, NaN if nothing
    was chosen.
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
        if self.basis.kind != "rows":
            return {}
        return {"KernelRatio": "training rows as centres"}

    def describe(self) -> str:
        """The number of basis functions."""
        kind = "random features" if self.basis.kind == "features" else self.basis.kind
        return f"a kernel ratio of {self.basis.size} {kind}"

    def _score(self, X: Rows) -> FloatArray:
        parts = []
        for rows, _ in blocks(Sample(X), self.basis.size):
            projected = self.basis.project(rows)
            phi = self.basis.shape(projected, self.width, out=projected)
            # einsum sums a row in the same order in every batch, which a matrix product does not
            # guarantee.
            parts.append(self.intercept + np.einsum("ij,j->i", phi, self.coef))
        ratio = np.concatenate(parts)
        tangent = np.minimum(ratio - FLOOR, 0) / FLOOR
        return np.asarray(np.log(np.maximum(ratio, FLOOR)) + tangent)

    def onnx(self, graph: Graph, X: str) -> str:
        """Add the log-ratios of the rows ``X`` to the graph."""
        phi = self.basis.onnx(graph, self.width, X)
        ratio = graph.op("Add", graph.op("MatMul", phi, self.coef[:, None]), self.intercept)
        below = graph.op("Min", graph.op("Sub", ratio, FLOOR), [[0.0]])
        above = graph.op("Log", graph.op("Max", ratio, [[FLOOR]]))
        return graph.op("Add", above, graph.op("Div", below, FLOOR))


_SIZES = {"features": 300, "centroids": 100, "rows": 300}


@dataclass(eq=False, repr=False)
class KernelRatio(RatioLearner):
    r"""Density ratio that is linear in Gaussian basis functions, by least squares in closed form.

    Parameters
    ----------
    centres : {"features", "centroids", "rows"}, default="centroids"
        The basis: random Fourier features of the Gaussian kernel, Gaussian functions centred on
        k-means centroids of at least five unlabeled rows, or centred on unlabeled rows. The paper
        uses the last; such a model contains training rows.
    n_centres : int, optional
        Number of basis functions: by default 300, or 100 centroids. Centroids and
        rows can be fewer, as the sample allows.
    width : float or "auto", default="auto"
        Standard deviation of the Gaussian, in units of the standardised columns.
    ridge : float or "auto", default="auto"
        Weight of the squared coefficients.
    holdout : float, default=0.2
        Fraction of the rows held out to choose width and ridge if ``fit_ratio`` is given no holdout
        rows. With up to 20,000 rows, the mean over five random splits is used. The model is then
        fitted to all rows.
    random_state : int, RandomState or None, default=None
        Seed of the basis and of the split.

    Notes
    -----
    With features :math:`\phi` centred on the unlabeled rows,

    .. math:: r(x) = 1 + w^\top \phi(x), \qquad
              w = (E_U[\phi\phi^\top] + \lambda I)^{-1} E_+[\phi]

    minimises :math:`E_U[r^2]/2 - E_+[r] + \lambda |w|^2/2`. The constant is not penalised, and as
    the ridge grows the ratio tends to 1, that is, to no information. One eigendecomposition is used
    for all ridges. Below a ratio of 0.01 the logarithm is continued by its tangent, so that fitted
    values below zero become ratios close to 0 and keep their order.

    With fewer than five holdout rows of either kind nothing can be chosen: the width is
    then 0.65 times the median distance of two rows, and the ridge 0.1 times the mean
    variance of a feature.

    References
    ----------
    T. Kanamori, S. Hido and M. Sugiyama, "A least-squares approach to direct importance
    estimation", JMLR 10, 2009.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive, unlabeled = rng.normal(1, 1, (200, 1)), rng.normal(0, 1.4, (1000, 1))
    >>> function = KernelRatio(random_state=0).fit_ratio(positive, unlabeled)
    >>> low, high = function.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.5 and high > 1.2)
    True
    """

    uses_holdout: ClassVar[bool] = True

    centres: str = "centroids"
    _: KW_ONLY
    n_centres: int | None = None
    width: float | str = "auto"
    ridge: float | str = "auto"
    holdout: float = 0.2
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> KernelFunction:
        """The density ratio of checked samples."""
        kind, size = self._check_parameters()
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31))

        unlabeled = pair.unlabeled.rows
        scaling = Scaling.none(unlabeled.shape[1])
        if len(pair.unlabeled) >= MIN_ROWS:
            scaling = Scaling.of(unlabeled, pair.unlabeled.weight)
        basis = make_basis(kind, unlabeled, size, scaling, rng)
        unit = 1.0
        if self.width == "auto":
            unit = median_distance(unlabeled, scaling, rng)
        splits = self._draw_splits(pair, holdout, rng)
        width, ridge, risk = self._choose(basis, splits, unit)

        (moments,) = _moments(basis, pair, [width])
        if self.ridge == "auto":
            ridge = ridge * moments.unit
        coef = moments.solve([ridge])[:, 0]
        intercept = 1.0 - float(moments.mean @ coef)
        return KernelFunction(basis, width, ridge, coef, intercept, risk)

    def _check_parameters(self) -> tuple[Kind, int]:
        kind = cast(Kind, check_choice("centres", self.centres, _SIZES))
        size = _SIZES[kind]
        if self.n_centres is not None:
            size = check_integer("n_centres", self.n_centres, low=1)
        check_fraction("holdout", self.holdout)
        for name in ("width", "ridge"):
            value = getattr(self, name)
            if value != "auto":
                check_real(name, value, low=np.finfo(float).tiny)
        return kind, size

    def _draw_splits(
        self, pair: SamplePair, holdout: SamplePair | None, rng: np.random.Generator
    ) -> list[TrainAndHeld]:
        """The given split, a random one, or several for few rows; none if nothing is chosen."""
        if self.width != "auto" and self.ridge != "auto" and holdout is None:
            return []
        draws = KERNEL.draws
        if holdout is not None or len(pair) > KERNEL.few_rows:
            draws = 1
        splits = [hold_out(pair, holdout, self.holdout, rng) for _ in range(draws)]
        return [split for split in splits if split.held is not None]

    def _choose(
        self, basis: Basis, splits: list[TrainAndHeld], unit: float
    ) -> tuple[float, float, float]:
        """Width and ridge of the lowest risk on held-out rows, and that risk.

        An automatic ridge is in feature variances.
        """
        if self.width == "auto":
            plain_width = unit * KERNEL.plain_width
            widths = [unit * width for width in KERNEL.widths]
        else:
            plain_width = float(self.width)
            widths = [plain_width]
        if self.ridge == "auto":
            plain_ridge = KERNEL.plain_ridge
            ridges = list(KERNEL.ridges)
        else:
            plain_ridge = float(self.ridge)
            ridges = [plain_ridge]
        if not splits:
            return plain_width, plain_ridge, np.nan
        risks_by_split = [self._holdout_risks(basis, split, widths, ridges) for split in splits]
        risks = np.mean(risks_by_split, axis=0)
        best, column = np.unravel_index(np.argmin(risks), risks.shape)
        return widths[best], ridges[column], float(risks[best, column])

    def _holdout_risks(
        self, basis: Basis, split: TrainAndHeld, widths: list[float], ridges: list[float]
    ) -> FloatArray:
        """Uncorrected least-squares risk on the held-out rows, (widths, ridges)."""
        assert split.held is not None
        fits = []
        for width, moments in zip(widths, _moments(basis, split.train, widths), strict=True):
            unit = moments.unit if self.ridge == "auto" else 1.0
            coef = moments.solve([unit * ridge for ridge in ridges])
            fits.append(_Fit(width, 1.0 - moments.mean @ coef, coef))
        over_unlabeled = _means(basis, split.held.unlabeled, fits, LEAST_SQUARES.conjugate)
        over_positive = _means(basis, split.held.positive, fits, LEAST_SQUARES.slope)
        return np.asarray(over_unlabeled - over_positive)


@dataclass(frozen=True, slots=True)
class _Moments:
    """Moments of the features at one width, for the normal equations."""

    mean: FloatArray  # over the unlabeled rows
    covariance: FloatArray  # over the unlabeled rows, about that mean
    gap: FloatArray  # mean over the positive rows minus that mean

    @property
    def unit(self) -> float:
        """Mean variance of a feature."""
        variance = np.trace(self.covariance) / max(1, len(self.mean))
        return float(max(variance, np.finfo(float).eps))

    def solve(self, ridges: Sequence[float]) -> FloatArray:
        """Coefficients, one column per ridge, from one eigendecomposition."""
        values, vectors = scipy.linalg.eigh(self.covariance)
        spread = np.maximum(values, 0)[:, None] + np.asarray(ridges)
        return np.asarray(vectors @ ((vectors.T @ self.gap)[:, None] / spread))


class _Fit(NamedTuple):
    """Coefficients at one width, one column per ridge."""

    width: float
    intercept: FloatArray
    coef: FloatArray


def _moments(basis: Basis, pair: SamplePair, widths: Sequence[float]) -> list[_Moments]:
    """Moments of the features at each width, computed in blocks of rows."""
    m = basis.size
    first = np.zeros((len(widths), m))
    second = np.zeros((len(widths), m, m))
    positive = np.zeros((len(widths), m))
    for part, weight in blocks(pair.unlabeled, m):
        projected = basis.project(part)
        for k, width in enumerate(widths):
            phi = basis.shape(projected, width)
            first[k] += weight @ phi
            second[k] += (phi * weight[:, None]).T @ phi
    for part, weight in blocks(pair.positive, m):
        projected = basis.project(part)
        for k, width in enumerate(widths):
            positive[k] += weight @ basis.shape(projected, width)
    first /= pair.unlabeled.total
    second /= pair.unlabeled.total
    positive /= pair.positive.total
    moments = []
    for k in range(len(widths)):
        covariance = second[k] - np.outer(first[k], first[k])
        moments.append(_Moments(first[k], covariance, positive[k] - first[k]))
    return moments


def _means(
    basis: Basis, sample: Sample, fits: Sequence[_Fit], term: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Mean over the rows of ``term`` of the ratio, for each fit and ridge."""
    sums = np.zeros((len(fits), fits[0].coef.shape[1]))
    for part, weight in blocks(sample, basis.size):
        projected = basis.project(part)
        for k, fit in enumerate(fits):
            features = basis.shape(projected, fit.width)
            ratio = np.maximum(0, fit.intercept + features @ fit.coef)
            sums[k] += weight @ term(ratio)
    return sums / sample.total
