r"""Class priors from features, by kernel mean embeddings (Ramaswamy et al. 2016).

A kernel maps each sample to its mean in a Hilbert space. If U holds a share
:math:`\kappa` of P, then :math:`\lambda U + (1 - \lambda) P` is still a
distribution up to :math:`\lambda = 1/(1-\kappa)` and leaves the set of
distributions beyond it. KM1 and KM2 follow the distance :math:`d(\lambda)` of that
point from the convex hull of all rows, and read :math:`\lambda` where it starts
to grow.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from drpu._arrays import as_numpy
from drpu._checks import check_choice, check_integer
from drpu._typing import FloatArray, IntArray, Rows
from drpu.core._simplex import Dense, distance_bounds, nearest, pivoted_cholesky
from drpu.core.prior import PriorEstimate
from drpu.exceptions import DataError, DataTypeError, PriorBoundaryWarning

__all__ = ["KernelMeanPrior"]

WIDTHS = np.logspace(-1, 1, 5)  # kernel widths tried, in median distances
LARGEST = 8.0  # the largest lambda looked at: no prior above 7/8 can be seen
PRECISION = 0.04  # width from which a bracket around lambda is no longer halved
CELLS = 256  # hence the brackets that halving can end in
STEP = PRECISION / 2  # the slope at lambda is a forward difference over this step
START = 1.05  # the slope before the bend is read between 1 and here
RANK = 250  # columns of the kernel's cheap model; beyond them its diagonal alone
SAME = 1e-7  # a distance between U and P below which they are one sample
GAP = 1e-5  # certified error of a distance, in units of the distance between U and P
START_GAP = 1e-4  # the same at the start, where a slope is taken over a longer step


class KernelMeanPrior:
    r"""KM1 and KM2: the share of positives among unlabeled rows, from features.

    Parameters
    ----------
    method : {"km2", "km1"}, default="km2"
        Which slope of the distance counts as the bend. KM2 measures it against
        the slope at the start, KM1 against what noise alone would give.
    max_rows : int, default=2000
        Rows of each sample that are used; more are drawn from without replacement.
    max_dims : int, default=50
        Wider rows are first projected on this many principal components of the
        unlabeled ones.
    random_state : int, Generator or None, default=None
        Seed of the draw; without effect when no sample is larger than ``max_rows``.

    Notes
    -----
    The kernel is Gaussian, its width the one of five around the median distance
    that tells the samples apart best. With :math:`D` the distance between the two
    kernel means, the bend is where the slope of :math:`d` passes
    :math:`0.8 s_0 + 0.2 D` (KM2, :math:`s_0` the slope between 1 and 1.05) or
    :math:`1/\sqrt{\min(n, m)}` (KM1, unless that exceeds :math:`0.9 D`), found by
    bisection of :math:`\lambda` in [1, 8]. Hence no estimate exceeds 0.875.

    The features are used as they come: columns of very different scale should be
    scaled first. High priors are the weak spot: KM2 reads them low (0.66 for 0.7 with
    200 rows of separated Gaussians), and with a prior near 1 the two means coincide up
    to noise, so that the answer may be anything below 0.875.

    Every program behind the estimate is solved to a certified precision, but only
    those that decide where bisection ends are solved at all.

    References
    ----------
    Ramaswamy, Scott, Tewari (2016). Mixture proportion estimation via kernel
    embeddings of distributions. ICML.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> positive = rng.normal(2, 1, (200, 2))
    >>> unlabeled = np.vstack([rng.normal(2, 1, (80, 2)), rng.normal(-2, 1, (120, 2))])
    >>> prior = KernelMeanPrior("km2").estimate(positive, unlabeled)
    >>> abs(prior.value - 0.4) < 0.1
    True
    """

    def __init__(
        self,
        method: str = "km2",
        *,
        max_rows: int = 2000,
        max_dims: int = 50,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.method = method
        self.max_rows = max_rows
        self.max_dims = max_dims
        self.random_state = random_state

    def estimate(self, positive: Rows, unlabeled: Rows) -> PriorEstimate:
        """Share of positives among ``unlabeled``.

        Parameters
        ----------
        positive, unlabeled : array-like or sparse matrix of shape (n, n_features)
            The two samples: features, not scores.

        Returns
        -------
        prior : PriorEstimate
            Its limits are 0 and 1, which say nothing: the method has no interval.
            :func:`drpu.estimate_prior` gives one from scores.
        """
        check_choice("method", self.method, ("km1", "km2"))
        check_integer("max_rows", self.max_rows, low=2)
        check_integer("max_dims", self.max_dims, low=1)
        P, U = _features("positive", positive), _features("unlabeled", unlabeled)
        if P.shape[1] != U.shape[1]:
            raise DataError(
                f"positive and unlabeled must have the same columns, got {P.shape[1]} and {U.shape[1]}."
            )
        rng = np.random.default_rng(self.random_state)
        P, U = _project(_draw(P, self.max_rows, rng), _draw(U, self.max_rows, rng), self.max_dims)

        curve = DistanceCurve(U, P)
        stop = _stopping_slope(curve, self.method, min(len(U), len(P)))
        guess = _bend(curve.rough_distance, stop, CELLS // 2, CELLS)
        cell = _bend(curve.distance, stop, min(guess, CELLS - 1), 1)
        if cell == CELLS:
            warnings.warn(
                "the unlabeled rows look like positives throughout: kernel means cannot tell priors "
                f"above {1 - 1 / LARGEST:g} apart, so the estimate is a lower bound.",
                PriorBoundaryWarning,
                stacklevel=2,
            )
        lam = _at(cell - 0.5)
        return PriorEstimate((lam - 1) / lam, 0.0, 1.0, 0.95, self.method)


def _stopping_slope(curve: DistanceCurve, method: str, n: int) -> float:
    """Slope of the distance that counts as the bend."""
    if method == "km1" and 1 / np.sqrt(n) <= 0.9 * curve.scale:
        return float(1 / np.sqrt(n))
    at_start = curve.distance(START) / (START - 1)  # d(1) = 0: U is its own nearest point
    return 0.8 * at_start + 0.2 * curve.scale


def _bend(distance: Callable[[float], float], stop: float, guess: int, step: int) -> int:
    """The first cell at whose end the forward slope of ``distance`` exceeds ``stop``.

    The distance is convex, so its slope grows and any search ends where bisection
    does; one that starts beside the answer asks for few distances.
    """
    low, high, k = 0, CELLS, guess
    while high - low > 1:
        if (distance(_at(k) + STEP) - distance(_at(k))) / STEP > stop:
            high = k
            k = max((low + high) // 2, high - step)
        else:
            low = k
            k = min((low + high) // 2, low + step)
        step *= 2
    return high


def _at(cell: float) -> float:
    return 1 + (LARGEST - 1) * cell / CELLS


# -- rows --------------------------------------------------------------------------


def _features(name: str, rows: Rows) -> Any:
    """``rows`` as a finite float64 matrix, sparse if it came so."""
    try:
        if _is_sparse(rows):
            X: Any = rows.tocsr().astype(np.float64)
        else:
            X = np.asarray(as_numpy(rows), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} must hold numbers: {error}") from error
    if X.ndim != 2:
        raise DataError(
            f"{name} must have two dimensions, got shape {X.shape}: pass one row of features a case."
        )
    if 0 in X.shape:
        raise DataError(f"{name} must hold at least one row and one column, got shape {X.shape}.")
    if not np.isfinite(X.data if _is_sparse(X) else X).all():
        raise DataError(f"{name} must be finite: fill in or drop missing values first.")
    return X


def _draw(X: Any, size: int, rng: np.random.Generator) -> Any:
    return X if X.shape[0] <= size else X[np.sort(rng.choice(X.shape[0], size, replace=False))]


def _project(P: Any, U: Any, dims: int) -> tuple[FloatArray, FloatArray]:
    """Both samples on the leading principal components of U; sparse rows stay sparse on the way."""
    n, d = U.shape
    if d <= dims:
        return _dense(P), _dense(U)
    centre = np.asarray(U.mean(axis=0)).ravel()
    if d <= n:
        spread = _dense(U.T @ U) - n * np.outer(centre, centre)
        axes = _leading(spread, dims)[1]
        offset = centre @ axes
    else:  # fewer rows than columns: the same axes, from inner products of rows
        along = np.asarray(U @ centre)
        gram = _dense(U @ U.T) - along - along[:, None] + centre @ centre
        values, vectors = _leading(gram, min(dims, n))
        vectors = vectors / np.sqrt(np.maximum(values, np.finfo(float).eps * max(values[-1], 1e-300)))
        axes = np.asarray(U.T @ vectors) - np.outer(centre, vectors.sum(axis=0))
        offset = centre @ axes
    return np.asarray(P @ axes) - offset, np.asarray(U @ axes) - offset


def _leading(A: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
    values, vectors = eigh(A, subset_by_index=[len(A) - k, len(A) - 1])
    return values, vectors


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def _dense(X: Any) -> FloatArray:
    return np.asarray(X.toarray() if _is_sparse(X) else X, dtype=np.float64)


# -- kernel ------------------------------------------------------------------------


def _best_kernel(U: FloatArray, P: FloatArray) -> tuple[FloatArray, float]:
    """Gaussian kernel of all rows, U first, and the distance between the two means."""
    X = np.vstack([U, P])
    X = X - X.mean(axis=0)
    norms = (X * X).sum(axis=1)
    squares = np.maximum(norms[:, None] + norms - 2 * (X @ X.T), 0)
    np.fill_diagonal(squares, 0)
    coarse = squares.astype(np.float32)  # single precision is plenty to choose a width
    typical = float(np.median(coarse)) or float(coarse.mean()) or 1.0
    contrast = np.concatenate([np.full(len(U), 1 / len(U)), np.full(len(P), -1 / len(P))])

    def separation(width: float) -> float:
        K = np.exp(coarse * np.float32(-0.5 / (typical * width**2)))
        return float(contrast @ (K @ contrast.astype(np.float32)))

    best = max(WIDTHS, key=separation)
    K = np.exp(np.multiply(squares, -0.5 / (typical * best**2), out=squares), out=squares)
    # Differences of distributions sum to zero, so removing the row means changes no
    # distance; what is left is better conditioned.
    means = K.mean(axis=0)
    K -= means
    K -= (means - means.mean())[:, None]
    return K, float(np.sqrt(max(contrast @ K @ contrast, 0)))


class DistanceCurve:
    r"""Distance of :math:`\lambda U + (1-\lambda) P` from the convex hull of all rows.

    Each distance is a quadratic program over the simplex. A model of the kernel,
    low rank plus diagonal, makes a rough one cheap. An exact one starts from the
    rows that carry weight there, or at a neighbouring lambda, and takes in others
    until bounds from the whole kernel agree.

    Attributes
    ----------
    scale : float
        Distance between the kernel means of U and P.
    """

    def __init__(self, U: FloatArray, P: FloatArray) -> None:
        self.kernel, self.scale = _best_kernel(U, P)
        self._unlabeled = np.concatenate([np.full(len(U), 1 / len(U)), np.zeros(len(P))])
        self._positive = np.concatenate([np.zeros(len(U)), np.full(len(P), 1 / len(P))])
        self._model = pivoted_cholesky(self.kernel, RANK, 1e-10)
        self._solved: dict[float, tuple[float, IntArray]] = {}

    def rough_distance(self, lam: float) -> float:
        """The distance at ``lam`` under the model of the kernel."""
        return 0.0 if self.scale < SAME else self._rough(lam)[0]

    def distance(self, lam: float) -> float:
        """The distance at ``lam``, to the certified precision."""
        if self.scale < SAME:
            return 0.0
        if lam not in self._solved:
            self._solved[lam] = self._solve(lam)
        return self._solved[lam][0]

    def _rough(self, lam: float) -> tuple[float, FloatArray]:
        u = self._target(lam)
        b = self._model.times(u)
        v = nearest(self._model, b, float(u @ b), GAP * self.scale / 4)
        return distance_bounds(u, v, b - self._model.times(v))[1], v

    def _solve(self, lam: float) -> tuple[float, IntArray]:
        """The distance, and the rows that carry the nearest point."""
        tolerance = (START_GAP if lam == START else GAP) * self.scale
        u = self._target(lam)
        b = self.kernel @ u
        close = min(self._solved, key=lambda other: abs(other - lam), default=np.inf)
        if self._model.rank == RANK and abs(close - lam) < 2 * PRECISION:
            rows = self._solved[close][1]
        else:  # a model of lower rank is as good as the kernel
            v = self._rough(lam)[1]
            rows = np.flatnonzero(v > 1e-3 / len(v))
            low, high = distance_bounds(u, v, b - self.kernel @ v)
            if high - low <= tolerance:
                return high, rows
        while True:
            v = np.zeros_like(u)
            part = Dense(self.kernel[np.ix_(rows, rows)])
            v[rows] = nearest(part, b[rows], float(u @ b), tolerance / 4)
            g = b - self.kernel @ v
            low, high = distance_bounds(u, v, g)
            more = _violators(g - v @ g, rows)
            if high - low <= tolerance or not len(more):
                return high, rows[v[rows] > 1e-3 / len(rows)]
            rows = np.concatenate([rows, more])

    def _target(self, lam: float) -> FloatArray:
        return lam * self._unlabeled + (1 - lam) * self._positive


def _violators(excess: FloatArray, rows: IntArray) -> IntArray:
    """Rows outside ``rows`` that would bring the nearest point closer, worst first."""
    outside = excess.copy()
    outside[rows] = 0
    worst = np.argsort(-outside)[: max(32, len(rows) // 4)]
    return worst[outside[worst] > 0]
