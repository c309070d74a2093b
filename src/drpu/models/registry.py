"""Fitted models from their states."""

from __future__ import annotations

from typing import Any

from drpu._state import ModelState, class_of
from drpu.models.base import RatioModel

__all__ = ["check_model_state", "model_from_state"]


def model_from_state(state: ModelState, *, module: Any = None) -> RatioModel:
    """The fitted model restored from ``state``.

    Parameters
    ----------
    state : ModelState
        The result of ``model.state()``.
    module : callable, optional
        Makes the torch module of a custom network.
    """
    model: RatioModel = class_of("drpu.models", state, RatioModel).from_state(state, module=module)
    return model


def check_model_state(state: ModelState, base: type[Any] = RatioModel) -> None:
    """Raise unless a model could be restored from ``state``; no model is made, and no backend is used.

    Parameters
    ----------
    state : ModelState
        The content of a file, which may be anything.
    base : type, default=RatioModel
        The kind of model that it must be.
    """
    cls = class_of("drpu.models", state, base)
    if hasattr(cls, "check_state"):
        cls.check_state(state)
    for part in state.parts.values():
        check_model_state(part)
