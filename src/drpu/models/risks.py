"""Losses as functions of the margin, and the risks of the other PU methods."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from drpu._arrays import namespace, softplus, weighted_mean
from drpu._checks import check_choice
from drpu._typing import Array, FloatArray
from drpu.models.bregman import Risk

Weight: TypeAlias = Array | None
# The risk, and its derivatives by the scores of both samples.
Gradient: TypeAlias = tuple[float, FloatArray, FloatArray]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for large or small x."""
    xp = namespace(x)
    return np.exp(-softplus(-x)) if xp is np else xp.sigmoid(x)  # torch has a faster gradient


@dataclass(frozen=True)
class MarginLoss:
    """A loss l(z) of the margin: z = g(x) for a positive row, -g(x) for a negative one."""

    name: str
    value: Callable[[Array], Array]  # l(z)
    slope: Callable[[Array], Array]  # l'(z)
    level: Callable[[float], float]  # the optimal score where the probability equals the cost
    posterior: Callable[[FloatArray], FloatArray] | None  # the probability at which scores are optimal


LOSSES = {
    # Convex, and the score is the log-odds of the posterior.
    "logistic": MarginLoss(
        "logistic",
        value=lambda z: softplus(-z),
        slope=lambda z: -sigmoid(-z),
        level=lambda cost: float(np.log(cost) - np.log1p(-cost)),
        posterior=lambda scores: np.asarray(sigmoid(scores)),
    ),
    # Convex, has a closed form, and the score is 2 posterior - 1.
    "squared": MarginLoss(
        "squared",
        value=lambda z: (1 - z) * (1 - z) / 4,
        slope=lambda z: (z - 1) / 2,
        level=lambda cost: 2 * cost - 1,
        posterior=lambda scores: np.clip((1 + scores) / 2, 0, 1),
    ),
    # Bounded and close to the error rate. The optimal score depends only on whether the probability is above
    # the cost, so there are no probabilities.
    "sigmoid": MarginLoss(
        "sigmoid",
        value=lambda z: sigmoid(-z),
        slope=lambda z: -sigmoid(z) * sigmoid(-z),
        level=lambda cost: 0.0,
        posterior=None,
    ),
}


def get_loss(loss: str) -> MarginLoss:
    """The loss called ``logistic``, ``squared`` or ``sigmoid``."""
    return LOSSES[check_choice("loss", loss, LOSSES)]


@dataclass(frozen=True, slots=True)
class ShiftedRisk:
    r"""The risk of uPU, nnPU and PUa: the priors of unlabeled rows and of the population may differ.

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
        False-positive cost. Errors on positives get weight ``2 (1 - cost)``, errors on negatives ``2 cost``.
    corrected : bool
        Whether the risk on negatives is bounded below by ``-beta`` (nnPU, PUa) or not (uPU).
    beta, gamma : float
        How far below zero the risk on negatives may go, and the weight of the objective that
        increases it again.

    Notes
    -----
    With :math:`A = \pi' E_+[l(g)]` and :math:`B = E[l(-g)] - \pi E_+[l(-g)]` the risk at a cost of 1/2 is
    :math:`A + \frac{1-\pi'}{1-\pi} B` from the prior :math:`\pi` of the unlabeled rows to :math:`\pi'`.
    It can be negative if a flexible model overfits. The corrected value has :math:`\max(-\beta, B)` instead
    of :math:`B`; where :math:`B < -\beta`, the objective is :math:`-\gamma B` alone.

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

    def risk(self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None) -> Risk:
        """The risk of a training step, from scores and weights of both samples."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        beta = self.beta if self.corrected else np.inf
        where = namespace(rest).where
        enough = rest >= -beta
        value = kept + scale * where(enough, rest, rest * 0 - beta)
        return Risk(value, where(enough, kept + scale * rest, -self.gamma * scale * rest))

    def criterion(self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None) -> Array:
        """The uncorrected risk, for choosing among models on holdout rows; lower is better."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        return kept + scale * rest

    def gradient(
        self, positive: FloatArray, unlabeled: FloatArray, w_p: Weight = None, w_u: Weight = None
    ) -> Gradient:
        """The risk and its derivatives, for optimisers that use all rows in every step."""
        kept, scale, rest = self._parts(positive, unlabeled, w_p, w_u)
        w_p, w_u = weight_shares(positive, w_p), weight_shares(unlabeled, w_u)
        by_positive = 2 * (1 - self.cost) * self.prior * w_p * self.loss.slope(positive)
        if self.corrected and rest < -self.beta:
            return float(kept - scale * self.beta), by_positive, np.zeros_like(unlabeled)
        by_positive = by_positive + scale * self.unlabeled_prior * w_p * self.loss.slope(-positive)
        return float(kept + scale * rest), by_positive, -scale * w_u * self.loss.slope(-unlabeled)

    def _parts(
        self, positive: Array, unlabeled: Array, w_p: Weight, w_u: Weight
    ) -> tuple[Array, float | Array, Array]:
        """The terms A, the factor of B, and B."""
        kept = 2 * (1 - self.cost) * self.prior * weighted_mean(self.loss.value(positive), w_p)
        rest = weighted_mean(self.loss.value(-unlabeled), w_u)
        rest = rest - self.unlabeled_prior * weighted_mean(self.loss.value(-positive), w_p)
        return kept, 2 * self.cost * (1 - self.prior) / (1 - self.unlabeled_prior), rest


@dataclass(frozen=True, slots=True)
class VariationalRisk:
    r"""The risk of VPU, which needs no prior.

    Attributes
    ----------
    labelled_share : float
        Fraction of the population that is labelled and therefore missing from the
        unlabeled rows; 0 if the unlabeled rows are a sample of the population.
    mixup : float
        Weight of the penalty for scores that are not linear between two rows, which only networks use.
    concentration : float
        The weights of MixUp are drawn from Beta(concentration, concentration).

    Notes
    -----
    :math:`\log E[\Phi] - E_+[\log \Phi]` where :math:`\Phi` is the sigmoid of the score,
    computed in logarithms. It is minimal if :math:`\Phi` is proportional to the posterior, and does not
    depend on a constant factor, so :math:`\Phi` has to be divided by its largest value to get a probability.
    """

    labelled_share: float = 0.0
    mixup: float = 0.0
    concentration: float = 0.3

    def risk(self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None) -> Risk:
        """The risk of a training step, from scores and weights of both samples."""
        value = self.criterion(positive, unlabeled, w_p, w_u)
        return Risk(value, value)

    def criterion(self, positive: Array, unlabeled: Array, w_p: Weight = None, w_u: Weight = None) -> Array:
        """The same risk, for choosing among models on holdout rows; lower is better."""
        log_p, log_u = -softplus(-positive), -softplus(-unlabeled)
        spread = _log_mean_exp(log_u, w_u)
        if self.labelled_share > 0:
            labelled = _log_mean_exp(log_p, w_p) + np.log(self.labelled_share)
            spread = namespace(spread).logaddexp(spread + np.log1p(-self.labelled_share), labelled)
        return spread - weighted_mean(log_p, w_p)

    def gradient(
        self, positive: FloatArray, unlabeled: FloatArray, w_p: Weight = None, w_u: Weight = None
    ) -> Gradient:
        """The risk and its derivatives, for optimisers that use all rows in every step."""
        w_p, w_u = weight_shares(positive, w_p), weight_shares(unlabeled, w_u)
        c = self.labelled_share
        log_p, log_u = -softplus(-positive), -softplus(-unlabeled)
        # For numerical stability: the largest value that enters the sum.
        top = max(log_p.max(), log_u.max()) if c > 0 else log_u.max()
        mass_p = c * w_p * np.exp(log_p - top) if c > 0 else np.zeros_like(w_p)
        mass_u = (1 - c) * w_u * np.exp(log_u - top)
        total = mass_p.sum() + mass_u.sum()
        value = float(np.log(total) + top - w_p @ log_p)
        return value, (mass_p / total - w_p) * sigmoid(-positive), mass_u / total * sigmoid(-unlabeled)


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
    return np.full(len(rows), 1 / len(rows)) if weight is None else np.asarray(weight / weight.sum())
