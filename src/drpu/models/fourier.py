"""Density ratios from logistic regression: on random cosines, or on the columns of sparse rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression

from drpu._checks import check_integer, check_random_state, check_real
from drpu._samples import SamplePair, is_sparse
from drpu._typing import FloatArray
from drpu.models.features import (
    Cosines,
    FourierFunction,
    LinearFunction,
    Scaling,
    median_distance,
    rounded_factor,
    standardised,
)
from drpu.models.learner import RatioLearner

_MOST_ROWS = 20_000  # rows of either sample that are fitted at a time: their features are large
_MOST_FITS = 8  # fits to other rows, whose coefficients are averaged
_EXACT_ROWS = 10_000  # the fit is computed in float64 up to this number of rows
_NARROW, _WIDE = 0.4, 1.5  # widths, in median distances between rows
_FAR = 3.0  # columns are clipped at this number of standard deviations
_LENGTH = 30.0  # squared length of a row of cosines; together with C it determines the shrinkage
_LINEAR_COLUMNS = 300  # with more columns there is no linear part, because the fit would be slow


@dataclass(eq=False, repr=False)
class FourierRatio(RatioLearner):
    """Log-ratio linear in cosines of random directions, by logistic regression of P against U.

    The cosines approximate Gaussian kernels whose widths are spread around the median
    distance between rows, so that no width has to be chosen. Above 40,000 unlabeled rows
    up to eight samples of 20,000 rows are fitted, and their coefficients are averaged.
    Random numbers and coefficients are kept, but no rows.
    """

    accepts_sparse = False
    fits_in_threads: ClassVar[bool] = True

    n_features: int = 1000
    _: KW_ONLY
    C: float = 0.1  # inverse strength of the shrinkage
    linear: bool = False  # whether columns are features, too; with few rows, they can increase the error
    random_state: Any = None

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> FourierFunction:
        """The density ratio of checked samples."""
        size = check_integer("n_features", self.n_features, low=1)
        check_real("C", self.C, low=1e-12)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        unlabeled = pair.unlabeled.at_most(_MOST_ROWS, rng)
        scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
        width = median_distance(unlabeled.rows, scaling, rng) * np.exp(
            rng.uniform(np.log(_NARROW), np.log(_WIDE), size)
        )
        frequencies = rounded_factor(rng.standard_normal((unlabeled.rows.shape[1], size)) / width)
        cosines = Cosines(scaling, frequencies, rng.uniform(0, 2 * np.pi, size), _FAR, _LENGTH)

        fits = [self._fit_part(cosines, SamplePair(pair.positive.at_most(_MOST_ROWS, rng), unlabeled))]
        while len(fits) < min(_MOST_FITS, len(pair.unlabeled) // _MOST_ROWS):
            samples = (part.at_most(_MOST_ROWS, rng) for part in (pair.positive, pair.unlabeled))
            fits.append(self._fit_part(cosines, SamplePair(*samples)))
        mean = np.mean([coef for coef, _ in fits], axis=0)
        return FourierFunction(
            cosines,
            coef=mean[:size],
            intercept=float(np.mean([intercept for _, intercept in fits])),
            linear=mean[size:] * cosines.column_factor if len(mean) > size else None,
        )

    def _fit_part(self, cosines: Cosines, pair: SamplePair) -> tuple[FloatArray, float]:
        """Coefficients and the intercept of the log-ratio; of many rows in float32, to halve the memory."""
        linear = self.linear and cosines.n_columns <= _LINEAR_COLUMNS
        dtype = np.float64 if len(pair) <= _EXACT_ROWS else np.float32
        features = cosines.features(pair.stacked(), linear=linear, dtype=dtype)
        fit = LogisticRegression(C=self.C, max_iter=200, tol=1e-3).fit(
            features, pair.flags(), sample_weight=pair.weights()
        )
        return fit.coef_[0], float(fit.intercept_[0]) - pair.log_odds()


@dataclass(eq=False, repr=False)
class LinearRatio(RatioLearner):
    """Log-ratio linear in the columns, by logistic regression of P against U; for sparse rows.

    Columns are divided by their standard deviations. Those of sparse rows are not centred.
    """

    fits_in_threads: ClassVar[bool] = True

    C: float = 0.1

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> LinearFunction:
        """The density ratio of checked samples."""
        check_real("C", self.C, low=1e-12)
        rows = pair.stacked()
        scaling = Scaling.of(rows, None)
        if is_sparse(rows):
            scaling = Scaling(np.zeros_like(scaling.shift), scaling.scale)
        fit = LogisticRegression(C=self.C, max_iter=1000).fit(
            standardised(rows, scaling)[0], pair.flags(), sample_weight=pair.weights()
        )
        intercept = float(fit.intercept_[0]) - pair.log_odds()
        return LinearFunction(scaling, fit.coef_[0] * np.sqrt(rows.shape[1]), intercept)
