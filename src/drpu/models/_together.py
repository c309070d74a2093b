"""Trees of several models in one LightGBM object, for batches of a few rows.

A call of LightGBM costs more than a row in all trees of a model. For a few rows the trees of
all models are therefore asked in one call, for the leaf that each row reaches in each tree.
The values of the leaves are then added in the order in which LightGBM adds them, so that a
row has the same score, bit for bit, in a batch of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drpu._typing import FloatArray, Rows
from drpu.models._trees import model_text

__all__ = ["FEW_ROWS", "Scorer", "TreesTogether"]

Scorer = Callable[[Rows], FloatArray]  # scores of shape (rows, models)

FEW_ROWS = 32  # rows up to which one call for all models is faster than one for each


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
        if self._joined is None:  # two threads may both make one, and either is right
            self._joined = _Joined(self._models)
        return self._joined.outputs(X)


class _Joined:
    """The trees of all models as one LightGBM object, and the values of their leaves."""

    def __init__(self, models: list[Any]) -> None:
        import lightgbm

        parts = [_trees(model.trees_) for model in models]
        sizes = [len(part) for part in parts]
        trees = [tree for part in parts for tree in part]
        self._booster = lightgbm.Booster(
            model_str=model_text(trees, models[0].n_features_in_, averaged=False)
        )
        leaves = [_leaf_values(tree) for tree in trees]
        self._values = np.concatenate([*leaves, [0.0]])  # the last one is added where a model has fewer trees
        self._starts = np.cumsum([0, *map(len, leaves)])
        # position of each tree of each model, (models, most trees); the last position adds nothing
        steps = np.arange(max(sizes))[None, :]
        inside = steps < np.array(sizes)[:, None]
        firsts = np.cumsum([0, *sizes[:-1]])[:, None]
        self._at = np.where(inside, firsts + steps, len(trees))
        self._divisors = np.array(
            [size if model.averaged else 1 for size, model in zip(sizes, models, strict=True)]
        )

    def outputs(self, X: FloatArray) -> FloatArray:
        leaf = np.zeros((len(X), len(self._starts)), dtype=np.int64)
        leaf[:, :-1] = np.asarray(self._booster.predict(X, pred_leaf=True, num_threads=1))
        leaf += self._starts
        # cumsum adds in order, sum would not
        sums = self._values[leaf[:, self._at]].cumsum(axis=2)[:, :, -1]
        return np.asarray(sums / self._divisors)


def _trees(text: str) -> list[str]:
    """The lines of each tree in LightGBM's text, without its number."""
    body = text.partition("\nend of trees")[0]
    return [tree.partition("\n")[2].rstrip() for tree in body.split("\nTree=")[1:]]


def _leaf_values(tree: str) -> FloatArray:
    line = tree.partition("leaf_value=")[2].partition("\n")[0]
    return np.array(line.split(), dtype=np.float64)
