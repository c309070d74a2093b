"""Costs as two amounts, and expected costs in the same unit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

from drpu._checks import check_fraction, check_real
from drpu.exceptions import ParameterError

if TYPE_CHECKING:
    from drpu.core.diagnostics import Performance

__all__ = ["Costs", "check_cost"]


def check_cost(name: str, cost: Any) -> float:
    """``cost`` as a number strictly between 0 and 1; two amounts stay two amounts."""
    return cost if isinstance(cost, Costs) else check_fraction(name, cost)


class Costs(float):
    """A false-positive cost that is stated as two amounts.

    It is a number, ``false_alarm / (false_alarm + miss)``, so it can be passed wherever
    drpu accepts a ``cost``. It also keeps the two amounts, from which :meth:`bill` computes
    an expected amount of money.

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

    def bill(self, performance: Performance, *, rows: float = 1.0) -> Any:
        """Expected cost of ``rows`` rows, in the unit of the two amounts.

        Parameters
        ----------
        performance : Performance
            Result of ``expected_performance``; arrays give arrays.
        rows : float, default=1.0
            Number of rows to classify.

        Examples
        --------
        >>> from drpu.core.diagnostics import Performance
        >>> half = Performance(0.0, 0.9, 0.5, 0.5, 0.0625, 0.1, 0.05)
        >>> float(round(Costs(false_alarm=5, miss=200).bill(half, rows=1000), 6))
        10250.0
        """
        false_alarms = performance.flagged * (1 - performance.precision)
        misses = 1 - performance.accuracy - false_alarms
        return rows * (self.false_alarm * false_alarms + self.miss * misses)

    def __getnewargs__(self) -> tuple[float, float]:  # type: ignore[override]
        return self.false_alarm, self.miss

    def __repr__(self) -> str:
        return f"Costs(false_alarm={self.false_alarm:g}, miss={self.miss:g})"

    __str__ = __repr__
