"""Rows in the form that models accept: a float array or a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from drpu._arrays import as_numpy
from drpu._typing import Rows
from drpu.exceptions import DataError, DataTypeError

__all__ = ["as_rows", "is_images"]


def as_rows(name: str, X: Any, *, sparse_ok: bool = True, nan_ok: bool = False, nd_ok: bool = False) -> Rows:
    """``X`` as a numeric array or CSR matrix, or an error that explains why it is not one."""
    if sparse.issparse(X) and not sparse_ok:
        raise DataTypeError(f"{name} is sparse, which this model does not support: pass {name}.toarray().")
    X = as_numpy(X)
    if nd_ok and is_images(X):
        return np.ascontiguousarray(X)
    try:
        return check_array(
            X,
            accept_sparse="csr" if sparse_ok else False,
            dtype=(np.float64, np.float32),
            ensure_all_finite="allow-nan" if nan_ok else True,
            allow_nd=nd_ok,
            input_name=name,
        )
    except TypeError as error:
        raise DataTypeError(f"{name}: {error}") from error
    except ValueError as error:
        raise DataError(f"{name}: {error}") from error


def is_images(X: Any) -> bool:
    """Whether ``X`` contains 8-bit images, which models convert batch by batch."""
    return isinstance(X, np.ndarray) and X.dtype == np.uint8 and X.ndim > 2 and X.size > 0
