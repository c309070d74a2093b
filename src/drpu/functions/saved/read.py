"""scikit-learn estimators read from bytes that are not trusted.

The bytes are an archive in the format of skops, see :mod:`drpu.functions.saved.write`, but
skops does not read it. The types that a node may have are a closed list
(:mod:`drpu.functions.saved.allowed`), arrays are compared with the size of their file before
memory is taken for them, compiled objects are built from checked arrays only, and nothing that
a file names is imported or called.
"""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from drpu.exceptions import ArtifactError
from drpu.functions.saved.allowed import TYPES, parts_of
from drpu.functions.saved.checks import check_estimator, check_forest, refuse
from drpu.functions.saved.nodes import SCHEMA, Node, is_dropped

__all__ = ["read_estimators"]

MOST_DEPTH = 200  # most levels of nodes; a pipeline in a stack in a bagging needs about sixty
MOST_NODES = 2_000_000
MOST_RATIO = 1100  # largest ratio of sizes after and before decompression; deflate cannot exceed about 1030

_FUNCTIONS = {
    f"numpy.{name}": getattr(np, name)
    for name in (
        "absolute",
        "arcsinh",
        "cbrt",
        "exp",
        "expm1",
        "log",
        "log10",
        "log1p",
        "log2",
        "sqrt",
        "square",
    )
}
# Modules of NumPy's functions in its different versions.
_UFUNCS = ("numpy", "numpy.core._multiarray_umath", "numpy._core._multiarray_umath")
_TESTS = "sklearn.feature_selection._univariate_selection"  # functions of SelectKBest, by name
_SCALARS = {
    f"numpy.{name}": getattr(np, name)
    for name in ("bool_", "float32", "float64", "int32", "int64", "uint8", "uint32", "uint64")
} | {"numpy.bool": np.bool_}
_PLAIN = {
    f"builtins.{kind.__name__}": kind for kind in (bool, float, int, str)
}  # types as values, and of the keys of dictionaries
_LOSSES = {
    "sklearn._loss.loss.ExponentialLoss",
    "sklearn._loss.loss.HalfBinomialLoss",
}
_CONTAINERS = {"builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"}


def read_estimators(archive: bytes) -> list[Any]:
    """The checked estimators of an archive; raises ``ArtifactError`` for all other bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as opened:
            files = _read_files(opened, len(archive))
        schema = json.loads(files.pop(SCHEMA))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about attributes of another version of scikit-learn
            found = _Reader(files).node(schema)
            if not isinstance(found, list) or not found:
                raise ArtifactError("the classifiers cannot be read: the archive must hold a list of them.")
            for part in parts_of(found):
                check_estimator(part)
    except ArtifactError:
        raise
    except Exception as error:  # a damaged archive can cause any error
        raise ArtifactError(f"the classifiers cannot be read: {error!r:.300}") from error
    return found


def _read_files(archive: zipfile.ZipFile, size: int) -> dict[str, bytes]:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if len(set(names)) != len(names) or SCHEMA not in names:
        raise ArtifactError("the classifiers cannot be read: the archive has duplicate or missing files.")
    if sum(entry.file_size for entry in entries) > MOST_RATIO * size:
        raise ArtifactError("the classifiers cannot be read: the content of the archive is too large.")
    return {entry.filename: _read_file(archive, entry) for entry in entries}


def _read_file(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise ArtifactError("the classifiers cannot be read: the length of a file is not the stated one.")
    return content


class _Reader:
    """Builds the objects that a tree of nodes describes."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.depth = self.nodes = 0
        self.loaders: dict[str, Callable[[Node], Any]] = {
            "DTypeNode": self.dtype,
            "DictNode": self.dictionary,
            "FunctionNode": self.function,
            "JsonNode": self.plain,
            "ListNode": self.items,
            "LossNode": self.nothing,
            "NdArrayNode": self.array,
            "ObjectNode": self.thing,
            "SetNode": lambda node: set(self.items(node)),
            "SliceNode": self.slice,
            "TreeNode": self.tree,
            "TupleNode": lambda node: tuple(self.items(node)),
            "TypeNode": self.type,
        }

    def node(self, node: Any) -> Any:
        if not isinstance(node, dict) or not isinstance(node.get("__loader__"), str):
            raise ArtifactError("the classifiers cannot be read: a node has no type.")
        if is_dropped(node):
            return None
        if node["__loader__"] not in self.loaders:
            raise ArtifactError(
                f"the classifiers cannot be read: {_name(node)[:100]} is of a type not supported."
            )
        self.depth, self.nodes = self.depth + 1, self.nodes + 1
        if self.depth > MOST_DEPTH or self.nodes > MOST_NODES:
            raise ArtifactError("the classifiers cannot be read: there are too many nodes, or too deep ones.")
        made = self.loaders[node["__loader__"]](node)
        self.depth -= 1
        return made

    def nothing(self, node: Node) -> None:
        return None

    def plain(self, node: Node) -> Any:
        value = json.loads(node["content"])
        if isinstance(value, (dict, list)):
            raise ArtifactError("the classifiers cannot be read: a plain value must be a number or a text.")
        return value

    def items(self, node: Node) -> list[Any]:
        if _name(node) not in ("builtins.list", "builtins.tuple", "builtins.set", "numpy.ndarray"):
            raise _not_supported(node)
        return [self.node(item) for item in node["content"]]

    def dictionary(self, node: Node) -> Any:
        if _name(node) not in _CONTAINERS:
            raise _not_supported(node)
        kinds = self.node(node["key_types"])
        keys = list(node["content"])
        if len(kinds) != len(keys):
            raise ArtifactError("the classifiers cannot be read: keys of a dictionary do not agree.")
        made = {kind(key): self.node(node["content"][key]) for kind, key in zip(kinds, keys, strict=True)}
        if _name(node) == "sklearn.utils._bunch.Bunch":
            from sklearn.utils import Bunch

            return Bunch(**made)
        return made

    def slice(self, node: Node) -> slice:
        ends = [node["content"][name] for name in ("start", "stop", "step")]
        if not all(end is None or type(end) is int for end in ends):
            raise _not_supported(node)
        return slice(*ends)

    def type(self, node: Node) -> Any:
        found = _PLAIN.get(_name(node)) or _SCALARS.get(_name(node))
        if found is None:
            raise _not_supported(node)
        return found

    def function(self, node: Node) -> Any:
        if node["__module__"] == _TESTS and node["__class__"] in ("chi2", "f_classif"):
            return getattr(import_module(_TESTS), node["__class__"])
        name = f"numpy.{node['__class__']}" if node["__module__"] in _UFUNCS else _name(node)
        if name not in _FUNCTIONS:
            raise _not_supported(node)
        return _FUNCTIONS[name]

    def dtype(self, node: Node) -> Any:
        return self.array(node["content"]).dtype

    def array(self, node: Node) -> Any:
        if node["type"] == "json":
            return self.object_array(node)
        array = _read_array(self.files[node["file"]])
        if _name(node) == "numpy.ndarray":
            return array
        if _name(node) not in _SCALARS or array.shape != ():
            raise _not_supported(node)
        return _SCALARS[_name(node)](array[()])

    def object_array(self, node: Node) -> Any:
        items, shape = self.items(node), self.node(node["shape"])
        if len(shape) == 1:
            made = np.empty(len(items), dtype=object)
            made[:] = items
            return made
        made = np.empty((len(items), *map(len, items[:1])), dtype=object)
        made[:] = items
        return made

    def thing(self, node: Node) -> Any:
        name = _name(node)
        content = self.node(node["content"]) if node.get("content") is not None else {}
        if name in _LOSSES:
            module, _, cls = name.rpartition(".")
            return getattr(import_module(module), cls)()
        if name == "scipy.interpolate._bsplines.BSpline":
            return _spline(content)
        if name not in TYPES or not isinstance(content, dict):
            raise _not_supported(node)
        module, _, cls = name.rpartition(".")
        return _with_attributes(getattr(import_module(module), cls), content)

    def tree(self, node: Node) -> Any:
        arguments, state = self.node(node["__reduce__"]["args"]), self.node(node["content"])
        columns, classes, outputs = arguments
        return _tree(columns, classes, outputs, state)


def _name(node: Node) -> str:
    return f"{node.get('__module__')}.{node.get('__class__')}"


def _not_supported(node: Node) -> ArtifactError:
    return ArtifactError(
        f"the classifiers cannot be read: {_name(node)[:100]} is of a type not supported in artifacts. "
        "Fit the classifier again here, or use another estimator of scikit-learn."
    )


def _with_attributes(cls: Any, attributes: dict[Any, Any]) -> Any:
    for name in attributes:
        if not isinstance(name, str) or name.startswith("__") or callable(getattr(cls, name, None)):
            raise refuse(cls.__name__, f"it cannot have the attribute {str(name)[:40]!r}")
    attributes.pop("_sklearn_version", None)
    made = object.__new__(cls)
    if cls.__name__ == "IsotonicRegression":  # builds its interpolation from its thresholds
        made.__setstate__(attributes)
    else:
        made.__dict__.update(attributes)
    return made


def _read_array(content: bytes) -> Any:
    """An array from a ``.npy`` file, whose header is compared with its size before memory is allocated."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }[version]
    shape, _, dtype = read_header(file)
    fields = [dtype] if dtype.names is None else [dtype[name] for name in dtype.names]
    if any(part.kind not in "biufU" or part.subdtype is not None for part in fields):
        raise ArtifactError(
            f"the classifiers cannot be read: an array of type {str(dtype)[:40]} is not supported."
        )
    count = 1
    for length in shape:
        count *= int(length)
    if count * dtype.itemsize != len(content) - file.tell() or any(length < 0 for length in shape):
        raise ArtifactError("the classifiers cannot be read: the length of an array is not the stated one.")
    file.seek(0)
    return np.load(file, allow_pickle=False)


def _spline(content: dict[str, Any]) -> Any:
    """A new spline; SciPy checks that its parts agree."""
    from scipy.interpolate import BSpline

    t, c, k = (content[name] if name in content else content[f"_{name}"] for name in "tck")
    if type(k) is not int or not 0 <= k <= 20:
        raise refuse("SplineTransformer", "the degree of a spline must be an integer up to 20")
    return BSpline(t, c, k, extrapolate=bool(content["extrapolate"]))


def _tree(columns: Any, classes: Any, outputs: Any, state: Any) -> Any:
    """A tree of scikit-learn from checked arrays, because later its memory is read without checks."""
    from sklearn.tree._tree import Tree

    template = Tree(1, np.array([1], dtype=np.intp), 1).__getstate__()["nodes"].dtype
    nodes, values = state["nodes"], state["values"]
    if type(columns) is not int or not 0 < columns < 2**31 or type(outputs) is not int or outputs != 1:
        raise refuse("tree", "it must have one output")
    if not isinstance(classes, np.ndarray) or classes.shape != (1,) or classes[0] not in (1, 2):
        raise refuse("tree", "it must have one class or two")
    if not isinstance(nodes, np.ndarray) or nodes.dtype != template or nodes.ndim != 1 or not len(nodes):
        raise refuse("tree", "its nodes must have the fields of this scikit-learn")
    if state["node_count"] != len(nodes) or values.shape != (len(nodes), 1, int(classes[0])):
        raise refuse("tree", "its nodes and values do not agree in number")
    if values.dtype != np.float64 or not np.isfinite(values).all():
        raise refuse("tree", "its values must be finite")
    leaf = nodes["left_child"] == -1
    splits = nodes[~leaf]
    outside = (splits["feature"] < 0) | (splits["feature"] >= columns)
    if outside.any() or np.isnan(splits["threshold"]).any():
        raise refuse("tree", "a split must be on one of its columns, at a number")
    if (nodes["missing_go_to_left"] > 1).any():
        raise refuse("tree", "a split must send missing values left or right")
    check_forest("tree", nodes["left_child"], nodes["right_child"], leaf)
    tree = Tree(columns, classes.astype(np.intp), 1)
    tree.__setstate__(
        {
            "max_depth": int(state["max_depth"]) if 0 <= state["max_depth"] <= len(nodes) else len(nodes),
            "node_count": len(nodes),
            "nodes": nodes,
            "values": np.ascontiguousarray(values),
        }
    )
    return tree
