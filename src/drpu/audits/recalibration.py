r"""Recalibration by a few true labels: a map of the log-odds, and the share of positives.

A classifier that was trained in one period gives log-odds :math:`z` to the rows of another.
Whatever has moved in between, true labels of a few rows determine a map :math:`a + b z` with
:math:`b > 0`, which keeps the ranking of the rows and gives them new probabilities :math:`m(z) = 1
/ (1 + e^{-a - b z})`. The map is the posterior mode of a logistic regression whose prior
distribution is centred on the trained map (:math:`a = 0, b = 1`) or on the map of the last period.

The share of positives is estimated with the help of the map: its mean over all rows, plus the mean
of :math:`y - m(z)` over the answers, weighted by the inverse of the probabilities with which their
rows were chosen. The second part has no bias for any map, and a good map makes it precise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, log_expit, ndtri

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu.audits.evaluation import Answers, stratified_share
from drpu.priors.figures import Figure
from drpu.state.reference import (
    INTERCEPT_SPREAD,
    SLOPE_SPREAD,
    TRAINED,
    LogOddsMap,
    RowLogOdds,
    bounded,
    increasing_root,
)

MEMORY = 0.5  # largest weight of the answers of the last period beside those of the current one
_KEPT_PARTS = (1.0, 0.5, 0.2, 0.0)  # parts of the memory that are tried
_PSEUDO_ANSWERS = 4.0  # answers without help of the map, added to the observed residuals

_STEPS = 100  # of Newton's method, which needs about ten


def _posterior(z: FloatArray, positive: BoolArray, centre: LogOddsMap) -> tuple[LogOddsMap, float]:
    r"""The posterior mode, and the logarithm of the probability of the answers (Laplace).

    With the centre :math:`(a_0, b_0)`, the negative logarithm of the prior density is

    .. math:: \frac{(a - a_0)^2}{2 \sigma_a^2} + \frac{1}{\sigma_b^2}
       \Bigl(\frac{b}{b_0} - \log \frac{b}{b_0}\Bigr) + \frac{1}{2} \Delta^T I_0 \Delta,

    a normal density of the intercept, a gamma density of the slope with its mode at the centre,
    and the information :math:`I_0` of earlier answers. The sum with the logistic loss is strictly
    convex and infinite at :math:`b = 0`, so there is one minimum, and its slope is positive.
    """
    objective = _Objective(z, np.asarray(positive, dtype=np.float64), centre)
    theta = objective.minimum()
    mode = LogOddsMap(
        intercept=float(theta[0]),
        slope=float(theta[1]),
        information=objective.information(theta),
        n=len(z) + centre.n,
    )
    mode = _with_covariance(mode)
    log_precision = np.linalg.slogdet(_precision(mode))[1]
    log_precision_before = np.linalg.slogdet(_precision(centre))[1]
    log_evidence = -objective.value(theta) - 0.5 * float(log_precision - log_precision_before)
    return mode, log_evidence


@dataclass(frozen=True, slots=True)
class _Objective:
    """The negative log-posterior of theta, which is intercept and slope."""

    z: FloatArray
    y: FloatArray
    centre: LogOddsMap

    def minimum(self) -> FloatArray:
        """The theta with the smallest value, by Newton's method with steps that are cut."""
        theta = np.array([self.centre.intercept, self.centre.slope])
        for _ in range(_STEPS):
            gradient, hessian = self.derivatives(theta)
            step = np.linalg.solve(hessian, gradient)
            if abs(step).max() < 1e-8:  # the error after this step is about its square
                return np.asarray(theta - step)
            size = 1.0
            if step[1] > 0:  # the slope stays positive
                size = min(1.0, 0.9 * theta[1] / step[1])
            value = self.value(theta)
            while size > 1e-12 and self.value(theta - size * step) > value:
                size /= 2
            theta = theta - size * step
        return theta

    def value(self, theta: FloatArray) -> float:
        """The negative log-posterior, up to a constant."""
        eta = theta[0] + theta[1] * self.z
        loss = -float((self.y * log_expit(eta) + (1 - self.y) * log_expit(-eta)).sum())
        delta = self._delta(theta)
        relative_slope = theta[1] / self.centre.slope
        of_intercept = 0.5 * delta[0] ** 2 / INTERCEPT_SPREAD**2
        of_slope = (relative_slope - 1 - math.log(relative_slope)) / SLOPE_SPREAD**2
        loss += of_intercept + of_slope
        return float(loss + 0.5 * delta @ _matrix(self.centre.information) @ delta)

    def derivatives(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Gradient and Hessian."""
        p = expit(theta[0] + theta[1] * self.z)
        residual = p - self.y
        delta = self._delta(theta)
        earlier_information = _matrix(self.centre.information)
        gradient = np.array([residual.sum(), residual @ self.z])
        gradient += [
            delta[0] / INTERCEPT_SPREAD**2,
            (1 / self.centre.slope - 1 / theta[1]) / SLOPE_SPREAD**2,
        ]
        gradient += earlier_information @ delta
        hessian = _matrix(self._of_answers(p)) + earlier_information + _base_precision(theta[1])
        return gradient, hessian

    def information(self, theta: FloatArray) -> tuple[float, float, float]:
        """Information of all answers: these, and those that the centre remembers."""
        new = self._of_answers(expit(theta[0] + theta[1] * self.z))
        old = self.centre.information
        return new[0] + old[0], new[1] + old[1], new[2] + old[2]

    def _of_answers(self, p: FloatArray) -> tuple[float, float, float]:
        """Information of these answers at the probabilities ``p``."""
        v = p * (1 - p)
        return float(v.sum()), float(v @ self.z), float(v @ self.z**2)

    def _delta(self, theta: FloatArray) -> FloatArray:
        """Distance of theta from the centre."""
        return np.asarray(theta - [self.centre.intercept, self.centre.slope])


def continued_map(
    parts: Sequence[tuple[FloatArray, BoolArray]],
    *,
    centre: LogOddsMap = TRAINED,
    memory: float = MEMORY,
) -> LogOddsMap:
    """The map after answers in several periods, the oldest first, each starting from the last map.

    The weight of an answer of one period in the next is ``memory``, a half, a fifth or nothing of
    it: the one under which the new answers are most probable. Old answers are so forgotten where
    the map moves.
    """
    for z, positive in parts:
        has_earlier = centre.n > 0 and memory > 0
        kept_parts = _KEPT_PARTS if has_earlier else _KEPT_PARTS[:1]
        best_map = centre
        most_evidence = -math.inf
        for part in kept_parts:
            start = for_next_period(centre, memory * part)
            mode, log_evidence = _posterior(bounded(z), positive, start)
            if log_evidence > most_evidence:
                best_map = mode
                most_evidence = log_evidence
        centre = best_map
    return centre


def for_next_period(log_odds_map: LogOddsMap, memory: float = MEMORY) -> LogOddsMap:
    """The map as centre of the next period, where answers count ``memory`` times as much."""
    of_intercept, of_both, of_slope = log_odds_map.information
    information = (memory * of_intercept, memory * of_both, memory * of_slope)
    n = memory * log_odds_map.n
    return _with_covariance(replace(log_odds_map, information=information, n=n))


def _matrix(parts: tuple[float, float, float]) -> FloatArray:
    return np.array([[parts[0], parts[1]], [parts[1], parts[2]]])


def _base_precision(slope: float) -> FloatArray:
    """Inverse covariance of a map without answers, at a slope."""
    return np.diag([INTERCEPT_SPREAD**-2, (slope * SLOPE_SPREAD) ** -2])


def _precision(log_odds_map: LogOddsMap) -> FloatArray:
    """Inverse covariance: the information of answers and of the prior distribution at the slope."""
    information = _matrix(log_odds_map.information)
    return np.asarray(information + _base_precision(log_odds_map.slope))


def _with_covariance(log_odds_map: LogOddsMap) -> LogOddsMap:
    c = np.linalg.inv(_precision(log_odds_map))
    return replace(log_odds_map, covariance=(float(c[0, 0]), float(c[0, 1]), float(c[1, 1])))


@dataclass(frozen=True, slots=True)
class DesignedSample:
    """Answers with trained log-odds and the design by which their rows were chosen.

    ``weight``: In estimates, with the sum 1: share of the stratum over the number of its answers.
    """

    z: FloatArray  # trained log-odds, clipped
    positive: BoolArray  # the answers
    stratum: IntArray  # stratum of each answer; rows were chosen at random within it
    weight: FloatArray
    unseen: float = 0.0  # share of the rows in strata without answers

    @classmethod
    def of(cls, z: FloatArray, answers: Answers) -> DesignedSample:
        """The sample of an audit, from the trained log-odds of its answered rows."""
        sizes = answers.sizes
        share = np.where(sizes > 0, answers.weight, 0.0)
        answered_share = float(share.sum())
        weight = (share / answered_share / np.maximum(sizes, 1))[answers.stratum]
        return cls(bounded(z), answers.positive, answers.stratum, weight, 1 - answered_share)

    @property
    def size(self) -> float:
        """Effective number of answers: as many drawn at random have the same variance."""
        return 1 / float(self.weight @ self.weight)

    @property
    def n_strata(self) -> int:
        """Number of strata with answers."""
        return len(np.unique(self.stratum))

    def plain_share(self, tails: tuple[float, float], rows: float) -> Figure:
        """Share of positives from the answers alone; strata without answers may have any share."""
        _, first, stratum = np.unique(self.stratum, return_index=True, return_inverse=True)
        sizes = np.bincount(stratum)
        weight = self.weight[first] * sizes * (1 - self.unseen)
        hits = np.bincount(stratum, weights=self.positive)
        return stratified_share(
            np.append(weight, self.unseen),
            np.append(hits, 0),
            np.append(sizes, 0),
            tails=tails,
            rows=rows,
        )

    def residual(self, log_odds_map: LogOddsMap) -> float:
        """Weighted mean of the answers minus the map's probabilities; no bias for a fixed map."""
        return float(self.weight @ (self.positive - log_odds_map.probability(self.z)))


def join_samples(samples: Sequence[DesignedSample]) -> DesignedSample:
    """One sample from several audits of the same rows, weighted by their effective sizes.

    Audits by simple random sampling together are one such audit.
    """
    if len(samples) == 1:
        return samples[0]
    sizes = np.array([sample.size for sample in samples])
    shares = sizes / sizes.sum()
    at_random = all(sample.n_strata == 1 and sample.unseen == 0 for sample in samples)
    strata = []
    weights = []
    first_stratum = 0
    for sample, share in zip(samples, shares, strict=True):
        weights.append(share * sample.weight)
        if at_random:
            strata.append(np.zeros_like(sample.stratum))
        else:
            strata.append(sample.stratum + first_stratum)
            first_stratum += int(sample.stratum.max()) + 1
    return DesignedSample(
        z=np.concatenate([sample.z for sample in samples]),
        positive=np.concatenate([sample.positive for sample in samples]),
        stratum=np.concatenate(strata),
        weight=np.concatenate(weights),
        unseen=float(shares @ [sample.unseen for sample in samples]),
    )


def assisted_share(
    log_odds_map: LogOddsMap,
    rows: RowLogOdds,
    sample: DesignedSample,
    *,
    tails: tuple[float, float] = (0.025, 0.025),
) -> Figure:
    r"""Share of positives in the population of ``rows``, from answers and with the help of a map.

    With several strata the limits are those of
    :func:`drpu.audits.evaluation.stratified_share`, which use the
    answers alone; the strata already give most of what the map could add. With one
    stratum, the limits invert a test of the number of positives. Under a hypothesis, the answers
    are independent with the probabilities of the map after a shift of its intercept, and the shift
    determines the share in all rows. A map that promises more precision than the residuals show
    would make the limits too narrow. Its slope is therefore reduced for the limits until the
    variance that it expects is at least the observed one, to which four answers without help of
    the map are added. At a slope of 0 these are the limits of Clopper and Pearson. The value is
    the mean of the map plus the weighted mean residual of the answers, moved into (0, 1) if it is
    not inside.
    """
    probability = log_odds_map.probability(rows.z)
    mean = rows.mean(probability)
    value = _inside(mean + sample.residual(log_odds_map), mean, sample.size)
    value = value * (1 - sample.unseen) + mean * sample.unseen
    if sample.n_strata > 1 or sample.unseen > 0:
        plain = sample.plain_share(tails, rows.n)
        return replace(plain, value=value, low=min(plain.low, value), high=max(plain.high, value))

    low, high = _tested_limits(_flattened(log_odds_map, sample), rows, sample, tails)
    # the rows are themselves a sample of the population
    variance_of_rows = rows.mean(probability * probability) - rows.mean(probability) ** 2
    noise = math.sqrt(max(variance_of_rows, 0.0) / rows.n)
    lower_deviations = -float(ndtri(tails[0]))
    upper_deviations = -float(ndtri(tails[1]))
    below = math.hypot(max(value - low, 0.0), lower_deviations * noise)
    above = math.hypot(max(high - value, 0.0), upper_deviations * noise)
    return Figure(
        value=value,
        low=max(value - below, 0.0),
        high=min(value + above, 1.0),
        variance=((below + above) / (lower_deviations + upper_deviations)) ** 2,
    )


def _tested_limits(
    flat: LogOddsMap, rows: RowLogOdds, sample: DesignedSample, tails: tuple[float, float]
) -> tuple[float, float]:
    """Limits of the share in ``rows`` that invert a test of the number of positive answers."""
    lower_tail, upper_tail = tails
    answers = flat.log_odds(sample.z)
    lowest = _lowest_shift(answers, sample.positive, lower_tail)
    highest = -_lowest_shift(-answers, ~sample.positive, upper_tail)
    log_odds = flat.log_odds(rows.z)
    return rows.mean(expit(log_odds + lowest)), rows.mean(expit(log_odds + highest))


def recalibrate(
    population: RowLogOdds,
    samples: Sequence[DesignedSample],
    *,
    centre: LogOddsMap = TRAINED,
    memory: float = MEMORY,
    tails: tuple[float, float] = (0.025, 0.025),
) -> tuple[LogOddsMap, Figure]:
    """The map of a period and its share of positives, the mean of the map over the rows."""
    sample = join_samples(samples)
    log_odds_map = continued_map([(sample.z, sample.positive)], centre=centre, memory=memory)
    share = assisted_share(log_odds_map, population, sample, tails=tails)
    return log_odds_map.with_share(share.value, population), share


def _inside(share: float, mean: float, size: float) -> float:
    """The share, moved into (0, 1) by at most the share of half an answer."""
    half = 0.5 / (size + 1)
    return min(max(share, min(mean, half)), max(mean, 1 - half))


def _flattened(log_odds_map: LogOddsMap, sample: DesignedSample) -> LogOddsMap:
    """The map with a slope at which it expects at least the variance that the answers show."""
    answered = RowLogOdds.of(sample.z)
    n = len(sample.z)
    share = _inside(float(sample.positive.mean()), 0.5, n)
    plain_variance = share * (1 - share)

    def at_slope(slope: float) -> LogOddsMap:
        return replace(log_odds_map, slope=slope).with_share(share, answered)

    p = log_odds_map.with_share(share, answered).probability(sample.z)
    observed_variance = float(((sample.positive - p) ** 2).mean())
    wanted = n * observed_variance + _PSEUDO_ANSWERS * plain_variance
    wanted = min(wanted / (n + _PSEUDO_ANSWERS), plain_variance)

    def missing_variance(slope: float) -> float:
        p = at_slope(slope).probability(sample.z)
        return wanted - float((p * (1 - p)).mean())

    return at_slope(increasing_root(missing_variance, 0.0, log_odds_map.slope, 1e-4))


def _lowest_shift(eta: FloatArray, positive: BoolArray, tail: float) -> float:
    """Shift of the log-odds at which the observed positives, or more, have this probability."""
    hits = int(positive.sum())
    if hits == 0:
        return -math.inf

    def excess(shift: float) -> float:
        probability = float(_law_of_count(expit(eta + shift))[hits:].sum())
        return math.log(max(probability, 1e-12) / tail)

    low = -1.0
    while excess(low) > 0:
        low *= 2
    high = 1.0
    while excess(high) < 0:
        high *= 2
    return increasing_root(excess, low, high, 1e-4)


def _law_of_count(p: FloatArray) -> FloatArray:
    """Probabilities of 0 to n positives among answers with the probabilities ``p``."""
    laws = np.column_stack([1 - p, p])
    while len(laws) > 1:
        if len(laws) % 2:
            laws = np.vstack([laws, np.eye(1, laws.shape[1])])  # one that is surely 0
        size = 2 * laws.shape[1] - 1
        joint = np.fft.rfft(laws[0::2], size) * np.fft.rfft(laws[1::2], size)
        laws = np.maximum(np.fft.irfft(joint, size), 0.0)
    return np.asarray(laws[0][: len(p) + 1])
