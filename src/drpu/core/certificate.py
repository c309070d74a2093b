r"""Upper bounds on the excess risk of a classifier that thresholds a ratio.

For the least-squares generator the divergence of a ratio :math:`r` from the true one
is :math:`L(r) - L(r^*) = E[(r - r^*)^2]/2`. It bounds the excess risk for every test
prior and cost.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from drpu._checks import check_fraction, check_prior, check_real, check_scores
from drpu.core.bregman import bregman_risk
from drpu.exceptions import PriorError

__all__ = ["excess_risk_bound", "risk_upper_limit", "shift_bound_constant"]


def shift_bound_constant(train_prior: float, test_prior: float, *, cost: float = 0.5) -> float:
    r"""Bound on the excess risk under the test prior per unit of error of the ratio.

    Parameters
    ----------
    train_prior, test_prior : float
        Positive class priors before and after the shift, in [0, 1].
    cost : float, default=0.5
        False-positive cost in (0, 1).

    Returns
    -------
    constant : float
        The :math:`C` of :math:`R(h) - R^* \le C\, E|r - r^*|`. Infinite if the
        training population has no negatives and the test population has some.

    Notes
    -----
    With training prior :math:`\pi`, test prior :math:`\pi'` and cost :math:`c`,

    .. math:: C = (1-c)\,\pi' + c\,(1-\pi')\,\frac{\pi}{1-\pi}.

    It is the coefficient of the true ratio in the expected cost: a row costs
    :math:`(1-c)\pi' r^*` if it is classified as negative and
    :math:`c (1-\pi')(1 - \pi r^*)/(1-\pi)` if it is classified as positive.

    Examples
    --------
    >>> shift_bound_constant(0.4, 0.4)  # no shift, equal costs: the prior itself
    0.4
    >>> round(shift_bound_constant(0.4, 0.8), 3)
    0.467
    """
    pi = check_prior("train_prior", train_prior)
    pi_test = check_prior("test_prior", test_prior)
    c = check_fraction("cost", cost)

    if pi_test == 1:
        return 1 - c
    if pi == 1:
        return math.inf
    return (1 - c) * pi_test + c * (1 - pi_test) * pi / (1 - pi)


def excess_risk_bound(
    holdout_risk: float,
    train_prior: float,
    test_prior: float,
    *,
    cost: float = 0.5,
    best_risk: float | None = None,
) -> float:
    r"""Bound on the excess risk under the test prior.

    Parameters
    ----------
    holdout_risk : float
        Uncorrected least-squares risk :math:`L(r) = E[r^2]/2 - E_+[r]` of the ratio.
        It is treated as exact: pass :func:`risk_upper_limit` of holdout rows for a bound
        that holds with a given confidence.
    train_prior, test_prior : float
        Positive class priors, in (0, 1] and [0, 1].
    cost : float, default=0.5
        False-positive cost in (0, 1).
    best_risk : float, optional
        The risk :math:`L(r^*)` of the true ratio, or a lower bound of it. The default is
        :math:`-1/(2\pi)`, a lower bound because :math:`r^* \le 1/\pi`.

    Returns
    -------
    bound : float
        In the units of :math:`(1-c)\,\pi'\,\mathrm{FNR} + c\,(1-\pi')\,\mathrm{FPR}`;
        at cost 1/2, twice the bound limits the loss of accuracy. It is never above the
        risk of the worst classifier.

    Notes
    -----
    .. math:: R(h) - R^* \le C \sqrt{2\,(L(r) - L(r^*))}

    with :math:`C` from :func:`shift_bound_constant` and :math:`h` the classifier that
    thresholds the ratio at :func:`~drpu.ratio_threshold`. It assumes that only the prior
    changes, that both priors are correct, that ``holdout_risk`` is that of the thresholded
    ratio on rows it was not trained on, and the least-squares generator. The other
    generators are not strongly convex and have no such bound.

    :math:`L(r^*) = -E_+[r^*]/2` is not identified by positive and unlabeled rows. Its default
    is exact if the classes do not overlap. The more they overlap, the larger the bound
    is, until it is the risk of the worst classifier.

    Examples
    --------
    >>> excess_risk_bound(-1.0, 0.5, 0.5)  # the exact ratio of separated classes
    0.0
    >>> round(excess_risk_bound(-0.98, 0.5, 0.2), 3)
    0.1
    """
    pi = check_prior("train_prior", train_prior)
    pi_test = check_prior("test_prior", test_prior)
    c = check_fraction("cost", cost)
    risk = check_real("holdout_risk", holdout_risk)
    if best_risk is None and pi == 0:
        raise PriorError("train_prior must be above 0, got 0.0: the true ratio has no bound, give best_risk.")
    best = -1 / (2 * pi) if best_risk is None else check_real("best_risk", best_risk)

    worst = (1 - c) * pi_test + c * (1 - pi_test)
    divergence = max(0.0, risk - best)
    if divergence == 0:
        return 0.0
    return min(worst, shift_bound_constant(pi, pi_test, cost=c) * math.sqrt(2 * divergence))


def risk_upper_limit(positive: npt.ArrayLike, unlabeled: npt.ArrayLike, *, level: float = 0.95) -> float:
    """One-sided upper confidence limit of the least-squares risk, by the normal approximation.

    Parameters
    ----------
    positive, unlabeled : array-like
        Ratios of holdout positives and of holdout unlabeled rows, at least two of each.
    level : float, default=0.95
        Confidence level in (0, 1).

    Examples
    --------
    >>> risk_upper_limit([2.0, 2.0], [0.0, 2.0, 0.0, 2.0]) > -1.0
    True
    """
    check_fraction("level", level)
    r_positive, r_unlabeled = check_scores("positive", positive), check_scores("unlabeled", unlabeled)
    if min(len(r_positive), len(r_unlabeled)) < 2:
        return math.inf
    variance = np.var(r_positive, ddof=1) / len(r_positive)
    variance += np.var(r_unlabeled**2 / 2, ddof=1) / len(r_unlabeled)
    risk = float(bregman_risk(r_positive, r_unlabeled, generator="lsif"))
    return risk + float(ndtri(level)) * math.sqrt(float(variance))
