"""Scores of several default models, computed together: one call for all trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._samples import n_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.functions.trees import Scorer, TreesTogether
from drpu.ratios.auto import AutoRatio, has_gaps, warn_of_gaps
from drpu.ratios.base import RatioModel, within_limits
from drpu.ratios.boosted import BoostedRatio
from drpu.ratios.forest import ForestRatio
from drpu.ratios.tree_model import TreeRatio

__all__ = ["auto_together"]


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of one of the models, and its weight there."""

    fold: int
    weight: float
    model: Any
    of: AutoRatio


@dataclass(frozen=True, slots=True)
class _Group:
    """Members of different models that are scored together."""

    members: list[_Member]
    folds: IntArray | slice
    weights: FloatArray

    @classmethod
    def of(cls, members: list[_Member], models: int) -> _Group:
        folds = np.array([member.fold for member in members])
        everywhere = np.array_equal(folds, np.arange(models))
        return cls(members, slice(None) if everywhere else folds, np.array([m.weight for m in members]))

    @property
    def models(self) -> list[Any]:
        return [member.model for member in self.members]

    def add(self, total: FloatArray, log_ratios: FloatArray) -> None:
        """Add the members' weighted scores to those of their models."""
        total[:, self.folds] += self.weights * within_limits(log_ratios)


def auto_together(models: Sequence[AutoRatio]) -> Scorer | None:
    """The scores of the models, or None if their members are not those of the default."""
    members = [
        [_Member(fold, float(w), m, model) for w, m in zip(model.weights_, model.members_, strict=True)]
        for fold, model in enumerate(models)
    ]
    # groups are added in this order, which has to be that of the members of each model
    ranks = [[_rank(member.model) for member in part] for part in members]
    if any(rank != sorted(set(rank)) for rank in ranks):
        return None
    return _AutoScores(list(models), [member for part in members for member in part])


def _rank(model: RatioModel) -> int:
    return (ForestRatio, BoostedRatio).index(type(model)) if isinstance(model, TreeRatio) else 2


class _AutoScores:
    """The sum over the members of each model, in the order in which the model itself adds them."""

    def __init__(self, models: list[AutoRatio], members: list[_Member]) -> None:
        n = len(models)
        self._models = models
        self._constants = np.array([model.constant_ for model in models])
        self._trees = [
            _Group.of(found, n)
            for kind in (ForestRatio, BoostedRatio)
            if (found := [member for member in members if type(member.model) is kind])
        ]
        self._converters = [type(group.models[0]).converter(group.models) for group in self._trees]
        of_trees = [model for group in self._trees for model in group.models]
        self._together = TreesTogether(of_trees) if of_trees else None
        smooth = [member for member in members if not isinstance(member.model, TreeRatio)]
        self._smooth = [_Group.of([member], n) for member in smooth]

    def __call__(self, X: Rows) -> FloatArray:
        gaps = has_gaps(X)
        if gaps and not all(model.saw_gaps_ for model in self._models):
            warn_of_gaps()
        total = np.empty((n_rows(X), len(self._models)))
        total[:] = self._constants
        for group, scores in self._scored(X, gaps):
            group.add(total, scores)
        return within_limits(total)

    def _scored(self, X: Rows, gaps: bool) -> Iterator[tuple[_Group, FloatArray]]:
        start = 0
        outputs = None if self._together is None else self._together.outputs(X)
        for group, convert in zip(self._trees, self._converters, strict=True):
            assert outputs is not None
            end = start + len(group.members)
            # contiguous, because the logarithm of a strided array may differ in its last bits
            yield group, convert(np.ascontiguousarray(outputs[:, start:end]))
            start = end
        for group in self._smooth:
            (member,) = group.members
            yield group, member.model.score_checked(member.of.filled(X, member.model, gaps))[:, None]
