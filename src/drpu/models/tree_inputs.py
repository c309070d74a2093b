"""Rows, categories and trees in the form that LightGBM accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from drpu._checks import check_integer
from drpu._samples import SamplePair, is_sparse
from drpu._typing import Rows
from drpu.exceptions import ParameterError

__all__ = ["category_columns", "category_settings", "own_trees", "pair_rows", "tree_rows"]


def tree_rows(X: Rows) -> Rows:
    """Rows in the form that LightGBM accepts: sparse matrices, not sparse arrays."""
    return sparse.csr_matrix(X) if is_sparse(X) else X


def own_trees(trees: str) -> Any:
    """A LightGBM booster from a text written in this process; texts from files have to be checked first."""
    import lightgbm

    return lightgbm.Booster(model_str=trees)


def pair_rows(pair: SamplePair) -> Any:
    """Rows of both samples in the form that LightGBM accepts; dense rows as two blocks, to avoid a copy."""
    if is_sparse(pair.positive.rows) or is_sparse(pair.unlabeled.rows):
        return tree_rows(pair.stacked())
    return [np.ascontiguousarray(sample.rows) for sample in (pair.positive, pair.unlabeled)]


def category_columns(categories: Sequence[int], columns: int) -> Any:
    """Positions of category codes, in the form that a LightGBM data set accepts."""
    for j in categories:
        if check_integer("categories", j, low=0) >= columns:
            raise ParameterError(f"categories must be positions of columns below {columns}, got {j!r}.")
    return [int(j) for j in categories] or "auto"


def category_settings(categories: Sequence[int]) -> dict[str, Any]:
    """Settings of splits on categories: one level against the others, as for an indicator column.

    Choosing among the very many sets of levels would overfit few positives.
    """
    return {"max_cat_to_onehot": 300} if len(categories) else {}
