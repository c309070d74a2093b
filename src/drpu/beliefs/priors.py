r"""What is believed about a prior: of the training population, and of later rows.

Every prior from 0 to the mixture proportion explains the same positives and the same unlabeled
rows, so counts alone give an upper limit only. What is usual in tables with such counts was learned
from many tables with true labels: the log-odds of the share of positives among the unlabeled rows
have the density of :mod:`drpu.beliefs.density`, cut at the limit that needs no assumption.

Value, limits and ``identified`` of a prior are the mean, quantiles and a probability of that one
distribution. If only the prior moves, the distribution of a later prior follows from it and from
the growth of the negatives, which needs no prior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu.beliefs.density import NormalMixture, learned_density
from drpu.priors.estimate import PriorEstimate
from drpu.priors.limits import upper_limit
from drpu.priors.matching import Growth, possible_growths
from drpu.priors.plateau import fit_plateau
from drpu.priors.tails import ScoreTails

LEVEL_OF_LIMIT = 0.95  # of the limit that is evidence
N_QUANTILES = 10  # values that stand for a distribution where probabilities are averaged over it
N_LIKELY = 20  # values for limits; the outer ones are the 95 % limits themselves
LEVEL_OF_CUT = 0.999  # of the limit at which densities are cut
FAR_OFF = 0.10  # a prior is identified if it is hardly ever off by more
RECALLS = (0.02, 0.1, 0.3, 0.6)  # at which the tails are evidence
STEP = 0.05
LOG_ODDS = np.arange(-11.5, 7.001, STEP)  # priors from 1e-5 to .999
PRIORS = 1 / (1 + np.exp(-LOG_ODDS))


@dataclass(frozen=True, slots=True)
class PriorDistribution:
    """Probabilities of priors."""

    prior: FloatArray  # priors, ascending
    weight: FloatArray  # their probabilities

    @property
    def mean(self) -> float:
        """Expected prior."""
        return float(self.weight @ self.prior)

    def quantile(self, probability: float) -> float:
        """The prior that is not exceeded with this probability."""
        below = np.cumsum(self.weight) - self.weight / 2
        return float(np.interp(probability, below, self.prior))

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Equally likely values of the prior, ascending."""
        probabilities = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
        return tuple(self.quantile(probability) for probability in probabilities)

    @property
    def chance_of_far_off(self) -> float:
        """Probability that the mean is further off than that of an identified prior may be."""
        far = np.abs(self.prior - self.mean) > FAR_OFF
        return float(self.weight[far].sum())

    @property
    def identified(self) -> bool:
        """Whether the mean is hardly ever far off."""
        return self.chance_of_far_off < learned_density("training_prior").chance_of_far_off

    def with_labelled(self, labelled_share: float) -> PriorDistribution:
        """The same for the population, of which this share is labelled and so positive."""
        return replace(self, prior=labelled_share + (1 - labelled_share) * self.prior)


# -- the training prior ------------------------------------------------------------------------


def prior_evidence(
    tails: ScoreTails, *, labelled_share: float | None = None
) -> dict[str, float | None]:
    """What counts say about the prior of the unlabeled rows, before anything is believed.

    ``labelled_share`` is that of the population, in a single sample.
    """
    positive = tails.positive_counts / tails.positive_counts.sum()
    unlabeled = tails.counts / tails.counts.sum()
    recall = np.append(0.0, np.cumsum(positive[::-1]))
    flagged = np.append(0.0, np.cumsum(unlabeled[::-1]))
    plateau = fit_plateau(tails)
    evidence: dict[str, float | None] = {
        "plateau": _log_odds(plateau.prior),
        "slope": math.log(plateau.slope),
        "limit": _log_odds(upper_limit(tails, LEVEL_OF_LIMIT).prior),
        "area": float(positive @ (np.cumsum(unlabeled) - unlabeled / 2)),
        "positives": 1 / math.sqrt(tails.n_positive),
        "unlabeled": 1 / math.sqrt(tails.n),
        "single": 0.0 if labelled_share is None else 1.0,
        "labelled": None if labelled_share is None else _log_odds(labelled_share),
    }
    for level in RECALLS:
        share = float(np.interp(level, recall, flagged))
        evidence[f"tail_{level}"] = math.log((share * tails.n + 0.5) / (tails.n + 1) / level)
    return evidence


def _log_odds(share: float) -> float:
    """Log-odds of a share, within the priors of the densities."""
    return float(scipy.special.logit(min(max(share, PRIORS[0]), PRIORS[-1])))


def prior_distribution(
    tails: ScoreTails, *, labelled_share: float | None = None
) -> PriorDistribution:
    """Distribution of the prior of the unlabeled rows that ``tails`` count."""
    evidence = prior_evidence(tails, labelled_share=labelled_share)
    density = learned_density("training_prior").mixture(evidence)
    return cut_distribution(density, log_odds_of_cut(tails))


def log_odds_of_cut(tails: ScoreTails) -> float:
    """Log-odds of the limit that needs no assumption, above which no prior is possible."""
    return _log_odds(upper_limit(tails, LEVEL_OF_CUT).prior)


def cut_distribution(density: NormalMixture, cut: float) -> PriorDistribution:
    """The distribution of priors with this density of their log-odds up to ``cut``."""
    log_density = density.log_density(LOG_ODDS)
    allowed = cut + STEP > LOG_ODDS
    weight = np.where(allowed, np.exp(log_density - log_density[allowed].max()), 0.0)
    return PriorDistribution(PRIORS, weight / weight.sum())


# -- the prior of later rows -------------------------------------------------------------------


def later_prior(train_priors: Sequence[float], growth: Growth) -> PriorDistribution:
    r"""Distribution of a later prior if only the prior moved.

    Each of the ``train_priors``, which are equally likely before the later rows are seen, is
    followed by :math:`1 - \lambda (1 - \pi)`, with the measured growth of the negatives
    :math:`\lambda` and its normal error. Growths are possible that leave a prior between 0 and 1,
    see :func:`drpu.priors.matching.later_priors`.
    """
    weight, lowest, highest = possible_growths(train_priors, growth)
    middle = (np.arange(N_LIKELY) + 0.5) / N_LIKELY
    between = lowest + (highest - lowest) * middle[:, None]
    growths = growth.value + growth.safe_spread * scipy.special.ndtri(between)
    negative = np.maximum(1 - np.asarray(train_priors, dtype=np.float64), 1e-9)
    later = np.clip(1 - growths * negative, 0.0, 1.0).ravel()
    order = np.argsort(later)
    weights = np.broadcast_to(weight / N_LIKELY, between.shape).ravel()
    return PriorDistribution(later[order], weights[order])


def likely_values(prior: PriorEstimate) -> tuple[float, ...]:
    """Equally likely values of a prior, by its quantiles and limits or by a normal.

    The normal is one of the log-odds through the limits, with another deviation above the value
    than below it.
    """
    if prior.low == prior.high:
        return (prior.value,)
    probability = (np.arange(N_LIKELY) + 0.5) / N_LIKELY
    tail = (1 - prior.level) / 2
    if prior.quantiles:
        n = len(prior.quantiles)
        known = np.concatenate(([tail], (np.arange(n) + 0.5) / n, [1 - tail]))
        order = np.argsort(known)
        values = np.array([prior.low, *prior.quantiles, prior.high])[order]
        return tuple(np.interp(probability, known[order], np.sort(values)).tolist())
    low, middle, high = scipy.special.logit(
        np.clip([prior.low, prior.value, prior.high], 1e-9, 1 - 1e-9)
    )
    deviation = scipy.special.ndtri(probability)
    width = scipy.special.ndtri(1 - tail)
    log_odds = middle + deviation / width * np.where(deviation < 0, middle - low, high - middle)
    return tuple(scipy.special.expit(log_odds).tolist())
