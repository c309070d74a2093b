"""Errors and warnings of drpu.

::

    DRPUError
    ├── ParameterError (ValueError)      an argument breaks its rule
    │   ├── PriorError                   a class prior that cannot be one
    │   └── OutputError                  a path that must not be written
    ├── DataError (ValueError)           rows, scores or labels that cannot be used
    │   └── LabelError                   labels that do not say positive and unlabeled
    ├── DataTypeError (TypeError)        data of a kind that is not supported
    ├── ArtifactError (ValueError)       a file that cannot be written or read
    └── MissingExtraError (ImportError)  an optional dependency is not installed

    DRPUWarning (UserWarning)            each kind has a ``code`` to filter by
    ├── FewPositivesWarning              few-positives
    ├── PriorBoundaryWarning             prior-boundary
    ├── SeparationWarning                weak-separation
    ├── ShiftWarning                     not-prior-shift
    ├── AlphaWarning                     alpha-above-prior
    ├── SeenPositivesWarning             seen-positives
    ├── ImputationWarning                imputed
    ├── PositiveLabelWarning             positive-label
    ├── MorePositivesWarning             more-positives
    ├── IdColumnWarning                  id-column
    ├── ExtraColumnsWarning              extra-columns
    ├── UnseenLevelsWarning              unseen-levels
    ├── KeptValuesWarning                kept-values
    └── CollectedWarning                 collected
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlphaWarning",
    "ArtifactError",
    "CollectedWarning",
    "DRPUError",
    "DRPUWarning",
    "DataError",
    "DataTypeError",
    "ExtraColumnsWarning",
    "FewPositivesWarning",
    "IdColumnWarning",
    "ImputationWarning",
    "KeptValuesWarning",
    "LabelError",
    "MissingExtraError",
    "MorePositivesWarning",
    "OutputError",
    "ParameterError",
    "PositiveLabelWarning",
    "PriorBoundaryWarning",
    "PriorError",
    "SeenPositivesWarning",
    "SeparationWarning",
    "ShiftWarning",
    "UnseenLevelsWarning",
]


class DRPUError(Exception):
    """Whatever drpu raises on purpose."""


class ParameterError(DRPUError, ValueError):
    """An argument breaks its rule."""


class PriorError(ParameterError):
    """A class prior that cannot be one."""


class OutputError(ParameterError):
    """A path that must not be written: no regular file, or one of the inputs."""


class DataError(DRPUError, ValueError):
    """Rows, scores or labels that cannot be used."""


class LabelError(DataError):
    """Labels that do not say which rows are positive and which unlabeled."""


class DataTypeError(DRPUError, TypeError):
    """Data of a kind that is not supported."""


class ArtifactError(DRPUError, ValueError):
    """A classifier that cannot be written, or a file that cannot be read."""


class MissingExtraError(DRPUError, ImportError):
    """An optional dependency is not installed."""


class DRPUWarning(UserWarning):
    """An assumption that looks broken, or a choice made on the user's behalf."""

    code: ClassVar[str] = "drpu"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class FewPositivesWarning(DRPUWarning):
    """Too few labelled positives for a split, a prior or an interval to be trusted."""

    code = "few-positives"


class PriorBoundaryWarning(DRPUWarning):
    """The estimated prior lies at 0 or 1, where thresholds stop making sense."""

    code = "prior-boundary"


class SeparationWarning(DRPUWarning):
    """The score hardly separates the classes, so the prior is only an upper bound."""

    code = "weak-separation"


class ShiftWarning(DRPUWarning):
    """New data do not look like a mixture of the two classes seen in training."""

    code = "not-prior-shift"


class AlphaWarning(DRPUWarning):
    """The non-negative correction assumes more positives than there seem to be."""

    code = "alpha-above-prior"


class SeenPositivesWarning(DRPUWarning):
    """Priors were read from rows that the model has been trained on."""

    code = "seen-positives"


class ImputationWarning(DRPUWarning):
    """Missing values were filled in."""

    code = "imputed"


class PositiveLabelWarning(DRPUWarning):
    """The labels are strings and none of them was named as the positive one."""

    code = "positive-label"


class MorePositivesWarning(DRPUWarning):
    """There are more labelled positives than unlabeled rows, so the labels may be the wrong way round."""

    code = "more-positives"


class IdColumnWarning(DRPUWarning):
    """Columns that look like identifiers were left out."""

    code = "id-column"


class ExtraColumnsWarning(DRPUWarning):
    """Columns that training did not have are ignored."""

    code = "extra-columns"


class UnseenLevelsWarning(DRPUWarning):
    """Many rows hold levels of a category that training did not keep."""

    code = "unseen-levels"


class KeptValuesWarning(DRPUWarning):
    """A file holds values of columns: the levels of categories."""

    code = "kept-values"


class CollectedWarning(DRPUWarning):
    """A lazy frame was collected into memory."""

    code = "collected"
