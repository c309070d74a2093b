"""Standardised columns, dense or sparse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.sparsefuncs import mean_variance_axis

from drpu._samples import is_sparse
from drpu._typing import FloatArray, Rows
from drpu.models._exact import exact_product

__all__ = ["Scaling"]

CLIP = 3.0  # limit of softly clipped values, in standard deviations


@dataclass(frozen=True, slots=True)
class Scaling:
    """Shift and scale of each column."""

    shift: FloatArray
    scale: FloatArray

    @classmethod
    def of(cls, X: Rows, weight: FloatArray | None) -> Scaling:
        """Mean and standard deviation of the columns; constant columns have scale 1."""
        if is_sparse(X):
            mean, variance = mean_variance_axis(X.astype(np.float64), axis=0, weights=weight)
        else:
            mean = (
                X.mean(axis=0, dtype=np.float64) if weight is None else np.average(X, axis=0, weights=weight)
            )
            variance = np.average((X - mean) ** 2, axis=0, weights=weight)
        tiny = variance <= (1e-10 * np.maximum(1e-10, np.abs(mean))) ** 2
        return cls(mean, np.where(tiny, 1.0, np.sqrt(np.where(tiny, 1.0, variance))))

    @classmethod
    def none(cls, d: int) -> Scaling:
        """The scaling that changes nothing."""
        return cls(np.zeros(d), np.ones(d))

    def times(self, X: Rows, M: FloatArray) -> FloatArray:
        """Standardised rows times the matrix ``M``; sparse rows stay sparse."""
        if is_sparse(X):
            return np.asarray(X @ (M / self.scale[:, None]) - (self.shift / self.scale) @ M)
        return exact_product((X - self.shift) / self.scale, M)

    def squared_norms(self, X: Rows) -> FloatArray:
        """Squared length of each standardised row."""
        if not is_sparse(X):
            Z = np.ascontiguousarray((X - self.shift) / self.scale)  # the order in memory is that of the sums
            return np.asarray(np.einsum("ij,ij->i", Z, Z))
        inverse = self.scale**-2.0
        cross = X.multiply(X) @ inverse - 2 * (X @ (self.shift * inverse))
        return np.asarray(cross + (self.shift**2) @ inverse)

    def softly_clipped(self, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Standardised values z as z / sqrt(1 + (z / 3)^2) in float32: no outlier exceeds 3."""
        z = (X - self.shift) / self.scale
        return np.asarray(z / np.sqrt(1 + (z / CLIP) ** 2), dtype=np.float32)
