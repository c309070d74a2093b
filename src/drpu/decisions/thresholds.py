"""The threshold on a density ratio that a cost and two priors ask for."""

from __future__ import annotations

import numpy as np

from drpu._checks import check_fraction
from drpu.priors.calibration import prior_value
from drpu.priors.estimate import PriorEstimate


def ratio_threshold(
    train_prior: float | PriorEstimate, test_prior: float | PriorEstimate, *, cost: float = 0.5
) -> float:
    r"""Density-ratio threshold above which a row is flagged.

    Parameters
    ----------
    train_prior : float or PriorEstimate
        Positive class prior of the training population, in [0, 1].
    test_prior : float or PriorEstimate
        Positive class prior of the data to classify, in [0, 1].
    cost : float, default=0.5
        False-positive cost in (0, 1), the posterior above which a row is
        flagged. For a false positive ``k`` times as bad as a false
        negative, use ``k / (1 + k)``.

    Returns
    -------
    threshold : float
        Flag ``x`` if ``ratio(x) > threshold``. Infinite if there is only one class at
        test time.

    See Also
    --------
    shift_posterior : The same shift for probabilities.

    Notes
    -----
    With training prior :math:`\pi`, test prior :math:`\pi'` and cost :math:`c`,

    .. math:: \theta = \frac{c (1-\pi')}{(1-c)(1-\pi)\pi' + c \pi (1-\pi')}.

    Examples
    --------
    >>> ratio_threshold(0.5, 0.5)
    1.0
    >>> ratio_threshold(0.5, 0.25)  # rarer positives: a higher threshold
    1.5
    """
    pi = prior_value("train_prior", train_prior)
    pi_test = prior_value("test_prior", test_prior)
    c = check_fraction("cost", cost)

    if pi_test == 0.0:  # only one class: the ratio does not matter
        return np.inf
    if pi_test == 1.0:
        return -np.inf
    if pi == 1.0:  # no ratio exceeds 1, and a row at 1 has the test prior as its posterior
        return float(np.nextafter(1.0, 0.0)) if pi_test > c else 1.0
    against = c * (1 - pi_test)
    level = (1 - c) * pi_test * (1 - pi) + against * pi
    if level == 0:  # products of very small floats underflow: use the limit
        return np.inf
    return against / level
