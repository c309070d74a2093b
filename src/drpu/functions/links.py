"""Link functions from the real output g of a model to a ratio, with two derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import expit

from drpu._arrays import softplus
from drpu._typing import FloatArray

__all__ = ["FLOOR", "LINKS", "Link", "exact_product", "log_above_floor", "rounded_factor", "row_step"]

FLOOR = 0.01
_REACH = 30.0  # arguments of exp are clipped here to avoid overflow and underflow


class Link(ABC):
    """A smooth increasing function r(g)."""

    name: ClassVar[str]
    start: ClassVar[float]  # the g with r = 1, the initial output of a model

    @abstractmethod
    def ratio(self, g: FloatArray) -> FloatArray:
        """r(g)."""

    @abstractmethod
    def slope(self, g: FloatArray) -> FloatArray:
        """r'(g)."""

    @abstractmethod
    def curvature(self, g: FloatArray) -> FloatArray:
        """r''(g)."""

    @abstractmethod
    def log_ratio(self, g: FloatArray) -> FloatArray:
        """Log r(g), a finite and strictly increasing function of g."""


class Identity(Link):
    """r = g: for least squares only, the one generator that allows ratios below 0."""

    name = "identity"
    start = 1.0

    def ratio(self, g: FloatArray) -> FloatArray:
        return g

    def slope(self, g: FloatArray) -> FloatArray:
        return np.ones_like(g)

    def curvature(self, g: FloatArray) -> FloatArray:
        return np.zeros_like(g)

    def log_ratio(self, g: FloatArray) -> FloatArray:
        return log_above_floor(g)


class Softplus(Link):
    """r = log(1 + exp g): positive, and linear where ratios are large."""

    name = "softplus"
    start = float(np.log(np.expm1(1.0)))

    def ratio(self, g: FloatArray) -> FloatArray:
        return np.asarray(softplus(np.maximum(g, -_REACH)))

    def slope(self, g: FloatArray) -> FloatArray:
        return np.asarray(expit(np.maximum(g, -_REACH)))

    def curvature(self, g: FloatArray) -> FloatArray:
        g = np.maximum(g, -_REACH)
        return np.asarray(expit(g) * expit(-g))

    def log_ratio(self, g: FloatArray) -> FloatArray:
        far = g < -_REACH  # where log(1 + e^g) equals e^g in floating point
        return np.where(far, g, np.log(softplus(np.where(far, 0.0, g))))


class Exponential(Link):
    """r = exp g."""

    name = "exp"
    start = 0.0

    def ratio(self, g: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.clip(g, -_REACH, _REACH)))

    def slope(self, g: FloatArray) -> FloatArray:
        return self.ratio(g)

    def curvature(self, g: FloatArray) -> FloatArray:
        return self.ratio(g)

    def log_ratio(self, g: FloatArray) -> FloatArray:
        return g


LINKS: dict[str, Link] = {link.name: link for link in (Identity(), Softplus(), Exponential())}


def log_above_floor(ratio: FloatArray) -> FloatArray:
    """Logarithm of a ratio, continued below 0.01 by its tangent.

    Fitted values below zero become ratios close to 0 and keep their order. The error of
    a ratio is less than 0.004.
    """
    above = np.maximum(ratio, FLOOR)
    return np.asarray(np.log(above) + np.minimum(ratio - FLOOR, 0) / FLOOR)


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
