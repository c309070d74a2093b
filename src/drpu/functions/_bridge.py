"""States of functions for files of the old layout; deleted when files are written from records."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from drpu._codec import decode, encode
from drpu._state import ModelState
from drpu.functions.base import Function

__all__ = ["function_of", "state_of"]

_MODULES = [f"drpu.functions.{name}" for name in ("average", "estimators", "features", "folds", "trees")]
_MODULES += ["drpu.networks.function", "drpu.networks.generative"]


def state_of(function: Any) -> ModelState:
    """The state from which :func:`function_of` makes an equal function."""
    tree, arrays, blobs = encode(function)
    return ModelState("function", {"tree": tree}, arrays, blobs)


def function_of(state: ModelState, cls: Any = Function, *, module: Any = None) -> Any:
    """The function whose state this is."""
    for place in _MODULES:
        import_module(place)
    found = decode(state.config["tree"], state.arrays, state.blobs, cls)
    return found if module is None else import_module("drpu.networks.function").give_module(found, module)
