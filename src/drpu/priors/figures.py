"""A number with its limits, and exact limits of a share of counted rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from drpu._arrays import FloatArray
from drpu._results import TableColumns, html_text
from drpu.priors.constants import WIDE_RANGE

_ROUNDING = 1e-9  # counts of weighted rows are sums of floats


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured or expected quantity with confidence limits.

    ``value``, ``low``, ``high``: The estimate and its limits; the value is NaN if nothing was
    measured.
    """

    value: float
    low: float
    high: float
    variance: float = 0.0  # a conservative variance of ``value`` where answers were counted

    @property
    def is_wide(self) -> bool:
        """Whether the range of a share is so wide that its value says little."""
        return self.high - self.low > WIDE_RANGE

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def _repr_html_(self) -> str:
        return html_text(self)

    def as_expected(self) -> str:
        """An expected share as text: the range alone where it is wide."""
        if self.is_wide:
            return f"[{self.low:.3f}, {self.high:.3f}]"
        return str(self)


def without_wide_values(columns: TableColumns) -> TableColumns:
    """The columns of expected shares without the values whose ranges are wide."""
    values = []
    for value, low, high in zip(columns["value"], columns["low"], columns["high"], strict=True):
        values.append(None if Figure(value, low, high).is_wide else value)
    return {**columns, "value": values}


def exact_limit(hits: float, n: float, tail: float, *, upper: bool) -> float:
    """The lower or upper limit of a share, ``hits`` of ``n`` rows (Clopper and Pearson)."""
    missed = n - hits
    if upper:
        if missed <= _ROUNDING:
            return 1.0
        return float(scipy.special.betaincinv(hits + 1, missed, 1 - tail))
    if hits <= _ROUNDING:
        return 0.0
    return float(scipy.special.betaincinv(hits, missed + 1, tail))


def exact_limits(share: float, n: float, tail: float) -> tuple[float, float]:
    """Both exact limits of a share of ``n`` rows; each is wrong with probability ``tail``."""
    hits = share * n
    return exact_limit(hits, n, tail, upper=False), exact_limit(hits, n, tail, upper=True)


def exact_limits_of(shares: FloatArray, n: float, tail: float) -> tuple[FloatArray, FloatArray]:
    """The limits of :func:`exact_limits` for each of several shares."""
    hits = shares * n
    missed = n - hits
    low = scipy.special.betaincinv(np.maximum(hits, 1e-300), missed + 1, tail)
    high = scipy.special.betaincinv(hits + 1, np.maximum(missed, 1e-300), 1 - tail)
    return np.where(hits > _ROUNDING, low, 0.0), np.where(missed > _ROUNDING, high, 1.0)
