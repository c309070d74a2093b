r"""Bregman divergences between density ratios, and the risks that estimate them.

A convex generator :math:`f` measures the distance of a ratio :math:`r` from
:math:`r^* = p_+/p` by

.. math:: L(r) = E_+[-f'(r)] + E[f^*(r)], \qquad f^*(t) = t f'(t) - f(t),

up to a constant. It does not depend on the class prior. Every function takes NumPy
arrays or torch tensors and averages over the last axis, so a stack of models gives
one value per model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from drpu._arrays import namespace, softplus, weighted_mean
from drpu._checks import check_choice
from drpu._typing import Array

__all__ = [
    "GENERATORS",
    "BinaryKL",
    "Generator",
    "LeastSquares",
    "Risk",
    "UnnormalizedKL",
    "bregman_risk",
    "get_generator",
    "nonnegative_bregman_risk",
]


class Generator(ABC):
    """A convex function f on [0, inf), given by f, f' and f*.

    There are versions for the ratio and for its logarithm, because computing
    ``log(exp(z))`` for large log-ratios z loses precision.
    """

    name: ClassVar[str]
    conjugate_at_zero: ClassVar[float] = 0.0

    @abstractmethod
    def value(self, ratio: Array) -> Array:
        """f(t)."""

    @abstractmethod
    def slope(self, ratio: Array) -> Array:
        """f'(t)."""

    @abstractmethod
    def conjugate(self, ratio: Array) -> Array:
        """f*(t) = t f'(t) - f(t)."""

    @abstractmethod
    def slope_of_log(self, log_ratio: Array) -> Array:
        """f'(exp(z))."""

    @abstractmethod
    def conjugate_of_log(self, log_ratio: Array) -> Array:
        """f*(exp(z))."""


class LeastSquares(Generator):
    """LSIF, f(t) = t^2 / 2: strongly convex, which the excess-risk bound requires."""

    name = "lsif"

    def value(self, ratio: Array) -> Array:
        return ratio * ratio / 2

    def slope(self, ratio: Array) -> Array:
        return ratio

    def conjugate(self, ratio: Array) -> Array:
        return ratio * ratio / 2

    def slope_of_log(self, log_ratio: Array) -> Array:
        return namespace(log_ratio).exp(log_ratio)

    def conjugate_of_log(self, log_ratio: Array) -> Array:
        return namespace(log_ratio).exp(2 * log_ratio) / 2


class UnnormalizedKL(Generator):
    """f(t) = t log t - t."""

    name = "ukl"

    def value(self, ratio: Array) -> Array:
        return _times_log(ratio) - ratio

    def slope(self, ratio: Array) -> Array:
        return namespace(ratio).log(ratio)

    def conjugate(self, ratio: Array) -> Array:
        return ratio

    def slope_of_log(self, log_ratio: Array) -> Array:
        return log_ratio

    def conjugate_of_log(self, log_ratio: Array) -> Array:
        return namespace(log_ratio).exp(log_ratio)


class BinaryKL(Generator):
    """f(t) = t log t - (1 + t) log(1 + t): the logistic loss of positives against unlabeled rows."""

    name = "bkl"

    def value(self, ratio: Array) -> Array:
        return _times_log(ratio) - (1 + ratio) * namespace(ratio).log1p(ratio)

    def slope(self, ratio: Array) -> Array:
        return namespace(ratio).log(ratio) - namespace(ratio).log1p(ratio)

    def conjugate(self, ratio: Array) -> Array:
        return namespace(ratio).log1p(ratio)

    def slope_of_log(self, log_ratio: Array) -> Array:
        return -softplus(-log_ratio)

    def conjugate_of_log(self, log_ratio: Array) -> Array:
        return softplus(log_ratio)


GENERATORS: dict[str, Generator] = {
    generator.name: generator for generator in (LeastSquares(), UnnormalizedKL(), BinaryKL())
}


def get_generator(generator: str | Generator) -> Generator:
    """The generator called ``lsif``, ``ukl`` or ``bkl``, or the one given.

    Examples
    --------
    >>> get_generator("lsif").slope(3.0)
    3.0
    """
    if isinstance(generator, Generator):
        return generator
    return GENERATORS[check_choice("generator", generator, GENERATORS)]


def bregman_risk(
    positive: Array,
    unlabeled: Array,
    *,
    generator: str | Generator = "lsif",
    log: bool = False,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Array:
    """Uncorrected risk L, the criterion for holdout rows. It needs no prior.

    Parameters
    ----------
    positive, unlabeled : array
        Ratios of the positive and of the unlabeled rows (last axis).
    generator : {"lsif", "ukl", "bkl"} or Generator, default="lsif"
        The generator of the divergence.
    log : bool, default=False
        Whether ``positive`` and ``unlabeled`` are log-ratios.
    positive_weight, unlabeled_weight : array, optional
        Weights of the rows.

    Returns
    -------
    risk : scalar, or one value per model of a stack
        Lower is better. Differences of risks are differences of divergences.

    Examples
    --------
    >>> import numpy as np
    >>> float(bregman_risk(np.array([2.0, 2.0]), np.array([2.0, 0.0])))
    -1.0
    """
    f = get_generator(generator)
    slope, conjugate = (f.slope_of_log, f.conjugate_of_log) if log else (f.slope, f.conjugate)
    return weighted_mean(conjugate(unlabeled), unlabeled_weight) - weighted_mean(
        slope(positive), positive_weight
    )


class Risk(NamedTuple):
    """The value of a corrected risk, and the objective that a training step minimises.

    They differ where the correction is active: the value is then constant in the
    negative part, and the objective increases that part.
    """

    value: Array
    objective: Array


def nonnegative_bregman_risk(
    positive: Array,
    unlabeled: Array,
    *,
    alpha: float | Array,
    generator: str | Generator = "lsif",
    log: bool = False,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Risk:
    r"""Non-negative Bregman risk: the training objective of flexible models.

    Parameters
    ----------
    positive, unlabeled : array
        Ratios of the positive and of the unlabeled rows (last axis).
    alpha : float or array
        A lower bound of the training prior, in [0, prior]. An array gives one value per
        model of a stack. It is not checked, because this is called in every step.
    generator, log, positive_weight, unlabeled_weight
        As in :func:`bregman_risk`.

    Returns
    -------
    risk : Risk
        ``value`` is to be reported, ``objective`` to be minimised.

    Notes
    -----
    With :math:`F = f^* - f^*(0)`, :math:`A = E_+[-f'(r) + \alpha F(r)]` and
    :math:`B = E[F(r)] - \alpha E_+[F(r)]`, the value is
    :math:`A + \max(0, B) + f^*(0)`. The objective is :math:`A + B` where
    :math:`B \ge 0` and :math:`-B` alone elsewhere. The branch is taken with
    ``where`` and not with ``if``, which would synchronise with the device.

    Examples
    --------
    >>> import numpy as np
    >>> risk = nonnegative_bregman_risk(np.array([2.0]), np.array([1.0]), alpha=0.5)
    >>> float(risk.value), float(risk.objective)  # B = 1/2 - 1 < 0
    (-1.0, 0.5)
    """
    f = get_generator(generator)
    slope, conjugate = (f.slope_of_log, f.conjugate_of_log) if log else (f.slope, f.conjugate)

    lifted = weighted_mean(conjugate(positive), positive_weight) - f.conjugate_at_zero
    kept = alpha * lifted - weighted_mean(slope(positive), positive_weight)
    rest = weighted_mean(conjugate(unlabeled), unlabeled_weight) - f.conjugate_at_zero - alpha * lifted

    where = namespace(rest).where
    value = kept + where(rest >= 0, rest, rest * 0) + f.conjugate_at_zero
    return Risk(value, where(rest >= 0, kept + rest, -rest))


def _times_log(ratio: Array) -> Array:
    """Compute t log t, which is 0 at 0."""
    xp = namespace(ratio)
    return xp.where(ratio > 0, ratio * xp.log(xp.where(ratio > 0, ratio, ratio * 0 + 1)), ratio * 0)
