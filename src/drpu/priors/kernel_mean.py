r"""Priors from kernel means of features: nearest points of a convex hull in kernel space.

For weights u and v that sum to one, the squared distance between the two mixtures of
rows is :math:`(u-v)' K (u-v)`. In large problems many rows are nearly redundant, so a
kernel approximated by low rank plus diagonal is nearly always accurate enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_choice, check_integer, check_numbers
from drpu._process import default_errors_in
from drpu._samples import is_sparse
from drpu.exceptions import DataError, PriorBoundaryWarning
from drpu.priors.estimate import PriorEstimate


class LowRank:
    """A kernel approximated by F F' + diag(rest); ``inverse`` solves (K + diag(diagonal)) x = h."""

    def __init__(self, F: FloatArray, rest: FloatArray) -> None:
        self.F = F
        self.rest = rest

    @property
    def rank(self) -> int:
        """Number of columns of F."""
        return int(self.F.shape[1])

    def times(self, x: FloatArray) -> FloatArray:
        """K x, without forming K."""
        return self.F @ (self.F.T @ x) + self.rest * x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Solver by Woodbury's identity, which factorises a matrix of size rank."""
        w = 1 / (self.rest + diagonal)
        half = self.F * np.sqrt(w)[:, None]
        core = half.T @ half
        core[np.diag_indices_from(core)] += 1
        factor = cho_factor(core, overwrite_a=True, check_finite=False)

        def solve(h: FloatArray) -> FloatArray:
            inner = cho_solve(factor, self.F.T @ (w * h), check_finite=False)
            return np.asarray(w * (h - self.F @ inner))

        return solve


class Dense:
    """A kernel matrix in memory."""

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    def times(self, x: FloatArray) -> FloatArray:
        """K x."""
        return self.K @ x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Solver by a Cholesky factorisation; the small ridge keeps K definite despite rounding."""
        A = self.K.copy()
        A[np.diag_indices_from(A)] += diagonal + 1e-10 * self.K.diagonal().max()
        factor = cho_factor(A, overwrite_a=True, check_finite=False)

        def solve(h: FloatArray) -> FloatArray:
            return np.asarray(cho_solve(factor, h, check_finite=False))

        return solve


def pivoted_cholesky(K: FloatArray, rank: int, tolerance: float) -> LowRank:
    """Low-rank approximation of ``K`` by the pivoted Cholesky algorithm.

    It stops at ``rank`` columns, or when no residual exceeds ``tolerance`` times the
    largest diagonal entry.
    """
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
    return LowRank(np.ascontiguousarray(columns[:used].T), rest)


def distance_bounds(u: FloatArray, v: FloatArray, g: FloatArray) -> tuple[float, float]:
    """Lower and upper bound on the distance of u from the hull, where g = K (u - v).

    The distance of a feasible v is an upper bound. No row, and so no mixture of rows, has
    an inner product with u - v above the largest g, which gives the lower bound.
    """
    return _bounds(float(u @ g), float(v @ g), float(g.max()))


def _bounds(u_g: float, v_g: float, most_g: float) -> tuple[float, float]:
    """The bounds from the inner products of u, of v, and of the best row with u - v."""
    high = float(np.sqrt(max(u_g - v_g, 0.0)))
    if high == 0:
        return 0.0, 0.0
    return max((u_g - most_g) / high, 0.0), high


def nearest(
    kernel: LowRank | Dense, b: FloatArray, constant: float, tolerance: float
) -> FloatArray:
    """Weights on the simplex nearest to u, where b = K u and constant = u.b.

    Mehrotra's predictor-corrector method on v'Kv/2 - b'v; z holds the multipliers of
    v >= 0 and m that of the sum. It stops when the bounds on the distance differ by at
    most ``tolerance``.
    """
    n = len(b)
    v = np.full(n, 1 / n)
    g = b - kernel.times(v)
    m = -float(g.max())
    z = -g - m + 0.1 * np.abs(g).mean() + 1e-12
    for _ in range(60):
        low, high = _bounds(constant - float(b @ v), float(g @ v), float(g.max()))
        if high - low <= tolerance:
            break
        newton = _newton(kernel.inverse(z / v), v, z, g + m + z, 1 - float(v.sum()))
        gap = float(v @ z) / n
        dv, dm, dz = newton(-v * z)
        predicted_v = v + _room(v, dv) * dv
        predicted_z = z + _room(z, dz) * dz
        predicted_gap = float(predicted_v @ predicted_z) / n
        dv, dm, dz = newton(gap * (predicted_gap / gap) ** 3 - v * z - dv * dz)
        length = min(1.0, 0.99 * min(_room(v, dv, 2.0), _room(z, dz, 2.0)))
        v = v + length * dv
        m = m + length * dm
        z = z + length * dz
        g = b - kernel.times(v)
    return np.asarray(v / v.sum())


def _newton(
    solve: Callable[[FloatArray], FloatArray],
    v: FloatArray,
    z: FloatArray,
    residual: FloatArray,
    missing: float,
) -> Callable[[FloatArray], tuple[FloatArray, float, FloatArray]]:
    """The Newton step (dv, dm, dz) as a function of the target change of v z.

    ``missing`` is what the sum of v lacks to one.
    """
    ones = solve(np.ones(len(v)))

    def step(change: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        h = solve(change / v + residual)
        dm = (missing - float(h.sum())) / float(ones.sum())
        dv = h + dm * ones
        dz = (change - z * dv) / v
        return dv, dm, dz

    return step


def _room(x: FloatArray, dx: FloatArray, most: float = 1.0) -> float:
    """The largest step along ``dx``, at most ``most``, for which ``x`` stays non-negative."""
    down = dx < 0
    return float(np.min(-x[down] / dx[down], initial=most))


WIDTHS = np.logspace(-1, 1, 5)  # kernel widths tried, in median distances
LARGEST = 8.0  # largest lambda: no estimate exceeds 7/8
PRECISION = 0.04  # bisection stops when the bracket of lambda is this narrow
CELLS = 256  # number of possible final brackets
SLOPE_STEP = PRECISION / 2  # step of the forward difference that gives the slope
START = 1.05  # the initial slope is measured between 1 and this lambda
RANK = 250  # columns of the low-rank approximation of the kernel
SAME = 1e-7  # distance between U and P below which they are considered equal
GAP = 1e-5  # certified error of a distance, in units of the distance between U and P
START_GAP = 1e-4  # the same for the initial slope, which has a longer step


@default_errors_in
@dataclass(eq=False, repr=False)
class KernelMeanPrior:
    r"""KM1 and KM2: estimators of the class prior from features.

    Parameters
    ----------
    method : {"km2", "km1"}, default="km2"
        The slope of the distance at which lambda is estimated: relative to the initial
        slope (KM2), or to the size of the sampling noise (KM1).
    max_rows : int, default=2000
        Largest number of rows of each sample; larger samples are subsampled without
        replacement.
    max_dims : int, default=50
        Rows with more columns are projected on this many principal components of the
        unlabeled rows.
    random_state : int, Generator or None, default=None
        Seed of the subsampling; without effect if no sample is larger than ``max_rows``.

    Notes
    -----
    The kernel is Gaussian. Its width is one of five around the median distance: the one
    that separates the samples best. Let :math:`D` be the distance between the two kernel
    means. The estimate of :math:`\lambda` is where the slope of :math:`d` exceeds
    :math:`0.8 s_0 + 0.2 D` (KM2, where :math:`s_0` is the slope between 1 and 1.05) or
    :math:`1/\sqrt{\min(n, m)}` (KM1, unless this exceeds :math:`0.9 D`). It is found by
    bisection of [1, 8], so no estimate exceeds 0.875.

    The features are not scaled: scale columns of very different size first. High priors
    are underestimated by KM2 (0.66 for 0.7 with 200 rows of separated Gaussians). With a
    prior near 1 the two means coincide up to noise, and the estimate may be anything
    below 0.875.

    Each quadratic program is solved to a certified precision. Only those that affect the
    result of the bisection are solved.

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

    method: str = "km2"
    _: KW_ONLY
    max_rows: int = 2000
    max_dims: int = 50
    random_state: int | np.random.Generator | None = None

    def estimate(self, positive: Rows, unlabeled: Rows) -> PriorEstimate:
        """Class prior of ``unlabeled``.

        Parameters
        ----------
        positive, unlabeled : array-like or sparse matrix of shape (n, n_features)
            The two samples: features, not scores.

        Returns
        -------
        prior : PriorEstimate
            Its limits are 0 and 1, because the method has no interval.
            :func:`drpu.estimate_prior` computes one from scores.
        """
        check_choice("method", self.method, ("km1", "km2"))
        check_integer("max_rows", self.max_rows, low=2)
        check_integer("max_dims", self.max_dims, low=1)
        P = _features("positive", positive)
        U = _features("unlabeled", unlabeled)
        if P.shape[1] != U.shape[1]:
            raise DataError(
                "positive and unlabeled must have the same columns, "
                f"got {P.shape[1]} and {U.shape[1]}."
            )
        rng = np.random.default_rng(self.random_state)
        P = _draw(P, self.max_rows, rng)
        U = _draw(U, self.max_rows, rng)
        P, U = _project(P, U, self.max_dims)

        curve = DistanceCurve(U, P)
        stop_slope = float(1 / np.sqrt(min(len(U), len(P))))
        if self.method == "km2" or stop_slope > 0.9 * curve.scale:
            start_slope = curve.distance(START) / (START - 1)  # d(1) = 0, because U is in the hull
            stop_slope = 0.8 * start_slope + 0.2 * curve.scale
        guess = _bend(curve.rough_distance, stop_slope, guess=CELLS // 2, step=CELLS)
        cell = _bend(curve.distance, stop_slope, guess=min(guess, CELLS - 1), step=1)
        if cell == CELLS:
            PriorBoundaryWarning.issue(
                "the unlabeled rows cannot be distinguished from positives: kernel means cannot "
                f"estimate priors above {1 - 1 / LARGEST:g}, so the estimate is a lower bound."
            )
        lam = _lambda_of(cell - 0.5)
        return PriorEstimate((lam - 1) / lam, 0.0, 1.0, 0.95, self.method)


def _bend(distance: Callable[[float], float], stop_slope: float, *, guess: int, step: int) -> int:
    """The first cell at whose end the forward slope of ``distance`` exceeds ``stop_slope``.

    The distance is convex, so its slope increases, and every search gives the result of a
    bisection. A search that starts near the result needs few distances.
    """
    low = 0
    high = CELLS
    cell = guess
    while high - low > 1:
        lam = _lambda_of(cell)
        slope = (distance(lam + SLOPE_STEP) - distance(lam)) / SLOPE_STEP
        if slope > stop_slope:
            high = cell
            cell = max((low + high) // 2, high - step)
        else:
            low = cell
            cell = min((low + high) // 2, low + step)
        step *= 2
    return high


def _lambda_of(cell: float) -> float:
    """The lambda at the end of a cell of the bisection."""
    return 1 + (LARGEST - 1) * cell / CELLS


def _features(name: str, rows: Rows) -> Any:
    """``rows`` as a finite float64 matrix; sparse rows stay sparse."""
    if is_sparse(rows):
        X: Any = rows.tocsr().astype(np.float64)
    else:
        X = check_numbers(name, rows)
    if X.ndim != 2:
        raise DataError(
            f"{name} must have two dimensions, got shape {X.shape}: "
            "pass one row of features per case."
        )
    if 0 in X.shape:
        raise DataError(f"{name} must hold at least one row and one column, got shape {X.shape}.")
    values = X.data if is_sparse(X) else X
    if not np.isfinite(values).all():
        raise DataError(f"{name} must be finite: fill in or drop missing values first.")
    return X


def _draw(X: Any, size: int, rng: np.random.Generator) -> Any:
    """At most ``size`` rows, drawn without replacement and left in their order."""
    n = X.shape[0]
    if n <= size:
        return X
    return X[np.sort(rng.choice(n, size, replace=False))]


def _project(P: Any, U: Any, dims: int) -> tuple[FloatArray, FloatArray]:
    """Both samples on the leading principal components of U; sparse rows are not made dense."""
    n, d = U.shape
    if d <= dims:
        return _dense(P), _dense(U)
    centre = np.asarray(U.mean(axis=0)).ravel()
    if d <= n:
        spread = _dense(U.T @ U) - n * np.outer(centre, centre)
        axes = eigh(spread, subset_by_index=[d - dims, d - 1])[1]
    else:  # fewer rows than columns: compute the same axes from inner products of rows
        with_centre = np.asarray(U @ centre)
        gram = _dense(U @ U.T) - with_centre - with_centre[:, None] + centre @ centre
        values, vectors = eigh(gram, subset_by_index=[max(n - dims, 0), n - 1])
        least_value = np.finfo(float).eps * max(values[-1], 1e-300)
        vectors = vectors / np.sqrt(np.maximum(values, least_value))
        axes = np.asarray(U.T @ vectors) - np.outer(centre, vectors.sum(axis=0))
    offset = centre @ axes
    return np.asarray(P @ axes) - offset, np.asarray(U @ axes) - offset


def _dense(X: Any) -> FloatArray:
    if is_sparse(X):
        X = X.toarray()
    return np.asarray(X, dtype=np.float64)


def _best_kernel(U: FloatArray, P: FloatArray) -> tuple[FloatArray, float]:
    """Gaussian kernel of all rows (U first), and the distance between the two means."""
    X = np.vstack([U, P])
    X = X - X.mean(axis=0)
    norms = (X * X).sum(axis=1)
    squares = np.maximum(norms[:, None] + norms - 2 * (X @ X.T), 0)
    np.fill_diagonal(squares, 0)
    coarse = squares.astype(np.float32)  # single precision suffices to choose a width
    typical_square = float(np.median(coarse)) or float(coarse.mean()) or 1.0
    contrast = np.concatenate([np.full(len(U), 1 / len(U)), np.full(len(P), -1 / len(P))])

    def separation(width: float) -> float:
        K = np.exp(coarse * np.float32(-0.5 / (typical_square * width**2)))
        return float(contrast @ (K @ contrast.astype(np.float32)))

    best = max(WIDTHS, key=separation)
    np.multiply(squares, -0.5 / (typical_square * best**2), out=squares)  # saves memory
    K = np.exp(squares, out=squares)
    # Differences of distributions sum to zero, so centring the kernel changes no distance.
    # The centred kernel is better conditioned.
    means = K.mean(axis=0)
    K -= means
    K -= (means - means.mean())[:, None]
    return K, float(np.sqrt(max(contrast @ K @ contrast, 0)))


class DistanceCurve:
    r"""Distance of :math:`\lambda U + (1-\lambda) P` from the convex hull of all rows.

    Each distance is a quadratic program over the simplex. A rough distance uses the
    approximation of the kernel by low rank plus diagonal and is cheap. An exact one starts
    from the rows with positive weight in the rough solution, or at a neighbouring lambda,
    and adds rows until the bounds from the full kernel agree.
    """

    def __init__(self, U: FloatArray, P: FloatArray) -> None:
        self.kernel, self.scale = _best_kernel(U, P)  # scale: distance between the means
        self._unlabeled = np.concatenate([np.full(len(U), 1 / len(U)), np.zeros(len(P))])
        self._positive = np.concatenate([np.zeros(len(U)), np.full(len(P), 1 / len(P))])
        self._model = pivoted_cholesky(self.kernel, RANK, 1e-10)
        self._solved: dict[float, tuple[float, IntArray]] = {}

    def rough_distance(self, lam: float) -> float:
        """The distance at ``lam`` under the approximation of the kernel."""
        return 0.0 if self.scale < SAME else self._rough(lam)[0]

    def distance(self, lam: float) -> float:
        """The distance at ``lam``, to the certified precision."""
        if self.scale < SAME:
            return 0.0
        if lam not in self._solved:
            self._solved[lam] = self._solve(lam)
        return self._solved[lam][0]

    def _rough(self, lam: float) -> tuple[float, FloatArray]:
        """The rough distance, and the weights of the nearest point."""
        u = self._target(lam)
        b = self._model.times(u)
        v = nearest(self._model, b, float(u @ b), GAP * self.scale / 4)
        _, distance = distance_bounds(u, v, b - self._model.times(v))
        return distance, v

    def _solve(self, lam: float) -> tuple[float, IntArray]:
        """The distance, and the rows with positive weight in the nearest point."""
        gap = START_GAP if lam == START else GAP
        tolerance = gap * self.scale
        u = self._target(lam)
        b = self.kernel @ u
        rows = self._rows_of_neighbour(lam)
        if rows is None:
            _, v = self._rough(lam)
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
            closer = _closer_rows(v, g, rows)
            if high - low <= tolerance or len(closer) == 0:
                return high, rows[v[rows] > 1e-3 / len(rows)]
            rows = np.concatenate([rows, closer])

    def _rows_of_neighbour(self, lam: float) -> IntArray | None:
        """The rows of the nearest point at a neighbouring lambda, if that was solved."""
        if self._model.rank < RANK or not self._solved:  # an approximation of lower rank is exact
            return None
        neighbour = min(self._solved, key=lambda other: abs(other - lam))
        if abs(neighbour - lam) >= 2 * PRECISION:
            return None
        return self._solved[neighbour][1]

    def _target(self, lam: float) -> FloatArray:
        return lam * self._unlabeled + (1 - lam) * self._positive


def _closer_rows(v: FloatArray, g: FloatArray, rows: IntArray) -> IntArray:
    """Other rows that would bring the nearest point closer, the best first."""
    excess = g - v @ g
    excess[rows] = 0
    best = np.argsort(-excess)[: max(32, len(rows) // 4)]
    return best[excess[best] > 0]
