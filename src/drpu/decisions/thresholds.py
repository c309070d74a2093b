"""Costs as two amounts, and expected costs in the same unit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import numpy.typing as npt

from drpu._checks import check_fraction, check_numbers, check_prior, check_real
from drpu._codec import POSITIVE, As, Number, kept
from drpu._typing import FloatArray
from drpu.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from drpu.priors.estimate import PriorEstimate


def check_cost(name: str, cost: Any) -> float:
    """``cost`` as a number strictly between 0 and 1; two amounts stay two amounts."""
    if isinstance(cost, Costs):
        return cost
    number = check_real(name, cost)
    if 1 <= number < math.inf:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {cost!r}: if a false positive costs {number:g} "
            f"and a false negative 1, pass {number / (1 + number):.3g}, or Costs({number:g}, 1)."
        )
    return check_fraction(name, cost)


class Costs(float):
    """A false-positive cost that is stated as two amounts.

    It is a number, ``false_alarm / (false_alarm + miss)``, so it can be passed wherever
    drpu accepts a ``cost``. It also keeps the two amounts, from which ``expected_bill``
    computes an expected amount of money.

    Parameters
    ----------
    false_alarm : float
        Cost of calling a negative row positive, above 0.
    miss : float
        Cost of calling a positive row negative, above 0, in the same unit.

    Examples
    --------
    >>> costs = Costs(false_alarm=5, miss=200)
    >>> costs
    Costs(false_alarm=5, miss=200)
    >>> round(float(costs), 4)
    0.0244
    """

    false_alarm: float
    miss: float

    def __new__(cls, false_alarm: float, miss: float) -> Self:  # noqa: D102
        amounts = {"false_alarm": false_alarm, "miss": miss}
        numbers = {name: check_real(name, amount) for name, amount in amounts.items()}
        for name, number in numbers.items():
            if not 0 < number < math.inf:
                raise ParameterError(f"{name} must be a finite amount above 0, got {amounts[name]!r}.")
        share = numbers["false_alarm"] / (numbers["false_alarm"] + numbers["miss"])
        if not 0 < share < 1:
            raise ParameterError(
                f"false_alarm and miss must not differ that much, got {false_alarm!r} and {miss!r}: "
                "the smaller one is lost in rounding."
            )
        costs = super().__new__(cls, share)
        costs.false_alarm, costs.miss = false_alarm, miss
        return costs

    def for_file(self) -> Amounts:
        """What a file keeps of it."""
        return Amounts(self.false_alarm, self.miss)

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.false_alarm, self.miss

    def __repr__(self) -> str:
        return f"Costs(false_alarm={self.false_alarm:g}, miss={self.miss:g})"

    __str__ = __repr__


@kept("costs")
@dataclass(frozen=True)
class Amounts:
    """A cost as a file keeps it: two amounts."""

    false_alarm: int | Annotated[float, Number(low=POSITIVE)]
    miss: int | Annotated[float, Number(low=POSITIVE)]

    def costs(self) -> Costs:
        """The cost."""
        return Costs(self.false_alarm, self.miss)


KeptCosts = Annotated[Costs, As(Amounts, Amounts.costs)]

# used in place of an infinite ratio, so that 0 times it is not NaN
_LARGEST = float(np.finfo(np.float64).max)


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
    pi, pi_test = _value("train_prior", train_prior), _value("test_prior", test_prior)
    c = check_fraction("cost", cost)

    if pi_test in (0.0, 1.0):  # only one class: the ratio does not matter
        return np.inf if pi_test == 0.0 else -np.inf
    if pi == 1.0:  # no ratio exceeds 1, and a row at 1 has the test prior as its posterior
        return float(np.nextafter(1.0, 0.0)) if pi_test > c else 1.0
    against = c * (1 - pi_test)
    level = (1 - c) * pi_test * (1 - pi) + against * pi
    if level == 0:  # products of very small floats underflow: use the limit
        return np.inf
    return against / level


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
    pi, pi_test = _value("train_prior", train_prior), _value("test_prior", test_prior)
    eta = np.clip(_numbers("posterior", posterior), 0, 1)
    return _posterior(pi_test * (1 - pi) * eta, (1 - pi_test) * pi * (1 - eta), pi_test)


def ratio_posterior(ratio: npt.ArrayLike, train_prior: float, test_prior: float) -> FloatArray:
    """Probability of the positive class under the test prior, from density ratios.

    Equal to ``shift_posterior(train_prior * ratio, train_prior, test_prior)``, and
    also defined if the training population has no positives.
    """
    pi = check_prior("train_prior", train_prior)
    pi_test = check_prior("test_prior", test_prior)
    most = min(1 / pi, _LARGEST) if pi > 0 else _LARGEST
    r = np.minimum(np.maximum(_numbers("ratio", ratio), 0), most)  # faster than clip for a single row
    return _posterior(pi_test * (1 - pi) * r, (1 - pi_test) * np.maximum(1 - pi * r, 0), pi_test)


def _value(name: str, prior: float | PriorEstimate) -> float:
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
    some = total > 0
    return np.where(some, positive / np.where(some, total, 1.0), test_prior)
