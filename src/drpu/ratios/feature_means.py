r"""Prior of new rows by matching the means of random features (TCPU, arXiv 2502.21194).

For any features, the means :math:`\mu` of positives, unlabeled training rows and new rows
satisfy :math:`\mu' - \mu_+ = \lambda (\mu - \mu_+)` with :math:`\lambda = (1-\pi')/(1-\pi)`. The
published estimator uses the means in the Hilbert space of a Gaussian kernel; random Fourier
features with a fixed seed approximate them by vectors, so that no row is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from drpu._codec import Array, Number, kept
from drpu._samples import Sample, SamplePair, is_sparse, n_rows, take_rows
from drpu._typing import FloatArray, Rows
from drpu.exceptions import DataError, ParameterError
from drpu.functions.features import Basis, Scaling, make_basis, median_distance

__all__ = ["KERNEL_MATCHING", "FeatureMeans"]

KERNEL_MATCHING = "kernel-matching"
_FEATURES = 1000
_SEED = 0  # the features do not depend on the random state of the fit
_CHUNK = 1 << 14


@kept("feature-means")
@dataclass(frozen=True, eq=False)
class FeatureMeans:
    """Means of random features over the two training samples.

    ``width``: Width of the Gaussian kernel: the median distance of two unlabeled rows.
    ``positive``, ``unlabeled``: Means over the labelled positives and over the unlabeled training rows.
    """

    basis: Basis
    width: Annotated[float, Number(above=0)]
    positive: Annotated[FloatArray, Array("m")]
    unlabeled: Annotated[FloatArray, Array("m")]

    def __post_init__(self) -> None:
        if self.basis.kind != "features" or len(self.positive) != self.basis.size:
            raise DataError(f"the means must be those of {self.basis.size} random features.")

    @classmethod
    def of(cls, pair: SamplePair) -> FeatureMeans:
        """Means over the samples of ``pair``, standardised by the unlabeled rows."""
        rows = _checked(pair.unlabeled.rows)
        rng = np.random.default_rng(_SEED)
        scaling = Scaling.of(rows, pair.unlabeled.weight)
        basis = make_basis("features", rows, _FEATURES, scaling, rng)
        width = median_distance(rows, scaling, rng)
        return cls(basis, width, _mean(basis, width, pair.positive), _mean(basis, width, pair.unlabeled))

    def prior(self, new: Sample, train_prior: float) -> float:
        """Prior of ``new``, from the growth of the share of negatives since training."""
        gap = self.unlabeled - self.positive
        size = float(gap @ gap)
        if size < 1e-20:  # positives and unlabeled rows have equal means, so no change can be seen
            return train_prior
        growth = max(0.0, float((_mean(self.basis, self.width, new) - self.positive) @ gap) / size)
        return float(np.clip(1 - growth * (1 - train_prior), 0.0, 1.0))


def _mean(basis: Basis, width: float, sample: Sample) -> FloatArray:
    """Mean of the features of ``sample``, by its weights."""
    rows = _checked(sample.rows)
    weight = np.ones(len(sample)) if sample.weight is None else sample.weight
    total = np.zeros(basis.size)
    for start in range(0, n_rows(rows), _CHUNK):
        at = slice(start, start + _CHUNK)
        projected = basis.project(take_rows(rows, at))
        total += weight[at] @ basis.shape(projected, width, out=projected)
    return np.asarray(total / weight.sum())


def _checked(rows: Rows) -> Any:
    """Rows, if features can be computed from them: two dimensions, numbers, no missing values."""
    if is_sparse(rows):
        return rows
    array = np.asarray(rows)
    if array.ndim != 2 or array.dtype.kind not in "biuf" or np.isnan(array).any():
        raise ParameterError(
            f"adapt_method={KERNEL_MATCHING!r} needs rows of numbers without missing values: use 'auto'."
        )
    return array
