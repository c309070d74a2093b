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
from scipy.linalg import cho_factor, cho_solve, eigh

from drpu._arrays import as_numpy
from drpu._checks import check_choice, check_integer
from drpu._typing import FloatArray, IntArray, Rows
from drpu.core.prior import PriorEstimate
from drpu.exceptions import DataError, DataTypeError, PriorBoundaryWarning

__all__ = ["KernelMeanPrior"]

WIDTHS = np.logspace(-1, 1, 5)  # kernel widths tried, in median distances
LARGEST = 8.0  # the largest lambda looked at: no prior above 7/8 can be seen
PRECISION = 0.04  # width of the last bracket around lambda
STEP = PRECISION / 2  # the slope at lambda is a forward difference over this step
START = 1.05  # the slope before the bend is read between 1 and here
RANK = 200  # columns of the kernel's cheap model; beyond them its diagonal alone
GAP = 2e-5  # certified error of a distance, in units of the distance between U and P


class KernelMeanPrior:
    """KM1 and KM2: the share of positives among unlabeled rows, from features.

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
    :math:`1/\\sqrt{\\min(n, m)}` (KM1, unless that exceeds :math:`0.9 D`), found by
    bisection of :math:`\\lambda` in [1, 8]. Hence no estimate exceeds 0.875.

    The features are used as they come: columns of very different scale should be
    scaled first.

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
        lam = _bend(curve.distance, stop)
        return PriorEstimate((lam - 1) / lam, 0.0, 1.0, 0.95, self.method)


def _stopping_slope(curve: DistanceCurve, method: str, n: int) -> float:
    """Slope of the distance that counts as the bend."""
    if method == "km1" and 1 / np.sqrt(n) <= 0.9 * curve.scale:
        return float(1 / np.sqrt(n))
    at_start = curve.distance(START) / (START - 1)  # d(1) = 0: U is its own nearest point
    return 0.8 * at_start + 0.2 * curve.scale


def _bend(distance: Callable[[float], float], stop: float) -> float:
    """Where the forward slope of ``distance`` passes ``stop``, by bisection."""
    left, right = 1.0, LARGEST
    while right - left > PRECISION:
        middle = (left + right) / 2
        slope = (distance(middle + STEP) - distance(middle)) / STEP
        left, right = (left, middle) if slope > stop else (middle, right)
    if right == LARGEST:
        warnings.warn(
            f"the unlabeled rows look like positives throughout: kernel means cannot tell priors "
            f"above {1 - 1 / LARGEST:g} apart, so the estimate is a lower bound.",
            PriorBoundaryWarning,
            stacklevel=3,
        )
    return (left + right) / 2


# -- rows --------------------------------------------------------------------------


def _features(name: str, rows: Rows) -> Any:
    """``rows`` as a finite float64 matrix, sparse if it came so."""
    try:
        if sparse.issparse(rows):
            X = sparse.csr_matrix(rows, dtype=np.float64)
        else:
            X = np.asarray(as_numpy(rows), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(f"{name} must hold numbers: {error}") from error
    if X.ndim != 2:
        raise DataError(f"{name} must have two dimensions, got shape {X.shape}: pass one row of features a case.")
    if 0 in X.shape:
        raise DataError(f"{name} must hold at least one row and one column, got shape {X.shape}.")
    if not np.isfinite(X.data if sparse.issparse(X) else X).all():
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


def _dense(X: Any) -> FloatArray:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


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
    low rank plus diagonal, makes it cheap; the solution is then certified against
    the whole kernel, and where the certificate is too loose it is polished on the
    few rows that carry weight.

    Attributes
    ----------
    scale : float
        Distance between the kernel means of U and P.
    """

    def __init__(self, U: FloatArray, P: FloatArray) -> None:
        self.kernel, self.scale = _best_kernel(U, P)
        self._unlabeled = np.concatenate([np.full(len(U), 1 / len(U)), np.zeros(len(P))])
        self._positive = np.concatenate([np.zeros(len(U)), np.full(len(P), 1 / len(P))])
        self._model = _pivoted_cholesky(self.kernel, RANK, 1e-7)
        self._tolerance = GAP * self.scale

    def distance(self, lam: float) -> float:
        """The distance at ``lam``, to the certified precision."""
        if self.scale < 1e-7:  # the samples are the same: every lambda stays inside
            return 0.0
        u = lam * self._unlabeled + (1 - lam) * self._positive
        b, model_b = self.kernel @ u, self._model.times(u)
        v = _nearest(self._model, model_b, u @ model_b, self._tolerance / 2)
        rows = np.flatnonzero(v > 1e-3 / len(v))
        while True:
            g = b - self.kernel @ v
            far, near = _bounds(u @ g, v @ g, g)
            more = _violators(g - v @ g, rows)
            if far - near <= self._tolerance or not len(more):
                return far
            rows = np.concatenate([rows, more])
            v = np.zeros_like(u)
            part = _Dense(self.kernel[np.ix_(rows, rows)])
            v[rows] = _nearest(part, b[rows], u @ b, self._tolerance / 2)


def _violators(excess: FloatArray, rows: IntArray) -> IntArray:
    """Rows outside ``rows`` that would bring the nearest point closer, worst first."""
    outside = excess.copy()
    outside[rows] = 0
    worst = np.argsort(-outside)[: max(64, len(rows))]
    return worst[outside[worst] > 0]


def _bounds(reach: float, held: float, g: FloatArray) -> tuple[float, float]:
    """Upper and lower bound on a distance, from g = K (u - v), u.g and v.g.

    A feasible v is at least as far as the nearest point. The hyperplane through it,
    normal to u - v, keeps all rows at the distance of the one that reaches furthest.
    """
    far = float(np.sqrt(max(reach - held, 0.0)))
    return far, max((reach - float(g.max())) / far, 0.0) if far > 0 else 0.0


# -- quadratic programs over the simplex -------------------------------------------


class _LowRank:
    """A kernel modelled as F F' + diag(rest)."""

    def __init__(self, F: FloatArray, rest: FloatArray) -> None:
        self.F, self.rest = F, rest

    def times(self, x: FloatArray) -> FloatArray:
        return self.F @ (self.F.T @ x) + self.rest * x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """What solves (F F' + diag(rest + diagonal)) x = h, by Woodbury's identity."""
        w = 1 / (self.rest + diagonal)
        half = self.F * np.sqrt(w)[:, None]
        core = half.T @ half
        core[np.diag_indices_from(core)] += 1
        factor = cho_factor(core, overwrite_a=True, check_finite=False)
        return lambda h: w * (h - self.F @ cho_solve(factor, self.F.T @ (w * h), check_finite=False))


class _Dense:
    """A kernel matrix as it is."""

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    def times(self, x: FloatArray) -> FloatArray:
        return self.K @ x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        A = self.K.copy()
        A[np.diag_indices_from(A)] += diagonal + 1e-10 * self.K.diagonal().max()
        factor = cho_factor(A, overwrite_a=True, check_finite=False)
        return lambda h: cho_solve(factor, h, check_finite=False)


def _pivoted_cholesky(K: FloatArray, rank: int, tolerance: float) -> _LowRank:
    """The model of ``K`` that explains the row worst explained so far, again and again."""
    columns = np.empty((min(rank, len(K)), len(K)))
    rest = K.diagonal().copy()
    enough = tolerance * rest.max()
    used = 0
    while used < len(columns) and rest.max() > enough:
        worst = int(rest.argmax())
        new = (K[worst] - columns[:used, worst] @ columns[:used]) / np.sqrt(rest[worst])
        columns[used] = new
        rest = np.maximum(rest - new * new, 0)
        rest[worst] = 0
        used += 1
    return _LowRank(np.ascontiguousarray(columns[:used].T), rest)


def _nearest(kernel: _LowRank | _Dense, b: FloatArray, constant: float, tolerance: float) -> FloatArray:
    """Weights on the simplex nearest to u, where b = K u and constant = u.b.

    Mehrotra's predictor-corrector method on v'Kv/2 - b'v; z holds the multipliers of
    v >= 0 and m that of the sum. It stops once the bounds on the distance meet.
    """
    n = len(b)
    v = np.full(n, 1 / n)
    g = b - kernel.times(v)
    m = -g.max()
    z = -g - m + 0.1 * np.abs(g).mean() + 1e-12
    for _ in range(60):
        far, near = _bounds(constant - b @ v, g @ v, g)
        if far - near <= tolerance:
            break
        solve = kernel.inverse(z / v)
        ones = solve(np.ones(n))
        residual, lack, target = -g - m - z, 1 - v.sum(), v @ z / n

        def step(complement: FloatArray) -> tuple[FloatArray, float, FloatArray]:
            h = solve(complement / v - residual)
            dm = (lack - h.sum()) / ones.sum()
            dv = h + dm * ones
            return dv, dm, (complement - z * dv) / v

        dv, dm, dz = step(-v * z)
        shrunk = (v + _room(v, dv) * dv) @ (z + _room(z, dz) * dz) / n
        dv, dm, dz = step(target * (shrunk / target) ** 3 - v * z - dv * dz)
        length = min(1.0, 0.99 * min(_room(v, dv, 2.0), _room(z, dz, 2.0)))
        v, m, z = v + length * dv, m + length * dm, z + length * dz
        g = b - kernel.times(v)
    return v / v.sum()


def _room(x: FloatArray, dx: FloatArray, most: float = 1.0) -> float:
    """How far along ``dx`` the positive ``x`` stays so, at most ``most``."""
    down = dx < 0
    return float(np.min(-x[down] / dx[down], initial=most))
