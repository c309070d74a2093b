r"""Priors of several groups, with limits that hold for all groups together, and with shrinkage.

With :math:`K` groups each interval has the level :math:`1 - (1 - \text{level}) / K` (Bonferroni),
so that all of them hold together at the requested level.

Values are shrunk towards the prior of all rows, :math:`\pi`, by the usual empirical Bayes rule:
:math:`w_g \pi_g + (1 - w_g) \pi` with :math:`w_g = \tau^2 / (\tau^2 + s_g^2)`. :math:`s_g` is the
standard error by the rows of the group alone: an error of the training prior is that of all
groups, and no reason to shrink one to the others. :math:`\tau^2` is the variance between groups by
the method of Paule and Mandel: the value at which :math:`\sum_g (\pi_g - \bar\pi)^2 / (\tau^2 +
s_g^2)` is :math:`K - 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import chdtrc, ndtri

from drpu._checks import check_fraction
from drpu._results import TableColumns, TableResult, figure_columns
from drpu._typing import FloatArray
from drpu.exceptions import DataError
from drpu.priors.estimate import PriorEstimate

DIFFERENT = 0.001  # below this p-value groups have different priors


@dataclass(frozen=True, slots=True)
class GroupPrior:
    """The prior of one group.

    Attributes
    ----------
    name : object
        Value of the column that the rows were grouped by.
    n : int
        Rows in the group.
    prior : PriorEstimate
        The shrunken value, with limits that hold for all groups together.
    alone : PriorEstimate
        The same without shrinkage, from the rows of the group only.
    weight : float
        Weight of ``alone`` in ``prior``, between 0 and 1.
    p_value : float
        P-value of the test of the scores that only the prior has changed in this group.
    shift : {"prior", "other", "answers"}
        What moved, by both tests: only the prior; more, so that it is a guarded reading; or
        answers were used.
    warnings : tuple of str
        Codes of the warnings about the group.
    classifier : AdaptedClassifier or None
        The classifier for rows of the group, which makes its labels.
    flagged : int or None
        Number of its rows that this classifier flags.
    """

    name: Any
    n: int
    prior: PriorEstimate
    alone: PriorEstimate
    weight: float
    p_value: float
    shift: str = "prior"
    warnings: tuple[str, ...] = ()
    classifier: Any = field(default=None, repr=False, compare=False)
    flagged: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GroupPriors(TableResult):
    """Priors of groups, in the order of their names.

    Indexed by the name of a group; iterating gives the :class:`GroupPrior` objects.

    Attributes
    ----------
    groups : tuple of GroupPrior
    whole : PriorEstimate
        Prior of all rows together.
    level : float
        Level at which all intervals of the groups hold together.
    between : float
        Standard deviation of the priors between groups, without sampling error.
    p_value : float
        Of the test that all groups have one prior, by the rows of the groups alone.
    """

    groups: tuple[GroupPrior, ...]
    whole: PriorEstimate
    level: float
    between: float
    p_value: float = 1.0

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[GroupPrior]:
        return iter(self.groups)

    def __getitem__(self, name: Any) -> GroupPrior:
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    @property
    def names(self) -> list[Any]:
        """Names of the groups."""
        return [group.name for group in self.groups]

    def to_columns(self) -> TableColumns:
        """One row per group: its prior with limits, what moved, flagged rows and warnings."""
        figures = figure_columns(group.prior for group in self.groups)
        return {
            "group": self.names,
            "rows": [group.n for group in self.groups],
            "prior": figures["value"],
            "low": figures["low"],
            "high": figures["high"],
            "p_value": [group.p_value for group in self.groups],
            "shift": [group.shift for group in self.groups],
            "flagged": [group.flagged for group in self.groups],
            "warnings": [", ".join(group.warnings) for group in self.groups],
        }

    def _title(self) -> str:
        limits = f"limits for all together at {self.level:.0%}"
        return f"{len(self)} groups, {limits}; all rows {self.whole}"

    @property
    def differ(self) -> bool:
        """Whether the priors differ, by the test or because no value lies within all limits."""
        highest_low = max(group.prior.low for group in self)
        lowest_high = min(group.prior.high for group in self)
        return self.p_value < DIFFERENT or highest_low > lowest_high


def joint_level(level: float, groups: int) -> float:
    """Level that each of ``groups`` intervals needs for all to hold together with ``level``."""
    return 1 - (1 - check_fraction("level", level)) / groups


def between_groups(values: FloatArray, errors: FloatArray) -> float:
    """Variance between groups by the method of Paule and Mandel; 0 if noise explains them."""
    degrees = len(values) - 1
    if degrees < 1 or _misfit(values, errors, 0.0) <= degrees:
        return 0.0
    low = 0.0
    high = 1.0  # shares lie in [0, 1]: their variance cannot exceed 1
    for _ in range(60):
        middle = (low + high) / 2
        if _misfit(values, errors, middle) > degrees:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _misfit(values: FloatArray, errors: FloatArray, tau2: float) -> float:
    """Sum of the squared distances from the mean, each divided by its variance."""
    weight = 1 / (tau2 + np.maximum(errors, 1e-9) ** 2)
    mean = float((weight * values).sum() / weight.sum())
    return float((weight * (values - mean) ** 2).sum())


@dataclass(frozen=True, slots=True)
class GroupReading:
    """The prior of a group by its rows alone, and the standard error by their number."""

    name: Any
    n: int
    prior: PriorEstimate
    error: float
    p_value: float = 1.0
    shift: str = "prior"


def shrink(groups: Sequence[GroupReading], whole: PriorEstimate, level: float) -> GroupPriors:
    """Priors of groups, shrunk towards the prior of all rows.

    The limits of ``groups`` are at the level of :func:`joint_level`, those of the result hold
    together.
    """
    if not groups:
        raise DataError("there must be at least one group, got none.")
    values = np.array([group.prior.value for group in groups])
    errors = np.array([group.error for group in groups])
    tau2 = between_groups(values, errors)
    shrunk_groups = []
    for group in groups:
        weight = 1.0
        if group.error > 0 and len(groups) > 1:
            weight = tau2 / (tau2 + group.error**2)
        value = weight * group.prior.value + (1 - weight) * whole.value
        value = min(max(value, group.prior.low), group.prior.high)
        shrunk = GroupPrior(
            name=group.name,
            n=group.n,
            prior=replace(group.prior, value=value),
            alone=group.prior,
            weight=weight,
            p_value=group.p_value,
            shift=group.shift,
        )
        shrunk_groups.append(shrunk)
    degrees = len(groups) - 1
    p_value = 1.0
    if degrees > 0:
        p_value = float(chdtrc(degrees, _misfit(values, errors, 0.0)))
    return GroupPriors(tuple(shrunk_groups), whole, level, float(np.sqrt(tau2)), p_value)


def with_answers(group_priors: GroupPriors, answered: dict[Any, PriorEstimate]) -> GroupPriors:
    """The priors with those of groups that have answers, which are not shrunk.

    If all groups have answers, the prior of all rows is the mean of theirs, weighted by their rows.
    """
    groups = []
    for group in group_priors:
        prior = answered.get(group.name)
        if prior is not None:
            group = replace(group, prior=prior, alone=prior, weight=1.0, shift="answers")
        groups.append(group)
    whole = group_priors.whole
    if len(answered) >= len(groups):
        whole = _mean_prior(groups, group_priors.level)
    return replace(group_priors, groups=tuple(groups), whole=whole)


def _mean_prior(groups: Sequence[GroupPrior], level: float) -> PriorEstimate:
    """Mean of the priors of groups, weighted by their rows; their intervals imply its error."""
    n = np.array([group.n for group in groups])
    share = n / n.sum()
    value = float(share @ [group.prior.value for group in groups])
    errors = []
    for group in groups:
        deviations = float(ndtri((1 + group.prior.level) / 2))
        errors.append((group.prior.high - group.prior.low) / (2 * deviations))
    error = float(np.sqrt(share**2 @ np.square(errors)))
    distance = error * float(ndtri((1 + level) / 2))
    low = max(value - distance, 0.0)
    high = min(value + distance, 1.0)
    return PriorEstimate(value, low, high, level, "audit")
