"""Common base of models that score rows with LightGBM trees."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from drpu._fork import threads_here
from drpu._samples import is_sparse
from drpu._typing import FloatArray, Rows
from drpu.functions.trees import Scorer, TreesTogether, tree_rows
from drpu.ratios.base import RatioModel, within_limits

__all__ = ["Converter", "TreeRatio"]

Converter = Callable[[FloatArray], FloatArray]
_MANY_ROWS = 2000  # LightGBM's threads wait for each other longer than they score fewer rows
_TINY = 1e-7  # a smaller change of the output has the slope of a change of this size


class TreeRatio(RatioModel):
    """A ratio that is a function of the output of LightGBM trees."""

    averaged: ClassVar[bool]  # whether the output is the mean of the trees, or their sum

    trees_: str
    booster_: Any
    offset_: float
    n_jobs: int

    def tree_output(self, X: Rows) -> FloatArray:
        """Sum or mean of the trees for each row."""
        output = self.booster_.predict(
            tree_rows(X), raw_score=not self.averaged, num_threads=self._threads(X)
        )
        return np.asarray(output, dtype=np.float64)

    def _threads(self, X: Rows) -> int:
        if X.shape[0] < _MANY_ROWS:
            return 1
        return threads_here(0 if self.n_jobs == -1 else self.n_jobs)

    @classmethod
    @abstractmethod
    def converter(cls, models: Sequence[Any]) -> Converter:
        """A function from outputs of shape (rows, models) to log-ratios of the same shape."""

    def _log_ratio(self, X: Rows) -> FloatArray:
        return np.ravel(self.converter([self])(self.tree_output(X)[:, None]))

    def contributions(self, X: Rows) -> FloatArray:
        """LightGBM's contributions of the columns, scaled to the log-ratio; the last is the base value.

        They add up to the output of the trees. If the log-ratio is not a sum of that output and a constant,
        the contributions of a row are multiplied by the change of the log-ratio from the average row
        to this one, relative to the change of the output: then they add up to the log-ratio.
        """
        found = self.booster_.predict(tree_rows(X), pred_contrib=True, num_threads=self._threads(X))
        found = np.array(found.toarray() if is_sparse(found) else found, dtype=np.float64)
        if self.averaged:  # LightGBM returns the sum over the trees of a forest as well
            found /= self.booster_.current_iteration()
        convert = self.converter([self])
        base, rise = found[:, -1:], found[:, :-1].sum(axis=1, keepdims=True)
        start = convert(base)
        step = np.where(np.abs(rise) > _TINY, rise, _TINY)
        slope = (convert(base + step) - start) / step
        return np.column_stack([found[:, :-1] * slope, start])

    @classmethod
    def together(cls, models: Sequence[Any]) -> Scorer | None:  # noqa: D102
        trees, convert = TreesTogether(models), cls.converter(models)
        return lambda X: within_limits(convert(trees.outputs(X)))
