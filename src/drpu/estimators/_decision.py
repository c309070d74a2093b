"""Labels and probabilities from a ratio, a prior and a cost."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from drpu._typing import FloatArray, Rows
from drpu.core.decision import ratio_posterior, ratio_threshold
from drpu.core.prior import PriorEstimate
from drpu.estimators._validation import check_rows
from drpu.estimators.fitted import FittedRatio
from drpu.estimators.kept import KeptClassifier
from drpu.estimators.scored_rows import ScoredRows
from drpu.models.base import LOG_LIMIT

__all__ = ["RatioDecision"]


class RatioDecision(KeptClassifier):
    """Decisions from a fitted ratio, the prior of the rows to classify, and a cost.

    Each row is treated alone: a row gets the same label in every batch.
    """

    fitted_: FittedRatio

    @property
    @abstractmethod
    def test_prior_(self) -> PriorEstimate:
        """Prior of the rows to classify, which :meth:`predict` uses."""

    @property
    @abstractmethod
    def cost_(self) -> float:
        """False-positive cost in use."""

    @property
    def train_prior_(self) -> PriorEstimate:
        """Prior of the training population."""
        self._check_fitted()
        return self.fitted_.train_prior

    @property
    def prior_(self) -> PriorEstimate:
        """Shorthand for ``test_prior_``, the prior that :meth:`predict` uses."""
        return self.test_prior_

    @property
    def threshold_(self) -> float:
        """Ratio above which a row is flagged."""
        self._check_fitted()
        return ratio_threshold(self.fitted_.train_prior.value, self.test_prior_.value, cost=self.cost_)

    @property
    def classes_(self) -> np.ndarray[Any, Any]:
        """The two labels of the training data, the positive one last."""
        self._check_fitted()
        return self.fitted_.classes

    def ratio(self, X: Rows) -> FloatArray:
        """Density ratio p(x | positive) / p(x) relative to the training population.

        It lies between 0 and 1 / training prior, and does not depend on the prior of the
        rows to classify.
        """
        return self._below_ceiling(self._log_ratio(X))

    def decision_function(self, X: Rows) -> FloatArray:
        """Log of the ratio divided by the threshold: above 0 for flagged rows."""
        return self._margin(self._log_ratio(X))

    def predict(self, X: Rows) -> np.ndarray[Any, Any]:
        """Label of each row, in the coding of the training labels; a tie is negative."""
        return self._labels(self.decision_function(X))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class under the current prior, in the order of ``classes_``."""
        posterior = self._posterior(self._log_ratio(X))
        both = np.empty((len(posterior), 2))
        both[:, 0], both[:, 1] = 1 - posterior, posterior
        return both

    def outputs(self, X: Rows) -> dict[str, np.ndarray[Any, Any]]:
        """Label, probability of the positive class, ratio and score of each row, from one pass over them.

        The score is that of ``decision_function``.
        """
        log_ratio = self._log_ratio(X)
        margin = self._margin(log_ratio)
        return {
            "label": self._labels(margin),
            "probability": self._posterior(log_ratio),
            "ratio": self._below_ceiling(log_ratio),
            "score": margin,
        }

    def _margin(self, log_ratio: FloatArray) -> FloatArray:
        return np.asarray(log_ratio - self._log_threshold())

    def _log_threshold(self) -> float:
        """Log of the threshold; finite if there is only one class, so that the ranking is kept."""
        threshold = self.threshold_
        if np.isinf(threshold):
            return float(np.copysign(2 * LOG_LIMIT, threshold))
        return float(np.log(threshold)) + self.fitted_.tie_break  # broken ties stay negative

    def _labels(self, margin: FloatArray) -> np.ndarray[Any, Any]:
        return self.classes_[(margin > 0).astype(np.intp)]

    def _posterior(self, log_ratio: FloatArray) -> FloatArray:
        ratio = self._below_ceiling(log_ratio)
        return ratio_posterior(ratio, self.fitted_.train_prior.value, self.test_prior_.value)

    def _below_ceiling(self, log_ratio: FloatArray) -> FloatArray:
        return np.minimum(np.exp(log_ratio), 1 / max(self.fitted_.train_prior.value, 1e-12))

    def _log_ratio(self, X: Rows) -> FloatArray:
        if isinstance(X, ScoredRows):
            return self._checked().log_ratio_of(X.scores)
        return self._checked().log_ratio(self._checked_rows(X))

    def _checked_rows(self, X: Rows) -> Rows:
        """Rows in the form that the model accepts."""
        return check_rows(self, X, model=self._checked().model)

    def _checked(self) -> FittedRatio:
        self._check_fitted()
        return self.fitted_

    def _check_fitted(self) -> None:
        if not hasattr(self, "fitted_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "fitted_")
