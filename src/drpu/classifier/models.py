"""The learner that a ``model`` parameter stands for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from drpu._checks import check_choice
from drpu.classifier.record import LearntElsewhere
from drpu.exceptions import ParameterError
from drpu.ratios.base import RatioLearner

__all__ = ["MODELS", "resolve_model", "seeded"]

# Values of ``model`` and where their learners are; a module is imported when it is used.
MODELS = {
    "auto": "drpu.ratios.auto:AutoRatio",
    "boosted": "drpu.ratios.boosted:BoostedRatio",
    "classifier": "drpu.ratios.classifier:ClassifierRatio",
    "kernel": "drpu.ratios.kernel:KernelRatio",
    "network": "drpu.networks.learner:NetworkRatio",
}


def resolve_model(model: Any) -> RatioLearner:
    """A learner: by name, given, or from a classifier of scikit-learn or a torch module."""
    if isinstance(model, str):
        return _make(check_choice("model", model, sorted(MODELS)))
    if isinstance(model, RatioLearner):
        return _copy(model)
    if isinstance(model, LearntElsewhere):
        raise ParameterError(
            "model must be set before this classifier is fitted again, for example by "
            "set_params(model='auto'): it was loaded from a file, which keeps a fitted model and not how a "
            f"{model.name} learns."
        )
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


def seeded(model: RatioLearner, rng: np.random.RandomState) -> RatioLearner:
    """A clone in which random states that are None are seeded, also inner ones."""
    model = _copy(model)
    free = [name for name, value in sorted(model.get_params().items()) if value is None and _is_seed(name)]
    model.set_params(**{name: int(rng.randint(2**31 - 1)) for name in free})
    return model


def _copy(model: RatioLearner) -> RatioLearner:
    unfitted: RatioLearner = clone(model)
    return unfitted


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")


def _make(name: str, *arguments: Any) -> RatioLearner:
    module, _, learner = MODELS[name].partition(":")
    model: RatioLearner = getattr(import_module(module), learner)(*arguments)
    return model
