"""Matrix products whose sums do not depend on how the rows are divided into batches.

BLAS adds the products of a row in an order that depends on the shape of the batch, and
the last bits of the sum depend on that order. Here the factors are rounded to so few
bits (22 each for up to 255 columns) that every product and every partial sum is a
float64 without rounding, so that no order can change the result.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from drpu._typing import FloatArray

__all__ = ["exact_product", "rounded_factor", "row_step"]

_MANTISSA = 53  # bits of a float64


def exact_product(A: FloatArray, B: FloatArray) -> FloatArray:
    """``A @ B`` to about 13 digits, each row the same in any batch.

    Both factors are split into a rounded part and a rounded rest. The three products
    that matter are exact, and are added in a fixed order.

    Parameters
    ----------
    A : array of shape (n, d)
        Rows.
    B : array of shape (d, m)
        Any matrix.
    """
    bits = _bits(2 * A.shape[1])
    high_a, high_b = _rounded(A, bits, axis=1), _rounded(B, bits, axis=0)
    rest_a, rest_b = _rounded(A - high_a, bits, axis=1), _rounded(B - high_b, bits, axis=0)
    product: FloatArray = high_a @ high_b
    product += high_a @ rest_b
    product += rest_a @ high_b
    return product


def rounded_factor(B: FloatArray) -> FloatArray:
    """``B`` of shape (d, m) with each column rounded to a fixed step.

    Its product with rows that are multiples of :func:`row_step` is exact.
    """
    return _rounded(B, _bits(B.shape[0]), axis=0)


@lru_cache
def row_step(columns: int, largest: float) -> float:
    """Step to round rows to whose absolute values are at most ``largest``."""
    return float(np.ldexp(1.0, int(np.frexp(largest)[1]) - _bits(columns)))


def _bits(terms: int) -> int:
    """Bits that both factors may have so that a sum of ``terms`` products fits into a float64."""
    return max(1, (_MANTISSA - int(terms).bit_length()) // 2)


def _rounded(A: FloatArray, bits: int, axis: int) -> FloatArray:
    """``A`` in fixed point: ``bits`` bits below the largest absolute value along ``axis``."""
    _, exponent = np.frexp(np.abs(A).max(axis=axis, keepdims=True, initial=0.0))
    unit = np.ldexp(1.0, exponent - bits)
    return np.asarray(np.rint(A / unit) * unit, dtype=np.float64)
