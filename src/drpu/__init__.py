"""Positive-unlabeled classification that keeps working when the share of positives changes.

The public names are listed in ``__init__.pyi``. Each is imported when it is first used, so
``import drpu`` alone imports neither scikit-learn nor torch nor LightGBM.
"""

from __future__ import annotations

from typing import Any

import lazy_loader

__version__ = "0.1.0"  # the build reads it here

_attach, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'drpu' has no attribute {name!r}")
    return _attach(name)
