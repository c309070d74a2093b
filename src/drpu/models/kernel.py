"""Closed-form density ratios on Gaussian basis functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
from scipy import linalg

from drpu._checks import check_choice, check_fraction, check_integer, check_random_state, check_real
from drpu._samples import Sample, SamplePair
from drpu._typing import FloatArray
from drpu.models.bregman import get_generator
from drpu.models.features import (
    MIN_ROWS,
    Basis,
    KernelFunction,
    Kind,
    Scaling,
    blocks,
    make_basis,
    median_distance,
)
from drpu.models.learner import RatioLearner
from drpu.models.splits import hold_out

_SIZES = {"features": 300, "centroids": 100, "rows": 300}
_WIDTHS = (0.15, 0.25, 0.4, 0.65, 1.0, 1.6)  # times the median distance of two rows
_RIDGES = tuple(10.0 ** np.arange(-3.0, 1.25, 0.5))  # times the mean variance of a feature
_PLAIN_WIDTH, _PLAIN_RIDGE = 0.65, 0.1  # if there are too few rows to choose
_FEW, _DRAWS = 20_000, 5  # up to this number of rows, the mean risk of several splits is used to choose


@dataclass(eq=False, repr=False)
class KernelRatio(RatioLearner):
    r"""Density ratio that is linear in Gaussian basis functions, fitted by least squares in closed form.

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
        rows. With up to 20,000 rows, the mean over five random splits is used. The model is then fitted
        to all rows.
    random_state : int, RandomState or None, default=None
        Seed of the basis and of the split.

    Notes
    -----
    With features :math:`\phi` centred on the unlabeled rows,

    .. math:: r(x) = 1 + w^\top \phi(x), \qquad
              w = (E_U[\phi\phi^\top] + \lambda I)^{-1} E_+[\phi]

    minimises :math:`E_U[r^2]/2 - E_+[r] + \lambda |w|^2/2`. The constant is not penalised, and as the
    ridge grows the ratio tends to 1, that is, to no information. One eigendecomposition is used for all
    ridges. Below a ratio of 0.01 the logarithm is continued by
    its tangent, so that fitted values below zero become ratios close to 0 and keep their order.

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
        unit = median_distance(unlabeled, scaling, rng) if self.width == "auto" else 1.0
        splits: list[tuple[SamplePair, SamplePair]] = []
        # the given split, a random one, or several for few rows
        if self.width == "auto" or self.ridge == "auto" or holdout is not None:
            draws = 1 if holdout is not None or len(pair) > _FEW else _DRAWS
            drawn = [hold_out(pair, holdout, self.holdout, rng) for _ in range(draws)]
            splits = [(split.train, split.held) for split in drawn if split.held is not None]
        width, ridge, risk = self._choose(basis, splits, unit)

        (moments,) = _moments(basis, pair, [width])
        ridge = ridge * moments.unit if self.ridge == "auto" else ridge
        coef = moments.solve([ridge])[:, 0]
        intercept = 1.0 - float(moments.mean @ coef)
        return KernelFunction(basis, width, ridge, coef, intercept, risk)

    def _check_parameters(self) -> tuple[Kind, int]:
        kind = cast(Kind, check_choice("centres", self.centres, _SIZES))
        size = _SIZES[kind] if self.n_centres is None else check_integer("n_centres", self.n_centres, low=1)
        check_fraction("holdout", self.holdout)
        for name in ("width", "ridge"):
            value = getattr(self, name)
            if value != "auto":
                check_real(name, value, low=np.finfo(float).tiny)
        return kind, size

    def _choose(
        self, basis: Basis, splits: list[tuple[SamplePair, SamplePair]], unit: float
    ) -> tuple[float, float, float]:
        """Width and ridge of the lowest risk on held-out rows, and that risk.

        An automatic ridge is in feature variances.
        """
        widths = [unit * width for width in _WIDTHS] if self.width == "auto" else [float(self.width)]
        ridges = list(_RIDGES) if self.ridge == "auto" else [float(self.ridge)]
        if not splits:
            width = unit * _PLAIN_WIDTH if self.width == "auto" else widths[0]
            return width, _PLAIN_RIDGE if self.ridge == "auto" else ridges[0], np.nan
        risks = np.mean([self._holdout_risks(basis, split, widths, ridges) for split in splits], axis=0)
        best, column = np.unravel_index(np.argmin(risks), risks.shape)
        return widths[best], ridges[column], float(risks[best, column])

    def _holdout_risks(
        self, basis: Basis, split: tuple[SamplePair, SamplePair], widths: list[float], ridges: list[float]
    ) -> FloatArray:
        """Uncorrected least-squares risk on the held-out rows, (widths, ridges)."""
        train, held = split
        fits = []
        for width, moments in zip(widths, _moments(basis, train, widths), strict=True):
            unit = moments.unit if self.ridge == "auto" else 1.0
            coef = moments.solve([unit * ridge for ridge in ridges])
            fits.append(_Fit(width, 1.0 - moments.mean @ coef, coef))
        f = get_generator("lsif")
        over_unlabeled = _means(basis, held.unlabeled, fits, f.conjugate)
        over_positive = _means(basis, held.positive, fits, f.slope)
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
        return float(max(np.trace(self.covariance) / max(1, len(self.mean)), np.finfo(float).eps))

    def solve(self, ridges: Sequence[float]) -> FloatArray:
        """Coefficients, one column per ridge, from one eigendecomposition."""
        values, vectors = linalg.eigh(self.covariance)
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
    first, second, positive = (np.zeros((len(widths), *shape)) for shape in ((m,), (m, m), (m,)))
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
    return [_Moments(u, uu - np.outer(u, u), p - u) for u, uu, p in zip(first, second, positive, strict=True)]


def _means(
    basis: Basis, sample: Sample, fits: Sequence[_Fit], term: Callable[[FloatArray], FloatArray]
) -> FloatArray:
    """Mean over the rows of ``term`` of the ratio, for each fit and ridge."""
    sums = np.zeros((len(fits), fits[0].coef.shape[1]))
    for part, weight in blocks(sample, basis.size):
        projected = basis.project(part)
        for k, fit in enumerate(fits):
            ratio = np.maximum(0, fit.intercept + basis.shape(projected, fit.width) @ fit.coef)
            sums[k] += weight @ term(ratio)
    return sums / sample.total
