"""Fitted models from their states, by kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from drpu.exceptions import DataError
from drpu.models.base import ModelState, RatioModel

__all__ = ["model_from_state"]

# Imported on demand: loading a kernel model should not bring in torch.
_KINDS = {
    "boosted": "drpu.models.boosting:BoostedRatio",
    "classifier": "drpu.models.classifier:ClassifierRatio",
    "folds": "drpu.models.folds:FoldedRatio",
    "forest": "drpu.models.forest:ForestRatio",
    "fourier": "drpu.models.fourier:FourierRatio",
    "kernel": "drpu.models.kernel:KernelRatio",
    "auto": "drpu.models.auto:AutoRatio",
    "network": "drpu.models.network:NetworkRatio",
}
_WITH_MODULES = {"folds", "network"}


def model_from_state(state: ModelState, *, module: Any = None) -> RatioModel:
    """The fitted model that gave ``state``.

    Parameters
    ----------
    state : ModelState
        What ``model.state()`` returned.
    module : callable, optional
        Makes the torch module of a network that the user wrote.
    """
    if state.kind not in _KINDS:
        raise DataError(f"model kind must be one of {', '.join(sorted(_KINDS))}, got {state.kind!r}.")
    path, _, name = _KINDS[state.kind].partition(":")
    cls: Any = getattr(import_module(path), name)
    model: RatioModel = (
        cls.from_state(state, module=module) if state.kind in _WITH_MODULES else cls.from_state(state)
    )
    return model
