"""The floating-point state of public calls: NumPy's default, whatever the caller has set.

Formulas of this package divide by zero and underflow where the result is the right limit. With
``np.seterr(all="raise")``, as some programs set it, each of these would be an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_ALSO_PUBLIC = ("__call__", "_repr_html_")


def default_errors(function: Callable[P, T]) -> Callable[P, T]:
    """The function, called with NumPy's default handling of floating-point errors."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
            return function(*args, **kwargs)

    call.__dict__["has_default_errors"] = True
    return call


def default_errors_in(cls: C) -> C:
    """The class, whose own public methods are called with :func:`default_errors`."""
    for name, value in list(vars(cls).items()):
        is_public = not name.startswith("_") or name in _ALSO_PUBLIC
        if is_public and isfunction(value) and not hasattr(value, "has_default_errors"):
            setattr(cls, name, default_errors(value))
    return cls


class DefaultErrors:
    """Base of classes whose public methods, and those of subclasses, have the default state."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        default_errors_in(cls)
