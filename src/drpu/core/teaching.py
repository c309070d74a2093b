"""Unlabeled rows in the place of positives: how much each of them weighs, by a ratio."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from drpu._typing import FloatArray
from drpu.core.calibration import calibrate
from drpu.core.tails import ScoreTails
from drpu.exceptions import DRPUWarning

__all__ = ["mean_log_ratio", "teaching_weights"]

LEAST = 1e-6  # weight of a row that is no positive at all: it stays in the sample


def mean_log_ratio(scores: Sequence[FloatArray]) -> FloatArray:
    """Log of the mean ratio, from the log-ratios of several models, one array each."""
    return np.asarray(np.logaddexp.reduce(list(scores)) - np.log(len(scores)))


def teaching_weights(scores: FloatArray, tails: ScoreTails | None = None) -> tuple[FloatArray, float]:
    r"""What unlabeled rows weigh as positives, and the most that a row can weigh.

    The mean of any function over positives is its mean over unlabeled rows weighted by the
    ratio, :math:`E_+[f] = E_U[r f]`. A model can so be taught with all unlabeled rows by
    another one, in the place of a few labelled rows that it would learn by heart.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Log-ratios of the unlabeled rows.
    tails : ScoreTails, optional
        Scores of the same kind, of positives and unlabeled rows kept out: ratios are calibrated on
        them. Without them they are taken as they are.

    Returns
    -------
    weights : ndarray of shape (n,)
        Above 0.
    ceiling : float
        One over the prior, or the largest ratio where none was estimated: what a labelled row weighs.

    Examples
    --------
    >>> weights, ceiling = teaching_weights(np.log([0.5, 2.0]))
    >>> weights.tolist(), ceiling
    ([0.5, 2.0], 2.0)
    """
    if tails is None:
        ratio = np.exp(scores)
        return np.maximum(ratio, LEAST), float(ratio.max())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)  # said again where the prior is used
        prior = max(tails.estimate().value, 1 / tails.n)
        ratio = calibrate(tails, prior)(scores)
    return np.clip(ratio, LEAST, 1 / prior), 1 / prior
