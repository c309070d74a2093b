"""A network taught by others: unlabeled rows weighted by a ratio take the place of positives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._samples import SamplePair
from drpu._typing import FloatArray, Rows
from drpu.core.tails import ScoreTails
from drpu.core.teaching import mean_log_ratio, teaching_weights
from drpu.models._holdout import Split, carve
from drpu.models.many import fit_many
from drpu.models.network import NetworkRatio

__all__ = ["fit_taught"]

ENOUGH = 25  # held-out positives below which a calibration says more of them than of the teachers


def fit_taught(model: NetworkRatio, pair: SamplePair, holdout: SamplePair | None) -> NetworkRatio:
    """A pupil with the options of ``model``, of as many teachers as it asks for.

    The teachers' mean ratio, calibrated on rows kept out, weighs the unlabeled rows, see
    :func:`drpu.core.teaching.teaching_weights`; labelled rows get the largest weight.
    """
    from drpu.models._training.tasks import ALPHAS

    rng = check_random_state(model.random_state)
    seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=model.teachers + 2)]
    split = carve(pair, holdout, model.holdout, np.random.default_rng(seeds[0]))
    kept = None if split.held is None else (split.held.positive.rows, split.held.unlabeled.rows)
    alphas = ALPHAS if isinstance(model.alpha, str) else (model.alpha,)
    teachers = [
        clone(model).set_params(teachers=0, alpha=alphas[i % len(alphas)], random_state=seeds[i + 2])
        for i in range(model.teachers)
    ]
    train = split.train
    fit_many(
        teachers,
        train.positive.rows,
        train.unlabeled.rows,
        holdout=kept,
        positive_weight=train.positive.weight,
        unlabeled_weight=train.unlabeled.weight,
    )
    pupil: NetworkRatio = clone(model).set_params(teachers=0, alpha=0.0, random_state=seeds[1])
    # all rows in one array that both samples are shares of: they travel to the device once
    rows, n = train.stacked(), len(train.positive)
    as_positive, as_unlabeled = _weights(train)
    as_positive *= np.concatenate(_lesson(teachers, split))
    as_unlabeled[:n] = 0
    fit_many([pupil], rows, rows, holdout=kept, positive_weight=as_positive, unlabeled_weight=as_unlabeled)
    return pupil


def _weights(pair: SamplePair) -> tuple[FloatArray, FloatArray]:
    """Weights of all rows, twice, to be changed."""
    weight = pair.weights()
    weight = np.ones(len(pair)) if weight is None else weight
    return weight.copy(), weight.copy()


def _lesson(teachers: Sequence[NetworkRatio], split: Split) -> tuple[FloatArray, FloatArray]:
    """What labelled and unlabeled rows weigh as positives."""

    def scores(rows: Rows) -> FloatArray:
        return mean_log_ratio([teacher.log_ratio(rows) for teacher in teachers])

    tails, held = None, split.held
    if held is not None and len(held.positive) >= ENOUGH:
        tails = ScoreTails(scores(held.positive.rows), held.positive.weight)
        tails.update(scores(held.unlabeled.rows), held.unlabeled.weight)
    weights, ceiling = teaching_weights(scores(split.train.unlabeled.rows), tails)
    return np.full(len(split.train.positive), ceiling), weights
