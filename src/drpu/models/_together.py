"""Trees of several models in one LightGBM object, for batches of a few rows.

A call of LightGBM takes longer than scoring a row with all trees of a model. For a few rows the trees of
all models are therefore evaluated in one call, as the trees of one model with several outputs. LightGBM
sums each output in the order of its trees, so a row has the same score, bit for bit, in a batch of any
size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drpu._typing import FloatArray, Rows
from drpu.models._trees import EMPTY_TREE, model_text

__all__ = ["FEW_ROWS", "Scorer", "TreesTogether"]

Scorer = Callable[[Rows], FloatArray]  # scores of shape (rows, models)

FEW_ROWS = 32  # up to this number of rows one call for all models is faster than one for each


class TreesTogether:
    """Outputs of the trees of several models.

    Parameters
    ----------
    models : sequence of TreeRatio
        Fitted, with the same columns.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self._models = list(models)
        self._joined: _Joined | None = None  # made when it is first needed

    def outputs(self, X: Rows) -> FloatArray:
        """Sum of the trees of each model, or their mean in forests, (rows, models)."""
        if not isinstance(X, np.ndarray) or len(X) > FEW_ROWS:
            return np.column_stack([model.tree_output(X) for model in self._models])
        if self._joined is None:  # two threads may both make one; both are correct
            self._joined = _Joined(self._models)
        return self._joined.outputs(X)


class _Joined:
    """The trees of all models as one LightGBM object with an output for each model."""

    def __init__(self, models: list[Any]) -> None:
        import lightgbm

        parts = [_trees(model.trees_) for model in models]
        rounds = max(len(part) for part in parts)
        parts = [part + [EMPTY_TREE] * (rounds - len(part)) for part in parts]
        trees = [tree for one_of_each in zip(*parts, strict=True) for tree in one_of_each]
        text = model_text(trees, models[0].n_features_in_, averaged=False, outputs=len(models))
        self._booster = lightgbm.Booster(model_str=text)
        self._divisors = np.array([model.n_trees_ if model.averaged else 1 for model in models])

    def outputs(self, X: FloatArray) -> FloatArray:
        sums = np.asarray(self._booster.predict(X, raw_score=True, num_threads=1), dtype=np.float64)
        return np.asarray(sums.reshape(len(X), -1) / self._divisors)


def _trees(text: str) -> list[str]:
    """The lines of each tree in LightGBM's text, without its number."""
    body = text.partition("\nend of trees")[0]
    return [tree.partition("\n")[2].rstrip() for tree in body.split("\nTree=")[1:]]
