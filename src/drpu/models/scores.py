"""Score models, which are above 0 for positives: linear, smooth or a network, for any objective."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state

from drpu._checks import check_integer, check_real
from drpu._samples import Sample, SamplePair, n_rows
from drpu._schema import Array, Integer, Number, Optional, Schema
from drpu._state import ModelState, class_of, declare
from drpu._typing import FloatArray, Rows
from drpu.core.objective import PUObjective
from drpu.exceptions import ParameterError
from drpu.models._basis import Basis, median_distance
from drpu.models._descent import Design, choose_ridge, descend
from drpu.models.scaling import Scaling

__all__ = ["KernelScore", "LinearScore", "ScoreModel", "resolve_score", "score_from_state"]

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
        declare("drpu.models", kind, cls)

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
        from drpu.models.network_score import from_ratio

        return from_ratio(model)
    raise ParameterError(
        f"model must be 'kernel', 'linear', 'network', a torch module or a NetworkRatio with its options, "
        f"got {model!r}."
    )


def score_from_state(state: ModelState, *, module: Any = None) -> ScoreModel:
    """The fitted score model restored from ``state``."""
    model: ScoreModel = class_of("drpu.models", state, ScoreModel).from_state(state, module=module)
    return model


def _network(module: Any, options: dict[str, Any]) -> ScoreModel:
    from drpu.models.network_score import NetworkScore

    return NetworkScore(module, **options)


def _some_weightless(*designs: Design) -> bool:
    """Whether a fold could have a total weight of zero."""
    return any(design.weight is not None and (design.weight <= 0).any() for design in designs)
