"""The part of the state that all classifiers share: parameters, labels and columns."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from drpu._schema import Flag, Integer, List, Number, Optional, Schema, Text
from drpu._state import ModelState, declare
from drpu.core.decision import Costs
from drpu.core.prior.estimate import PriorEstimate
from drpu.exceptions import DataError
from drpu.tables.encoder import TableEncoder

__all__ = [
    "PUClassifier",
    "plain",
    "plain_parameters",
    "read_classes",
    "read_parameters",
    "read_plain",
    "read_prior",
    "write_classes",
]

# Booleans, numbers, strings of at most 9999 characters, and objects, which are strings or null in a file.
_LABEL_DTYPE = re.compile(r"^([<=|]?(b1|[iu][1248]|f[248]|U[0-9]{1,4}|O)|>[iuf][248]|>U[0-9]{1,4})$")
_COLUMNS = Schema(
    "classifier", config={"columns": Integer(1, 2**31), "names": Optional(List(Text(most=100_000)))}
)
_PRIOR = Schema(
    "prior",
    config={
        **{name: Number(0, 1) for name in ("value", "low", "high", "level")},
        "method": Text(most=200),
        "identified": Optional(Flag()),
    },
)


class PUClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that can be saved and loaded; every public subclass is registered by its name.

    A subclass implements ``state`` and ``from_state``. Loading finds the class by the kind of the
    state, which is the name of the class.
    """

    n_features_in_: int
    table_: TableEncoder | None = None  # how the columns of a data frame are read; None for arrays

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declare("drpu.classifier", cls.__name__, cls)

    @property
    def keeps_rows(self) -> bool:
        """Whether the fitted classifier contains training rows."""
        return False

    @abstractmethod
    def state(self) -> ModelState:
        """The state from which :meth:`from_state` restores the fitted classifier."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Any:
        """The fitted classifier restored from ``state``."""

    def _column_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"columns": self.n_features_in_}
        if hasattr(self, "feature_names_in_"):
            config["names"] = self.feature_names_in_.tolist()
        if self.table_ is not None and not (self.table_.plain and self.table_.named):
            config["table"] = self.table_.state()
        return config

    def _read_columns(self, config: dict[str, Any]) -> None:
        _COLUMNS.check(ModelState("", config))
        self.n_features_in_ = config["columns"]
        if config.get("names") is not None:
            if len(config["names"]) != self.n_features_in_:
                raise DataError(f"names must be {self.n_features_in_} texts, got {len(config['names'])}.")
            self.feature_names_in_ = np.array(config["names"], dtype=object)
            self.table_ = TableEncoder.numbers(config["names"])
        if "table" in config:
            self.table_ = TableEncoder.from_state(config["table"])
            if len(self.table_.columns) != self.n_features_in_:
                raise DataError(f"the table must have {self.n_features_in_} columns.")


def write_classes(classes: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The two labels as JSON."""
    values = [None if value != value else value for value in classes.tolist()]  # JSON has no NaN
    return {"dtype": classes.dtype.str, "values": values}


def read_classes(config: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The labels that :func:`write_classes` wrote."""
    if not isinstance(config, dict) or not {"dtype", "values"} <= config.keys():
        raise DataError(f"classes must have a dtype and values, got {config!r:.100}.")
    dtype, values = config["dtype"], config["values"]
    if not isinstance(dtype, str) or not _LABEL_DTYPE.match(dtype):
        raise DataError(f"the dtype of classes must be one of labels, got {dtype!r:.100}.")
    if not isinstance(values, list) or len(values) != 2 or not all(map(_is_label, values)):
        raise DataError(f"classes must be two labels, got {values!r:.100}.")
    try:
        classes = np.array(values, dtype=np.dtype(dtype))
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(f"classes must be two labels of the type {dtype}, got {values!r:.100}.") from error
    if classes.shape != (2,) or classes[0] == classes[1]:
        raise DataError(f"classes must be two different labels, got {values!r:.100}.")
    return classes


def _is_label(value: Any) -> bool:
    return value is None or (isinstance(value, (str, bool, int, float)) and len(str(value)) <= 10_000)


def read_prior(config: Any) -> PriorEstimate:
    """The prior, from the dictionary that ``asdict`` made of it."""
    if not isinstance(config, dict):
        raise DataError(f"a prior must have a value, limits, a level and a method, got {config!r:.100}.")
    _PRIOR.check(ModelState("", config))
    strange = sorted(config.keys() - {field.name for field in fields(PriorEstimate)})
    if strange:
        raise DataError(f"a prior has no {strange[0]!r:.100}.")
    return PriorEstimate(**config)


def plain_parameters(estimator: BaseEstimator, *, model: str) -> dict[str, Any]:
    """Constructor parameters as JSON.

    A model that is an object becomes None: ``from_state`` puts a clone of the fitted model
    there. A random state that is not an integer becomes None.
    """
    parameters = estimator.get_params(deep=False)
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    if not isinstance(parameters[model], str):
        parameters[model] = None
    return {name: plain(value) for name, value in parameters.items()}


def read_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that :func:`plain_parameters` wrote."""
    return {name: read_plain(value) for name, value in parameters.items()}


def plain(value: Any) -> Any:
    """A parameter as JSON."""
    if isinstance(value, Costs):
        return {"false_alarm": value.false_alarm, "miss": value.miss}
    if isinstance(value, PriorEstimate):
        return asdict(value)
    if isinstance(value, tuple):
        return list(value)
    return value.item() if isinstance(value, np.generic) else value


def read_plain(value: Any) -> Any:
    """The parameter that :func:`plain` wrote."""
    if isinstance(value, dict):
        return Costs(**value) if "miss" in value else read_prior(value)
    return tuple(value) if isinstance(value, list) else value
