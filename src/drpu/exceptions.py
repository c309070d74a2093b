"""Errors and warnings of drpu.

::

    DRPUError
    ├── ParameterError (ValueError)      an argument violates its rule
    │   ├── PriorError                   a value that is not a class prior
    │   └── OutputError                  a path that must not be written
    ├── DataError (ValueError)           rows, scores or labels that cannot be used
    │   ├── LabelError                   labels that do not mark positive and unlabeled rows
    │   └── MissingValuesError           gaps in rows for a model that accepts none
    ├── DataTypeError (TypeError)        data of an unsupported type
    ├── ArtifactError (ValueError)       a file that cannot be written or read
    ├── ClusterError (RuntimeError)      a cluster that is missing, or that failed
    └── MissingExtraError (ImportError)  an optional dependency is not installed

    DRPUWarning (UserWarning)            every other class; each has a ``code``
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import ClassVar

__all__ = [
    "AlphaWarning", "ArtifactError", "BacktestWarning", "ClusterError", "CollectedWarning",
    "ContradictionWarning", "CopiedPositivesWarning", "DRPUError", "DRPUWarning", "DataError",
    "DataTypeError", "EmptyColumnsWarning", "ExtraColumnsWarning", "FewNegativesWarning",
    "FewPositivesWarning",
    "FewRowsWarning", "IdColumnWarning", "IndexWarning",
    "LabelError", "LabelledSampleWarning", "LateLabelsWarning", "MissingAnswersWarning",
    "MissingExtraError", "MissingValuesError", "MixedPeriodsWarning", "MorePositivesWarning",
    "OutputError", "ParameterError", "PixelScaleWarning", "PositiveLabelWarning",
    "PriorBoundaryWarning", "PriorError", "ScenarioWarning",
    "SeenPositivesWarning", "SeparationWarning", "ShiftWarning", "TrainingTableWarning",
    "UnreadableValuesWarning", "UnseenLevelsWarning", "UnusedNegativesWarning",
]  # fmt: skip


class DRPUError(Exception):
    """Base class of all errors that drpu raises.

    Parameters
    ----------
    message : str
        What is wrong, and what a Python user can do.
    command : str, optional
        The same for a user of the command line, if the way out differs.
    """

    def __init__(self, *message: object, command: str | None = None, **facts: str) -> None:
        super().__init__(*message, **facts)
        self.command = command


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


class MissingValuesError(DataError):
    """Rows with missing values for a model that does not accept them."""


class DataTypeError(DRPUError, TypeError):
    """Data of an unsupported type."""


class ArtifactError(DRPUError, ValueError):
    """A classifier that cannot be written, or a file that cannot be read."""


class MissingExtraError(DRPUError, ImportError):
    """An optional dependency is not installed."""


class ClusterError(DRPUError, RuntimeError):
    """A cluster that is missing, or that failed during a computation."""


class DRPUWarning(UserWarning):
    """Base class of all warnings: an assumption may be violated, or a choice was made for the user.

    Parameters
    ----------
    finding : str
        What was found. With ``shares`` it is a format string with their names.
    advice : str, optional
        What a Python user can do.
    command : str, optional
        The same for a user of the command line; ``advice`` if left out.
    **shares : float
        Numbers between 0 and 1 in ``finding``, which the command line shows in percent.

    Attributes
    ----------
    code : str
        Short name of the class.
    assumption : bool
        Whether an assumption may be violated, so that results should be checked.
    """

    code: ClassVar[str] = "drpu"
    assumption: ClassVar[bool] = True  # False where a choice was made for the user

    def __init_subclass__(cls, *, code: str | None = None, assumption: bool = True) -> None:
        cls.code = code or cls.code
        cls.assumption = assumption

    def __init__(
        self, finding: str = "", *, advice: str = "", command: str | None = None, **shares: float
    ) -> None:
        self.finding = finding
        self.shares = shares
        self.advice = advice
        self.command = advice if command is None else command
        super().__init__(self._text(advice, "{:.3f}".format))

    @classmethod
    def issue(
        cls, finding: str, *, advice: str = "", command: str | None = None, **shares: float
    ) -> None:
        """Issue a warning of this class."""
        warn(cls(finding, advice=advice, command=command, **shares))

    def __str__(self) -> str:
        return f"[{self.code}] {super().__str__()}"

    def for_command_line(self, share: Callable[[float], str]) -> str:
        """The text with options instead of arguments, and with numbers formatted by ``share``."""
        return f"[{self.code}] {self._text(self.command, share)}"

    def _text(self, advice: str, share: Callable[[float], str]) -> str:
        finding = self.finding
        if self.shares:
            numbers = {name: share(value) for name, value in self.shares.items()}
            finding = finding.format(**numbers)
        return f"{finding} {advice}".strip()


_SILENT: ContextVar[bool] = ContextVar("silent", default=False)
_HEARD: ContextVar[list[DRPUWarning] | None] = ContextVar("heard", default=None)


@contextmanager
def silent() -> Iterator[None]:
    """Issue no warnings of drpu inside the block, in this thread only.

    No global filter is changed.
    """
    token = _SILENT.set(True)
    try:
        yield
    finally:
        _SILENT.reset(token)


@contextmanager
def heard() -> Iterator[list[DRPUWarning]]:
    """Collect the warnings of drpu inside the block, in this thread only; none is issued."""
    collected: list[DRPUWarning] = []
    token = _HEARD.set(collected)
    try:
        yield collected
    finally:
        _HEARD.reset(token)


def warn(warning: DRPUWarning) -> None:
    """Issue a warning that points to the first line outside of drpu, which is the caller's."""
    if _SILENT.get():
        return
    collected = _HEARD.get()
    if collected is not None:
        collected.append(warning)
        return
    warnings.warn(warning, stacklevel=_level_of_user_code())


class FewPositivesWarning(DRPUWarning, code="few-positives"):
    """There are too few labelled positives for a reliable split, prior or interval."""


class FewNegativesWarning(DRPUWarning, code="few-negatives"):
    """There are too few known negatives to be used."""


class UnusedNegativesWarning(DRPUWarning, code="unused-negatives", assumption=False):
    """Known negatives were given and change no score: positives rank no higher with them."""


class BacktestWarning(DRPUWarning, code="backtest"):
    """Past periods or their labels are too few for a backtest, or seem incomplete."""


class LateLabelsWarning(DRPUWarning, code="late-labels"):
    """Fewer labels have arrived for new rows than expected; they may be late."""


class FewRowsWarning(DRPUWarning, code="few-rows"):
    """There are few new rows, so their prior and the expected performance are rough."""


class PriorBoundaryWarning(DRPUWarning, code="prior-boundary"):
    """The estimated prior is 0 or 1, so the threshold is infinite or meaningless."""


class SeparationWarning(DRPUWarning, code="weak-separation"):
    """The score hardly separates the classes; the prior is not identified and a central value."""


class ShiftWarning(DRPUWarning, code="not-prior-shift"):
    """The scores of new data are not a mixture of the two classes of training."""


class MixedPeriodsWarning(DRPUWarning, code="mixed-periods"):
    """A classifier was adapted to rows of several periods whose priors differ."""


class ContradictionWarning(DRPUWarning, code="contradiction"):
    """A prior is far from answers about earlier rows, or above what the training rows allow."""


class AlphaWarning(DRPUWarning, code="alpha-above-prior"):
    """``alpha`` of the non-negative risk exceeds the estimated prior."""


class CopiedPositivesWarning(DRPUWarning, code="copied-positives", assumption=False):
    """Labelled positives are listed more than once; copies count once."""


class SeenPositivesWarning(DRPUWarning, code="seen-positives"):
    """A prior was estimated from rows on which the model was trained."""


class PositiveLabelWarning(DRPUWarning, code="positive-label", assumption=False):
    """Of two words, one such as "unknown" is taken as the label of unlabeled rows."""


class MorePositivesWarning(DRPUWarning, code="more-positives"):
    """There are more labelled positives than unlabeled rows, so the labels may be exchanged."""


class IndexWarning(DRPUWarning, code="index-order", assumption=False):
    """Labels or other values have the index of X in another order; they are matched by position."""


class IdColumnWarning(DRPUWarning, code="id-column", assumption=False):
    """Columns that look like identifiers were left out."""


class TrainingTableWarning(DRPUWarning, code="training-table"):
    """Columns or rows of the training table may make the classifier worthless for later rows."""


class ScenarioWarning(DRPUWarning, code="scenario", assumption=False):
    """One table was taken as two samples: its labelled rows reappear as unlabeled ones."""


class ExtraColumnsWarning(DRPUWarning, code="extra-columns", assumption=False):
    """Columns that training did not have are ignored."""


class EmptyColumnsWarning(DRPUWarning, code="empty-columns"):
    """A column that training used has no value in any row of a file."""


class UnreadableValuesWarning(DRPUWarning, code="unreadable-values"):
    """A few values of a column of numbers or dates are read as missing."""


class UnseenLevelsWarning(DRPUWarning, code="unseen-levels"):
    """Many rows have levels of a category that training did not keep."""


class PixelScaleWarning(DRPUWarning, code="pixel-scale"):
    """The pixels of new images are on another scale than those of the training images."""


class CollectedWarning(DRPUWarning, code="collected", assumption=False):
    """A lazy frame was collected into memory."""


class MissingAnswersWarning(DRPUWarning, code="missing-answers"):
    """Some rows of an audit have no answer."""


class LabelledSampleWarning(DRPUWarning, code="labelled-sample"):
    """The labelled positives do not look like a random sample of all positives."""


def warn_deprecated(name: str, *, instead: str, removed_in: str) -> None:
    """Issue a ``FutureWarning`` that points to the first line outside of drpu.

    A ``DeprecationWarning`` would be hidden from most of those who call the library, because Python
    shows it only for code of the main module.

    Parameters
    ----------
    name : str
        What is deprecated, as users write it, such as ``"adapt(cost=...)"``.
    instead : str
        What to write instead.
    removed_in : str
        The first version without it, such as ``"0.4"``. A test fails in that version until the name
        and its warning are removed.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("adapt(cost=...)", instead="adapt(X).at_cost(cost)", removed_in="0.4")
    >>> print(caught[0].message)
    adapt(cost=...) is deprecated and will be removed in drpu 0.4: use adapt(X).at_cost(cost).
    """
    message = f"{name} is deprecated and will be removed in drpu {removed_in}: use {instead}."
    warnings.warn(message, FutureWarning, stacklevel=_level_of_user_code())


def _level_of_user_code() -> int:
    """The ``stacklevel`` with which the calling function names a line outside of drpu."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_of_drpu(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    return level


def _is_of_drpu(module: str) -> bool:
    return module.partition(".")[0] == "drpu"
