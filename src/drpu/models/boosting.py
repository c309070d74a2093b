"""Density ratios from boosted trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from drpu._checks import check_choice, check_fraction, check_integer, check_prior, check_real
from drpu._samples import SamplePair
from drpu._schema import Integer, Number, Optional, Schema, Text
from drpu._state import ModelState
from drpu._typing import FloatArray
from drpu.core.bregman import GENERATORS
from drpu.exceptions import DataError, ParameterError
from drpu.models._boosted_loss import BoostedLoss, BregmanLoss, LogLoss, holdout_risk
from drpu.models._holdout import Split, carve
from drpu.models._links import LINKS
from drpu.models._tree_model import Converter, TreeRatio
from drpu.models._trees import Trees, read_trees
from drpu.models.tree_inputs import category_columns, category_settings, own_trees, pair_rows

__all__ = ["BoostedRatio"]

_PATIENCE = 30
_FEW = 20_000  # up to this number of rows, trees are trained again with the held-out rows
_ENOUGH_HELD = 200  # held-out positives needed to choose the number of rounds by their risk
_MIN_LEAF = 10


class _Plan(NamedTuple):
    """Settings of the trees that the user did not give."""

    rounds: int
    learning_rate: float
    leaves: int
    column_share: float


_FIXED = _Plan(150, 0.06, 8, 0.5)  # small trees and steps, because there is no early stopping
# A tree can only find an interaction of three columns if it is trained on all three. With half of the
# columns this holds for one tree in eight.
_STOPPED = _Plan(1000, 0.05, 16, 1.0)
_MOST = _Plan(2000, 0.05, 64, 1.0)
_MANY = 10_000  # above this number of positives, trees grow with its square root
_MOST_HELD = 20_000  # rows of either sample; more do not improve the choice of the number of rounds


class BoostedRatio(TreeRatio, kind="boosted", named=True):
    r"""Density ratio of boosted trees (LightGBM); rows may be sparse and have missing values.

    Parameters
    ----------
    loss : {"log", "bregman"}, default="log"
        ``log``: the odds of positive against unlabeled rows, by the logistic loss.
        ``bregman``: the non-negative Bregman risk itself.
    generator : {"lsif", "ukl", "bkl"}, optional
        Generator of the Bregman risk, by default ``lsif``. With ``bregman`` only.
    link : {"identity", "softplus", "exp"}, optional
        How the sum of the trees becomes a ratio: by default ``identity`` for ``lsif``, the only
        generator that allows it, and ``softplus`` otherwise. ``exp`` is unstable: ratios become
        very large while the ranking still looks right. With ``bregman`` only.
    alpha : float, optional
        Lower bound of the training prior for the non-negative correction, by default 0,
        which is none. With ``bregman`` only.
    n_rounds : int, optional
        Number of trees, by default 150. With early stopping it is the maximum, by default 1000, and up
        to 2000 above 10,000 positives.
    learning_rate : float, optional
        Fraction of each tree that is added: by default 0.06, and 0.05 with early stopping.
    leaves : int, optional
        Maximum number of leaves of a tree, by default 8. With early stopping it is 16, and up to 64 above
        10,000 positives.
    min_leaf : int, optional
        Minimum number of rows of a leaf (``log``), or its minimum unlabeled mass counted in rows
        at a ratio of 1 (``bregman``). The default is 10, and less below 200 rows.
    l2 : float, optional
        Added to the Hessian of each leaf, which shrinks its value: by default 20 for the
        logistic losses (``log``, ``bkl``), 50 for ``ukl`` and 300 for ``lsif``, whose
        positive rows contribute to the gradient of a leaf but not to its Hessian.
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

    Attributes
    ----------
    n_rounds_ : int
        Number of trees.
    holdout_risk_ : float
        Uncorrected risk on the holdout rows (for ``log`` that of ``bkl``), NaN without them.

    Notes
    -----
    With ``lsif`` and the identity link the gradient is :math:`-1/n_P` on positive and :math:`r/n_U` on
    unlabeled rows, the hessian 0 and :math:`1/n_U`: the value of a leaf is the positive mass in
    it over the unlabeled mass. Hessians are scaled to sum to the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive, unlabeled = rng.normal(1, 1, (200, 1)), rng.normal(0, 1.4, (1000, 1))
    >>> model = BoostedRatio(random_state=0).fit_ratio(positive, unlabeled)
    >>> low, high = model.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.6 and high > 1.2)
    True
    """

    averaged: ClassVar[bool] = False
    accepts_nan: ClassVar[bool] = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories: ClassVar[bool] = True
    uses_holdout: ClassVar[bool] = True

    schema = Schema(
        "BoostedRatio",
        config={
            "loss": Text(("log", "bregman")),
            "offset": Number(-1e6, 1e6),
            "n_features": Integer(1),
            "generator": Optional(Text(GENERATORS)),
            "link": Optional(Text(LINKS)),
            "alpha": Optional(Number(0, 1)),
        },
        blobs=("trees",),
    )

    def __init__(
        self,
        loss: str = "log",
        *,
        generator: str | None = None,
        link: str | None = None,
        alpha: float | None = None,
        n_rounds: int | None = None,
        learning_rate: float | None = None,
        leaves: int | None = None,
        min_leaf: int | None = None,
        l2: float | None = None,
        row_share: float = 0.7,
        column_share: float | None = None,
        early_stopping: bool | str = "auto",
        holdout: float = 0.2,
        categories: Sequence[int] = (),
        n_jobs: int = 1,
        random_state: Any = None,
    ) -> None:
        self.loss = loss
        self.generator = generator
        self.link = link
        self.alpha = alpha
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.min_leaf = min_leaf
        self.l2 = l2
        self.row_share = row_share
        self.column_share = column_share
        self.early_stopping = early_stopping
        self.holdout = holdout
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        loss = self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        split = Split(pair, None)
        if self._stops_early(pair, holdout):
            split = carve(pair, holdout, self.holdout, np.random.default_rng(seed), most=_MOST_HELD)
        self.plan_ = plan = _FIXED if split.held is None else _stopped_plan(len(split.train.positive))
        self.n_rounds_ = self.n_rounds or plan.rounds
        self.holdout_risk_ = np.nan

        settings = self._settings(plan, seed) | category_settings(self.categories)
        trees = None
        if split.held is not None:
            trees, self.holdout_risk_ = self._grow(loss, split.train, settings, split.held)
            self.n_rounds_ = trees.best_iteration
        few = len(pair) <= _FEW
        grown_on = split.train
        if trees is None or (holdout is None and few):
            grown_on = pair
            trees, _ = self._grow(loss, pair, settings)
        self.loss_, self.offset_ = loss, loss.offset(grown_on)
        self.trees_ = trees.model_to_string(num_iteration=self.n_rounds_)
        self.booster_ = own_trees(self.trees_)

    @classmethod
    def from_trees(cls, trees: str, columns: int) -> Self:
        """A fitted model from trees in LightGBM's text format, whose sum is the log-ratio."""
        model = cls()
        model.loss_, model.offset_, model.n_features_in_ = LogLoss(), 0.0, columns
        model.trees_, model.booster_ = trees, own_trees(trees)
        model.n_rounds_, model.holdout_risk_ = model.booster_.current_iteration(), np.nan
        return model

    def as_grown(self) -> dict[str, Any]:
        """Parameters to train trees like the fitted ones on other rows, with all choices fixed."""
        return {
            "n_rounds": self.n_rounds_,
            "learning_rate": self.learning_rate or self.plan_.learning_rate,
            "leaves": self.leaves or self.plan_.leaves,
            "column_share": self.column_share or self.plan_.column_share,
            "early_stopping": False,
        }

    def _check_parameters(self) -> BoostedLoss:
        for name, low in (("n_rounds", 1), ("min_leaf", 1), ("leaves", 2)):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), low=low)
        if self.l2 is not None:
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
        return self._loss()

    def _loss(self) -> BoostedLoss:
        if check_choice("loss", self.loss, ("log", "bregman")) == "log":
            for name in ("generator", "link", "alpha"):
                if getattr(self, name) is not None:
                    raise ParameterError(
                        f"{name} must be None with loss='log', which does not use it, "
                        f"got {getattr(self, name)!r}: use loss='bregman'."
                    )
            return LogLoss()
        generator = check_choice("generator", self.generator or "lsif", GENERATORS)
        link = check_choice("link", self.link or ("identity" if generator == "lsif" else "softplus"), LINKS)
        if link == "identity" and generator != "lsif":
            raise ParameterError(
                f"link must be 'softplus' or 'exp' with generator={generator!r}, got 'identity': "
                "only 'lsif' is defined for ratios below 0."
            )
        return BregmanLoss(generator, link, check_prior("alpha", self.alpha or 0.0))

    def _stops_early(self, pair: SamplePair, holdout: SamplePair | None) -> bool:
        if self.early_stopping == "auto":
            held = self.holdout * len(pair.positive) if holdout is None else len(holdout.positive)
            return bool(held >= _ENOUGH_HELD)
        return bool(self.early_stopping)

    def _settings(self, plan: _Plan, seed: int) -> dict[str, Any]:
        return {
            "learning_rate": self.learning_rate or plan.learning_rate,
            "num_leaves": self.leaves or plan.leaves,
            "bagging_fraction": self.row_share,
            "bagging_freq": 1,
            "feature_fraction": self.column_share or plan.column_share,
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
        self, loss: BoostedLoss, pair: SamplePair, settings: dict[str, Any], held: SamplePair | None = None
    ) -> tuple[Any, float]:
        """Trained trees, and their lowest risk on held-out rows."""
        import lightgbm

        min_leaf = self.min_leaf or max(1, min(_MIN_LEAF, len(pair) // 20))
        columns = category_columns(self.categories, self.n_features_in_)
        data = _dataset(loss, pair, settings, columns)
        settings = settings | {
            "lambda_l2": loss.l2 if self.l2 is None else self.l2,
            **loss.settings(pair, min_leaf),
        }
        if held is None:
            return lightgbm.train(settings, data, self.n_rounds_, keep_training_booster=True), np.nan

        offset = loss.offset(pair)

        def risk(predicted: FloatArray, _: Any) -> tuple[str, float, bool]:
            return "risk", holdout_risk(loss, loss.outputs(predicted, offset), held), False

        trees = lightgbm.train(
            settings,
            data,
            self.n_rounds_,
            valid_sets=[_dataset(loss, held, settings, columns, reference=data)],
            feval=risk,
            callbacks=[lightgbm.early_stopping(_PATIENCE, verbose=False)],
            keep_training_booster=True,
        )
        return trees, float(trees.best_score["valid_0"]["risk"])

    @classmethod
    def converter(cls, models: Sequence[Any]) -> Converter:  # noqa: D102
        offsets, losses = np.array([model.offset_ for model in models]), [model.loss_ for model in models]
        if all(isinstance(loss, LogLoss) for loss in losses):
            return lambda outputs: outputs + offsets
        return lambda outputs: np.column_stack(
            [loss.log_ratio(g) for loss, g in zip(losses, (outputs + offsets).T, strict=True)]
        )

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        from drpu.models.onnx.scores import boosted_scores

        return boosted_scores(graph, self, X)

    def state(self) -> ModelState:
        """The trees in LightGBM's text format, and the values that map their sum to a ratio."""
        config = {"loss": self.loss, "offset": self.offset_, "n_features": self.n_features_in_}
        if isinstance(self.loss_, BregmanLoss):
            config |= {"generator": self.loss_.generator, "link": self.loss_.link, "alpha": self.loss_.alpha}
        trees = Trees.from_text(self.trees_, columns=self.n_features_in_, averaged=False)
        return ModelState(kind=self.kind, config=config, blobs={"trees": trees.text().encode()})

    @classmethod
    def check_state(cls, state: ModelState) -> None:
        """Raise unless the trees of ``state`` are valid."""
        read_trees(state.blobs["trees"], columns=state.config["n_features"], averaged=False)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state."""
        config = state.config
        try:
            model = cls(
                config["loss"],
                generator=config.get("generator"),
                link=config.get("link"),
                alpha=config.get("alpha"),
            )
            model.loss_ = model._loss()
            model.offset_ = check_real("offset", config["offset"], low=-1e6, high=1e6)
            model.n_features_in_ = check_integer("n_features", config["n_features"], low=1)
            trees = read_trees(state.blobs["trees"], columns=model.n_features_in_, averaged=False)
        except (KeyError, TypeError, ParameterError) as error:
            raise DataError(f"state is not that of a BoostedRatio: {error!r}.") from error
        model.trees_, model.booster_ = trees.text(), trees.booster()
        model.n_rounds_, model.holdout_risk_ = model.booster_.current_iteration(), np.nan
        return model


def _stopped_plan(positives: int) -> _Plan:
    """Settings with early stopping: with more positives, trees are larger and more numerous."""
    growth = float(np.sqrt(max(1.0, positives / _MANY)))
    rounds, leaves = round(_STOPPED.rounds * growth), round(_STOPPED.leaves * growth)
    return _STOPPED._replace(rounds=min(rounds, _MOST.rounds), leaves=min(leaves, _MOST.leaves))


def _dataset(
    loss: BoostedLoss, pair: SamplePair, settings: dict[str, Any], categories: Any, reference: Any = None
) -> Any:
    import lightgbm

    kept = {key: value for key, value in settings.items() if key != "objective"}
    return lightgbm.Dataset(
        pair_rows(pair),
        **loss.fields(pair),
        params=kept,
        reference=reference,
        categorical_feature=categories,
    )
