"""Types of arrays, and functions that work on NumPy arrays and on torch tensors."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from drpu.exceptions import DataTypeError

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# A NumPy array or a torch tensor; functions return the type of their argument.
Array: TypeAlias = Any

# Rows as users pass them: numpy, pandas, polars, Arrow, scipy sparse, torch.
Rows: TypeAlias = Any


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a torch tensor. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Array) -> ModuleType:
    """The module, ``numpy`` or ``torch``, whose functions apply to ``x``."""
    if is_tensor(x):
        return sys.modules["torch"]
    return np


def as_numpy(x: Any) -> Any:
    """``x`` itself, or a NumPy array of its values if it is a torch tensor."""
    if not is_tensor(x):
        return x
    if x.layout != sys.modules["torch"].strided:
        raise DataTypeError(
            f"a torch tensor must be dense, got the layout {x.layout}: pass to_dense(), or a "
            "sparse matrix of scipy."
        )
    values = x.detach().cpu()
    # NumPy has no bfloat16. Every bfloat16 is exactly representable in float32.
    if values.dtype == sys.modules["torch"].bfloat16:
        values = values.float()
    return values.numpy()


def softplus(x: Array) -> Array:
    """log(1 + exp(x)), without overflow for large or small x."""
    xp = namespace(x)
    return xp.logaddexp(x, xp.zeros_like(x))


def weighted_mean(values: Array, weight: Array | None = None) -> Array:
    """Mean over the last axis. A stack of models gives one value per model."""
    if weight is None:
        return values.mean(-1)
    return (values * weight).sum(-1) / weight.sum(-1)
