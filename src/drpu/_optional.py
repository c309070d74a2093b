"""Import of optional dependencies, with an error that names the extra to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from drpu.exceptions import MissingExtraError


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
