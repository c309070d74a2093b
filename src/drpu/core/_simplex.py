r"""Nearest point of a convex hull in kernel space: quadratic programs over the simplex.

For weights u and v that sum to one, the squared distance between the two mixtures of
rows is :math:`(u-v)' K (u-v)`. In large problems many rows are nearly redundant, so a
kernel approximated by low rank plus diagonal is nearly always accurate enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from drpu._typing import FloatArray

__all__ = ["Dense", "LowRank", "Quadratic", "distance_bounds", "nearest", "pivoted_cholesky"]


class Quadratic(Protocol):
    """A kernel matrix K with products, and with solves of K plus a diagonal."""

    def times(self, x: FloatArray) -> FloatArray:
        """K x."""

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """The function that maps h to the solution x of (K + diag(diagonal)) x = h."""


class LowRank:
    """A kernel approximated by F F' + diag(rest)."""

    def __init__(self, F: FloatArray, rest: FloatArray) -> None:
        self.F, self.rest = F, rest

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
        return lambda h: w * (h - self.F @ cho_solve(factor, self.F.T @ (w * h), check_finite=False))


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
        return lambda h: cho_solve(factor, h, check_finite=False)


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


def _bounds(reach: float, held: float, most: float) -> tuple[float, float]:
    high = float(np.sqrt(max(reach - held, 0.0)))
    return (max((reach - most) / high, 0.0) if high > 0 else 0.0), high


def nearest(kernel: Quadratic, b: FloatArray, constant: float, tolerance: float) -> FloatArray:
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
        ahead = float((v + _room(v, dv) * dv) @ (z + _room(z, dz) * dz)) / n
        dv, dm, dz = newton(gap * (ahead / gap) ** 3 - v * z - dv * dz)
        length = min(1.0, 0.99 * min(_room(v, dv, 2.0), _room(z, dz, 2.0)))
        v, m, z = v + length * dv, m + length * dm, z + length * dz
        g = b - kernel.times(v)
    share: FloatArray = v / v.sum()
    return share


def _newton(
    solve: Callable[[FloatArray], FloatArray], v: FloatArray, z: FloatArray, residual: FloatArray, lack: float
) -> Callable[[FloatArray], tuple[FloatArray, float, FloatArray]]:
    """The Newton step (dv, dm, dz) as a function of the target change of v z."""
    ones = solve(np.ones(len(v)))

    def step(change: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        h = solve(change / v + residual)
        dm = (lack - float(h.sum())) / float(ones.sum())
        dv = h + dm * ones
        return dv, dm, (change - z * dv) / v

    return step


def _room(x: FloatArray, dx: FloatArray, most: float = 1.0) -> float:
    """The largest step along ``dx``, at most ``most``, for which ``x`` stays non-negative."""
    down = dx < 0
    return float(np.min(-x[down] / dx[down], initial=most))
