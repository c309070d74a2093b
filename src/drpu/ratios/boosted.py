r"""Density ratios from boosted trees, and the derivatives of Bregman risks that they need.

With a link r(g), a positive row contributes :math:`-f'(r)` and an unlabeled row
:math:`F(r) = f^*(r) - f^*(0)`, of which :math:`F'(r) = r f''(r)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
from scipy.special import logit
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._checks import check_choice, check_fraction, check_integer, check_prior, check_real
from drpu._samples import SamplePair
from drpu._typing import FloatArray
from drpu.core.bregman import GENERATORS, bregman_risk, get_generator
from drpu.exceptions import ParameterError
from drpu.functions.links import LINKS
from drpu.functions.trees import BoostedFunction, Trees, category_columns, category_settings, pair_rows
from drpu.ratios.base import RatioLearner
from drpu.ratios.splits import TrainAndHeld, hold_out

_FAR = 50.0  # log-ratios are clipped here in holdout risks

_SHRINKAGE = {"lsif": 300.0, "ukl": 50.0, "bkl": 20.0}

# f'' and f''' of each generator.
_SECOND: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lsif": lambda r: np.ones_like(r),
    "ukl": lambda r: 1 / r,
    "bkl": lambda r: 1 / (r * (1 + r)),
}
_THIRD: dict[str, Callable[[FloatArray], FloatArray]] = {
    "lsif": lambda r: np.zeros_like(r),
    "ukl": lambda r: -1 / r**2,
    "bkl": lambda r: 1 / (1 + r) ** 2 - 1 / r**2,
}


class Derivatives(NamedTuple):
    """First and second derivative with respect to the output g, one per row."""

    gradient: FloatArray
    hessian: FloatArray


@dataclass(frozen=True, slots=True)
class BoostedRisk:
    """The non-negative Bregman risk of positive rows followed by unlabeled rows.

    Weights sum to 1 over either sample. With ``alpha`` 0 there is no correction, because the
    part that could be negative is then a mean of non-negative terms.
    """

    generator: str
    link: str
    alpha: float
    positive_weight: FloatArray
    unlabeled_weight: FloatArray

    def derivatives(self, g: FloatArray) -> Derivatives:
        """Derivatives of the objective of a step: A + B if B >= 0, and -B otherwise."""
        n = len(self.positive_weight)
        reward, lift = self._reward(g[:n]), self._lift(g)
        w_p, w_u = self.positive_weight, self.unlabeled_weight
        if self.rest(g) >= 0:
            parts = [(w_p * mine, w_u * theirs[n:]) for mine, theirs in zip(reward, lift, strict=True)]
        else:
            parts = [(self.alpha * w_p * theirs[:n], -w_u * theirs[n:]) for theirs in lift]
        return Derivatives(*(np.concatenate(part) for part in parts))

    def step(self, g: FloatArray) -> Derivatives:
        """Gradient and a non-negative Hessian.

        Where the exact Hessian is negative (a concave link on positive rows, unlabeled rows
        under correction) a Newton step would increase the objective. There it is replaced by
        0 for positive rows and by its absolute value for unlabeled rows.
        """
        n = len(self.positive_weight)
        gradient, hessian = self.derivatives(g)
        return Derivatives(gradient, np.r_[np.maximum(hessian[:n], 0), np.abs(hessian[n:])])

    def rest(self, g: FloatArray) -> float:
        """B, the part of the risk that is non-negative in the population."""
        n = len(self.positive_weight)
        f, r = get_generator(self.generator), LINKS[self.link].ratio(g)
        lifted = f.conjugate(r)
        return float(self.unlabeled_weight @ lifted[n:] - self.alpha * (self.positive_weight @ lifted[:n]))

    def _reward(self, g: FloatArray) -> Derivatives:
        """Derivatives of -f'(r(g))."""
        link = LINKS[self.link]
        r, slope = link.ratio(g), link.slope(g)
        second, third = _SECOND[self.generator](r), _THIRD[self.generator](r)
        return Derivatives(-second * slope, -third * slope**2 - second * link.curvature(g))

    def _lift(self, g: FloatArray) -> Derivatives:
        """Derivatives of F(r(g))."""
        link = LINKS[self.link]
        r, slope = link.ratio(g), link.slope(g)
        second, third = _SECOND[self.generator](r), _THIRD[self.generator](r)
        return Derivatives(
            r * second * slope, (second + r * third) * slope**2 + r * second * link.curvature(g)
        )


@dataclass(frozen=True)
class LogLoss:
    """Logistic loss of positive against unlabeled rows: log-odds minus those of the sample sizes."""

    generator: str = "bkl"
    link: str = "exp"

    def settings(self, pair: SamplePair, min_leaf: int) -> dict[str, Any]:
        """Settings of LightGBM that depend on the loss."""
        return {"objective": "binary", "min_data_in_leaf": min_leaf}

    def fields(self, pair: SamplePair) -> dict[str, Any]:
        """Fields of a LightGBM data set other than its rows; positive rows come first."""
        return {"label": pair.flags(), "weight": pair.unit_weights()}

    def offset(self, pair: SamplePair) -> float:
        """The constant that is added to the sum of the trees."""
        return -pair.log_odds()

    def outputs(self, predicted: FloatArray, offset: float) -> FloatArray:
        """Sum of trees and offset from the values that LightGBM passes to a metric."""
        return np.asarray(logit(np.clip(predicted, 1e-15, 1 - 1e-15)) + offset)


@dataclass(frozen=True)
class BregmanLoss(LogLoss):
    """Non-negative Bregman risk, started at a ratio of 1."""

    alpha: float = 0.0

    def settings(self, pair: SamplePair, min_leaf: int) -> dict[str, Any]:
        n, risk = len(pair.positive), self._risk(pair)
        rows = len(pair)

        def objective(g: FloatArray, _: Any) -> tuple[FloatArray, FloatArray]:
            gradient, hessian = risk.step(g)
            return rows * gradient, rows * hessian

        at_one = risk.step(np.full(rows, LINKS[self.link].start)).hessian[n:].sum()
        mass = rows * float(at_one) * min_leaf / len(pair.unlabeled)
        return {"objective": objective, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": mass}

    def fields(self, pair: SamplePair) -> dict[str, Any]:
        flags = pair.flags()
        return {"label": flags, "init_score": np.full(len(flags), LINKS[self.link].start)}

    def offset(self, pair: SamplePair) -> float:
        return LINKS[self.link].start

    def outputs(self, predicted: FloatArray, offset: float) -> FloatArray:
        return predicted

    def _risk(self, pair: SamplePair) -> BoostedRisk:
        n, weight = len(pair.positive), pair.weights()
        if weight is None:
            weight = np.ones(len(pair))
        w_p, w_u = weight[:n], weight[n:]
        return BoostedRisk(self.generator, self.link, self.alpha, w_p / w_p.sum(), w_u / w_u.sum())


def holdout_risk(loss: LogLoss, g: FloatArray, held: SamplePair) -> float:
    """Uncorrected risk of outputs on held-out rows, positive rows first."""
    n, log_ratio = len(held.positive), np.clip(LINKS[loss.link].log_ratio(g), -_FAR, _FAR)
    risk = bregman_risk(
        log_ratio[:n],
        log_ratio[n:],
        generator=loss.generator,
        log=True,
        positive_weight=held.positive.weight,
        unlabeled_weight=held.unlabeled.weight,
    )
    return float(risk)


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
    r"""Density ratio of boosted trees (LightGBM); rows may be sparse and have missing values.

    Parameters
    ----------
    loss : {"log", "bregman"}, default="log"
        ``log``: the odds of positive against unlabeled rows, by the logistic loss.
        ``bregman``: the non-negative Bregman risk itself.
    generator : {"lsif", "ukl", "bkl"}, optional
        Generator of the Bregman risk, by default ``lsif``. With ``bregman`` only. The ratio is the sum of the
        trees for ``lsif``, and its softplus otherwise. An exponential would be unstable: ratios become very
        large while the ranking still looks right.
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
    >>> function = BoostedRatio(random_state=0).fit_ratio(positive, unlabeled)
    >>> low, high = function.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.6 and high > 1.2)
    True
    """

    accepts_nan = True
    fits_in_threads: ClassVar[bool] = True
    accepts_categories = True
    uses_holdout: ClassVar[bool] = True

    loss: str = "log"
    _: KW_ONLY
    generator: str | None = None
    alpha: float | None = None
    n_rounds: int | None = None
    learning_rate: float | None = None
    leaves: int | None = None
    min_leaf: int | None = None
    l2: float | None = None
    row_share: float = 0.7
    column_share: float | None = None
    early_stopping: bool | str = "auto"
    holdout: float = 0.2
    categories: Sequence[int] = ()
    n_jobs: int = 1
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> BoostedFunction:
        """The density ratio of checked samples."""
        loss = self._check_parameters()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))

        split = TrainAndHeld(pair, None)
        if self._stops_early(pair, holdout):
            split = hold_out(pair, holdout, self.holdout, np.random.default_rng(seed), most=_MOST_HELD)
        growth = _FIXED if split.held is None else _stopped_growth(len(split.train.positive))
        rounds = self.n_rounds or growth.rounds

        settings = self._settings(growth, seed) | category_settings(self.categories)
        trees, risk = None, np.nan
        if split.held is not None:
            trees, risk = self._grow(loss, split.train, settings, rounds, split.held)
            rounds = trees.best_iteration
        few = len(pair) <= _FEW
        grown_on = split.train
        if trees is None or (holdout is None and few):
            grown_on = pair
            trees, _ = self._grow(loss, pair, settings, rounds)
        text = trees.model_to_string(num_iteration=rounds)
        return BoostedFunction(
            Trees.from_lightgbm(text, pair.positive.rows.shape[1]),
            loss.offset(grown_on),
            n_jobs=self.n_jobs,
            link=cast(Literal["exp", "identity", "softplus"], loss.link),
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

    def _check_parameters(self) -> LogLoss:
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

    def _loss(self) -> LogLoss:
        if check_choice("loss", self.loss, ("log", "bregman")) == "log":
            for name in ("generator", "alpha"):
                if getattr(self, name) is not None:
                    raise ParameterError(
                        f"{name} must be None with loss='log', which does not use it, "
                        f"got {getattr(self, name)!r}: use loss='bregman'."
                    )
            return LogLoss()
        generator = check_choice("generator", self.generator or "lsif", GENERATORS)
        link = "identity" if generator == "lsif" else "softplus"  # only lsif is defined for ratios below 0
        return BregmanLoss(generator, link, check_prior("alpha", self.alpha or 0.0))

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
        self,
        loss: LogLoss,
        pair: SamplePair,
        settings: dict[str, Any],
        rounds: int,
        held: SamplePair | None = None,
    ) -> tuple[Any, float]:
        """Trained trees, and their lowest risk on held-out rows."""
        import lightgbm

        min_leaf = self.min_leaf or max(1, min(_MIN_LEAF, len(pair) // 20))
        columns = category_columns(self.categories, pair.positive.rows.shape[1])
        data = _dataset(loss, pair, settings, columns)
        settings = settings | {
            "lambda_l2": _SHRINKAGE[loss.generator] if self.l2 is None else self.l2,
            **loss.settings(pair, min_leaf),
        }
        if held is None:
            return lightgbm.train(settings, data, rounds, keep_training_booster=True), np.nan

        offset = loss.offset(pair)

        def risk(predicted: FloatArray, _: Any) -> tuple[str, float, bool]:
            return "risk", holdout_risk(loss, loss.outputs(predicted, offset), held), False

        trees = lightgbm.train(
            settings,
            data,
            rounds,
            valid_sets=[_dataset(loss, held, settings, columns, reference=data)],
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


def _dataset(
    loss: LogLoss, pair: SamplePair, settings: dict[str, Any], categories: Any, reference: Any = None
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
