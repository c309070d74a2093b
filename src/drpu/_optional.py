"""Optional dependencies, asked for by the name of the extra that brings them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeVar

from drpu.exceptions import MissingExtraError

__all__ = ["progress", "require"]

Item = TypeVar("Item")


def require(module: str, *, extra: str, for_: str) -> Any:
    """Import ``module``, or say which extra to install for ``for_`` to work."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise MissingExtraError(
            f'{for_} needs {package!r}, which is not installed. Run: pip install "drpu[{extra}]"',
            name=package,
        ) from error


def progress(items: Iterable[Item], *, total: int, label: str, show: bool) -> Iterable[Item]:
    """``items`` under a progress bar when ``show`` asks for one and tqdm is there."""
    if not show:
        return items
    try:
        tqdm = import_module("tqdm.auto").tqdm
    except ModuleNotFoundError:
        return items
    bar: Iterable[Item] = tqdm(items, total=total, desc=label)
    return bar
