"""The state of fitted objects, in the form that artifacts and workers use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from drpu.exceptions import DataError

__all__ = ["ModelState", "class_of", "declare", "declared"]


@dataclass(frozen=True, slots=True)
class ModelState:
    """The state from which a fitted object can be restored.

    Attributes
    ----------
    kind : str
        Name of the class that reads it.
    config : dict
        Settings and numbers that JSON can hold.
    arrays : dict of str to ndarray
        Numeric arrays.
    blobs : dict of str to bytes
        Texts or archives in the format of another library.
    parts : dict of str to ModelState
        States of inner objects.
    """

    kind: str
    config: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, ModelState] = field(default_factory=dict)

    def replaced(self, **values: Any) -> ModelState:
        """A copy with other values: values of arrays replace arrays, the others belong to ``config``."""
        arrays = {name: value for name, value in values.items() if name in self.arrays}
        config = {name: value for name, value in values.items() if name not in self.arrays}
        return replace(self, config=self.config | config, arrays=self.arrays | arrays)


_DECLARED: dict[str, dict[str, type[Any]]] = {}


def declare(package: str, kind: str, cls: type[Any]) -> None:
    """Register ``cls`` as the class of ``kind``; base classes call this when a subclass is defined."""
    _DECLARED.setdefault(package, {})[kind] = cls


def declared(package: str) -> dict[str, type[Any]]:
    """Classes of a package by kind.

    Importing a module declares its classes, so all public modules of the package are
    imported first. They import heavy packages, such as torch, only when used.
    """
    _import_public(package)
    return _DECLARED.get(package, {})


# Where the classes of a package are declared, beside its own modules; the other modules need torch.
_ALSO = {
    "drpu.classifier": tuple(
        f"drpu.rivals.{name}" for name in ("elkan_noto", "generative", "margin", "risk", "variational")
    ),
}


@cache
def _import_public(package: str) -> None:
    """Import the public modules of a package once, because searching for them takes milliseconds."""
    for module in iter_modules(import_module(package).__path__):
        import_module(f"{package}.{module.name}")
    for name in _ALSO[package]:
        import_module(name)


def class_of(package: str, state: ModelState, base: type[Any]) -> type[Any]:
    """The subclass of ``base`` in ``package`` that reads ``state``.

    A class may have a ``schema`` with the rules for its states, see :mod:`drpu._schema`. This function
    checks ``state`` against it.
    """
    known = _DECLARED.get(package, {})
    if state.kind not in known:
        known = declared(package)
    if state.kind not in known or not issubclass(known[state.kind], base):
        kinds = sorted(kind for kind, cls in known.items() if issubclass(cls, base))
        raise DataError(f"kind must be one of {', '.join(kinds)}, got {state.kind!r}.")
    schema = getattr(known[state.kind], "schema", None)
    if schema is not None:
        schema.check(state)
    return known[state.kind]
