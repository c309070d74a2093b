"""Fitted classifiers as states, and back."""

from __future__ import annotations

from dataclasses import asdict
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from drpu._state import ModelState
from drpu.core.calibration import Calibration
from drpu.core.prior import PriorEstimate
from drpu.core.privacy import GridCounts, Protection
from drpu.core.tails import ScoreTails
from drpu.estimators._core import RatioCore
from drpu.estimators._rival import PURival
from drpu.estimators.adapted import AdaptedClassifier
from drpu.estimators.drpu import DRPUClassifier
from drpu.exceptions import DataError, DataTypeError
from drpu.models.folds import FoldedRatio

__all__ = ["classifier_from_state", "classifier_state", "keeps_rows"]

Classifier = DRPUClassifier | AdaptedClassifier


# The classifiers that give and take their states themselves; imported on demand.
_RIVALS = {
    "ElkanNotoClassifier": "drpu.estimators.classic",
    "GenPUClassifier": "drpu.estimators.generative",
    "NNPUClassifier": "drpu.estimators.risk",
    "PULDClassifier": "drpu.estimators.margin",
    "PUaClassifier": "drpu.estimators.risk",
    "UPUClassifier": "drpu.estimators.risk",
    "VPUClassifier": "drpu.estimators.variational",
}


def classifier_state(classifier: Any) -> ModelState:
    """All that the fitted classifier needs to predict and adapt elsewhere."""
    if isinstance(classifier, PURival):
        return classifier.state()
    if not isinstance(classifier, Classifier):
        raise DataTypeError(f"classifier must be a classifier of drpu, got {type(classifier).__name__}.")
    classifier._check_fitted()
    core = classifier._core
    tails, calibration = core.tails.state(), core.calibration
    config: dict[str, Any] = {
        "classes": {"dtype": core.classes.dtype.str, "values": core.classes.tolist()},
        "columns": classifier.n_features_in_,
        "prior": asdict(core.prior),
        "labelled_share": core.labelled_share,
        "method": core.method,
        "tails": {name: tails.pop(name) for name in ("n_positive", "copies", "weight_squares")},
    }
    if hasattr(classifier, "feature_names_in_"):
        config["names"] = classifier.feature_names_in_.tolist()
    arrays = {f"tails.{name}": array for name, array in tails.items()}
    if calibration is not None:
        kept = calibration.state()
        arrays |= {f"calibration.{name}": kept.pop(name) for name in ("levels", "steps", "curve")}
        config["calibration"] = kept
    if core.grid is not None:
        arrays |= {"grid.positive": core.grid.positive, "grid.unlabeled": core.grid.unlabeled}
    if core.protection is not None:
        config["protection"] = asdict(core.protection)
    if isinstance(classifier, AdaptedClassifier):
        config |= {"at": {"prior": asdict(classifier.prior), "cost": classifier.cost}}
    else:
        config["parameters"] = _parameters(classifier)
    return ModelState(type(classifier).__name__, config, arrays, parts={"model": core.model.state()})


def classifier_from_state(state: ModelState, *, module: Any = None) -> Classifier | PURival:
    """The classifier that gave ``state``."""
    if state.kind in _RIVALS:
        rival: type[PURival] = getattr(import_module(_RIVALS[state.kind]), state.kind)
        return rival.from_state(state, module=module)
    core = _core_from_state(state, module)
    if state.kind == "AdaptedClassifier":
        at = state.config["at"]
        adapted = object.__new__(AdaptedClassifier)
        adapted.prior, adapted.cost = PriorEstimate(**at["prior"]), float(at["cost"])
        return _with_columns(adapted, core, state.config)
    if state.kind != "DRPUClassifier":
        raise DataError(f"the state is of a {state.kind!r}, which is no classifier of drpu.")
    parameters = dict(state.config["parameters"])
    for name in ("prior", "test_prior"):
        if isinstance(parameters[name], dict):
            parameters[name] = PriorEstimate(**parameters[name])
    if parameters["model"] is None:
        parameters["model"] = clone(core.model.models[0])
    return _with_columns(DRPUClassifier(**parameters), core, state.config)


def keeps_rows(classifier: Classifier | PURival) -> bool:
    """Whether the classifier's model holds training rows as they were."""
    if isinstance(classifier, PURival):
        return classifier.keeps_rows
    return classifier._core.model.keeps_rows


def _parameters(classifier: DRPUClassifier) -> dict[str, Any]:
    """Constructor arguments; what JSON cannot hold is replaced by what came of it."""
    parameters = classifier.get_params(deep=False)
    if not isinstance(parameters["model"], str):
        parameters["model"] = None  # read back from the fitted models
    if callable(parameters["prior"]):
        parameters["prior"] = classifier.prior_
    if not isinstance(parameters["random_state"], (int, np.integer)):
        parameters["random_state"] = None
    return {name: _plain(value) for name, value in parameters.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, PriorEstimate):
        return asdict(value)
    return value.item() if isinstance(value, np.generic) else value


def _core_from_state(state: ModelState, module: Any) -> RatioCore:
    config, arrays = state.config, state.arrays
    tails = {
        name.removeprefix("tails."): array for name, array in arrays.items() if name.startswith("tails.")
    }
    calibration = None
    if "calibration" in config:
        kept = {name: arrays[f"calibration.{name}"] for name in ("levels", "steps", "curve")}
        calibration = Calibration.from_state(config["calibration"] | kept)
    classes = config["classes"]
    return RatioCore(
        FoldedRatio.from_state(state.parts["model"], module=module),
        calibration,
        ScoreTails.from_state(config["tails"] | tails),
        PriorEstimate(**config["prior"]),
        float(config["labelled_share"]),
        np.array(classes["values"], dtype=np.dtype(classes["dtype"])),
        str(config["method"]),
        GridCounts(arrays["grid.positive"], arrays["grid.unlabeled"]) if "grid.positive" in arrays else None,
        Protection(**config["protection"]) if "protection" in config else None,
    )


def _with_columns(classifier: Classifier, core: RatioCore, config: dict[str, Any]) -> Classifier:
    classifier._core = core
    classifier.n_features_in_ = int(config["columns"])
    if "names" in config:
        classifier.feature_names_in_ = np.array(config["names"], dtype=object)
    return classifier
