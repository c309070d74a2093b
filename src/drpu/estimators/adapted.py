"""Moving a fitted classifier to another prior."""

from __future__ import annotations

from typing import Any, Self

from drpu._checks import check_fraction, check_weights
from drpu._typing import Rows
from drpu.core.prior import PriorEstimate, as_prior
from drpu.estimators._decision import RatioDecision
from drpu.estimators._validation import check_rows
from drpu.models._rows import n_rows

__all__ = ["Adaptable", "AdaptedClassifier"]


class Adaptable(RatioDecision):
    """Classifiers that can be moved to another prior without learning again."""

    def adapt(
        self,
        X: Rows,
        *,
        cost: float | None = None,
        sample_weight: Any = None,
        level: float = 0.95,
    ) -> AdaptedClassifier:
        """Estimate the prior of the batch ``X`` and return a classifier for it.

        Parameters
        ----------
        X : rows of shape (n, d)
            Unlabeled rows of the time or place to classify.
        cost : float, optional
            False-positive cost; that of this classifier when left out.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows in the counts.
        level : float, default=0.95
            Confidence level of the interval.

        Returns
        -------
        adapted : AdaptedClassifier
            Frozen: nothing that happens to this classifier changes it.
        """
        self._check_fitted()
        check_fraction("level", level)
        X = check_rows(self, X, model=self._core.model)
        weight = None if sample_weight is None else check_weights("sample_weight", sample_weight, n_rows(X))
        prior = self._core.prior_of(self._core.count(X, weight), level=level)
        return AdaptedClassifier(self, prior, cost=cost)

    def at_prior(self, prior: float | PriorEstimate, *, cost: float | None = None) -> AdaptedClassifier:
        """Classifier for rows whose prior is known; nothing is learnt again."""
        self._check_fitted()
        return AdaptedClassifier(self, prior, cost=cost)


class AdaptedClassifier(Adaptable):
    """A fitted classifier at another prior, cost, or both.

    Made by ``adapt`` and ``at_prior``. It is frozen, predicts like the classifier it
    came from, and can be adapted again: every adaptation starts from the training
    prior, never from another adaptation.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        A fitted classifier.
    prior : float or PriorEstimate
        Prior of the rows to classify.
    cost : float, optional
        False-positive cost; that of ``classifier`` when left out.

    Attributes
    ----------
    prior_ : PriorEstimate
        Prior of the rows to classify.
    train_prior_ : PriorEstimate
        Prior of the training population.
    threshold_ : float
        Ratio above which a row is called positive.
    classes_ : ndarray of shape (2,)
        The labels, the positive one last.
    """

    def __init__(
        self, classifier: Adaptable, prior: float | PriorEstimate, *, cost: float | None = None
    ) -> None:
        classifier._check_fitted()
        self.prior = as_prior("prior", prior)
        self.cost = check_fraction("cost", classifier._current_cost if cost is None else cost)
        self._core = classifier._core
        self.n_features_in_: int = classifier.n_features_in_
        if hasattr(classifier, "feature_names_in_"):
            self.feature_names_in_ = classifier.feature_names_in_

    @property
    def prior_(self) -> PriorEstimate:
        """Prior of the rows to classify."""
        return self.prior

    @property
    def train_prior_(self) -> PriorEstimate:
        """Prior of the training population."""
        return self._core.prior

    @property
    def _current_prior(self) -> PriorEstimate:
        return self.prior

    @property
    def _current_cost(self) -> float:
        return self.cost

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The prior and the cost; there is nothing to set."""
        return {"prior": self.prior, "cost": self.cost}

    def __repr__(self) -> str:
        return f"AdaptedClassifier(prior={self.prior}, train_prior={self.train_prior_}, cost={self.cost:g})"

    def __sklearn_clone__(self) -> Self:
        return self
