"""From scores to density ratios, and from ratios to probabilities.

Scores are calibrated by monotone least squares and a smooth plateau. A ratio gives a probability at
every prior.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import scipy

from drpu import priors
from drpu._arrays import FloatArray
from drpu._checks import check_fraction, check_numbers, check_prior, check_scores
from drpu._codec import Array, Number, kept
from drpu._process import default_errors
from drpu.exceptions import DataError
from drpu.priors.tails import ScoreTails

if TYPE_CHECKING:
    from drpu.priors.estimate import PriorEstimate

_HUGE = 1e100  # larger scores and ratios are treated as infinite
# used in place of an infinite ratio, so that 0 times it is not NaN
_LARGEST = float(np.finfo(np.float64).max)


def monotone_cells(tails: ScoreTails) -> FloatArray:
    """Ratio in each cell: the least-squares fit among increasing functions of the score.

    The minimiser of the LSIF risk over monotone functions pools adjacent cells until
    positive mass over unlabeled mass increases. Ties share a cell and so are pooled
    first. A cell at the top that no unlabeled row reaches has ratio infinity.
    """
    positive = tails.positive_counts / tails.positive_counts.sum()
    weight = np.maximum(tails.counts / tails.counts.sum(), 1e-300)
    with np.errstate(over="ignore"):
        fit = scipy.optimize.isotonic_regression(positive / weight, weights=weight).x
    fit[fit > _HUGE] = np.inf
    return np.asarray(fit, dtype=np.float64)


@kept("calibration")
@dataclass(frozen=True)
class Calibration:
    """An increasing map from scores to ratios: the mean of a step function and a smooth curve.

    The step function is isotonic regression, and the curve interpolates between its levels. Both
    are at most 1/prior. With a labelled share above 0 the ratios refer to the population from
    which the labelled rows were drawn.
    """

    levels: Annotated[FloatArray, Array("k", low=-np.inf, high=np.inf)]
    steps: Annotated[FloatArray, Array("c", low=0)]  # one value per cell
    curve: Annotated[FloatArray, Array("c", low=0)]  # one value per cell, interpolated linearly
    ceiling: Annotated[float, Number(1, 1e100)]
    labelled_share: Annotated[float, Number(0, 1)] = 0.0
    _knots: FloatArray = field(init=False, repr=False, compare=False)  # of the curve, found once
    _at_knots: FloatArray = field(init=False, repr=False, compare=False)
    _population_steps: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, values in (("steps", self.steps), ("curve", self.curve)):
            if len(values) != len(self.levels) + 1 or (values[1:] < values[:-1]).any():
                raise DataError(
                    f"the {name} of a calibration must be one more than its levels, "
                    "and must not decrease."
                )
        if (self.levels[1:] <= self.levels[:-1]).any() or self.labelled_share >= 1:
            raise DataError(
                "the levels of a calibration must ascend, and its labelled share be below 1."
            )
        object.__setattr__(self, "_knots", np.clip(self.levels, -_HUGE, _HUGE))
        object.__setattr__(self, "_at_knots", (self.curve[:-1] + self.curve[1:]) / 2)
        object.__setattr__(self, "_population_steps", self._in_population(self.steps))

    def __call__(self, scores: Any) -> FloatArray:
        """Ratio at each score."""
        return self.ratios(check_scores("scores", scores, allow_empty=True))

    def ratios(self, scores: FloatArray) -> FloatArray:
        """Ratio at each score of a checked array."""
        steps = self._population_steps[self.levels.searchsorted(scores, side="right")]
        lowest, highest = self.curve[0], self.curve[-1]
        curve = np.interp(scores, self._knots, self._at_knots, left=lowest, right=highest)
        return np.asarray((steps + self._in_population(curve)) / 2)

    def cell_ratios(self) -> FloatArray:
        """Ratio in each cell: the mean of the step and of the curve there."""
        return np.asarray((self._population_steps + self._in_population(self.curve)) / 2)

    def _in_population(self, ratio: FloatArray) -> FloatArray:
        return population_ratio(np.minimum(ratio, self.ceiling), self.labelled_share)


def calibrate(tails: ScoreTails, prior: float, *, labelled_share: float = 0.0) -> Calibration:
    """Calibration of the scores in ``tails``, with ratios of at most 1 / ``prior``.

    Parameters
    ----------
    tails : ScoreTails
        Held-out positives and unlabeled rows.
    prior : float
        Share of positives among those unlabeled rows.
    labelled_share : float, default=0.0
        Share of the population that was labelled and is not among the unlabeled rows.
    """
    ceiling = 1 / max(check_prior("prior", prior), 1e-12)
    steps = np.minimum(monotone_cells(tails), ceiling)
    plateau = priors.fit_plateau(tails)
    curve = np.minimum(plateau(priors.normal_scores(tails)), ceiling)
    return Calibration(tails.levels, steps, curve, ceiling, labelled_share)


def population_ratio(ratio: FloatArray, labelled_share: float) -> FloatArray:
    """p+/p of a population from p+/p of its unlabeled part.

    If the labelled rows are part of the population, its density is
    ``labelled_share * p+ + (1 - labelled_share) * p_unlabeled``.
    """
    return ratio / (labelled_share * ratio + 1 - labelled_share)


# -- from ratios to probabilities -------------------------------------------------------------


@default_errors
def ratio_threshold(
    train_prior: float | PriorEstimate, test_prior: float | PriorEstimate, *, cost: float = 0.5
) -> float:
    r"""Density-ratio threshold above which a row is flagged.

    Parameters
    ----------
    train_prior : float or PriorEstimate
        Positive class prior of the training population, in [0, 1].
    test_prior : float or PriorEstimate
        Positive class prior of the data to classify, in [0, 1].
    cost : float, default=0.5
        False-positive cost in (0, 1), the posterior above which a row is
        flagged. For a false positive ``k`` times as bad as a false
        negative, use ``k / (1 + k)``.

    Returns
    -------
    threshold : float
        Flag ``x`` if ``ratio(x) > threshold``. Infinite if there is only one class at
        test time.

    See Also
    --------
    shift_posterior : The same shift for probabilities.

    Notes
    -----
    With training prior :math:`\pi`, test prior :math:`\pi'` and cost :math:`c`,

    .. math:: \theta = \frac{c (1-\pi')}{(1-c)(1-\pi)\pi' + c \pi (1-\pi')}.

    Examples
    --------
    >>> ratio_threshold(0.5, 0.5)
    1.0
    >>> ratio_threshold(0.5, 0.25)  # rarer positives: a higher threshold
    1.5
    """
    pi = prior_value("train_prior", train_prior)
    pi_test = prior_value("test_prior", test_prior)
    c = check_fraction("cost", cost)

    if pi_test == 0.0:  # only one class: the ratio does not matter
        return np.inf
    if pi_test == 1.0:
        return -np.inf
    if pi == 1.0:  # no ratio exceeds 1, and a row at 1 has the test prior as its posterior
        return float(np.nextafter(1.0, 0.0)) if pi_test > c else 1.0
    against = c * (1 - pi_test)
    level = (1 - c) * pi_test * (1 - pi) + against * pi
    if level == 0:  # products of very small floats underflow: use the limit
        return np.inf
    return against / level


@default_errors
def shift_posterior(
    posterior: npt.ArrayLike, train_prior: float | PriorEstimate, test_prior: float | PriorEstimate
) -> FloatArray:
    r"""Probability of the positive class after a change of the prior.

    Parameters
    ----------
    posterior : array-like
        Probabilities of the positive class under the training prior; clipped
        to [0, 1].
    train_prior, test_prior : float or PriorEstimate
        Positive class priors before and after the shift, in [0, 1].

    Returns
    -------
    shifted : ndarray
        Probabilities under the test prior, of the same shape.

    See Also
    --------
    ratio_threshold : The same shift for density ratios.

    Examples
    --------
    >>> shift_posterior([0.0, 0.5, 1.0], 0.5, 0.2)
    array([0. , 0.2, 1. ])
    """
    pi = prior_value("train_prior", train_prior)
    pi_test = prior_value("test_prior", test_prior)
    eta = np.clip(_numbers("posterior", posterior), 0, 1)

    positive = pi_test * (1 - pi) * eta
    negative = (1 - pi_test) * pi * (1 - eta)
    return _posterior(positive, negative, pi_test)


def ratio_posterior(ratio: npt.ArrayLike, train_prior: float, test_prior: float) -> FloatArray:
    """Probability of the positive class under the test prior, from density ratios.

    Equal to ``shift_posterior(train_prior * ratio, train_prior, test_prior)``, and
    also defined if the training population has no positives.
    """
    pi = check_prior("train_prior", train_prior)
    pi_test = check_prior("test_prior", test_prior)
    most = min(1 / pi, _LARGEST) if pi > 0 else _LARGEST
    r = np.minimum(np.maximum(_numbers("ratio", ratio), 0), most)  # faster than clip for a row

    positive = pi_test * (1 - pi) * r
    negative = (1 - pi_test) * np.maximum(1 - pi * r, 0)
    return _posterior(positive, negative, pi_test)


def prior_value(name: str, prior: float | PriorEstimate) -> float:
    """A prior as a checked number; of an estimate this is its value."""
    return check_prior(name, getattr(prior, "value", prior))


def _numbers(name: str, values: npt.ArrayLike) -> FloatArray:
    numbers = check_numbers(name, values)
    if np.isnan(numbers).any():
        raise DataError(f"{name} must not hold NaN: no decision follows from it.")
    return numbers


def _posterior(positive: FloatArray, negative: FloatArray, test_prior: float) -> FloatArray:
    """Posterior from two masses; the prior itself if both are zero."""
    if test_prior in (0.0, 1.0):
        return np.full(np.shape(positive), test_prior)
    total = positive + negative
    possible = total > 0
    return np.where(possible, positive / np.where(possible, total, 1.0), test_prior)
