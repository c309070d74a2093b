r"""Confidence limits of a sum over strata, from a few true labels in each.

In a stratified audit :math:`n_h` rows of stratum :math:`h` are labelled, of which :math:`x_h` have
the property in question. The limits are for :math:`\pi = \sum_h w_h p_h` with known weights. Normal limits
fail if a stratum has 0 of 20, and with a good score there are many such strata. The limits here invert a
test instead: a value of :math:`\pi` lies above the upper limit if, under this value, the sum
:math:`\sum_h w_h X_h / n_h` is at most the observed one with a probability below that of the tail. The
distribution of the sum is that of the binomial counts; the :math:`p_h`, which :math:`\pi` does not
determine, have their maximum-likelihood values given :math:`\pi`. With one stratum these are the limits
of Clopper and Pearson.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, gammaln, xlogy

from drpu._typing import FloatArray, IntArray

__all__ = ["Figure", "both_tails", "clopper_pearson", "likeliest_shares", "stratified_share"]

_GRID = 4096  # number of steps in the range of the weighted sum
_NEAR, _FAR = 3.0, 30.0  # multipliers, as inverse hyperbolic sines: a usual value, and one for shares of 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured quantity with confidence limits.

    Attributes
    ----------
    value, low, high : float
        The estimate and its limits; the value is NaN if nothing was measured.
    variance : float
        A conservative variance of ``value``, positive even if all answers agree.

    Examples
    --------
    >>> print(Figure(0.931, 0.88, 0.97))
    0.931 [0.880, 0.970]
    """

    value: float
    low: float
    high: float
    variance: float = 0.0

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def both_tails(level: float) -> tuple[float, float]:
    """Error probabilities of the lower and the upper limit at a confidence level."""
    return (1 - level) / 2, (1 - level) / 2


def stratified_share(
    weight: FloatArray,
    hits: FloatArray | IntArray,
    sizes: FloatArray | IntArray,
    *,
    tails: tuple[float, float] = (0.025, 0.025),
    rows: float = math.inf,
) -> Figure:
    r"""Estimate and limits of ``sum(weight * p)`` from ``hits`` of ``sizes`` answers in each stratum.

    Parameters
    ----------
    weight : ndarray of shape (H,)
        Weights of the strata, not negative: their shares of the rows.
    hits, sizes : ndarray of shape (H,)
        Answers with the property, and all answers, of each stratum. A stratum without
        answers may have any share, and the limits include this.
    tails : tuple of float, default=(0.025, 0.025)
        Error probabilities of the lower and of the upper limit.
    rows : float, default=inf
        Number of rows that the weights were counted on. The limits are for the
        population of these rows, so the noise of the weights,
        :math:`\sum w_h (p_h - \pi)^2 / N`, is added. Infinite if the weights are known.

    Examples
    --------
    >>> import numpy as np
    >>> share = stratified_share(np.array([0.7, 0.3]), np.array([0, 18]), np.array([30, 20]))
    >>> round(share.value, 2), share.low < 0.27 < share.high
    (0.27, True)
    """
    sample = _Sample.of(weight, hits, sizes, rows)
    lower, upper = tails
    return Figure(
        sample.value, sample.low(lower), sample.total - sample.opposite().low(upper), sample.variance
    )


@dataclass(frozen=True)
class _Sample:
    """Answers in the strata that have answers, and the weight of the strata without answers."""

    weight: FloatArray
    hits: FloatArray
    sizes: FloatArray
    rows: float
    unseen: float

    @classmethod
    def of(
        cls, weight: FloatArray, hits: FloatArray | IntArray, sizes: FloatArray | IntArray, rows: float
    ) -> _Sample:
        seen = (weight > 0) & (np.asarray(sizes) > 0)
        w, x, n = (np.asarray(part, dtype=np.float64)[seen] for part in (weight, hits, sizes))
        return cls(w, x, n, rows, float(weight[~seen].sum()))

    @property
    def total(self) -> float:
        return float(self.weight.sum()) + self.unseen

    @property
    def value(self) -> float:
        """Weighted mean; strata without answers get the mean of the others."""
        seen = float(self.weight.sum())
        return float(self.weight @ (self.hits / self.sizes)) * self.total / seen if seen > 0 else 0.0

    @property
    def variance(self) -> float:
        p = (self.hits + 0.5) / (self.sizes + 1)
        inside = float(self.weight**2 @ (p * (1 - p) / self.sizes))
        return inside + self._between(p) + self.unseen**2 / 12

    def opposite(self) -> _Sample:
        """The sample of the answers without the property; its lower limit gives the upper limit here."""
        return _Sample(self.weight, self.sizes - self.hits, self.sizes, self.rows, self.unseen)

    def low(self, tail: float) -> float:
        """The share at which a sum at least as large as observed has probability ``tail``.

        Strata without answers count as 0.
        """
        if not self.hits.any():
            return 0.0
        if len(self.weight) == 1:
            return float(self.weight[0]) * clopper_pearson(self.hits[0], self.sizes[0], tail, upper=False)
        near, far = 0.0, _NEAR
        while self._as_large(far) > tail:
            if far >= _FAR:
                return 0.0
            near, far = far, 1.5 * far
        if near == 0 and self._as_large(0.0) <= tail:
            return float(self.weight @ (self.hits / self.sizes))
        # The logarithm of the probability is nearly a parabola, so it needs fewer steps.
        found = float(brentq(self._excess, near, far, args=(tail,), xtol=1e-3))
        return float(self.weight @ self._likeliest(found))

    def _excess(self, position: float, tail: float) -> float:
        return math.log(max(self._as_large(position), 1e-12) / tail)

    def _likeliest(self, position: float) -> FloatArray:
        return likeliest_shares(self.weight, self.hits, self.sizes, math.sinh(position))

    def _as_large(self, position: float) -> float:
        """P(the weighted sum is at least as large as observed), from the distribution of counts on a grid.

        ``position`` determines the share that is tested: 0 is the observed one, and larger
        positions are smaller shares.
        """
        p = self._likeliest(position)
        unit = float(self.weight.sum()) / _GRID
        stratum, k, n, ways, place = self._counts
        size = self._cells
        mass = np.exp(ways + xlogy(k, p[stratum]) + xlogy(n - k, 1 - p[stratum]))
        laws = np.bincount(place, weights=mass, minlength=len(p) * size).reshape(len(p), size)
        spectrum = np.fft.rfft(laws, axis=1).prod(axis=0)
        spectrum *= np.exp(-0.5 * self._between(p) * (2 * math.pi * np.fft.rfftfreq(size) / unit) ** 2)
        law = np.fft.irfft(spectrum, size)
        # Rounding changes the sum of each stratum by at most half a step: include all that may be as large.
        first = max(math.ceil(float(self.weight @ (self.hits / self.sizes)) / unit - len(p) / 2), 0)
        return min(max(float(law[first : (_GRID + size) // 2].sum()), 0.0), 1.0)

    @property
    def _cells(self) -> int:
        """Cells of the grid, with room for the noise of the weights on either side of the sum."""
        return _GRID + (_GRID // 2 if self.rows >= 500 else _GRID)

    @cached_property
    def _counts(self) -> tuple[IntArray, FloatArray, FloatArray, FloatArray, IntArray]:
        """Every count of every stratum: stratum, count, size, log binomial coefficient, place on the grid."""
        sizes = self.sizes.astype(np.int64)
        stratum = np.repeat(np.arange(len(sizes)), sizes + 1)
        k = np.concatenate([np.arange(size + 1.0) for size in sizes])
        n = self.sizes[stratum]
        ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        step = self.weight / self.sizes * _GRID / self.weight.sum()
        place = stratum * self._cells + np.rint(k * step[stratum]).astype(np.int64)
        return stratum, k, n, np.asarray(ways), place

    def _between(self, p: FloatArray) -> float:
        """Variance from the shares of the strata, which were counted on finitely many rows."""
        share = self.weight / self.weight.sum()
        return float(self.weight.sum()) ** 2 * float(share @ (p - share @ p) ** 2) / self.rows


def likeliest_shares(
    weight: FloatArray, hits: FloatArray, sizes: FloatArray, multiplier: float
) -> FloatArray:
    r"""Shares of the strata with the largest likelihood among all with the same weighted sum.

    Notes
    -----
    With Lagrange's multiplier :math:`\mu`, each solves
    :math:`\mu w p^2 - (\mu w + n) p + x = 0`. The weighted sum is the observed one at
    :math:`\mu = 0` and decreases in :math:`\mu`.
    """
    m = multiplier * weight
    linear = m + sizes
    root = np.sqrt(np.maximum(linear**2 - 4 * m * hits, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(linear > 0, 2 * hits / (linear + root), (linear - root) / (2 * m))
    return np.asarray(np.clip(np.nan_to_num(p), 0, 1))


def clopper_pearson(hits: float, size: float, tail: float, *, upper: bool) -> float:
    """The exact limit of one binomial share."""
    if upper:
        return 1.0 if hits >= size else float(betaincinv(hits + 1, size - hits, 1 - tail))
    return 0.0 if hits <= 0 else float(betaincinv(hits, size - hits + 1, tail))
