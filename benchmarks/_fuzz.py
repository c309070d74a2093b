"""Files with edited parts and correct digests, as an attacker could write them.

Every edit is drawn from a seed, so each can be repeated. Edits change numbers, types, names and kinds in the
manifest, arrays, LightGBM's text, and the rows of an audit plan. Sizes, digests and checksums are corrected,
so that only the checks of the content can detect an edit. Archives of scikit-learn estimators are not edited:
they are read from trusted files only, where an attacker cannot edit them.
"""

from __future__ import annotations

import hashlib
import io
import json
import random
import re
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from drpu import (
    Audit,
    BoostedRatio,
    Costs,
    DRPUClassifier,
    ElkanNotoClassifier,
    GenPUClassifier,
    KernelRatio,
    NetworkRatio,
    NNPUClassifier,
    PriorMonitor,
    UPUClassifier,
    adapt,
    export_onnx,
    load,
    make_gaussian_pu,
    save,
    verify,
)
from drpu.audits.plan import DESIGN, LABEL, ROW, check_of
from drpu.classifier.groups import audit_from_columns
from drpu.exceptions import ArtifactError, DataError, DRPUError
from drpu.files.archive import write_parts
from drpu.files.store import inspect_file
from drpu.models.boosted import ForestRatio
from drpu.models.fourier import FourierRatio
from drpu.periods.counts import GroupCounts
from drpu.report import render_report

__all__ = [
    "all_steps",
    "artifacts",
    "edited",
    "monitored",
    "new_rows",
    "outcome",
    "repacked",
    "unpacked",
]

COLUMNS = 3
SOME = 6  # one in so many files that load is also used in ways that take a second, such as a report
SCRIPT = "<script>alert(1)</script>"
NO_NUMBER = re.compile(r"\bnan\b")
# the smallest number, the smallest of full precision, and the largest ones
EXTREMES = (5e-324, -5e-324, 2.3e-308, 1e-300, 1e300, -1e308, 1.7e308)
TRUSTED = frozenset({"logistic", "forest of others", "elkan-noto", "pipeline"})  # kinds that need trust
Parts = dict[str, bytes]


# -- files of every kind -------------------------------------------------------------------------


@cache
def _data() -> Any:
    return make_gaussian_pu(60, 200, prior=0.4, separation=3, dimensions=COLUMNS, random_state=0)


def _rows() -> Any:
    return np.random.default_rng(1).normal(size=(20, COLUMNS))


def _table(n: int, shift: float, seed: int) -> Any:
    """A frame with numbers, categories, dates, texts, identifiers and gaps."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    words = np.array(["heat", "cough", "fall", "burn", "rash", "left", "right", "arm", "leg", "back"])
    return pd.DataFrame(
        {
            "heat": np.where(rng.random(n) < 0.1, np.nan, rng.normal(37 + shift, 1, n)),
            "ward": rng.choice(["north", "south", "<b>"], n, p=[0.2 + 0.3 * shift, 0.5 - 0.3 * shift, 0.3]),
            "day": pd.to_datetime("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, n), unit="D"),
            "smoker": rng.random(n) < 0.3,
            "note": [" ".join(rng.choice(words, 6)) for _ in range(n)],
            "key": [f"{seed}-{i}" for i in range(n)],
        }
    )


def _models() -> dict[str, Any]:
    network: dict[str, Any] = {"hidden": (4,), "epochs": 1, "device": "cpu", "random_state": 0}
    return {
        "centroids": KernelRatio(n_centres=8, width=1.0, ridge=0.1),
        "features": KernelRatio("features", n_centres=8, width=1.0, ridge=0.1),
        "boosted": BoostedRatio(n_rounds=3),
        "network": NetworkRatio(alpha=0.3, **network),
        "fourier": FourierRatio(linear=True),
        "forest": ForestRatio(n_trees=5),
        "logistic": "classifier",
        "forest of others": RandomForestClassifier(2, max_depth=4, random_state=0),
        "auto": "auto",
    }


def _fitted() -> dict[str, Any]:
    data = _data()
    X, y = data.X_y()
    fitted: dict[str, Any] = {}
    for name, model in _models().items():
        holdout = 0.3 if name == "auto" else 2  # one fold of the largest
        clf = DRPUClassifier(model, holdout=holdout, scenario="case-control", random_state=0)
        fitted[name] = clf.fit(X, y)
    kernel = _models()["centroids"]
    options: dict[str, Any] = {"holdout": 2, "scenario": "case-control", "random_state": 0}
    fitted["periods"] = DRPUClassifier(kernel, **options | {"scenario": "single-sample"}).fit(
        X, y, periods=np.random.default_rng(3).integers(0, 4, len(y))
    )
    away = np.random.default_rng(4).normal(-2, 1, size=(60, COLUMNS))
    labels = np.concatenate([y, np.full(60, -1)])
    fitted["negatives"] = DRPUClassifier(kernel, negative_label=-1, **options).fit(
        np.vstack([X, away]), labels
    )
    table = _joined(_table(60, 1.0, 0), _table(240, 0.2, 1))
    labels = np.repeat([1, 0], [60, 240])
    fitted["table"] = DRPUClassifier(BoostedRatio(n_rounds=3), **options).fit(table, labels)
    fitted["indicators"] = DRPUClassifier(kernel, **options).fit(table.fillna({"heat": 37.0}), labels)
    weight = np.random.default_rng(5).uniform(0.5, 2, len(y))
    fitted["weighted"] = DRPUClassifier(kernel, **options).fit(X, y, weight)
    fitted["pipeline"] = make_pipeline(StandardScaler(), DRPUClassifier(kernel, **options)).fit(X, y)
    fitted["adapted"] = fitted["centroids"].adapt(data.unlabeled).at_cost(Costs(5, 200))
    fresh = np.random.default_rng(2).normal(0.5, 1.5, size=(120, COLUMNS))
    answers = Audit.random(np.arange(40), (fresh[:40, 0] > 1).astype(int))
    fitted["audited"] = fitted["centroids"].adapt(fresh, audit=answers)
    fitted["budget"] = fitted["centroids"].at_budget(20, of=data.unlabeled)
    return fitted | _rivals(X, y)


def _joined(*frames: Any) -> Any:
    import pandas as pd

    return pd.concat(frames, ignore_index=True)


def _rivals(X: Any, y: Any) -> dict[str, Any]:
    network = NetworkRatio(hidden=(4,), epochs=1, device="cpu", random_state=0)
    generators: dict[str, Any] = {"steps": 2, "hidden": (4,), "device": "cpu"}
    options: dict[str, Any] = {"prior": 0.4, "scenario": "case-control", "random_state": 0}
    return {
        "linear score": UPUClassifier("linear", **options).fit(X, y),
        "kernel score": UPUClassifier("kernel", **options).fit(X, y),
        "network score": NNPUClassifier(network, **options).fit(X, y),
        "elkan-noto": ElkanNotoClassifier(LogisticRegression(), scenario="case-control", random_state=0).fit(
            X, y
        ),
        "generators": GenPUClassifier("linear", **generators, **options).fit(X, y),
    }


def artifacts() -> dict[str, bytes]:
    """One small file for each kind of model and classifier, and of a monitor."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        path = Path(folder) / "a.drpu"
        found = {}
        for name, classifier in _fitted().items():
            save(classifier, path)
            found[name] = path.read_bytes()
        monitor = PriorMonitor(monitored(), window=100)
        for seed in range(4):
            monitor.update(np.random.default_rng(seed).normal(size=(30, COLUMNS)))
        for name, counts in _counted().items():
            save(counts, path)
            found[name] = path.read_bytes()
        monitor.save(path)
        return found | {"monitor": path.read_bytes(), "plan": _planned()}


def _counted() -> dict[str, Any]:
    """Counts of rows, and of groups of rows."""
    clf = monitored()
    rows = np.random.default_rng(6).normal(size=(60, COLUMNS))
    months = {"may": clf.count(rows[:30]), "june": clf.count(rows[30:])}
    return {"counts": clf.count(rows), "groups": GroupCounts.of(clf.fitted_.no_counts(), months)}


def _planned() -> bytes:
    """The columns of an audit plan with answers, as JSON."""
    columns = monitored().plan_audit(_data().unlabeled, n=30, random_state=0).to_columns()
    return json.dumps(columns | {LABEL: [k % 2 for k in range(len(columns[ROW]))]}).encode()


@cache
def monitored() -> Any:
    """The classifier of the file of a monitor."""
    data = _data()
    clf = DRPUClassifier(_models()["centroids"], holdout=2, random_state=0)
    return clf.fit_pu(data.positive, data.unlabeled)


# -- what becomes of an edited file --------------------------------------------------------------


def all_steps(content: bytes) -> bool:
    """Whether a file, if it loads, is also used in ways that take a second."""
    return zlib.crc32(content) % SOME == 0


def new_rows(kind: str) -> Any:
    """Rows for the classifier of a kind of file."""
    if kind in ("table", "indicators"):
        return _table(20, 0.5, 5).fillna({"heat": 37.0})
    return _rows()


def outcome(kind: str, content: bytes, folder: Path, *, every: bool | None = None) -> str:
    """``"refused"`` or ``"works"``; any other text describes a fault.

    A file that loads is used: labels, adaptation, notebook and ONNX must work or give a typed error. With
    ``every`` it is used in all ways; by default one in ``SOME`` files is.
    """
    every = all_steps(content) if every is None else every
    path = folder / "edited.drpu"
    path.write_bytes(content)
    new = new_rows(kind)
    done = "load"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "plan":
                uses = _plan_uses(content)
            elif kind in ("counts", "groups"):
                uses = _counts_uses(kind, path)
            elif kind == "monitor":
                uses = _monitor_uses(PriorMonitor.load(path, monitored()), new)
            else:
                uses = _uses(_read_thrice(kind, path), new, folder, all_of_them=every)
            for name, use in uses:
                done = name
                with suppress(DRPUError):  # about these rows, for example another number of columns
                    _check_shown(name, use())
    except (ArtifactError, DataError) as error:
        if kind == "plan" or isinstance(error, ArtifactError):
            return "refused"
        return f"{done} raised {type(error).__name__}: {error!s:.200}"
    except Exception as error:
        return f"{done} raised {type(error).__name__}: {error!s:.200}"
    return "works"


def _check_shown(name: str, result: Any) -> None:
    """Raise if a page contains a script of the file, or a text for the terminal its control characters."""
    if isinstance(result, str) and ("\x1b" if name == "repr" else SCRIPT) in result:
        raise RuntimeError("a text of the file is shown as it is")
    if isinstance(result, str) and NO_NUMBER.search(result):
        raise RuntimeError("a number that is none is shown")


def _counts_uses(kind: str, path: Path) -> list[tuple[str, Callable[[], Any]]]:
    counts = load(path)
    if kind == "counts":
        return [("adapt", lambda: monitored().adapt(counts)._repr_html_())]
    return [("repr", lambda: repr(monitored().adapt_by(counts, by=None)))]


def _plan_uses(content: bytes) -> list[tuple[str, Callable[[], Any]]]:
    audit = audit_from_columns(monitored(), _data().unlabeled, json.loads(content))
    return [("adapt", lambda: monitored().adapt(_data().unlabeled, audit=audit)._repr_html_())]


def _read_thrice(kind: str, path: Path) -> Any:
    """The classifier; a file that is read must be verified and inspected without an error."""
    classifier = load(path, trusted=kind in TRUSTED)
    try:
        verify(path, trusted=kind in TRUSTED)
        inspect_file(path)
    except ArtifactError as error:
        raise RuntimeError(f"load reads what verify or inspect refuse: {error}") from error
    return classifier


def _uses(
    classifier: Any, new: Any, folder: Path, *, all_of_them: bool
) -> list[tuple[str, Callable[[], Any]]]:
    last = classifier[-1] if isinstance(classifier, Pipeline) else classifier
    uses: list[tuple[str, Callable[[], Any]]] = [
        ("predict", lambda: _all_labelled(classifier.predict(new), new)),
        ("repr", lambda: repr(classifier)),
    ]
    if hasattr(last, "predict_proba"):
        uses.append(("predict_proba", lambda: _probabilities(classifier, new)))
    if hasattr(last, "adapt"):
        uses += [
            ("ratio", lambda: _numbers(last.ratio(new))),
            ("adapt", lambda: _adapted(classifier, new)._repr_html_()),
            ("notebook", last._repr_html_),
            ("prior", last.prior_._repr_html_),
            ("export", lambda: export_onnx(last, folder / "graph.onnx")),
        ]
    if hasattr(last, "adapt") and all_of_them:
        uses += [
            ("expected", last.expected_performance),
            ("budget", lambda: last.at_budget(share=0.1)),
            ("plan", lambda: last.plan_audit(new, n=5, random_state=0)._repr_html_()),
            ("groups", lambda: last.adapt_by(new, by=np.arange(20) % 2)._repr_html_()),
            ("contributions", lambda: last.contributions(new)),
            ("report", lambda: render_report(last, new)),
        ]
    return uses


def _monitor_uses(monitor: Any, new: Any) -> list[tuple[str, Callable[[], Any]]]:
    return [
        ("update", lambda: monitor.update(new)),
        ("adapted", monitor.adapted),
        ("repr", lambda: repr(monitor)),
    ]


def _probabilities(classifier: Any, new: Any) -> None:
    probability = _numbers(classifier.predict_proba(new))
    if (probability < 0).any() or (probability > 1).any():
        raise RuntimeError("a probability is not between 0 and 1")


def _numbers(values: Any) -> Any:
    if np.isnan(values).any():
        raise RuntimeError(f"{int(np.isnan(values).sum())} results are no numbers")
    return values


def _adapted(classifier: Any, new: Any) -> Any:
    adapted = adapt(classifier, new)
    _probabilities(adapted, new)
    return adapted


def _all_labelled(labels: Any, new: Any) -> None:
    if len(labels) != len(new):
        raise RuntimeError(f"{len(labels)} labels for {len(new)} rows")


# -- edits ---------------------------------------------------------------------------------------


def edited(artifact: bytes, seed: int) -> bytes:
    """The file after one to three edits, with correct sizes and digests."""
    rng = random.Random(seed)
    if artifact.startswith(b"{"):
        return _edit_plan(json.loads(artifact), rng)
    manifest, parts = unpacked(artifact)
    names = sorted(name for name in parts if not name.endswith(".skops"))
    for _ in range(rng.choice([1, 1, 2, 3])):
        whole = isinstance(manifest.get("tree"), dict)  # an earlier edit may have replaced it
        if rng.random() < 0.5:
            _edit_json(manifest["tree"] if whole and rng.random() < 0.95 else manifest, rng)
        else:
            name = rng.choice(names)
            parts[name] = _edit_part(name, parts[name], rng)
    return repacked(manifest, parts)


def unpacked(artifact: bytes) -> tuple[dict[str, Any], Parts]:
    """The manifest and the other parts of a file."""
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(parts.pop("manifest.json")), parts


def repacked(manifest: dict[str, Any], parts: Parts) -> bytes:
    """A file of these parts with correct sizes and digests, except digests that are ``"keep"``."""
    if isinstance(manifest.get("parts"), dict):
        for name, entry in manifest["parts"].items():
            if name in parts and isinstance(entry, dict) and entry.get("sha256") != "keep":
                entry.update(sha256=hashlib.sha256(parts[name]).hexdigest(), bytes=len(parts[name]))
    text = json.dumps(manifest, ensure_ascii=False).encode()
    out = io.BytesIO()
    write_parts(out, {"manifest.json": text, **parts})
    return out.getvalue()


_VALUES: list[Callable[[random.Random], Any]] = [
    lambda rng: None,
    lambda rng: True,
    lambda rng: 0,
    lambda rng: -1,
    lambda rng: rng.randint(-5, 50),
    lambda rng: rng.choice([10**6, 10**9, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 10**30]),
    lambda rng: rng.choice([0.5, -0.5, 1.0, *EXTREMES]),
    lambda rng: rng.choice(["", "x", "auto", "nan", "../x", "(100000000,)f8", "O", "<U999999999"]),
    lambda rng: "y" * 10_000,
    lambda rng: [],
    lambda rng: {},
    lambda rng: [0] * rng.randint(1, 1000),
    lambda rng: [[1.0, 2.0], [3.0]],
    lambda rng: {"float": rng.choice(["inf", "-inf", "nan"])},
    lambda rng: rng.choice([SCRIPT, "\x1b[31m", "=1+1", "\u202e", "\x00"]),
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
    if rng.random() < 0.4:  # a value of the same type, which more checks let through
        node[key] = _similar(node[key], rng)
        return
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


def _similar(value: Any, rng: random.Random) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, 2 * value, 0, 1, rng.randint(0, 100)])
    if isinstance(value, float):
        near = [value * 10 ** rng.uniform(-9, 9), rng.random(), -value, 1 - value, 0.0, 1.0]
        return rng.choice([*near, rng.choice(EXTREMES)])
    if isinstance(value, str):
        return rng.choice([SCRIPT, value + " ", value.upper(), "\x1b[31m", "", "\u202e" + value])
    if isinstance(value, list):
        return rng.choice([value[::-1], value[:-1], value * 2, sorted(value, key=str)])
    return value


def _edit_plan(columns: dict[str, list[Any]], rng: random.Random) -> bytes:
    """The columns of a plan with other rows, designs or answers, and correct checksums."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        every = rng.random() < 0.3
        name, new = rng.choice([ROW, DESIGN, DESIGN, DESIGN, LABEL]), rng.choice(_VALUES)(rng)
        field, at = rng.randrange(6), rng.randrange(len(columns[ROW]))
        for k in range(len(columns[ROW])) if every else [at]:
            parts = str(columns[DESIGN][k]).split("-")[:-1]
            if name == DESIGN and len(parts) > field:
                parts[field] = str(new) if rng.random() < 0.5 else parts[field].replace("of", str(new))
            elif name != DESIGN:
                columns[name][k] = new
            body = "-".join(parts)
            columns[DESIGN][k] = f"{body}-{check_of(columns[ROW][k], body)}"
    if rng.random() < 0.1:
        columns.pop(rng.choice(sorted(columns)))
    return json.dumps(columns).encode()


def _edit_part(name: str, part: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.05:
        return _edit_bytes(part, rng)
    return _edit_arrays(part, rng) if name == "arrays.safetensors" else _edit_text(part, rng)


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
    if rng.random() < 0.4 and array.size:  # values like those of the array, which more checks let through
        flat = array.copy().reshape(-1)
        at, other = rng.randrange(flat.size), rng.randrange(flat.size)
        ways = [flat[::-1], np.sort(flat), np.roll(flat, 1), np.full_like(flat, flat[at]), flat]
        flat[at] = flat[other]
        with np.errstate(all="ignore"):
            if flat.dtype.kind == "f":
                ways += [flat * 10 ** rng.uniform(-9, 9), -flat, flat * 1e-200, flat * 1e-308, flat * 1e200]
            return rng.choice(ways).astype(array.dtype).reshape(array.shape)
    if action < 0.5 and array.size:
        flat = array.copy().reshape(-1)
        value: Any = rng.choice([np.nan, np.inf, -np.inf, 0, -1, 2**62, 5, *EXTREMES])
        where: Any = rng.randrange(flat.size) if rng.random() < 0.8 else slice(None)
        with np.errstate(all="ignore"):
            flat[where] = np.array(value).astype(flat.dtype)
        return flat.reshape(array.shape)
    if action < 0.75:
        shapes = [(-1,), (1, -1), (-1, 1), (array.size, 1, 1)]
        changed = array.reshape(rng.choice(shapes)) if array.size else np.zeros((0, 3), dtype=array.dtype)
        return changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.5 else changed
    if action < 0.85:
        return np.concatenate([array.reshape(-1)] * 2)
    types = ["f4", "f8", "i8", "i4", "u1", "?", "f2"]
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
