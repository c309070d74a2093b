"""Records: what a file keeps of a fitted classifier.

Every classifier that can be saved has ``record()``, which returns a kept dataclass derived from
:class:`Record`, and ``record.classifier()`` makes the fitted classifier again. Classes of other libraries,
such as pipelines, register their own function with :func:`record_of`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np

from drpu._checks import check_choice, check_integer
from drpu._codec import Kept
from drpu._typing import FloatArray
from drpu.exceptions import DataTypeError, KeptValuesWarning, ParameterError
from drpu.tables.encoder import TableEncoder

__all__ = ["Record", "Recorded", "Reduction", "record_of"]

MOST_VALUES = 1_000_000  # most values of an artificial row; longer rows are not made
_Table = TypeVar("_Table", TableEncoder, None)


@dataclass(frozen=True)
class Reduction:
    """The options of ``save`` that leave out or hide values of the training rows."""

    column_values: str | None = None
    rare_values: int | None = None
    column_profiles: bool = True
    levels: int | None = None

    def __post_init__(self) -> None:
        if self.column_values is not None:
            check_choice("column_values", self.column_values, ("keep", "hash"))
        if self.rare_values is not None:
            check_integer("rare_values", self.rare_values, low=1)
        if not isinstance(self.column_profiles, bool):
            raise ParameterError(f"column_profiles must be True or False, got {self.column_profiles!r}.")
        if self.levels is not None:
            check_integer("levels", self.levels, low=1)

    def table(self, table: _Table) -> _Table:
        """The table to write; warns if it keeps column values without the consent of the user."""
        if table is None:
            return table
        if self.rare_values is not None:
            table = table.without_rare(self.rare_values)
        if self.column_values == "hash":
            table = table.hashed()
        if self.column_values is None and table.salt is None and table.kept_values():
            _warn_of_values(table.kept_values())
        return table


class Record(Kept, ABC):
    """Base of the dataclasses at the top of a file."""

    @abstractmethod
    def classifier(self, module: Any = None) -> Any:
        """The fitted classifier; ``module`` makes the torch module of a custom network."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """What the file keeps of the training rows, as plain values for JSON.

        ``values_of_rows`` names the parts that keep values of rows, and these values; it is empty unless the
        user allowed such parts.
        """

    @abstractmethod
    def reduced(self, reduction: Reduction) -> Record:
        """The record with fewer values of the training rows."""

    def module(self) -> Any:
        """What makes the torch module that the user gave to the classifier, or None."""
        return None

    def trial(self, classifier: Any) -> FloatArray | None:
        """Scores of two artificial rows by the model of ``classifier``; None if such rows cannot be made."""
        if classifier.n_features_in_ > MOST_VALUES:
            return None
        rows = np.stack([np.zeros(classifier.n_features_in_), np.ones(classifier.n_features_in_)])
        return np.asarray(classifier.decision_function(rows), dtype=np.float64)


@runtime_checkable
class Recorded(Protocol):
    """A classifier that can be saved."""

    def record(self) -> Record:
        """The record of the fitted classifier."""


@singledispatch
def record_of(classifier: Any) -> Record:
    """The record of a fitted classifier."""
    if not isinstance(classifier, Recorded):
        raise DataTypeError(f"classifier must be a classifier of drpu, got {type(classifier).__name__}.")
    return classifier.record()


def _warn_of_values(kept: dict[str, int]) -> None:
    shown = ", ".join(f"{name!r} ({n})" for name, n in list(kept.items())[:8])
    more = f" and {len(kept) - 8} more columns" if len(kept) > 8 else ""
    warnings.warn(
        f"the file keeps values of the data, the levels of the categories {shown}{more}: pass "
        "column_values='keep' to accept this, 'hash' to write digests, rare_values=20 to leave out values "
        "of fewer than 20 rows.",
        KeptValuesWarning,
        stacklevel=5,
    )
