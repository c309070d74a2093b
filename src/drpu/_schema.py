"""Schemas of states: each kind declares one, which is checked before a state is used.

A kind declares its numbers, texts and arrays. Lengths of arrays are letters, and arrays with the same letter
must have the same length::

    LINE = Schema(
        "line",
        config={"intercept": Number()},
        arrays={"scale": Array("d", above=0), "coef": Array("d")},
    )
    lengths = LINE.check(state)  # {"d": 3}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from drpu._state import ModelState
from drpu.exceptions import DataError

__all__ = [
    "Array",
    "Dictionary",
    "Field",
    "Flag",
    "Integer",
    "List",
    "Number",
    "Optional",
    "Schema",
    "Text",
    "damaged",
]

LARGEST = 1e100  # largest absolute value, so that sums and products of a few numbers are finite
MOST_ITEMS = 10_000_000


class Field(Protocol):
    """A rule for one value of a state."""

    def check(self, value: Any) -> str | None:
        """The rule that the value violates, or None."""


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number."""

    low: float = -LARGEST
    high: float = LARGEST
    above: float = -np.inf

    def check(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return "a number"
        if not self.low <= value <= self.high or not value > self.above:  # which no NaN is
            return f"between {max(self.low, self.above):g} and {self.high:g}"
        return None


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer."""

    low: int = 0
    high: int = 2**53

    def check(self, value: Any) -> str | None:
        if type(value) is not int or not self.low <= value <= self.high:
            return f"an integer between {self.low} and {self.high}"
        return None


@dataclass(frozen=True, slots=True)
class Flag:
    """True or False."""

    def check(self, value: Any) -> str | None:
        return None if isinstance(value, bool) else "true or false"


@dataclass(frozen=True, slots=True)
class Text:
    """A text; one of ``choices`` if they are given."""

    choices: Collection[str] | None = None
    most: int = 10_000

    def check(self, value: Any) -> str | None:
        if not isinstance(value, str) or len(value) > self.most:
            return "a text"
        if self.choices is not None and value not in self.choices:
            return f"one of {', '.join(sorted(self.choices))}"
        return None


@dataclass(frozen=True, slots=True)
class List:
    """A list of values that follow one rule."""

    item: Field
    low: int = 0
    high: int = MOST_ITEMS

    def check(self, value: Any) -> str | None:
        if not isinstance(value, list) or not self.low <= len(value) <= self.high:
            return f"a list of {self.low} to {self.high} items"
        return next(
            (f"a list of items, each {rule}" for item in value if (rule := self.item.check(item))), None
        )


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A dictionary, whose values are checked elsewhere."""

    def check(self, value: Any) -> str | None:
        return None if isinstance(value, dict) else "a dictionary"


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be null or missing."""

    item: Field

    def check(self, value: Any) -> str | None:
        return None if value is None else self.item.check(value)


@dataclass(frozen=True, slots=True)
class Array:
    """An array of finite numbers, one letter for each of its lengths."""

    shape: str
    above: float = -np.inf
    kinds: str = "f"
    finite: bool = True
    optional: bool = False

    def check(self, value: Any, lengths: dict[str, int]) -> str | None:
        """The rule that the array violates, or None; new letters are added to ``lengths``."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in self.kinds:
            return "an array of numbers"
        if value.ndim != len(self.shape):
            return f"an array of {len(self.shape)} dimensions"
        for letter, length in zip(self.shape, value.shape, strict=True):
            if lengths.setdefault(letter, length) != length:
                return f"an array of length {lengths[letter]}, like the others, not {length}"
        if self.finite and value.size and not np.abs(value).max() <= LARGEST:  # which no NaN is
            return "finite"
        if not (value > self.above).all():
            return f"above {self.above:g}"
        return None


@dataclass(frozen=True, slots=True)
class Schema:
    """The rules for the states of one kind.

    Attributes
    ----------
    name : str
        Name of the kind in messages.
    config : mapping of str to rules
        Numbers and texts. Settings that are not named here are not checked.
    arrays : mapping of str to Array
        The arrays; others are not allowed, except those that ``more_arrays`` matches.
    blobs : collection of str
        Names of the blobs; others are not allowed.
    parts : collection of str, or None
        Names of the inner states. None allows "0", "1", ... up to any number, and at least one.
    more_arrays : str
        A regular expression for further arrays.
    also : callable, optional
        Called with the state and the lengths, for rules between values; returns what is wrong, or None.
    """

    name: str
    config: Mapping[str, Field] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)
    blobs: Collection[str] = ()
    parts: Collection[str] | None = ()
    more_arrays: str = "(?!)"
    also: Callable[[ModelState, dict[str, int]], str | None] | None = None

    def check(self, state: ModelState) -> dict[str, int]:
        """The length of each letter; raises ``DataError`` if the state violates a rule."""
        for key, rule in self.config.items():
            if key not in state.config and not isinstance(rule, Optional):
                raise damaged(self.name, f"{key} is missing")
            if wrong := rule.check(state.config.get(key)):
                raise damaged(self.name, f"{key} must be {wrong}, got {state.config.get(key)!r:.100}")
        lengths = self._check_arrays(state)
        self._check_names(state)
        if self.also is not None and (problem := self.also(state, lengths)):
            raise damaged(self.name, problem)
        return lengths

    def _check_arrays(self, state: ModelState) -> dict[str, int]:
        lengths: dict[str, int] = {}
        for key, rule in self.arrays.items():
            if key not in state.arrays:
                if rule.optional:
                    continue
                raise damaged(self.name, f"the array {key} is missing")
            if wrong := rule.check(state.arrays[key], lengths):
                raise damaged(self.name, f"{key} must be {wrong}")
        for key in state.arrays.keys() - self.arrays.keys():
            if not re.fullmatch(self.more_arrays, key, re.S):
                raise damaged(self.name, f"it must not have an array {key[:100]!r}")
        return lengths

    def _check_names(self, state: ModelState) -> None:
        parts = self.parts
        if parts is None:
            parts = [str(i) for i in range(max(1, len(state.parts)))]
        for found, wanted, what in ((state.blobs, self.blobs, "blobs"), (state.parts, parts, "parts")):
            if set(found) != set(wanted):
                raise damaged(
                    self.name, f"its {what} must be {sorted(wanted)!r:.100}, got {sorted(found)!r:.100}"
                )


def damaged(name: str, problem: str) -> DataError:
    """The error for a state that violates a rule."""
    return DataError(f"the state is not that of a {name}: {problem}.")
