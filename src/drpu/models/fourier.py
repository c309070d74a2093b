"""Smooth density ratios: a logistic fit on random waves."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair, n_rows
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.models._basis import median_distance
from drpu.models._scaling import Scaling
from drpu.models.base import RatioModel

__all__ = ["FourierRatio"]

_MOST_ROWS = 20_000  # unlabeled rows beyond which a smooth fit of a few hundred numbers gains nothing
_CHUNK = 256  # rows scored at a time: their waves stay in the processor's cache
_NARROW, _WIDE = 0.4, 1.5  # widths, in median distances between rows
_FAR = 3.0  # standard deviations at which a column stops counting: waves have no use for outliers
_SIZE = 30.0  # squared length of a row of features: with C it sets the shrinkage


class FourierRatio(RatioModel, kind="fourier"):
    """Log-ratio linear in cosines of random directions, by logistic regression of P against U.

    The cosines stand for Gaussian kernels whose widths are spread around the median
    distance between rows, so that there is no width to choose. Only random numbers
    and coefficients are kept, never rows.

    Parameters
    ----------
    n_features : int, default=1000
        Number of cosines.
    C : float, default=0.1
        Inverse strength of the shrinkage.
    random_state : int, RandomState or None, default=None
        Seed of the directions.
    """

    accepts_sparse: ClassVar[bool] = False

    def __init__(self, n_features: int = 1000, *, C: float = 0.1, random_state: Any = None) -> None:
        self.n_features = n_features
        self.C = C
        self.random_state = random_state

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        size = check_integer("n_features", self.n_features, low=1)
        check_real("C", self.C, low=1e-12)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        pair = SamplePair(pair.positive, pair.unlabeled.at_most(_MOST_ROWS, rng))
        unlabeled = pair.unlabeled
        self.scaling_ = Scaling.of(unlabeled.rows, unlabeled.weight)
        width = median_distance(unlabeled.rows, self.scaling_, rng) * np.exp(
            rng.uniform(np.log(_NARROW), np.log(_WIDE), size)
        )
        self.frequencies_ = rng.standard_normal((unlabeled.rows.shape[1], size)) / width
        self.phase_ = rng.uniform(0, 2 * np.pi, size)

        fit = LogisticRegression(C=self.C, max_iter=200, tol=1e-3).fit(
            self._features(pair.stacked()), pair.flags(), sample_weight=pair.weights()
        )
        self.coefficients_: FloatArray = fit.coef_[0]
        self.intercept_ = float(fit.intercept_[0]) - pair.log_odds()

    def _log_ratio(self, X: Rows) -> FloatArray:
        weights = self.coefficients_ * self._size()
        scores = np.empty(n_rows(X))
        for start in range(0, len(scores), _CHUNK):
            at = slice(start, start + _CHUNK)
            # Cosines are many times faster in float32, and their sum in float64 is off by a millionth or
            # so. einsum adds up a row alike in any batch, which a matrix product need not.
            waves = self._waves(X[at]).astype(np.float32)
            scores[at] = np.einsum("ij,j->i", np.cos(waves, out=waves).astype(np.float64), weights)
        return scores + self.intercept_

    def _features(self, X: Rows) -> FloatArray:
        return np.asarray(self._size() * np.cos(self._waves(X)))

    def _waves(self, X: Rows) -> FloatArray:
        Z = np.clip((X - self.scaling_.shift) / self.scaling_.scale, -_FAR, _FAR)
        return np.asarray(Z @ self.frequencies_ + self.phase_)

    def _size(self) -> float:
        return float(np.sqrt(2 * _SIZE / len(self.phase_)))

    def onnx_scores(self, graph: Any, X: str) -> str:  # noqa: D102
        from drpu.models._onnx.scores import fourier_scores

        return fourier_scores(graph, self, X, _FAR)

    def state(self) -> ModelState:  # noqa: D102
        config = {"n_features": self.n_features, "C": self.C, "intercept": self.intercept_}
        arrays = {
            "shift": self.scaling_.shift,
            "scale": self.scaling_.scale,
            "frequencies": self.frequencies_,
            "phase": self.phase_,
            "coefficients": self.coefficients_,
        }
        return ModelState(self.kind, config, arrays)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        config, arrays = state.config, state.arrays
        model = cls(int(config["n_features"]), C=float(config["C"]))
        model.scaling_ = Scaling(arrays["shift"], arrays["scale"])
        model.frequencies_, model.phase_ = arrays["frequencies"], arrays["phase"]
        model.coefficients_, model.intercept_ = arrays["coefficients"], float(config["intercept"])
        model.n_features_in_ = len(model.frequencies_)
        return model
