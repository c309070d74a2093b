r"""Risks that learners minimise: Bregman divergences of ratios, and those of the other PU methods.

A convex generator :math:`f` measures the distance of a ratio :math:`r` from
:math:`r^* = p_+/p` by

.. math:: L(r) = E_+[-f'(r)] + E[f^*(r)], \qquad f^*(t) = t f'(t) - f(t),

up to a constant. It does not depend on the class prior. The risks of the other methods are means
of losses of the margin. Every function takes NumPy arrays or torch tensors and averages over the
last axis, so a stack of models gives one value per model.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from drpu._arrays import Array, FloatArray, namespace, softplus, weighted_mean
from drpu._checks import check_choice

Weight: TypeAlias = Array | None
Term: TypeAlias = Callable[[Array], Array]
# The risk, and its derivatives by the scores of both samples.
Gradient: TypeAlias = tuple[float, FloatArray, FloatArray]


class Risk(NamedTuple):
    """The value of a corrected risk, and the objective that a training step minimises.

    They differ where the correction is active: the value is then constant in the
    negative part, and the objective increases that part.
    """

    value: Array
    objective: Array


# -- Bregman divergences --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BregmanGenerator:
    """A convex function f on [0, inf) with f*(0) = 0.

    There are versions for the ratio t and for its logarithm z, because computing ``log(exp(z))``
    for large log-ratios loses precision.
    """

    name: str
    slope: Term  # f'(t)
    conjugate: Term  # f*(t) = t f'(t) - f(t)
    slope_of_log: Term  # f'(exp(z))
    conjugate_of_log: Term  # f*(exp(z))


def _exp(x: Array) -> Array:
    return namespace(x).exp(x)


def _log(x: Array) -> Array:
    return namespace(x).log(x)


def _log1p(x: Array) -> Array:
    return namespace(x).log1p(x)


def _identity(x: Array) -> Array:
    return x


def _log_share(t: Array) -> Array:
    return _log(t) - _log1p(t)


LEAST_SQUARES = BregmanGenerator(  # f(t) = t^2 / 2, strongly convex, as the bound requires
    "lsif",
    slope=_identity,
    conjugate=lambda t: t * t / 2,
    slope_of_log=_exp,
    conjugate_of_log=lambda z: _exp(2 * z) / 2,
)
KULLBACK_LEIBLER = BregmanGenerator(  # f(t) = t log t - t, the unnormalised divergence
    "ukl",
    slope=_log,
    conjugate=_identity,
    slope_of_log=_identity,
    conjugate_of_log=_exp,
)
LOGISTIC = BregmanGenerator(  # f(t) = t log t - (1 + t) log(1 + t), logistic loss
    "bkl",
    slope=_log_share,
    conjugate=_log1p,
    slope_of_log=lambda z: -softplus(-z),
    conjugate_of_log=softplus,
)
GENERATORS = {"lsif": LEAST_SQUARES, "ukl": KULLBACK_LEIBLER, "bkl": LOGISTIC}


def bregman_risk(
    positive: Array,
    unlabeled: Array,
    positive_weight: Weight = None,
    unlabeled_weight: Weight = None,
    *,
    generator: BregmanGenerator = LEAST_SQUARES,
    log: bool = False,
) -> Array:
    """Uncorrected risk L of ratios or log-ratios: the criterion for holdout rows."""
    slope, conjugate = _terms(generator, log)
    over_unlabeled = weighted_mean(conjugate(unlabeled), unlabeled_weight)
    return over_unlabeled - weighted_mean(slope(positive), positive_weight)


def nonnegative_bregman_risk(
    positive: Array,
    unlabeled: Array,
    positive_weight: Weight = None,
    unlabeled_weight: Weight = None,
    *,
    alpha: float | Array,
    generator: BregmanGenerator = LEAST_SQUARES,
    log: bool = False,
) -> Risk:
    r"""Non-negative Bregman risk: the training objective of flexible models.

    ``alpha`` is a lower bound of the training prior, one for each model of a stack. It is not
    checked, because this is called in every step. With :math:`A = E_+[-f'(r) + \alpha f^*(r)]` and
    :math:`B = E[f^*(r)] - \alpha E_+[f^*(r)]`, the value is :math:`A + \max(0, B)`. The objective
    is :math:`A + B` where :math:`B \ge 0` and :math:`-B` alone elsewhere. The branch is taken with
    ``where`` and not with ``if``, which would synchronise with the device.
    """
    slope, conjugate = _terms(generator, log)
    lifted = alpha * weighted_mean(conjugate(positive), positive_weight)
    kept = lifted - weighted_mean(slope(positive), positive_weight)
    rest = weighted_mean(conjugate(unlabeled), unlabeled_weight) - lifted

    where = namespace(rest).where
    value = kept + where(rest >= 0, rest, rest * 0)
    objective = where(rest >= 0, kept + rest, -rest)
    return Risk(value, objective)


def _terms(f: BregmanGenerator, log: bool) -> tuple[Term, Term]:
    """The derivative and the conjugate of a generator, as functions of ratios or of log-ratios."""
    if log:
        return f.slope_of_log, f.conjugate_of_log
    return f.slope, f.conjugate


# -- losses of the margin -------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for large or small x."""
    xp = namespace(x)
    if xp is np:
        return np.exp(-softplus(-x))
    return xp.sigmoid(x)  # torch has a faster gradient


@dataclass(frozen=True, slots=True)
class MarginLoss:
    """A loss l(z) of the margin: z = g(x) for a positive row, -g(x) for a negative one."""

    name: str
    value: Term  # l(z)
    slope: Term  # the derivative l'(z)
    level: Callable[[float], float]  # the optimal score where the probability equals the cost
    # The probability at which scores are optimal; None if scores do not determine it.
    posterior: Callable[[FloatArray], FloatArray] | None = None


LOSSES = {
    "logistic": MarginLoss(  # convex, and the score is the log-odds of the posterior
        "logistic",
        value=lambda z: softplus(-z),
        slope=lambda z: -sigmoid(-z),
        level=lambda cost: float(np.log(cost) - np.log1p(-cost)),
        posterior=lambda scores: np.asarray(sigmoid(scores)),
    ),
    "squared": MarginLoss(  # convex, has a closed form, and the score is 2 posterior - 1
        "squared",
        value=lambda z: (1 - z) * (1 - z) / 4,
        slope=lambda z: (z - 1) / 2,
        level=lambda cost: 2 * cost - 1,
        posterior=lambda scores: np.clip((1 + scores) / 2, 0, 1),
    ),
    # Bounded and close to the error rate. The optimal score depends only on whether the probability
    # is above the cost, so there are no probabilities.
    "sigmoid": MarginLoss(
        "sigmoid",
        value=lambda z: sigmoid(-z),
        slope=lambda z: -sigmoid(z) * sigmoid(-z),
        level=lambda cost: 0.0,
    ),
}


def get_loss(loss: str) -> MarginLoss:
    """The loss called ``logistic``, ``squared`` or ``sigmoid``."""
    return LOSSES[check_choice("loss", loss, LOSSES)]


# -- risks of the other methods -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShiftedRisk:
    r"""The risk of uPU, nnPU and PUa: priors of unlabeled rows and of the population may differ.

    Attributes
    ----------
    unlabeled_prior : float
        Prior of the unlabeled rows, in [0, 1). With 0 they are negatives, and this is the
        risk of ordinary classification.
    prior : float
        Prior of the population to classify, in [0, 1].
    loss : MarginLoss
        The loss; the default is the sigmoid loss.
    cost : float
        False-positive cost. Errors on positives get weight ``2 (1 - cost)``, errors on negatives
        ``2 cost``.
    corrected : bool
        Whether the risk on negatives is bounded below by ``-beta`` (nnPU, PUa) or not (uPU).
    beta, gamma : float
        How far below zero the risk on negatives may go, and the weight of the objective that
        increases it again.

    Notes
    -----
    With :math:`A = \pi' E_+[l(g)]` and :math:`B = E[l(-g)] - \pi E_+[l(-g)]` the risk at a cost of
    1/2 is :math:`A + \frac{1-\pi'}{1-\pi} B` from the prior :math:`\pi` of the unlabeled rows to
    :math:`\pi'`. It can be negative if a flexible model overfits. The corrected value has
    :math:`\max(-\beta, B)` instead of :math:`B`; where :math:`B < -\beta`, the objective is
    :math:`-\gamma B` alone.

    In a single sample a fraction :math:`c` of the population is labelled, and the prior of
    the other rows is :math:`\pi_u = (\pi - c)/(1 - c)`. The population's risk,
    :math:`\pi E_+[l(g)] + c E_+[l(-g)] + (1-c) E_u[l(-g)] - \pi E_+[l(-g)]`, is then
    :math:`\pi E_+[l(g)] + (1-c) (E_u[l(-g)] - \pi_u E_+[l(-g)])`, and since
    :math:`1 - c = (1-\pi)/(1-\pi_u)` this is the risk of PUa from :math:`\pi_u` to :math:`\pi`.
    """

    unlabeled_prior: float
    prior: float
    loss: MarginLoss = LOSSES["sigmoid"]
    cost: float = 0.5
    corrected: bool = False
    beta: float = 0.0
    gamma: float = 1.0

    def risk(
        self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None
    ) -> Risk:
        """The risk of a training step, from scores and weights of both samples."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        beta = self.beta if self.corrected else np.inf
        where = namespace(rest).where
        enough = rest >= -beta
        value = kept + scale * where(enough, rest, rest * 0 - beta)
        objective = where(enough, kept + scale * rest, -self.gamma * scale * rest)
        return Risk(value, objective)

    def criterion(
        self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None
    ) -> Array:
        """The uncorrected risk, for choosing among models on holdout rows; lower is better."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        return kept + scale * rest

    def gradient(
        self, positive: FloatArray, unlabeled: FloatArray, w_p: Weight = None, w_u: Weight = None
    ) -> Gradient:
        """The risk and its derivatives, for optimisers that use all rows in every step."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        share_p = weight_shares(positive, w_p)
        share_u = weight_shares(unlabeled, w_u)
        by_positive = 2 * (1 - self.cost) * self.prior * share_p * self.loss.slope(positive)
        if self.corrected and rest < -self.beta:
            return float(kept - scale * self.beta), by_positive, np.zeros_like(unlabeled)
        slope_p = self.loss.slope(-positive)
        by_positive = by_positive + scale * self.unlabeled_prior * share_p * slope_p
        by_unlabeled = -scale * share_u * self.loss.slope(-unlabeled)
        return float(kept + scale * rest), by_positive, by_unlabeled

    def _parts(
        self, positive: Array, unlabeled: Array, w_p: Weight, w_u: Weight
    ) -> tuple[Array, float | Array, Array]:
        """The terms A, the factor of B, and B."""
        kept = 2 * (1 - self.cost) * self.prior * weighted_mean(self.loss.value(positive), w_p)
        scale = 2 * self.cost * (1 - self.prior) / (1 - self.unlabeled_prior)
        rest = weighted_mean(self.loss.value(-unlabeled), w_u)
        rest = rest - self.unlabeled_prior * weighted_mean(self.loss.value(-positive), w_p)
        return kept, scale, rest


@dataclass(frozen=True, slots=True)
class VariationalRisk:
    r"""The risk of VPU, which needs no prior.

    Attributes
    ----------
    labelled_share : float
        Fraction of the population that is labelled and therefore missing from the
        unlabeled rows; 0 if the unlabeled rows are a sample of the population.
    mixup : float
        Weight of the penalty for scores that are not linear between two rows, which only networks
        use.
    concentration : float
        The weights of MixUp are drawn from Beta(concentration, concentration).

    Notes
    -----
    :math:`\log E[\Phi] - E_+[\log \Phi]` where :math:`\Phi` is the sigmoid of the score,
    computed in logarithms. It is minimal if :math:`\Phi` is proportional to the posterior, and
    does not depend on a constant factor, so :math:`\Phi` has to be divided by its largest value to
    get a probability.
    """

    labelled_share: float = 0.0
    mixup: float = 0.0
    concentration: float = 0.3

    def criterion(
        self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None
    ) -> Array:
        """The risk, from scores and weights of both samples; lower is better."""
        log_p = -softplus(-positive)
        log_u = -softplus(-unlabeled)
        spread = _log_mean_exp(log_u, w_u)
        if self.labelled_share > 0:
            labelled = _log_mean_exp(log_p, w_p) + np.log(self.labelled_share)
            spread = namespace(spread).logaddexp(spread + np.log1p(-self.labelled_share), labelled)
        return spread - weighted_mean(log_p, w_p)


PUObjective: TypeAlias = ShiftedRisk | VariationalRisk


def mixup_penalty(mixed: Array, unlabeled: Array, share: Array) -> Array:
    r"""Mean of :math:`(\log(\lambda \Phi(x_U) + 1 - \lambda) - \log \Phi(x_{mix}))^2`.

    The rows ``mixed`` are ``share * unlabeled + (1 - share) * positive``.
    """
    xp = namespace(mixed)
    tiny = 1e-30
    target = xp.logaddexp(xp.log(share + tiny) - softplus(-unlabeled), xp.log(1 - share + tiny))
    gap = target + softplus(-mixed)
    return (gap * gap).mean(-1)


def _log_mean_exp(x: Array, weight: Weight) -> Array:
    xp = namespace(x)
    top = xp.amax(x, -1, keepdims=True)
    return xp.log(weighted_mean(xp.exp(x - top), weight)) + top[..., 0]


def weight_shares(rows: Sized, weight: Weight) -> FloatArray:
    """The weights of rows divided by their sum; equal ones if there are none."""
    if weight is None:
        return np.full(len(rows), 1 / len(rows))
    return np.asarray(weight / weight.sum())
