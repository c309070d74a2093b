"""The default: different kinds of models, averaged."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.utils import check_random_state

from drpu._samples import Sample, SamplePair, is_sparse, n_rows
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ImputationWarning, ParameterError
from drpu.models.base import RatioModel
from drpu.models.boosting import BoostedRatio, category_columns
from drpu.models.classifier import ClassifierRatio
from drpu.models.forest import ForestRatio
from drpu.models.fourier import FourierRatio
from drpu.models.registry import model_from_state
from drpu.tables.indicators import Indicators

__all__ = ["AutoRatio"]

FEW = 10  # positives below which trees would only learn them by heart
FOREST_WEIGHT = 2.0  # it errs the least where positives are few, which is where averaging matters


class AutoRatio(RatioModel, kind="auto", named=True):
    """Mean log-ratio of a forest, boosted trees and a smooth logistic fit; the forest counts twice.

    Each member tells positives from unlabeled rows and fails in its own way: the
    forest is steady on few rows, boosting follows steps and interactions, the smooth
    fit carries over where trees have nothing but corners (linear for sparse rows, which
    have columns enough). Averaging needs no choice
    between them, which few positives could not make. Below ten positives the smooth
    fit answers alone. Missing values go to the trees as they are and are filled with
    column medians for the smooth fit. Categories go to the trees as they are, too, and become indicator
    columns for the smooth fit.

    Parameters
    ----------
    categories : sequence of int, default=()
        Positions of the columns that hold category codes, as in :class:`drpu.BoostedRatio`.
    n_jobs : int, default=1
        Threads of the trees.
    random_state : int, RandomState or None, default=None
        Seed of the members.

    Attributes
    ----------
    members_ : list of RatioModel
        The fitted members.
    """

    accepts_nan: ClassVar[bool] = True
    accepts_categories: ClassVar[bool] = True

    indicators_: Indicators | None = None

    def __init__(self, *, categories: Sequence[int] = (), n_jobs: int = 1, random_state: Any = None) -> None:
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        rows = pair.stacked()
        self.medians_ = _medians(rows)
        if len(self.categories) and is_sparse(rows):
            raise ParameterError("categories must be empty for sparse rows: pass dense rows.")
        category_columns(self.categories, self.n_features_in_)  # checks them
        self.indicators_ = Indicators.of(rows, self.categories) if len(self.categories) else None
        self.saw_gaps_ = has_gaps(pair.positive.rows) or has_gaps(pair.unlabeled.rows)
        if self.saw_gaps_:
            _warn_of_gaps()
        self.members_ = [self._fit_member(member, pair) for member in self._choose(pair.positive.rows)]

    def _fit_member(self, member: RatioModel, pair: SamplePair) -> RatioModel:
        """The member, fitted to rows in a form that it accepts."""
        samples = (Sample(self._filled(s.rows, member), s.weight) for s in (pair.positive, pair.unlabeled))
        return member.fit_checked(SamplePair(*samples))

    def _choose(self, rows: Rows) -> list[RatioModel]:
        rng = check_random_state(self.random_state)
        seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=3)]
        smooth = ClassifierRatio() if is_sparse(rows) else FourierRatio(random_state=seeds[0])
        if n_rows(rows) < FEW:
            return [smooth]
        return [
            ForestRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[1]),
            BoostedRatio(categories=self.categories, n_jobs=self.n_jobs, random_state=seeds[2]),
            smooth,
        ]

    def describe(self) -> str:
        """The members and, where it is not 1, their weight."""
        names = [
            f"{member.describe()} (counted twice)" if isinstance(member, ForestRatio) else member.describe()
            for member in self.members_
        ]
        return f"mean log-ratio of {', '.join(names)}" if len(names) > 1 else f"{names[0]} alone"

    def _log_ratio(self, X: Rows) -> FloatArray:
        if not self.saw_gaps_ and has_gaps(X):
            _warn_of_gaps()
        scores = [member.score_checked(self._filled(X, member)) for member in self.members_]
        return np.asarray(np.average(scores, axis=0, weights=self._weights()))

    def _weights(self) -> list[float]:
        return [FOREST_WEIGHT if isinstance(member, ForestRatio) else 1.0 for member in self.members_]

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        filled = graph.op("Where", graph.op("IsNaN", X), self.medians_, X)
        if self.indicators_ is not None:
            from drpu.models._onnx.scores import indicator_columns

            filled = indicator_columns(graph, self.indicators_, filled)
        parts = [member.onnx_scores(graph, X if member.accepts_nan else filled) for member in self.members_]
        return str(graph.mean(*parts, weights=self._weights()))

    def _filled(self, X: Rows, member: RatioModel) -> Rows:
        """Rows as the member can take them: the smooth one gets medians in gaps, and indicators."""
        if not member.accepts_nan and has_gaps(X):
            X = _fill_gaps(X, self.medians_)
        return X if member.accepts_categories or self.indicators_ is None else self.indicators_(X)

    def state(self) -> ModelState:
        """The states of the members, and what fills the gaps."""
        return ModelState(
            self.kind,
            {"saw_gaps": self.saw_gaps_}
            | ({} if self.indicators_ is None else {"indicators": self.indicators_.state()}),
            {"medians": self.medians_},
            parts={str(i): member.state() for i, member in enumerate(self.members_)},
        )

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state."""
        model = cls()
        if "indicators" in state.config:
            model.indicators_ = Indicators.from_state(state.config["indicators"])
            model.categories = model.indicators_.categories
        model.saw_gaps_, model.medians_ = bool(state.config["saw_gaps"]), state.arrays["medians"]
        model.members_ = [model_from_state(state.parts[str(i)]) for i in range(len(state.parts))]
        model.n_features_in_ = len(model.medians_)
        return model


def has_gaps(X: Rows) -> bool:
    """Whether any value is missing."""
    return bool(np.isnan(X.data if is_sparse(X) else X).any())


def _medians(X: Rows) -> FloatArray:
    """Median of each column without its gaps; 0 for a column of nothing else, and for sparse rows."""
    if is_sparse(X):
        return np.zeros(X.shape[1])
    medians = SimpleImputer(strategy="median", keep_empty_features=True).fit(X).statistics_
    return np.asarray(medians, dtype=np.float64)


def _fill_gaps(X: Rows, medians: FloatArray) -> Rows:
    if is_sparse(X):
        X = X.copy()
        X.data[np.isnan(X.data)] = 0
        return X
    return np.where(np.isnan(X), medians, X)


def _warn_of_gaps() -> None:
    warnings.warn(
        "the rows have missing values: the trees take them as they are, the smooth member sees column "
        "medians instead (zeros in sparse rows).",
        ImputationWarning,
        stacklevel=2,
    )
