"""Records: what a file keeps of a fitted classifier.

Every classifier that can be saved has ``record()``, which returns a kept dataclass derived from
:class:`Record`, and ``record.classifier()`` makes the fitted classifier again. Classes of other
libraries, such as pipelines, register their own function with :func:`record_of`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Annotated, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils import Tags

from drpu._arrays import FloatArray
from drpu._checks import check_weights
from drpu._codec import Kept, Text, kept, kind_of
from drpu._process import DefaultErrors
from drpu.exceptions import DataTypeError
from drpu.models.crossfit import Folds
from drpu.models.learner import Function
from drpu.models.registry import LEARNERS, LearntElsewhere
from drpu.priors.estimate import PriorEstimate
from drpu.state.costs import KeptCosts
from drpu.state.labels import check_same_rows, labelled_flags
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import warn_of_order

MOST_VALUES = 1_000_000  # most values of an artificial row; longer rows are not made


class Record(Kept, ABC):
    """Base of the dataclasses at the top of a file."""

    @property
    def title(self) -> str:
        """Name of the class of the classifier."""
        return str(kind_of(type(self)))

    @abstractmethod
    def classifier(self, module: Any = None) -> Any:
        """The fitted classifier; ``module`` makes the torch module of a custom network."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the file keeps of the training rows, as plain values for JSON.

        ``values_of_rows`` names the parts that keep values of rows, and these values; it is empty
        unless the user allowed such parts.
        """

    def module(self) -> Any:
        """The torch module that the user gave to the classifier, or what makes it; or None."""
        return None

    @abstractmethod
    def trial(self, classifier: Any) -> FloatArray | None:
        """Scores of two artificial rows by ``classifier``; None if such rows cannot be made."""


def try_rows(model: Function) -> FloatArray | None:
    """Scores of two artificial rows; None if the function reads data frames or very long rows."""
    if model.accepts_frames or math.prod(model.row_shape) > MOST_VALUES:
        return None
    rows = np.stack([np.zeros(model.row_shape), np.ones(model.row_shape)])
    if isinstance(model, Folds):
        return model.scores(rows)
    return model.score(rows)


@singledispatch
def record_of(classifier: Any) -> Record:
    """The record of a fitted classifier."""
    if not hasattr(classifier, "record"):
        raise DataTypeError(
            f"classifier must be a classifier of drpu, got {type(classifier).__name__}."
        )
    record: Record = classifier.record()
    return record


class PUClassifier(DefaultErrors, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers of drpu, which know their columns and can be saved."""

    n_features_in_: int
    table_: TableEncoder | None = None  # how the columns of a data frame are read; None for arrays
    _used: Any = None  # an unfitted copy with the parameters of the last fit

    @abstractmethod
    def record(self) -> Record:
        """What a file keeps of the fitted classifier."""

    def _keep_parameters(self) -> None:
        """Keep a copy of the parameters of a fit, so that later changes have no effect on it."""
        self._used = clone(self)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """The parameters, and the scenario if the fit has chosen it."""
        text = str(super().__repr__(N_CHAR_MAX))
        scenario = getattr(self, "scenario_", None)  # None before a fit
        if scenario is None or self.get_params(deep=False).get("scenario") != "auto":
            return text
        separator = "" if text.endswith("()") else ", "
        return f"{text[:-1]}{separator}scenario_={scenario!r})"

    @abstractmethod
    def _intake(self) -> Any:
        """The learner, or another object that says which rows are accepted."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Rows with the smaller label are unlabeled, not negative: for two separated classes the
        # correct prior is 0, so accuracy is not meaningful.
        tags.classifier_tags.poor_score = True
        model = getattr(self, "model_", None)
        if model is None:  # a loaded classifier may have no learner
            model = self._intake()
        tags.input_tags.sparse = model.accepts_sparse
        tags.input_tags.allow_nan = model.accepts_nan
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of ``predict`` against true labels; a missing label means not positive.

        Labels are those of training, yes and no, 1 and 0, or true and false. ``GridSearchCV`` calls
        this method with training labels unless it is given ``scoring``: it then prefers whatever
        flags few unlabeled rows, a high ``cost`` above all, because unlabeled positives count as
        negatives here. docs/how-to/model.md, "Search over costs and parameters", shows which
        scorers to use.
        """
        warn_of_order(X, y=y, sample_weight=sample_weight)
        positive = labelled_flags(y, self.classes_)
        flagged = self.predict(X) == self.classes_[1]
        check_same_rows(len(flagged), len(positive))
        if sample_weight is not None:
            sample_weight = check_weights("sample_weight", sample_weight, len(flagged))
        return float(np.average(positive == flagged, weights=sample_weight))


_Plain = None | bool | int | float | str | tuple[int | float, ...]


@kept("learner")
@dataclass(frozen=True)
class LearnerRecord(Kept):
    """A learner of drpu that was a parameter."""

    name: Annotated[str, Text(pattern="|".join(LEARNERS))]
    parameters: dict[str, _Plain]

    def learner(self) -> Any:
        """The learner with these parameters."""
        return LEARNERS[self.name].learner_class()(**self.parameters)


Parameter = (
    None | bool | int | float | str | KeptCosts | PriorEstimate | LearnerRecord | LearntElsewhere
    | tuple[int | float, ...]
)  # fmt: skip


def parameters_of(classifier: BaseEstimator, **others: Any) -> dict[str, Parameter]:
    """The constructor parameters of a classifier as plain values; ``others`` replace parameters.

    A random state that is not an integer becomes None.
    """
    parameters = classifier.get_params(deep=False) | others
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    return {name: _plain(value) for name, value in parameters.items()}


def read_parameters(parameters: dict[str, Parameter]) -> dict[str, Any]:
    """Arguments of the constructor."""
    arguments: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, LearnerRecord):
            value = value.learner()
        arguments[name] = value
    return arguments


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str, PriorEstimate, LearntElsewhere)):
        return value
    name = type(value).__name__
    if name in LEARNERS and LEARNERS[name].module == type(value).__module__:
        parameters = {}
        for key, parameter in value.get_params(deep=False).items():
            parameters[key] = _plain(parameter)
        if not any(isinstance(parameter, Kept) for parameter in parameters.values()):
            return LearnerRecord(name, parameters)
    return LearntElsewhere(name)
