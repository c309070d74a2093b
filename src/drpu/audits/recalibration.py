r"""Recalibration by a few true labels: a map of the log-odds, and the share of positives.

A classifier that was trained in one period gives log-odds :math:`z` to the rows of another.
Whatever has moved in between, true labels of a few rows determine a map :math:`a + b z` with
:math:`b > 0`, which keeps the ranking of the rows and gives them new probabilities :math:`m(z) = 1
/ (1 + e^{-a - b z})`.

Before any answer, the map is believed to be the one that the rows without answers give: the
intercept is as uncertain as the prior that was read, and the slope is near 1. With a small
probability the reading is wrong, and both are then far more uncertain (:class:`MapBelief`). The
answers multiply this distribution by their likelihood. The probability of a row is its mean over
the result (:func:`averaged_map`). Labels move towards it only as far as it is improbable that they
become clearly worse than without answers (:func:`supported_map`).

The share of positives is the mean of these probabilities, corrected by the mean of :math:`y -
m(z)` over the answers, weighted by the inverse of the probabilities with which their rows were
chosen, as far as it is precise. Limits come from the answers and their design alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit, ndtri

from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu.audits.evaluation import Answers, corrected, stratified_share
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure
from drpu.state.reference import (
    FARTHEST,
    NEAREST,
    TRAINED,
    LogOddsMap,
    RowLogOdds,
    bounded,
    increasing_root,
)

_PSEUDO_ANSWERS = 4.0  # answers without help of the map, added to the observed residuals
_LEAST_RECALL = 2 / 3  # part of the expected one that answers which allow the reading leave
_KEEPING_DEVIATIONS = 2.0  # by which the kept part is above a third
_CLEAR_LOSS = 0.015  # of mean cost: .03 of accuracy
_RISK = 0.02  # with which labels may become worse than that
_USUAL_COSTS = (0.2, 0.5, 0.8)  # besides the own one: the cost may be changed later
_PARTS = np.linspace(1, 0.05, 20)  # of the way to the map of the answers
_LEAST_LIKELY = 1e-4  # relative to the likeliest map
_LEAST_SLOPE = 0.01  # of a map: scores may tell nothing


# -- the map -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What is believed about a map if the reading of the rows is right, and how likely that is."""

    probability: float  # that the reading is wrong
    slope_spread: float  # standard deviation of the log of the slope if it is right
    misfit: float  # standard deviation of the share that the mean of the probabilities misses


# ``python -m benchmarks.answers`` measures what these values give; results hardly depend on them.
_ONLY_PRIOR = _Doubt(0.1, 0.15, 0.02)
_OTHER_SHIFT = _Doubt(0.3, 0.3, 0.06)
_CALIBRATION_SPREAD = 0.3  # error of the trained log-odds, besides that of the prior
_MOST_SPREAD = 0.7  # of the log-odds of a prior that was read: intervals of weak readings are wide
_WRONG_SPREAD = 1.7  # of the intercept if the reading is wrong
_WRONG_SLOPE_SPREAD = 0.45
_INTERCEPTS = np.linspace(-3.5, 3.5, 29)  # nodes of a normal distribution
_LOG_SLOPES = np.linspace(-2.5, 2.5, 11)
_CELLS = np.linspace(-FARTHEST, FARTHEST, 141)  # trained log-odds at which maps are averaged


@dataclass(frozen=True, slots=True)
class MapBelief:
    """What is believed about the map of a period before its rows are answered.

    ``centre``: The map that gives the labels without answers.
    ``spread``: Standard deviation of the intercept if the reading of the rows is right.
    """

    centre: LogOddsMap = TRAINED
    spread: float = _MOST_SPREAD
    doubt: _Doubt = _OTHER_SHIFT

    @classmethod
    def of(cls, centre: LogOddsMap, reading: PriorEstimate, *, only_prior: bool) -> MapBelief:
        """The belief from the prior that was read without answers.

        ``only_prior`` says whether no test found more than a new prior.
        """
        low, high = logit(np.clip([reading.low, reading.high], NEAREST, 1 - NEAREST))
        deviations = 2 * float(ndtri((1 + reading.level) / 2))
        spread = min(float(high - low) / deviations, _MOST_SPREAD)
        doubt = _ONLY_PRIOR if only_prior else _OTHER_SHIFT
        return cls(centre, math.hypot(spread, _CALIBRATION_SPREAD), doubt)

    def nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Intercepts and slopes on a grid, and the logarithms of their probabilities."""
        doubt = self.doubt
        right = self._part(1 - doubt.probability, self.spread, doubt.slope_spread)
        wrong = self._part(doubt.probability, _WRONG_SPREAD, _WRONG_SLOPE_SPREAD)
        intercept, slope, log_weight = np.concatenate([right, wrong], axis=1)
        return intercept, slope, log_weight

    def _part(self, probability: float, spread: float, slope_spread: float) -> FloatArray:
        intercept, log_slope = np.meshgrid(_INTERCEPTS, _LOG_SLOPES)
        log_weight = -0.5 * (intercept**2 + log_slope**2).ravel()
        log_weight += math.log(probability) - math.log(np.exp(log_weight).sum())
        intercepts = self.centre.intercept + spread * intercept.ravel()
        slopes = self.centre.slope * np.exp(slope_spread * log_slope.ravel())
        return np.stack([intercepts, slopes, log_weight])


@dataclass(frozen=True, slots=True)
class PossibleMaps:
    """The maps of a belief with their probabilities after answers."""

    intercept: FloatArray
    slope: FloatArray
    weight: FloatArray  # the probability of each

    @classmethod
    def after(cls, belief: MapBelief, sample: DesignedSample) -> PossibleMaps:
        """The maps after the answers of ``sample``."""
        intercept, slope, log_weight = belief.nodes()
        log_odds = intercept[:, None] + slope[:, None] * sample.z
        weight = _normalised(log_weight + sample.log_likelihood(log_odds))
        return cls(intercept, slope, weight)

    def likely(self) -> PossibleMaps:
        """The maps without those that hardly count."""
        counts = self.weight > _LEAST_LIKELY * self.weight.max()
        weight = self.weight[counts] / self.weight[counts].sum()
        return PossibleMaps(self.intercept[counts], self.slope[counts], weight)

    def probability(self, z: FloatArray) -> FloatArray:
        """Probabilities of rows with the trained log-odds ``z`` by each map."""
        return np.asarray(expit(self.intercept[:, None] + self.slope[:, None] * z))


@dataclass(frozen=True, slots=True)
class AveragedMap:
    """Mean probabilities over all maps that answers leave, and the map that is nearest to them."""

    map: LogOddsMap
    mean: float  # mean probability of the rows


def averaged_map(belief: MapBelief, rows: RowLogOdds, sample: DesignedSample) -> AveragedMap:
    """The mean over all maps of the belief after the answers of ``sample``."""
    maps = PossibleMaps.after(belief, sample)
    probability = maps.weight @ maps.probability(_CELLS)
    near = _nearest_line(probability)
    a = maps.intercept - maps.weight @ maps.intercept
    b = maps.slope - maps.weight @ maps.slope
    covariance = (
        float(maps.weight @ a**2),
        float(maps.weight @ (a * b)),
        float(maps.weight @ b**2),
    )
    mean = rows.mean(np.interp(rows.z, _CELLS, probability))
    return AveragedMap(LogOddsMap(*near, covariance, n=float(len(sample.z))), mean)


def _normalised(log_weight: FloatArray) -> FloatArray:
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


def _nearest_line(probability: FloatArray) -> tuple[float, float]:
    """Intercept and slope of the line nearest to the log-odds of ``probability`` in the cells.

    The squared variance of a label is the weight, so the line is right where labels are decided.
    The probability increases, and so does the line.
    """
    inside = np.clip(probability, NEAREST, 1 - NEAREST)
    weight = (inside * (1 - inside)) ** 2
    weight /= weight.sum()
    log_odds = logit(inside)
    centre = float(weight @ _CELLS)
    height = float(weight @ log_odds)
    slope = float(weight @ ((_CELLS - centre) * log_odds) / (weight @ (_CELLS - centre) ** 2))
    return height - slope * centre, max(slope, _LEAST_SLOPE)


def supported_map(
    log_odds_map: LogOddsMap, maps: PossibleMaps, rows: RowLogOdds, centre: LogOddsMap, cost: float
) -> LogOddsMap:
    """The map, or one between it and ``centre``, that gives the labels without answers.

    It goes as far as labels at ``cost`` and at usual costs become worse by more than
    :data:`_CLEAR_LOSS` with a probability of at most :data:`_RISK` by the ``maps`` that answers
    leave. So answers that happen to be of one kind do not decide about all rows.
    """
    cells, share = _cells_of(rows)
    likely = maps.likely()
    probability = likely.probability(cells)
    for part in _PARTS:
        moved = log_odds_map.towards(centre, 1 - part)
        risk = 0.0
        for each in {cost, *_USUAL_COSTS}:
            gained = moved.log_odds(cells) > logit(each)
            lost = centre.log_odds(cells) > logit(each)
            change = share * (gained.astype(np.float64) - lost)
            loss = (each - probability) @ change
            risk = max(risk, float(likely.weight[loss > _CLEAR_LOSS].sum()))
        if risk <= _RISK:
            return moved
    return centre


def _cells_of(rows: RowLogOdds) -> tuple[FloatArray, FloatArray]:
    """Log-odds rounded to two digits, and the share of the rows with each."""
    cell = np.rint((rows.z + FARTHEST) * 100).astype(np.int64)
    share = np.bincount(cell, weights=rows.weight)
    there = np.flatnonzero(share)
    return there / 100 - FARTHEST, share[there] / share.sum()


def keeping_recall(
    log_odds_map: LogOddsMap, rows: RowLogOdds, probability: FloatArray, cost: float
) -> LogOddsMap:
    """The map, with an intercept that keeps two thirds of the expected recall.

    ``probability`` is that of the rows without answers, whose labels are above ``cost``. Of few
    expected positives a larger part is kept, so that a third of the true ones stays even if fewer
    of them than expected are among the rows that keep their label.
    """
    expected = probability if rows.weight is None else probability * rows.weight
    n_expected = float(expected[probability > cost].sum())
    if n_expected == 0:
        return log_odds_map
    least = max(_LEAST_RECALL, _part_to_keep(n_expected)) * n_expected
    order = np.argsort(-rows.z, kind="stable")
    last = int(np.searchsorted(expected[order].cumsum(), least))
    level = float(rows.z[order[min(last, len(order) - 1)]])
    lowest_intercept = float(logit(cost)) - log_odds_map.slope * level + NEAREST
    return replace(log_odds_map, intercept=max(log_odds_map.intercept, lowest_intercept))


def _part_to_keep(n: float) -> float:
    """The part of ``n`` positives of which a third is two standard deviations below it."""
    third = 1 / 3
    noise = _KEEPING_DEVIATIONS**2 / n
    half_width = math.sqrt(noise * third * (1 - third) + noise**2 / 4)
    return (third + noise / 2 + half_width) / (1 + noise)


def map_of_others(
    log_odds_map: LogOddsMap, rows: RowLogOdds, others: FloatArray, cost: float
) -> LogOddsMap:
    """The map for other log-odds ``others`` of the same rows, with as many labels at ``cost``.

    The log-odds of ``rows`` are approximated by a line in the others, which is right where labels
    are decided, and where the others are not clipped.
    """
    probability = log_odds_map.probability(rows.z)
    weight = (probability * (1 - probability)) ** 2 * expit(others) * expit(-others)
    if rows.weight is not None:
        weight = weight * rows.weight
    weight = weight / weight.sum()
    centre = float(weight @ others)
    spread = float(weight @ (others - centre) ** 2)
    line = 1.0
    if spread > NEAREST:
        line = float(weight @ ((others - centre) * rows.z)) / spread
    line = max(line, _LEAST_SLOPE)
    start = float(weight @ rows.z) - line * centre
    variance, covariance, variance_of_slope = log_odds_map.covariance
    moved = LogOddsMap(
        intercept=log_odds_map.intercept + log_odds_map.slope * start,
        slope=log_odds_map.slope * line,
        covariance=(
            variance + 2 * start * covariance + start**2 * variance_of_slope,
            line * (covariance + start * variance_of_slope),
            line**2 * variance_of_slope,
        ),
        n=log_odds_map.n,
    )
    # Other log-odds may rank rows a little differently: as many rows are flagged as before.
    flagged = probability > cost
    order = np.argsort(-others, kind="stable")
    thresholds = float(logit(cost)) - moved.slope * others[order]
    n_rows = np.ones(len(others)) if rows.weight is None else rows.weight
    n_flagged = int(np.searchsorted(n_rows[order].cumsum(), n_rows[flagged].sum() - NEAREST))
    n_flagged += int(flagged.any())
    least = float(thresholds[:n_flagged].max(initial=-math.inf)) + NEAREST
    most = float(thresholds[n_flagged:].min(initial=math.inf)) - NEAREST
    if least <= moved.intercept <= most:
        return moved
    if math.isinf(least):
        return replace(moved, intercept=most)
    if math.isinf(most):
        return replace(moved, intercept=least)
    return replace(moved, intercept=(least + most) / 2)


# -- the share ---------------------------------------------------------------------------------


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
    error_rate: float = 0.0  # probability that an answer is wrong

    @classmethod
    def of(cls, z: FloatArray, answers: Answers) -> DesignedSample:
        """The sample of an audit, from the trained log-odds of its answered rows."""
        sizes = answers.sizes
        share = np.where(sizes > 0, answers.weight, 0.0)
        answered_share = float(share.sum())
        weight = (share / answered_share / np.maximum(sizes, 1))[answers.stratum]
        return cls(
            z=bounded(z),
            positive=answers.positive,
            stratum=answers.stratum,
            weight=weight,
            unseen=1 - answered_share,
            error_rate=answers.error_rate,
        )

    def first(self, n: int) -> DesignedSample:
        """The first ``n`` answers, without the weights of a design."""
        weight = np.full(n, 1 / max(n, 1))
        return DesignedSample(
            self.z[:n], self.positive[:n], self.stratum[:n], weight, error_rate=self.error_rate
        )

    @property
    def is_certain(self) -> bool:
        """Whether all answers are taken as true."""
        return self.error_rate == 0

    def log_likelihood(self, log_odds: FloatArray) -> FloatArray:
        """Logarithm of the probability of the answers, for every row of ``log_odds``."""
        positive = self.positive.astype(np.float64)
        yes = self._probability_of_yes(expit(log_odds))
        no = self._probability_of_yes(expit(-log_odds))
        return np.asarray(np.log(yes) @ positive + np.log(no) @ (1 - positive))

    def _probability_of_yes(self, probability: FloatArray) -> FloatArray:
        seen = self.error_rate + (1 - 2 * self.error_rate) * probability
        return np.asarray(np.maximum(seen, 1e-300))

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
        figure = stratified_share(
            np.append(weight, self.unseen),
            np.append(hits, 0),
            np.append(sizes, 0),
            tails=tails,
            rows=rows,
        )
        if self.error_rate > 0:
            figure = corrected(figure, self.error_rate)
        return figure

    def residual(self, log_odds_map: LogOddsMap) -> float:
        """Weighted mean of the answers minus the map's probabilities; no bias for a fixed map."""
        corrected_answers = (self.positive - self.error_rate) / (1 - 2 * self.error_rate)
        return float(self.weight @ (corrected_answers - log_odds_map.probability(self.z)))


def join_samples(samples: Sequence[DesignedSample]) -> DesignedSample:
    """One sample from several audits of the same rows, weighted by their effective sizes.

    Audits by simple random sampling together are one such audit.
    """
    if len(samples) == 1:
        return samples[0]
    sizes = np.array([sample.size for sample in samples])
    shares = sizes / sizes.sum()
    weights = []
    for sample, share in zip(samples, shares, strict=True):
        weights.append(share * sample.weight)
    return DesignedSample(
        z=np.concatenate([sample.z for sample in samples]),
        positive=np.concatenate([sample.positive for sample in samples]),
        stratum=_joined_strata(samples),
        weight=np.concatenate(weights),
        unseen=float(shares @ [sample.unseen for sample in samples]),
        error_rate=float(sizes @ [sample.error_rate for sample in samples] / sizes.sum()),
    )


def _joined_strata(samples: Sequence[DesignedSample]) -> IntArray:
    """The stratum of each row; there is only one if all samples are simple random ones."""
    strata = []
    n_strata = 0
    at_random = True
    for sample in samples:
        strata.append(sample.stratum + n_strata)
        n_strata += int(sample.stratum.max()) + 1
        at_random = at_random and sample.n_strata == 1 and sample.unseen == 0
    joined = np.concatenate(strata)
    if at_random:
        return np.zeros_like(joined)
    return joined


def assisted_share(
    log_odds_map: LogOddsMap,
    rows: RowLogOdds,
    sample: DesignedSample,
    *,
    mean: float,
    misfit: float,
    tails: tuple[float, float],
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
    the mean of the map plus a part of the weighted mean residual of the answers, which is 1 where
    the residual is precise, moved into (0, 1) if it is not inside. ``mean`` is that of the
    probabilities of the rows, which may be averaged over several maps.
    """
    probability = log_odds_map.probability(rows.z)
    mean_of_map = rows.mean(probability)
    plain = sample.plain_share(tails, rows.n)
    part = misfit**2 / (misfit**2 + plain.variance)
    by_design = mean_of_map + sample.residual(log_odds_map) * (1 - sample.unseen)
    value = _inside((1 - part) * mean + part * by_design, mean, sample.size)
    if sample.n_strata > 1 or sample.unseen > 0 or not sample.is_certain:
        return replace(plain, value=min(max(value, plain.low), plain.high))

    low, high = _tested_limits(_flattened(log_odds_map, sample), rows, sample, tails)
    # the rows are themselves a sample of the population
    variance_of_rows = rows.mean(probability * probability) - mean_of_map**2
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
    belief: MapBelief | None = None,
    start: float | None = None,
    tails: tuple[float, float] = (0.025, 0.025),
) -> tuple[LogOddsMap, Figure]:
    """The map of a period, and its share of positives.

    ``start`` is the share before the answers, which moves as much as the mean probability does.
    """
    sample = join_samples(samples)
    belief = belief or MapBelief()
    averaged = averaged_map(belief, population, sample)
    mean = averaged.mean
    if start is not None:
        before = averaged_map(belief, population, sample.first(0)).mean
        mean = _moved(start, before, mean)
    share = assisted_share(
        averaged.map, population, sample, mean=mean, misfit=belief.doubt.misfit, tails=tails
    )
    return averaged.map, share


def _moved(share: float, before: float, after: float) -> float:
    """The share, whose log-odds move as those of another share."""
    log_odds = logit(np.clip([share, before, after], NEAREST, 1 - NEAREST))
    return float(expit(log_odds @ [1, -1, 1]))


def moved_map(log_odds_map: LogOddsMap, before: float, after: float) -> LogOddsMap:
    """The map with all log-odds moved by as much as those of a share."""
    first, last = logit(np.clip([before, after], NEAREST, 1 - NEAREST))
    return replace(log_odds_map, intercept=log_odds_map.intercept + float(last - first))


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
