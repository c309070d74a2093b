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

from drpu._arrays import FloatArray
from drpu._codec import Kept, Text, kept, kind_of
from drpu.exceptions import DataTypeError
from drpu.models.learner import Folds, Function
from drpu.models.registry import LEARNERS, LearntElsewhere
from drpu.priors.estimate import PriorEstimate
from drpu.state.costs import KeptCosts

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

    def warn_of_prior(self, classifier: Any) -> None:
        """Warn if ``classifier`` makes labels at a prior that is not identified."""
        return


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
    | tuple[int | float | str, ...]
)  # fmt: skip


def parameters_of(classifier: Any) -> dict[str, Parameter]:
    """The constructor parameters of a classifier as plain values.

    A random state that is not an integer becomes None.
    """
    parameters = classifier.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    return _plain_values(parameters)


def read_parameters(parameters: dict[str, Parameter]) -> dict[str, Any]:
    """Arguments of the constructor."""
    arguments: dict[str, Any] = {}
    for name, value in parameters.items():
        if isinstance(value, LearnerRecord):
            value = value.learner()
        arguments[name] = value
    return arguments


def _plain_values(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str, PriorEstimate, LearntElsewhere)):
        return value
    name = type(value).__name__
    if name in LEARNERS and LEARNERS[name].module == type(value).__module__:
        parameters = _plain_values(value.get_params(deep=False))
        if not any(isinstance(parameter, Kept) for parameter in parameters.values()):
            return LearnerRecord(name, parameters)
    return LearntElsewhere(name)
