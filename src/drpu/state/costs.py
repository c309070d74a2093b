"""Costs of the two kinds of errors: a number, or two amounts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Self

from drpu._checks import check_fraction, check_real
from drpu._codec import POSITIVE, As, Number, kept
from drpu.exceptions import ParameterError


def check_cost(name: str, cost: Any) -> float:
    """``cost`` as a number strictly between 0 and 1; two amounts stay two amounts."""
    if isinstance(cost, Costs):
        return cost
    number = check_real(name, cost)
    if 1 <= number < math.inf:
        raise ParameterError(
            f"{name} must lie strictly between 0 and 1, got {cost!r}: if a false positive costs "
            f"{number:g} and a false negative 1, pass {number / (1 + number):.3g}, "
            f"or Costs({number:g}, 1)."
        )
    return check_fraction(name, cost)


def _check_amount(name: str, amount: Any) -> float:
    """``amount`` as a finite number above 0."""
    number = check_real(name, amount)
    if not 0 < number < math.inf:
        raise ParameterError(f"{name} must be a finite amount above 0, got {amount!r}.")
    return number


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
        alarm_amount = _check_amount("false_alarm", false_alarm)
        miss_amount = _check_amount("miss", miss)
        share = alarm_amount / (alarm_amount + miss_amount)
        if not 0 < share < 1:
            raise ParameterError(
                "false_alarm and miss must not differ that much, "
                f"got {false_alarm!r} and {miss!r}: the smaller one is lost in rounding."
            )
        costs = super().__new__(cls, share)
        costs.false_alarm = false_alarm
        costs.miss = miss
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
