"""Data sets: Gaussian classes, and PU samples made from labelled data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows, as_numpy
from drpu._checks import (
    SCENARIOS,
    check_choice,
    check_integer,
    check_prior,
    check_readable,
    check_real,
    refuse_frame,
)
from drpu._process import default_errors
from drpu.exceptions import DataError, DataTypeError, LabelError, ParameterError
from drpu.priors.calibration import ratio_posterior
from drpu.tables.frames import is_frame, take_frame, warn_of_order
from drpu.tables.values import is_missing


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


@default_errors
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


@dataclass(frozen=True, slots=True, eq=False)
class PUSample:
    """Rows with PU labels and true labels; unpacks as ``X, y, y_true``.

    Attributes
    ----------
    X : rows
        The rows, of the same type as the input, in random order.
    y : ndarray of shape (n,)
        PU labels: 1 labelled positive, 0 unlabeled.
    y_true : ndarray of shape (n,)
        True labels, 1 positive and 0 negative.
    index : ndarray of shape (n,)
        Position of each row in the input.
    scenario : str
        How the labelled positives were drawn: "single-sample" or "case-control".
    """

    X: Rows
    y: IntArray
    y_true: IntArray
    index: IntArray
    scenario: str

    @property
    def prior(self) -> float:
        """Prior of the population sample.

        It consists of all rows (single-sample), or of the unlabeled ones (case-control).
        """
        if self.scenario == "single-sample":
            return float(self.y_true.mean())
        return float(self.y_true[self.y == 0].mean())

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y, self.y_true))

    def __repr__(self) -> str:
        return (
            f"PUSample(labelled={self.y.sum()}, unlabeled={(self.y == 0).sum()}, "
            f"prior={self.prior:.3g}, scenario={self.scenario!r})"
        )


@default_errors
def make_pu(
    X: Rows,
    y: Any,
    *,
    prior: float | None = None,
    labelled: float = 0.3,
    scenario: str = "single-sample",
    n: int | None = None,
    pos_label: Any = None,
    random_state: Any = None,
) -> PUSample:
    """PU data from a labelled data set, together with the true labels.

    No row is drawn twice.

    Parameters
    ----------
    X : rows of shape (n_rows, ...)
        NumPy, pandas, polars, scipy sparse or torch rows, or a list.
    y : array-like of shape (n_rows,)
        True labels.
    prior : float, optional
        Class prior of the population sample, in [0, 1]; the default is that of ``y``.
    labelled : float or int, default=0.3
        Labelled positives: a fraction in (0, 1] or a number of rows. A fraction refers to
        the positives of the sample (single-sample) or of all of ``y`` (case-control).
    scenario : {"single-sample", "case-control"}, default="single-sample"
        Whether the labelled rows are part of the population sample, or are drawn
        separately.
    n : int, optional
        Size of the population sample; the default is the largest possible size.
    pos_label : label or list of labels, optional
        The positive class or classes; the default is the larger of two labels.
    random_state : int, Generator, RandomState or None, default=None
        Random number generator, or its seed.

    Returns
    -------
    sample : PUSample
        Unpacks as ``X, y, y_true``.

    See Also
    --------
    draw_at_prior : A test sample at another prior.

    Examples
    --------
    >>> import numpy as np
    >>> X, digit = np.arange(1000)[:, None], np.arange(1000) % 10
    >>> make_pu(X, digit, pos_label=[0, 2, 4, 6, 8], prior=0.5, n=400, random_state=0)
    PUSample(labelled=60, unlabeled=340, prior=0.5, scenario='single-sample')
    >>> X_pu, y_pu, y_true = make_pu(X, digit >= 5, labelled=100, scenario="case-control")
    >>> int(y_pu.sum()), X_pu.shape
    (100, (900, 1))
    """
    positive = _positives(X, y, pos_label)
    check_choice("scenario", scenario, SCENARIOS)
    pi = float(positive.mean()) if prior is None else check_prior("prior", prior)
    if n is not None:
        n = check_integer("n", n, low=1)
    rng = as_generator(random_state)

    index = rng.permutation(len(positive))
    positives = index[positive[index]]
    negatives = index[~positive[index]]
    if scenario == "case-control":
        n_labelled = _label_count(labelled, len(positives))
        labelled_rows = positives[:n_labelled]
        population = _at_prior(positives[n_labelled:], negatives, pi, n)
        sample = np.concatenate([labelled_rows, population])
    else:
        sample = index  # without prior and n, the whole data set
        if prior is not None or n is not None:
            sample = _at_prior(positives, negatives, pi, n)
        labelled_rows = sample[positive[sample]]
        labelled_rows = labelled_rows[: _label_count(labelled, len(labelled_rows))]
    sample = rng.permutation(sample)
    return PUSample(
        _rows_at(X, sample),
        np.isin(sample, labelled_rows).astype(np.int64),
        positive[sample].astype(np.int64),
        sample,
        scenario,
    )


def draw_at_prior(
    X: Rows,
    y: Any,
    prior: float,
    n: int | None = None,
    *,
    pos_label: Any = None,
    random_state: Any = None,
) -> tuple[Rows, IntArray]:
    """Rows with a chosen prior, and their true labels.

    Parameters
    ----------
    X, y, pos_label, random_state
        As in :func:`make_pu`.
    prior : float
        Class prior of the drawn rows, in [0, 1].
    n : int, optional
        Number of rows. A class with too few rows is drawn with replacement, the other one
        without. The default is the largest number that needs no replacement.

    Returns
    -------
    X, y_true : rows and ndarray of shape (n,)
        Drawn rows in random order, with labels 1 and 0.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = np.arange(100)[:, None], np.arange(100) < 30
    >>> X_test, y_test = draw_at_prior(X, y, 0.2, 50, random_state=0)
    >>> X_test.shape, float(y_test.mean())
    ((50, 1), 0.2)
    """
    positive = _positives(X, y, pos_label)
    pi = check_prior("prior", prior)
    if n is not None:
        n = check_integer("n", n, low=1)
    rng = as_generator(random_state)

    positives = rng.permutation(np.flatnonzero(positive))
    negatives = rng.permutation(np.flatnonzero(~positive))
    if n is None:
        sample = _at_prior(positives, negatives, pi, None)
    else:
        n_positives, n_negatives = _class_counts(n, pi)
        drawn_positives = _draw(positives, n_positives, rng)
        drawn_negatives = _draw(negatives, n_negatives, rng)
        sample = np.concatenate([drawn_positives, drawn_negatives])
    sample = rng.permutation(sample)
    return _rows_at(X, sample), positive[sample].astype(np.int64)


def _rows_at(X: Any, positions: IntArray) -> Any:
    """The rows at the positions; scikit-learn before 1.7 takes none from an Arrow table."""
    if is_frame(X):
        return take_frame(X, positions)
    return _safe_indexing(X, positions)


def _draw(shuffled: IntArray, n: int, rng: np.random.Generator) -> IntArray:
    """The first ``n`` positions of a shuffled class, or ``n`` with replacement if it has fewer."""
    if n <= len(shuffled):
        return shuffled[:n]
    if len(shuffled) == 0:
        raise DataError(f"prior requires {n} rows of a class that y does not contain.")
    return rng.choice(shuffled, n)


def as_generator(random_state: Any) -> np.random.Generator:
    """``random_state`` as a Generator."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**32, dtype=np.uint64))
    if random_state is None:
        return np.random.default_rng()
    is_integer = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if is_integer and int(random_state) >= 0:
        return np.random.default_rng(int(random_state))
    raise ParameterError(
        "random_state must be an integer of at least 0, a Generator, a RandomState or None, "
        f"got {random_state!r}."
    )


def _positives(X: Rows, y: Any, pos_label: Any) -> BoolArray:
    """Mask of the positive rows of labelled data."""
    refuse_frame(X)
    check_readable("y", y)
    warn_of_order(X, y=y)
    try:
        rows = _num_samples(X)
    except TypeError as error:
        raise DataTypeError(f"X must hold rows: {error}") from error
    labels = np.asarray(as_numpy(y))
    if labels.shape != (rows,):
        raise DataError(f"y must hold one label per row, shape ({rows},), got {labels.shape}.")
    if rows == 0:
        raise DataError("X must hold at least one row, got none.")
    values = labels.tolist()
    if any(value is not None and is_missing(value) for value in values):
        raise LabelError("y must not hold NaN: all true labels are needed to make PU data.")
    positive_labels = _positive_labels(set(values), pos_label)
    return np.array([label in positive_labels for label in values], dtype=bool)


def _positive_labels(values: set[Any], pos_label: Any) -> set[Any]:
    """The labels that count as positive."""
    if pos_label is None:
        if len(values) != 2:
            raise LabelError(
                f"y must hold two labels, got {len(values)}: pass the positive ones as pos_label."
            )
        try:
            return {max(values)}
        except TypeError as error:
            raise LabelError(
                f"the labels of y cannot be sorted, so pass pos_label: {error}"
            ) from error
    if isinstance(pos_label, (set, frozenset, range)):
        pos_label = list(pos_label)
    positive_labels = set(np.atleast_1d(np.asarray(pos_label)).tolist())
    if not positive_labels or not positive_labels <= values:
        raise LabelError(f"pos_label must be among the labels of y, got {pos_label!r}.")
    return positive_labels


def _label_count(labelled: float, available: int) -> int:
    """Number of positives to label, out of those available."""
    if isinstance(labelled, Integral) and not isinstance(labelled, bool):
        count = check_integer("labelled", labelled, low=1)
    elif isinstance(labelled, float) and 0 < labelled <= 1:
        count = max(1, round(labelled * available))
    else:
        raise ParameterError(
            f"labelled must be a fraction in (0, 1] or a number of rows, got {labelled!r}."
        )
    if count > available:
        raise DataError(
            f"labelled asks for {count} positives, but there are only {available} to label."
        )
    return count


def _class_counts(n: int, prior: float) -> tuple[int, int]:
    """Numbers of positives and of negatives in a sample of ``n`` rows."""
    n_positives = round(prior * n)
    return n_positives, n - n_positives


def _largest_size(n_positives: int, n_negatives: int, prior: float) -> int:
    """Size of the largest sample with this prior that repeats none of so many rows."""
    limits = []
    if prior > 0:
        limits.append(n_positives / prior)
    if prior < 1:
        limits.append(n_negatives / (1 - prior))
    size = round(min(limits))
    # Rounding the class counts may require one row more than there are.
    while size > 0:
        wanted_positives, wanted_negatives = _class_counts(size, prior)
        if wanted_positives <= n_positives and wanted_negatives <= n_negatives:
            break
        size -= 1
    return size


def _at_prior(positives: IntArray, negatives: IntArray, prior: float, n: int | None) -> IntArray:
    """Positions of a sample with this prior from shuffled positives and negatives."""
    largest = _largest_size(len(positives), len(negatives), prior)
    size = largest if n is None else n
    n_positives, n_negatives = _class_counts(size, prior)
    if size == 0 or n_positives > len(positives) or n_negatives > len(negatives):
        raise DataError(
            f"a sample of {max(size, 1)} rows at prior {prior:g} needs {n_positives} positives and "
            f"{n_negatives} negatives, but there are {len(positives)} and {len(negatives)}: "
            f"at most {largest} rows can be drawn."
        )
    return np.concatenate([positives[:n_positives], negatives[:n_negatives]])
