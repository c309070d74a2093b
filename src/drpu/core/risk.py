r"""Risks of the other positive-unlabeled classifiers: uPU, nnPU, PUa and VPU.

A model gives a score :math:`g(x)`, which is above 0 for the positive class. The class
prior is part of these risks, so a model is trained for one prior. Every function takes
NumPy arrays or torch tensors and averages over the last axis.
"""

from __future__ import annotations

import numpy as np

from drpu._arrays import namespace, softplus, weighted_mean
from drpu._checks import check_fraction, check_prior
from drpu._typing import Array
from drpu.core.bregman import Risk
from drpu.core.losses import MarginLoss, get_loss

__all__ = [
    "equivalent_cost",
    "mixup_penalty",
    "nnpu_risk",
    "pua_risk",
    "risk_terms",
    "upu_risk",
    "vpu_risk",
]


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
    case as well: see :class:`drpu.core.objective.ShiftedRisk`.
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
