"""Growth of the negatives between two samples, and the priors that follow from it."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from drpu._arrays import FloatArray, IntArray
from drpu.priors.figures import Figure, exact_limits
from drpu.priors.plateau import fit_plateau, normal_scores
from drpu.priors.tails import ScoreTails

_ROUNDS = 5  # converges in three
_LEAST_LEFT = 0.2  # noise of the regressor is corrected for if more than this share is left


@dataclass(frozen=True, slots=True)
class Match:
    r"""lambda = (1 - pi')/(1 - pi), its influence in each cell, and the noise of the samples.

    The variance is :math:`(1-\lambda)^2 V_+ + \lambda^2 V + V'`, with the variances of the mean
    influence in the positives, the reference and the new rows.
    """

    value: float
    influence: FloatArray
    positive_variance: float
    reference_variance: float
    new_variance: float

    @property
    def spread(self) -> float:
        """Standard deviation at the estimate."""
        by_positives = (1 - self.value) ** 2 * self.positive_variance
        by_reference = self.value**2 * self.reference_variance
        return math.sqrt(by_positives + by_reference + self.new_variance)

    def limits(self, deviations: float) -> tuple[float, float]:
        r"""Values of lambda that are at most so many standard deviations from the estimate.

        Each limit is the further of two. The first uses the deviation at the limit itself, as
        Fieller's intervals for a ratio do, because an estimate that is too close to 1 has too small
        a variance. The second uses the deviation at the estimate. 0 and infinity are no limits.
        """
        # (1 - k (V+ + V)) x^2 - 2 (v - k V+) x + v^2 - k (V+ + V') <= 0
        k = deviations**2
        square = 1 - k * (self.positive_variance + self.reference_variance)
        half = self.value - k * self.positive_variance
        rest = self.value**2 - k * (self.positive_variance + self.new_variance)
        discriminant = half**2 - square * rest
        if square <= 0 or discriminant < 0:  # the classes are hardly separated
            return 0.0, math.inf
        root = math.sqrt(discriminant)
        step = deviations * self.spread
        low = min((half - root) / square, self.value - step)
        high = max((half + root) / square, self.value + step)
        return max(low, 0.0), high


def match_negatives(tails: ScoreTails, reference: ScoreTails) -> float:
    """Growth of the negatives; 1 if the score does not separate the classes."""
    match = match_samples(tails, reference)
    if match is None:  # no change can be detected
        return 1.0
    return match.value


def match_samples(tails: ScoreTails, reference: ScoreTails) -> Match | None:
    r"""Growth of the negatives with its noise; None if a = b everywhere.

    At every threshold :math:`a' - b = \lambda (a - b)`, for all priors. The whole curve is fitted
    by least squares, weighted by the positives. The noise of the regressor, which would bias
    :math:`\lambda` towards 0, is corrected for unless it dominates.

    Thresholds are the scores of positives. The share of positives above one that no other positive
    has is that of a rank: its mean is :math:`k / (n_+ + 1)`, and it has no noise at that threshold.
    The share above a threshold that many positives have is binomial.

    lambda is a sum over thresholds, and so a mean of one function of the cell over each sample. The
    whole multinomial covariance needs one cumulative sum.
    """
    if np.array_equal(reference.survival, reference.positive_survival):
        return None
    n_positive = reference.n_positive
    ranked = min(len(reference.levels) / n_positive, 1.0)  # positives with a score of their own
    b = reference.positive_survival * n_positive / (n_positive + ranked)
    a = reference.survival
    positive = shares(reference.positive_counts)
    weight = positive[1:]
    gap = a - b
    squares = float(weight @ gap**2)
    if squares <= 0:
        return None
    products = float(weight @ (gap * (tails.survival - b)))
    noise_of_both = float(weight @ (b * (1 - b))) * (1 - ranked) / n_positive
    noise = noise_of_both + float(weight @ (a * (1 - a))) / reference.n
    if squares - noise > _LEAST_LEFT * squares:
        squares -= noise
        products -= noise_of_both

    influence = np.append(0.0, np.cumsum(weight * gap / squares))
    return Match(
        value=max(0.0, products / squares),
        influence=influence,
        positive_variance=_variance(positive, influence) / n_positive,
        reference_variance=_variance(_cautious_shares(reference), influence) / reference.n,
        new_variance=_variance(_cautious_shares(tails), influence) / tails.n,
    )


def _cautious_shares(tails: ScoreTails) -> FloatArray:
    """Shares with one more row, half of each class, because few rows prove no purity."""
    extra_row = shares(tails.positive_counts) / 2
    extra_row[0] += 0.5
    return (tails.n * shares(tails.counts) + extra_row) / (tails.n + 1)


def score_limits(
    tails: ScoreTails, reference: ScoreTails, match: Match, level: float, train_prior: float
) -> tuple[float, float]:
    r"""Priors x that are not rejected by :math:`(x - \hat x)^2 \le z^2 (V(x)/n' + T)`.

    V is the variance of the influence under the mixture at x, as in Wilson's interval, and T the
    noise of the two training samples.
    """
    z2 = float(scipy.special.ndtri((1 - level) / 2)) ** 2
    scale2 = (1 - train_prior) ** 2
    positive = shares(reference.positive_counts)
    unlabeled = shares(reference.counts)
    negative = np.maximum(unlabeled - train_prior * positive, 0)
    total = float(negative.sum())
    negative = negative / total if total > 0 else unlabeled
    v_positive = _variance(positive, match.influence)
    v_negative = _variance(negative, match.influence)
    between = float((positive - negative) @ match.influence) ** 2
    noise = match.value**2 * _variance(unlabeled, match.influence) / reference.n
    noise += (1 - match.value) ** 2 * v_positive / reference.n_positive

    # (1 + k D) x^2 - (2 v + k (V+ - V- + D)) x + v^2 - k V- - z^2 T = 0
    value = 1 - match.value * (1 - train_prior)
    k = z2 * scale2 / tails.n
    square = 1 + k * between
    half = value + k * (v_positive - v_negative + between) / 2
    rest = value**2 - k * v_negative - z2 * scale2 * noise
    root = math.sqrt(max(0.0, half**2 - square * rest))
    return min(value, (half - root) / square), max(value, (half + root) / square)


def binomial_growth(tails: ScoreTails, reference: ScoreTails, level: float) -> Figure | None:
    """Growth of the negatives at one threshold, with its limits.

    The rows above the threshold have exact binomial limits; the noise of the training
    samples is added to them. None if no threshold separates the samples.
    """
    b = reference.positive_survival
    a = reference.survival
    k = int(np.argmax(b - a))
    gap = float(b[k] - a[k])
    if gap <= 0:
        return None
    tail = (1 - level) / 2
    share = float(tails.survival[k])
    least_share, most_share = exact_limits(share, tails.n, tail)
    growth = float((b[k] - share) / gap)
    noise = (1 - growth) ** 2 * b[k] * (1 - b[k]) / reference.n_positive
    noise += growth**2 * a[k] * (1 - a[k]) / reference.n
    by_training = -float(scipy.special.ndtri(tail)) * math.sqrt(noise) / gap
    return Figure(
        value=growth,
        low=growth - math.hypot((most_share - share) / gap, by_training),
        high=growth + math.hypot((share - least_share) / gap, by_training),
    )


def shares(counts: IntArray | FloatArray) -> FloatArray:
    """Counts divided by their sum."""
    return np.asarray(counts / counts.sum(), dtype=np.float64)


def _variance(share: FloatArray, values: FloatArray) -> float:
    return float(share @ (values - share @ values) ** 2)


def tail_covariance(share: FloatArray, values: FloatArray, levels: IntArray) -> FloatArray:
    """Covariance of ``values`` and the indicators of lying at or above each of ``levels``."""
    centred = share * (values - share @ values)
    tail: FloatArray = centred[::-1].cumsum()[::-1]
    return tail[levels + 1]


# -- priors of a second sample -----------------------------------------------------------------


def matching(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    """Prior of ``tails`` from the growth of the negatives since ``reference``."""
    return float(np.clip(1 - match_negatives(tails, reference) * (1 - train_prior), 0, 1))


def efficient(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> float:
    r"""Prior of ``tails`` by matching the mean of the function with the smallest variance.

    For any function h of the score, :math:`E'h - E_+h = \lambda (E h - E_+h)`, so each
    gives the growth of the negatives :math:`\lambda`. The variance is smallest for
    :math:`h = (\rho_+ - \rho_-) / (q \rho_+ + (1-q) \rho_-)`, the score function of the
    mixture at the prior q, with the class densities :math:`\rho_\pm` over that of the
    reference. They are estimated by the smooth calibration, and q by the previous round.
    Errors in them reduce the efficiency but cause no bias.
    """
    if not 1e-300 < train_prior < 1:
        return matching(tails, reference, train_prior)
    ratio = fit_plateau(reference)(normal_scores(reference))
    eta = np.clip(train_prior * ratio, 0.01, 0.99)  # limit the influence of a single cell
    rho_positive = eta / train_prior
    rho_negative = (1 - eta) / (1 - train_prior)
    positive = shares(reference.positive_counts)
    unlabeled = shares(reference.counts)
    new = shares(tails.counts)

    q = train_prior
    h = eta
    for _ in range(_ROUNDS):
        gap = unlabeled @ h - positive @ h
        if gap == 0:  # the score does not separate the classes: no change can be detected
            return train_prior
        growth = max(0.0, float((new @ h - positive @ h) / gap))
        q = float(np.clip(1 - growth * (1 - train_prior), 0, 1))
        q_inside = np.clip(q, 0.02, 0.98)
        mixture = q_inside * rho_positive + (1 - q_inside) * rho_negative
        h = (rho_positive - rho_negative) / mixture
    return q


_LEAST_SPREAD = 1e-3  # smallest standard error of a growth
_LARGEST_SPREAD = 1e3  # with a larger one, all growths are equally likely
_GROWTH_ROUNDS = 4  # it converges in three


@dataclass(frozen=True, slots=True)
class Growth:
    """Growth of the negatives, (1 - test_prior) / (1 - train_prior), and its standard deviation."""

    value: float
    spread: float = 0.0

    @property
    def inverse(self) -> Growth:
        """The growth in the other direction."""
        return Growth(1 / self.value, self.spread / self.value**2)

    def of_population(self, labelled_share: float) -> Growth:
        """The growth since all training rows, of which this share is labelled, and so positive."""
        unlabeled = 1 - labelled_share
        return Growth(self.value / unlabeled, self.spread / unlabeled)


def negative_growth(tails: ScoreTails, reference: ScoreTails, test_prior: float) -> Growth | None:
    r"""Growth of the negatives from ``reference`` to ``tails``, from counts alone.

    For any function h of the score :math:`E'h - E_+h = \lambda (E h - E_+h)`; the h here is
    the one of :func:`drpu.priors.matching.efficient`. The noise of the three samples is
    :math:`Var'(h)/n' + \lambda^2 Var(h)/n + (1-\lambda)^2 Var_+(h)/n_+` over the squared
    denominator. ``test_prior`` may be rough: an error in it reduces precision but causes no bias.
    None if the score does not separate positives from unlabeled rows.
    """
    ratio = fit_plateau(reference)(normal_scores(reference))
    positive = shares(reference.positive_counts)
    unlabeled = shares(reference.counts)
    new = shares(tails.counts)
    q = min(max(test_prior, 0.02), 0.98)
    growth = 1.0
    gap = 0.0
    h = ratio
    for _ in range(_GROWTH_ROUNDS):
        prior = min(max(1 - (1 - q) / max(growth, 1e-3), 0.02), 0.98)
        eta = np.clip(prior * ratio, 0.01, 0.99)
        rho_positive = eta / prior
        rho_negative = (1 - eta) / (1 - prior)
        h = (rho_positive - rho_negative) / (q * rho_positive + (1 - q) * rho_negative)
        positive_mean = float(positive @ h)
        gap = float(unlabeled @ h) - positive_mean
        if abs(gap) < 1e-9:
            return None
        growth = max((float(new @ h) - positive_mean) / gap, 1e-3)
    variance = _variance(new, h) / tails.n
    variance += growth**2 * _variance(unlabeled, h) / reference.n
    variance += (1 - growth) ** 2 * _variance(positive, h) / reference.n_positive
    return Growth(growth, math.sqrt(variance) / abs(gap))


def growth_since(tails: ScoreTails, reference: ScoreTails, train_prior: float) -> Growth | None:
    """Growth of the negatives since ``reference``; None if the score separates nothing.

    ``train_prior`` is that of the reference, which may be rough.
    """
    growth: Growth | None = Growth(1.0)
    for _ in range(2):  # the prior of the new rows only determines which mean is matched
        if growth is not None:
            guess = _between_0_and_1(1 - growth.value * (1 - train_prior))
            growth = negative_growth(tails, reference, guess)
    return growth


def later_priors(train_priors: Sequence[float], growth: Growth) -> tuple[FloatArray, FloatArray]:
    r"""Weights of training priors if only the prior moved, and the later prior for each of them.

    ``train_priors`` are equally likely before the later rows are seen. The growth of the negatives
    :math:`\lambda = (1-\pi')/(1-\pi)` was measured with a normal error. If every prior :math:`\pi'`
    of the later rows is equally likely, every growth from 0 to :math:`1/(1-\pi)` has the density
    :math:`1-\pi`, and others are impossible, because no prior is outside of 0 and 1. So the weight
    of a training prior is :math:`1-\pi` times the probability that the growth is possible, and
    :math:`\pi'` follows from the mean of the possible growths.
    """
    negative = np.maximum(1 - np.asarray(train_priors, dtype=np.float64), 1e-9)
    spread = min(max(growth.spread, _LEAST_SPREAD), _LARGEST_SPREAD)
    least = -growth.value / spread
    most = (1 / negative - growth.value) / spread
    log_below = scipy.special.log_ndtr(most)
    log_possible = log_below + np.log1p(-np.exp(scipy.special.log_ndtr(least) - log_below))
    densities = np.exp(_log_normal(most) - log_possible) - np.exp(_log_normal(least) - log_possible)
    later = np.clip(1 - negative * (growth.value - spread * densities), 0.0, 1.0)
    log_weight = np.log(negative) + log_possible
    weight = np.exp(log_weight - log_weight.max())
    return weight / weight.sum(), later


def _log_normal(deviation: FloatArray | float) -> FloatArray:
    """Log of the density of the standard normal distribution."""
    return np.asarray(-np.square(deviation) / 2 - math.log(2 * math.pi) / 2)


def chance_of_growth(train_priors: Sequence[float], growth: Growth) -> float:
    """Probability that the training prior is large enough for this growth of the negatives."""
    most = 1 / np.maximum(1 - np.asarray(train_priors), 1e-9)
    return float(np.mean(scipy.special.ndtr((most - growth.value) / max(growth.spread, 1e-9))))


def settled_growth(growth: Growth, unmoved: tuple[float, ...]) -> float:
    """The growth, shrunk towards the closest value without a change, if it is close to one.

    The posterior mean of the growth given its estimate, if the population has changed with
    probability 1/2, and then by any amount up to about 1. It is used for values only, never for
    limits.
    """
    if growth.spread <= 0:
        return growth.value
    known = np.array(unmoved)
    density = np.exp(-0.5 * ((growth.value - known) / growth.spread) ** 2)
    density /= growth.spread * math.sqrt(2 * math.pi) * len(known)
    return float((density @ known + growth.value) / (density.sum() + 1))


def carry_share(share: Figure, growth: Growth, tails: tuple[float, float]) -> Figure:
    """Share of positives after the share of negatives has grown by ``growth``.

    The errors of the two are combined on the scale of log(1 - share), separately for the lower and
    the upper limit. They are treated as independent. This is conservative if the share was
    measured on the rows from which the growth was counted, because both errors then have the same
    direction.

    Answers and counts may contradict each other, so that more than all rows would be negative. The
    value is then 0, and the upper limit is as far from it as it would be from an estimate of 0: no
    limits are equal.
    """
    if growth == Growth(1.0):
        return share
    lower_tail, upper_tail = tails
    negative = max(1 - share.value, 1e-9)
    log_up = math.log(max(1 - share.low, 1e-9) / negative)
    log_up = math.hypot(
        log_up, -float(scipy.special.ndtri(lower_tail)) * growth.spread / growth.value
    )
    log_down = math.log(negative / max(1 - share.high, 1e-9))
    log_down = math.hypot(
        log_down, -float(scipy.special.ndtri(upper_tail)) * growth.spread / growth.value
    )

    centre = growth.value * negative
    most = math.log(sys.float_info.max)  # a growth with a large error has a step too large for exp
    high = 1.0
    if share.high < 1:
        high = _between_0_and_1(1 - min(centre, 1.0) * math.exp(-log_down))
    return Figure(
        value=_between_0_and_1(1 - centre),
        low=_between_0_and_1(1 - centre * math.exp(min(log_up, most))),
        high=high,
        variance=growth.value**2 * share.variance + (negative * growth.spread) ** 2,
    )


def _between_0_and_1(share: float) -> float:
    return min(max(share, 0.0), 1.0)


def carried_prior(
    tails: ScoreTails, reference: ScoreTails, prior: Figure, *, prior_level: float, level: float
) -> Figure:
    """Prior of the rows in ``tails`` from an audited prior of those in ``reference``.

    The limits of ``prior`` are moved to ``level`` in proportion to the normal quantiles, on the
    scale of log(1 - prior).
    """
    growth = growth_since(tails, reference, prior.value) or Growth(1.0)
    scale = float(scipy.special.ndtri((1 - level) / 2) / scipy.special.ndtri((1 - prior_level) / 2))
    negative = max(1 - prior.value, 1e-9)
    most_negative = negative * (max(1 - prior.low, 1e-9) / negative) ** scale
    least_negative = negative * (max(1 - prior.high, 1e-9) / negative) ** scale
    scaled = Figure(
        value=prior.value,
        low=_between_0_and_1(1 - most_negative),
        high=_between_0_and_1(1 - least_negative) if prior.high < 1 else 1.0,
        variance=prior.variance * scale**2,
    )
    return carry_share(scaled, growth, ((1 - level) / 2, (1 - level) / 2))
