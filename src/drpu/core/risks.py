"""Losses as functions of the margin, for scores that are above 0 for the positive class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drpu._arrays import namespace, softplus, weighted_mean
from drpu._checks import check_choice, check_fraction, check_prior
from drpu._typing import Array, FloatArray
from drpu.core.bregman import Risk
from drpu.exceptions import ParameterError

__all__ = [
    "LOSSES",
    "MarginLoss",
    "PUObjective",
    "ShiftedRisk",
    "VariationalRisk",
    "equivalent_cost",
    "get_loss",
    "mixup_penalty",
    "nnpu_risk",
    "pua_risk",
    "risk_terms",
    "sigmoid",
    "upu_risk",
    "vpu_risk",
]


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow for large or small x."""
    xp = namespace(x)
    return np.exp(-softplus(-x)) if xp is np else xp.sigmoid(x)  # torch has a faster gradient


class MarginLoss(ABC):
    """A loss l(z) of the margin: z = g(x) for a positive row, -g(x) for a negative one."""

    name: ClassVar[str]
    has_posterior: ClassVar[bool] = True

    @abstractmethod
    def value(self, margin: Array) -> Array:
        """l(z)."""

    @abstractmethod
    def slope(self, margin: Array) -> Array:
        """l'(z)."""

    @abstractmethod
    def posterior(self, scores: FloatArray) -> FloatArray:
        """Probability of the positive class at which ``scores`` are optimal."""

    @abstractmethod
    def level(self, cost: float) -> float:
        """The optimal score where the probability equals ``cost``."""


class Logistic(MarginLoss):
    """l(z) = log(1 + exp(-z)): convex, and the score is the log-odds of the posterior."""

    name = "logistic"

    def value(self, margin: Array) -> Array:
        return softplus(-margin)

    def slope(self, margin: Array) -> Array:
        return -sigmoid(-margin)

    def posterior(self, scores: FloatArray) -> FloatArray:
        return np.asarray(sigmoid(scores))

    def level(self, cost: float) -> float:
        return float(np.log(cost) - np.log1p(-cost))


class Squared(MarginLoss):
    """l(z) = (1 - z)^2 / 4: convex, has a closed form, and the score is 2 posterior - 1."""

    name = "squared"

    def value(self, margin: Array) -> Array:
        return (1 - margin) * (1 - margin) / 4

    def slope(self, margin: Array) -> Array:
        return (margin - 1) / 2

    def posterior(self, scores: FloatArray) -> FloatArray:
        return np.clip((1 + scores) / 2, 0, 1)

    def level(self, cost: float) -> float:
        return 2 * cost - 1


class Sigmoid(MarginLoss):
    """l(z) = 1 / (1 + exp(z)): bounded, close to the error rate, gives no probabilities."""

    name = "sigmoid"
    has_posterior = False

    def value(self, margin: Array) -> Array:
        return sigmoid(-margin)

    def slope(self, margin: Array) -> Array:
        return -sigmoid(margin) * sigmoid(-margin)

    def posterior(self, scores: FloatArray) -> FloatArray:
        raise ParameterError(
            "loss must be 'logistic' or 'squared' for probabilities, got 'sigmoid', whose optimal score "
            "depends only on whether the probability is above the cost."
        )

    def level(self, cost: float) -> float:
        return 0.0


LOSSES: dict[str, MarginLoss] = {loss.name: loss for loss in (Logistic(), Squared(), Sigmoid())}


def get_loss(loss: str | MarginLoss) -> MarginLoss:
    """The loss called ``logistic``, ``squared`` or ``sigmoid``, or the one given.

    Examples
    --------
    >>> get_loss("squared").value(-1.0)
    1.0
    """
    if isinstance(loss, MarginLoss):
        return loss
    return LOSSES[check_choice("loss", loss, LOSSES)]


def upu_risk(
    positive: Array,
    unlabeled: Array,
    *,
    prior: float | Array,
    loss: str | MarginLoss = "logistic",
    cost: float = 0.5,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Array:
    r"""Unbiased risk (uPU): an estimate of the classification risk without negative rows.

    Parameters
    ----------
    positive, unlabeled : array
        Scores of the positive and of the unlabeled rows (last axis).
    prior : float or array
        Prior of the unlabeled rows. It is not checked, because this is called in every step.
    loss : {"logistic", "squared", "sigmoid"} or MarginLoss, default="logistic"
        Loss as a function of the margin.
    cost : float, default=0.5
        False-positive cost. Errors on positives get weight ``2 (1 - cost)``, errors on
        negatives ``2 cost``.
    positive_weight, unlabeled_weight : array, optional
        Weights of the rows.

    Returns
    -------
    risk : scalar, or one value per model of a stack

    Notes
    -----
    :math:`\pi E_+[l(g)] - \pi E_+[l(-g)] + E[l(-g)]` at a cost of 1/2. The last two terms
    are the risk on negatives. The estimate can be negative if a flexible model overfits,
    although a classification risk cannot.

    Examples
    --------
    >>> import numpy as np
    >>> float(upu_risk(np.array([1.0]), np.array([1.0, -1.0]), prior=0.5, loss="squared"))
    0.0
    """
    kept, scale, rest = risk_terms(
        positive, unlabeled, prior, prior, get_loss(loss), cost, positive_weight, unlabeled_weight
    )
    return kept + scale * rest


def nnpu_risk(
    positive: Array,
    unlabeled: Array,
    *,
    prior: float | Array,
    loss: str | MarginLoss = "sigmoid",
    beta: float = 0.0,
    gamma: float = 1.0,
    cost: float = 0.5,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Risk:
    r"""Non-negative risk (nnPU): the unbiased risk with a non-negative risk on negatives.

    Parameters
    ----------
    positive, unlabeled, prior, loss, cost, positive_weight, unlabeled_weight
        As in :func:`upu_risk`.
    beta : float, default=0
        How far below zero the risk on negatives may go.
    gamma : float, default=1
        Weight of the objective that increases it again.

    Returns
    -------
    risk : Risk
        ``value`` is to be reported, ``objective`` to be minimised.

    Notes
    -----
    With :math:`A = \pi E_+[l(g)]` and :math:`B = E[l(-g)] - \pi E_+[l(-g)]` the value is
    :math:`A + \max(-\beta, B)`; the objective is :math:`A + B` where :math:`B \ge -\beta`
    and :math:`-\gamma B` elsewhere.
    """
    return pua_risk(
        positive,
        unlabeled,
        train_prior=prior,
        test_prior=prior,
        loss=loss,
        beta=beta,
        gamma=gamma,
        cost=cost,
        positive_weight=positive_weight,
        unlabeled_weight=unlabeled_weight,
    )


def pua_risk(
    positive: Array,
    unlabeled: Array,
    *,
    train_prior: float | Array,
    test_prior: float | Array,
    loss: str | MarginLoss = "sigmoid",
    beta: float = 0.0,
    gamma: float = 1.0,
    cost: float = 0.5,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Risk:
    r"""Non-negative risk of a population whose prior differs from that of the unlabeled rows (PUa).

    Parameters
    ----------
    positive, unlabeled, loss, beta, gamma, cost, positive_weight, unlabeled_weight
        As in :func:`nnpu_risk`, which is the special case of two equal priors.
    train_prior : float or array
        Prior of the unlabeled rows, below 1.
    test_prior : float or array
        Prior of the rows to classify.

    Returns
    -------
    risk : Risk

    Notes
    -----
    :math:`\pi' E_+[l(g)] + \frac{1-\pi'}{1-\pi} \max(-\beta, B)`, with :math:`B` as in nnPU.
    A single sample, whose labelled rows are missing from the unlabeled ones, is a special
    case as well: see :class:`drpu.core.risks.ShiftedRisk`.
    """
    kept, scale, rest = risk_terms(
        positive,
        unlabeled,
        train_prior,
        test_prior,
        get_loss(loss),
        cost,
        positive_weight,
        unlabeled_weight,
    )
    where = namespace(rest).where
    enough = rest >= -beta
    value = kept + scale * where(enough, rest, rest * 0 - beta)
    return Risk(value, where(enough, kept + scale * rest, -gamma * scale * rest))


def risk_terms(
    positive: Array,
    unlabeled: Array,
    train_prior: float | Array,
    test_prior: float | Array,
    loss: MarginLoss,
    cost: float,
    positive_weight: Array | None,
    unlabeled_weight: Array | None,
) -> tuple[Array, float | Array, Array]:
    """The terms A, the factor of B, and B of the risk."""
    kept = 2 * (1 - cost) * test_prior * weighted_mean(loss.value(positive), positive_weight)
    rest = weighted_mean(loss.value(-unlabeled), unlabeled_weight) - train_prior * weighted_mean(
        loss.value(-positive), positive_weight
    )
    return kept, 2 * cost * (1 - test_prior) / (1 - train_prior), rest


def equivalent_cost(train_prior: float, test_prior: float, *, cost: float = 0.5) -> tuple[float, float]:
    r"""The cost at the training prior that is equivalent to the test prior, and a factor.

    A change of the prior is equivalent to a change of the cost: the risk at ``test_prior``
    and ``cost`` is ``factor`` times the risk at ``train_prior`` and the returned cost, for
    every score.

    Parameters
    ----------
    train_prior : float
        Prior before the shift, strictly between 0 and 1.
    test_prior : float
        Prior after it, in [0, 1].
    cost : float, default=0.5
        False-positive cost after the shift.

    Returns
    -------
    cost, factor : float

    Examples
    --------
    >>> equivalent_cost(0.5, 0.2)  # positives are rarer: false positives cost more
    (0.8, 1.0)
    """
    pi, pi_test = check_fraction("train_prior", train_prior), check_prior("test_prior", test_prior)
    c = check_fraction("cost", cost)

    missed, alarmed = (1 - c) * pi_test / pi, c * (1 - pi_test) / (1 - pi)
    return alarmed / (missed + alarmed), missed + alarmed


def vpu_risk(
    positive: Array,
    unlabeled: Array,
    *,
    labelled_share: float = 0.0,
    positive_weight: Array | None = None,
    unlabeled_weight: Array | None = None,
) -> Array:
    r"""Variational risk (VPU), minimal if the sigmoid of the scores is proportional to the posterior.

    Parameters
    ----------
    positive, unlabeled : array
        Scores (last axis).
    labelled_share : float, default=0
        Fraction of the population that is labelled and therefore missing from the
        unlabeled rows; 0 if the unlabeled rows are a sample of the population.
    positive_weight, unlabeled_weight : array, optional
        Weights of the rows.

    Returns
    -------
    risk : scalar, or one value per model of a stack
        It needs no prior. It is also the criterion for holdout rows.

    Notes
    -----
    :math:`\log E[\Phi] - E_+[\log \Phi]` where :math:`\Phi` is the sigmoid of the score,
    computed in logarithms. The risk does not depend on a constant factor of :math:`\Phi`,
    so :math:`\Phi` has to be divided by its largest value to get a probability.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([-1000.0, -1000.0])
    >>> float(vpu_risk(scores, scores))
    0.0
    """
    log_p, log_u = -softplus(-positive), -softplus(-unlabeled)
    spread = _log_mean_exp(log_u, unlabeled_weight)
    if labelled_share > 0:
        xp = namespace(spread)
        labelled = _log_mean_exp(log_p, positive_weight)
        spread = xp.logaddexp(spread + np.log1p(-labelled_share), labelled + np.log(labelled_share))
    return spread - weighted_mean(log_p, positive_weight)


def mixup_penalty(mixed: Array, unlabeled: Array, share: Array) -> Array:
    r"""Penalty of VPU (MixUp) for scores that are not linear between two rows.

    Parameters
    ----------
    mixed : array
        Scores of the rows ``share * unlabeled + (1 - share) * positive``.
    unlabeled : array
        Scores of the unlabeled rows in them.
    share : array
        Weight of the unlabeled row, in [0, 1].

    Returns
    -------
    penalty : scalar, or one value per model of a stack
        Mean of :math:`(\log(\lambda \Phi(x_U) + 1 - \lambda) - \log \Phi(x_{mix}))^2`.
    """
    xp = namespace(mixed)
    tiny = 1e-30
    target = xp.logaddexp(xp.log(share + tiny) - softplus(-unlabeled), xp.log(1 - share + tiny))
    gap = target + softplus(-mixed)
    return (gap * gap).mean(-1)


def _log_mean_exp(x: Array, weight: Array | None) -> Array:
    xp = namespace(x)
    top = xp.amax(x, -1, keepdims=True)
    return xp.log(weighted_mean(xp.exp(x - top), weight)) + top[..., 0]


class PUObjective(ABC):
    """Training objective of a score model.

    ``risk`` and ``criterion`` take the scores and weights of both samples, for the torch
    loop. ``gradient`` is for optimisers that use all rows in every step.
    """

    @abstractmethod
    def risk(
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Risk:
        """The risk of a training step."""

    @abstractmethod
    def criterion(
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Array:
        """The criterion for choosing among models on holdout rows; lower is better."""

    @abstractmethod
    def gradient(
        self,
        positive: FloatArray,
        unlabeled: FloatArray,
        positive_weight: FloatArray | None,
        unlabeled_weight: FloatArray | None,
    ) -> tuple[float, FloatArray, FloatArray]:
        """The reported risk and its derivatives with respect to the scores of both samples."""


@dataclass(frozen=True, slots=True)
class ShiftedRisk(PUObjective):
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
        False-positive cost.
    corrected : bool
        Whether the risk on negatives is bounded below by ``-beta`` (nnPU, PUa) or not (uPU).
    beta, gamma : float
        As in :func:`drpu.core.risks.nnpu_risk`.

    Notes
    -----
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

    def risk(  # noqa: D102
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Risk:
        return pua_risk(
            positive,
            unlabeled,
            train_prior=self.unlabeled_prior,
            test_prior=self.prior,
            loss=self.loss,
            beta=self.beta if self.corrected else np.inf,
            gamma=self.gamma,
            cost=self.cost,
            positive_weight=positive_weight,
            unlabeled_weight=unlabeled_weight,
        )

    def criterion(  # noqa: D102
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Array:
        kept, scale, rest = self._parts(positive, unlabeled, positive_weight, unlabeled_weight)
        return kept + scale * rest

    def gradient(  # noqa: D102
        self,
        positive: FloatArray,
        unlabeled: FloatArray,
        positive_weight: FloatArray | None,
        unlabeled_weight: FloatArray | None,
    ) -> tuple[float, FloatArray, FloatArray]:
        kept, scale, rest = self._parts(positive, unlabeled, positive_weight, unlabeled_weight)
        w_p, w_u = _shares(positive, positive_weight), _shares(unlabeled, unlabeled_weight)
        by_positive = 2 * (1 - self.cost) * self.prior * w_p * self.loss.slope(positive)
        if self.corrected and rest < -self.beta:
            return float(kept - scale * self.beta), by_positive, np.zeros_like(unlabeled)
        by_positive = by_positive + scale * self.unlabeled_prior * w_p * self.loss.slope(-positive)
        return float(kept + scale * rest), by_positive, -scale * w_u * self.loss.slope(-unlabeled)

    def _parts(
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> tuple[Array, float | Array, Array]:
        return risk_terms(
            positive,
            unlabeled,
            self.unlabeled_prior,
            self.prior,
            self.loss,
            self.cost,
            positive_weight,
            unlabeled_weight,
        )


@dataclass(frozen=True, slots=True)
class VariationalRisk(PUObjective):
    """The risk of VPU, which needs no prior.

    Attributes
    ----------
    labelled_share : float
        As in :func:`drpu.core.risks.vpu_risk`.
    mixup : float
        Weight of :func:`drpu.core.risks.mixup_penalty`, which only networks use.
    concentration : float
        The weights of MixUp are drawn from Beta(concentration, concentration).
    """

    labelled_share: float = 0.0
    mixup: float = 0.0
    concentration: float = 0.3

    def risk(  # noqa: D102
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Risk:
        value = self.criterion(positive, unlabeled, positive_weight, unlabeled_weight)
        return Risk(value, value)

    def criterion(  # noqa: D102
        self, positive: Array, unlabeled: Array, positive_weight: Array | None, unlabeled_weight: Array | None
    ) -> Array:
        return vpu_risk(
            positive,
            unlabeled,
            labelled_share=self.labelled_share,
            positive_weight=positive_weight,
            unlabeled_weight=unlabeled_weight,
        )

    def gradient(  # noqa: D102
        self,
        positive: FloatArray,
        unlabeled: FloatArray,
        positive_weight: FloatArray | None,
        unlabeled_weight: FloatArray | None,
    ) -> tuple[float, FloatArray, FloatArray]:
        w_p, w_u = _shares(positive, positive_weight), _shares(unlabeled, unlabeled_weight)
        c = self.labelled_share
        log_p, log_u = -softplus(-positive), -softplus(-unlabeled)
        # For numerical stability: the largest value that enters the sum.
        top = max(log_p.max(), log_u.max()) if c > 0 else log_u.max()
        mass_p = c * w_p * np.exp(log_p - top) if c > 0 else np.zeros_like(w_p)
        mass_u = (1 - c) * w_u * np.exp(log_u - top)
        total = mass_p.sum() + mass_u.sum()
        value = float(np.log(total) + top - w_p @ log_p)
        return value, (mass_p / total - w_p) * sigmoid(-positive), mass_u / total * sigmoid(-unlabeled)


def _shares(scores: FloatArray, weight: FloatArray | None) -> FloatArray:
    return np.full(len(scores), 1 / len(scores)) if weight is None else weight / weight.sum()
