"""Strategies of the flavour ``ours``: which networks a trial trains, and which one is its model.

A strategy trains several networks first. It keeps the best one, or uses them as teachers of a student.
The student is trained on all unlabeled rows, weighted as positives by the ratio of the teachers, in place
of the few labelled rows: see :func:`paper.teaching.teaching_weights`. It has the same architecture
and the same rows as its teachers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from drpu import NetworkRatio, ScoreTails
from drpu.networks.function import NetworkFunction
from paper.configs import RUN, parted
from paper.evaluate import Floats
from paper.networks import make_network
from paper.splits import Images, Split
from paper.stacks import Places, Watch, fit_many
from paper.teaching import mean_log_ratio, teaching_weights

__all__ = ["ALPHAS", "STRATEGIES", "Strategy", "TrialGroup"]

ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # strengths of the correction of the first networks
SEEDS = 100  # more than the networks of a trial, so that no two of them have the same seed


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a trial goes from settings to one network.

    Attributes
    ----------
    rates : tuple of float
        Learning rates of the first networks, each with every strength of the correction.
    teacher : {None, "best", "mean"}
        None: the first network with the lowest holdout risk is the model. "best": that network is the
        teacher of a student. "mean": the mean ratio of all first networks is the teacher.
    weights : {"ratio", "calibrated"}
        Weights of the unlabeled rows as positives when a student is trained: the ratio itself, or the
        ratio calibrated on holdout rows, with labelled rows at its upper bound.
    """

    rates: tuple[float, ...]
    teacher: str | None = None
    weights: str = "ratio"

    def teachers(self, first: dict[float, list[NetworkFunction]]) -> list[NetworkFunction]:
        """The networks whose mean ratio is the model or the teacher."""
        models = [model for rate in self.rates for model in first[rate]]
        return (
            models if self.teacher == "mean" else [min(models, key=lambda model: model.holdout_risk or 0.0)]
        )


ONE, TWO = (2e-3,), (1e-3, 3e-3)
STRATEGIES = {
    "one rate": Strategy(ONE),
    "two rates": Strategy(TWO),
    "student of the best": Strategy(ONE, "best", "calibrated"),
    "student of the mean": Strategy(ONE, "mean", "calibrated"),
    "student of the mean, by plain ratios": Strategy(ONE, "mean", "ratio"),
    "student of the mean of two rates": Strategy(TWO, "mean", "calibrated"),
}


class TrialGroup:
    """Trials of one data set that are trained together: their rows, and networks on them."""

    def __init__(
        self,
        network: Any,
        images: Images,
        splits: Sequence[Split],
        seeds: Sequence[int],
        options: dict[str, Any],
    ) -> None:
        self.network, self.images, self.splits = network, images, splits
        self.seeds, self.options = seeds, options
        self.held = [(images.train[s.positive[1]], images.train[s.unlabeled[1]]) for s in splits]
        self._known: dict[int, list[Floats]] = {}

    def first(self, rates: Sequence[float]) -> list[dict[float, list[NetworkFunction]]]:
        """For each trial its networks by learning rate, one for each strength of the correction."""
        lines = [(i, rate, alpha) for i in range(len(self.splits)) for rate in rates for alpha in ALPHAS]
        changes = [
            {"learning_rate": rate, "alpha": alpha, "random_state": SEEDS * self.seeds[i] + j}
            for i in range(len(self.splits))
            for j, (rate, alpha) in enumerate(product(rates, ALPHAS), 1)
        ]
        own = [Places.of(part) for part in self.splits]
        models = self._fit([i for i, *_ in lines], changes, [own[i] for i, *_ in lines])
        found: list[dict[float, list[NetworkFunction]]] = [{rate: [] for rate in rates} for _ in self.splits]
        for (i, rate, _), model in zip(lines, models, strict=True):
            found[i][rate].append(model)
        return found

    def students(
        self,
        trials: Sequence[int],
        teachers: Sequence[Sequence[NetworkFunction]],
        weights: Sequence[str],
        on_epoch: Watch | None = None,
    ) -> list[NetworkFunction]:
        """One student for each trial in the list, trained on the mean ratio of its teachers."""
        taught = []
        for i, own, how in zip(trials, teachers, weights, strict=True):
            place = Places.of(self.splits[i])
            weight = self.row_weights(i, own, how)[place.unlabeled]
            taught.append(replace(place, positive=place.unlabeled, weight=weight))
        # alpha is 0: the weights are on the unlabeled rows, so the risk is bounded without a correction
        return self._fit(trials, [{"alpha": 0.0}] * len(taught), taught, on_epoch)

    def row_weights(self, i: int, teachers: Sequence[NetworkFunction], weights: str) -> Floats:
        """The weight of every training row as a positive, from the ratio of the teachers."""
        part, n = self.splits[i], len(self.images.train)
        rows = part.unlabeled[0]
        positive, unlabeled, scores = self._mean_ratio(i, teachers)
        calibrated = weights == "calibrated"
        tails = ScoreTails(positive).update(unlabeled) if calibrated else None
        weight, ceiling = teaching_weights(scores, tails)
        if calibrated:
            weight = np.where(np.isin(rows, part.positive[0]), ceiling, weight)
        found = np.zeros(n)
        found[rows] = weight
        return found

    def _mean_ratio(self, i: int, models: Sequence[NetworkFunction]) -> list[Floats]:
        """Log of the models' mean ratio, for the holdout positives, holdout unlabeled and unlabeled rows."""
        new = [model for model in models if id(model) not in self._known]
        if new:
            parts = (*self.held[i], self.images.train[self.splits[i].unlabeled[0]])
            self._known |= {id(model): [model.log_ratio(rows) for rows in parts] for model in new}
        return [mean_log_ratio(each) for each in zip(*(self._known[id(m)] for m in models), strict=True)]

    def _fit(
        self,
        trials: Sequence[int],
        changes: Sequence[dict[str, Any]],
        places: Sequence[Places],
        on_epoch: Watch | None = None,
    ) -> list[NetworkFunction]:
        options, run = parted(self.options, RUN)
        learners = [
            NetworkRatio(
                make_network(self.network), **{"random_state": SEEDS * self.seeds[i]} | options | change
            )
            for i, change in zip(trials, changes, strict=True)
        ]
        return fit_many(learners, self.images.train, places, run=run, on_epoch=on_epoch)
