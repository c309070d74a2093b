"""Labels that are no fair sample: weights that correct for known rates of labelling, and bounds.

The labelling rate e(x) is the probability that a positive row is labelled. If it is the same for all
positives, the labelled ones are a random sample of them. If it is known, labelled rows with the weights
1 / e represent all positives. If it is not, bounds say what follows if rates differ by at most a factor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drpu._typing import FloatArray

__all__ = ["Sensitivity", "inverse_weights", "sensitivity"]

_LEAST = 1e-3  # rates below it would give single rows weights that no estimate survives


def inverse_weights(propensity: FloatArray) -> FloatArray:
    """Weights of labelled rows, with mean 1, under which they represent all positives.

    Parameters
    ----------
    propensity : ndarray of shape (n,)
        Probability that a positive like each of the rows is labelled, in (0, 1]. Only its
        proportions matter.

    Examples
    --------
    >>> inverse_weights(np.array([0.5, 0.5, 0.1, 0.1])).round(3).tolist()
    [0.333, 0.333, 1.667, 1.667]
    """
    weight = 1 / np.maximum(propensity, _LEAST * propensity.max())
    return np.asarray(weight / weight.mean())


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What changes if positives are labelled at different rates.

    Attributes
    ----------
    k : float
        The factor by which the rate of any positive may differ from the estimated one.
    prior, prior_low, prior_high : float
        Share of positives as estimated, and its bounds.
    flagged, flagged_low, flagged_high : float
        Share of the rows that is flagged as estimated, under all rates, and under some rates.
    """

    k: float
    prior: float
    prior_low: float
    prior_high: float
    flagged: float
    flagged_low: float
    flagged_high: float

    def __str__(self) -> str:
        return (
            f"if some positives are up to {self.k:g} times likelier to be labelled: prior {self.prior:.3f} "
            f"[{self.prior_low:.3f}, {self.prior_high:.3f}], flagged rows {self.flagged:.1%} "
            f"[{self.flagged_low:.1%}, {self.flagged_high:.1%}]"
        )


def sensitivity(
    posterior: FloatArray,
    *,
    k: float,
    weight: FloatArray | None = None,
    rate: float = 0.0,
    cost: float = 0.5,
) -> Sensitivity:
    r"""Bounds of the prior and of the flagged rows if rates of labelling differ by up to a factor ``k``.

    Parameters
    ----------
    posterior : ndarray of shape (N,)
        Probability of the positive class of each row, or of each range of rows, if all positives are
        labelled at one rate.
    k : float
        At least 1: the rate of every positive is the estimated one times a factor from 1/k to k.
    weight : ndarray of shape (N,), optional
        Number of rows in each range.
    rate : float, default=0
        The estimated rate of labelling in a single sample. No rate exceeds 1, so the factor is at most
        1 / ``rate``.
    cost : float, default=0.5
        Posterior above which a row is flagged.

    Notes
    -----
    The data determine :math:`P(\text{labelled} \mid x) = e(x) \eta(x)`. At one rate :math:`e` the posterior
    is :math:`\eta`; at the rate :math:`f e` it is :math:`\eta / f`, and at most 1.

    Examples
    --------
    >>> found = sensitivity(np.array([0.05, 0.4, 0.9]), k=2)
    >>> round(found.prior, 3), round(found.prior_low, 3), round(found.prior_high, 3)
    (0.45, 0.225, 0.633)
    """
    share = np.full(len(posterior), 1 / len(posterior)) if weight is None else weight / weight.sum()
    low = posterior * max(1 / k, rate)
    high = np.minimum(posterior * k, 1.0)
    priors = (float(share @ p) for p in (posterior, low, high))
    flagged = (float(share @ (p > cost)) for p in (posterior, low, high))
    return Sensitivity(k, *priors, *flagged)
