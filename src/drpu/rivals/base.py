"""Common base of the other PU methods: validation, prior, labels and state."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state

from drpu._checks import check_fraction
from drpu._samples import SamplePair
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.classifier.kept import (
    KeptClassifier,
    plain_parameters,
    read_classes,
    read_parameters,
    read_prior,
    write_classes,
)
from drpu.classifier.models import LostLearner, resolve_score
from drpu.classifier.priors import Population, check_prior_parameter, estimate_population
from drpu.classifier.validation import Classes, check_rows, check_scenario, pair_pu, split_pu
from drpu.core.prior.estimate import PriorEstimate
from drpu.exceptions import DataError
from drpu.functions._bridge import function_of, state_of
from drpu.functions.base import Function
from drpu.ratios.base import ScoreLearner

__all__ = ["PURival", "PosteriorRival", "ScoredRival"]


class PURival(KeptClassifier):
    """A classifier that is trained for one prior.

    A subclass implements ``_intake``, ``_learn``, ``decision_function`` and the parts of its
    state. Each row is treated alone: a row gets the same label in every batch.
    """

    prior: Any
    cost: float
    scenario: str
    random_state: Any

    prior_: PriorEstimate
    classes_: np.ndarray[Any, Any]
    n_features_in_: int

    def fit(self, X: Rows, y: Any, sample_weight: Any = None) -> Self:
        """Fit the classifier to rows of which some are labelled positive.

        Parameters
        ----------
        X : rows of shape (n, d)
            NumPy, pandas, polars, Arrow or torch, and scipy sparse if the model supports it.
        y : array-like of shape (n,)
            Two labels: labelled positive, and unlabeled.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        self : classifier
        """
        self._check_parameters()
        return self._fit(*split_pu(self, X, y, sample_weight, model=self._intake()))

    def fit_pu(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Fit the classifier to a positive and an unlabeled sample; labels are 1 and 0.

        In the single-sample scenario ``unlabeled`` contains the unlabeled rows only.
        """
        self._check_parameters()
        model = self._intake()
        return self._fit(*pair_pu(self, positive, unlabeled, positive_weight, unlabeled_weight, model=model))

    def predict(self, X: Rows) -> np.ndarray[Any, Any]:
        """Label of each row, in the coding of the training labels; a tie is negative."""
        positive = self.decision_function(X) > 0
        return self.classes_[positive.astype(np.intp)]

    @abstractmethod
    def decision_function(self, X: Rows) -> FloatArray:
        """Score of each row: above 0 for positive predictions."""

    @abstractmethod
    def _intake(self) -> Any:
        """An object with the attributes ``accepts_sparse``, ``accepts_nan`` and ``accepts_nd``."""

    @abstractmethod
    def _learn(self, pair: SamplePair, rng: np.random.RandomState) -> None:
        """Fit to checked rows."""

    def _fit(self, pair: SamplePair, classes: Classes, **more: Any) -> Self:
        self._learn(pair, check_random_state(self.random_state), **more)
        self.classes_ = classes
        return self

    def _population(self, pair: SamplePair, rng: np.random.RandomState) -> Population:
        """Priors of the training data."""
        return estimate_population(self.prior, pair, self._labelled_fraction(pair), rng)

    def _labelled_fraction(self, pair: SamplePair) -> float:
        return pair.labelled_fraction if self.scenario == "single-sample" else 0.0

    def _rows(self, X: Rows, model: Any) -> Rows:
        self._check_fitted()
        return check_rows(self, X, model=model)

    def _check_parameters(self) -> None:
        check_scenario(self.scenario)
        check_fraction("cost", self.cost)
        check_prior_parameter("prior", self.prior)

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or fit_pu first."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Rows with the smaller label are unlabeled, not negative.
        tags.classifier_tags.poor_score = True
        intake = self._intake()
        tags.input_tags.sparse, tags.input_tags.allow_nan = intake.accepts_sparse, intake.accepts_nan
        return tags

    # -- state ---------------------------------------------------------------------

    _model_parameter: ClassVar[str] = "model"  # the parameter that is restored from the fitted model

    def state(self) -> ModelState:
        """The state from which :meth:`from_state` restores the fitted classifier."""
        self._check_fitted()
        config: dict[str, Any] = {
            "classes": write_classes(self.classes_),
            "prior": asdict(self.prior_),
            "parameters": plain_parameters(self, model=self._model_parameter),
            "learnt": self._learnt(),
        } | self._column_config()
        return ModelState(type(self).__name__, config, parts=self._parts())

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """The fitted classifier restored from ``state``."""
        config = state.config
        for name in ("parameters", "learnt"):
            if not isinstance(config.get(name), dict):
                raise DataError(f"{name} must be a dictionary in the state of a {cls.__name__}.")
        if state.arrays or state.blobs:
            raise DataError(f"the state of a {cls.__name__} has parts only.")
        classifier = cls(**read_parameters(config["parameters"]))
        classifier.classes_ = read_classes(config["classes"])
        classifier.prior_ = read_prior(config["prior"])
        classifier._read_columns(config)
        classifier._restore(config["learnt"], state.parts, module)
        return classifier

    def _learnt(self) -> dict[str, Any]:
        """Fitted numbers other than the models, as JSON values."""
        return {}

    @abstractmethod
    def _parts(self) -> dict[str, ModelState]:
        """States of the fitted models."""

    @abstractmethod
    def _restore(self, learnt: dict[str, Any], parts: dict[str, ModelState], module: Any) -> None:
        """Restore the values of :meth:`_learnt` and :meth:`_parts`."""


class PosteriorRival(PURival):
    """A method that estimates the log of the posterior, which may exceed 0."""

    cost: float

    @abstractmethod
    def _log_posterior(self, X: Rows) -> FloatArray:
        """Log of the estimated probability of the positive class."""

    def decision_function(self, X: Rows) -> FloatArray:
        """Logarithm of the unclipped posterior divided by the cost: above 0 for positive predictions."""
        return np.asarray(self._log_posterior(X) - np.log(self.cost))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class, in the order of ``classes_``, clipped to [0, 1]."""
        posterior = np.exp(np.minimum(self._log_posterior(X), 0))
        return np.column_stack([1 - posterior, posterior])


class ScoredRival(PURival):
    """A method whose fitted part is one score, ``model_``."""

    model: Any
    model_: Function

    def _intake(self) -> Any:
        return resolve_score(self.model)

    def _seeded(self, rng: np.random.RandomState) -> ScoreLearner:
        model: ScoreLearner = self._intake()
        if model.random_state is None:
            model.set_params(random_state=int(rng.randint(2**31 - 1)))
        return model

    def _scores(self, X: Rows) -> FloatArray:
        self._check_fitted()
        return self.model_.score(self._rows(X, self.model_))

    def _parts(self) -> dict[str, ModelState]:
        return {"model": state_of(self.model_)}

    def _restore(self, learnt: dict[str, Any], parts: dict[str, ModelState], module: Any) -> None:
        self.model_ = function_of(parts["model"], module=module)
        if self.model is None:  # it was an object, of which the function was kept
            self.model = LostLearner(self.model_)
