"""The learner that a ``model`` parameter stands for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from sklearn.base import clone

from drpu._checks import check_choice
from drpu.exceptions import ParameterError
from drpu.models.clusters import FrameLearner
from drpu.models.learner import RatioLearner, ScoreLearner
from drpu.state.record import LearntElsewhere

# Names of learners, with the module and the class, which is imported when it is first used.
RATIOS = {
    "auto": "drpu.models.auto:AutoRatio",
    "boosted": "drpu.models.boosted:BoostedRatio",
    "classifier": "drpu.models.classifier:ClassifierRatio",
    "kernel": "drpu.models.kernel:KernelRatio",
    "network": "drpu.networks.learner:NetworkRatio",
}
SCORES = {
    "kernel": "drpu.models.scores:KernelScore",
    "linear": "drpu.models.scores:LinearScore",
    "network": "drpu.networks.learner:NetworkScore",
}


def resolve_model(model: Any) -> RatioLearner | FrameLearner:
    """A learner of density ratios: by name, a copy of the given one, or of a classifier or torch module."""
    refuse_learnt(model)
    learner: RatioLearner | FrameLearner
    if isinstance(model, str):
        learner = _class(RATIOS[check_choice("model", model, RATIOS)])()
    elif isinstance(model, (RatioLearner, FrameLearner)) and not isinstance(model, ScoreLearner):
        learner = clone(model)
    elif isinstance(model, type):
        raise ParameterError(
            f"model must be an instance, got the class {model.__name__}: write {model.__name__}()."
        )
    elif hasattr(model, "predict_proba") and hasattr(model, "fit"):
        learner = _class(RATIOS["classifier"])(model)
    elif _is_module(model):
        learner = _class(RATIOS["network"])(model)
    else:
        raise ParameterError(
            f"model must be a name, a density ratio, a scikit-learn classifier with predict_proba "
            f"or a torch module, got {model!r}."
        )
    return learner


def resolve_score(model: Any, **options: Any) -> ScoreLearner:
    """A learner of scores: by name, a copy of the given one, or of a torch module or a NetworkRatio.

    ``options`` are the training options of a network given by name or as a bare module.
    """
    refuse_learnt(model)
    learner: ScoreLearner
    if isinstance(model, str) and model in SCORES:
        learner = _class(SCORES[model])(**(options if model == "network" else {}))
    elif isinstance(model, ScoreLearner):
        learner = clone(model)
    elif _is_module(model):
        learner = _class(SCORES["network"])(model, **options)
    elif isinstance(model, RatioLearner) and isinstance(model, _class(RATIOS["network"])):
        learner = import_module("drpu.networks.learner").from_ratio(model)
    else:
        raise ParameterError(
            f"model must be one of {', '.join(map(repr, SCORES))}, a torch module or a NetworkRatio with "
            f"its options, got {model!r}."
        )
    return learner


def refuse_learnt(model: Any) -> None:
    """Raise for the model of a loaded classifier, which was an object when the file was written."""
    if isinstance(model, LearntElsewhere):
        raise ParameterError(
            "model must be set before this classifier is fitted again, for example by "
            "set_params(model='auto'): it was loaded from a file, which keeps a fitted model and not how a "
            f"{model.name} learns."
        )


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
