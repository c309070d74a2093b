"""The codec: writes and reads every object that is kept in a file.

Such an object is a frozen dataclass of plain values, arrays and other such dataclasses. Its annotations are
the rules of its fields, and its ``__post_init__`` checks rules between fields::

    @kept("line")
    @dataclass(frozen=True)
    class Line(Kept):
        names: Annotated[tuple[str, ...], Items(dim="d")]
        scale: Annotated[FloatArray, Array("d", low=POSITIVE)]
        weights: Annotated[FloatArray, Array("md")]
        share: Annotated[float, Number(0, 1)] = 0.5

A letter in the dimensions of arrays, or as ``dim``, stands for one length within an object; the dimensions
``...`` stand for any shape. A field of bytes holds estimators of other libraries, so its file needs trust.
:func:`decode` follows the annotations of the expected class, and trusts nothing that it is given: anything
else is an ``ArtifactError`` that names the place, and nothing larger than the input is made.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np

from drpu._checks import LARGEST
from drpu.exceptions import ArtifactError

POSITIVE = math.ulp(0.0)  # the smallest number above 0

KINDS: dict[str, Any] = {}  # every class that a file may contain; modules add theirs when imported
_DTYPES = {"float": "f", "int": "iu", "any": "fiub"}  # letters of NumPy for the kinds of types
_TYPES: dict[str, Any] = {"array": np.ndarray, "bytes": bytes, "items": dict, "float": float}
NotKept = "not kept"  # marks a field that is not written, as ``Annotated[T, NotKept]``; it needs a default
_Rules = dict[Any, Any]  # what reads a value, by its type; kept classes and plain values need nothing


class Encoded(NamedTuple):
    """An object as a tree for JSON, with its arrays and bytes by their places."""

    tree: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]
    blobs: dict[str, bytes]


class Kept:
    """Base of kept dataclasses; copies and pickles leave out what ``functools.cached_property`` made."""

    def __getstate__(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}


class As(NamedTuple):
    """A rule for a field of another class, whose ``for_file`` makes an object of the class ``kept``."""

    kept: type[Any]
    read: Callable[[Any], Any]  # makes the value of the field of that object


def kept(kind: str) -> Callable[[type[Any]], type[Any]]:
    """A decorator that registers a frozen dataclass as the class of ``kind``."""

    def register(cls: type[Any]) -> type[Any]:
        KINDS[kind] = cls
        return cls

    return register


def kind_of(cls: type[Any]) -> str | None:
    """The kind of a class, or None if files may not contain it."""
    return next((kind for kind, known in KINDS.items() if known is cls), None)


def encode(obj: Any) -> Encoded:
    """``obj`` as it will be read; raises ``ArtifactError`` if a value violates its rule."""
    first, final = Encoded({}, {}, {}), Encoded({}, {}, {})
    first.tree.update(_write(obj, "", first))
    final.tree.update(_write(decode(*first, type(obj)), "", final))
    return final


def decode(tree: Any, arrays: Mapping[str, Any], blobs: Mapping[str, bytes], cls: Any) -> Any:
    """The object from which :func:`encode` made the three, an instance of ``cls`` or of a subclass."""
    reader = _Reader({**arrays, **blobs})
    obj = reader.read(_rules(cls), tree, "")
    if reader.parts or arrays.keys() & blobs.keys():
        raise ArtifactError(f"the parts must be those of the fields, got {[*reader.parts][:1]!a:.100} more.")
    return obj


@cache
def rules_of(cls: Any) -> dict[str, _Rules]:
    """The rules of the fields of a kept class, by name; raises ``TypeError`` for other annotations."""
    hints = get_type_hints(cls, include_extras=True)
    names = [field.name for field in dataclasses.fields(cls) if field.init]
    return {name: _rules(hints[name]) for name in names if NotKept not in get_args(hints[name])}


def _write(value: Any, place: str, out: Encoded) -> Any:
    """The tree of a value, whose arrays and bytes are added to ``out``."""
    value = value.for_file() if hasattr(value, "for_file") else value  # which may fill fields only now
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no such numbers
    if isinstance(value, (NoneType, bool, int, float, str)):
        return value
    if kind := kind_of(type(value)):
        start, names = place and f"{place}.", rules_of(KINDS[kind])
        fields = {name: _write(getattr(value, name), start + name, out) for name in names}
        return {"kind": kind, "fields": fields}
    if type(value) is tuple:
        return [_write(item, f"{place}[{i}]", out) for i, item in enumerate(value)]
    if type(value) is dict and all(type(key) is str for key in value):
        return {"items": {key: _write(item, f"{place}[{key!a}]", out) for key, item in value.items()}}
    if type(value) is np.ndarray:
        out.arrays[place] = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
        return {"array": place}
    _need(type(value) is bytes, place, "a value that files contain", value)
    out.blobs[place] = value
    return {"bytes": place}


def _need(holds: bool, place: str, rule: str, value: Any) -> None:
    if not holds:
        raise ArtifactError(f"{place[:300] or 'the object'}: must be {rule}, got {value!a:.100}.")


class _Reader:
    """The parts that no field has taken yet, and the lengths of the present object by letter."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts
        self.lengths: dict[str, int] = {}

    def read(self, rules: _Rules, tree: Any, place: str) -> Any:
        """The value of a tree, by the rule for its type."""
        found: Any = tuple if type(tree) is list else type(tree)
        value = tree
        if found is dict and tree.keys() == {"kind", "fields"}:
            return self.read_object(rules, tree, place)
        if found is dict:
            word, value = next(iter(tree.items())) if len(tree) == 1 else ("", None)
            found = _TYPES.get(word)
        if found in (np.ndarray, bytes):
            value = self.parts.pop(place, None) if value == place else None
        elif found is float and value in ("inf", "-inf", "nan"):
            value = float(value)
        elif found is int and int not in rules and float in rules:
            found, value = float, float(value)
        if found not in rules or type(value) is not (list if found is tuple else found):
            _need(False, place, " or ".join(each.__name__ for each in rules), tree)
        return value if rules[found] is None else rules[found](value, place, self)

    def read_object(self, rules: _Rules, tree: Any, place: str) -> Any:
        """An object of a kept class that is, or inherits from, one of those in the rules."""
        kind, fields = tree["kind"], tree["fields"]
        fits = [each for each in getattr(KINDS.get(str(kind)), "__mro__", ()) if each in rules]
        _need(bool(fits), place, f"an object of {[each.__name__ for each in rules]}", kind)
        cls, read = KINDS[kind], rules[fits[0]]
        rules = rules_of(cls)
        same = type(fields) is dict and fields.keys() == rules.keys()
        _need(same, place, f"of the fields {[*rules]}", fields)
        start = place and f"{place}."
        outer, self.lengths = self.lengths, {}
        try:
            obj = cls(**{name: self.read(rules[name], fields[name], start + name) for name in rules})
            obj = obj if read is None else read(obj)
        except ArtifactError:
            raise
        except Exception as error:  # a rule between fields, an extreme number, or a deep call stack
            raise ArtifactError(f"{place[:300] or 'the object'}: {error!s:.500}") from error
        self.lengths = outer
        return obj

    def count(self, dim: str, length: int, place: str) -> None:
        """Compare a length with the others of the same letter in the present object."""
        expected = self.lengths.setdefault(dim, length)
        _need(length == expected, place, f"of length {expected}, as other fields are", length)


@dataclass(frozen=True)
class Number:
    """A float from ``low`` to ``high``, infinite only if these are."""

    low: float = -LARGEST
    high: float = LARGEST
    nan: bool = False
    dim: str = ""  # of subclasses

    def __call__(self, value: Any, place: str, reader: _Reader) -> Any:
        if not (self.low <= value <= self.high or (self.nan and value != value)):
            _need(False, place, f"from {self.low:g} to {self.high:g}", value)
        if self.dim:
            reader.count(self.dim, value, place)
        return value


@dataclass(frozen=True)
class Whole(Number):
    """An integer from ``low`` to ``high``; with ``dim`` the length of that letter."""

    low: float = -(2**63)
    high: float = 2**63 - 1


@dataclass(frozen=True)
class Items(Number):
    """A tuple or dictionary of ``low`` to ``high`` items; with ``dim`` of the length of that letter."""

    low: float = 0
    high: float = 10_000_000
    rules: tuple[_Rules, ...] = ()  # by the annotation: of each item, or one for all of them

    def __call__(self, value: Any, place: str, reader: _Reader) -> Any:
        super().__call__(len(value), f"{place} (number of items)", reader)
        if type(value) is dict:
            key, (item,) = Text(most=1000), self.rules  # keys are part of the names of places
            return {key(k, place, reader): reader.read(item, value[k], f"{place}[{k!a}]") for k in value}
        rules = self.rules * len(value) if len(self.rules) == 1 else self.rules
        parts = enumerate(zip(rules, value, strict=True))
        return tuple(reader.read(rule, item, f"{place}[{i}]") for i, (rule, item) in parts)


@dataclass(frozen=True)
class Text:
    """A text of at most ``most`` letters that matches ``pattern``."""

    most: int = 100_000
    pattern: str = "[^\ud800-\udfff]*"  # without halves of surrogate pairs, which UTF-8 does not have

    def __call__(self, value: str, place: str, reader: _Reader) -> str:
        if len(value) > self.most or not re.fullmatch(self.pattern, value):
            _need(False, place, f"a text of at most {self.most} letters like {self.pattern!a}", value)
        return value


@dataclass(frozen=True)
class Array:
    """An array with a letter for each dimension; ``dtype`` is float, int, any, or the name of one type."""

    dims: str
    dtype: str = "float"
    low: float = -LARGEST
    high: float = LARGEST
    nan: bool = False

    def __call__(self, array: np.ndarray[Any, Any], place: str, reader: _Reader) -> Any:
        right = array.dtype.kind in _DTYPES.get(self.dtype, "") or array.dtype.name == self.dtype
        _need(right, place, f"an array of type {self.dtype}", array.dtype.name)
        if self.dims != "...":
            _need(array.ndim == len(self.dims), place, f"of {len(self.dims)} dimensions", array.ndim)
            for letter, length in zip(self.dims, array.shape, strict=True):
                reader.count(letter, length, place)
        if not array.size:  # without values, nothing else limits its lengths
            _need(max(array.shape) <= 10**6, place, "at most 1000000 long", max(array.shape))
            return array
        # The smallest and the largest value are found without an array of the same size.
        least, most = (np.fmin, np.fmax) if self.nan else (np.minimum, np.maximum)
        low, high = least.reduce(array, axis=None).item(), most.reduce(array, axis=None).item()
        right = self.nan if low != low else self.low <= low and high <= self.high
        _need(right, place, f"of values from {self.low:g} to {self.high:g}", high if low >= self.low else low)
        return array


_RULES: dict[Any, Any] = {np.ndarray: Array, float: Number, int: Whole, str: Text, tuple: Items, dict: Items}


def _rules(hint: Any) -> _Rules:
    """The rules of an annotation, by the type of the value."""
    hint, rule = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
    if isinstance(rule, As):
        return {rule.kept: rule.read}
    origin, args = get_origin(hint) or hint, get_args(hint)
    alias = getattr(origin, "__value__", None)  # newer versions of NumPy declare NDArray as a type alias
    origin = origin if alias is None else get_origin(alias) or alias
    if rule is None and origin in _RULES:
        rule = _RULES[origin]()
    if type(rule) is not _RULES.get(origin, NoneType):
        raise TypeError(f"{hint} cannot be kept with the rule {rule}")
    if origin in (Union, UnionType):
        pairs = [pair for arg in args for pair in _rules(arg).items()]
        if len(dict(pairs)) < len(pairs):
            raise TypeError(f"two types of {hint} cannot be told apart in a file")
        return dict(pairs)
    if origin is Literal:
        return {str: Text(pattern="|".join(args))}
    if origin is tuple and args[-1] is not Ellipsis:
        rule = replace(rule, low=len(args), high=len(args), rules=tuple(map(_rules, args)))
    elif origin in (tuple, dict):
        rule = replace(rule, rules=(_rules(args[0] if origin is tuple else args[1]),))
    return {origin: rule}
