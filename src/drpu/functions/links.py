"""Links from the real output g of trees to a ratio r(g), with two derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from drpu._arrays import softplus
from drpu._typing import FloatArray

FLOOR = 0.01
_REACH = 30.0  # arguments of exp are clipped here to avoid overflow and underflow

_Map = Callable[[FloatArray], FloatArray]


class Link(NamedTuple):
    """A smooth increasing function r(g), the g with r = 1 at which training starts, and log r(g)."""

    start: float
    ratio: _Map
    slope: _Map
    curvature: _Map
    log_ratio: _Map  # finite, and strictly increasing


def log_above_floor(ratio: FloatArray) -> FloatArray:
    """Logarithm of a ratio, continued below 0.01 by its tangent.

    Fitted values below zero become ratios close to 0 and keep their order. The error of
    a ratio is less than 0.004.
    """
    above = np.maximum(ratio, FLOOR)
    return np.asarray(np.log(above) + np.minimum(ratio - FLOOR, 0) / FLOOR)


def _log_softplus(g: FloatArray) -> FloatArray:
    far = g < -_REACH  # where log(1 + e^g) equals e^g in floating point
    return np.where(far, g, np.log(softplus(np.where(far, 0.0, g))))


def _bell(g: FloatArray) -> FloatArray:
    g = np.maximum(g, -_REACH)
    return np.asarray(expit(g) * expit(-g))


def _exp(g: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.clip(g, -_REACH, _REACH)))


LINKS = {
    # for least squares only, the one generator that allows ratios below 0
    "identity": Link(1.0, lambda g: g, np.ones_like, np.zeros_like, log_above_floor),
    # positive, and linear where ratios are large
    "softplus": Link(
        float(np.log(np.expm1(1.0))),
        lambda g: np.asarray(softplus(np.maximum(g, -_REACH))),
        lambda g: np.asarray(expit(np.maximum(g, -_REACH))),
        _bell,
        _log_softplus,
    ),
    "exp": Link(0.0, _exp, _exp, _exp, lambda g: g),
}
