"""Density ratios from a forest of random trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from drpu._checks import check_integer, check_random_state
from drpu._codec import kept
from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.models.graphs import Graph
from drpu.models.learner import RatioLearner
from drpu.models.trees import (
    TreeFunction,
    Trees,
    category_columns,
    category_settings,
    onnx_tree_sum,
    tree_data,
    tree_threads,
)


@kept("forest")
@dataclass(frozen=True, eq=False)
class ForestFunction(TreeFunction):
    """Log-odds of the mean of a forest, minus the offset; a mean of 0 or 1 is moved inwards."""

    def describe(self) -> str:
        """The number of trees."""
        return f"a forest of {len(self.trees)} trees"

    def convert(self, output: FloatArray) -> FloatArray:
        """Log-ratios from means of the trees."""
        least = 0.25 / len(self.trees)
        shares = np.minimum(np.maximum(output, least), 1 - least)
        return np.asarray(np.log(shares / (1 - shares)) - self.offset)

    def onnx(self, graph: Graph, X: str) -> str:  # noqa: D102
        op = graph.op
        n_trees = len(self.trees)
        least = 0.25 / n_trees
        share = op("Div", onnx_tree_sum(graph, self.trees, X), float(n_trees))
        share = op("Min", op("Max", share, [[least]]), [[1 - least]])
        odds = op("Div", share, op("Sub", 1.0, share))
        return op("Sub", op("Log", odds), self.offset)


@dataclass(eq=False, repr=False)
class ForestRatio(RatioLearner):
    """Odds of positive against unlabeled rows, averaged over trees with random splits (LightGBM).

    The prediction of a leaf is its share of positives, and predictions are averaged over the trees.
    A mean of 0 or 1 is moved inwards by 1/4 of the weight of one tree, so that odds are finite.
    """

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True

    n_trees: int = 150
    _: KW_ONLY
    min_leaf: int | None = None  # rows of a leaf: by default 2, or 1/500 of the rows if it is more
    most_leaves: int | None = None
    categories: Sequence[int] = ()  # positions of the columns with category codes
    most_rows: int | None = None  # of either sample; of more, a random sample is used
    n_jobs: int = 1
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> ForestFunction:
        """The density ratio of checked samples."""
        import lightgbm

        self._check_parameters()
        columns = pair.positive.rows.shape[1]
        settings = self._settings(len(pair), columns) | category_settings(self.categories)
        if self.most_rows is not None:
            rng = np.random.default_rng(settings["seed"])
            positive = pair.positive.at_most(self.most_rows, rng)
            unlabeled = pair.unlabeled.at_most(self.most_rows, rng)
            pair = SamplePair(positive, unlabeled)
            settings |= self._settings(len(pair), columns)
        data = tree_data(pair, settings, category_columns(self.categories, columns))
        # The booster is kept, because LightGBM would write and read it again to free its rows.
        grown = lightgbm.train(settings, data, self.n_trees, keep_training_booster=True)
        trees = Trees.from_lightgbm(grown.model_to_string(), columns, averaged=True)
        return ForestFunction(trees, pair.log_odds(), n_jobs=self.n_jobs)

    def _check_parameters(self) -> None:
        check_integer("n_trees", self.n_trees, low=1)
        for name, low in (("min_leaf", 1), ("most_leaves", 2), ("most_rows", 1)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)

    def _settings(self, rows: int, columns: int) -> dict[str, Any]:
        columns_at_node = max(np.sqrt(columns), min(columns, 5))  # that a split chooses from
        columns_in_tree = min(columns, max(4 * columns_at_node, 16))
        min_leaf = self.min_leaf or max(2, rows // 500)
        leaves = max(8, rows // min_leaf)
        if self.most_leaves is not None:
            leaves = min(leaves, self.most_leaves)
        return {
            "objective": "regression",  # a leaf predicts the mean of the flags
            "boosting": "rf",
            "extra_trees": True,
            "bagging_freq": 1,
            "bagging_fraction": 0.632,  # as many distinct rows as a bootstrap sample has
            "feature_fraction": columns_in_tree / columns,
            "feature_fraction_bynode": min(1.0, columns_at_node / columns_in_tree),
            "num_leaves": leaves,
            "min_data_in_leaf": min_leaf,
            "min_sum_hessian_in_leaf": 1e-3,  # with 0, LightGBM may choose an empty leaf and stop
            "max_bin": 31,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "seed": int(check_random_state(self.random_state).randint(2**31 - 1)),
            "num_threads": tree_threads(self.n_jobs),
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
