"""Growth of the negatives between two samples, with its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from drpu._typing import FloatArray, IntArray
from drpu.core.shift import match_negatives
from drpu.core.tails import ScoreTails

__all__ = ["Match", "binomial_growth", "match_samples", "score_limits", "shares", "tail_covariance"]


@dataclass(frozen=True, slots=True)
class Match:
    """lambda = (1 - pi')/(1 - pi), its standard deviation and its influence in each cell."""

    value: float
    spread: float
    influence: FloatArray


def match_samples(tails: ScoreTails, reference: ScoreTails) -> Match | None:
    """Growth of the negatives with its noise; None if a = b everywhere.

    lambda is a sum over thresholds, and so a mean of one function of the cell over each sample. The whole
    multinomial covariance needs one cumulative sum.
    """
    b, a = reference.positive_survival, reference.survival
    positive = shares(reference.positive_counts)
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
    return Match(value, math.sqrt(variance), influence)


def score_limits(
    tails: ScoreTails, reference: ScoreTails, match: Match, level: float, train_prior: float
) -> tuple[float, float]:
    r"""Priors x that are not rejected by :math:`(x - \hat x)^2 \le z^2 (V(x)/n' + T)`.

    V is the variance of the influence under the mixture at x, as in Wilson's interval, and T the
    noise of the two training samples.
    """
    z2, scale2 = float(ndtri((1 - level) / 2)) ** 2, (1 - train_prior) ** 2
    positive, unlabeled = shares(reference.positive_counts), shares(reference.counts)
    negative = np.maximum(unlabeled - train_prior * positive, 0)
    total = float(negative.sum())
    negative = negative / total if total > 0 else unlabeled
    of_positive, of_negative = _variance(positive, match.influence), _variance(negative, match.influence)
    between = float((positive - negative) @ match.influence) ** 2

    value, k = 1 - match.value * (1 - train_prior), z2 * scale2 / tails.n
    noise = match.value**2 * _variance(unlabeled, match.influence) / reference.n
    noise += (1 - match.value) ** 2 * of_positive / reference.n_positive
    # (1 + k D) x^2 - (2 v + k (V+ - V- + D)) x + v^2 - k V- - z^2 T = 0
    square, half = 1 + k * between, value + k * (of_positive - of_negative + between) / 2
    rest = value**2 - k * of_negative - z2 * scale2 * noise
    root = math.sqrt(max(0.0, half**2 - square * rest))
    return min(value, (half - root) / square), max(value, (half + root) / square)


def binomial_growth(
    tails: ScoreTails, reference: ScoreTails, level: float
) -> tuple[float, float, float] | None:
    """Growth of the negatives at one threshold: the value, and its upper and lower limit.

    The rows above the threshold have exact binomial limits; the noise of the training
    samples is added to them. None if no threshold separates the samples.
    """
    b, a = reference.positive_survival, reference.survival
    k = int(np.argmax(b - a))
    gap = float(b[k] - a[k])
    if gap <= 0:
        return None
    n, q, tail = tails.n, float(tails.survival[k]), (1 - level) / 2
    hits = q * n
    least = float(betaincinv(hits, n - hits + 1, tail)) if hits > 1e-9 else 0.0
    most = float(betaincinv(hits + 1, n - hits, 1 - tail)) if n - hits > 1e-9 else 1.0
    growth = float((b[k] - q) / gap)
    noise = (1 - growth) ** 2 * b[k] * (1 - b[k]) / reference.n_positive
    noise += growth**2 * a[k] * (1 - a[k]) / reference.n
    drift = -float(ndtri(tail)) * math.sqrt(noise) / gap
    return growth, growth + math.hypot((q - least) / gap, drift), growth - math.hypot((most - q) / gap, drift)


def shares(counts: IntArray | FloatArray) -> FloatArray:
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _cautious(tails: ScoreTails) -> FloatArray:
    """Shares of the cells with one additional row, half of each class, because few rows prove no purity."""
    extra = shares(tails.positive_counts) / 2
    extra[0] += 0.5
    return (tails.n * shares(tails.counts) + extra) / (tails.n + 1)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def tail_covariance(share: FloatArray, values: FloatArray, at: IntArray) -> FloatArray:
    """Covariance of ``values`` and the indicators of lying at or above each level of ``at``."""
    centred = share * (values - share @ values)
    tail: FloatArray = centred[::-1].cumsum()[::-1]
    return tail[at + 1]
