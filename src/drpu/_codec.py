"""The codec: writes and reads every object that is kept in a file.

Such an object is a frozen dataclass of plain values, arrays and other such dataclasses. Its
annotations are the rules of its fields, and its ``__post_init__`` checks rules between fields::

    @kept("line")
    @dataclass(frozen=True)
    class Line(Kept):
        names: Annotated[tuple[str, ...], Items(dim="d")]
        scale: Annotated[FloatArray, Array("d", low=POSITIVE)]
        weights: Annotated[FloatArray, Array("md")]
        share: Annotated[float, Number(0, 1)] = 0.5

A letter in the dimensions of arrays, or as ``dim``, stands for one length within an object; the
dimensions ``...`` stand for any shape. A field of bytes holds estimators of other libraries, so its
file needs trust. :func:`decode` follows the annotations of the expected class, and trusts nothing
that it is given: anything else is an ``ArtifactError`` that names the place, and nothing larger
than the input is made.
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
MOST_COMPILED = 100_000  # trees of a file, each of which takes kilobytes in memory

KINDS: dict[str, Any] = {}  # every class that a file may contain; modules add theirs when imported
_DTYPES = {"float": "f", "int": "iu", "any": "fiub"}  # letters of NumPy for the kinds of types
_TYPES: dict[str, Any] = {"array": np.ndarray, "bytes": bytes, "items": dict, "float": float}
# Marks a field that is not written, as ``Annotated[T, NotKept]``; it needs a default.
NotKept = "not kept"
# What reads a value, by its type; kept classes and plain values need nothing.
_Rules = dict[Any, Any]


class Encoded(NamedTuple):
    """An object as a tree for JSON, with its arrays and bytes by their places."""

    tree: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]
    blobs: dict[str, bytes]


class Kept:
    """Base of kept dataclasses.

    Copies and pickles leave out what ``functools.cached_property`` made. ``n_compiled`` is the
    number of parts for which other libraries make large objects, however small the arrays are.
    """

    n_compiled = 0

    def __getstate__(self) -> dict[str, Any]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return {field.name: getattr(self, field.name) for field in fields}


class As(NamedTuple):
    """A rule for a field of another class, whose ``for_file`` makes an object of ``kept``."""

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
    for kind, known in KINDS.items():
        if known is cls:
            return kind
    return None


def encode(obj: Any) -> Encoded:
    """``obj`` as it will be read; raises ``ArtifactError`` if a value violates its rule."""
    first = Encoded({}, {}, {})
    first.tree.update(_write(obj, "", first))
    decoded = decode(*first, type(obj))
    final = Encoded({}, {}, {})
    final.tree.update(_write(decoded, "", final))
    return final


def decode(tree: Any, arrays: Mapping[str, Any], blobs: Mapping[str, bytes], cls: Any) -> Any:
    """The object from which :func:`encode` made the three, of ``cls`` or a subclass."""
    reader = _Reader({**arrays, **blobs})
    obj = reader.read(_rules(cls), tree, "")
    if reader.parts or arrays.keys() & blobs.keys():
        unexpected = list(reader.parts)[:1]
        raise ArtifactError(f"the parts must be those of the fields, got {unexpected!a:.100} more.")
    return obj


@cache
def rules_of(cls: Any) -> dict[str, _Rules]:
    """The rules of the fields of a kept class, by name.

    Raises ``TypeError`` for annotations that are no rules.
    """
    hints = get_type_hints(cls, include_extras=True)
    rules = {}
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        if field.init and NotKept not in get_args(hint):
            rules[field.name] = _rules(hint)
    return rules


def _write(value: Any, place: str, out: Encoded) -> Any:
    """The tree of a value, whose arrays and bytes are added to ``out``."""
    if hasattr(value, "for_file"):
        value = value.for_file()  # which may fill fields only now
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float and not math.isfinite(value):
        return {"float": str(value)}  # JSON has no such numbers
    if isinstance(value, (NoneType, bool, int, float, str)):
        return value
    kind = kind_of(type(value))
    if kind:
        fields = {}
        for name in rules_of(KINDS[kind]):
            fields[name] = _write(getattr(value, name), _field_place(place, name), out)
        return {"kind": kind, "fields": fields}
    if type(value) is tuple:
        return [_write(item, f"{place}[{i}]", out) for i, item in enumerate(value)]
    if type(value) is dict and all(type(key) is str for key in value):
        items = {}
        for key, item in value.items():
            items[key] = _write(item, f"{place}[{key!a}]", out)
        return {"items": items}
    if type(value) is np.ndarray:
        out.arrays[place] = np.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
        return {"array": place}
    _need(type(value) is bytes, place, "a value that files contain", value)
    out.blobs[place] = value
    return {"bytes": place}


def _field_place(place: str, name: str) -> str:
    """The place of a field of the object at ``place``, which is empty for the outermost object."""
    return f"{place}.{name}" if place else name


def _need(holds: bool, place: str, rule: str, value: Any) -> None:
    if not holds:
        raise ArtifactError(f"{place[:300] or 'the object'}: must be {rule}, got {value!a:.100}.")


class _Reader:
    """The parts that no field has taken yet, and the lengths of the present object by letter."""

    def __init__(self, parts: dict[str, Any]) -> None:
        self.parts = parts
        self.lengths: dict[str, int] = {}
        self.n_compiled = 0

    def read(self, rules: _Rules, tree: Any, place: str) -> Any:
        """The value of a tree, by the rule for its type."""
        if type(tree) is dict and tree.keys() == {"kind", "fields"}:
            return self.read_object(rules, tree, place)
        kind, value = self._value(tree, place)
        if kind is int and int not in rules and float in rules:
            kind = float
            value = float(value)
        json_type = list if kind is tuple else kind
        if kind not in rules or type(value) is not json_type:
            expected = " or ".join(each.__name__ for each in rules)
            _need(False, place, expected, tree)
        rule = rules[kind]
        return value if rule is None else rule(value, place, self)

    def _value(self, tree: Any, place: str) -> tuple[Any, Any]:
        """The type that a tree stands for, and its value, which may be of another type."""
        if type(tree) is list:
            return tuple, tree
        if type(tree) is not dict:
            return type(tree), tree
        if len(tree) != 1:
            return None, None
        ((word, value),) = tree.items()
        kind = _TYPES.get(word)
        if kind in (np.ndarray, bytes):
            value = self.parts.pop(place, None) if value == place else None
        elif kind is float and value in ("inf", "-inf", "nan"):
            value = float(value)
        return kind, value

    def read_object(self, rules: _Rules, tree: Any, place: str) -> Any:
        """An object of a kept class that is, or inherits from, one of those in the rules."""
        kind = tree["kind"]
        fields = tree["fields"]
        bases = getattr(KINDS.get(str(kind)), "__mro__", ())
        fits = [base for base in bases if base in rules]
        _need(bool(fits), place, f"an object of {[each.__name__ for each in rules]}", kind)
        cls = KINDS[kind]
        field_rules = rules_of(cls)
        same = type(fields) is dict and fields.keys() == field_rules.keys()
        _need(same, place, f"of the fields {[*field_rules]}", fields)

        outer_lengths = self.lengths
        self.lengths = {}
        try:
            values = {}
            for name, rule in field_rules.items():
                values[name] = self.read(rule, fields[name], _field_place(place, name))
            obj = cls(**values)
            self.n_compiled += getattr(obj, "n_compiled", 0)
            _need(self.n_compiled <= MOST_COMPILED, place, "of fewer trees in all", self.n_compiled)
            convert = rules[fits[0]]
            if convert is not None:
                obj = convert(obj)
        except ArtifactError:
            raise
        except Exception as error:  # a rule between fields, an extreme number, or a deep call stack
            raise ArtifactError(f"{place[:300] or 'the object'}: {error!s:.500}") from error
        self.lengths = outer_lengths
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
    """A tuple or dictionary of ``low`` to ``high`` items; with ``dim``, that letter's length."""

    low: float = 0
    high: float = 10_000_000
    rules: tuple[_Rules, ...] = ()  # by the annotation: of each item, or one for all of them

    def __call__(self, value: Any, place: str, reader: _Reader) -> Any:
        super().__call__(len(value), f"{place} (number of items)", reader)
        if type(value) is dict:
            return self._read_dict(value, place, reader)
        rules = self.rules * len(value) if len(self.rules) == 1 else self.rules
        items = []
        for i, (rule, item) in enumerate(zip(rules, value, strict=True)):
            items.append(reader.read(rule, item, f"{place}[{i}]"))
        return tuple(items)

    def _read_dict(self, value: dict[Any, Any], place: str, reader: _Reader) -> dict[str, Any]:
        check_key = Text(most=1000)  # keys are part of the names of places
        (rule,) = self.rules
        items = {}
        for key, item in value.items():
            check_key(key, place, reader)
            items[key] = reader.read(rule, item, f"{place}[{key!a}]")
        return items


@dataclass(frozen=True)
class Text:
    """A text of at most ``most`` letters that matches ``pattern``."""

    most: int = 100_000
    # without halves of surrogate pairs, which UTF-8 does not have
    pattern: str = "[^\ud800-\udfff]*"

    def __call__(self, value: str, place: str, reader: _Reader) -> str:
        if len(value) > self.most or not re.fullmatch(self.pattern, value):
            _need(
                False, place, f"a text of at most {self.most} letters like {self.pattern!a}", value
            )
        return value


@dataclass(frozen=True)
class Array:
    """An array with a letter for each dimension.

    ``dtype`` is float, int, any, or the name of one type.
    """

    dims: str
    dtype: str = "float"
    low: float = -LARGEST
    high: float = LARGEST
    nan: bool = False

    def __call__(self, array: np.ndarray[Any, Any], place: str, reader: _Reader) -> Any:
        right = array.dtype.kind in _DTYPES.get(self.dtype, "") or array.dtype.name == self.dtype
        _need(right, place, f"an array of type {self.dtype}", array.dtype.name)
        if self.dims != "...":
            _need(
                array.ndim == len(self.dims), place, f"of {len(self.dims)} dimensions", array.ndim
            )
            for letter, length in zip(self.dims, array.shape, strict=True):
                reader.count(letter, length, place)
        if not array.size:  # without values, nothing else limits its lengths
            _need(max(array.shape) <= 10**6, place, "at most 1000000 long", max(array.shape))
            return array
        # The smallest and the largest value are found without an array of the same size.
        minimum = np.fmin if self.nan else np.minimum
        maximum = np.fmax if self.nan else np.maximum
        low = minimum.reduce(array, axis=None).item()
        high = maximum.reduce(array, axis=None).item()
        inside = self.low <= low and high <= self.high
        if math.isnan(low):
            inside = self.nan
        wrong = high if low >= self.low else low
        _need(inside, place, f"of values from {self.low:g} to {self.high:g}", wrong)
        return array


_RULES: dict[Any, Any] = {
    np.ndarray: Array,
    float: Number,
    int: Whole,
    str: Text,
    tuple: Items,
    dict: Items,
}


def _rules(hint: Any) -> _Rules:
    """The rules of an annotation, by the type of the value."""
    rule: Any = None
    if get_origin(hint) is Annotated:
        hint, rule = get_args(hint)
    if isinstance(rule, As):
        return {rule.kept: rule.read}
    origin = _origin(hint)
    args = get_args(hint)
    if rule is None and origin in _RULES:
        rule = _RULES[origin]()
    if type(rule) is not _RULES.get(origin, NoneType):
        raise TypeError(f"{hint} cannot be kept with the rule {rule}")
    if origin in (Union, UnionType):
        return _union_rules(hint)
    if origin is Literal:
        return {str: Text(pattern="|".join(args))}
    if origin is tuple and args[-1] is not Ellipsis:
        rule = replace(rule, low=len(args), high=len(args), rules=tuple(map(_rules, args)))
    elif origin is tuple:
        rule = replace(rule, rules=(_rules(args[0]),))
    elif origin is dict:
        rule = replace(rule, rules=(_rules(args[1]),))
    return {origin: rule}


def _origin(hint: Any) -> Any:
    """The type of an annotation without its parameters."""
    origin = get_origin(hint) or hint
    alias = getattr(origin, "__value__", None)
    if alias is None:
        return origin
    # newer versions of NumPy declare NDArray as a type alias
    return get_origin(alias) or alias


def _union_rules(hint: Any) -> _Rules:
    """The rules of all types of a union, which must differ."""
    rules: _Rules = {}
    for arg in get_args(hint):
        for kind, rule in _rules(arg).items():
            if kind in rules:
                raise TypeError(f"two types of {hint} cannot be told apart in a file")
            rules[kind] = rule
    return rules
