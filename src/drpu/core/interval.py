r"""How far a prior may be trusted: confidence limits from counts alone.

Let :math:`b(t), a(t)` be the shares of positives and of unlabeled rows that score
at least :math:`t`. Their ratio :math:`\theta(t) = a(t)/b(t)` is the prior plus what
negatives add to the tail, so every threshold bounds the prior from above, and the
lowest point of the curve is the *visible mixture proportion*: the share of U that
looks exactly like P at its most positive scores.

``high`` is an upper limit of that lowest point, and so of the prior, whatever the
data are. ``low`` is a lower limit of the visible proportion, and one of the prior
only if no negative scores as high as the best positives. No method can do more:
every prior from 0 to the visible proportion gives the same positives and the same
unlabeled rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from drpu._checks import check_fraction, check_prior
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.core.tails import ScoreTails

__all__ = ["Limits", "exact_limits", "ratio_limits", "shift_limits"]

_STEP = math.log(2) / 4  # thresholds keep n, n 2^(-1/4), n 2^(-1/2), ... positives
_FEWEST = 5  # positives below which nothing can be said
_DESIGN = 0.025  # the deciding threshold is chosen at 95 % whatever the level: limits then nest

_Bounds: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, slots=True)
class Limits:
    """Confidence limits of a prior, and how they came about.

    Attributes
    ----------
    low, high : float
        The limits, in [0, 1].
    recall : float
        Share of the positives above the threshold that decided ``high``; 1 when
        no single threshold did.
    separation : float
        Youden's index of the score between positives and negatives less its
        noise. Below .45 ``low`` is not to be trusted as a bound on the prior.
    """

    low: float
    high: float
    recall: float
    separation: float


# -- the three rules ---------------------------------------------------------------------


def ratio_limits(tails: ScoreTails, level: float) -> Limits:
    """Limits of the share of positives in one sample, from the ratio of tails.

    Parameters
    ----------
    tails : ScoreTails
        Counts of the sample.
    level : float
        Confidence level of the two limits together, in (0, 1).

    Returns
    -------
    limits : Limits
        From 0 to 1 where there are fewer than five positives or no threshold.

    Notes
    -----
    ``high`` is the least of simultaneous upper limits along the curve, ``low`` the
    least of pointwise lower limits from the deciding threshold down to a quarter of
    its recall (an eighth or a sixteenth when the score separates poorly). Both are
    asymptotic; :func:`exact_limits` are not.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> tails = ScoreTails(rng.normal(3, 1, 500))
    >>> limits = ratio_limits(tails.update(rng.normal(3, 1, 300)).update(rng.normal(0, 1, 700)), 0.95)
    >>> limits.low < 0.3 < limits.high
    True
    """
    check_fraction("level", level)
    curve = _ratio_curve(tails)
    separation = _separation(tails, None if curve is None else curve.middle())
    if curve is None:
        return _unknown(separation)
    return curve.at(level, separation)


def shift_limits(
    tails: ScoreTails, reference: ScoreTails, level: float, *, train_prior: float | None = None
) -> Limits:
    r"""Limits of the share of positives in a second sample, seen beside the first.

    Parameters
    ----------
    tails : ScoreTails
        Counts of the new sample.
    reference : ScoreTails
        Counts of the training unlabeled sample over the same positives.
    level : float
        Confidence level of the two limits together, in (0, 1).
    train_prior : float, optional
        Prior of the reference sample where it is known without error. The
        interval is then about half as wide, and ``low`` needs no pure tail.

    Notes
    -----
    At every threshold :math:`a' - b = \lambda (a - b)` with
    :math:`\lambda = (1-\pi')/(1-\pi)`, which a least-squares fit over all
    thresholds finds without any prior. Then :math:`\theta' = 1 - \lambda (1 - \theta)`,
    with the noise of all three samples carried through. Where the prior fell
    (:math:`\lambda > 1`) the noise of :math:`\theta` would be blown up, and the ratio
    of the new tails is read instead: the same quantity at each threshold.
    """
    check_fraction("level", level)
    pi = None if train_prior is None else check_prior("train_prior", train_prior)
    base = _ratio_curve(reference)
    middle = None if base is None else base.middle()
    separation = _separation(reference, middle if pi is None else pi)
    match = _match(tails, reference)

    if match is not None and pi is not None and pi < 1 and tails.n_positive >= _FEWEST:
        reach = -float(ndtri((1 - level) / 2)) * match.spread
        ends = (1 - (match.value + side * reach) * (1 - pi) for side in (1, -1))
        low, high = (min(1.0, max(0.0, end)) for end in ends)
        return Limits(low, high, 1.0, separation)
    moved = match is not None and match.value <= 1
    curve = _match_curve(reference, match, tails.n) if match is not None and moved else _ratio_curve(tails)
    return _unknown(separation) if curve is None else curve.at(level, separation)


def exact_limits(tails: ScoreTails, level: float, *, recall: float = 0.1) -> Limits:
    r"""Limits that hold in finite samples for any distribution, about 1.6 times as wide.

    Parameters
    ----------
    tails : ScoreTails
        Counts of the sample. With weights the effective sizes stand in for the
        counts, and the guarantee is approximate.
    level : float
        Confidence level of the two limits together, in (0, 1).
    recall : float, default=0.1
        ``low`` bounds the lowest point of the curve among thresholds that keep at
        least this share of the positives: the prior itself, if one of them keeps
        no negative.

    Notes
    -----
    ``high``: Clopper-Pearson limits of both tails at ranks fixed in advance, shared
    out by Bonferroni. ``low``: the threshold that attains the lowest point is fixed,
    so pointwise limits at every level are enough; a third of the error goes to each
    tail and a third to that threshold keeping fewer positives than are looked at.
    """
    check_fraction("level", level)
    check_fraction("recall", recall)
    middle = _ratio_curve(tails)
    separation = _separation(tails, None if middle is None else middle.middle())
    tail = (1 - level) / 2
    low = _exact_low(tails, tail, recall)
    high, decided = _exact_high(tails, tail)
    return Limits(min(low, high), high, decided, separation)


def _exact_high(tails: ScoreTails, tail: float) -> tuple[float, float]:
    """The upper limit and the recall of the rank that gave it."""
    n, n_positive = tails.n, tails.n_positive
    rank = _ranks(n_positive, 2 * _STEP)
    if len(rank) == 0:
        return 1.0, 1.0
    # The designed rank, not the tied count: ties only raise the share above the threshold.
    hits = tails.survival[_levels(tails, rank)] * n
    t = tail / (2 * len(rank))
    above = np.where(hits < n - 0.5, betaincinv(hits + 1, np.maximum(n - hits, 0.5), 1 - t), 1.0)
    upper = above / betaincinv(rank, n_positive - rank + 1, t)
    best = int(np.argmin(upper))
    return min(1.0, float(upper[best])), min(1.0, float(rank[best]) / n_positive)


def _exact_low(tails: ScoreTails, tail: float, recall: float) -> float:
    """The lower limit of the lowest point of the curve at ``recall`` or more."""
    n, n_positive, t = tails.n, tails.n_positive, tail / 3
    counts = np.arange(math.ceil(n_positive))
    # Fewest positives that a threshold of this recall keeps, but for probability t.
    fewest = int((betainc(n_positive - counts, counts + 1, 1 - recall) < t).sum())
    if fewest == 0:
        return 0.0
    kept = tails.positive_survival * n_positive
    use = kept >= fewest - 1e-9
    kept, hits = kept[use], tails.survival[use] * n
    below = np.where(hits > 0, betaincinv(np.maximum(hits, 1e-9), n - hits + 1, t), 0.0)
    reach = np.where(
        kept < n_positive - 1e-9, betaincinv(kept + 1, np.maximum(n_positive - kept, 1e-9), 1 - t), 1.0
    )
    return min(1.0, float((below / reach).min()))


# -- a curve of thresholds and its lowest point --------------------------------------------


@dataclass(frozen=True, slots=True)
class _Curve:
    """A quantity read at each of a few thresholds, whose lowest point is wanted.

    ``point`` and ``spread`` are on the scale where the curve, taken along its own
    variance, is a Brownian motion; ``bounds`` turns a number of standard deviations
    into lower and upper limits of the quantity itself.
    """

    recall: FloatArray
    n_positive: float
    point: FloatArray
    spread: FloatArray
    bounds: Callable[[float], _Bounds]
    n: float

    def at(self, level: float, separation: float) -> Limits:
        """Limits of the lowest point at ``level``."""
        tail = (1 - level) / 2
        decides = self._deciding()
        high = self.bounds(self._critical(tail))[1][decides]
        low = self.bounds(-float(ndtri(tail)))[0][self._window(decides, _reach(separation))].min()
        recall = float(self.recall[decides])
        return Limits(min(1.0, max(0.0, float(low))), min(1.0, max(0.0, float(high))), recall, separation)

    def middle(self) -> float:
        """A rough value of the lowest point: the middle of a narrow 95 % interval."""
        decides = self._deciding()
        high = float(self.bounds(self._critical(_DESIGN))[1][decides])
        low = float(self.bounds(-float(ndtri(_DESIGN)))[0][self._window(decides, 2)].min())
        return (min(1.0, max(0.0, low)) + min(1.0, max(0.0, high))) / 2

    def _deciding(self) -> int:
        return int(np.argmin(self.bounds(self._critical(_DESIGN))[1]))

    def _critical(self, tail: float) -> float:
        """Standard deviations that the whole curve exceeds with probability ``tail``.

        Only the thresholds that may attain the minimum count (inequality selection).
        """
        variance = self.spread**2
        wide = _critical_value(0.1 / math.log(max(self.n, 20.0)), _log_range(variance))
        near = self.point <= (self.point + wide * self.spread).min() + 2 * wide * self.spread
        return _critical_value(tail, _log_range(variance[near]))

    def _window(self, decides: int, reach: float) -> BoolArray:
        """Thresholds from the deciding one down to ``1/reach`` of its recall."""
        recall = self.recall[decides]
        inside: BoolArray = (self.recall <= recall) & (self.recall >= recall / reach - 1 / self.n_positive)
        return inside


def _critical_value(tail: float, log_range: float) -> float:
    r"""The c that a standardised Brownian curve exceeds with probability ``tail``.

    In the logarithm of its variance, standardised Brownian motion is a stationary
    Ornstein-Uhlenbeck process. With :math:`L` the range of that logarithm and
    :math:`h` the step of the grid,

    .. math:: 1 - \Phi(c) + \frac{L+h}{2} \left(c - \frac{1}{2c}\right) \varphi(c) e^{-.583 c \sqrt h}
       = \text{tail}.
    """
    pointwise = -float(ndtri(tail))
    if log_range <= 0:
        return pointwise
    low, high = max(pointwise, 1.0), 9.0
    if _exceeds(low, log_range) <= tail:
        return low
    for _ in range(40):
        c = (low + high) / 2
        low, high = (c, high) if _exceeds(c, log_range) > tail else (low, c)
    return high


def _exceeds(c: float, log_range: float) -> float:
    density = math.exp(-c * c / 2) / math.sqrt(2 * math.pi)
    crossings = (log_range + _STEP) / 2 * (c - 0.5 / c) * density * math.exp(-0.583 * c * math.sqrt(_STEP))
    return math.erfc(c / math.sqrt(2)) / 2 + crossings


def _log_range(variance: FloatArray) -> float:
    return math.log(float(variance.max()) / float(variance.min()))


def _reach(separation: float) -> float:
    """How far below the deciding threshold ``low`` looks: further where bias may hide."""
    if separation >= 0.6:
        return 4.0
    return 8.0 if separation >= 0.45 else 16.0


def _separation(tails: ScoreTails, prior: float | None) -> float:
    """Youden's index of the score, positives against negatives, less its noise."""
    gap = float((tails.positive_survival - tails.survival).max())
    index = gap / max(1 - (prior or 0.0), 0.02) - 1 / math.sqrt(tails.n_positive)
    return min(1.0, max(-1.0, index))


def _unknown(separation: float) -> Limits:
    return Limits(0.0, 1.0, 1.0, separation)


# -- the ratio of tails --------------------------------------------------------------------


def _ranks(n_positive: float, step: float) -> FloatArray:
    """Numbers of positives that the thresholds keep: geometric, from all but a few to a few."""
    fewest = max(4.0, min(10.0, n_positive // 12))
    if n_positive < _FEWEST:
        return np.empty(0)
    j = np.arange(1, 1 + int(math.log(n_positive / fewest) / step + 1e-9))
    rank = np.unique(np.maximum(np.round(n_positive * np.exp(-step * j)), fewest))
    return rank[rank < n_positive]


def _levels(tails: ScoreTails, rank: FloatArray) -> IntArray:
    """Index of the last level that keeps at least ``rank`` positives."""
    kept = tails.positive_survival * tails.n_positive
    return np.searchsorted(-kept, -rank + 1e-9, side="right").astype(np.int64) - 1


def _grid(tails: ScoreTails) -> IntArray:
    """Indices of the levels that are looked at; none where all positives are tied."""
    at = np.unique(_levels(tails, _ranks(tails.n_positive, _STEP)))
    return at[tails.positive_survival[at] < 1 - 1e-12]


def _ratio_curve(tails: ScoreTails) -> _Curve | None:
    """Logarithm of a/b on the grid; None where there is no threshold."""
    at = _grid(tails)
    if len(at) == 0:
        return None
    n, n_positive, b = tails.n, tails.n_positive, tails.positive_survival[at]
    kept, hits = b * n_positive, tails.survival[at] * n
    return _Curve(
        recall=b,
        n_positive=n_positive,
        point=np.log(_theta(hits, n, kept, n_positive)),
        spread=np.sqrt(_log_variance(hits, n, kept, n_positive)),
        bounds=lambda c: _ratio_bounds(hits, n, kept, n_positive, c),
        n=min(n, n_positive),
    )


def _theta(hits: FloatArray, n: float, kept: FloatArray, n_positive: float) -> FloatArray:
    return ((hits + 0.5) / (n + 1)) / (kept / (n_positive + 1))


def _log_variance(hits: FloatArray, n: float, kept: FloatArray, n_positive: float) -> FloatArray:
    a, b = (hits + 0.5) / (n + 1), kept / (n_positive + 1)
    return (1 - b) / (n_positive * b) + (1 - a) / (n * a)


def _ratio_bounds(hits: FloatArray, n: float, kept: FloatArray, n_positive: float, c: float) -> _Bounds:
    """Limits of a/b at ``c`` standard deviations: each tail's own limits, joined on the log scale.

    a has Jeffreys' posterior; b, at the m-th largest of n scores, is Beta(m, n - m + 1).
    """
    p = np.array([[ndtr(-c)], [0.5], [ndtr(c)]])
    a = np.log(betaincinv(hits + 0.5, np.maximum(n - hits, 0.0) + 0.5, p))
    b = np.log(betaincinv(kept, n_positive - kept + 1, p))
    middle = a[1] - b[1]
    low = np.where(hits > 0, np.exp(middle - np.hypot(a[1] - a[0], b[2] - b[1])), 0.0)
    return low, np.exp(middle + np.hypot(a[2] - a[1], b[1] - b[0]))


# -- matching a second sample ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """lambda = (1 - pi')/(1 - pi), its standard deviation and its influence in each cell."""

    value: float
    spread: float
    influence: FloatArray


def _match(tails: ScoreTails, reference: ScoreTails) -> _Match | None:
    """Least squares of a' - b on a - b over all levels; None where a = b everywhere.

    The sum that defines lambda is a mean of one function of the cell over each
    sample, so the whole multinomial covariance costs one cumulative sum.
    """
    cells = _shares(reference.positive_counts), _shares(reference.counts), _shares(tails.counts)
    sizes = reference.n_positive, reference.n, tails.n
    b, a, a_new = reference.positive_survival, reference.survival, tails.survival
    weight, slope = cells[0][1:], a - b

    noise_b = float(weight @ (b * (1 - b))) / sizes[0]
    noise_a = float(weight @ (a * (1 - a))) / sizes[1]
    square, product = float(weight @ slope**2), float(weight @ (slope * (a_new - b)))
    if square <= 0:
        return None
    if square - noise_a - noise_b > 0.2 * square:  # the regressor's own noise would pull lambda to 0
        square, product = square - noise_a - noise_b, product - noise_b
    value = max(0.0, product / square)
    influence = np.append(0.0, np.cumsum(weight * slope / square))
    scales = 1 - value, value, 1.0
    variance = sum(s**2 * _variance(p, influence) / n for s, p, n in zip(scales, cells, sizes, strict=True))
    return _Match(value, math.sqrt(variance), influence)


def _match_curve(reference: ScoreTails, match: _Match, n_new: float) -> _Curve | None:
    """1 - lambda (1 - a/b) on the grid, with the noise that lambda and a/b share."""
    at = _grid(reference)
    if len(at) == 0:
        return None
    n, n_positive, b = reference.n, reference.n_positive, reference.positive_survival[at]
    kept, hits = b * n_positive, reference.survival[at] * n
    theta = np.minimum(_theta(hits, n, kept, n_positive), 1.0)
    lam, sd, gap = match.value, match.spread, 1 - theta

    cov_u = _tail_covariance(_shares(reference.counts), match.influence, at) / n
    cov_p = _tail_covariance(_shares(reference.positive_counts), match.influence, at) / n_positive
    covariance = (-lam * cov_u + (1 - lam) * theta * cov_p) / b
    sd_theta = theta * np.sqrt(_log_variance(hits, n, kept, n_positive))
    rho = np.clip(covariance / np.maximum(sd_theta * sd, 1e-12), -0.99, 0.99)
    variance = (lam * sd_theta) ** 2 + (gap * sd) ** 2 - 2 * lam * gap * covariance
    point = 1 - lam * gap

    def bounds(c: float) -> _Bounds:
        low, high = _ratio_bounds(hits, n, kept, n_positive, c)
        of_lambda = gap * c * sd

        def joined(of_theta: FloatArray) -> FloatArray:
            return np.sqrt(np.maximum(of_theta**2 + of_lambda**2 - 2 * rho * of_theta * of_lambda, 0))

        down, up = (lam * np.maximum(side, 0) for side in (theta - low, high - theta))
        return point - joined(down), point + joined(up)

    return _Curve(
        b, n_positive, point, np.sqrt(np.maximum(variance, 1e-12)), bounds, min(n, n_positive, n_new)
    )


def _shares(counts: IntArray | FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def _tail_covariance(share: FloatArray, values: FloatArray, at: IntArray) -> FloatArray:
    """Covariance of ``values`` and of lying at or above each level of ``at``."""
    centred = share * (values - share @ values)
    tail: FloatArray = centred[::-1].cumsum()[::-1]
    return tail[at + 1]
