"""The manifest of an artifact: its kind, the versions that wrote it, and the digests of its parts."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from drpu._state import ModelState
from drpu.exceptions import ArtifactError

__all__ = [
    "SCHEMA",
    "check_parts",
    "digest",
    "flatten",
    "read_manifest",
    "unflatten",
    "upgrade",
    "write_manifest",
    "written_with",
]

FORMAT = "drpu"
MOST_DEPTH = 64  # most levels of nested JSON; a stack of models in folds needs about twenty

_VERSION = re.compile(r"^[0-9A-Za-z.+_-]{1,40}$")

Arrays = dict[str, np.ndarray[Any, Any]]
Blobs = dict[str, bytes]


def digest(part: bytes) -> str:
    """SHA-256 of a part, in hexadecimal."""
    return hashlib.sha256(part).hexdigest()


def write_manifest(tree: dict[str, Any], parts: dict[str, bytes], contents: dict[str, Any]) -> bytes:
    """Manifest of an artifact made of ``parts``, as JSON; ``contents`` describes its values."""
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": _versions(),
        "contents": contents,
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
    """The manifest, after its format and schema have been checked."""
    manifest = _read_json(text)
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError("this file was not written by drpu.save.")
    schema = manifest.get("schema")
    if type(schema) is not int or schema < 1:
        raise ArtifactError(f"the artifact has schema {schema!r:.100}, which is not an integer above 0.")
    if schema > SCHEMA:
        raise ArtifactError(
            f"the artifact has schema {schema}, this drpu reads up to {SCHEMA}: "
            f"it was written by drpu {written_with(manifest, 'drpu')}, upgrade to that version."
        )
    return manifest


def written_with(manifest: dict[str, Any], package: str) -> str:
    """Version of ``package`` that wrote the artifact, if the manifest has it."""
    versions = manifest.get("versions")
    found = versions.get(package) if isinstance(versions, dict) else None
    return found if isinstance(found, str) and _VERSION.match(found) else "of an unknown version"


def check_parts(manifest: dict[str, Any], parts: dict[str, bytes]) -> None:
    """Raise unless ``parts`` are those that the manifest names, of the size and digest that it gives."""
    entries = manifest.get("parts")
    if not isinstance(entries, dict) or entries.keys() != parts.keys():
        raise ArtifactError("the parts of the artifact are not those that its manifest names.")
    for name, entry in entries.items():
        if not isinstance(entry, dict) or entry.keys() != {"sha256", "bytes"}:
            raise ArtifactError(f"the manifest must give the SHA-256 digest and the bytes of part {name!r}.")
        if type(entry["bytes"]) is not int or entry["bytes"] != len(parts[name]):
            raise ArtifactError(
                f"part {name!r} of the artifact has {len(parts[name])} bytes, "
                f"and {entry['bytes']!r:.100} in the manifest."
            )
        if entry["sha256"] != digest(parts[name]):
            raise ArtifactError(f"part {name!r} of the artifact has been changed: its digest does not match.")


def _read_json(text: bytes) -> Any:
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the manifest of the artifact cannot be read: {error!s:.200}") from error
    level, depth = [found], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise ArtifactError(f"the manifest of the artifact is nested deeper than {MOST_DEPTH} levels.")
        inner = [list(item.values()) if isinstance(item, dict) else item for item in level]
        level = [value for item in inner for value in item if isinstance(value, (dict, list))]
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def flatten(state: ModelState, path: str = "") -> tuple[dict[str, Any], Arrays, Blobs]:
    """A JSON tree with the names of arrays and blobs, and the arrays and blobs by name."""
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


def unflatten(tree: Any, arrays: Arrays, blobs: Blobs) -> ModelState:
    """The state from which :func:`flatten` made ``tree``; every array and blob must belong to it."""
    used: set[str] = set()
    state = _node(tree, arrays, blobs, "", used)
    left = sorted((arrays.keys() | blobs.keys()) - used)
    if left:
        raise ArtifactError(f"the artifact has a part that its state does not name: {left[0][:100]!r}.")
    return state


def _node(tree: Any, arrays: Arrays, blobs: Blobs, path: str, used: set[str]) -> ModelState:
    if not isinstance(tree, dict) or tree.keys() != {"kind", "config", "arrays", "blobs", "parts"}:
        raise ArtifactError(f"the state of the artifact cannot be read at {path or 'its top'!r}.")
    kinds = {"kind": str, "config": dict, "arrays": list, "blobs": list, "parts": dict}
    for name, kind in kinds.items():
        if not isinstance(tree[name], kind):
            raise ArtifactError(
                f"the state of the artifact cannot be read: {name} must be a {kind.__name__}."
            )
    found: list[dict[str, Any]] = []
    for names, source in ((tree["arrays"], arrays), (tree["blobs"], blobs)):
        if not all(isinstance(name, str) and f"{path}{name}" in source for name in names):
            raise ArtifactError("the state of the artifact cannot be read: it names a part that is missing.")
        keys = [f"{path}{name}" for name in names]
        if len(set(keys)) != len(keys) or used & set(keys):
            raise ArtifactError("the state of the artifact cannot be read: it names a part twice.")
        used.update(keys)
        found.append({name: source[f"{path}{name}"] for name in names})
    parts = {name: _node(part, arrays, blobs, f"{path}{name}/", used) for name, part in tree["parts"].items()}
    return ModelState(tree["kind"], tree["config"], found[0], found[1], parts)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch", "skops", "safetensors"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


SCHEMA = 3


def upgrade(state: ModelState, schema: int) -> ModelState:
    """A classifier's state in the present layout, from the layout of ``schema``."""
    return _from_first(state) if schema == 1 else state


def _from_first(state: ModelState) -> ModelState:
    if state.kind not in ("DRPUClassifier", "AdaptedClassifier"):
        return state
    config, arrays = state.config, state.arrays
    tails = ModelState("tails", config["tails"], _under("tails", arrays))
    parts = {"model": state.parts["model"], "tails": tails}
    if "calibration" in config:
        parts["calibration"] = ModelState("calibration", config["calibration"], _under("calibration", arrays))
    if "grid.positive" in arrays:
        parts["grid"] = ModelState("grid", arrays=_under("grid", arrays))
    fitted = {
        "train_prior": config["prior"],
        "labelled_fraction": config["labelled_share"],
        "classes": config["classes"],
        "adapt_method": config["method"],
    }
    if "protection" in config:
        fitted["protection"] = config["protection"]
    own: dict[str, Any] = {name: config[name] for name in ("columns", "names") if name in config}
    if state.kind == "AdaptedClassifier":
        own |= {"test_prior": config["at"]["prior"], "cost": config["at"]["cost"]}
    else:
        own["parameters"] = config["parameters"] | {"adapt_method": config["method"]}
    return ModelState(state.kind, own, parts={"fitted": ModelState("fitted-ratio", fitted, parts=parts)})


def _under(part: str, arrays: dict[str, Any]) -> dict[str, Any]:
    start = f"{part}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
