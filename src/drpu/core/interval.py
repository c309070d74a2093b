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
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, ndtri

from drpu._checks import check_fraction, check_prior
from drpu._typing import FloatArray, IntArray
from drpu.core._curve import FEWEST, STEP, Curve, TailRatio, grid, last_levels, ranks
from drpu.core.shift import match_negatives
from drpu.core.tails import ScoreTails

__all__ = ["Limits", "exact_limits", "ratio_limits", "shift_limits"]

# How far below the deciding threshold `low` looks: further where a bias may hide.
_REACH = ((0.6, 4.0), (0.45, 8.0), (0.0, 16.0))


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
    return _limits(curve, level, _separation(tails, curve))


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
    pi = 1.0 if train_prior is None else check_prior("train_prior", train_prior)
    match = _match(tails, reference)
    # A reference without negatives has nothing to compare with: as good as unknown.
    if match is not None and pi < 1 and tails.n_positive >= FEWEST:
        return _known_prior_limits(match, level, pi, _separation(reference, pi))
    separation = _separation(reference, _ratio_curve(reference))
    if match is not None and match.value <= 1:
        return _limits(_match_curve(reference, match, tails.n), level, separation)
    return _limits(_ratio_curve(tails), level, separation)


def exact_limits(tails: ScoreTails, level: float, *, recall: float = 0.1) -> Limits:
    r"""Limits that hold in finite samples for any distribution, about 1.7 times as wide.

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
    tail = (1 - level) / 2
    low = _exact_low(tails, tail, recall)
    high, decided = _exact_high(tails, tail)
    return Limits(min(low, high), high, decided, _separation(tails, _ratio_curve(tails)))


# -- from a curve to limits --------------------------------------------------------------


def _limits(curve: Curve | None, level: float, separation: float) -> Limits:
    """Limits of the lowest point of ``curve``, and no limits where there is none."""
    if curve is None:
        return Limits(0.0, 1.0, 1.0, separation)
    reach = next((reach for least, reach in _REACH if separation > least), None)
    # A score that separates nothing has no pure tail: any share below `high` may be.
    low = 0.0 if reach is None else curve.low(level, reach)
    return Limits(low, curve.high(level), float(curve.recall[curve.deciding]), separation)


def _separation(tails: ScoreTails, prior: Curve | float | None) -> float:
    """Youden's index of the score, positives against negatives, less its noise."""
    pi = prior.middle if isinstance(prior, Curve) else prior or 0.0
    gap = float((tails.positive_survival - tails.survival).max())
    return min(1.0, max(-1.0, gap / max(1 - pi, 0.02) - 1 / math.sqrt(tails.n_positive)))


def _ratio_curve(tails: ScoreTails) -> Curve | None:
    """a/b on the grid, compared by logarithms; None where there is no threshold."""
    at = grid(tails)
    if len(at) == 0:
        return None
    ratio = TailRatio.of(tails, at)
    return Curve(
        recall=tails.positive_survival[at],
        n_positive=tails.n_positive,
        point=np.log(ratio.value),
        variance=ratio.log_variance,
        lower=ratio.lower,
        upper=ratio.upper,
        n=min(tails.n, tails.n_positive),
    )


# -- matching a second sample --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Match:
    """lambda = (1 - pi')/(1 - pi), its standard deviation and its influence in each cell."""

    value: float
    spread: float
    influence: FloatArray


def _match(tails: ScoreTails, reference: ScoreTails) -> _Match | None:
    """Growth of the negatives with its noise; None where a = b everywhere.

    lambda is a sum over thresholds, hence a mean of one function of the cell over
    each sample: the whole multinomial covariance costs one cumulative sum.
    """
    b, a = reference.positive_survival, reference.survival
    positive = _shares(reference.positive_counts)
    weight, slope = positive[1:], a - b
    noise = float(weight @ (b * (1 - b) / reference.n_positive + a * (1 - a) / reference.n))
    size = float(weight @ slope**2)
    if size <= 0:
        return None
    size = size - noise if size - noise > 0.2 * size else size

    value = match_negatives(tails, reference)
    influence = np.append(0.0, np.cumsum(weight * slope / size))
    variance = (1 - value) ** 2 * _variance(positive, influence) / reference.n_positive
    for sample, scale in ((reference, value), (tails, 1.0)):
        variance += scale**2 * _variance(_cautious(sample), influence) / sample.n
    return _Match(value, math.sqrt(variance), influence)


def _known_prior_limits(match: _Match, level: float, train_prior: float, separation: float) -> Limits:
    reach = -float(ndtri((1 - level) / 2)) * match.spread
    ends = 1 - (match.value + np.array([reach, -reach])) * (1 - train_prior)
    low, high = np.clip(ends, 0, 1).tolist()
    return Limits(low, high, 1.0, separation)


def _match_curve(reference: ScoreTails, match: _Match, n_new: float) -> Curve | None:
    """1 - lambda (1 - a/b) on the grid, with the noise that lambda and a/b share."""
    at = grid(reference)
    if len(at) == 0:
        return None
    ratio, b = TailRatio.of(reference, at), reference.positive_survival[at]
    lam, sd, theta = match.value, match.spread, np.minimum(ratio.value, 1.0)
    gap = 1 - theta

    cov_u = _tail_covariance(_shares(reference.counts), match.influence, at) / reference.n
    cov_p = _tail_covariance(_shares(reference.positive_counts), match.influence, at) / reference.n_positive
    covariance = (-lam * cov_u + (1 - lam) * theta * cov_p) / b
    sd_theta = theta * np.sqrt(ratio.log_variance)
    rho = np.clip(covariance / np.maximum(sd_theta * sd, 1e-12), -0.99, 0.99)
    point = 1 - lam * gap
    variance = (lam * sd_theta) ** 2 + (gap * sd) ** 2 - 2 * lam * gap * covariance

    def joined(of_theta: FloatArray, c: float, at: IntArray) -> FloatArray:
        each = np.maximum(of_theta, 0)
        x, y, both = lam * each, gap[at] * c * sd, sd * each  # first order in each, and their product
        return np.sqrt(np.maximum(x**2 + y**2 - 2 * rho[at] * x * y, 0) + both**2)

    return Curve(
        recall=b,
        n_positive=reference.n_positive,
        point=point,
        variance=np.maximum(variance, 1e-12),
        lower=lambda c, at: point[at] - joined(theta[at] - ratio.lower(c, at), c, at),
        upper=lambda c, at: point[at] + joined(ratio.upper(c, at) - theta[at], c, at),
        n=min(reference.n, reference.n_positive, n_new),
    )


def _shares(counts: IntArray | FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _cautious(tails: ScoreTails) -> FloatArray:
    """Shares of the cells with one row more, half of each class: a few rows prove no purity."""
    extra = _shares(tails.positive_counts) / 2
    extra[0] += 0.5
    return (tails.n * _shares(tails.counts) + extra) / (tails.n + 1)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def _tail_covariance(share: FloatArray, values: FloatArray, at: IntArray) -> FloatArray:
    """Covariance of ``values`` and of lying at or above each level of ``at``."""
    centred = share * (values - share @ values)
    tail: FloatArray = centred[::-1].cumsum()[::-1]
    return tail[at + 1]


# -- the exact option ----------------------------------------------------------------------


def _exact_high(tails: ScoreTails, tail: float) -> tuple[float, float]:
    """The upper limit and the recall of the rank that gave it."""
    n, n_positive = tails.n, tails.n_positive
    rank = ranks(n_positive, 2 * STEP)
    if len(rank) == 0:
        return 1.0, 1.0
    # The designed rank, not the tied count: ties only raise the share above the threshold.
    hits = tails.survival[last_levels(tails, rank)] * n
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
