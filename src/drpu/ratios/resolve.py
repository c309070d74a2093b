"""The density-ratio model that a ``model`` parameter stands for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from sklearn.base import clone

from drpu._checks import check_choice
from drpu._state import declared
from drpu.exceptions import ParameterError
from drpu.ratios.base import RatioModel

__all__ = ["model_names", "resolve_model", "seeded"]


def model_names() -> list[str]:
    """The names that ``model`` may have."""
    return sorted(kind for kind, cls in declared("drpu.ratios").items() if getattr(cls, "named", False))


def resolve_model(model: Any) -> RatioModel:
    """An unfitted density-ratio model: by name, given, or from a classifier or a torch module."""
    if isinstance(model, str):
        return _make(check_choice("model", model, model_names()))
    if isinstance(model, RatioModel):
        return _copy(model)
    if isinstance(model, type):
        raise ParameterError(
            f"model must be an instance, got the class {model.__name__}: write {model.__name__}()."
        )
    if hasattr(model, "predict_proba") and hasattr(model, "fit"):
        return _make("classifier", model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _make("network", model)
    raise ParameterError(
        f"model must be a name, a density ratio, a scikit-learn classifier with predict_proba "
        f"or a torch module, got {model!r}."
    )


def seeded(model: RatioModel, rng: np.random.RandomState) -> RatioModel:
    """A clone in which random states that are None are seeded, also inner ones."""
    model = _copy(model)
    free = [name for name, value in sorted(model.get_params().items()) if value is None and _is_seed(name)]
    model.set_params(**{name: int(rng.randint(2**31 - 1)) for name in free})
    return model


def _copy(model: RatioModel) -> RatioModel:
    unfitted: RatioModel = clone(model)
    return unfitted


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def _make(name: str, *arguments: Any) -> RatioModel:
    model: RatioModel = declared("drpu.ratios")[name](*arguments)
    return model
