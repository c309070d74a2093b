"""Smooth density ratios: logistic regression on random cosines, and optionally on the columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair, n_rows
from drpu._schema import Array, Integer, Number, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.functions.features import Scaling, median_distance
from drpu.functions.links import rounded_factor, row_step
from drpu.ratios.base import RatioModel

__all__ = ["FourierRatio"]

_MOST_ROWS = 20_000  # rows of either sample that are fitted at a time: their features are large
_MOST_FITS = 8  # fits to other rows, whose coefficients are averaged
_EXACT_ROWS = 10_000  # the fit is computed in float64 up to this number of rows
_CHUNK = 256  # rows scored at a time, so that their cosines fit into the cache
_NARROW, _WIDE = 0.4, 1.5  # widths, in median distances between rows
_FAR = 3.0  # columns are clipped at this number of standard deviations
_LENGTH = 30.0  # squared length of a row of cosines; together with C it determines the shrinkage
_LINEAR_COLUMNS = 300  # with more columns there is no linear part, because the fit would be slow


class FourierRatio(RatioModel, kind="fourier"):
    """Log-ratio linear in cosines of random directions, by logistic regression of P against U.

    The cosines approximate Gaussian kernels whose widths are spread around the median
    distance between rows, so that no width has to be chosen. Above 40,000 unlabeled rows
    up to eight samples of 20,000 rows are fitted, and their coefficients are averaged.
    Random numbers and coefficients are kept, but no rows.

    Parameters
    ----------
    n_features : int, default=1000
        Number of cosines.
    C : float, default=0.1
        Inverse strength of the shrinkage.
    linear : bool, default=False
        Whether the columns themselves are features, too. They are used if there are at most 300. With
        few rows, their coefficients can increase the error.
    random_state : int, RandomState or None, default=None
        Seed of the directions.
    """

    accepts_sparse: ClassVar[bool] = False
    fits_in_threads: ClassVar[bool] = True

    schema = Schema(
        "FourierRatio",
        config={"n_features": Integer(1), "C": Number(above=0), "intercept": Number()},
        arrays={
            "shift": Array("d"),
            "scale": Array("d", above=0),
            "frequencies": Array("dm"),
            "phase": Array("m"),
            "coefficients": Array("m"),
            "linear": Array("d", optional=True),
        },
    )

    def __init__(
        self, n_features: int = 1000, *, C: float = 0.1, linear: bool = False, random_state: Any = None
    ) -> None:
        self.n_features = n_features
        self.C = C
        self.linear = linear
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        size = check_integer("n_features", self.n_features, low=1)
        check_real("C", self.C, low=1e-12)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        unlabeled = pair.unlabeled.at_most(_MOST_ROWS, rng)
        self.far_, self.length_ = _FAR, _LENGTH
        self.scaling_ = Scaling.of(unlabeled.rows, unlabeled.weight)
        width = median_distance(unlabeled.rows, self.scaling_, rng) * np.exp(
            rng.uniform(np.log(_NARROW), np.log(_WIDE), size)
        )
        self.frequencies_ = rounded_factor(rng.standard_normal((unlabeled.rows.shape[1], size)) / width)
        self.phase_ = rng.uniform(0, 2 * np.pi, size)

        fits = [self._fit_part(SamplePair(pair.positive.at_most(_MOST_ROWS, rng), unlabeled))]
        while len(fits) < min(_MOST_FITS, len(pair.unlabeled) // _MOST_ROWS):
            samples = (pair.positive, pair.unlabeled)
            fits.append(self._fit_part(SamplePair(*(part.at_most(_MOST_ROWS, rng) for part in samples))))
        mean = np.mean([coefficients for coefficients, _ in fits], axis=0)
        self.coefficients_: FloatArray = mean[:size]
        self.linear_ = mean[size:] * _column_factor(self.n_features_in_) if len(mean) > size else None
        self.intercept_ = float(np.mean([intercept for _, intercept in fits]))

    def _fit_part(self, pair: SamplePair) -> tuple[FloatArray, float]:
        """Coefficients and the intercept of the log-ratio."""
        fit = LogisticRegression(C=self.C, max_iter=200, tol=1e-3).fit(
            self._features(pair.stacked()), pair.flags(), sample_weight=pair.weights()
        )
        return fit.coef_[0], float(fit.intercept_[0]) - pair.log_odds()

    def _log_ratio(self, X: Rows) -> FloatArray:
        weights = self.coefficients_ * self._amplitude()
        scores = np.empty(n_rows(X))
        # One pair of buffers for all chunks: new memory would cost more than the cosines.
        room = np.empty((min(_CHUNK, len(scores)), len(self.phase_)))
        narrow = np.empty_like(room, dtype=np.float32)
        for start in range(0, len(scores), _CHUNK):
            at = slice(start, start + _CHUNK)
            rows = X[at]
            waves, angles = room[: len(rows)], narrow[: len(rows)]
            # Cosines are many times faster in float32, which changes the sum by about 1e-6. einsum sums
            # a row in the same order in every batch, which a matrix product does not guarantee.
            Z = self._standardised(rows)
            angles[:] = self._angles(Z, out=waves)
            waves[:] = np.cos(angles, out=angles)
            scores[at] = np.einsum("ij,j->i", waves, weights)
            if self.linear_ is not None:
                scores[at] += np.einsum("ij,j->i", Z, self.linear_)
        return scores + self.intercept_

    def _features(self, X: Rows) -> FloatArray:
        """Features for the fit, computed in chunks; in float32 for many rows, to halve the memory."""
        dtype = np.float64 if n_rows(X) <= _EXACT_ROWS else np.float32
        size, columns = len(self.phase_), self.n_features_in_
        columns = columns if self.linear and columns <= _LINEAR_COLUMNS else 0
        features = np.empty((n_rows(X), size + columns), dtype=dtype)
        for start in range(0, len(features), _CHUNK):
            at = slice(start, start + _CHUNK)
            Z = self._standardised(X[at])
            features[at, :size] = self._amplitude() * np.cos(self._angles(Z))
            if columns:
                features[at, size:] = _column_factor(columns) * Z
        return features

    def _standardised(self, X: Rows) -> FloatArray:
        """Standardised columns, clipped, and rounded so that the product in the angles is exact."""
        Z = np.subtract(X, self.scaling_.shift, order="C")  # einsum adds up rows of another order differently
        Z /= self.scaling_.scale
        Z = np.minimum(np.maximum(Z, -self.far_, out=Z), self.far_, out=Z)
        step = self.step_
        Z /= step
        Z = np.rint(Z, out=Z)
        Z *= step  # now the product is exact in any order of summation
        return np.asarray(Z)

    def _angles(self, Z: FloatArray, out: FloatArray | None = None) -> FloatArray:
        angles = np.matmul(Z, self.frequencies_, out=out)
        angles += self.phase_
        return np.asarray(angles)

    @property
    def step_(self) -> float:
        """Standardised values are rounded to multiples of this step."""
        return row_step(self.n_features_in_, self.far_)

    def _amplitude(self) -> float:
        return float(np.sqrt(2 * self.length_ / len(self.phase_)))

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        from drpu.functions.onnx import fourier_scores

        return fourier_scores(graph, self, X)

    def state(self) -> ModelState:
        """Directions and coefficients, and the two constants that scores depend on."""
        config = {
            "n_features": self.n_features,
            "C": self.C,
            "intercept": self.intercept_,
            "far": self.far_,
            "length": self.length_,
        }
        arrays = {
            "shift": self.scaling_.shift,
            "scale": self.scaling_.scale,
            "frequencies": self.frequencies_,
            "phase": self.phase_,
            "coefficients": self.coefficients_,
        }
        if self.linear_ is not None:
            arrays["linear"] = self.linear_
        return ModelState(self.kind, config, arrays)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state; older states have no linear part, and constants of 3 and 30."""
        config, arrays = state.config, state.arrays
        model = cls(int(config["n_features"]), C=float(config["C"]))
        model.scaling_ = Scaling(arrays["shift"], arrays["scale"])
        model.far_, model.length_ = float(config.get("far", 3.0)), float(config.get("length", 30.0))
        model.frequencies_, model.phase_ = rounded_factor(arrays["frequencies"]), arrays["phase"]
        model.coefficients_, model.intercept_ = arrays["coefficients"], float(config["intercept"])
        model.linear_ = arrays.get("linear")
        model.linear = model.linear_ is not None
        model.n_features_in_ = len(model.frequencies_)
        return model


def _column_factor(columns: int) -> float:
    """Factor of the columns among the features: a row of columns is as long as a row of cosines."""
    return float(np.sqrt(_LENGTH / columns))
