"""Callbacks of scikit-learn, which exist from version 1.9 on: a fit is a task with equal parts.

A part of the task ends whenever a further 5 % of the fit are done, in any thread, so that
``ProgressBar`` moves. The fitted classifier is passed at the end, which ``ScoringMonitor`` scores.
``sklearn.callback`` is imported when callbacks are set, because it imports rich.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from drpu._progress import watched
from drpu.exceptions import MissingExtraError

PARTS = 20
_ROUNDING = 1e-9


class CallbackSupport:
    """The method by which an estimator takes callbacks; its fit uses :func:`run_fit`."""

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set the callbacks of scikit-learn that watch a fit, or take them away if there are none.

        Parameters
        ----------
        *callbacks : callbacks of ``sklearn.callback``
            Such as ``ProgressBar()``, which then replaces the bar that ``verbose`` shows.

        Returns
        -------
        self : estimator
        """
        try:
            from sklearn.callback import CallbackSupportMixin
        except ImportError as error:
            raise MissingExtraError(
                "callbacks need scikit-learn 1.9 or newer: install it, or use verbose=1, which "
                "shows a bar with any version."
            ) from error
        CallbackSupportMixin.set_callbacks(self, *callbacks)
        return self


class _Parts:
    """The parts of a task, which begin and end as the work advances."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self.estimator = estimator
        self.context = context
        self.done = 0.0
        self.ended = 0

    def advance(self, share: float) -> None:
        """End the parts that are done now."""
        self.done += share
        while self.ended < PARTS and self.done >= (self.ended + 1) / PARTS - _ROUNDING:
            self.ended += 1
            part = self.context.subcontext(task_name="part")
            part.call_on_fit_task_begin(estimator=self.estimator)
            part.call_on_fit_task_end(estimator=self.estimator)


def run_fit(estimator: Any, fit: Callable[[], None], *, X: Any = None, y: Any = None) -> None:
    """Call ``fit`` while the callbacks of the estimator watch it fit these rows."""
    if not hasattr(estimator, "_skl_callbacks"):
        fit()
        return
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    def watched_fit(estimator: Any) -> None:
        context = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=PARTS)
        context.call_on_fit_task_begin(estimator=estimator, X=X, y=y)
        with watched(_Parts(estimator, context)):
            fit()
        # The estimator itself is fitted now: a copy of it needs no other attributes.
        context.call_on_fit_task_end(estimator=estimator, X=X, y=y, reconstruction_attributes={})

    with_callbacks(watched_fit)(estimator)


def without_callbacks(estimator: Any) -> Any:
    """The estimator after its callbacks were taken away, which a clone has too."""
    if hasattr(estimator, "_skl_callbacks"):
        estimator.set_callbacks()
    return estimator
