r"""Nearest point of a convex hull in kernel space: quadratic programs over the simplex.

With u any weights that sum to one, the squared distance of a mixture v of rows is
:math:`(u-v)' K (u-v)`. Rows of large problems hardly differ in what they can
contribute, so a kernel of low rank plus a diagonal nearly always gives the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from drpu._typing import FloatArray

__all__ = ["Dense", "LowRank", "Quadratic", "distance_bounds", "nearest", "pivoted_cholesky"]


class Quadratic(Protocol):
    """A kernel that multiplies, and solves with something added to its diagonal."""

    def times(self, x: FloatArray) -> FloatArray:
        """K x."""

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """What maps h to the x with (K + diag(diagonal)) x = h."""


class LowRank:
    """A kernel modelled as F F' + diag(rest)."""

    def __init__(self, F: FloatArray, rest: FloatArray) -> None:
        self.F, self.rest = F, rest

    @property
    def rank(self) -> int:
        """Columns of F."""
        return int(self.F.shape[1])

    def times(self, x: FloatArray) -> FloatArray:
        """K x, without K."""
        return self.F @ (self.F.T @ x) + self.rest * x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Solver by Woodbury's identity: a factor of the size of the rank."""
        w = 1 / (self.rest + diagonal)
        half = self.F * np.sqrt(w)[:, None]
        core = half.T @ half
        core[np.diag_indices_from(core)] += 1
        factor = cho_factor(core, overwrite_a=True, check_finite=False)
        return lambda h: w * (h - self.F @ cho_solve(factor, self.F.T @ (w * h), check_finite=False))


class Dense:
    """A kernel matrix as it is."""

    def __init__(self, K: FloatArray) -> None:
        self.K = K

    def times(self, x: FloatArray) -> FloatArray:
        """K x."""
        return self.K @ x

    def inverse(self, diagonal: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """Solver by Cholesky factors; rounding alone must not make K indefinite."""
        A = self.K.copy()
        A[np.diag_indices_from(A)] += diagonal + 1e-10 * self.K.diagonal().max()
        factor = cho_factor(A, overwrite_a=True, check_finite=False)
        return lambda h: cho_solve(factor, h, check_finite=False)


def pivoted_cholesky(K: FloatArray, rank: int, tolerance: float) -> LowRank:
    """Model of ``K`` that explains the row worst explained so far, again and again.

    It stops at ``rank`` columns, or when no row has more than the share
    ``tolerance`` of the largest diagonal entry left.
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

    A feasible v is at least as far as the nearest point. No row reaches further
    towards u than the largest g, so neither does any mixture of them.
    """
    return _bounds(float(u @ g), float(v @ g), float(g.max()))


def _bounds(reach: float, held: float, most: float) -> tuple[float, float]:
    high = float(np.sqrt(max(reach - held, 0.0)))
    return (max((reach - most) / high, 0.0) if high > 0 else 0.0), high


def nearest(kernel: Quadratic, b: FloatArray, constant: float, tolerance: float) -> FloatArray:
    """Weights on the simplex nearest to u, where b = K u and constant = u.b.

    Mehrotra's predictor-corrector method on v'Kv/2 - b'v; z holds the multipliers of
    v >= 0 and m that of the sum. It stops once the bounds on the distance are within
    ``tolerance``.
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
    """Newton's step (dv, dm, dz) as a function of the change of v z that is wanted."""
    ones = solve(np.ones(len(v)))

    def step(change: FloatArray) -> tuple[FloatArray, float, FloatArray]:
        h = solve(change / v + residual)
        dm = (lack - float(h.sum())) / float(ones.sum())
        dv = h + dm * ones
        return dv, dm, (change - z * dv) / v

    return step


def _room(x: FloatArray, dx: FloatArray, most: float = 1.0) -> float:
    """How far along ``dx`` the positive ``x`` stays so, at most ``most``."""
    down = dx < 0
    return float(np.min(-x[down] / dx[down], initial=most))
