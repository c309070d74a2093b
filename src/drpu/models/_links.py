"""Link functions from the real output g of a model to a ratio, with two derivatives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.special import expit

from drpu._arrays import softplus
from drpu._typing import FloatArray

__all__ = ["LINKS", "Link", "log_above_floor"]

_FLOOR = 0.01
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
    above = np.maximum(ratio, _FLOOR)
    return np.asarray(np.log(above) + np.minimum(ratio - _FLOOR, 0) / _FLOOR)
