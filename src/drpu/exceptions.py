"""Errors and warnings of drpu.

::

    DRPUError
    ├── ParameterError (ValueError)      an argument violates its rule
    │   ├── PriorError                   a value that is not a class prior
    │   └── OutputError                  a path that must not be written
    ├── DataError (ValueError)           rows, scores or labels that cannot be used
    │   └── LabelError                   labels that do not mark positive and unlabeled rows
    ├── DataTypeError (TypeError)        data of an unsupported type
    ├── ArtifactError (ValueError)       a file that cannot be written or read
    ├── ClusterError (RuntimeError)      a cluster that is missing, or that failed
    └── MissingExtraError (ImportError)  an optional dependency is not installed

    DRPUWarning (UserWarning)            each class has a ``code``
    ├── FewPositivesWarning              few-positives
    ├── BacktestWarning                  backtest
    ├── FewRowsWarning                   few-rows
    ├── LateLabelsWarning                late-labels
    ├── PriorBoundaryWarning             prior-boundary
    ├── SeparationWarning                weak-separation
    ├── ShiftWarning                     not-prior-shift
    ├── AlphaWarning                     alpha-above-prior
    ├── SeenPositivesWarning             seen-positives
    ├── CopiedPositivesWarning           copied-positives
    ├── ImputationWarning                imputed
    ├── PositiveLabelWarning             positive-label
    ├── MorePositivesWarning             more-positives
    ├── IdColumnWarning                  id-column
    ├── ExtraColumnsWarning              extra-columns
    ├── UnseenLevelsWarning              unseen-levels
    ├── KeptValuesWarning                kept-values
    ├── CollectedWarning                 collected
    ├── MissingAnswersWarning            missing-answers
    └── LabelledSampleWarning            labelled-sample
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AlphaWarning",
    "ArtifactError",
    "BacktestWarning",
    "ClusterError",
    "CollectedWarning",
    "CopiedPositivesWarning",
    "DRPUError",
    "DRPUWarning",
    "DataError",
    "DataTypeError",
    "ExtraColumnsWarning",
    "FewPositivesWarning",
    "FewRowsWarning",
    "IdColumnWarning",
    "ImputationWarning",
    "KeptValuesWarning",
    "LabelError",
    "LabelledSampleWarning",
    "LateLabelsWarning",
    "MissingAnswersWarning",
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
    """Base class of all errors that drpu raises."""


class ParameterError(DRPUError, ValueError):
    """An argument violates its rule."""


class PriorError(ParameterError):
    """A value that is not a class prior."""


class OutputError(ParameterError):
    """A path that must not be written: it is not a regular file, or it is one of the inputs."""


class DataError(DRPUError, ValueError):
    """Rows, scores or labels that cannot be used."""


class LabelError(DataError):
    """Labels that do not mark which rows are positive and which are unlabeled."""


class DataTypeError(DRPUError, TypeError):
    """Data of an unsupported type."""


class ArtifactError(DRPUError, ValueError):
    """A classifier that cannot be written, or a file that cannot be read."""


class MissingExtraError(DRPUError, ImportError):
    """An optional dependency is not installed."""


class ClusterError(DRPUError, RuntimeError):
    """A cluster that is missing, or that failed during a computation."""


class DRPUWarning(UserWarning):
    """Base class of all warnings: an assumption may be violated, or a choice was made for the user."""

    code: ClassVar[str] = "drpu"

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"


class FewPositivesWarning(DRPUWarning):
    """There are too few labelled positives for a reliable split, prior or interval."""

    code = "few-positives"


class BacktestWarning(DRPUWarning):
    """Past periods or their labels are too few for a backtest, or seem incomplete."""


class LateLabelsWarning(DRPUWarning):
    """Fewer labels have arrived for new rows than expected; they may be late."""


class FewRowsWarning(DRPUWarning):
    """There are few new rows, so their prior and the expected performance are rough."""

    code = "few-rows"


class PriorBoundaryWarning(DRPUWarning):
    """The estimated prior is 0 or 1, so the threshold is infinite or meaningless."""

    code = "prior-boundary"


class SeparationWarning(DRPUWarning):
    """The score hardly separates the classes, so the estimated prior is only an upper bound."""

    code = "weak-separation"


class ShiftWarning(DRPUWarning):
    """The scores of new data are not a mixture of the two classes of training."""

    code = "not-prior-shift"


class AlphaWarning(DRPUWarning):
    """``alpha`` of the non-negative risk exceeds the estimated prior."""

    code = "alpha-above-prior"


class CopiedPositivesWarning(DRPUWarning):
    """Labelled positives are listed more than once; copies count once."""

    code = "copied-positives"


class SeenPositivesWarning(DRPUWarning):
    """A prior was estimated from rows on which the model was trained."""

    code = "seen-positives"


class ImputationWarning(DRPUWarning):
    """Missing values were filled in."""

    code = "imputed"


class PositiveLabelWarning(DRPUWarning):
    """The labels are strings and none of them was named as the positive one."""

    code = "positive-label"


class MorePositivesWarning(DRPUWarning):
    """There are more labelled positives than unlabeled rows, so the labels may be exchanged."""

    code = "more-positives"


class IdColumnWarning(DRPUWarning):
    """Columns that look like identifiers were left out."""

    code = "id-column"


class ExtraColumnsWarning(DRPUWarning):
    """Columns that training did not have are ignored."""

    code = "extra-columns"


class UnseenLevelsWarning(DRPUWarning):
    """Many rows have levels of a category that training did not keep."""

    code = "unseen-levels"


class KeptValuesWarning(DRPUWarning):
    """A file contains values of columns: the levels of categories."""

    code = "kept-values"


class CollectedWarning(DRPUWarning):
    """A lazy frame was collected into memory."""

    code = "collected"


class MissingAnswersWarning(DRPUWarning):
    """Some rows of an audit have no answer."""

    code = "missing-answers"


class LabelledSampleWarning(DRPUWarning):
    """The labelled positives do not look like a random sample of all positives."""

    code = "labelled-sample"
