"""Fitted models from their states."""

from __future__ import annotations

from typing import Any

from drpu._state import ModelState, class_of
from drpu.models.base import RatioModel

__all__ = ["model_from_state"]


def model_from_state(state: ModelState, *, module: Any = None) -> RatioModel:
    """The fitted model that gave ``state``.

    Parameters
    ----------
    state : ModelState
        What ``model.state()`` returned.
    module : callable, optional
        Makes the torch module of a network that the user wrote.
    """
    model: RatioModel = class_of("drpu.models", state, RatioModel).from_state(state, module=module)
    return model
