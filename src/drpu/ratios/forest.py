"""Density ratios from a forest of random trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import check_random_state

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair
from drpu._schema import Integer, Number, Optional, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray
from drpu.functions.trees import Trees, category_columns, category_settings, own_trees, pair_rows, read_trees
from drpu.ratios.tree_model import Converter, TreeRatio

__all__ = ["ForestRatio"]


class ForestRatio(TreeRatio, kind="forest"):
    """Odds of positive against unlabeled rows, averaged over trees with random splits (LightGBM).

    Parameters
    ----------
    n_trees : int, default=150
        Number of trees.
    min_leaf : int, optional
        Minimum number of rows of a leaf: by default 2, or 1/500 of the rows if that is more.
    most_leaves : int, optional
        Maximum number of leaves of a tree; the default is no limit besides ``min_leaf``.
    categories : sequence of int, default=()
        Positions of the columns with category codes, as in :class:`drpu.BoostedRatio`.
    most_rows : int, optional
        Maximum number of rows of either sample; of more, a random sample is used. The default is all rows.
    n_jobs : int, default=1
        Threads; -1 is one for each core.
    random_state : int, RandomState or None, default=None
        Seed.

    Notes
    -----
    The prediction of a leaf is its share of positives, and predictions are averaged over the trees. A mean
    of 0 or 1 is moved inwards by 1/4 of the weight of one tree, so that odds are finite.
    """

    schema = Schema(
        "ForestRatio",
        config={
            "n_trees": Integer(1),
            "min_leaf": Optional(Integer(1)),
            "offset": Number(-1e6, 1e6),
            "columns": Integer(1),
        },
        blobs=("trees",),
    )
    averaged: ClassVar[bool] = True
    accepts_nan: ClassVar[bool] = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories: ClassVar[bool] = True

    def __init__(
        self,
        n_trees: int = 150,
        *,
        min_leaf: int | None = None,
        most_leaves: int | None = None,
        categories: Sequence[int] = (),
        most_rows: int | None = None,
        n_jobs: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_trees = n_trees
        self.min_leaf = min_leaf
        self.most_leaves = most_leaves
        self.categories = categories
        self.most_rows = most_rows
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        import lightgbm

        check_integer("n_trees", self.n_trees, low=1)
        for name, low in (("min_leaf", 1), ("most_leaves", 2), ("most_rows", 1)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)
        settings = self._settings(len(pair), self.n_features_in_) | category_settings(self.categories)
        if self.most_rows is not None:
            rng = np.random.default_rng(settings["seed"])
            samples = (pair.positive, pair.unlabeled)
            pair = SamplePair(*(sample.at_most(self.most_rows, rng) for sample in samples))
            settings |= self._settings(len(pair), self.n_features_in_)
        data = lightgbm.Dataset(
            pair_rows(pair),
            pair.flags(),
            weight=pair.unit_weights(),
            params=settings,
            categorical_feature=category_columns(self.categories, self.n_features_in_),
        )
        # keep the booster, because LightGBM would write and read it again to free its rows
        grown = lightgbm.train(settings, data, self.n_trees, keep_training_booster=True)
        self.trees_ = grown.model_to_string()
        self.booster_ = own_trees(self.trees_)
        self.n_trees_ = self.booster_.current_iteration()
        self.offset_ = pair.log_odds()

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

    @classmethod
    def converter(cls, models: Sequence[Any]) -> Converter:  # noqa: D102
        least = np.array([0.25 / model.n_trees_ for model in models])
        offsets, most = np.array([model.offset_ for model in models]), 1 - least

        def log_ratios(shares: FloatArray) -> FloatArray:
            shares = np.minimum(np.maximum(shares, least), most)
            return np.asarray(np.log(shares / (1 - shares)) - offsets)

        return log_ratios

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        from drpu.functions.onnx import forest_scores

        return forest_scores(graph, self, X)

    def state(self) -> ModelState:
        """The trees in LightGBM's text format, and the odds of the two samples."""
        config = {
            "n_trees": self.n_trees,
            "min_leaf": self.min_leaf,
            "offset": self.offset_,
            "columns": self.n_features_in_,
        }
        trees = Trees.from_text(self.trees_, columns=self.n_features_in_, averaged=True)
        return ModelState(self.kind, config, blobs={"trees": trees.text().encode()})

    @classmethod
    def check_state(cls, state: ModelState) -> None:
        """Raise unless the trees of ``state`` are valid."""
        read_trees(state.blobs["trees"], columns=state.config["columns"], averaged=True)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state."""
        model = cls(int(state.config["n_trees"]), min_leaf=state.config["min_leaf"])
        model.offset_ = check_real("offset", state.config["offset"], low=-1e6, high=1e6)
        model.n_features_in_ = check_integer("columns", state.config["columns"], low=1)
        trees = read_trees(state.blobs["trees"], columns=model.n_features_in_, averaged=True)
        model.trees_, model.booster_ = trees.text(), trees.booster()
        model.n_trees_ = model.booster_.current_iteration()
        return model
