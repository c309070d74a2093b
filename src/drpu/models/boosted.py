"""Density ratios from boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import logit
from sklearn.base import clone

from drpu._checks import check_fraction, check_integer, check_random_state, check_real
from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.exceptions import ParameterError
from drpu.models.bregman import bregman_risk
from drpu.models.learner import RatioLearner
from drpu.models.splits import TrainAndHeld, hold_out
from drpu.models.trees import BoostedFunction, Trees, category_columns, category_settings, tree_data

_FAR = 50.0  # log-ratios are clipped here in holdout risks


_SHRINKAGE = 20.0
_PATIENCE = 30
_FEW = 20_000  # up to this number of rows, trees are trained again with the held-out rows
_ENOUGH_HELD = 200  # held-out positives needed to choose the number of rounds by their risk
_MIN_LEAF = 10


class _Growth(NamedTuple):
    """Settings of the trees that the user did not give."""

    rounds: int
    learning_rate: float
    leaves: int
    column_share: float


_FIXED = _Growth(150, 0.06, 8, 0.5)  # small trees and steps, because there is no early stopping
# A tree can only find an interaction of three columns if it is trained on all three. With half of the
# columns this holds for one tree in eight.
_STOPPED = _Growth(1000, 0.05, 16, 1.0)
_MOST = _Growth(2000, 0.05, 64, 1.0)
_MANY = 10_000  # above this number of positives, trees grow with its square root
_MOST_HELD = 20_000  # rows of either sample; more do not improve the choice of the number of rounds


@dataclass(eq=False, repr=False)
class BoostedRatio(RatioLearner):
    """Density ratio of boosted trees (LightGBM); rows may be sparse and have missing values.

    The trees separate positive from unlabeled rows by the logistic loss, and the ratio is their odds.

    Parameters
    ----------
    n_rounds : int, optional
        Number of trees, by default 150. With early stopping it is the maximum, by default 1000, and up
        to 2000 above 10,000 positives.
    learning_rate : float, optional
        Fraction of each tree that is added: by default 0.06, and 0.05 with early stopping.
    leaves : int, optional
        Maximum number of leaves of a tree, by default 8. With early stopping it is 16, and up to 64 above
        10,000 positives.
    min_leaf : int, optional
        Minimum number of rows of a leaf: by default 10, and less below 200 rows.
    l2 : float, default=20.0
        Added to the Hessian of each leaf, which shrinks its value.
    row_share : float, default=0.7
        Fraction of the rows that each tree is trained on.
    column_share : float, optional
        Fraction of the columns that each tree is trained on: by default 0.5, and 1 with early stopping.
    early_stopping : bool or "auto", default="auto"
        Whether the uncorrected risk of holdout rows determines the number of trees. ``auto`` does so
        with at least 200 holdout positives, because with fewer the risk is too noisy.
    holdout : float, default=0.2
        Fraction of the rows that early stopping holds out if ``fit_ratio`` is given no holdout rows, at
        most 20,000 rows of either sample. With up to 20,000 rows, the trees are then trained again on
        all of them.
    categories : sequence of int, default=()
        Positions of the columns with category codes (whole numbers from 0), where a split separates one
        code from the others. Tables with categories set this parameter themselves.
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

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True
    uses_holdout: ClassVar[bool] = True

    _: KW_ONLY
    n_rounds: int | None = None
    learning_rate: float | None = None
    leaves: int | None = None
    min_leaf: int | None = None
    l2: float = _SHRINKAGE
    row_share: float = 0.7
    column_share: float | None = None
    early_stopping: bool | str = "auto"
    holdout: float = 0.2
    categories: Sequence[int] = ()
    n_jobs: int = 1
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> BoostedFunction:
        """The density ratio of checked samples."""
        self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        split = TrainAndHeld(pair, None)
        if self._stops_early(pair, holdout):
            split = hold_out(pair, holdout, self.holdout, np.random.default_rng(seed), most=_MOST_HELD)
        growth = _FIXED if split.held is None else _stopped_growth(len(split.train.positive))
        rounds = self.n_rounds or growth.rounds

        settings = self._settings(growth, seed) | category_settings(self.categories)
        trees, risk = None, np.nan
        if split.held is not None:
            trees, risk = self._grow(split.train, settings, rounds, split.held)
            rounds = trees.best_iteration
        few = len(pair) <= _FEW
        grown_on = split.train
        if trees is None or (holdout is None and few):
            grown_on = pair
            trees, _ = self._grow(pair, settings, rounds)
        text = trees.model_to_string(num_iteration=rounds)
        return BoostedFunction(
            Trees.from_lightgbm(text, pair.positive.rows.shape[1]),
            -grown_on.log_odds(),
            n_jobs=self.n_jobs,
            holdout_risk=risk,
        )

    def as_grown(self, function: BoostedFunction, pair: SamplePair, holdout: SamplePair) -> Self:
        """A copy that grows trees like ``function`` on other rows, with all choices fixed.

        The function was fitted to ``pair`` and ``holdout``.
        """
        stopped = self._stops_early(pair, holdout)
        growth = _stopped_growth(len(pair.positive)) if stopped else _FIXED
        copy: Self = clone(self).set_params(
            n_rounds=function.n_rounds,
            learning_rate=self.learning_rate or growth.learning_rate,
            leaves=self.leaves or growth.leaves,
            column_share=self.column_share or growth.column_share,
            early_stopping=False,
        )
        return copy

    def _check_parameters(self) -> None:
        for name, low in (("n_rounds", 1), ("min_leaf", 1), ("leaves", 2)):
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
        if self.early_stopping == "auto":
            held = self.holdout * len(pair.positive) if holdout is None else len(holdout.positive)
            return bool(held >= _ENOUGH_HELD)
        return bool(self.early_stopping)

    def _settings(self, growth: _Growth, seed: int) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate or growth.learning_rate,
            "num_leaves": self.leaves or growth.leaves,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1,
            "feature_fraction": self.column_share or growth.column_share,
            "max_bin": 63,
            "feature_pre_filter": False,
            "metric": "None",
            "seed": seed,
            "num_threads": 0 if self.n_jobs == -1 else self.n_jobs,
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }

    def _grow(
        self, pair: SamplePair, settings: dict[str, Any], rounds: int, held: SamplePair | None = None
    ) -> tuple[Any, float]:
        """Trained trees, and their lowest risk on held-out rows."""
        import lightgbm

        min_leaf = self.min_leaf or max(1, min(_MIN_LEAF, len(pair) // 20))
        columns = category_columns(self.categories, pair.positive.rows.shape[1])
        data = tree_data(pair, settings, columns)
        settings = settings | {"objective": "binary", "lambda_l2": self.l2, "min_data_in_leaf": min_leaf}
        if held is None:
            return lightgbm.train(settings, data, rounds, keep_training_booster=True), np.nan

        offset, n = pair.log_odds(), len(held.positive)
        weights = {"positive_weight": held.positive.weight, "unlabeled_weight": held.unlabeled.weight}

        def risk(predicted: FloatArray, _: Any) -> tuple[str, float, bool]:
            log_ratio = logit(np.clip(predicted, 1e-15, 1 - 1e-15)) - offset
            log_ratio = np.clip(log_ratio, -_FAR, _FAR)
            found = bregman_risk(log_ratio[:n], log_ratio[n:], generator="bkl", log=True, **weights)
            return "risk", float(found), False

        trees = lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[tree_data(held, settings, columns, reference=data)],
            feval=risk,
            callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
            keep_training_booster=True,
        )
        return trees, float(trees.best_score["valid_0"]["risk"])


def _stopped_growth(positives: int) -> _Growth:
    """Settings with early stopping: with more positives, trees are larger and more numerous."""
    growth = float(np.sqrt(max(1.0, positives / _MANY)))
    rounds, leaves = round(_STOPPED.rounds * growth), round(_STOPPED.leaves * growth)
    return _STOPPED._replace(rounds=min(rounds, _MOST.rounds), leaves=min(leaves, _MOST.leaves))
