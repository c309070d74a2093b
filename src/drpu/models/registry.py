"""The models: one line each, from which names, records in files and kinds of files follow.

A new model is a file with its learner and the function that it returns, and one line of
:data:`MODELS`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from drpu import _lazy, models
from drpu._checks import check_choice
from drpu._codec import Kept, kept
from drpu.exceptions import ParameterError
from drpu.models.learner import RatioLearner, ScoreLearner


@dataclass(frozen=True, slots=True)
class Model:
    """A learner, which is imported when it is first used."""

    name: str  # of the class
    module: str
    ratio: str | None = None  # what ``model`` of DRPUClassifier calls it
    score: str | None = None  # what ``model`` of the other methods calls it
    function: str | None = None  # module of the function that it returns, if it is another one

    def learner_class(self) -> Any:
        """The class of the learner."""
        return getattr(import_module(self.module), self.name)


MODELS = (
    Model("AutoRatio", "drpu.models.auto", ratio="auto"),
    Model("BoostedRatio", "drpu.models.boosted", ratio="boosted"),
    Model("ClassifierRatio", "drpu.models.estimators", ratio="classifier"),
    Model("ForestRatio", "drpu.models.boosted"),
    Model("FourierRatio", "drpu.models.fourier"),
    Model("KernelRatio", "drpu.models.kernel", ratio="kernel"),
    Model("KernelScore", "drpu.models.fourier", score="kernel"),
    Model("LinearRatio", "drpu.models.fourier"),
    Model("LinearScore", "drpu.models.fourier", score="linear"),
    Model(
        "NetworkRatio", "drpu.networks.learner", ratio="network", function="drpu.networks.function"
    ),
    Model(
        "NetworkScore", "drpu.networks.learner", score="network", function="drpu.networks.function"
    ),
)
# Modules that declare what files keep of functions, beside those of the functions of learners.
_SHARED_PARTS = (
    "drpu.models.features",
    "drpu.models.learner",
    "drpu.models.registry",
    "drpu.models.trees",
)

LEARNERS = {model.name: model for model in MODELS}  # by the name of the class, for files
RATIOS = {model.ratio: model for model in MODELS if model.ratio is not None}
SCORES = {model.score: model for model in MODELS if model.score is not None}
# The modules that declare kinds of files, imported before a file is read. They import torch and
# LightGBM when used.
KIND_MODULES = sorted({model.function or model.module for model in MODELS} | set(_SHARED_PARTS))


@kept("lost")
@dataclass(frozen=True)
class LearntElsewhere(Kept):
    """A parameter of a loaded classifier that was an object of the user: its name."""

    name: str

    def __repr__(self) -> str:
        return ascii(f"<{self.name}, not kept in the file>")[1:-1]  # a file may set the name


def resolve_model(model: Any) -> RatioLearner | models.FrameLearner:
    """A learner of density ratios: by name, a copy of one, or of a classifier or torch module."""
    refuse_learnt(model)
    learner: RatioLearner | models.FrameLearner
    if isinstance(model, str):
        learner = RATIOS[check_choice("model", model, RATIOS)].learner_class()()
    elif isinstance(model, (RatioLearner, models.FrameLearner)) and not isinstance(
        model, ScoreLearner
    ):
        learner = _lazy.clone(model)
    elif isinstance(model, type):
        raise ParameterError(
            f"model must be an instance, got the class {model.__name__}: write {model.__name__}()."
        )
    elif hasattr(model, "predict_proba") and hasattr(model, "fit"):
        learner = RATIOS["classifier"].learner_class()(model)
    elif _is_module(model):
        learner = RATIOS["network"].learner_class()(model)
    else:
        raise ParameterError(
            f"model must be a name, a density ratio, a scikit-learn classifier with predict_proba "
            f"or a torch module, got {model!r}."
        )
    return learner


def resolve_score(model: Any, **options: Any) -> ScoreLearner:
    """A learner of scores: by name, a copy of one, or of a torch module or a NetworkRatio.

    ``options`` are the training options of a network given by name or as a bare module.
    """
    refuse_learnt(model)
    learner: ScoreLearner
    if isinstance(model, str) and model in SCORES:
        if model != "network":
            options = {}
        learner = SCORES[model].learner_class()(**options)
    elif isinstance(model, ScoreLearner):
        learner = _lazy.clone(model)
    elif _is_module(model):
        learner = SCORES["network"].learner_class()(model, **options)
    elif isinstance(model, RatioLearner) and isinstance(model, RATIOS["network"].learner_class()):
        learner = import_module("drpu.networks.learner").from_ratio(model)
    else:
        names = ", ".join(repr(name) for name in SCORES)
        raise ParameterError(
            f"model must be one of {names}, a torch module or a NetworkRatio with "
            f"its options, got {model!r}."
        )
    return learner


def refuse_learnt(model: Any) -> None:
    """Raise for the model of a loaded classifier that was an object when the file was written."""
    if isinstance(model, LearntElsewhere):
        raise ParameterError(
            "model must be set before this classifier is fitted again, for example by "
            "set_params(model='auto'): it was loaded from a file, which keeps a fitted model and "
            f"not how a {model.name} learns."
        )


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
