"""Laws that hold for every kept object: used by the tests of each module that declares kinds."""

import copy
import json
import pickle

import numpy as np

from drpu._codec import Encoded, decode, encode
from drpu.exceptions import ArtifactError

JUNK = (
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    1e300,
    "",
    "\ud800",
    [],
    [[]],
    {},
    {"array": "x"},
    {"bytes": "x"},
    {"float": "inf"},
)
JUNK += ({"items": {}}, {"float": []}, {"kind": "x", "fields": {}}, {"kind": [], "fields": []})


def same(first, second):
    """Whether two kept objects have the same kinds, values, arrays and types."""
    return _plain(encode(first)) == _plain(encode(second))


def _plain(encoded):
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in encoded.arrays.items()}
    return json.dumps(encoded.tree), arrays, encoded.blobs


def round_trip(obj):
    """The object after it was written as JSON and read back."""
    tree, arrays, blobs = encode(obj)
    return decode(json.loads(json.dumps(tree, allow_nan=False)), arrays, blobs, type(obj))


def check_kept(obj):
    """Assert the laws: reading gives the same object, copies too, and no edit gives another error."""
    assert same(round_trip(obj), obj)
    assert same(pickle.loads(pickle.dumps(obj)), obj)
    assert same(copy.deepcopy(obj), obj)
    return check_edits(obj)


def check_edits(obj):
    """Assert that each edit is refused, or gives an object that is valid; return the number of the latter."""
    valid = 0
    for edited in edits(encode(obj)):
        try:
            found = decode(*edited, type(obj))
        except ArtifactError:
            continue
        valid += 1
        assert same(round_trip(found), found)
    return valid


def edits(encoded):
    """Every tree with one value dropped, added, replaced or swapped, and every edit of an array or blob."""
    for place in list(_places(encoded.tree)):
        for tree in _edited_trees(encoded.tree, place):
            yield Encoded(tree, encoded.arrays, encoded.blobs)
    for name, array in encoded.arrays.items():
        others = {key: value for key, value in encoded.arrays.items() if key != name}
        for edited in (*edited_arrays(array), "text", None):
            yield Encoded(encoded.tree, others | {name: edited}, encoded.blobs)
        yield Encoded(encoded.tree, others, encoded.blobs)
        yield Encoded(encoded.tree, encoded.arrays | {name + "x": array}, encoded.blobs)
    for name in encoded.blobs:
        yield Encoded(
            encoded.tree, encoded.arrays, {key: b for key, b in encoded.blobs.items() if key != name}
        )
        yield Encoded(encoded.tree, encoded.arrays, encoded.blobs | {name + "x": b""})
        yield Encoded(encoded.tree, encoded.arrays, encoded.blobs | {name: "text"})


def edited_arrays(array):
    """Arrays of another type, shape, length or value."""
    for dtype in ("float64", "float32", "int64", "uint8", "bool", "complex128", "U3", "O"):
        with np.errstate(all="ignore"):
            yield array.astype(dtype)
    yield array[None]
    yield array.reshape(-1)
    yield array[:0] if array.ndim else array
    yield np.concatenate([array, array]) if array.ndim else array
    for value in (np.nan, np.inf, -1, 1e300):
        changed = array.astype("float64")
        changed.flat[:1] = value
        yield changed
        if array.dtype.kind in "iu":
            with np.errstate(all="ignore"):
                yield changed.astype(array.dtype)


def _places(tree, path=()):
    yield path
    if isinstance(tree, (dict, list)):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from _places(tree[key], (*path, key))


def _edited_trees(tree, place):
    for junk in JUNK:
        yield _with(tree, place, lambda parent, key, junk=junk: parent.__setitem__(key, junk))
    if place:
        yield _with(tree, place, lambda parent, key: parent.__delitem__(key))
        yield _with(tree, place, _added)
        yield _with(tree, place, _swapped)


def _added(parent, key):
    if isinstance(parent, dict):
        parent["another"] = parent[key]
    else:
        parent.append(parent[key])


def _swapped(parent, key):
    other = list(parent)[-1] if isinstance(parent, dict) else -1
    parent[key], parent[other] = parent[other], parent[key]


def _with(tree, place, change):
    root = [copy.deepcopy(tree)]
    parent = root
    for key in (0, *place)[:-1]:
        parent = parent[key]
    change(parent, (0, *place)[-1])
    return root[0]
