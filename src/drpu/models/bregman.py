r"""Bregman divergences between density ratios, and the risks that estimate them.

A convex generator :math:`f` measures the distance of a ratio :math:`r` from
:math:`r^* = p_+/p` by

.. math:: L(r) = E_+[-f'(r)] + E[f^*(r)], \qquad f^*(t) = t f'(t) - f(t),

up to a constant. It does not depend on the class prior. Every function takes NumPy
arrays or torch tensors and averages over the last axis, so a stack of models gives
one value per model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from drpu._arrays import namespace, softplus, weighted_mean
from drpu._checks import check_choice
from drpu._typing import Array


@dataclass(frozen=True)
class Generator:
    """A convex function f on [0, inf) with f*(0) = 0.

    There are versions for the ratio t and for its logarithm z, because computing ``log(exp(z))`` for
    large log-ratios loses precision.
    """

    name: str
    value: Callable[[Array], Array]  # f(t)
    slope: Callable[[Array], Array]  # f'(t)
    conjugate: Callable[[Array], Array]  # f*(t) = t f'(t) - f(t)
    slope_of_log: Callable[[Array], Array]  # f'(exp(z))
    conjugate_of_log: Callable[[Array], Array]  # f*(exp(z))


def _function(name: str) -> Callable[[Array], Array]:
    """The function of NumPy or of torch with this name, whichever applies to its argument."""
    return lambda x: getattr(namespace(x), name)(x)


_exp, _log, _log1p = map(_function, ("exp", "log", "log1p"))


def _times_log(ratio: Array) -> Array:
    """Compute t log t, which is 0 at 0."""
    xp = namespace(ratio)
    return xp.where(ratio > 0, ratio * xp.log(xp.where(ratio > 0, ratio, ratio * 0 + 1)), ratio * 0)


GENERATORS = {
    # Least squares (LSIF): strongly convex, which the excess-risk bound requires.
    "lsif": Generator(
        "lsif",
        value=lambda t: t * t / 2,
        slope=lambda t: t,
        conjugate=lambda t: t * t / 2,
        slope_of_log=_exp,
        conjugate_of_log=lambda z: _exp(2 * z) / 2,
    ),
    # The unnormalised Kullback-Leibler divergence.
    "ukl": Generator(
        "ukl",
        value=lambda t: _times_log(t) - t,
        slope=_log,
        conjugate=lambda t: t,
        slope_of_log=lambda z: z,
        conjugate_of_log=_exp,
    ),
    # The logistic loss of positives against unlabeled rows.
    "bkl": Generator(
        "bkl",
        value=lambda t: _times_log(t) - (1 + t) * _log1p(t),
        slope=lambda t: _log(t) - _log1p(t),
        conjugate=_log1p,
        slope_of_log=lambda z: -softplus(-z),
        conjugate_of_log=softplus,
    ),
}


def get_generator(generator: str | Generator) -> Generator:
    """The generator called ``lsif``, ``ukl`` or ``bkl``, or the one given."""
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
    """Uncorrected risk L of ratios or log-ratios: the criterion for holdout rows. It needs no prior."""
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

    ``alpha`` is a lower bound of the training prior, one for each model of a stack. It is not
    checked, because this is called in every step. With :math:`A = E_+[-f'(r) + \alpha f^*(r)]` and
    :math:`B = E[f^*(r)] - \alpha E_+[f^*(r)]`, the value is :math:`A + \max(0, B)`. The objective is
    :math:`A + B` where :math:`B \ge 0` and :math:`-B` alone elsewhere. The branch is taken with
    ``where`` and not with ``if``, which would synchronise with the device.
    """
    f = get_generator(generator)
    slope, conjugate = (f.slope_of_log, f.conjugate_of_log) if log else (f.slope, f.conjugate)

    lifted = alpha * weighted_mean(conjugate(positive), positive_weight)
    kept = lifted - weighted_mean(slope(positive), positive_weight)
    rest = weighted_mean(conjugate(unlabeled), unlabeled_weight) - lifted

    where = namespace(rest).where
    return Risk(kept + where(rest >= 0, rest, rest * 0), where(rest >= 0, kept + rest, -rest))
