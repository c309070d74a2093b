"""The codec: what is written is read back, and nothing else is read."""

import copy
import json
import math
import pickle
import sys
import tracemalloc
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from codec_laws import JUNK, check_kept, round_trip, same
from drpu._arrays import FloatArray, IntArray
from drpu._codec import (
    POSITIVE,
    Array,
    Items,
    Kept,
    NotKept,
    Number,
    Text,
    Whole,
    _Reader,
    decode,
    encode,
    kept,
    rules_of,
)
from drpu.exceptions import ArtifactError, DataError

Share = Annotated[float, Number(0, 1)]


class Function(Protocol):
    def score(self) -> float: ...


@kept("test-leaf")
@dataclass(frozen=True)
class Leaf(Kept, Function):
    weights: Annotated[FloatArray, Array("md")]
    scale: Annotated[FloatArray, Array("d", low=POSITIVE)]
    counts: Annotated[IntArray, Array("m", dtype="int", low=0, high=100)]
    rows: Annotated[int, Whole(low=0, dim="m")]

    @cached_property
    def made(self):
        return object()

    def score(self):
        return float(self.weights.sum())


@kept("test-constant")
@dataclass(frozen=True)
class Constant(Kept, Function):
    value: float

    def score(self):
        return self.value


@kept("test-plain")
@dataclass(frozen=True)
class Plain(Kept):
    flag: bool = True
    number: float = 0.1
    end: Annotated[float, Number(-math.inf, math.inf, nan=True)] = math.inf
    whole: int = -3
    text: str = "ä\n"
    way: Literal["up", "down"] = "up"
    either: bool | int | float | str | tuple[Share, ...] | None = None
    pair: tuple[int, str] = (1, "x")
    names: Annotated[tuple[str, ...], Items(high=5)] = ("a", "b")
    shares: Annotated[dict[str, Share], Items(high=4)] = field(default_factory=lambda: {"a.b": 0.5, "": 1.0})


@kept("test-top")
@dataclass(frozen=True)
class Top(Kept):
    function: Function
    folds: Annotated[tuple[Leaf | Constant, ...], Items(1, 4)]
    values: dict[str, Annotated[np.ndarray[Any, Any], Array("...", "any", -math.inf, math.inf, nan=True)]]
    plain: Plain | None = None
    archive: bytes | None = None
    low: Share = 0.0
    high: Share = 1.0
    helper: Annotated[Any, NotKept] = field(default=None, compare=False)

    def __post_init__(self):
        if self.low > self.high:
            raise DataError(f"low must be at most high, got {self.low} and {self.high}.")


def _leaf(seed=0, rows=3, columns=2):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 100, rows)
    return Leaf(rng.normal(size=(rows, columns)), rng.uniform(1, 2, columns), counts, rows)


def _top(**values):
    given = {"x/y": np.array([1.5, np.nan]), "ä": np.eye(2, dtype="float32"), "n": np.array(3)}
    start = {"function": _leaf(), "folds": (Constant(1.0), _leaf(1, 2, 4)), "values": given}
    return Top(**(start | {"plain": Plain(), "archive": b"PK", "helper": object()} | values))


def _text():
    return st.text(max_size=6)  # Hypothesis makes no halves of surrogate pairs


shares = st.floats(0, 1)
numbers = st.floats(-1e100, 1e100)
leaves = st.builds(_leaf, st.integers(0, 99), st.integers(0, 4), st.integers(0, 3))
functions = leaves | st.builds(Constant, numbers)
plains = st.builds(
    Plain,
    flag=st.booleans(),
    number=numbers,
    end=st.floats(),
    whole=st.integers(-(2**63), 2**63 - 1),
    text=_text(),
    way=st.sampled_from(["up", "down"]),
    either=st.none() | st.booleans() | st.integers(-9, 9) | numbers | _text() | st.tuples(shares, shares),
    pair=st.tuples(st.integers(-9, 9), _text()),
    names=st.lists(_text(), max_size=5).map(tuple),
    shares=st.dictionaries(_text(), shares, max_size=4),
)
any_arrays = st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]).flatmap(
    lambda dtype: arrays_of.arrays(dtype, arrays_of.array_shapes(min_dims=0, min_side=0, max_side=3))
)
tops = st.builds(
    Top,
    function=functions,
    folds=st.lists(functions, min_size=1, max_size=4).map(tuple),
    values=st.dictionaries(_text(), any_arrays, max_size=3),
    plain=st.none() | plains,
    archive=st.none() | st.binary(max_size=9),
    low=st.floats(0, 0.5),
    high=st.floats(0.5, 1),
)


@given(tops)
def test_every_object_is_read_as_it_was_written(top):
    found = round_trip(top)
    assert same(found, top)
    assert found.plain is None or repr(found.plain) == repr(top.plain)


def test_no_edit_of_an_encoded_object_gives_another_error_or_an_object_that_is_not_valid():
    assert check_kept(_top()) > 20  # other shares, texts and flags are valid
    assert check_kept(Plain(either=(0.1, 0.9), end=math.nan)) > 20


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["kind", "fields", "array", "items", "float", "low", "x"]), inner, max_size=4
        )
        | st.fixed_dictionaries({"kind": st.sampled_from(["test-top", "test-plain", "x"]), "fields": inner})
    ),
    max_leaves=20,
)


@given(json_values)
def test_any_json_is_refused_with_an_artifact_error(tree):
    with pytest.raises(ArtifactError):
        decode(tree, {}, {}, Top)


@given(st.sampled_from(sorted(encode(Plain()).tree["fields"])), json_values)
def test_any_json_in_a_field_is_refused_or_gives_a_valid_object(name, value):
    tree = encode(Plain()).tree
    tree["fields"][name] = value
    try:
        found = decode(tree, {}, {}, Plain)
    except ArtifactError as caught:
        found, message = None, str(caught)
    assert same(round_trip(found), found) if found else message.startswith(name)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda tree: tree["folds"][1]["fields"].update(rows=9), "folds[1].rows: must be of length 2"),
        (
            lambda tree: tree["folds"][0].update(kind="x"),
            "folds[0]: must be an object of ['Leaf', 'Constant']",
        ),
        (lambda tree: tree["folds"][0]["fields"].clear(), "folds[0]: must be of the fields ['value']"),
        (
            lambda tree: tree["plain"]["fields"]["pair"].append(1),
            "plain.pair (number of items): must be from 2 to 2",
        ),
        (lambda tree: tree["plain"]["fields"]["shares"]["items"].update(k=2), "plain.shares['k']: must be"),
        (lambda tree: tree.update(low=1, high=0.5), "the object: low must be at most high"),
        (lambda tree: tree.update(archive={"bytes": "x"}), "archive: must be bytes"),
    ],
)
def test_an_error_names_the_place(edit, message):
    tree, arrays, blobs = encode(_top())
    edit(tree["fields"])
    with pytest.raises(ArtifactError) as caught:
        decode(tree, arrays, blobs, Top)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"number": math.inf}, "number"),
        ({"number": math.nan}, "number"),
        ({"number": 1e101}, "number"),
        ({"whole": True}, "whole"),
        ({"whole": 2**63}, "whole"),
        ({"text": "\ud800"}, "text"),
        ({"text": "x" * 100_001}, "text"),
        ({"names": ["a"]}, "names"),
        ({"names": ("a", "\udfff")}, "names[1]"),
        ({"shares": {1: 0.5}}, "shares"),
        ({"shares": {"\ud800": 0.5}}, "shares"),
        ({"either": np.array([1.0])}, "either"),
        ({"either": np.datetime64("2020-01-01")}, "either"),
    ],
)
def test_a_value_that_violates_its_rule_is_not_written(values, place):
    with pytest.raises(ArtifactError, match=rf"^{place}[\[:]".replace("[1]", r"\[1\]")):
        encode(Plain(**values))


def test_numbers_of_numpy_become_numbers_of_python():
    found = round_trip(Plain(flag=np.True_, number=np.float32(0.5), whole=np.int8(3), text=np.str_("x")))
    assert [type(value) for value in (found.flag, found.number, found.whole, found.text)] == [
        bool,
        float,
        int,
        str,
    ]
    assert type(round_trip(Plain(number=1)).number) is float
    assert type(round_trip(Plain(either=1)).either) is int


def test_masked_arrays_are_not_written():
    with pytest.raises(ArtifactError, match="values"):
        encode(_top(values={"x": np.ma.masked_array([1.0], mask=[True])}))


def test_arrays_in_any_memory_order_are_written():
    big = np.arange(6, dtype=">f8").reshape(2, 3).T
    found = round_trip(_top(values={"x": big})).values["x"]
    assert found.dtype == np.dtype("<f8")
    assert (found == big).all()


def test_an_array_with_the_name_of_bytes_is_refused():
    tree, arrays, blobs = encode(_top())
    with pytest.raises(ArtifactError, match="parts must be those of the fields"):
        decode(tree, arrays | {"archive": np.ones(1)}, blobs, Top)


def test_an_array_without_values_does_not_claim_a_long_side():
    tree, arrays, _ = encode(_leaf(rows=0, columns=2))
    found = arrays | {"weights": np.zeros((0, 10**10)), "scale": np.ones(10**6)}
    with pytest.raises(ArtifactError, match=r"^weights: must be at most 1000000 long"):
        decode(tree, found, {}, Leaf)


def test_a_class_that_is_no_subclass_of_the_field_is_refused():
    encoded = encode(Plain())
    with pytest.raises(ArtifactError, match=r"must be an object of \['Function'\], got 'test-plain'"):
        decode(*encoded, Function)
    with pytest.raises(ArtifactError, match="function"):
        encode(_top(function=Plain()))
    assert same(decode(*encoded, Plain | Constant), Plain())


@kept("test-chain")
@dataclass(frozen=True)
class Chain(Kept):
    inner: "Chain | None"


def test_nesting_is_bounded():
    tree = None
    for _ in range(5000):
        tree = {"kind": "test-chain", "fields": {"inner": tree}}
    with pytest.raises(ArtifactError, match="recursion"):
        decode(tree, {}, {}, Chain)


def test_a_deep_call_stack_is_an_artifact_error():
    tree = None
    for _ in range(90):
        tree = {"kind": "test-chain", "fields": {"inner": tree}}

    def below(depth):
        return decode(tree, {}, {}, Chain) if depth == 0 else below(depth - 1)

    with pytest.raises(ArtifactError):
        below(sys.getrecursionlimit() - 150)


@pytest.mark.parametrize(
    "value",
    [
        {
            "kind": "test-leaf",
            "fields": {"weights": {"array": "a"}, "scale": {"array": "b"}, "counts": 1, "rows": 10**10},
        },
        [[]] * 200_000,
        {str(i): [] for i in range(50_000)},
        "x" * 2_000_000,
    ],
)
def test_reading_takes_no_more_memory_than_the_input(value):
    size = len(json.dumps(value)) + 100_000
    tree = encode(_top()).tree
    tree["fields"]["function"] = tree["fields"]["values"] = value
    tree["fields"]["plain"] = value
    tracemalloc.start()
    for name in JUNK_FIELDS:
        with pytest.raises(ArtifactError):
            decode(
                {"kind": "test-plain", "fields": encode(Plain()).tree["fields"] | {name: value}},
                {},
                {},
                Plain,
            )
    with pytest.raises(ArtifactError):
        decode(tree, {}, {}, Top)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * size


JUNK_FIELDS = ("flag", "number", "whole", "text", "way", "either", "pair", "names", "shares")


def test_checking_an_array_makes_no_copy_of_it():
    arrays = {"values['x']": np.ones(2_000_000)}
    tree = {"kind": "test-top", "fields": encode(_top(values={}, plain=None, archive=None)).tree["fields"]}
    tree["fields"]["values"] = {"items": {"x": {"array": "values['x']"}}}
    arrays |= encode(_top(values={}, plain=None, archive=None)).arrays
    tracemalloc.start()
    found = decode(tree, arrays, {}, Top)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.values["x"] is arrays["values['x']"]
    assert peak < 1_000_000


@pytest.mark.parametrize("junk", JUNK)
def test_errors_of_any_value_are_short(junk):
    with pytest.raises(ArtifactError) as caught:
        decode([junk] * 1000, {}, {}, Top)
    assert len(str(caught.value)) < 1000
    assert str(caught.value).encode()


def test_copies_and_pickles_drop_what_was_made_on_first_use():
    leaf = _leaf()
    made = leaf.made
    assert leaf.made is made
    for other in (copy.copy(leaf), copy.deepcopy(leaf), pickle.loads(pickle.dumps(leaf))):
        assert "made" not in vars(other)
        assert same(other, leaf)


def test_a_field_that_is_not_kept_has_its_default():
    assert round_trip(_top()).helper is None
    assert "helper" not in rules_of(Top)


@pytest.mark.parametrize(
    "hint",
    [
        *(np.ndarray, FloatArray, Annotated[str, Number()], Annotated[float | None, Number()]),
        *(tuple[int, ...] | tuple[str, ...], str | Literal["a"], Annotated[int, Number()]),
        *(Annotated[bool, Whole()], Annotated[str, Text(), Text()]),
    ],
)
def test_an_annotation_with_another_rule_is_an_error_of_the_class(hint):
    cls = dataclass(frozen=True)(type("Odd", (), {"__annotations__": {"field": hint}}))
    with pytest.raises((TypeError, ValueError)):
        rules_of(cls)


@pytest.mark.parametrize("hint", [list[int], set, Any])
def test_no_value_fits_an_annotation_that_cannot_be_kept(hint):
    rules = rules_of(dataclass(frozen=True)(type("Odd", (), {"__annotations__": {"field": hint}})))["field"]
    for value in ([], {"items": {1: "x"}}, 1, "x", None, {"array": "field"}):
        with pytest.raises(ArtifactError):
            _Reader({"field": np.ones(1)}).read(rules, value, "field")
