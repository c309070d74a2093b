"""Records: what a file keeps of a fitted classifier.

Every classifier that can be saved has ``record()``, which returns a kept dataclass derived from
:class:`Record`, and ``record.classifier()`` makes the fitted classifier again. Classes of other libraries,
such as pipelines, register their own function with :func:`record_of`.
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

from drpu._checks import check_weights
from drpu._codec import Items, Kept, Number, Text, Whole, kept, kind_of
from drpu._typing import FloatArray
from drpu.audits.plan import check_same_rows, labelled_flags
from drpu.decisions.thresholds import KeptCosts
from drpu.exceptions import DataError, DataTypeError
from drpu.models.crossfit import Folds
from drpu.models.learner import Function
from drpu.models.registry import LEARNERS, LearntElsewhere
from drpu.priors.estimate import PriorEstimate
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

        ``values_of_rows`` names the parts that keep values of rows, and these values; it is empty unless the
        user allowed such parts.
        """

    def module(self) -> Any:
        """The torch module that the user gave to the classifier, or what makes it; None without one."""
        return None

    @abstractmethod
    def trial(self, classifier: Any) -> FloatArray | None:
        """Scores of two artificial rows by the model of ``classifier``; None if such rows cannot be made."""


def try_rows(model: Function) -> FloatArray | None:
    """Scores of two artificial rows; None if the function reads data frames or very long rows."""
    if model.accepts_frames or math.prod(model.row_shape) > MOST_VALUES:
        return None
    rows = np.stack([np.zeros(model.row_shape), np.ones(model.row_shape)])
    return model.scores(rows) if isinstance(model, Folds) else model.score(rows)


@singledispatch
def record_of(classifier: Any) -> Record:
    """The record of a fitted classifier."""
    if not hasattr(classifier, "record"):
        raise DataTypeError(
            f"classifier must be a classifier of drpu, got {type(classifier).__name__}."
        )
    record: Record = classifier.record()
    return record


class PUClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the classifiers of drpu, which know their columns and can be saved."""

    n_features_in_: int
    table_: TableEncoder | None = None  # how the columns of a data frame are read; None for arrays
    _used: Any = None  # an unfitted copy with the parameters of the last fit

    @abstractmethod
    def record(self) -> Record:
        """What a file keeps of the fitted classifier."""

    def _keep_parameters(self) -> None:
        """Keep a copy of the parameters of a fit, so that later changes of them have no effect on it."""
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
        fitted = getattr(self, "model_", None)  # a loaded classifier may have no learner
        model = self._intake() if fitted is None else fitted
        tags.input_tags.sparse, tags.input_tags.allow_nan = model.accepts_sparse, model.accepts_nan
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of ``predict`` against the labels ``y``, in which a missing one means not positive."""
        warn_of_order(X, y=y, sample_weight=sample_weight)
        positive, found = labelled_flags(y, self.classes_), self.predict(X) == self.classes_[1]
        check_same_rows(len(found), len(positive))
        weight = (
            None
            if sample_weight is None
            else check_weights("sample_weight", sample_weight, len(found))
        )
        return float(np.average(positive == found, weights=weight))


@kept("columns")
@dataclass(frozen=True)
class Columns(Kept):
    """The columns of the training rows: their number and, for data frames, names and how they are read."""

    n: Annotated[int, Whole(1, 2**31, dim="d")]
    names: Annotated[tuple[str, ...], Items(dim="d")] | None
    table: TableEncoder | None

    def __post_init__(self) -> None:
        if self.table is not None and len(self.table.columns) != self.n:
            raise DataError(f"the table must have {self.n} columns, got {len(self.table.columns)}.")

    @classmethod
    def of(cls, classifier: PUClassifier) -> Columns:
        """The columns of a fitted classifier."""
        names = getattr(classifier, "feature_names_in_", None)
        return cls(
            classifier.n_features_in_,
            None if names is None else tuple(map(str, names)),
            classifier.table_,
        )

    def set_on(self, classifier: PUClassifier) -> None:
        """Set the attributes that scikit-learn defines for columns."""
        classifier.n_features_in_, classifier.table_ = self.n, self.table
        if self.names is not None:
            classifier.feature_names_in_ = np.array(self.names, dtype=object)

    def check_model(self, model: Function, *, width: int | None = None) -> None:
        """Raise unless ``model`` scores rows with these columns; ``width`` is that of flattened images."""
        width = width or (self.n if self.table is None else self.table.width)
        if model.n_columns != width:
            raise DataError(
                f"the model must have {width} columns, as the rows do, got {model.n_columns}."
            )

    def facts(self) -> dict[str, Any]:
        """Which names of the data they keep, and how many levels of each category."""
        levels = {} if self.table is None else self.table.kept_values()
        return {"column_names": self.names is not None, "category_levels": levels}


LONGEST_LABEL = 9999  # characters of a label, a number of four digits in its type
_LABEL_DTYPE = r"[<=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,4}|O)|>[iuf][248]|>U[0-9]{1,4}"
_Label = None | bool | int | Annotated[float, Number()] | Annotated[str, Text(most=LONGEST_LABEL)]


@kept("labels")
@dataclass(frozen=True)
class Labels(Kept):
    """The two labels of a classifier, the positive one last.

    Booleans, numbers, strings of at most 9999 characters, or objects, which are strings or None here.
    """

    dtype: Annotated[str, Text(pattern=_LABEL_DTYPE)]
    values: tuple[_Label, _Label]

    def __post_init__(self) -> None:
        classes = self.classes()
        if classes.shape != (2,) or classes[0] == classes[1]:
            raise DataError(f"classes must be two different labels, got {self.values!r:.100}.")

    @classmethod
    def of(cls, classes: np.ndarray[Any, Any]) -> Labels:
        """The labels of a fitted classifier."""
        plain = (
            str.__str__(value) if isinstance(value, str) else value for value in classes.tolist()
        )
        negative, positive = (None if value != value else value for value in plain)
        return cls(classes.dtype.str, (negative, positive))

    def classes(self) -> np.ndarray[Any, Any]:
        """The labels as the attribute ``classes_``; a missing number is NaN."""
        try:
            return np.array(self.values, dtype=np.dtype(self.dtype))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"classes must be two labels of the type {self.dtype}.") from error


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
    found = classifier.get_params(deep=False) | others
    if not isinstance(found["random_state"], (int, np.integer)):
        found["random_state"] = None
    return {name: _plain(value) for name, value in found.items()}


def read_parameters(parameters: dict[str, Parameter]) -> dict[str, Any]:
    """Arguments of the constructor."""
    return {
        name: value.learner() if isinstance(value, LearnerRecord) else value
        for name, value in parameters.items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str, PriorEstimate, LearntElsewhere)):
        return value
    name = type(value).__name__
    if name in LEARNERS and LEARNERS[name].module == type(value).__module__:
        parameters = {key: _plain(own) for key, own in value.get_params(deep=False).items()}
        if not any(isinstance(own, Kept) for own in parameters.values()):
            return LearnerRecord(name, parameters)
    return LearntElsewhere(name)
