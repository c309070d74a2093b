"""Positive-unlabeled classification that keeps working when the share of positives changes.

The public names are listed in ``__init__.pyi``. Each is imported when it is first used, so
``import drpu`` alone imports neither scikit-learn nor torch nor LightGBM.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

_attach, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name not in __all__:
        raise AttributeError(f"module 'drpu' has no attribute {name!r}")
    return _attach(name)


def _version() -> str:
    """The installed version; looked up on first use, because the look-up is slow."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("drpu")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0.1.0"
