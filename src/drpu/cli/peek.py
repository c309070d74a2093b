"""Facts about a saved classifier, read from its state without making a model or importing scikit-learn."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import safetensors.numpy

from drpu._state import ModelState
from drpu.core.decision import ratio_threshold
from drpu.exceptions import ArtifactError
from drpu.files.container import ARRAYS, BLOBS, MANIFEST, open_container, read_bytes
from drpu.files.manifest import check_parts, read_manifest, unflatten, upgrade

__all__ = ["as_object", "peek"]

MOVABLE = ("DRPUClassifier", "AdaptedClassifier")


def peek(path: Path) -> dict[str, Any]:
    """Facts about the classifier in a file, after sizes, names and digests have been checked."""
    content = read_bytes(path)
    try:
        parts = open_container(content)
        manifest = read_manifest(parts.pop(MANIFEST))
        check_parts(manifest, parts)
        arrays = safetensors.numpy.load(parts.pop(ARRAYS, b""))
        blobs = {name.removeprefix(BLOBS): part for name, part in parts.items()}
        state = upgrade(unflatten(manifest["state"], arrays, blobs), manifest["schema"])
        if state.kind not in MOVABLE:
            raise ArtifactError(f"it holds a {state.kind}, which has no prior to move.")
        versions = {str(name): str(number) for name, number in manifest["versions"].items()}
        found = {"versions": versions, "contents": manifest.get("contents")} | _facts(state)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error
    except Exception as error:  # a damaged file can cause any error
        raise ArtifactError(f"{path} cannot be read as a drpu artifact: {error!s:.300}") from error
    return {"artifact": str(path), "bytes": len(content)} | found


def _facts(state: ModelState) -> dict[str, Any]:
    fitted = state.parts["fitted"]
    train, model = _prior(fitted.config["train_prior"]), fitted.parts["model"]
    prior, cost = _position(state, train)
    tails = fitted.parts["tails"]
    cut = state.config.get("cut")
    threshold = math.exp(float(cut[0])) if cut else ratio_threshold(train["value"], prior["value"], cost=cost)
    return {
        "kind": state.kind,
        "model": _model(model),
        "n_columns": int(state.config["columns"]),
        "columns": state.config.get("names"),
        "classes": fitted.config["classes"]["values"],
        "positives": float(tails.config["n_positive"]),
        "unlabeled": _rows(tails),
        "labelled_share": float(fitted.config["labelled_fraction"]),
        "train_prior": train,
        "prior": prior,
        "cost": cost,
        "threshold": threshold,
    }


def _position(state: ModelState, train: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """The prior and the cost that the classifier works at."""
    if state.kind == "AdaptedClassifier":
        return _prior(state.config["test_prior"]), _cost(state.config["cost"])
    parameters = state.config["parameters"]
    given = parameters.get("test_prior")
    if given is None:
        return train, _cost(parameters["cost"])
    known = {"value": given, "low": given, "high": given, "level": 0.95, "method": "given"}
    return _prior(given if isinstance(given, dict) else known), _cost(parameters["cost"])


def _model(state: ModelState) -> str:
    if state.kind == "folds":
        return f"{len(state.parts)} x {state.parts['0'].kind}"
    functions = state.config["tree"]["fields"]["functions"]
    return f"{len(functions)} x {functions[0]['kind']}"


def _prior(config: dict[str, Any]) -> dict[str, Any]:
    return {"identified": True} | config


def _cost(cost: Any) -> float:
    if isinstance(cost, dict):
        return float(cost["false_alarm"] / (cost["false_alarm"] + cost["miss"]))
    return float(cost)


def _rows(tails: ModelState) -> float:
    """Effective number of unlabeled training rows."""
    total, copies = float(np.sum(tails.arrays["counts"])), int(tails.config["copies"])
    squares = float(tails.config["weight_squares"])
    return (total * total / squares if squares > 0 else total) / copies


def as_object(prior: dict[str, Any]) -> Any:
    """A prior whose fields are attributes, for printing."""
    return SimpleNamespace(**prior)
