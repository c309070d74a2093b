"""Peak memory of files whose arrays are as large as their rules allow.

Each array of every kept class is grown in a valid file, with the other arrays of the same length in its
object, and again with those of the whole file, until the content of the file has a stated size. Ascending
values stay ascending, and other values are repeated. Sets of categories and trees are also grown as trees,
because their arrays are valid only together. Lists and named values of the manifest are repeated. A child
process, in which nothing else runs, then reads and uses the file, and its peak is compared with the promise
of SECURITY.md.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from benchmarks._fuzz import TRUSTED, monitored, new_rows, repacked, unpacked
from drpu import PriorMonitor, export_onnx, load, verify
from drpu._codec import KINDS, Array, Items, rules_of
from drpu.exceptions import DRPUError
from drpu.files.archive import EXPORT_FACTOR, MEMORY_FACTOR, MEMORY_MORE
from drpu.models.trees import MOST_CODES, MOST_DEPTH, MOST_TREES
from drpu.report import render_report

CONTENT = 2**23  # bytes of the grown content
LARGE_TREES = 4  # trees take more than other arrays, so they also grow more
LIMIT = 2**32  # bytes of data of this process, and of each child process
MOST_TEXTS = 500_000  # in a list that was empty
SECONDS = 60.0  # processor time of a child process

Arrays = dict[str, np.ndarray[Any, Any]]


class Grown(NamedTuple):
    """A file with grown arrays."""

    name: str  # the class and what has grown
    kind: str  # the kind of file
    content: bytes


# -- files -----------------------------------------------------------------------------------------


def grown_files(honest: dict[str, bytes], size: int = CONTENT) -> Iterator[Grown]:
    """A file for every class and length of its arrays, one for its lists, and some for trees."""
    seen: set[tuple[str, str]] = set()
    for kind, content in honest.items():
        if kind == "plan":  # no file
            continue
        manifest, parts = unpacked(content)
        arrays = dict(safetensors.numpy.load(parts["arrays.safetensors"]))
        for name, place, fields in _objects(manifest["tree"], ""):
            for letter, names in _lengths(name, fields).items():
                if (name, letter) not in seen:
                    seen.add((name, letter))
                    grown = _grown_length(arrays, place, names, size)
                    yield Grown(f"{name}: {', '.join(names)}", kind, _packed(manifest, parts, grown))
                    linked = _grown_with_all(arrays, arrays[f"{place}.{names[0]}"], size)
                    yield Grown(f"{name}: all like {names[0]}", kind, _packed(manifest, parts, linked))
            if name == "trees" and ("trees", kind) not in seen:
                seen.add(("trees", kind))
                for way, trees in _grown_trees(_fields_of(arrays, place), LARGE_TREES * size):
                    replaced = arrays | {f"{place}.{field}": array for field, array in trees.items()}
                    yield Grown(f"trees of {kind}: {way}", kind, _packed(manifest, parts, replaced))
        for name, tree in (*_grown_lists(manifest["tree"]), *_filled_lists(manifest["tree"])):
            if ("list", name) not in seen:
                seen.add(("list", name))
                yield Grown(f"list {name}", kind, _packed(manifest | {"tree": tree}, parts, arrays))


def grown_fields(honest: dict[str, bytes]) -> set[tuple[str, str]]:
    """Classes and fields whose arrays, lists or named values are grown in one of the files."""
    found = set()
    for kind, content in honest.items():
        if kind == "plan":
            continue
        for name, _, fields in _objects(unpacked(content)[0]["tree"], ""):
            arrays = {field for names in _lengths(name, fields).values() for field in names}
            found |= {(name, field.partition("[")[0]) for field in arrays}
            found |= {(name, field) for field, value in fields.items() if _is_long(value)}
            found |= {(name, field) for field in _empty_lists(name, fields)}
    return found


def fields_that_grow() -> set[tuple[str, str]]:
    """Classes and fields of which a file may contain any number of values."""
    found = set()
    for kind, cls in KINDS.items():
        if not cls.__module__.startswith("drpu."):
            continue  # tests register classes of their own
        for field, rules in rules_of(cls).items():
            for rule in rules.values():
                fixed = isinstance(rule, Items) and rule.low == rule.high
                if isinstance(rule, (Array, Items)) and not fixed:
                    found.add((kind, field))
    return found


def _empty_lists(name: str, fields: dict[str, Any]) -> Iterator[str]:
    """Fields of an object that are empty lists of texts, empty named texts, or None in place of them."""
    for field, rules in rules_of(KINDS[name]).items():
        for rule in rules.values():
            of_texts = isinstance(rule, Items) and rule.low < rule.high and str in rule.rules[0]
            if of_texts and fields[field] in (None, [], {"items": {}}):
                yield field


def _is_long(value: Any) -> bool:
    """Whether a value in a tree is a list or named values that are not empty."""
    if isinstance(value, dict) and value.keys() == {"items"}:
        value = value["items"]
    return bool(value) and (isinstance(value, list) or (isinstance(value, dict) and "kind" not in value))


def _packed(manifest: dict[str, Any], parts: dict[str, bytes], arrays: Arrays) -> bytes:
    whole = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    copy = json.loads(json.dumps(manifest))
    return repacked(copy, parts | {"arrays.safetensors": safetensors.numpy.save(whole)})


def _objects(tree: Any, place: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kinds, places and fields of the objects in a tree."""
    if isinstance(tree, list):
        for i, item in enumerate(tree):
            yield from _objects(item, f"{place}[{i}]")
    if not isinstance(tree, dict):
        return
    if tree.keys() == {"kind", "fields"}:
        yield tree["kind"], place, tree["fields"]
        for name, value in tree["fields"].items():
            yield from _objects(value, f"{place}.{name}" if place else name)
    elif tree.keys() == {"items"}:
        for key, value in tree["items"].items():
            yield from _objects(value, f"{place}[{key!a}]")


def _lengths(kind: str, fields: dict[str, Any]) -> dict[str, list[str]]:
    """For each letter of dimensions, the arrays with it: fields, and values of a field by their names."""
    letters: dict[str, list[str]] = {}
    for name, rules in rules_of(KINDS[kind]).items():
        arrays = {name: (fields[name], rules)}
        if isinstance(fields[name], dict) and fields[name].keys() == {"items"}:
            (inner,) = rules[dict].rules
            arrays = {f"{name}[{key!a}]": (value, inner) for key, value in fields[name]["items"].items()}
        for place, (value, rule_by_type) in arrays.items():
            rule = rule_by_type.get(np.ndarray)
            if isinstance(rule, Array) and isinstance(value, dict) and "array" in value:
                for letter in dict.fromkeys(rule.dims if rule.dims != "..." else "?"):
                    letters.setdefault(letter, []).append(place)
    return letters


def _grown_length(arrays: Arrays, place: str, names: list[str], size: int) -> Arrays:
    """The arrays of one length, longer."""
    places = [f"{place}.{name}" for name in names]
    length = arrays[places[0]].shape[0] if arrays[places[0]].ndim else 1
    unit = sum(arrays[each].nbytes / max(length, 1) for each in places) or 8
    factor = max(2, int(size / max(unit * length, 1)))
    grown = dict(arrays)
    for each in places:
        if length in arrays[each].shape:
            grown[each] = _longer(arrays[each], length, factor)
    return grown


def _grown_with_all(arrays: Arrays, like: np.ndarray[Any, Any], size: int) -> Arrays:
    """All arrays of the file with the length of one of them, or one more or less, longer.

    Objects of a file have lengths in common: scores, for example, cut one more range of counts.
    """
    length = like.shape[0] if like.ndim else 1
    if length == 0:
        return arrays
    near = {length - 1: -1, length: 0, length + 1: 1}
    unit = sum(array.nbytes / length for array in arrays.values() if near.keys() & set(array.shape))
    factor = max(2, int(size / (unit * length)))
    grown = dict(arrays)
    for name, array in arrays.items():
        for n, more in near.items():
            if n > 0 and n in array.shape:
                longer = _longer(array, n, factor + factor // n + 2)
                axis = array.shape.index(n)
                kept = np.arange(factor * length + more)
                grown[name] = np.take(longer, kept, axis=axis)
                break
    return grown


def _longer(array: np.ndarray[Any, Any], length: int, factor: int) -> Any:
    axis = array.shape.index(length)  # the first one, because a square array would grow twice
    array = np.concatenate([array] * factor, axis=axis)
    flat = array.ndim == 1 and length > 1 and bool((np.diff(array[:length]) > 0).all())
    if flat and array.dtype.kind == "f":
        array = np.linspace(array[0], array[length - 1], len(array))
    elif flat:
        array = (array[0] + np.arange(len(array))).astype(array.dtype)
    return array


def _fields_of(arrays: Arrays, place: str) -> Arrays:
    start = f"{place}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}


def _grown_trees(trees: Arrays, size: int) -> Iterator[tuple[str, Arrays]]:
    """Valid trees: many of the same, many of one leaf or of one split, large ones, and large sets."""
    total = sum(array.nbytes for array in trees.values())
    most = MOST_TREES // len(trees["leaves"])
    yield "many trees", _repeated(trees, max(2, min(most, size // total)))
    yield "one leaf each", _stumps(min(MOST_TREES, size // 16), splits=0)
    yield "one split each", _stumps(min(MOST_TREES, size // 61), splits=1)
    words = MOST_CODES // 32
    yield "large sets", _stumps(min(MOST_TREES, size // (65 + 4 * words)), splits=1, words=words)
    yield "one large tree", _large_tree(size // 37)
    yield "one large tree of sets", _large_tree(size // 45, words=1)
    yield "one deep tree", _deep_tree(size // 37)


def _repeated(trees: Arrays, n: int) -> Arrays:
    grown = {name: np.tile(array, n) for name, array in trees.items()}
    is_set = grown["decision"] & 1 == 1
    grown["threshold"][is_set] = np.arange(is_set.sum())
    words = np.tile(np.diff(trees["bounds"]), n)
    grown["bounds"] = np.concatenate([[0], np.cumsum(words)]).astype(np.int32)
    return grown


def _stumps(n: int, *, splits: int, words: int = 0) -> Arrays:
    """Trees of one leaf or of one split, on a number or on a set of so many words."""
    n_splits = n * splits
    sets = n if words else 0
    rng = np.random.default_rng(0)
    return {
        "leaves": np.full(n, splits + 1, dtype=np.int32),
        "feature": np.zeros(n_splits, dtype=np.int32),
        "threshold": np.arange(n_splits, dtype=np.float64) if words else rng.normal(size=n_splits),
        "decision": np.full(n_splits, 1 if words else 2, dtype=np.int8),
        "left": np.full(n_splits, ~0, dtype=np.int32),
        "right": np.full(n_splits, ~1, dtype=np.int32),
        "value": rng.normal(size=n * (splits + 1)) / n,
        "count": np.ones(n * (splits + 1), dtype=np.int32),
        "bounds": (np.arange(sets + 1) * words).astype(np.int32),
        "bits": rng.integers(1, 2**32, sets * words, dtype=np.uint32),
    }


def _large_tree(n_splits: int, words: int = 0) -> Arrays:
    """One tree whose splits and leaves fill its levels, with sets of so many words."""
    splits = np.arange(n_splits)
    left, right = 2 * splits + 1, 2 * splits + 2
    sets = n_splits if words else 0
    rng = np.random.default_rng(0)
    return {
        "leaves": np.array([n_splits + 1], dtype=np.int32),
        "feature": (splits % 3).astype(np.int32),
        "threshold": splits.astype(np.float64) if words else rng.normal(size=n_splits),
        "decision": np.full(n_splits, 1 if words else 2, dtype=np.int8),
        "left": np.where(left < n_splits, left, ~(left - n_splits)).astype(np.int32),
        "right": np.where(right < n_splits, right, ~(right - n_splits)).astype(np.int32),
        "value": rng.normal(size=n_splits + 1),
        "count": np.ones(n_splits + 1, dtype=np.int32),
        "bounds": (np.arange(sets + 1) * words).astype(np.int32),
        "bits": rng.integers(1, 2**32, sets * words, dtype=np.uint32),
    }


def _deep_tree(n_splits: int) -> Arrays:
    """One tree with long ways to most leaves: chains of splits below a full tree."""
    length = min(MOST_DEPTH - 20, n_splits)
    chains = 2 ** int(np.log2(n_splits / length))
    splits = np.arange(chains - 1)
    ends = np.arange(chains) * (length + 1) + length
    in_chains = (len(splits) + np.arange(chains * length)).reshape(chains, length)
    left = np.concatenate([2 * splits + 1, ~np.delete(np.arange(ends[-1] + 1), ends)])
    right = np.concatenate([2 * splits + 2, in_chains.ravel() + 1])
    for child in (left[: len(splits)], right[: len(splits)]):  # the last of the full tree have chains
        below = child >= len(splits)
        child[below] = in_chains[child[below] - len(splits), 0]
    right[in_chains[:, -1]] = ~ends
    tree = _large_tree(len(left))
    return tree | {"left": left.astype(np.int32), "right": right.astype(np.int32)}


def _grown_lists(tree: Any) -> Iterator[tuple[str, Any]]:
    """The tree with one list or one set of named values repeated, as long as a manifest may be."""
    for path in list(_paths_of_lists(tree)):
        copy = json.loads(json.dumps(tree))
        node = copy
        for key in path[:-1]:
            node = node[key]
        items = node[path[-1]]
        if not items:
            continue
        text = len(json.dumps(items))
        times = max(2, min(2**23 // text, 10**6 // len(items)))
        if isinstance(items, list):
            node[path[-1]] = items * times
        else:
            items |= {f"{name} {i}": value for i in range(times) for name, value in items.items()}
        yield ".".join(key for key in path if isinstance(key, str) and key != "fields"), copy


def _filled_lists(tree: Any) -> Iterator[tuple[str, Any]]:
    """The tree with many texts where an object has none."""
    texts = [f"text {i}" for i in range(MOST_TEXTS)]
    for name, place, fields in _objects(tree, ""):
        for field in _empty_lists(name, fields):
            copy = json.loads(json.dumps(tree))
            (inner,) = [found for _, same, found in _objects(copy, "") if same == place]
            is_list = tuple in rules_of(KINDS[name])[field]
            inner[field] = texts if is_list else {"items": dict(zip(texts, texts, strict=True))}
            yield f"{name}.{field}", copy


def _paths_of_lists(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, list) or (path and path[-1] == "items" and not _has_arrays(tree)):
        yield path
    if isinstance(tree, list):
        for i in _first_of_each_kind(tree):
            yield from _paths_of_lists(tree[i], (*path, i))
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from _paths_of_lists(value, (*path, key))


def _first_of_each_kind(items: list[Any]) -> list[int]:
    """Positions of the first object of each kind in a list, and of the first other value."""
    first: dict[Any, int] = {}
    for i, item in enumerate(items):
        first.setdefault(item.get("kind") if isinstance(item, dict) else None, i)
    return list(first.values())


def _has_arrays(named: dict[str, Any]) -> bool:
    """Whether the first of some named values is an array, of which each is a part of the file."""
    return any(isinstance(value, dict) and "array" in value for value in named.values())


# -- measurements ----------------------------------------------------------------------------------


def uses(kind: str, path: Path) -> dict[str, Callable[[], Any]]:
    """What is done with a file; each in a child process, after a load that is not measured."""
    trusted = kind in TRUSTED
    if kind == "monitor":
        return {"verify": lambda: verify(path), "load": lambda: PriorMonitor.load(path, monitored())}
    loaded: list[Any] = []

    def classifier() -> Any:
        if not loaded:
            loaded.append(load(path, trusted=trusted))
        return loaded[0]

    return {
        "verify": lambda: verify(path, trusted=trusted),
        "load": lambda: load(path, trusted=trusted),
        "predict": lambda: classifier().predict(new_rows(kind)),
        "contributions": lambda: (
            hasattr(classifier(), "contributions") and classifier().contributions(new_rows(kind))
        ),
        "export_onnx": lambda: export_onnx(classifier(), path.with_suffix(".onnx")),
        "page": lambda: render_report(classifier(), new_rows(kind)),
    }


def measure(grown: Grown, folder: Path) -> dict[str, Any]:
    """For each use its outcome, its peak memory and what the promise allows."""
    path = folder / "grown.drpu"
    path.write_bytes(grown.content)
    size = sum(len(part) for part in unpacked_parts(grown.content))
    found: dict[str, Any] = {"content": size}
    for name, use in uses(grown.kind, path).items():
        factor = EXPORT_FACTOR if name == "export_onnx" else MEMORY_FACTOR
        found[name] = in_child(use) | {"allowed": factor * size + MEMORY_MORE}
        if name == "load" and found[name]["outcome"] != "works":
            break
    return found


def unpacked_parts(content: bytes) -> list[bytes]:
    manifest, parts = unpacked(content)
    return [json.dumps(manifest).encode(), *parts.values()]


def in_child(use: Callable[[], Any]) -> dict[str, Any]:
    """The outcome of a use in a forked child, its peak above the start, and its processor time."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        _report(use, write_end)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if not text:
        return {"outcome": f"ended by signal {os.WTERMSIG(status)}", "peak": LIMIT, "seconds": SECONDS}
    result: dict[str, Any] = json.loads(text)
    return result


def _report(use: Callable[[], Any], write_end: int) -> None:
    """Run a use and write what happened; ends the process."""
    import resource  # not on Windows, where the grown files are used by tests

    signal.setitimer(signal.ITIMER_PROF, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (int(SECONDS), int(SECONDS)))
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again
    before = _status("VmRSS")
    start = time.process_time()
    outcome = "works"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            use()
    except DRPUError:
        outcome = "refused"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {error!s:.200}"
    result = {
        "outcome": outcome,
        "peak": _status("VmHWM") - before,
        "seconds": round(time.process_time() - start, 2),
    }
    os.write(write_end, json.dumps(result).encode())
    os._exit(0)


def _status(name: str) -> int:
    """A number of bytes in the status of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the status of a process has no {name}")


def memory(honest: dict[str, bytes], size: int = CONTENT) -> dict[str, Any]:
    """The largest peak of each use in terms of what is allowed, and the files that exceed it."""
    import resource

    largest: dict[str, dict[str, Any]] = {}
    faults = []
    n = 0
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, most))  # other processes need memory, too
    with tempfile.TemporaryDirectory() as name:
        for grown in grown_files(honest, size):
            n += 1
            found = measure(grown, Path(name))
            for use, result in found.items():
                if not isinstance(result, dict):
                    continue
                share = result["peak"] / result["allowed"]
                if share > largest.get(use, {"share": 0.0})["share"]:
                    largest[use] = {
                        "share": round(share, 3),
                        "of_content": round(result["peak"] / found["content"], 1),
                        "megabytes": round(result["peak"] / 1e6, 1),
                        "grown": grown.name,
                    }
                if share > 1 or result["outcome"] not in ("works", "refused"):
                    faults.append(f"{grown.name}, {use}: {result}")
                print(f"{grown.name:60.60} {use:14} {share:6.2f} {result}", flush=True)
    promise = {"factor": MEMORY_FACTOR, "export_factor": EXPORT_FACTOR, "more": MEMORY_MORE}
    return {"files": n, "content": size, "promise": promise, "largest": largest, "faults": faults}
