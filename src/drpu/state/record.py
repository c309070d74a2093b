"""Records: what a file keeps of a fitted classifier.

Every classifier that can be saved has ``record()``, which returns a kept dataclass derived from
:class:`Record`, and ``record.classifier()`` makes the fitted classifier again. Classes of other
libraries, such as pipelines, register their own function with :func:`record_of`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Annotated, Any

import numpy as np

from drpu._arrays import FloatArray
from drpu._codec import Kept, Text, kept, kind_of
from drpu.exceptions import DataError, DataTypeError
from drpu.models.learner import Folds, Function
from drpu.models.registry import LEARNERS, LearntElsewhere
from drpu.priors.estimate import PriorEstimate
from drpu.state.costs import KeptCosts
from drpu.tables.values import ColumnProfile

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
        """Scores of artificial rows by ``classifier``; None if such rows cannot be made.

        It raises if the classifier cannot label them.
        """

    def warn_of_prior(self, classifier: Any) -> None:
        """Warn if ``classifier`` makes labels at a prior that is not identified."""
        return


def try_rows(model: Function, profiles: Sequence[ColumnProfile] = ()) -> FloatArray | None:
    """Scores of artificial rows; None if the function reads data frames or very long rows.

    Besides zeros and ones, these are the ends of the ranges in the profiles of the columns, and
    missing values.
    """
    if model.accepts_frames or math.prod(model.row_shape) > MOST_VALUES:
        return None
    made = [np.zeros(model.row_shape), np.ones(model.row_shape)]
    if profiles:
        made += _ends_of_ranges(profiles, missing=model.accepts_nan)
    rows = np.stack(made)
    if isinstance(model, Folds):
        scores = model.scores(rows)
    else:
        scores = model.score(rows)
    if len(scores) != len(rows):
        raise DataError("there must be one score for each row.")
    return scores


def _ends_of_ranges(profiles: Sequence[ColumnProfile], *, missing: bool) -> list[FloatArray]:
    """Rows with the lowest, and with the highest limit of all columns, or codes of levels.

    With ``missing`` there is one more, without values.
    """
    lowest = np.zeros(len(profiles))
    highest = np.zeros(len(profiles))
    absent = np.zeros(len(profiles))
    for k, profile in enumerate(profiles):
        cells = profile.cells
        if cells.codes is not None:
            highest[k] = len(cells.codes) - 1
            continue
        absent[k] = np.nan
        if len(cells.edges):
            lowest[k] = cells.edges[0]
            highest[k] = cells.edges[-1]
    return [lowest, highest, absent] if missing else [lowest, highest]


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
