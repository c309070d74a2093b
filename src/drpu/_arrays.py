"""NumPy and torch through the same lines."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np

from drpu._typing import Array

__all__ = ["as_numpy", "is_tensor", "namespace", "softplus", "weighted_mean"]


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a torch tensor, without importing torch to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Array) -> ModuleType:
    """The module, ``numpy`` or ``torch``, whose functions ``x`` understands."""
    return sys.modules["torch"] if is_tensor(x) else np


def as_numpy(x: Any) -> Any:
    """``x`` itself, or its values on the host when it is a torch tensor."""
    if not is_tensor(x):
        return x
    values = x.detach().cpu()
    # NumPy has no bfloat16; every such number is a float32.
    return (values.float() if values.dtype == sys.modules["torch"].bfloat16 else values).numpy()


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow at either end."""
    xp = namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def weighted_mean(values: Array, weight: Array | None = None) -> Array:
    """Mean over the last axis, so that a stack of models keeps one value each."""
    if weight is None:
        return values.mean(-1)
    return (values * weight).sum(-1) / weight.sum(-1)
