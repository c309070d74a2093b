"""A network taught by others: unlabeled rows weighted by a ratio take the place of positives."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._typing import FloatArray, Rows
from drpu.core.calibration import calibrate
from drpu.core.tails import ScoreTails
from drpu.exceptions import DRPUWarning
from drpu.models._holdout import SamplePair, Split, carve
from drpu.models._rows import n_rows, stack_rows
from drpu.models.many import fit_many
from drpu.models.network import NetworkRatio

__all__ = ["fit_taught"]

ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # of the teachers of a model that leaves the choice open
ENOUGH = 25  # held-out positives below which a calibration says more of them than of the teachers
LEAST = 1e-6  # weight of an unlabeled row that is no positive at all: it stays in the sample


def fit_taught(model: NetworkRatio, sample: SamplePair, holdout: tuple[Rows, Rows] | None) -> NetworkRatio:
    """A pupil with the options of ``model``, of as many teachers as it asks for.

    The mean of any function over positives is its mean over unlabeled rows, weighted by the
    ratio. The teachers' mean ratio is calibrated on rows kept out and gives these weights, and
    labelled rows get the largest. A few of them are soon learnt by heart; all unlabeled
    rows together are not.
    """
    rng = check_random_state(model.random_state)
    seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=model.teachers + 2)]
    split = carve(sample, holdout, model.holdout, np.random.default_rng(seeds[0]))
    kept = None if split.held is None else (split.held.positive, split.held.unlabeled)
    alphas = ALPHAS if isinstance(model.alpha, str) else (model.alpha,)
    teachers = [
        clone(model).set_params(teachers=0, alpha=alphas[i % len(alphas)], random_state=seeds[i + 2])
        for i in range(model.teachers)
    ]
    train = split.train
    fit_many(
        teachers,
        train.positive,
        train.unlabeled,
        holdout=kept,
        positive_weight=train.positive_weight,
        unlabeled_weight=train.unlabeled_weight,
    )
    pupil: NetworkRatio = clone(model).set_params(teachers=0, alpha=0.0, random_state=seeds[1])
    # all rows in one array that both samples are shares of: they travel to the device once
    rows = stack_rows(train.positive, train.unlabeled)
    n = n_rows(train.positive)
    as_positive, as_unlabeled = _weights(train)
    as_positive *= np.concatenate([*_lesson(teachers, split)])
    as_unlabeled[:n] = 0
    fit_many([pupil], rows, rows, holdout=kept, positive_weight=as_positive, unlabeled_weight=as_unlabeled)
    return pupil


def _weights(sample: SamplePair) -> tuple[FloatArray, FloatArray]:
    """Weights of all rows, twice, to be changed."""
    weight = sample.weights()
    total = n_rows(sample.positive) + n_rows(sample.unlabeled)
    weight = np.ones(total) if weight is None else weight
    return weight.copy(), weight.copy()


def _lesson(teachers: Sequence[NetworkRatio], split: Split) -> tuple[FloatArray, FloatArray]:
    """What labelled and unlabeled rows weigh as positives."""
    scores = _mean_ratio(teachers, split.train.unlabeled)
    if split.held is None or n_rows(split.held.positive) < ENOUGH:  # the ratios as they are
        ratio = np.exp(scores)
        ceiling = float(ratio.max())
    else:
        tails = ScoreTails(_mean_ratio(teachers, split.held.positive), split.held.positive_weight)
        tails.update(_mean_ratio(teachers, split.held.unlabeled), split.held.unlabeled_weight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DRPUWarning)  # said again where the prior is used
            prior = tails.estimate().value
            ratio = calibrate(tails, prior)(scores)
        ceiling = 1 / max(prior, 1 / n_rows(split.held.unlabeled))
    return np.full(n_rows(split.train.positive), ceiling), np.clip(ratio, LEAST, ceiling)


def _mean_ratio(models: Sequence[NetworkRatio], rows: Rows) -> FloatArray:
    """Log of the mean of the models' ratios."""
    scores = np.logaddexp.reduce([model.log_ratio(rows) for model in models])
    return np.asarray(scores - np.log(len(models)))
