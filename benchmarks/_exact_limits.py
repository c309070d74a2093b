"""Limits of the prior that hold in finite samples, with which those of the library are compared."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betainc, betaincinv

from drpu._checks import check_fraction
from drpu.priors.limits import RANK_STEP, Limits, last_levels, ranks
from drpu.priors.plateau import youden_index
from drpu.priors.tails import ScoreTails


def exact_limits(tails: ScoreTails, level: float, *, recall: float = 0.1) -> Limits:
    r"""Limits that are valid in finite samples for any distribution, about 1.7 times as wide.

    ``high``: Clopper-Pearson limits of both tails at ranks fixed in advance, with a
    Bonferroni correction. ``low``: the threshold of the minimum is fixed, so pointwise
    limits at every level are enough. A third of the error probability is used for each
    tail, and a third for the event that this threshold has fewer positives above it than
    the ranks that are used. ``low`` bounds the minimum of the curve over thresholds with at least this
    ``recall``: the prior, if there are no negatives above one of them.
    """
    check_fraction("level", level)
    check_fraction("recall", recall)
    tail = (1 - level) / 2
    low = _exact_low(tails, tail, recall)
    high, decided = _exact_high(tails, tail)
    separation = youden_index(tails, min(low, high))
    return Limits(min(low, high), high, decided, separation)


def _exact_high(tails: ScoreTails, tail: float) -> tuple[float, float]:
    """The upper limit, and the recall of its rank."""
    n, n_positive = tails.n, tails.n_positive
    rank = ranks(n_positive, 2 * RANK_STEP)
    if len(rank) == 0:
        return 1.0, 1.0
    # The designed rank, not the tied count: ties only increase the fraction above the threshold.
    hits = tails.survival[last_levels(tails, rank)] * n
    t = tail / (2 * len(rank))
    above = np.where(hits < n - 0.5, betaincinv(hits + 1, np.maximum(n - hits, 0.5), 1 - t), 1.0)
    upper = above / betaincinv(rank, n_positive - rank + 1, t)
    best = int(np.argmin(upper))
    return min(1.0, float(upper[best])), min(1.0, float(rank[best]) / n_positive)


def _exact_low(tails: ScoreTails, tail: float, recall: float) -> float:
    """The lower limit of the minimum of the curve at ``recall`` or more."""
    n, n_positive, t = tails.n, tails.n_positive, tail / 3
    counts = np.arange(math.ceil(n_positive))
    # Smallest number of positives above a threshold of this recall, except with probability t.
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
