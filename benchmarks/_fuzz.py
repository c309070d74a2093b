"""Artifacts with edited parts and correct digests, as an attacker could write them.

Every edit is drawn from a seed, so each can be repeated. Edits change the content of the parts: numbers,
types and names in the manifest, arrays, LightGBM's text, and the archives of scikit-learn estimators.
Sizes and digests are corrected, so that only the checks of the content can detect an edit.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import tempfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.svm import SVC

from drpu import (
    BoostedRatio,
    DRPUClassifier,
    ElkanNotoClassifier,
    GenPUClassifier,
    KernelRatio,
    NetworkRatio,
    NNPUClassifier,
    UPUClassifier,
    load,
    make_gaussian_pu,
    save,
)
from drpu.exceptions import ArtifactError, DRPUError

__all__ = ["artifacts", "edited", "outcome", "rows"]

COLUMNS = 3
Parts = dict[str, bytes]


def rows() -> Any:
    """New rows that loaded classifiers predict."""
    return np.random.default_rng(1).normal(size=(20, COLUMNS))


def artifacts() -> dict[str, bytes]:
    """One small artifact for each kind of model and classifier."""
    data = make_gaussian_pu(60, 200, prior=0.4, separation=3, dimensions=COLUMNS, random_state=0)
    X, y = data.X_y()
    network: dict[str, Any] = {"hidden": (4,), "epochs": 1, "device": "cpu", "random_state": 0}
    models: dict[str, Any] = {
        "centroids": KernelRatio(n_centres=8, width=1.0, ridge=0.1),
        "features": KernelRatio("features", n_centres=8, width=1.0, ridge=0.1),
        "boosted": BoostedRatio(n_rounds=3),
        "bregman": BoostedRatio("bregman", n_rounds=3),
        "network": NetworkRatio(alpha=0.3, **network),
        "logistic": "classifier",
        "forest": RandomForestClassifier(2, max_depth=4, random_state=0),
        "boosting": GradientBoostingClassifier(n_estimators=2, random_state=0),
        "histograms": HistGradientBoostingClassifier(max_iter=2, random_state=0),
        "neighbours": KNeighborsClassifier(3),
        "support": SVC(probability=True, random_state=0),
        "powers": make_pipeline(PolynomialFeatures(2), LogisticRegression()),
        "auto": "auto",
    }
    fitted: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models.items():
            holdout = 0.3 if name == "auto" else 2  # one fold of the largest
            fitted[name] = DRPUClassifier(model, holdout=holdout, random_state=0).fit(X, y)
        fitted["adapted"] = fitted["centroids"].adapt(data.unlabeled)
        fitted["linear score"] = UPUClassifier("linear", prior=0.4, random_state=0).fit(X, y)
        fitted["kernel score"] = UPUClassifier("kernel", prior=0.4, random_state=0).fit(X, y)
        fitted["network score"] = NNPUClassifier(NetworkRatio(**network), prior=0.4, random_state=0).fit(X, y)
        fitted["elkan-noto"] = ElkanNotoClassifier(LogisticRegression(), random_state=0).fit(X, y)
        fitted["generators"] = GenPUClassifier(
            "linear", steps=2, hidden=(4,), prior=0.4, device="cpu", random_state=0
        ).fit(X, y)
        return {name: _saved(classifier) for name, classifier in fitted.items()}


def _saved(classifier: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.drpu"
        save(classifier, path, keep_rows=True)
        return path.read_bytes()


def edited(artifact: bytes, seed: int) -> bytes:
    """The artifact after one to three edits, with correct sizes and digests."""
    rng = random.Random(seed)
    parts = _unzip(artifact)
    manifest = json.loads(parts.pop("manifest.json"))
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.35:
            _edit_json(manifest["state"] if rng.random() < 0.9 else manifest, rng)
        else:
            name = rng.choice(sorted(parts))
            parts[name] = _edit_part(name, parts[name], rng)
    if isinstance(manifest.get("parts"), dict):
        for name, entry in manifest["parts"].items():
            if name in parts and isinstance(entry, dict):
                entry.update(sha256=hashlib.sha256(parts[name]).hexdigest(), bytes=len(parts[name]))
    return _zip({"manifest.json": json.dumps(manifest).encode(), **parts}, zipfile.ZIP_DEFLATED)


def outcome(content: bytes, new: Any, folder: Path) -> str:
    """``"refused"`` or ``"works"``; any other text describes a fault."""
    path = folder / "edited.drpu"
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            classifier = load(path)
        except ArtifactError:
            return "refused"
        except Exception as error:
            return f"load raised {type(error).__name__}: {error!s:.200}"
        try:
            labels = classifier.predict(new)
        except DRPUError:
            return "works"  # a typed error about these rows, for example another number of columns
        except Exception as error:
            return f"predict raised {type(error).__name__}: {error!s:.200}"
    return "works" if len(labels) == len(new) else "predict gave too few labels"


def _unzip(content: bytes) -> Parts:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zip(parts: Parts, method: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return out.getvalue()


# -- edits -----------------------------------------------------------------------------------

_VALUES: list[Callable[[random.Random], Any]] = [
    lambda rng: None,
    lambda rng: True,
    lambda rng: 0,
    lambda rng: -1,
    lambda rng: rng.randint(-5, 50),
    lambda rng: rng.choice([10**6, 10**9, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 10**30]),
    lambda rng: rng.choice([0.5, -0.5, 1e-300, 1e300, -1e308, 1.0]),
    lambda rng: rng.choice(["", "x", "auto", "nan", "../x", "(100000000,)f8", "O", "<U999999999"]),
    lambda rng: "y" * 10_000,
    lambda rng: [],
    lambda rng: {},
    lambda rng: [0] * rng.randint(1, 1000),
    lambda rng: [[1.0, 2.0], [3.0]],
    lambda rng: {"value": 0.5},
]


def _edit_json(tree: Any, rng: random.Random) -> None:
    """Change, remove or add one value somewhere in a tree of JSON."""
    where: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            where.append((node, key))
            if isinstance(node[key], (dict, list)):
                waiting.append(node[key])
    if not where:
        return
    node, key = rng.choice(where)
    action = rng.random()
    if action < 0.15:
        del node[key]
    elif action < 0.25 and isinstance(node, dict):
        node["extra" if rng.random() < 0.5 else str(rng.randint(0, 9))] = rng.choice(_VALUES)(rng)
    elif action < 0.35:
        other, name = rng.choice(where)
        if name in other if isinstance(other, dict) else name < len(other):
            node[key] = json.loads(json.dumps(other[name]))
    elif action < 0.5 and isinstance(node[key], (int, float)) and not isinstance(node[key], bool):
        node[key] = rng.choice([-node[key], node[key] + 1, node[key] * 1000, node[key] - 1])
    else:
        node[key] = rng.choice(_VALUES)(rng)


def _edit_part(name: str, part: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return _edit_bytes(part, rng)
    if name == "arrays.safetensors":
        return _edit_arrays(part, rng)
    if part[:4] == b"PK\x03\x04":
        return _edit_archive(part, rng)
    return _edit_text(part, rng)


def _edit_bytes(part: bytes, rng: random.Random) -> bytes:
    data = bytearray(part)
    for _ in range(rng.choice([1, 3, 30])):
        if data:
            data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.randrange(len(data) + 1)]) if rng.random() < 0.3 else bytes(data)


def _edit_arrays(part: bytes, rng: random.Random) -> bytes:
    try:
        arrays = {name: np.array(array) for name, array in safetensors.numpy.load(part).items()}
    except Exception:  # an earlier edit has broken it
        return part
    if not arrays:
        return part
    name = rng.choice(sorted(arrays))
    arrays[name] = _edit_array(arrays[name], rng)
    if rng.random() < 0.05:
        arrays.pop(name)
    return safetensors.numpy.save({key: np.ascontiguousarray(value) for key, value in arrays.items()})


def _edit_array(array: Any, rng: random.Random) -> Any:
    """Other values, another shape or another type."""
    action = rng.random()
    if action < 0.5 and array.size:
        flat = array.copy().reshape(-1)
        value: Any = rng.choice([np.nan, np.inf, -np.inf, 0, -1, 1e300, 2**62, 5])
        if flat.dtype.names is not None:
            field = rng.choice(flat.dtype.names)
            target = flat[field]
        else:
            target = flat
        at: Any = rng.randrange(len(target)) if rng.random() < 0.8 else slice(None)
        with np.errstate(all="ignore"):
            target[at] = np.array(value).astype(target.dtype)
        return flat.reshape(array.shape)
    if action < 0.75:
        shapes = [(-1,), (1, -1), (-1, 1), (array.size, 1, 1)]
        changed = array.reshape(rng.choice(shapes)) if array.size else np.zeros((0, 3), dtype=array.dtype)
        return changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.5 else changed
    if action < 0.85:
        return np.concatenate([array.reshape(-1)] * 2)
    types = ["f4", "f8", "i8", "i4", "u1", "?", "f2"]
    if array.dtype.names is not None:
        return np.zeros(array.shape, dtype=rng.choice(types))
    with np.errstate(all="ignore"):
        return array.astype(rng.choice(types))


def _edit_text(part: bytes, rng: random.Random) -> bytes:
    lines = part.decode("latin-1").split("\n")
    at = rng.randrange(len(lines))
    action = rng.random()
    if action < 0.1:
        del lines[at]
    elif action < 0.2:
        lines.insert(rng.randrange(len(lines) + 1), lines[at])
    elif action < 0.3:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    else:
        for _ in range(20):  # find a line with a value
            if "=" in lines[at]:
                break
            at = rng.randrange(len(lines))
        name, _, value = lines[at].partition("=")
        words = value.split(" ")
        word = rng.randrange(len(words))
        new = ["nan", "inf", "-inf", "1e999", "-1", "0", "1", "2", "99", "-99", "100000000", "-2147483648"]
        new += ["4294967296", "1e300", "x", "", "0x10", "1_0", str(rng.randint(-9, 9))]
        words[word] = rng.choice(new)
        if rng.random() < 0.1:
            words = words * 2
        if rng.random() < 0.1:
            words.pop()
        lines[at] = f"{name}={' '.join(words)}"
    return "\n".join(lines).encode("latin-1")


def _edit_archive(part: bytes, rng: random.Random) -> bytes:
    try:
        files = _unzip(part)
    except Exception:  # an earlier edit has broken it
        return part
    arrays = sorted(name for name in files if name.endswith(".npy"))
    if arrays and rng.random() < 0.5:
        name = rng.choice(arrays)
        try:
            array = np.load(io.BytesIO(files[name]), allow_pickle=False)
        except Exception:
            return part
        out = io.BytesIO()
        if array.ndim:
            array = _edit_array(array, rng)
        np.save(out, array)
        files[name] = out.getvalue()
        if rng.random() < 0.1:
            files[name] = _edit_bytes(files[name], rng)
    elif "schema.json" in files:
        schema = json.loads(files["schema.json"])
        _edit_json(schema, rng)
        files["schema.json"] = json.dumps(schema).encode()
    return _zip(files, zipfile.ZIP_STORED)
