"""The learner that a ``model`` parameter stands for."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone

from drpu._checks import check_choice
from drpu._samples import SamplePair
from drpu.core.risks import PUObjective
from drpu.exceptions import ParameterError
from drpu.functions.base import Function
from drpu.ratios.base import RatioLearner, ScoreLearner
from drpu.ratios.clusters import FrameLearner

__all__ = ["RATIOS", "SCORES", "LostLearner", "resolve_model", "resolve_score", "seeded"]

# Names of learners, with the module and the class, which is imported when it is first used.
RATIOS = {
    "auto": "drpu.ratios.auto:AutoRatio",
    "boosted": "drpu.ratios.boosted:BoostedRatio",
    "classifier": "drpu.ratios.classifier:ClassifierRatio",
    "kernel": "drpu.ratios.kernel:KernelRatio",
    "network": "drpu.networks.learner:NetworkRatio",
}
SCORES = {
    "kernel": "drpu.ratios.scores:KernelScore",
    "linear": "drpu.ratios.scores:LinearScore",
    "network": "drpu.networks.learner:NetworkScore",
}


def resolve_model(model: Any) -> Any:
    """A learner of density ratios: by name, a copy of the given one, or of a classifier or torch module."""
    if isinstance(model, str):
        return _class(RATIOS[check_choice("model", model, RATIOS)])()
    if isinstance(model, (RatioLearner, FrameLearner)):
        return clone(model)
    if isinstance(model, type):
        raise ParameterError(
            f"model must be an instance, got the class {model.__name__}: write {model.__name__}()."
        )
    if hasattr(model, "predict_proba") and hasattr(model, "fit"):
        return _class(RATIOS["classifier"])(model)
    if _is_module(model):
        return _class(RATIOS["network"])(model)
    raise ParameterError(
        f"model must be a name, a density ratio, a scikit-learn classifier with predict_proba "
        f"or a torch module, got {model!r}."
    )


def resolve_score(model: Any, **options: Any) -> Any:
    """A learner of scores: by name, a copy of the given one, or of a torch module or a NetworkRatio.

    ``options`` are the training options of a network given by name or as a bare module.
    """
    if isinstance(model, str) and model in SCORES:
        return _class(SCORES[model])(**(options if model == "network" else {}))
    if isinstance(model, ScoreLearner):
        return clone(model)
    if _is_module(model):
        return _class(SCORES["network"])(model, **options)
    if isinstance(model, RatioLearner) and isinstance(model, _class(RATIOS["network"])):
        return import_module("drpu.networks.learner").from_ratio(model)
    raise ParameterError(
        f"model must be one of {', '.join(map(repr, SCORES))}, a torch module or a NetworkRatio with its "
        f"options, got {model!r}."
    )


class LostLearner(RatioLearner, ScoreLearner):
    """The model of a loaded classifier whose learner was an object: its file has the function only."""

    random_state: Any = None

    def __init__(self, function: Function) -> None:
        self.function = function

    @property
    def accepts_sparse(self) -> bool:
        """Whether the function accepts sparse rows."""
        return self.function.accepts_sparse

    @property
    def accepts_nan(self) -> bool:
        """Whether the function accepts missing values."""
        return self.function.accepts_nan

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> Function:
        """Raise, because nothing is known about the fit."""
        self._refuse()

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> Function:
        """Raise, because nothing is known about the fit."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ParameterError(
            "model must be given to fit a loaded classifier again, whose file contains the fitted function "
            "and not how it was learnt: use set_params(model=...)."
        )


def seeded(model: Any, rng: np.random.RandomState) -> Any:
    """A copy in which random states that are None are seeded, also inner ones."""
    model = clone(model)
    free = [name for name, value in sorted(model.get_params().items()) if value is None and _is_seed(name)]
    model.set_params(**{name: int(rng.randint(2**31 - 1)) for name in free})
    return model


def _class(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _is_seed(name: str) -> bool:
    return name == "random_state" or name.endswith("__random_state")
