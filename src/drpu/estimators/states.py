"""Conversion between fitted classifiers and their states."""

from __future__ import annotations

from typing import Any

from drpu._state import ModelState, class_of
from drpu.estimators.kept import KeptClassifier
from drpu.estimators.outer import PIPELINE, pipeline_from_state
from drpu.exceptions import DataTypeError

__all__ = ["classifier_from_state", "classifier_state"]


def classifier_state(classifier: Any) -> ModelState:
    """The state from which :func:`from_state` restores the fitted classifier."""
    if not isinstance(classifier, KeptClassifier):
        raise DataTypeError(f"classifier must be a classifier of drpu, got {type(classifier).__name__}.")
    return classifier.state()


def classifier_from_state(state: ModelState, *, module: Any = None) -> Any:
    """The classifier restored from ``state``."""
    if state.kind == PIPELINE:
        return pipeline_from_state(state, classifier_from_state(state.parts["classifier"], module=module))
    return class_of("drpu.estimators", state, KeptClassifier).from_state(state, module=module)
