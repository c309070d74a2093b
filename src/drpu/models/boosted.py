"""Density ratios from trees: boosted ones, and a forest of random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray
from drpu._checks import check_fraction, check_integer, check_random_state, check_real
from drpu._codec import Number, kept
from drpu._samples import SamplePair
from drpu.exceptions import ParameterError
from drpu.models.choices import BOOSTED, TreeGrowth
from drpu.models.crossfit import TrainAndHeld, hold_out
from drpu.models.ensembles import TreeFunction
from drpu.models.graphs import Graph
from drpu.models.learner import RatioLearner
from drpu.models.trees import (
    BIN_ROWS,
    MOST_TREES,
    SharedBins,
    Trees,
    category_columns,
    category_settings,
    onnx_tree_sum,
    tree_data,
    tree_threads,
)


@kept("boosted")
@dataclass(frozen=True, eq=False)
class BoostedFunction(TreeFunction):
    """Log-ratio that is the sum of an offset and of trees."""

    holdout_risk: Annotated[float, Number(nan=True)] = np.nan  # NaN without holdout rows

    @property
    def n_rounds(self) -> int:
        """Number of trees, which was given or determined by early stopping."""
        return len(self.trees)

    def describe(self) -> str:
        """The number of trees."""
        return f"{self.n_rounds} boosted trees"

    def convert(self, output: FloatArray) -> FloatArray:
        """Log-ratios from sums of the trees."""
        return output + self.offset

    def onnx(self, graph: Graph, X: str) -> str:
        return graph.op("Add", onnx_tree_sum(graph, self.trees, X), self.offset)


@dataclass(eq=False, repr=False, kw_only=True)
class TreeLearner(RatioLearner):
    """What learners of trees have in common."""

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True

    categories: Sequence[int] = ()  # positions of the columns with category codes
    n_jobs: int = 1
    random_state: Any = None

    # set for fits to parts of the same samples
    bins: SharedBins | None = field(default=None, init=False)

    def _common_settings(self, seed: int) -> dict[str, Any]:
        settings = {
            "feature_pre_filter": False,
            "bin_construct_sample_cnt": BIN_ROWS,
            "data_random_seed": 1,  # that of bins does not depend on the seed
            "seed": seed,
            "num_threads": tree_threads(self.n_jobs),
            "deterministic": True,
            "verbosity": -1,
        }
        return settings | category_settings(self.categories)

    def _data(self, pair: SamplePair, settings: dict[str, Any], reference: Any = None) -> Any:
        if self.bins is not None:
            return self.bins.data(pair, settings)
        columns = category_columns(self.categories, pair.positive.rows.shape[1])
        return tree_data(pair, settings, columns, reference=reference)


@dataclass(eq=False, repr=False)
class BoostedRatio(TreeLearner):
    """Density ratio of boosted trees (LightGBM); rows may be sparse and have missing values.

    The trees separate positive from unlabeled rows by the logistic loss, and the ratio is their
    odds.

    Parameters
    ----------
    n_rounds : int, optional
        Number of trees, by default 150. With early stopping it is the maximum, by default 1000, and
        up to 2000 above 10,000 positives.
    learning_rate : float, optional
        Fraction of each tree that is added: by default 0.06, and 0.05 with early stopping.
    leaves : int, optional
        Maximum number of leaves of a tree, by default 8. With early stopping it is 16, and up to 64
        above 10,000 positives.
    min_leaf : int, optional
        Minimum number of rows of a leaf: by default 10, and less below 200 rows.
    l2 : float, default=20.0
        Added to the Hessian of each leaf, which shrinks its value.
    row_share : float, default=0.7
        Fraction of the rows that each tree is trained on.
    column_share : float, optional
        Fraction of the columns that each tree is trained on: by default 0.5, and 1 with early
        stopping.
    early_stopping : bool or "auto", default="auto"
        Whether the uncorrected risk of holdout rows determines the number of trees. ``auto`` does
        so with at least 200 holdout positives, because with fewer the risk is too noisy.
    holdout : float, default=0.2
        Fraction of the rows that early stopping holds out if ``fit_ratio`` is given no holdout
        rows, at most 20,000 rows of either sample. With up to 20,000 rows, the trees are then
        trained again on all of them.
    categories : sequence of int, default=()
        Positions of the columns with category codes (whole numbers from 0), where a split separates
        one code from the others. Tables with categories set this parameter themselves.
    n_jobs : int, default=1
        Threads; -1 is one for each core.
    random_state : int, RandomState or None, default=None
        Seed.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive, unlabeled = rng.normal(1, 1, (200, 1)), rng.normal(0, 1.4, (1000, 1))
    >>> function = BoostedRatio(random_state=0).fit_ratio(positive, unlabeled)
    >>> low, high = function.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.6 and high > 1.2)
    True
    """

    uses_holdout: ClassVar[bool] = True

    _: KW_ONLY
    n_rounds: int | None = None
    learning_rate: float | None = None
    leaves: int | None = None
    min_leaf: int | None = None
    l2: float = BOOSTED.l2
    row_share: float = 0.7
    column_share: float | None = None
    early_stopping: bool | str = "auto"
    holdout: float = 0.2

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> BoostedFunction:
        """The density ratio of checked samples."""
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        split = TrainAndHeld(pair, None)
        if self._stops_early(pair, holdout):
            rng = np.random.default_rng(seed)
            split = hold_out(pair, holdout, self.holdout, rng, most=BOOSTED.most_held)
        if split.held is None:
            settings = self._settings(BOOSTED.fixed, seed)
            rounds = self.n_rounds or BOOSTED.fixed.rounds
            return self._function(self._grow(pair, settings, rounds), rounds, pair)

        growth = _stopped_growth(len(split.train.positive))
        settings = self._settings(growth, seed)
        most_rounds = self.n_rounds or growth.rounds
        trees, risk = self._grow_until_stopped(split.train, split.held, settings, most_rounds)
        rounds = trees.best_iteration
        if holdout is None and len(pair) <= BOOSTED.few_rows:  # so few rows are all trained on
            trees = self._grow(pair, settings, rounds)
            return self._function(trees, rounds, pair, risk)
        return self._function(trees, rounds, split.train, risk)

    def as_grown(self, function: BoostedFunction, pair: SamplePair, holdout: SamplePair) -> Self:
        """A copy that grows trees like ``function`` on other rows, with all choices fixed.

        The function was fitted to ``pair`` and ``holdout``.
        """
        growth = BOOSTED.fixed
        if self._stops_early(pair, holdout):
            growth = _stopped_growth(len(pair.positive))
        copy: Self = _lazy.clone(self).set_params(
            n_rounds=function.n_rounds,
            learning_rate=self.learning_rate or growth.learning_rate,
            leaves=self.leaves or growth.leaves,
            column_share=self.column_share or growth.column_share,
            early_stopping=False,
        )
        copy.bins = self.bins
        return copy

    def _check_parameters(self) -> None:
        if self.n_rounds is not None:
            check_integer("n_rounds", self.n_rounds, low=1, high=MOST_TREES)
        for name, low in (("min_leaf", 1), ("leaves", 2)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)
        check_real("l2", self.l2, low=0)
        for name in ("row_share", "column_share", "learning_rate"):
            if getattr(self, name) is not None:
                check_real(name, getattr(self, name), low=1e-6, high=1)
        check_fraction("holdout", self.holdout)
        if self.early_stopping not in (True, False, "auto"):
            raise ParameterError(
                f"early_stopping must be True, False or 'auto', got {self.early_stopping!r}."
            )
        if self.n_jobs != -1:
            check_integer("n_jobs", self.n_jobs, low=1)

    def _stops_early(self, pair: SamplePair, holdout: SamplePair | None) -> bool:
        if self.early_stopping != "auto":
            return bool(self.early_stopping)
        if holdout is not None:
            return len(holdout.positive) >= BOOSTED.enough_held
        return bool(self.holdout * len(pair.positive) >= BOOSTED.enough_held)

    def _settings(self, growth: TreeGrowth, seed: int) -> dict[str, Any]:
        column_share = self.column_share or growth.column_share
        return self._common_settings(seed) | {
            "objective": "binary",
            "learning_rate": self.learning_rate or growth.learning_rate,
            "num_leaves": self.leaves or growth.leaves,
            "lambda_l2": self.l2,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1,
            "feature_fraction": column_share,
            "max_bin": 63,
            "metric": "None",
            # Both give the same trees; by rows is faster only if each tree has all columns.
            "force_row_wise": column_share == 1,
            "force_col_wise": column_share != 1,
        }

    def _grow(self, pair: SamplePair, settings: dict[str, Any], rounds: int) -> Any:
        import lightgbm

        settings = settings | self._leaf_settings(pair)
        data = self._data(pair, settings)
        return lightgbm.train(settings, data, rounds, keep_training_booster=True)

    def _grow_until_stopped(
        self, pair: SamplePair, held: SamplePair, settings: dict[str, Any], rounds: int
    ) -> tuple[Any, float]:
        """A booster that stops where the risk of held-out rows is lowest, and this risk."""
        import lightgbm

        settings = settings | self._leaf_settings(pair) | {"metric": "binary_logloss"}
        data = self._data(pair, settings)
        held_data = self._data(held, settings, reference=data).construct()
        _measure_risk(held_data, pair, held)
        trees = lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[held_data],
            callbacks=[lightgbm.early_stopping(BOOSTED.patience, verbose=False)],
            keep_training_booster=True,
        )
        return trees, 2 * float(trees.best_score["valid_0"]["binary_logloss"])

    def _leaf_settings(self, pair: SamplePair) -> dict[str, int]:
        min_leaf = self.min_leaf or max(1, min(BOOSTED.min_leaf, len(pair) // 20))
        return {"min_data_in_leaf": min_leaf}

    def _function(
        self, trees: Any, rounds: int, trained_on: SamplePair, risk: float = np.nan
    ) -> BoostedFunction:
        text = trees.model_to_string(num_iteration=rounds)
        return BoostedFunction(
            Trees.from_lightgbm(text, trained_on.positive.rows.shape[1]),
            -trained_on.log_odds(),
            n_jobs=self.n_jobs,
            holdout_risk=risk,
        )


def _stopped_growth(positives: int) -> TreeGrowth:
    """Settings with early stopping: with more positives, trees are larger and more numerous."""
    factor = float(np.sqrt(max(1.0, positives / BOOSTED.many_positives)))
    rounds = min(round(BOOSTED.stopped.rounds * factor), BOOSTED.most.rounds)
    leaves = min(round(BOOSTED.stopped.leaves * factor), BOOSTED.most.leaves)
    return BOOSTED.stopped._replace(rounds=rounds, leaves=leaves)


def _measure_risk(held_data: Any, pair: SamplePair, held: SamplePair) -> None:
    """Make half of the held-out risk the logistic loss that LightGBM computes after each tree.

    The risk is the mean of log(1 + ratio) over unlabeled rows plus that of log(1 + 1 / ratio) over
    positives: a logistic loss in which both samples have the same weight, of scores without the
    log-odds of the training rows.
    """
    positive = held.positive.weights() / held.positive.total
    unlabeled = held.unlabeled.weights() / held.unlabeled.total
    held_data.set_weight(len(held) / 2 * np.concatenate([positive, unlabeled]))
    held_data.set_init_score(np.full(len(held), -pair.log_odds()))


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

    def onnx(self, graph: Graph, X: str) -> str:
        op = graph.op
        n_trees = len(self.trees)
        least = 0.25 / n_trees
        share = op("Div", onnx_tree_sum(graph, self.trees, X), float(n_trees))
        share = op("Min", op("Max", share, [[least]]), [[1 - least]])
        odds = op("Div", share, op("Sub", 1.0, share))
        return op("Sub", op("Log", odds), self.offset)


ROWS_OF_TREE = 0.632  # as many distinct rows as a bootstrap sample has


@dataclass(eq=False, repr=False)
class ForestRatio(TreeLearner):
    """Odds of positive against unlabeled rows, averaged over trees (LightGBM).

    The prediction of a leaf is its share of positives, and predictions are averaged over the trees.
    A mean of 0 or 1 is moved inwards by 1/4 of the weight of one tree, so that odds are finite.

    Each tree of a ``balanced`` forest gets as many unlabeled rows as positives, and its splits are
    the best ones. Trees of other forests get rows of both samples alike, and split them at random.
    """

    n_trees: int = 150
    _: KW_ONLY
    # Rows of a leaf: by default 3 if balanced; otherwise 2, or 1/500 of the rows if it is more.
    min_leaf: int | None = None
    most_leaves: int | None = None
    most_rows: int | None = None  # of either sample; of more, a random sample is used
    balanced: bool = False

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> ForestFunction:
        """The density ratio of checked samples."""
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        if self.most_rows is not None:
            pair = pair.at_most(self.most_rows, np.random.default_rng(seed))
        columns = int(pair.varied().sum()) or 1
        if self.balanced:
            return self._fit_balanced(pair, columns, seed)
        columns_at_node = max(np.sqrt(columns), min(columns, 5))  # that a split chooses from
        min_leaf = self.min_leaf or max(2, len(pair) // 500)
        settings = self._settings(len(pair), columns, columns_at_node, min_leaf) | {
            "objective": "regression",  # a leaf predicts the mean of the flags
            "extra_trees": True,
        }
        trees = self._grow(pair, settings, seed)
        trees = trees.with_constant(pair.labelled_fraction)  # LightGBM writes 0 for such trees
        return ForestFunction(trees, pair.log_odds(), n_jobs=self.n_jobs)

    def _fit_balanced(self, pair: SamplePair, columns: int, seed: int) -> ForestFunction:
        drawn = ROWS_OF_TREE * min(len(pair.positive), len(pair.unlabeled))  # of either sample
        positive_share = drawn / len(pair.positive)
        unlabeled_share = drawn / len(pair.unlabeled)
        min_leaf = self.min_leaf or 3
        settings = self._settings(round(2 * drawn), columns, np.sqrt(columns), min_leaf) | {
            "objective": "binary",  # the only one with a share of each class
            "boost_from_average": False,
            "pos_bagging_fraction": positive_share,
            "neg_bagging_fraction": unlabeled_share,
        }
        trees = self._grow(pair, settings, seed)
        # A step of the logistic loss from odds of 1 has the length of 4 (share - 1/2).
        trees = replace(trees, value=trees.value / 4 + 0.5)
        log_odds = pair.log_odds() + float(np.log(positive_share / unlabeled_share))
        trees = trees.with_constant(float(scipy.special.expit(log_odds)))
        return ForestFunction(trees, log_odds, n_jobs=self.n_jobs)

    def _grow(self, pair: SamplePair, settings: dict[str, Any], seed: int) -> Trees:
        import lightgbm

        settings = self._common_settings(seed) | settings
        data = self._data(pair, settings)
        # The booster is kept, because LightGBM would write and read it again to free its rows.
        grown = lightgbm.train(settings, data, self.n_trees, keep_training_booster=True)
        columns = pair.positive.rows.shape[1]
        return Trees.from_lightgbm(grown.model_to_string(), columns, averaged=True)

    def _check_parameters(self) -> None:
        check_integer("n_trees", self.n_trees, low=1, high=MOST_TREES)
        for name, low in (("min_leaf", 1), ("most_leaves", 2), ("most_rows", 1)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)

    def _settings(
        self, rows: int, columns: int, columns_at_node: float, min_leaf: int
    ) -> dict[str, Any]:
        """Settings of trees that get so many rows, and have so many columns to choose from."""
        columns_in_tree = min(columns, max(4 * columns_at_node, 16))
        leaves = max(8, rows // min_leaf)
        if self.most_leaves is not None:
            leaves = min(leaves, self.most_leaves)
        return {
            "boosting": "rf",
            "bagging_freq": 1,
            "bagging_fraction": ROWS_OF_TREE,
            "feature_fraction": columns_in_tree / columns,
            "feature_fraction_bynode": min(1.0, columns_at_node / columns_in_tree),
            "num_leaves": leaves,
            "min_data_in_leaf": min_leaf,
            "min_sum_hessian_in_leaf": 1e-3,  # with 0, LightGBM may choose an empty leaf and stop
            "max_bin": 31,
            "min_data_in_bin": 1,
            "force_col_wise": True,
        }
