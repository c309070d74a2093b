"""Gaussian classes whose true density ratio is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from drpu._checks import check_integer, check_prior, check_real
from drpu._typing import FloatArray, IntArray
from drpu.datasets.sampling import as_generator
from drpu.exceptions import DataError, ParameterError
from drpu.priors.calibration import ratio_posterior


@dataclass(frozen=True, slots=True)
class GaussianClasses:
    """Two classes that are mixtures of the same two Gaussians, in different proportions.

    The Gaussians have unit variance. Their means are symmetric about the origin, on the
    diagonal, at the distance ``separation``. A fraction ``overlap`` of each class comes from
    the Gaussian of the other one. If it is above 0, the classes overlap everywhere and the
    mixture proportion exceeds the prior.

    Attributes
    ----------
    separation : float
        Distance between the two means.
    dimensions : int
        Number of features.
    overlap : float
        Fraction of each class that comes from the other Gaussian, in [0, 0.5).
    """

    separation: float = 2.0
    dimensions: int = 1
    overlap: float = 0.0

    def __post_init__(self) -> None:
        check_real("separation", self.separation, low=0.0)
        check_integer("dimensions", self.dimensions, low=1)
        if not 0 <= check_real("overlap", self.overlap) < 0.5:
            raise ParameterError(
                f"overlap must lie in [0, 0.5), got {self.overlap!r}: "
                "from 0.5 on the two classes are exchanged."
            )

    def draw(self, labels: npt.ArrayLike, rng: np.random.Generator) -> FloatArray:
        """One row per label; 1 is positive and 0 is negative."""
        positive = np.asarray(labels, dtype=bool)
        from_upper = positive ^ (rng.random(len(positive)) < self.overlap)
        noise = rng.standard_normal((len(positive), self.dimensions))
        return noise + np.where(from_upper, 1.0, -1.0)[:, None] * self._mean

    def ratio(self, X: npt.ArrayLike, prior: float) -> FloatArray:
        """True density ratio p(x | positive) / p(x) of a population with this prior."""
        pi = check_prior("prior", prior)
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim == 1 and self.dimensions == 1:
            rows = rows[:, None]
        if rows.ndim != 2 or rows.shape[1] != self.dimensions:
            raise DataError(f"X must have shape (n, {self.dimensions}), got {rows.shape}.")
        # densities up to a common factor, which avoids overflow
        log_odds = 2 * rows @ self._mean
        upper = np.exp(np.minimum(log_odds, 0))
        lower = np.exp(np.minimum(-log_odds, 0))
        o = self.overlap
        positive = (1 - o) * upper + o * lower
        negative = o * upper + (1 - o) * lower
        mixture: FloatArray = pi * positive + (1 - pi) * negative
        return positive / mixture

    def posterior(self, X: npt.ArrayLike, prior: float) -> FloatArray:
        """True probability of the positive class in a population with this prior."""
        return ratio_posterior(self.ratio(X, 0.5), 0.5, prior)

    def largest_prior(self, prior: float) -> float:
        """Largest mixture proportion of a population with this prior.

        This is what positive and unlabeled rows identify. It equals the prior if
        ``overlap`` is 0 and exceeds it otherwise.
        """
        pi = check_prior("prior", prior)
        return pi + (1 - pi) * self.overlap / (1 - self.overlap)

    @property
    def _mean(self) -> FloatArray:
        return np.full(self.dimensions, self.separation / 2 / np.sqrt(self.dimensions))


@dataclass(frozen=True, slots=True, eq=False)
class PUData:
    """A positive and an unlabeled sample with their true labels and distributions.

    Attributes
    ----------
    positive, unlabeled : ndarray of shape (n, d)
        The two samples; no row is in both.
    unlabeled_labels : ndarray of shape (n_unlabeled,)
        True labels of the unlabeled rows, 1 or 0.
    test, test_labels : ndarray or None
        Rows drawn at ``test_prior`` and their true labels; None without a test prior.
    train_prior : float
        Class prior of the unlabeled rows.
    test_prior : float or None
        Class prior of the test rows.
    classes : GaussianClasses
        The distributions of the two classes.
    """

    positive: FloatArray
    unlabeled: FloatArray
    unlabeled_labels: IntArray
    test: FloatArray | None
    test_labels: IntArray | None
    train_prior: float
    test_prior: float | None
    classes: GaussianClasses

    # The arguments of fit are called X and y.
    def X_y(self) -> tuple[FloatArray, IntArray]:  # noqa: N802
        """All training rows and their labels for ``fit``: 1 positive, 0 unlabeled."""
        y = np.repeat(np.array([1, 0], dtype=np.int64), [len(self.positive), len(self.unlabeled)])
        return np.concatenate([self.positive, self.unlabeled]), y

    def ratio(self, X: npt.ArrayLike) -> FloatArray:
        """True density ratio at the training prior, one value per row."""
        return self.classes.ratio(X, self.train_prior)

    def __repr__(self) -> str:
        test = "none"
        if self.test is not None:
            test = f"{len(self.test)} at {self.test_prior:g}"
        return (
            f"PUData(positive={len(self.positive)}, "
            f"unlabeled={len(self.unlabeled)} at {self.train_prior:g}, test={test})"
        )


# Prior, test prior and overlap: by default, and in the two synthetic experiments of the DRPU paper.
_SETTINGS: dict[int | None, tuple[float, float | None, float]] = {
    None: (0.4, None, 0.0),
    1: (0.4, 0.6, 0.0),
    2: (0.6, 0.4, 0.2),
}


def make_gaussian_pu(
    n_positive: int = 300,
    n_unlabeled: int = 1500,
    *,
    setting: int | None = None,
    prior: float | None = None,
    test_prior: float | None = None,
    n_test: int = 1000,
    separation: float = 2.0,
    overlap: float | None = None,
    dimensions: int = 1,
    random_state: Any = None,
) -> PUData:
    """Positive and unlabeled rows from Gaussian classes with a known density ratio.

    Parameters
    ----------
    n_positive, n_unlabeled : int, default=300, 1500
        Numbers of rows. The unlabeled rows are a sample of the population, independent of
        the positives.
    setting : {1, 2}, optional
        One of the two experiments of the DRPU paper: 1 has classes N(+1, 1) and
        N(-1, 1) with prior 0.4 and test prior 0.6; 2 has an overlap of 0.2, which
        violates irreducibility, with prior 0.6 and test prior 0.4. Other arguments
        override its values.
    prior : float, optional
        Class prior of the unlabeled rows, in [0, 1]; the default is that of the
        setting, or 0.4.
    test_prior : float, optional
        Class prior of the test rows, in [0, 1]. Without it there are no test rows.
    n_test : int, default=1000
        Number of test rows, if there is a test prior.
    separation : float, default=2.0
        Distance between the two means, for any number of dimensions.
    overlap : float, optional
        Fraction of each class that comes from the Gaussian of the other one, in [0, 0.5);
        the default is that of the setting, or 0.
    dimensions : int, default=1
        Number of features.
    random_state : int, Generator, RandomState or None, default=None
        Random number generator, or its seed.

    Returns
    -------
    data : PUData

    See Also
    --------
    make_pu : PU data from any labelled data set.

    Examples
    --------
    >>> data = make_gaussian_pu(setting=1, random_state=0)
    >>> data
    PUData(positive=300, unlabeled=1500 at 0.4, test=1000 at 0.6)
    >>> X, y = data.X_y()
    >>> X.shape, int(y.sum())
    ((1800, 1), 300)
    >>> data.ratio([0.0])  # here both classes have the same density
    array([1.])
    """
    n_positive = check_integer("n_positive", n_positive, low=1)
    n_unlabeled = check_integer("n_unlabeled", n_unlabeled, low=1)
    n_test = check_integer("n_test", n_test, low=1)
    if isinstance(setting, bool) or setting not in _SETTINGS:
        raise ParameterError(f"setting must be 1, 2 or None, got {setting!r}.")
    default_prior, default_test_prior, default_overlap = _SETTINGS[setting]
    if prior is None:
        prior = default_prior
    if test_prior is None:
        test_prior = default_test_prior
    if overlap is None:
        overlap = default_overlap
    prior = check_prior("prior", prior)
    if test_prior is not None:
        test_prior = check_prior("test_prior", test_prior)
    classes = GaussianClasses(separation, dimensions, overlap)

    rng = as_generator(random_state)
    positive = classes.draw(np.ones(n_positive), rng)
    unlabeled, unlabeled_labels = _draw_population(classes, n_unlabeled, prior, rng)
    test = None
    test_labels = None
    if test_prior is not None:
        test, test_labels = _draw_population(classes, n_test, test_prior, rng)
    return PUData(
        positive, unlabeled, unlabeled_labels, test, test_labels, prior, test_prior, classes
    )


def _draw_population(
    classes: GaussianClasses, n: int, prior: float, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    labels = (rng.random(n) < prior).astype(np.int64)
    return classes.draw(labels, rng), labels
