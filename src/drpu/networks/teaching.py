"""Networks trained in rounds: the ratio of one round weights the unlabeled rows of the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._checks import check_integer
from drpu._optional import progress
from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails
from drpu.core.teaching import mean_log_ratio, teaching_weights
from drpu.networks.learner import NetworkRatio
from drpu.networks.many import fit_many
from drpu.ratios.splits import TrainAndHeld, hold_out

__all__ = ["fit_in_rounds"]

ENOUGH = 25  # with fewer held-out positives a calibration would be too noisy
TEACHER_ALPHAS = (0.3, 0.45, 0.15, 0.6, 0.05)  # values for the teachers in turn, with alpha="auto"
STACKED = 3_000_000  # most network weights that are trained at a time


def fit_in_rounds(model: NetworkRatio, pair: SamplePair, holdout: SamplePair | None) -> NetworkRatio:
    """Train teachers and rounds of students with the options of ``model``, and return the fitted student.

    The mean ratio of the teachers, calibrated on rows kept out, gives each unlabeled row its weight
    as a positive, see :func:`drpu.core.teaching.teaching_weights`; labelled rows get
    the largest weight. Students are trained with these weights, and each further round uses the
    students before it as teachers. Only the scores of a network are kept once its round is over.
    """
    rounds = check_integer("rounds", model.rounds, low=1)
    students = check_integer("students", model.students, low=1)
    rng = check_random_state(model.random_state)
    seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=model.teachers + rounds * students + 1)]
    split = hold_out(pair, holdout, model.holdout, np.random.default_rng(seeds.pop(0)))
    bar = iter(progress(range(len(seeds)), total=len(seeds), label="networks", show=model.verbose > 0))
    trial = _Rounds(model, split, bar)
    scores = trial.score(trial.teach(seeds[: model.teachers]))
    for number in range(rounds):
        first = model.teachers + number * students
        fitted = trial.learn(seeds[first : first + students], scores)
        if number + 1 == rounds:
            networks = list(fitted)
        else:
            scores = trial.score(fitted)
    next(bar, None)  # so that the progress bar ends at 100 %
    return _joined(networks)


class _Rounds:
    """The rows of all rounds, and networks trained on them, a few at a time."""

    def __init__(self, model: NetworkRatio, split: TrainAndHeld, bar: Iterator[int]) -> None:
        self.model, self.split, self.bar = model, split, bar
        held = split.held
        self.held = None if held is None else (held.positive.rows, held.unlabeled.rows)
        # all rows in one array that both samples are parts of: it is copied to the device once
        self.rows = split.train.stacked()

    def teach(self, seeds: Sequence[int]) -> Iterator[NetworkRatio]:
        """Networks that learn from the labelled rows."""
        auto = isinstance(self.model.alpha, str)
        alphas = TEACHER_ALPHAS if auto else (self.model.alpha,)
        changes = [{"alpha": alphas[i % len(alphas)], "random_state": seed} for i, seed in enumerate(seeds)]
        n = len(self.split.train.positive)
        first = np.arange(len(self.split.train)) < n
        weight = self._weight()
        yield from self._fit(changes, np.where(first, weight, 0), np.where(first, 0, weight))

    def learn(self, seeds: Sequence[int], scores: Sequence[FloatArray]) -> Iterator[NetworkRatio]:
        """Networks that learn from all rows, weighted by the scores of others."""
        n = len(self.split.train.positive)
        weight = self._weight()
        changes = [{"alpha": 0.0, "random_state": seed} for seed in seeds]
        as_positive = weight * np.concatenate(student_weights(self.split, *scores))
        as_unlabeled = np.where(np.arange(len(weight)) < n, 0, weight)
        yield from self._fit(changes, as_positive, as_unlabeled, same_rows=True)

    def score(self, networks: Iterator[NetworkRatio]) -> list[FloatArray]:
        """Log of the mean ratio of networks, for the unlabeled rows and for both kinds of held-out rows."""
        parts = [self.split.train.unlabeled.rows, *(self.held or ())]
        found = [[network.score_at_dtype(rows) for rows in parts] for network in networks]
        return [mean_log_ratio(each) for each in zip(*found, strict=True)]

    def _fit(
        self,
        changes: Sequence[dict[str, Any]],
        positive_weight: FloatArray,
        unlabeled_weight: FloatArray,
        *,
        same_rows: bool = False,
    ) -> Iterator[NetworkRatio]:
        """Fitted networks, one after the other; :func:`_at_once` says how many are trained together."""
        plain = {"teachers": 0, "rounds": 1, "students": 1, "verbose": 0}
        plain |= {} if same_rows else {"mixup": False}
        waiting = [clone(self.model).set_params(**plain | change) for change in changes]
        at_once = 1
        while waiting:
            group, waiting = waiting[:at_once], waiting[at_once:]
            for network in fit_many(
                group,
                self.rows,
                self.rows,
                holdout=self.held,
                positive_weight=positive_weight,
                unlabeled_weight=unlabeled_weight,
                same_rows=same_rows,
            ):
                next(self.bar, None)
                at_once = _at_once(network)
                yield network

    def _weight(self) -> FloatArray:
        weight = self.split.train.weights()
        return np.ones(len(self.split.train)) if weight is None else weight


def student_weights(
    split: TrainAndHeld,
    scores: FloatArray,
    held_positive: FloatArray | None = None,
    held_unlabeled: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights of the labelled and of the unlabeled training rows as positives, from the teachers' scores."""
    tails, held = None, split.held
    if held is not None and held_positive is not None and len(held_positive) >= ENOUGH:
        tails = ScoreTails(held_positive, held.positive.weight)
        tails.update(held_unlabeled, held.unlabeled.weight)
    weights, ceiling = teaching_weights(scores, tails)
    return np.full(len(split.train.positive), ceiling), weights


def _at_once(network: NetworkRatio) -> int:
    """How many networks of this size to train at a time."""
    return max(1, STACKED // sum(weight.numel() for weight in network.module_.parameters()))


def _joined(networks: Sequence[NetworkRatio]) -> NetworkRatio:
    """One model whose output is the mean output of all."""
    first = networks[0]
    if len(networks) > 1:
        from drpu.networks.modules import Ensemble

        first.module_ = Ensemble([network.module_ for network in networks]).eval()
    return first
