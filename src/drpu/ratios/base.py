"""Rows in the form that models accept: a float array or a sparse matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_array

from drpu._arrays import as_numpy
from drpu._checks import check_weights, unit_weights
from drpu._samples import Sample, SamplePair
from drpu._schema import Schema
from drpu._state import ModelState, class_of, declare
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ArtifactError, DataError, DataTypeError, ParameterError

__all__ = [
    "LOG_LIMIT",
    "RatioModel",
    "as_rows",
    "check_model_state",
    "is_images",
    "model_from_state",
    "within_limits",
]


def as_rows(name: str, X: Any, *, sparse_ok: bool = True, nan_ok: bool = False, nd_ok: bool = False) -> Rows:
    """``X`` as a numeric array or CSR matrix, or an error that explains why it is not one."""
    if sparse.issparse(X) and not sparse_ok:
        raise DataTypeError(f"{name} is sparse, which this model does not support: pass {name}.toarray().")
    X = as_numpy(X)
    if nd_ok and is_images(X):
        return np.ascontiguousarray(X)
    try:
        return check_array(
            X,
            accept_sparse="csr" if sparse_ok else False,
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan" if nan_ok else True,
            allow_nd=nd_ok,
            input_name=name,
        )
    except TypeError as error:
        raise DataTypeError(f"{name}: {error}") from error
    except ValueError as error:
        raise DataError(f"{name}: {error}") from error


def is_images(X: Any) -> bool:
    """Whether ``X`` contains 8-bit images, which models convert batch by batch."""
    return isinstance(X, np.ndarray) and X.dtype == np.uint8 and X.ndim > 2 and X.size > 0


LOG_LIMIT = 690.0  # its exp is finite, so that ratios of 0 and infinity do not give NaN


class RatioModel(BaseEstimator, ABC):  # type: ignore[misc]
    """A density ratio p(x | positive) / p(x | unlabeled), fitted to the two samples.

    A new kind of model is one file in ``drpu.ratios`` with one subclass, which names itself
    in its class statement and implements ``_fit``, ``_log_ratio``, ``state`` and
    ``from_state``::

        class KernelRatio(RatioModel, kind="kernel", named=True): ...

    ``kind`` is the name in artifacts. With ``named=True`` it is also a value of the ``model``
    parameter of :class:`drpu.DRPUClassifier`. Loading, naming and export follow from that
    statement and from the class attributes below.

    Scores are log-ratios in float64: near a posterior of 1, where priors are estimated,
    ratios in float32 would be tied.
    """

    kind: ClassVar[str]
    schema: ClassVar[Schema | None] = None  # rules for its states
    named: ClassVar[bool] = False
    accepts_sparse: ClassVar[bool] = True
    accepts_nan: ClassVar[bool] = False
    accepts_nd: ClassVar[bool] = False
    accepts_categories: ClassVar[bool] = False  # has a parameter ``categories``: positions of category codes
    accepts_frames: ClassVar[bool] = False  # accepts data frames, as :class:`drpu.tables.frames.FrameRows`
    uses_holdout: ClassVar[bool] = False
    fits_in_threads: ClassVar[bool] = False  # whether several can be fitted at the same time in one process

    def __init_subclass__(cls, *, kind: str | None = None, named: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if kind is not None:
            cls.kind, cls.named = kind, named
            declare("drpu.ratios", kind, cls)

    @property
    def keeps_rows(self) -> bool:
        """Whether the fitted model contains training rows."""
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
        """Fit the ratio to a positive and an unlabeled sample.

        Parameters
        ----------
        positive, unlabeled : rows of shape (n_positive, d) and (n_unlabeled, d)
            The two samples.
        holdout : pair of rows (positive, unlabeled), optional
            Rows for choosing among fits, which are not used for training. Without them a
            model that needs holdout rows takes a fraction of the given rows.
        positive_weight, unlabeled_weight : array-like, optional
            Weights of the rows. Multiplying them by a constant changes nothing.

        Returns
        -------
        self : RatioModel
        """
        pair = SamplePair(
            self._sample("positive", positive, positive_weight),
            self._sample("unlabeled", unlabeled, unlabeled_weight),
        )
        columns = pair.positive.rows.shape[1:]
        if columns != pair.unlabeled.rows.shape[1:]:
            raise DataError(
                f"positive and unlabeled must have the same columns, "
                f"got {columns} and {pair.unlabeled.rows.shape[1:]}."
            )
        return self.fit_checked(pair, self._holdout_pair(holdout, columns))

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Self:
        """Fit to samples whose rows and weights have been checked by the caller."""
        self.n_features_in_: int = pair.positive.rows.shape[1]
        self._fit(pair, holdout)
        return self

    def for_folds(self, pair: SamplePair, folds: int) -> list[Self]:
        """Unfitted copies, one for each fold; they may share what does not depend on labels."""
        return [clone(self) for _ in range(folds)]

    def for_labels(self, pair: SamplePair, folds: int) -> Self | None:
        """An unfitted copy for all rows, from which labels come; None if they come from all folds."""
        return None

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the density ratio, one float64 per row."""
        if not hasattr(self, "n_features_in_"):
            raise NotFittedError(f"{type(self).__name__} has not learnt a ratio yet: call fit_ratio first.")
        X = self._rows("X", X)
        if X.shape[1] != self.n_features_in_:
            raise DataError(f"X must have {self.n_features_in_} columns, as in training, got {X.shape[1]}.")
        return self.score_checked(X)

    def score_checked(self, X: Rows) -> FloatArray:
        """Log-ratios of rows that have been checked by the caller."""
        return within_limits(np.asarray(self._log_ratio(X), dtype=np.float64))

    @classmethod
    def together(cls, models: Sequence[Any]) -> Callable[[Rows], FloatArray] | None:
        """A function with the scores of checked rows by several models of this kind, (rows, models).

        They are those of :meth:`score_checked`, bit for bit. None where nothing is gained.
        """
        return None

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio, one value per row."""
        return np.exp(self.log_ratio(X))

    def describe(self) -> str:
        """A short description of the fitted model."""
        return type(self).__name__

    @abstractmethod
    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        """Fit to checked samples."""

    @abstractmethod
    def _log_ratio(self, X: Rows) -> FloatArray:
        """Score checked rows."""

    @abstractmethod
    def state(self) -> ModelState:
        """The state from which :meth:`from_state` makes a model with the same scores."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state; ``module`` makes the torch module of a custom network."""

    def contributions(self, X: Rows) -> FloatArray:
        """Contribution of each column to the score of checked rows; the last column is the base value."""
        raise ParameterError(
            f"a {type(self).__name__} has no contributions of columns: use model='boosted' or 'auto', "
            "or permutation_importance with AUCScorer for any model."
        )

    def onnx_scores(self, graph: Any, X: str) -> str:
        """Add the log-ratios of the rows ``X`` to an ONNX graph; the name of the (rows, 1) result."""
        raise ArtifactError(
            f"a {type(self).__name__} cannot be exported to ONNX: choose the default, or a kernel, boosted "
            "or network model, or deploy with save."
        )

    def _rows(self, name: str, X: Any) -> Rows:
        return as_rows(name, X, sparse_ok=self.accepts_sparse, nan_ok=self.accepts_nan, nd_ok=self.accepts_nd)

    def _sample(self, name: str, X: Any, weight: Any = None) -> Sample:
        rows = self._rows(name, X)
        if weight is None:
            return Sample(rows)
        return Sample(rows, unit_weights(check_weights(f"{name}_weight", weight, rows.shape[0])))

    def _holdout_pair(self, holdout: tuple[Rows, Rows] | None, columns: tuple[int, ...]) -> SamplePair | None:
        if holdout is None:
            return None
        if not self.uses_holdout:
            raise ParameterError(
                f"holdout must be None for {type(self).__name__}, which does not use holdout rows."
            )
        if len(holdout) != 2:
            raise ParameterError(f"holdout must be a pair (positive, unlabeled), got {len(holdout)} parts.")
        kept = SamplePair(self._sample("holdout[0]", holdout[0]), self._sample("holdout[1]", holdout[1]))
        if any(sample.rows.shape[1:] != columns for sample in (kept.positive, kept.unlabeled)):
            raise DataError(f"holdout must have the columns of the training rows, {columns}.")
        return kept


def within_limits(scores: FloatArray) -> FloatArray:
    """Scores between the two limits; the same as ``np.clip``, which takes longer for a single row."""
    return np.asarray(np.minimum(np.maximum(scores, -LOG_LIMIT), LOG_LIMIT))


def model_from_state(state: ModelState, *, module: Any = None) -> RatioModel:
    """The fitted model restored from ``state``.

    Parameters
    ----------
    state : ModelState
        The result of ``model.state()``.
    module : callable, optional
        Makes the torch module of a custom network.
    """
    model: RatioModel = class_of("drpu.ratios", state, RatioModel).from_state(state, module=module)
    return model


def check_model_state(state: ModelState, base: type[Any] = RatioModel) -> None:
    """Raise unless a model could be restored from ``state``; no model is made, and no backend is used.

    Parameters
    ----------
    state : ModelState
        The content of a file, which may be anything.
    base : type, default=RatioModel
        The kind of model that it must be.
    """
    cls = class_of("drpu.ratios", state, base)
    if hasattr(cls, "check_state"):
        cls.check_state(state)
    for part in state.parts.values():
        check_model_state(part)
