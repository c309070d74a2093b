"""Weights with which unlabeled rows replace positives in training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drpu._typing import FloatArray
from drpu.core.calibration import calibrate
from drpu.core.prior.estimate import prior_from_tails
from drpu.core.tails import ScoreTails

LEAST = 1e-6  # smallest weight, so that every row stays in the sample


def mean_log_ratio(scores: Sequence[FloatArray]) -> FloatArray:
    """Log of the mean ratio of several models, given one array of log-ratios per model."""
    return np.asarray(np.logaddexp.reduce(list(scores)) - np.log(len(scores)))


def teaching_weights(scores: FloatArray, tails: ScoreTails | None = None) -> tuple[FloatArray, float]:
    r"""Weights of unlabeled rows as positives, and the largest possible weight.

    The mean of any function over positives is its mean over unlabeled rows weighted by the
    ratio, :math:`E_+[f] = E_U[r f]`. So the ratio of one model allows another one to be trained
    on all unlabeled rows instead of a few labelled rows, which it would overfit. Held-out scores in
    ``tails`` calibrate the ratios. The largest weight, that of a labelled row, is 1 / prior.
    """
    if tails is None:
        ratio = np.exp(scores)
        return np.maximum(ratio, LEAST), float(ratio.max())
    # The upper reading limits the weight of a row; the classifier warns when it estimates its prior.
    prior = max(prior_from_tails(tails, method="adaptive", warn=False).value, 1 / tails.n)
    ratio = calibrate(tails, prior)(scores)
    return np.clip(ratio, LEAST, 1 / prior), 1 / prior
