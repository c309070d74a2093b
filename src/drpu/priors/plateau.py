r"""A smooth share of positives, its likelihood, and how well the classes are separated.

The ratio of tails estimates the prior plus the share of negatives among the best-scored rows, and
the data do not separate the two. How many negatives there may be depends on how well the score
separates the classes. Youden's index against the negatives measures this, but it needs the prior:
with a prior that is too high, the remaining negatives seem well separated. The index is therefore
computed at the *lowest* prior that the plateau's likelihood allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu.exceptions import DataError
from drpu.priors import constants
from drpu.priors.tails import ScoreTails, remembered

DESIGN_LEVEL = 0.95  # level at which purity is assessed, for limits of any level

_MOST_LOG_ODDS = 7.0  # priors from 0.001 to 0.999
_MOST_LOG_SLOPE = 3.0
# of log-odds of the prior, intercept and log slope
_BOUNDS = [
    (-_MOST_LOG_ODDS, _MOST_LOG_ODDS),
    (-20.0, 20.0),
    (-_MOST_LOG_SLOPE, _MOST_LOG_SLOPE),
]
_LEAST_INFORMATION = 1.0  # intercept and log slope are known up to about 1 beforehand
_DIFFERENCE = 1e-3  # for second derivatives
_TRIED_LOG_ODDS = np.linspace(-_MOST_LOG_ODDS, _MOST_LOG_ODDS, 29)  # priors of the profile
_BINS = 60  # number of ranges of scores for the profile
_STEPS = 20  # largest number of steps; ten are common
_LEAST_GAIN = 1e-2  # change of the log-likelihood at which the steps end
_Z = np.linspace(-8.0, 5.0, 521)  # normal scores of the positives
# recalls of an expected curve
_RECALLS = np.concatenate(([0.0], np.geomspace(1e-4, 0.1, 60), np.linspace(0.1, 1.0, 182)[1:]))
_MASS = np.exp(-(_Z**2) / 2) / math.sqrt(2 * math.pi) * (_Z[1] - _Z[0])


@dataclass(frozen=True, slots=True)
class Plateau:
    r"""A smooth share of positives among positives and unlabeled rows.

    .. math:: g(z) = A \, \sigma(\alpha + \beta z), \qquad A = \frac{c}{c + (1 - c) \rho}

    with :math:`z` the normal quantile of a score among the positives, :math:`c` the share
    of the positive sample and :math:`\rho` the prior of the unlabeled one. The plateau
    :math:`A` is reached where only positives are left, so its height gives the prior. The
    shape is exact if the ROC curve is binormal with equal variances. It does not depend on
    increasing transformations of the scores.
    """

    prior: float
    intercept: float
    slope: float
    labelled: float  # share of the positive sample in both

    def __call__(self, normal_scores: FloatArray) -> FloatArray:
        """Ratio at each normal score."""
        height = self.labelled / (self.labelled + (1 - self.labelled) * self.prior)
        share = np.minimum(
            height * scipy.special.expit(self.intercept + self.slope * normal_scores), 1 - 1e-12
        )
        return np.asarray(share / (1 - share) * (1 - self.labelled) / self.labelled)


def normal_scores(tails: ScoreTails) -> FloatArray:
    """Normal quantile of each cell among the positives."""
    below = tails.positive_counts.cumsum() / tails.positive_counts.sum() * tails.n_positive
    return np.asarray(scipy.special.ndtri((below + 0.5) / (tails.n_positive + 1)))


@remembered
def fit_plateau(tails: ScoreTails, prior: float | None = None) -> Plateau:
    """Plateau that maximises the likelihood of positive against unlabeled rows.

    Without the prior of the unlabeled rows it is estimated, with a Beta(2, 2) prior distribution,
    equivalent to two rows, which keeps it away from 0 and 1 if the data do not determine it.
    """
    loss = _PlateauLoss.of(tails)
    # The likelihood can have several maxima: start from a low, a medium and a high prior. At a
    # known prior one of them is a flat curve far away, which the fit with a free prior avoids.
    if prior is None:
        log_odds = _BOUNDS[0]
        starts = [[-2.0, -0.5, 0.7], [0.0, -0.5, 0.7], [2.0, -0.5, 0.7]]
    else:
        known = float(np.clip(scipy.special.logit(prior), -_MOST_LOG_ODDS, _MOST_LOG_ODDS))
        log_odds = (known, known)
        free = fit_plateau(tails)
        starts = [[known, free.intercept, math.log(free.slope)], [known, 1.0, 0.7]]

    bounds = [log_odds, *_BOUNDS[1:]]
    best = scipy.optimize.minimize(loss, starts[0], jac=True, bounds=bounds, method="L-BFGS-B")
    for start in starts[1:]:
        fit = scipy.optimize.minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B")
        if fit.fun < best.fun:
            best = fit
    log_odds_of_prior, intercept, log_slope = best.x
    return Plateau(
        prior=float(scipy.special.expit(log_odds_of_prior)),
        intercept=float(intercept),
        slope=float(np.exp(log_slope)),
        labelled=loss.labelled,
    )


def likely_plateaus(tails: ScoreTails, prior: float) -> list[Plateau]:
    """Six plateaus whose mean stands for all that the counts allow, if the prior is known.

    A known prior is that of the population: the share of positives among the counted rows varies
    around it. Before the data are seen, the area under the ROC curve of the classes has its usual
    distribution, with a weight below 1. Without it, a few positives that score high by chance make
    the plateau too steep. With its full weight, strongly separated classes get too flat a plateau.
    Log-odds of
    that share, intercept and log slope are then normal around their most likely values. The
    plateaus lie at the square root of 3 standard deviations on either side, along the three axes of
    that distribution. The mean of a function over them is its expected value, exactly for
    polynomials of degree 3.
    """
    start = fit_plateau(tails, prior)
    loss = _ExpectedLoss(
        _PlateauLoss.of(tails), float(scipy.special.logit(prior)), tails.n * prior * (1 - prior)
    )
    theta = np.array([loss.log_odds, start.intercept, math.log(start.slope)])
    most_likely = scipy.optimize.minimize(
        loss, theta, jac=True, bounds=_BOUNDS, method="L-BFGS-B"
    ).x
    strengths, axes = np.linalg.eigh(loss.information(most_likely))
    spreads = 1 / np.sqrt(np.maximum(strengths, _LEAST_INFORMATION))
    plateaus = []
    for axis, spread in zip(axes.T, spreads, strict=True):
        for distance in (-math.sqrt(3) * spread, math.sqrt(3) * spread):
            log_odds, intercept, log_slope = most_likely + distance * axis
            slope = math.exp(min(max(log_slope, -_MOST_LOG_SLOPE), _MOST_LOG_SLOPE))
            plateaus.append(
                Plateau(float(scipy.special.expit(log_odds)), intercept, slope, start.labelled)
            )
    return plateaus


@dataclass(frozen=True, slots=True)
class _ExpectedLoss:
    """The loss with what is known beforehand: the prior of the population, usual separability."""

    loss: _PlateauLoss
    log_odds: float
    strength: float  # information about the log-odds of the share of positives

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.loss(theta)
        away = theta[0] - self.log_odds
        usual, usual_by_log_slope = _log_separability(math.exp(theta[2]))
        weight = constants.SEPARABILITY_OF_PLATEAUS
        value += self.strength * away**2 / 2 - weight * usual
        return value, gradient + np.array([self.strength * away, 0.0, -weight * usual_by_log_slope])

    def information(self, theta: FloatArray) -> FloatArray:
        """Second derivatives in log-odds of the prior, intercept and log slope."""
        rows = []
        for step in _DIFFERENCE * np.eye(3):
            _, above = self(theta + step)
            _, below = self(theta - step)
            rows.append((above - below) / (2 * _DIFFERENCE))
        matrix = np.array(rows)
        return (matrix + matrix.T) / 2


def _log_separability(slope: float) -> tuple[float, float]:
    r"""Log density of a log slope, and its derivative.

    The slope :math:`\beta` of a plateau is the distance of two normal classes, whose area under the
    ROC curve is :math:`A = \Phi(\beta / \sqrt 2)`. :math:`2A - 1` has a Beta distribution.
    """
    a, b = constants.USUAL_SEPARABILITY
    excess = max(2 * float(scipy.special.ndtr(slope / math.sqrt(2))) - 1, 1e-12)
    rest = max(2 * float(scipy.special.ndtr(-slope / math.sqrt(2))), 1e-12)
    excess_by_log_slope = slope * math.exp(-(slope**2) / 4) / math.sqrt(math.pi)
    value = (a - 1) * math.log(excess) + (b - 1) * math.log(rest) - slope**2 / 4 + math.log(slope)
    derivative = (a - 1) * excess_by_log_slope / excess - (b - 1) * excess_by_log_slope / rest
    return value, derivative - slope**2 / 2 + 1


@dataclass(frozen=True, slots=True)
class _PlateauLoss:
    """Negative log-likelihood of log-odds of the prior, intercept and log slope; its gradient."""

    positive: FloatArray  # effective numbers of positives in the cells
    unlabeled: FloatArray
    z: FloatArray  # normal scores of the cells
    labelled: float  # share of the positive sample in both

    @classmethod
    def of(cls, tails: ScoreTails) -> _PlateauLoss:
        return cls(
            positive=tails.positive_counts / tails.positive_counts.sum() * tails.n_positive,
            unlabeled=tails.counts / tails.counts.sum() * tails.n,
            z=normal_scores(tails),
            labelled=tails.n_positive / (tails.n_positive + tails.n),
        )

    def __call__(self, theta: FloatArray) -> tuple[float, FloatArray]:
        c = self.labelled
        rho = float(scipy.special.expit(theta[0]))
        slope = np.exp(theta[2])
        height = c / (c + (1 - c) * rho)
        climb = scipy.special.expit(theta[1] + slope * self.z)
        share = np.clip(height * climb, 1e-12, 1 - 1e-12)
        log_likelihood = self.positive @ np.log(share) + self.unlabeled @ np.log1p(-share)
        log_beta = np.log(rho * (1 - rho))

        by_share = self.unlabeled / (1 - share) - self.positive / share
        by_climb = by_share * height * climb * (1 - climb)
        gradient = [
            -(by_share @ climb) * height**2 * (1 - c) / c * rho * (1 - rho) - (1 - 2 * rho),
            by_climb.sum(),
            slope * (by_climb @ self.z),
        ]
        return float(-log_likelihood - log_beta), np.array(gradient)


def score_error(tails: ScoreTails) -> float:
    """Standard deviation of a fitted log-ratio around the true one, of a usual model."""
    of_positive, of_unlabeled = constants.SCORE_ERROR
    return math.sqrt(of_positive / tails.n_positive + of_unlabeled / tails.n)


def noisy_curve(
    plateau: Callable[[FloatArray], FloatArray], prior: float, error: float
) -> tuple[FloatArray, FloatArray]:
    r"""Recall and false-positive rate at many thresholds, both ascending.

    A positive with normal score z has the posterior :math:`\eta(z) = \pi r(z)` and the fitted score
    :math:`s = \log \eta(z) + \varepsilon`. For each positive there are :math:`(1 - \eta)/\eta`
    negatives at the same z. Without an error the curve is that of the plateau.
    """
    error = max(error, 1e-9)
    eta = np.clip(prior * plateau(_Z), 1e-12, 1 - 1e-12)
    above_all = np.linspace(4 * error, 0, 40, endpoint=False)
    cuts = np.concatenate((above_all, np.log(eta)[::-3]))
    above = scipy.special.ndtr((np.log(eta) - cuts[:, None]) / error)
    recall = above @ _MASS
    false_positive_rate = above @ (_MASS * (1 - eta) / eta) * prior / (1 - prior)
    return recall, np.minimum(false_positive_rate, 1.0)


@remembered
def expected_curve(
    tails: ScoreTails, prior: float, error: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Recalls, and the false-positive rate over each, a mean over all likely plateaus.

    ``error`` is the standard deviation of the scores; that of a usual model if it is None. A curve
    at the most likely plateau would be a best case: the same counts determine the threshold, and a
    plateau that is too steep by chance puts few negatives above it.
    """
    if error is None:
        error = score_error(tails)
    inner_prior = min(max(prior, 1e-3), 1 - 1e-3)
    curves = []
    for plateau in likely_plateaus(tails, inner_prior):
        recall, wrong = noisy_curve(plateau, plateau.prior, error)
        wrong_over_recall = np.minimum(wrong / np.maximum(recall, 1e-300), 1.0)
        curves.append(np.interp(_RECALLS, recall, wrong_over_recall))
    return _RECALLS, np.mean(curves, axis=0)


# -- the likelihood of each prior --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlateauProfile:
    """Largest log-likelihood at each prior, minus the largest of all."""

    log_odds: FloatArray  # log-odds of the priors, ascending
    height: FloatArray  # log-likelihood at each, at most 0

    def low(self, level: float) -> float:
        """Lower end of the likelihood-ratio interval; 0 if no smaller prior is rejected."""
        drop = -(float(scipy.special.ndtri((1 - level) / 2)) ** 2) / 2
        best = int(np.argmax(self.height))
        rejected = np.flatnonzero(self.height[: best + 1] < drop)
        if len(rejected) == 0:
            return 0.0
        k = int(rejected[-1])
        part = (drop - self.height[k]) / (self.height[k + 1] - self.height[k])
        return float(
            scipy.special.expit(self.log_odds[k] + part * (self.log_odds[k + 1] - self.log_odds[k]))
        )


@remembered
def plateau_profile(tails: ScoreTails) -> PlateauProfile:
    """Profile likelihood of the prior, the plateau's intercept and slope fitted at each prior.

    All priors are fitted at once by Fisher scoring, each with its own damping.
    """
    problem = _ProfileProblem.of(tails)
    theta = np.tile([[-0.5], [0.5]], len(_TRIED_LOG_ODDS))  # intercept and log slope
    value = problem.value(theta)
    damping = np.full(len(_TRIED_LOG_ODDS), 1e-3)
    for _ in range(_STEPS):
        next_theta = theta + problem.step(theta, damping)
        next_theta = np.clip(next_theta, [[-25.0], [-3.0]], [[25.0], [3.0]])
        next_value = problem.value(next_theta)
        better = next_value >= value
        largest_gain = float(np.where(better, next_value - value, np.inf).max())
        theta = np.where(better, next_theta, theta)
        value = np.where(better, next_value, value)
        damping = np.where(better, damping * 0.3, np.minimum(damping * 8, 1e6))
        if largest_gain < _LEAST_GAIN:
            break
    return PlateauProfile(_TRIED_LOG_ODDS, value - value.max())


@dataclass(frozen=True, slots=True)
class _ProfileProblem:
    """Log-likelihood of positive against unlabeled rows, for a column of heights of the plateau."""

    positive: FloatArray  # effective numbers of positives in a limited number of ranges
    unlabeled: FloatArray
    z: FloatArray  # normal scores of the ranges
    height: FloatArray

    @classmethod
    def of(cls, tails: ScoreTails) -> _ProfileProblem:
        positive = tails.positive_counts / tails.positive_counts.sum()
        unlabeled = tails.counts / tails.counts.sum()
        z = normal_scores(tails)
        if len(z) > _BINS:
            mass = (positive + unlabeled) / 2 + 1e-12
            rank = np.cumsum(mass) - mass / 2
            bins = np.minimum((rank * _BINS).astype(np.int64), _BINS - 1)
            _, bins = np.unique(bins, return_inverse=True)  # cells of large mass leave bins empty
            z = np.bincount(bins, mass * z) / np.bincount(bins, mass)
            positive = np.bincount(bins, positive)
            unlabeled = np.bincount(bins, unlabeled)
        labelled = tails.n_positive / (tails.n_positive + tails.n)
        height = labelled / (labelled + (1 - labelled) * scipy.special.expit(_TRIED_LOG_ODDS))
        return cls(positive * tails.n_positive, unlabeled * tails.n, z, height[:, None])

    def value(self, theta: FloatArray) -> FloatArray:
        """Log-likelihood at each height."""
        share = self._share(self._climb(theta))
        return np.asarray(np.log(share) @ self.positive + np.log1p(-share) @ self.unlabeled)

    def step(self, theta: FloatArray, damping: FloatArray) -> FloatArray:
        """Damped scoring step of intercept and log slope, at each height."""
        climb = self._climb(theta)
        share = self._share(climb)
        variance = share * (1 - share)
        rows = self.positive + self.unlabeled
        share_by_climb = self.height * climb * (1 - climb)
        pull = (self.positive - rows * share) / variance * share_by_climb
        weight = rows * share_by_climb**2 / variance
        by_slope = np.exp(theta[1])[:, None] * self.z

        # gradient and information of intercept (g) and log slope (h)
        g = pull.sum(axis=1)
        h = (pull * by_slope).sum(axis=1)
        gg = (weight.sum(axis=1) + 1e-9) * (1 + damping)
        hh = ((weight * by_slope**2).sum(axis=1) + 1e-9) * (1 + damping)
        gh = (weight * by_slope).sum(axis=1)
        steps = np.array([hh * g - gh * h, gg * h - gh * g]) / (gg * hh - gh**2)
        return np.asarray(np.clip(steps, [[-3.0], [-1.0]], [[3.0], [1.0]]))

    def _climb(self, theta: FloatArray) -> FloatArray:
        return np.asarray(
            scipy.special.expit(theta[0][:, None] + np.exp(theta[1])[:, None] * self.z)
        )

    def _share(self, climb: FloatArray) -> FloatArray:
        return np.asarray(np.clip(self.height * climb, 1e-12, 1 - 1e-12))


# -- how well the classes are separated --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Separation:
    """A lower bound of the separation of the classes by the score, and the plateau's likelihood.

    ``least_youden``: Youden's index of the score, positives against negatives, at the lower end of
    the plateau's 95 % interval, minus its noise: the smallest index that the counts allow, in [-1,
    1].
    """

    least_youden: float
    profile: PlateauProfile  # likelihood of each prior under the plateau

    def impurity(self, low: float, middle: float) -> float:
        r"""Density of negatives over that of positives among the best-scored rows, in [0, 1).

        ``low`` and ``middle`` are the lower limit and a rough value of the training prior when the
        best-scored rows are taken as positive. The result depends on the classes and not on their
        shares, so the value of a training sample is valid for every later sample.

        The plateau's lower limit does not assume that the best-scored rows are positive, and
        shrinks to 0 if the score does not separate the classes. Its difference from ``low`` is
        attributed to negatives: with :math:`\ell_0` the smaller one, :math:`(\ell - \ell_0) / (1 -
        \ell_0)`. If most rows are positive, there are too few negatives to show the shape of the
        plateau, and ``low`` is kept.
        """
        low = min(low, 1 - 1e-6)  # with a limit of 1 there would be no negatives
        plateau_low = min(low, self.profile.low(DESIGN_LEVEL))
        plateau_low *= slide(self.least_youden, *constants.LIMIT_FOR_SEPARATION)
        mostly_positive = slide(middle, *constants.TAIL_LIMIT_FOR_PRIORS)
        separates = slide(self.least_youden, *constants.TAIL_LIMIT_FOR_SEPARATION)
        keep = mostly_positive * separates
        allowed_low = keep * low + (1 - keep) * plateau_low
        if low <= allowed_low:
            return 0.0
        return (low - allowed_low) / (1 - allowed_low)


def separation_of(tails: ScoreTails) -> Separation:
    """Separation of the classes by the training counts ``tails``."""
    if not tails.counts.any():
        raise DataError("the tails are empty: update them with unlabeled scores first.")
    profile = plateau_profile(tails)
    return Separation(youden_index(tails, profile.low(DESIGN_LEVEL)), profile)


def youden_index(tails: ScoreTails, prior: float) -> float:
    """Youden's index of the score, positives against negatives, minus its noise."""
    gap = float((tails.positive_survival - tails.survival).max())
    index = gap / max(1 - prior, 0.02) - 1 / math.sqrt(tails.n_positive)
    return min(1.0, max(-1.0, index))


def slide(value: float, start: float, end: float) -> float:
    """0 up to ``start``, 1 from ``end`` on, and linear in between."""
    return min(1.0, max(0.0, (value - start) / (end - start)))
