"""Scores that are linear in features, fitted with full-batch gradients."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from drpu._checks import check_integer, check_real
from drpu._samples import Sample, SamplePair, n_rows, take_rows
from drpu._schema import Array, Integer, Number, Optional, Schema
from drpu._state import ModelState, class_of, declare
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.core.risks import PUObjective, ShiftedRisk, Sigmoid, Squared, get_loss
from drpu.exceptions import ParameterError
from drpu.functions.features import Basis, Scaling, median_distance

__all__ = [
    "Design",
    "KernelScore",
    "LinearScore",
    "ScoreModel",
    "choose_ridge",
    "descend",
    "fit_margin",
    "resolve_score",
    "score_from_state",
]

MOST_STEPS = 300
FOLDS = 5
MOST_TO_FOLD = 10_000  # with more rows a single split replaces the folds


@dataclass(frozen=True, slots=True)
class Design:
    """Features and weights of rows: a dense matrix, or sparse rows with a scaling applied on the fly."""

    rows: Rows
    weight: FloatArray | None
    scaling: Scaling | None = None
    factor: float = 1.0

    def __len__(self) -> int:
        return n_rows(self.rows)

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.rows.shape[1])

    def times(self, w: FloatArray) -> FloatArray:
        """Scores of all rows."""
        if self.scaling is None:
            return np.asarray(self.rows @ w)
        return self.factor * self.scaling.times(self.rows, w[:, None])[:, 0]

    def adjoint(self, v: FloatArray) -> FloatArray:
        """Sum of the features of all rows, each multiplied by its entry of ``v``."""
        if self.scaling is None:
            return np.asarray(self.rows.T @ v)
        centred = np.asarray(self.rows.T @ v) - self.scaling.shift * v.sum()
        return np.asarray(self.factor * centred / self.scaling.scale)

    def take(self, index: IntArray) -> Design:
        """The rows at ``index``."""
        weight = None if self.weight is None else self.weight[index]
        return Design(take_rows(self.rows, index), weight, self.scaling, self.factor)

    @property
    def is_dense(self) -> bool:
        """Whether the features are a dense matrix."""
        return self.scaling is None and not sparse.issparse(self.rows)


def descend(objective: PUObjective, positive: Design, unlabeled: Design, ridge: float) -> FloatArray:
    """Coefficients, the intercept last, that minimise the objective plus ``ridge / 2 |w|^2``.

    The intercept is not penalised. A convex objective is solved. With the sigmoid loss,
    which is not convex, the minimisation starts from the solution with the logistic loss.
    """
    return next(_path(objective, positive, unlabeled, [ridge], precision=1e-9))


def choose_ridge(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridges: FloatArray,
    rng: np.random.Generator,
) -> float:
    """The ridge with the lowest mean criterion on held-out rows, in five folds or one split."""
    strongest_first = np.sort(ridges)[::-1]
    risks = np.zeros(len(ridges))
    once = len(positive) + len(unlabeled) > MOST_TO_FOLD
    splits = zip(_splits(len(positive), once, rng), _splits(len(unlabeled), once, rng), strict=True)
    for (seen_p, kept_p), (seen_u, kept_u) in splits:
        held_p, held_u = positive.take(kept_p), unlabeled.take(kept_u)
        path = _path(
            objective, positive.take(seen_p), unlabeled.take(seen_u), strongest_first, precision=1e-6
        )
        for i, w in enumerate(path):
            scores = held_p.times(w[:-1]) + w[-1], held_u.times(w[:-1]) + w[-1]
            risks[i] += float(objective.criterion(*scores, held_p.weight, held_u.weight))
    return float(strongest_first[np.argmin(risks)])


def _path(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridges: Iterable[float],
    *,
    precision: float,
) -> Iterator[FloatArray]:
    """Solutions for the ridges in order, each started from the previous one."""
    start = np.zeros(positive.width + 1)
    for ridge in ridges:
        match objective:
            case ShiftedRisk(loss=Squared(), corrected=False) if positive.is_dense:
                yield _solve(objective, positive, unlabeled, ridge)
            case ShiftedRisk(loss=Sigmoid()):
                # The sigmoid loss is flat far from 0, where its gradient vanishes. Therefore
                # only the solutions of the logistic loss serve as starting points.
                convex = replace(objective, loss=get_loss("logistic"))
                start = _minimise(convex, positive, unlabeled, ridge, start, precision)
                yield _minimise(objective, positive, unlabeled, ridge, start, precision)
            case _:
                start = _minimise(objective, positive, unlabeled, ridge, start, precision)
                yield start


def _minimise(
    objective: PUObjective,
    positive: Design,
    unlabeled: Design,
    ridge: float,
    start: FloatArray,
    precision: float,
) -> FloatArray:
    def value(w: FloatArray) -> tuple[float, FloatArray]:
        risk, by_p, by_u = objective.gradient(
            positive.times(w[:-1]) + w[-1],
            unlabeled.times(w[:-1]) + w[-1],
            positive.weight,
            unlabeled.weight,
        )
        slope = positive.adjoint(by_p) + unlabeled.adjoint(by_u) + ridge * w[:-1]
        return risk + ridge / 2 * float(w[:-1] @ w[:-1]), np.append(slope, by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MOST_STEPS, "ftol": precision}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _splits(n: int, once: bool, rng: np.random.Generator) -> Iterator[tuple[IntArray, IntArray]]:
    """Positions of training rows and of held-out rows."""
    parts = np.array_split(rng.permutation(n), FOLDS)
    for kept in parts[:1] if once else parts:
        yield np.setdiff1d(np.arange(n), kept), np.sort(kept)


def _solve(objective: ShiftedRisk, positive: Design, unlabeled: Design, ridge: float) -> FloatArray:
    """Closed form for the squared loss: one Newton step from zero, because the gradient is linear."""
    hessian = np.diag(np.append(np.full(positive.width, ridge), 0.0))
    slope = np.zeros(positive.width + 1)
    zeros = np.zeros(len(positive)), np.zeros(len(unlabeled))
    ones = np.ones(len(positive)), np.ones(len(unlabeled))
    at_zero = objective.gradient(*zeros, positive.weight, unlabeled.weight)[1:]
    at_one = objective.gradient(*ones, positive.weight, unlabeled.weight)[1:]
    for design, low, high in zip((positive, unlabeled), at_zero, at_one, strict=True):
        F = np.column_stack([design.rows, np.ones(len(design))])
        hessian += F.T @ ((high - low)[:, None] * F)
        slope += F.T @ low
    return np.asarray(np.linalg.lstsq(hessian, -slope, rcond=None)[0])


RIDGES = np.logspace(-5, -1, 5)  # candidates of ridge="auto", for features with a mean squared norm of 1
FALLBACK_RIDGE = 1e-3  # used if there are too few rows to choose a ridge
FEWEST_TO_CHOOSE = 10
MOST_ROWS = 50_000  # more unlabeled rows do not improve a fit of a few hundred coefficients
CHUNK = 20_000
NARROW, WIDE = 0.4, 1.0  # kernel widths, in median distances between rows


class ScoreModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A score g(x), fitted to a positive and an unlabeled sample for an objective."""

    kind: ClassVar[str]
    schema: ClassVar[Schema | None] = None  # rules for its states
    accepts_sparse: ClassVar[bool] = True
    accepts_nan: ClassVar[bool] = False
    accepts_nd: ClassVar[bool] = False

    def __init_subclass__(cls, *, kind: str, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.kind = kind
        declare("drpu.ratios", kind, cls)

    @abstractmethod
    def fit_score(self, pair: SamplePair, objective: PUObjective) -> Self:
        """Fit the score to checked samples."""

    @abstractmethod
    def score(self, X: Rows) -> FloatArray:
        """Scores of checked rows, float64."""

    @abstractmethod
    def state(self) -> ModelState:
        """The state from which :meth:`from_state` restores this model."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state."""


class LinearScore(ScoreModel, kind="linear-score"):
    """Score that is linear in the standardised columns.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        Strength of the ridge penalty. ``"auto"`` chooses it by the criterion of the
        objective on held-out rows.
    random_state : int, RandomState or None, default=None
        Seed of that choice.

    Attributes
    ----------
    coef_ : ndarray
        Coefficients of the features.
    intercept_ : float
    ridge_ : float
        The ridge in use.
    """

    schema = Schema(
        "LinearScore",
        config={"chosen": Optional(Number(low=0)), "intercept": Number()},
        arrays={"shift": Array("d"), "scale": Array("d", above=0), "coef": Array("d")},
    )

    def __init__(self, ridge: float | str = "auto", *, random_state: Any = None) -> None:
        self.ridge = ridge
        self.random_state = random_state

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> Self:  # noqa: D102
        designs = self.designs(pair)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.ridge_ = self._choose(objective, *designs, rng)
        return self.set_solution(descend(objective, *designs, self.ridge_))

    def designs(self, pair: SamplePair) -> tuple[Design, Design]:
        """Features of both samples; scaling and features are set by a sample of the unlabeled rows."""
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self._place(pair.unlabeled, rng)
        return self._design(pair.positive), self._design(pair.unlabeled.at_most(MOST_ROWS, rng))

    def set_solution(self, w: FloatArray) -> Self:
        """Set the coefficients, the intercept last."""
        self.coef_, self.intercept_ = w[:-1], float(w[-1])
        return self

    def score(self, X: Rows) -> FloatArray:  # noqa: D102
        parts = [
            self._design(Sample(X[start : start + CHUNK])).times(self.coef_)
            for start in range(0, n_rows(X), CHUNK)
        ]
        return np.asarray(np.concatenate(parts) + self.intercept_, dtype=np.float64)

    def state(self) -> ModelState:  # noqa: D102
        arrays = {"shift": self.scaling_.shift, "scale": self.scaling_.scale, "coef": self.coef_}
        config = {"ridge": self.ridge, "chosen": getattr(self, "ridge_", None), "intercept": self.intercept_}
        return ModelState(self.kind, config, arrays)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        config, arrays = state.config, state.arrays
        model = cls(ridge=config["ridge"])
        model.scaling_ = Scaling(arrays["shift"], arrays["scale"])
        if config["chosen"] is not None:
            model.ridge_ = float(config["chosen"])
        model.coef_, model.intercept_ = arrays["coef"], float(config["intercept"])
        return model

    def _place(self, unlabeled: Sample, rng: np.random.Generator) -> None:
        self.scaling_ = Scaling.of(unlabeled.rows, unlabeled.weight)

    def _design(self, sample: Sample) -> Design:
        X, factor = sample.rows, 1 / np.sqrt(sample.rows.shape[1])
        if sparse.issparse(X):
            return Design(X, sample.weight, self.scaling_, factor)
        return Design((X - self.scaling_.shift) * (factor / self.scaling_.scale), sample.weight)

    def _choose(
        self, objective: PUObjective, positive: Design, unlabeled: Design, rng: np.random.Generator
    ) -> float:
        if not isinstance(self.ridge, str):
            return check_real("ridge", self.ridge, low=1e-12)
        if self.ridge != "auto":
            raise ParameterError(f"ridge must be a positive number or 'auto', got {self.ridge!r}.")
        if min(len(positive), len(unlabeled)) < FEWEST_TO_CHOOSE or _some_weightless(positive, unlabeled):
            return FALLBACK_RIDGE
        return choose_ridge(objective, positive, unlabeled, RIDGES, rng)


class KernelScore(LinearScore, kind="kernel-score"):
    """Smooth score: linear in random Fourier features, which approximate Gaussian kernels.

    The widths of the kernels are distributed below the median distance between rows, so
    no width has to be chosen. The model contains random numbers and coefficients, no rows.

    Parameters
    ----------
    n_features : int, default=500
        Number of random features.
    ridge, random_state
        As in :class:`LinearScore`; the seed also draws the directions.
    """

    schema = Schema(
        "KernelScore",
        config={"chosen": Optional(Number(low=0)), "intercept": Number(), "n_features": Integer(1)},
        arrays={
            "shift": Array("d"),
            "scale": Array("d", above=0),
            "frequencies": Array("md"),
            "phase": Array("m"),
            "coef": Array("m"),
        },
    )

    def __init__(
        self, n_features: int = 500, *, ridge: float | str = "auto", random_state: Any = None
    ) -> None:
        super().__init__(ridge, random_state=random_state)
        self.n_features = n_features

    def state(self) -> ModelState:  # noqa: D102
        state = super().state()
        state.config["n_features"] = self.n_features
        state.arrays.update(frequencies=self.basis_.points, phase=self.basis_.phase)
        return state

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        model = super().from_state(state)
        model.n_features = int(state.config["n_features"])
        arrays = state.arrays
        model.basis_ = Basis("features", arrays["frequencies"], arrays["phase"], model.scaling_)
        return model

    def _place(self, unlabeled: Sample, rng: np.random.Generator) -> None:
        super()._place(unlabeled, rng)
        size = check_integer("n_features", self.n_features, low=1)
        typical = median_distance(unlabeled.rows, self.scaling_, rng)
        width = typical * np.exp(rng.uniform(np.log(NARROW), np.log(WIDE), size))
        frequencies = rng.standard_normal((size, unlabeled.rows.shape[1])) / width[:, None]
        self.basis_ = Basis("features", frequencies, rng.uniform(0, 2 * np.pi, size), self.scaling_)

    def _design(self, sample: Sample) -> Design:
        return Design(self.basis_.shape(self.basis_.project(sample.rows), 1.0), sample.weight)


_NAMES = ("kernel", "linear", "network")


def resolve_score(model: Any, **options: Any) -> ScoreModel:
    """An unfitted score model: by name, given, or from a torch module or a NetworkRatio.

    ``options`` are the training options of a network given by name or as a bare module.
    """
    if isinstance(model, str):
        if model not in _NAMES:
            raise ParameterError(f"model must be one of {', '.join(map(repr, _NAMES))}, got {model!r}.")
        if model == "network":
            return _network(None, options)
        return KernelScore() if model == "kernel" else LinearScore()
    if isinstance(model, ScoreModel):
        copy: ScoreModel = clone(model)
        return copy
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _network(model, options)
    if type(model).__name__ == "NetworkRatio":
        from drpu.networks.score import from_ratio

        return from_ratio(model)
    raise ParameterError(
        f"model must be 'kernel', 'linear', 'network', a torch module or a NetworkRatio with its options, "
        f"got {model!r}."
    )


def score_from_state(state: ModelState, *, module: Any = None) -> ScoreModel:
    """The fitted score model restored from ``state``."""
    model: ScoreModel = class_of("drpu.ratios", state, ScoreModel).from_state(state, module=module)
    return model


def _network(module: Any, options: dict[str, Any]) -> ScoreModel:
    from drpu.networks.score import NetworkScore

    return NetworkScore(module, **options)


def _some_weightless(*designs: Design) -> bool:
    """Whether a fold could have a total weight of zero."""
    return any(design.weight is not None and (design.weight <= 0).any() for design in designs)


FAINTEST = 1e-3  # weight of the unlabeled rows in the first round, relative to the last
MOST_TURNS = 10  # alternations between labels and score in one round
MARGIN_STEPS = 200
ROUNDING = 0.1  # half width of the smoothed corner of the hinge


def fit_margin(
    model: LinearScore,
    pair: SamplePair,
    *,
    prior: float,
    strengths: tuple[float, float],
    rounds: int,
    cost: float,
) -> LinearScore:
    """The model, fitted alternately with the labels of the unlabeled rows.

    Parameters
    ----------
    model : LinearScore
        Linear or kernel; its ridge is not used, because the strengths replace it.
    pair : SamplePair
        The two samples.
    prior : float
        Weighted fraction of positive labels among the unlabeled rows.
    strengths : pair of float
        Weight of the labelled and of the unlabeled rows.
    rounds : int
        Steps of annealing.
    cost : float
        False-positive cost.
    """
    P, U = model.designs(pair)
    w_p, w_u = _shares(P), _shares(U)
    w = np.zeros(P.width + 1)
    labels = np.zeros(len(U), dtype=bool)
    for share in np.geomspace(FAINTEST, 1.0, rounds) if rounds > 1 else [1.0]:
        for turn in range(MOST_TURNS):
            first = turn == 0 and not w.any()
            found = labels if first else label_by_rank(U.times(w[:-1]), w_u, prior)
            if turn > 0 and np.array_equal(found, labels):
                break
            labels = found
            pull_p = 2 * (1 - cost) * strengths[0] * w_p
            side = np.where(labels, 2 * (1 - cost), 2 * cost)
            w = _margin(P, U, labels, pull_p, strengths[1] * share * side * w_u, w)
    return model.set_solution(w)


def label_by_rank(scores: FloatArray, weight: FloatArray, prior: float) -> BoolArray:
    """The optimal labels for given scores: the largest ones, a weighted fraction ``prior``, are positive."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(weight[order]) - weight[order] / 2
    labels = np.zeros(len(scores), dtype=bool)
    labels[order] = before < prior
    return labels


def _margin(
    P: Design, U: Design, labels: BoolArray, pull_p: FloatArray, pull_u: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients of the large-margin fit to these labels, the intercept last."""
    sign = np.where(labels, 1.0, -1.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        loss_p, slope_p = _hinge(P.times(w[:-1]) + w[-1])
        loss_u, slope_u = _hinge(sign * (U.times(w[:-1]) + w[-1]))
        by_p, by_u = pull_p * slope_p, pull_u * slope_u * sign
        total = float(pull_p @ loss_p + pull_u @ loss_u + w[:-1] @ w[:-1] / 2)
        return total, np.append(P.adjoint(by_p) + U.adjoint(by_u) + w[:-1], by_p.sum() + by_u.sum())

    options: Any = {"maxiter": MARGIN_STEPS, "ftol": 1e-7}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64)


def _hinge(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[1 - z]_+ with a smoothed corner, and its derivative."""
    lack = 1 - margin
    round_part = np.clip(lack + ROUNDING, 0, 2 * ROUNDING)
    value = round_part**2 / (4 * ROUNDING) + np.maximum(lack - ROUNDING, 0)
    return value, -round_part / (2 * ROUNDING)


def _shares(design: Design) -> FloatArray:
    if design.weight is None:
        return np.full(len(design), 1 / len(design))
    return np.asarray(design.weight / design.weight.sum())
