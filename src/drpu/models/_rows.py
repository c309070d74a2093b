"""Rows as models take them: a float array or a sparse matrix, whatever the user holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from drpu._arrays import as_numpy
from drpu._typing import Rows
from drpu.exceptions import DataError, DataTypeError

__all__ = ["as_rows", "is_sparse", "n_rows", "stack_rows", "take_rows"]


def as_rows(name: str, X: Any, *, sparse_ok: bool = True, nan_ok: bool = False, nd_ok: bool = False) -> Rows:
    """``X`` as a numeric array or CSR matrix, or an error that says what is wrong with it."""
    if sparse.issparse(X) and not sparse_ok:
        raise DataTypeError(f"{name} is sparse, which this model cannot take: pass {name}.toarray().")
    try:
        return check_array(
            as_numpy(X),
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


def is_sparse(X: Any) -> bool:
    """Whether ``X`` is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def n_rows(X: Rows) -> int:
    """Number of rows of an array or sparse matrix."""
    return int(X.shape[0])


def take_rows(X: Rows, index: Any) -> Rows:
    """The rows of ``X`` at ``index`` (integers or a mask)."""
    return X[index]


def stack_rows(*parts: Rows) -> Rows:
    """The parts one below the other; sparse stays sparse."""
    if any(sparse.issparse(part) for part in parts):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
