"""Import of optional dependencies, with an error that names the extra to install."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, TypeVar

from drpu.exceptions import MissingExtraError

__all__ = ["inform", "progress", "require"]

Item = TypeVar("Item")


def require(module: str, *, extra: str, for_: str) -> Any:
    """The module ``module``, or an error that says which extra ``for_`` needs."""
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
    """``items``, with a progress bar if ``show`` is true and tqdm is installed."""
    if not show:
        return items
    try:
        tqdm = import_module("tqdm.auto").tqdm
    except ModuleNotFoundError:
        return items
    bar: Iterable[Item] = tqdm(items, total=total, desc=label)
    return bar


_LOGGER = logging.getLogger("drpu")


class _BesideBars(logging.Handler):
    """Writes lines above a progress bar, so that they do not mix."""

    def emit(self, record: logging.LogRecord) -> None:
        line = f"drpu: {self.format(record)}"
        bars = sys.modules.get("tqdm.std")
        if bars is None:
            print(line, file=sys.stderr)
        else:
            bars.tqdm.write(line, file=sys.stderr)


def inform(message: str) -> None:
    """Log ``message`` at level INFO; to the standard error if no logging is configured."""
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(_BesideBars())
        _LOGGER.setLevel(logging.INFO)
    _LOGGER.info(message)
