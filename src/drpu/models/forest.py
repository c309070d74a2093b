"""Density ratios from a forest of random trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from drpu._checks import check_integer, check_random_state
from drpu._samples import SamplePair
from drpu.models.learner import RatioLearner
from drpu.models.trees import ForestFunction, Trees, category_columns, category_settings, tree_data


@dataclass(eq=False, repr=False)
class ForestRatio(RatioLearner):
    """Odds of positive against unlabeled rows, averaged over trees with random splits (LightGBM).

    The prediction of a leaf is its share of positives, and predictions are averaged over the trees. A mean
    of 0 or 1 is moved inwards by 1/4 of the weight of one tree, so that odds are finite.
    """

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True

    n_trees: int = 150
    _: KW_ONLY
    min_leaf: int | None = None  # rows of a leaf: by default 2, or 1/500 of the rows if that is more
    most_leaves: int | None = None
    categories: Sequence[int] = ()  # positions of the columns with category codes
    most_rows: int | None = None  # of either sample; of more, a random sample is used
    n_jobs: int = 1
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> ForestFunction:  # noqa: D102
        import lightgbm

        check_integer("n_trees", self.n_trees, low=1)
        for name, low in (("min_leaf", 1), ("most_leaves", 2), ("most_rows", 1)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)
        columns = pair.positive.rows.shape[1]
        settings = self._settings(len(pair), columns) | category_settings(self.categories)
        if self.most_rows is not None:
            rng = np.random.default_rng(settings["seed"])
            samples = (pair.positive, pair.unlabeled)
            pair = SamplePair(*(sample.at_most(self.most_rows, rng) for sample in samples))
            settings |= self._settings(len(pair), columns)
        data = tree_data(pair, settings, category_columns(self.categories, columns))
        # keep the booster, because LightGBM would write and read it again to free its rows
        grown = lightgbm.train(settings, data, self.n_trees, keep_training_booster=True)
        trees = Trees.from_lightgbm(grown.model_to_string(), columns, averaged=True)
        return ForestFunction(trees, pair.log_odds(), n_jobs=self.n_jobs)

    def _settings(self, rows: int, columns: int) -> dict[str, Any]:
        at_node = max(np.sqrt(columns), min(columns, 5))  # number of columns that a split chooses from
        in_tree = min(columns, max(4 * at_node, 16))  # number of columns of a tree
        leaf = self.min_leaf or max(2, rows // 500)
        leaves = max(8, rows // leaf)
        return {
            "objective": "regression",  # a leaf predicts the mean of the flags
            "boosting": "rf",
            "extra_trees": True,
            "bagging_freq": 1,
            "bagging_fraction": 0.632,  # as many distinct rows as a bootstrap sample has
            "feature_fraction": in_tree / columns,
            "feature_fraction_bynode": min(1.0, at_node / in_tree),
            "num_leaves": leaves if self.most_leaves is None else min(leaves, self.most_leaves),
            "min_data_in_leaf": leaf,
            "min_sum_hessian_in_leaf": 1e-3,  # with 0, LightGBM may choose an empty leaf and stop
            "max_bin": 31,
            "min_data_in_bin": 1,
            "feature_pre_filter": False,
            "seed": int(check_random_state(self.random_state).randint(2**31 - 1)),
            "num_threads": 0 if self.n_jobs == -1 else self.n_jobs,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
