"""The value object of a class prior."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from numbers import Real
from typing import Annotated, Self

from drpu._checks import check_prior
from drpu._codec import Items, Number, Text, kept
from drpu.exceptions import PriorError, SeparationWarning
from drpu.priors.constants import FEW_ANSWERS

FEW_POSITIVES = 100  # with fewer, fit warns that the prior is rough
Quantiles = Annotated[tuple[Annotated[float, Number(0, 1)], ...], Items(0, 100)]
KNOWN = ("given", "audit")  # methods of priors that were not estimated from the counts


@kept("prior")
@dataclass(frozen=True)
class PriorEstimate:
    """A class prior with confidence limits.

    Attributes
    ----------
    value : float
        The estimate: the mean of what is believed about the prior.
    low, high : float
        Confidence limits, for independent rows: quantiles of what is believed. They hold on tables
        like those that the belief was learned from.
    level : float
        Confidence level of the two limits together.
    method : str
        How ``value`` was estimated; ``"given"`` if the user passed it.
    identified : bool, default=True
        False if the value may well be off by 0.10.
    upper : float or None
        The upper limit at the same level that needs no assumption about the classes. None for a
        prior that was not estimated from counts, and where more than the prior has changed.
    quantiles : tuple of float
        Equally likely values of the prior, ascending, over which probabilities are averaged. Empty
        for a prior that was given, or that was not estimated with its distribution.

    Examples
    --------
    >>> print(PriorEstimate(0.41, 0.38, 0.44, 0.95, "best-bin"))
    0.410 [0.380, 0.440] at 95%
    >>> print(PriorEstimate(0.3, 0.1, 0.71, 0.95, "best-bin", identified=False, upper=0.82))
    0.300 [0.100, 0.710] at 95% (not identified; at most 0.820 by the counts alone)
    """

    value: Annotated[float, Number(0, 1)]
    low: Annotated[float, Number(0, 1)]
    high: Annotated[float, Number(0, 1)]
    level: Annotated[float, Number(0, 1)]
    method: Annotated[str, Text(most=200)]
    identified: bool = True
    upper: Annotated[float, Number(0, 1)] | None = None
    quantiles: Quantiles = field(default=(), repr=False)

    def __post_init__(self) -> None:
        numbers = (self.value, self.low, self.high, self.level)
        if not all(isinstance(number, Real) for number in numbers):
            raise PriorError(
                f"value, low, high and level must be numbers, got {self.value!r:.100} and others."
            )
        if not 0 <= self.low <= self.value <= self.high <= 1:
            raise PriorError(
                f"a prior needs 0 <= low <= value <= high <= 1, "
                f"got low={self.low!r}, value={self.value!r}, high={self.high!r}."
            )
        if not 1e-6 <= self.level < 1:
            raise PriorError(
                f"level must lie strictly between 0 and 1, and not below 1e-6, got {self.level!r}."
            )
        if not isinstance(self.identified, bool):
            raise PriorError(f"identified must be True or False, got {self.identified!r}.")

    @classmethod
    def given(cls, value: float, *, level: float = 0.95) -> Self:
        """A prior that is known exactly."""
        number = check_prior("prior", value)
        return cls(number, number, number, level, "given")

    @property
    def possible_values(self) -> tuple[float, ...]:
        """Equally likely values of the prior: its quantiles, or the value itself."""
        return self.quantiles or (self.value,)

    @property
    def most(self) -> float:
        """The largest prior that the counts allow without an assumption, where it is known."""
        return self.high if self.upper is None else self.upper

    def __float__(self) -> float:
        return self.value

    def _repr_html_(self) -> str:
        value = f"prior <b>{self.value:.1%}</b>"
        if self.method == "given":
            return f"<p>{value}, given</p>"
        limits = f"{self.low:.1%} to {self.high:.1%} at {self.level:.0%}"
        return f"<p>{value}, {limits} ({escape(self.method)}){self._doubt('.1%')}</p>"

    def __str__(self) -> str:
        limits = f"[{self.low:.3f}, {self.high:.3f}] at {self.level:.0%}"
        return f"{self.value:.3f} {limits}{self._doubt('.3f')}"

    def _doubt(self, form: str) -> str:
        """A remark that the prior is not identified; ``form`` is the format of a number."""
        if self.identified:
            return ""
        if self.upper is None or self.upper == 1:
            return " (not identified)"
        return f" (not identified; at most {self.upper:{form}} by the counts alone)"


def as_prior(name: str, prior: float | PriorEstimate) -> PriorEstimate:
    """``prior`` as a PriorEstimate; a number is treated as known."""
    if isinstance(prior, PriorEstimate):
        return prior
    return PriorEstimate.given(check_prior(name, prior))


def warn_if_not_identified(prior: PriorEstimate) -> None:
    """Warn if the data do not identify the prior, with the numbers that the prior itself shows."""
    if prior.identified:
        return
    shares = {"value": prior.value, "low": prior.low, "high": prior.high}
    bound = ""
    if prior.upper is not None and prior.upper < 1:
        shares["upper"] = prior.upper
        bound = ", and the counts alone allow up to {upper}"
    SeparationWarning.issue(
        "the prior is not identified: {value} is used, it is probably between {low} and {high}"
        f"{bound}. The score may separate the classes too weakly to tell:",
        advice="give the prior if you know it (at_prior), flag as many rows as can be checked "
        f"(at_budget), or answer for {FEW_ANSWERS} rows, which is surest: plan_audit(X).ask(X).",
        command="give --prior if you know it, flag as many rows as can be checked (--budget), or "
        f"answer for {FEW_ANSWERS} rows, which is surest: drpu ask.",
        **shares,
    )
