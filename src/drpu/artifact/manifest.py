"""The readable half of an artifact: what it is, what wrote it, and what its parts must hash to."""

from __future__ import annotations

import hashlib
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from drpu._state import ModelState
from drpu.exceptions import ArtifactError

__all__ = ["SCHEMA", "digest", "flatten", "read_manifest", "unflatten", "write_manifest"]

SCHEMA = 1
FORMAT = "drpu"

Arrays = dict[str, np.ndarray[Any, Any]]
Blobs = dict[str, bytes]


def digest(part: bytes) -> str:
    """SHA-256 of a part, in hexadecimal."""
    return hashlib.sha256(part).hexdigest()


def write_manifest(tree: dict[str, Any], parts: dict[str, bytes]) -> bytes:
    """Manifest of an artifact made of ``parts``, as JSON."""
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": _versions(),
        "parts": {name: {"sha256": digest(part), "bytes": len(part)} for name, part in parts.items()},
        "state": tree,
    }
    try:
        return json.dumps(manifest, indent=1, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            f"this classifier has a setting that cannot be written as JSON: {error}"
        ) from error


def read_manifest(text: bytes) -> dict[str, Any]:
    """The manifest, once its format and schema are known to be ours."""
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError("this file was not written by drpu.save.")
    schema = manifest.get("schema")
    if not isinstance(schema, int) or schema < 1:
        raise ArtifactError(f"the artifact has schema {schema!r}, which is not a number from 1 on.")
    if schema > SCHEMA:
        writer = manifest.get("versions", {}).get("drpu", "a newer version")
        raise ArtifactError(
            f"the artifact has schema {schema}, this drpu reads up to {SCHEMA}: "
            f"it was written by drpu {writer}, upgrade to that."
        )
    return manifest


def flatten(state: ModelState, path: str = "") -> tuple[dict[str, Any], Arrays, Blobs]:
    """A JSON tree with the names of arrays and blobs, which come beside it."""
    arrays = {f"{path}{name}": np.ascontiguousarray(array) for name, array in state.arrays.items()}
    blobs = {f"{path}{name}": blob for name, blob in state.blobs.items()}
    tree: dict[str, Any] = {
        "kind": state.kind,
        "config": state.config,
        "arrays": sorted(state.arrays),
        "blobs": sorted(state.blobs),
        "parts": {},
    }
    for name, part in state.parts.items():
        tree["parts"][name], inner_arrays, inner_blobs = flatten(part, f"{path}{name}/")
        arrays |= inner_arrays
        blobs |= inner_blobs
    return tree, arrays, blobs


def unflatten(tree: dict[str, Any], arrays: Arrays, blobs: Blobs, path: str = "") -> ModelState:
    """The state that :func:`flatten` took apart."""
    return ModelState(
        tree["kind"],
        tree["config"],
        {name: arrays[f"{path}{name}"] for name in tree["arrays"]},
        {name: blobs[f"{path}{name}"] for name in tree["blobs"]},
        {name: unflatten(part, arrays, blobs, f"{path}{name}/") for name, part in tree["parts"].items()},
    )


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch", "skops", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
