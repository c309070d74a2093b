"""Mixture proportion from binomial limits on the two tails (Scott 2015)."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

from drpu._checks import check_fraction
from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails

__all__ = ["scott"]


def scott(tails: ScoreTails, level: float = 0.95) -> float:
    r"""Smallest ratio of an upper limit of the tail of U and a lower limit of the tail of P.

    Parameters
    ----------
    tails : ScoreTails
        The counts.
    level : float, default=0.95
        Confidence of each pair of limits, in (0, 1).

    Returns
    -------
    prior : float
        In (0, 1]. At any fixed threshold it exceeds the prior with probability at least
        ``level``, so it is biased upwards; the bias decreases with the sample sizes.

    Notes
    -----
    At any threshold :math:`a \ge \pi b`, with equality if there are only positives
    above it. The estimate is

    .. math:: \min_k \bar a_k / \underline b_k,

    with one-sided Clopper-Pearson limits, each at :math:`(1 - \text{level})/2`. They
    are exact for a fixed threshold, and much tighter than the uniform deviation bounds of
    the theory. There is no correction for several thresholds, because this is an
    estimator and not an interval. Thresholds with few positives above them have a small
    :math:`\underline b` and do not attain the minimum. With weights, effective sizes
    replace the counts.

    See Also
    --------
    drpu.core.proportion.infimum : The same ratio, without limits on the tails.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> unlabeled = np.concatenate([rng.normal(3, 1, 900), rng.normal(0, 1, 2100)])
    >>> round(scott(ScoreTails(rng.normal(3, 1, 1000)).update(unlabeled)), 2)
    0.3
    """
    tail = (1 - check_fraction("level", level)) / 2
    a, b = tails.survival, tails.positive_survival
    n, n_positive = tails.n, tails.n_positive

    # Each bound exceeds a/b, so one good bound excludes most thresholds.
    ratio = a / b
    promising = int(np.argmin((a + 2 * np.sqrt(a / n) + 4 / n) * (1 / b + 2 / np.sqrt(n_positive * b**3))))
    first = _bound(a[[promising]], n, b[[promising]], n_positive, tail)
    left = ratio < first
    others = _bound(a[left], n, b[left], n_positive, tail) if left.any() else first
    return min(1.0, first, others)


def _bound(a: FloatArray, n: float, b: FloatArray, n_positive: float, tail: float) -> float:
    """Minimum of upper(a) / lower(b), with one-sided Clopper-Pearson limits."""
    hits, kept = a * n, b * n_positive
    missed = np.maximum(n - hits, 0.0)
    upper = np.ones_like(hits)
    some = missed > 1e-9 * n  # if all rows are above the threshold the limit is 1
    upper[some] = betaincinv(hits[some] + 1, missed[some], 1 - tail)
    lower = betaincinv(kept, np.maximum(n_positive - kept, 0.0) + 1, tail)
    with np.errstate(divide="ignore"):  # the lower limit underflows
        return float((upper / lower).min())
