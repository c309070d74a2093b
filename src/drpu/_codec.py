"""The codec: writes and reads every object that is kept in a file.

Such an object is a frozen dataclass of plain values, arrays and other such dataclasses. Its annotations are
the rules of its fields, and its ``__post_init__`` checks rules between fields::

    @kept("line")
    @dataclass(frozen=True)
    class Line(Kept):
        names: Annotated[tuple[str, ...], Items(dim="d")]
        scale: Annotated[FloatArray, Array("d", above=0)]
        weights: Annotated[FloatArray, Array("md")]
        share: Annotated[float, Number(0, 1)] = 0.5

:func:`encode` gives a tree for JSON, arrays by name and bytes by name. :func:`decode` trusts none of them: it
follows the annotations of the expected class, and anything else is an :class:`~drpu.exceptions.ArtifactError`
that names the place. It makes nothing that is larger than what it was given.

A letter in the dimensions of arrays, or as ``dim``, stands for one length within an object; ``*`` stands for
any length, a digit for itself, and the dimensions ``...`` for any shape.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from drpu._checks import LARGEST
from drpu.exceptions import ArtifactError

MOST_ITEMS = 10_000_000
MOST_TEXT = 100_000
MOST_DEPTH = 100
MOST_EMPTY = 1_000_000  # largest length of an array without values

KINDS: dict[str, type[Any]] = {}  # every class that a file may contain; modules add theirs when imported

_FLOATS = frozenset({"float16", "float32", "float64"})
_INTS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = {"float": _FLOATS, "int": _INTS, "bool": frozenset({"bool"}), "any": _FLOATS | _INTS | {"bool"}}
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # JSON has no such numbers
_Class = TypeVar("_Class", bound=type[Any])


class Encoded(NamedTuple):
    """An object as a tree for JSON, with its arrays and bytes by name."""

    tree: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]]
    blobs: dict[str, bytes]


class Kept:
    """Base of kept dataclasses that make things on first use with ``functools.cached_property``.

    Copies and pickles contain the fields only.
    """

    def __getstate__(self) -> dict[str, Any]:
        names = (field.name for field in dataclasses.fields(self))  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names}

    def for_file(self) -> Any:
        """The object that is written in place of this one; a class may fill fields only then."""
        return self


def kept(kind: str) -> Callable[[_Class], _Class]:
    """A decorator that registers a frozen dataclass as the class of ``kind``."""

    def register(cls: _Class) -> _Class:
        if "__dataclass_params__" not in vars(cls) or not cls.__dataclass_params__.frozen:
            raise TypeError(
                f"{cls.__name__} must be a frozen dataclass: put kept above dataclass(frozen=True)."
            )
        other = KINDS.get(kind, cls)
        if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"the kind {kind!r} is that of {other.__qualname__} and of {cls.__qualname__}.")
        KINDS[kind] = cls
        return cls

    return register


def kind_of(cls: type[Any]) -> str | None:
    """The kind of a class, or None if files may not contain it."""
    return next((kind for kind, known in KINDS.items() if known is cls), None)


def encode(obj: Any) -> Encoded:
    """``obj`` as a tree, arrays and bytes; raises ``ArtifactError`` if a value violates its rule."""
    walk = _Walk({}, {}, writes=True)
    return Encoded(walk.guarded(_Object((type(obj),)), obj), walk.arrays, walk.blobs)


def decode(tree: Any, arrays: Mapping[str, Any], blobs: Mapping[str, bytes], cls: Any) -> Any:
    """The object from which :func:`encode` made the three, an instance of ``cls`` or of a subclass.

    A value of ``blobs`` is taken only when a field needs it, so it may be read at that time.
    """
    walk = _Walk(arrays, blobs, writes=False)
    obj = walk.guarded(_rule(cls), tree)
    for what, given in (("array", arrays), ("blob", blobs)):
        if left := sorted(set(given) - walk.used[what]):
            raise ArtifactError(f"the {what} {left[0][:100]!r} belongs to no field.")
    return obj


@cache
def rules_of(cls: Any) -> dict[str, Any]:
    """The rules of the fields of a kept class, by name; raises ``TypeError`` for other annotations."""
    hints = get_type_hints(cls, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    fields = {name: field for name, field in fields.items() if NotKept not in get_args(hints[name])}
    try:
        return {name: _rule(hints[name]) for name in fields}
    except TypeError as error:
        raise TypeError(f"the fields of {cls.__qualname__} cannot be kept: {error}") from error


# -- the way through an object -----------------------------------------------------------------


class _Key(NamedTuple):
    position: int
    key: str


class _Walk:
    """The place in an object, and the arrays and blobs that are collected or used on the way."""

    def __init__(self, arrays: Any, blobs: Any, *, writes: bool) -> None:
        self.arrays, self.blobs, self.writes = arrays, blobs, writes
        self.tag = _tag if writes else _tree_tag
        self.path: list[str | int | _Key] = []
        self.lengths: dict[str, int] = {}  # of the present object, by letter
        self.used: dict[str, set[str]] = {"array": set(), "blob": set()}

    def guarded(self, rule: _Rule, value: Any) -> Any:
        """The result for a whole object; every error is an ``ArtifactError``."""
        try:
            return self.visit(rule, value)
        except ArtifactError:
            raise
        except Exception as error:  # an extreme number, or a deep call stack
            raise self.wrong(f"{error!s:.500}") from error

    def visit(self, rule: _Rule, value: Any) -> Any:
        """The result for one value, after its type has been compared with the rule."""
        if self.writes and isinstance(rule, As):
            value = rule.write(value)
        if isinstance(value, np.generic):
            value = value.item()
        tag = self.tag(value)
        if tag not in rule.tags:
            raise self.wrong(f"must be {' or '.join(_WORDS[tag] for tag in rule.tags)}, got {_short(value)}.")
        return rule.convert(value, self)

    def inside(self, parts: Iterable[tuple[Any, _Rule, Any]]) -> list[Any]:
        """The results for parts of the present value, each given with its place and rule."""
        if len(self.path) >= MOST_DEPTH:
            raise self.wrong(f"must not be nested deeper than {MOST_DEPTH} levels.")
        found = []
        self.path.append("")
        for self.path[-1], rule, value in parts:
            found.append(self.visit(rule, value))
        self.path.pop()
        return found

    @property
    def name(self) -> str:
        """The present place as the name of an array or blob, without keys, which may be any text."""
        return ".".join(str(step.position if isinstance(step, _Key) else step) for step in self.path)

    def wrong(self, problem: str) -> ArtifactError:
        """The error for the present place."""
        place = ""
        for step in self.path:
            key = step.key[:100] if isinstance(step, _Key) else step
            place += f".{key}" if isinstance(step, str) else f"[{key!r}]"
        return ArtifactError(f"{place.removeprefix('.') or 'the object'}: {problem}")

    def need(self, holds: bool, rule: str, value: Any) -> None:
        """Raise unless the rule holds."""
        if not holds:
            raise self.wrong(f"must be {rule}, got {_short(value)}.")

    def count(self, dim: str, length: int) -> None:
        """Compare a length with the others of the same letter in the present object."""
        if dim not in ("", "*"):
            expected = int(dim) if dim.isdigit() else self.lengths.setdefault(dim, length)
            self.need(length == expected, f"of length {expected}, as other fields are", length)

    def take(self, what: Literal["array", "blob"], tree: Any, name: str) -> Any:
        """The array or blob of the present place, which the file must call ``name``."""
        parts = self.arrays if what == "array" else self.blobs
        if tree[what] != name or name not in parts:
            raise self.wrong(f"must have the name {name!r} and exist, got {_short(tree[what])}.")
        self.used[what].add(name)
        return parts[name]


_WORDS = {
    "null": "null", "bool": "true or false", "int": "an integer", "float": "a number", "str": "a text",
    "list": "a tuple", "items": "a dictionary", "array": "an array", "blob": "bytes", "object": "an object",
}  # fmt: skip
_TREE_TAGS = {NoneType: "null", bool: "bool", int: "int", float: "float", str: "str", list: "list"}
_TAGS = _TREE_TAGS | {list: "", tuple: "list", dict: "items", bytes: "blob"}


def _tag(value: Any) -> str:
    if isinstance(value, np.ndarray) and not isinstance(value, np.ma.MaskedArray):
        return "array"
    return "object" if dataclasses.is_dataclass(value) else _TAGS.get(type(value), "")


def _tree_tag(tree: Any) -> str:
    if type(tree) is not dict:
        return _TREE_TAGS.get(type(tree), "")
    if len(tree) == 1:
        return next((tag for tag in ("array", "blob", "items", "float") if tag in tree), "")
    return "object" if tree.keys() == {"kind", "fields"} else ""


def _short(value: Any) -> str:
    """A few words about a value, whose whole text may be long."""
    if isinstance(value, str):
        return ascii(value[:100])
    return repr(value)[:100] if isinstance(value, (int, float, NoneType)) else f"a {type(value).__name__}"


# -- rules -------------------------------------------------------------------------------------


class _Rule(Protocol):
    """How the values of one type are checked and converted; ``tags`` are their types in JSON."""

    @property
    def tags(self) -> tuple[str, ...]: ...
    def convert(self, value: Any, walk: _Walk) -> Any: ...


class NotKept:
    """Marks a field that is not written, as ``Annotated[T, NotKept]``; it needs a default."""


@dataclass(frozen=True)
class Number:
    """A float from ``low`` to ``high`` and above ``above``; infinite or NaN only if these allow it."""

    low: float = -LARGEST
    high: float = LARGEST
    above: float = -math.inf
    nan: bool = False
    tags: ClassVar[tuple[str, ...]] = ("float", "int")

    def convert(self, value: Any, walk: _Walk) -> Any:
        if type(value) is dict:
            word = value["float"] if type(value["float"]) is str else ""
            walk.need(word in _NOT_FINITE, f"one of {', '.join(_NOT_FINITE)}", value["float"])
            value = _NOT_FINITE[word]
        over = self.above == -math.inf or value > self.above
        right = self.nan if value != value else self.low <= value <= self.high and over
        edge = "" if self.above == -math.inf else f" and above {self.above:g}"
        walk.need(right, f"a number from {self.low:g} to {self.high:g}{edge}", value)
        number = float(value)
        return {"float": str(number)} if walk.writes and not math.isfinite(number) else number


@dataclass(frozen=True)
class Whole:
    """An integer from ``low`` to ``high``; with ``dim`` the length of that letter."""

    low: int = -(2**63)
    high: int = 2**63 - 1
    dim: str = ""
    tags: ClassVar[tuple[str, ...]] = ("int",)

    def convert(self, value: int, walk: _Walk) -> int:
        walk.need(self.low <= value <= self.high, f"an integer from {self.low} to {self.high}", value)
        walk.count(self.dim, value)
        return value


@dataclass(frozen=True)
class Text:
    """A text of at most ``most`` letters that matches ``pattern`` and is one of ``choices``."""

    most: int = MOST_TEXT
    pattern: str = ""
    choices: Collection[str] = ()
    tags: ClassVar[tuple[str, ...]] = ("str",)

    def convert(self, value: str, walk: _Walk) -> str:
        walk.need(len(value) <= self.most, f"a text of at most {self.most} letters", value)
        walk.need(not re.search("[\ud800-\udfff]", value), "a text without halves of surrogate pairs", value)
        walk.need(not self.pattern or bool(re.fullmatch(self.pattern, value)), f"like {self.pattern}", value)
        walk.need(not self.choices or value in self.choices, f"one of {', '.join(self.choices)}", value)
        return value


@dataclass(frozen=True)
class Array:
    """An array with one letter for each dimension, and values from ``low`` to ``high``, above ``above``.

    ``dtype`` is float, int, bool, any, or the name of one type. ``finite=False`` allows infinite values, and
    ``nan=True`` allows NaN.
    """

    dims: str
    dtype: str = "float"
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    finite: bool = True
    nan: bool = False
    tags: ClassVar[tuple[str, ...]] = ("array",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        array = value if walk.writes else walk.take("array", value, walk.name)
        types = _DTYPES.get(self.dtype, (self.dtype,))
        right = isinstance(array, np.ndarray) and array.dtype.name in types
        walk.need(right, f"an array of type {self.dtype}", str(getattr(array, "dtype", array)))
        if self.dims != "...":
            walk.need(array.ndim == len(self.dims), f"an array of {len(self.dims)} dimensions", array.ndim)
            for letter, length in zip(self.dims, array.shape, strict=True):
                walk.count(letter, length)
        if array.size:
            self._check_values(array, walk)
        else:  # lengths that no value stands behind
            walk.need(max(array.shape) <= MOST_EMPTY, f"at most {MOST_EMPTY} long", max(array.shape))
        if not walk.writes:
            return array
        walk.arrays[walk.name] = np.asarray(array, dtype=array.dtype.newbyteorder("="), order="C")
        return {"array": walk.name}

    def _check_values(self, array: Any, walk: _Walk) -> None:
        # The smallest and the largest value are found without an array of the same size.
        walk.need(self.nan or not np.isnan(array.min()), "an array without NaN", math.nan)
        low, high = np.fmin.reduce(array, axis=None).item(), np.fmax.reduce(array, axis=None).item()
        if low != low:  # nothing but NaN
            return
        end = LARGEST if self.finite else math.inf
        first, last = max(self.low, -end), min(self.high, end)
        rule = f"an array of values from {first:g} to {last:g}"
        walk.need(first <= low and high <= last, rule, low if low < first else high)
        above = self.above == -math.inf or low > self.above
        walk.need(above, f"an array of values above {self.above:g}", low)


@dataclass(frozen=True)
class Blob:
    """Bytes, kept under the name ``form``, in which ``{}`` is the place of the field."""

    form: str = "{}"
    tags: ClassVar[tuple[str, ...]] = ("blob",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        name = self.form.format(walk.name)
        if not walk.writes:
            blob = walk.take("blob", value, name)
            walk.need(type(blob) is bytes, "bytes", blob)
            return blob
        walk.blobs[name] = value
        return {"blob": name}


@dataclass(frozen=True)
class Items:
    """The number of items of a tuple or dictionary, from ``low`` to ``high``; or the length of a letter."""

    low: int = 0
    high: int = MOST_ITEMS
    dim: str = ""

    def check(self, value: Any, walk: _Walk) -> None:
        """Raise unless the container has as many items."""
        walk.need(self.low <= len(value) <= self.high, f"of {self.low} to {self.high} items", len(value))
        walk.count(self.dim, len(value))


@dataclass(frozen=True)
class _OneOf:
    """One of a few plain values; a single type if there are none."""

    tags: tuple[str, ...]
    values: tuple[Any, ...] = ()

    def convert(self, value: Any, walk: _Walk) -> Any:
        right = not self.values or any(type(value) is type(known) and value == known for known in self.values)
        walk.need(right, f"one of {', '.join(map(repr, self.values))}", value)
        return value


@dataclass(frozen=True)
class _Tuple:
    """A tuple, with a rule for each place; if it is ``endless``, one rule for all items."""

    rules: tuple[_Rule, ...]
    endless: bool
    items: Items
    tags: ClassVar[tuple[str, ...]] = ("list",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        self.items.check(value, walk)
        rules = self.rules * len(value) if self.endless else self.rules
        walk.need(len(value) == len(rules), f"of {len(rules)} items", len(value))
        found = walk.inside(zip(range(len(value)), rules, value, strict=True))
        return found if walk.writes else tuple(found)


@dataclass(frozen=True)
class _Dictionary:
    """A dictionary from texts to values of one rule."""

    every: _Rule
    items: Items
    tags: ClassVar[tuple[str, ...]] = ("items",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        given = value if walk.writes else value["items"]
        walk.need(type(given) is dict, "a dictionary", given)
        self.items.check(given, walk)
        for key in given:
            walk.need(type(key) is str, "a dictionary with keys that are texts", key)
            Text().convert(key, walk)
        parts = ((_Key(i, key), self.every, given[key]) for i, key in enumerate(given))
        found = dict(zip(given, walk.inside(parts), strict=True))
        return {"items": found} if walk.writes else found


@dataclass(frozen=True)
class _Object:
    """An object of a kept class that is, or inherits from, one of the bases."""

    bases: tuple[type[Any], ...]
    tags: ClassVar[tuple[str, ...]] = ("object",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        if walk.writes and isinstance(value, Kept):
            value = value.for_file()
        kind = kind_of(type(value)) if walk.writes else value["kind"]
        cls: Any = KINDS.get(kind) if isinstance(kind, str) else None
        if cls is None or not any(base in cls.__mro__ for base in self.bases):
            found = type(value).__name__ if walk.writes else kind
            names = (name for name, known in KINDS.items() if {*self.bases} & {*known.__mro__})
            raise walk.wrong(f"its kind must be one of {', '.join(sorted(names))}, got {_short(found)}.")
        rules = rules_of(cls)
        given = {name: getattr(value, name) for name in rules} if walk.writes else value["fields"]
        if type(given) is not dict or given.keys() != rules.keys():
            strange = sorted(given.keys() ^ rules.keys()) if type(given) is dict else ["none"]
            raise walk.wrong(
                f"must have the fields {', '.join(rules)}, got a difference in {strange[0][:100]!r}."
            )
        outer, walk.lengths = walk.lengths, {}
        found = dict(zip(rules, walk.inside((name, rules[name], given[name]) for name in rules), strict=True))
        walk.lengths = outer
        if walk.writes:
            return {"kind": kind, "fields": found}
        try:
            return cls(**found)
        except Exception as error:  # a rule between fields
            raise walk.wrong(f"{error!s:.500}") from error


@dataclass(frozen=True)
class As:
    """A value of another class: ``write`` makes the object of a kept class, and ``read`` the value again."""

    kept: type[Any]
    write: Callable[[Any], Any]
    read: Callable[[Any], Any]
    tags: ClassVar[tuple[str, ...]] = ("object",)

    def convert(self, value: Any, walk: _Walk) -> Any:
        found = _Object((self.kept,)).convert(value, walk)
        return found if walk.writes else self.read(found)


@dataclass(frozen=True)
class _Either:
    """A value of one of several rules, which are told apart by the type in JSON."""

    rules: Mapping[str, _Rule]

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.rules)

    def convert(self, value: Any, walk: _Walk) -> Any:
        return self.rules[walk.tag(value)].convert(value, walk)


# -- rules from annotations --------------------------------------------------------------------

_DEFAULTS: dict[Any, Any] = {float: Number(), int: Whole(), str: Text(), bytes: Blob()}
_DEFAULTS |= dict.fromkeys((tuple, dict), Items())


def _rule(hint: Any) -> _Rule:
    """The rule of an annotation."""
    given: Any = None
    if get_origin(hint) is Annotated:
        hint, given, *more = get_args(hint)
        if more:
            raise TypeError(f"one rule is allowed, got {given} and {more}")
        if isinstance(given, As):
            return given
    origin, args = get_origin(hint) or hint, get_args(hint)
    alias = getattr(origin, "__value__", None)  # newer versions of NumPy declare NDArray as a type alias
    origin = origin if alias is None else get_origin(alias) or alias
    expected = Array if origin is np.ndarray else type(_DEFAULTS.get(origin))
    if not isinstance(given, expected):
        if given is not None or expected is Array:
            raise TypeError(f"{hint} needs a rule {expected.__name__}, got {given}")
        given = _DEFAULTS.get(origin)
    if origin in (Union, UnionType):
        return _either([_rule(arg) for arg in args])
    if origin is Literal:
        return _OneOf(tuple(dict.fromkeys(_TAGS[type(arg)] for arg in args)), args)
    if origin is tuple and args:
        endless = args[-1] is Ellipsis
        return _Tuple(tuple(map(_rule, args[:1] if endless else args)), endless, given)
    if origin is dict and args and args[0] is str:
        return _Dictionary(_rule(args[1]), given)
    if origin in (bool, NoneType):
        return _OneOf((_TAGS[origin],))
    if given is not None and origin not in (tuple, dict):
        found: _Rule = given
        return found
    if isinstance(origin, type) and origin.__module__ not in ("builtins", "typing"):
        return _Object((origin,))
    raise TypeError(f"{hint} is not a type that can be kept")


def _either(rules: list[_Rule]) -> _Rule:
    objects = tuple(base for rule in rules if isinstance(rule, _Object) for base in rule.bases)
    found: dict[str, _Rule] = {"object": _Object(objects)} if objects else {}
    for rule in rules:
        # An integer belongs to int before it belongs to float.
        tags = rule.tags[:1] if isinstance(rule, Number) else rule.tags
        for tag in tags:
            if tag in found and tag != "object":
                raise TypeError(f"two types of a union are both {_WORDS[tag]} in a file")
            found.setdefault(tag, rule)
    if isinstance(found.get("float"), Number):
        found.setdefault("int", found["float"])
    return _Either(found)
