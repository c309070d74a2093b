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
    """Weights of labelled rows, with mean 1, under which they represent all positives."""
    weight = 1 / np.maximum(propensity, _LEAST * propensity.max())
    return np.asarray(weight / weight.mean())


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What changes if positives are labelled at different rates.

    ``prior``, ``prior_low``, ``prior_high``: Share of positives as estimated, and its bounds.
    ``flagged``, ``flagged_low``, ``flagged_high``: Share of the rows that is flagged as estimated, under
    all rates, and under some rates.
    """

    k: float  # the factor by which the rate of any positive may differ from the estimated one
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

    The data determine :math:`P(\text{labelled} \mid x) = e(x) \eta(x)`. At one rate :math:`e` the posterior
    is :math:`\eta`; at the rate :math:`f e` it is :math:`\eta / f`, and at most 1. In a single sample with
    the estimated ``rate`` no rate exceeds 1, so the factor is at most 1 / ``rate``.
    """
    share = np.full(len(posterior), 1 / len(posterior)) if weight is None else weight / weight.sum()
    low = posterior * max(1 / k, rate)
    high = np.minimum(posterior * k, 1.0)
    priors = (float(share @ p) for p in (posterior, low, high))
    flagged = (float(share @ (p > cost)) for p in (posterior, low, high))
    return Sensitivity(k, *priors, *flagged)
