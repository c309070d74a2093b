"""What every density-ratio model is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from drpu._checks import check_weights
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ParameterError
from drpu.models._rows import as_rows, n_rows

__all__ = ["LOG_LIMIT", "ModelState", "RatioModel"]

LOG_LIMIT = 690.0  # exp() of it is finite: a ratio of 0 or infinity keeps a rank, not a NaN


@dataclass(frozen=True, slots=True)
class ModelState:
    """All that a fitted model needs to score rows elsewhere, and nothing else.

    ``config`` can be written as JSON, ``arrays`` are numeric, ``blobs`` are texts or
    archives of a backend's own format, ``parts`` are the states of inner models.
    """

    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, ModelState] = field(default_factory=dict)


class RatioModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A density ratio p(x | positive) / p(x | unlabeled), learnt from the two samples.

    A backend writes ``_fit`` and ``_log_ratio``, and ``state`` with ``from_state``. Scores
    are log-ratios in float64: near a posterior of 1, where priors are read, a ratio
    in float32 has only ties to offer.
    """

    accepts_sparse: ClassVar[bool] = True
    accepts_nan: ClassVar[bool] = False
    accepts_nd: ClassVar[bool] = False
    uses_holdout: ClassVar[bool] = False

    @property
    def keeps_rows(self) -> bool:
        """Whether the fitted model holds training rows as they were."""
        return False

    def fit_ratio(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        holdout: tuple[Rows, Rows] | None = None,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Learn the ratio from a positive and an unlabeled sample.

        Parameters
        ----------
        positive, unlabeled : rows of shape (n_positive, d) and (n_unlabeled, d)
            The two samples; no row needs to be in both.
        holdout : pair of rows (positive, unlabeled), optional
            Rows that choose among fits and train none. Without them a model that
            needs some keeps a share of its own rows for that.
        positive_weight, unlabeled_weight : array-like, optional
            Weights of the rows.

        Returns
        -------
        self : RatioModel
        """
        positive, unlabeled = self._rows("positive", positive), self._rows("unlabeled", unlabeled)
        if positive.shape[1:] != unlabeled.shape[1:]:
            raise DataError(
                f"positive and unlabeled must have the same columns, "
                f"got {positive.shape[1:]} and {unlabeled.shape[1:]}."
            )
        self.n_features_in_: int = positive.shape[1]
        self._fit(
            positive,
            unlabeled,
            self._holdout_rows(holdout, positive.shape[1:]),
            _weights("positive_weight", positive_weight, positive),
            _weights("unlabeled_weight", unlabeled_weight, unlabeled),
        )
        return self

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the density ratio, one float64 a row: the score that ranks rows."""
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"{type(self).__name__} has not learnt a ratio yet: call fit_ratio first.")
        X = self._rows("X", X)
        if X.shape[1] != self.n_features_in_:
            raise DataError(f"X must have {self.n_features_in_} columns, as in training, got {X.shape[1]}.")
        return np.clip(np.asarray(self._log_ratio(X), dtype=np.float64), -LOG_LIMIT, LOG_LIMIT)

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio, one value a row."""
        return np.exp(self.log_ratio(X))

    def describe(self) -> str:
        """What was fitted, in a few words."""
        return type(self).__name__

    @abstractmethod
    def _fit(
        self,
        positive: Rows,
        unlabeled: Rows,
        holdout: tuple[Rows, Rows] | None,
        positive_weight: FloatArray | None,
        unlabeled_weight: FloatArray | None,
    ) -> None:
        """Learn from checked rows; holdout rows and weights are checked too, or None."""

    @abstractmethod
    def _log_ratio(self, X: Rows) -> FloatArray:
        """Score checked rows."""

    @abstractmethod
    def state(self) -> ModelState:
        """What :meth:`from_state` needs to score rows as this model does."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: ModelState) -> Self:
        """A fitted model from its state."""

    def _rows(self, name: str, X: Any) -> Rows:
        return as_rows(name, X, sparse_ok=self.accepts_sparse, nan_ok=self.accepts_nan, nd_ok=self.accepts_nd)

    def _holdout_rows(
        self, holdout: tuple[Rows, Rows] | None, columns: tuple[int, ...]
    ) -> tuple[Rows, Rows] | None:
        if holdout is None:
            return None
        if not self.uses_holdout:
            raise ParameterError(
                f"holdout must be None for {type(self).__name__}, which chooses nothing by holdout rows."
            )
        if len(holdout) != 2:
            raise ParameterError(f"holdout must be a pair (positive, unlabeled), got {len(holdout)} parts.")
        kept = self._rows("holdout[0]", holdout[0]), self._rows("holdout[1]", holdout[1])
        if any(rows.shape[1:] != columns for rows in kept):
            raise DataError(f"holdout must have the columns of the training rows, {columns}.")
        return kept


def _weights(name: str, weight: Any, rows: Rows) -> FloatArray | None:
    return None if weight is None else check_weights(name, weight, n_rows(rows))
