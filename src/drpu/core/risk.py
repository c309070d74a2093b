r"""Risks of the other positive-unlabeled classifiers: uPU, nnPU, PUa and VPU.

Here a model gives a score :math:`g(x)`, positive for the positive class, and the class
prior is part of the risk: a model is trained for one prior. Like the risks of
:mod:`drpu.core.bregman`, every function takes NumPy arrays or torch tensors and averages
over the last axis.
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
    r"""Unbiased risk (uPU): the classification risk, without a single negative row.

    Parameters
    ----------
    positive, unlabeled : array
        Scores of the positive and of the unlabeled rows (last axis).
    prior : float or array
        Share of positives among the unlabeled rows; not checked, this is an inner loop.
    loss : {"logistic", "squared", "sigmoid"} or MarginLoss, default="logistic"
        The loss of a margin.
    cost : float, default=0.5
        False-positive cost. Errors on positives weigh ``2 (1 - cost)``, errors on
        negatives ``2 cost``.
    positive_weight, unlabeled_weight : array, optional
        Weights of the rows.

    Returns
    -------
    risk : scalar, or one value for each model of a stack

    Notes
    -----
    :math:`\pi E_+[l(g)] - \pi E_+[l(-g)] + E[l(-g)]` at a cost of 1/2: the negatives are
    the unlabeled rows less their positives. It goes below zero when a flexible model
    overfits, which no classification risk does.

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
    r"""Non-negative risk (nnPU): the unbiased one, whose negative part may not go below zero.

    Parameters
    ----------
    positive, unlabeled, prior, loss, cost, positive_weight, unlabeled_weight
        As in :func:`upu_risk`.
    beta : float, default=0
        How far below zero the negative part may go.
    gamma : float, default=1
        Length of the step that brings it back.

    Returns
    -------
    risk : Risk
        ``value`` to report, ``objective`` to take the gradient of.

    Notes
    -----
    With :math:`A = \pi E_+[l(g)]` and :math:`B = E[l(-g)] - \pi E_+[l(-g)]` the value is
    :math:`A + \max(-\beta, B)`; a step goes down :math:`A + B` where :math:`B \ge -\beta` and
    down :math:`-\gamma B` elsewhere.
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
        As in :func:`nnpu_risk`, to which this is equal when the two priors are.
    train_prior : float or array
        Share of positives among the unlabeled rows, below 1.
    test_prior : float or array
        Share of positives among the rows to classify.

    Returns
    -------
    risk : Risk

    Notes
    -----
    :math:`\pi' E_+[l(g)] + \frac{1-\pi'}{1-\pi} \max(-\beta, B)`, with :math:`B` as in nnPU.
    A single sample, whose labelled rows were taken out of the population, is such a
    shift as well: see :class:`drpu.core.objective.ShiftedRisk`.
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
    """A, the factor of B, and B itself."""
    kept = 2 * (1 - cost) * test_prior * weighted_mean(loss.value(positive), positive_weight)
    rest = weighted_mean(loss.value(-unlabeled), unlabeled_weight) - train_prior * weighted_mean(
        loss.value(-positive), positive_weight
    )
    return kept, 2 * cost * (1 - test_prior) / (1 - train_prior), rest


def equivalent_cost(train_prior: float, test_prior: float, *, cost: float = 0.5) -> tuple[float, float]:
    r"""The cost at the training prior that a shift to the test prior amounts to, and a factor.

    A shifted prior is a cost: the risk at ``test_prior`` and ``cost`` is ``factor`` times
    the risk at ``train_prior`` and the cost returned, for every score.

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
    >>> equivalent_cost(0.5, 0.2)  # positives are rarer: false alarms weigh more
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
    r"""Variational risk (VPU), least where the sigmoid of the scores is proportional to the posterior.

    Parameters
    ----------
    positive, unlabeled : array
        Scores (last axis).
    labelled_share : float, default=0
        Share of the population that was labelled and so is missing from the unlabeled
        rows: 0 where these are the population.
    positive_weight, unlabeled_weight : array, optional
        Weights of the rows.

    Returns
    -------
    risk : scalar, or one value for each model of a stack
        It needs no prior, and is the criterion for holdout rows as well.

    Notes
    -----
    :math:`\log E[\Phi] - E_+[\log \Phi]` with :math:`\Phi` the sigmoid of the score, in
    logarithms throughout. A factor of :math:`\Phi` changes nothing, so that the largest
    value has to be read as certainty afterwards.

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
    r"""How far a score is from straight between a positive and an unlabeled row (VPU's MixUp).

    Parameters
    ----------
    mixed : array
        Scores of the rows ``share * unlabeled + (1 - share) * positive``.
    unlabeled : array
        Scores of the unlabeled rows in them.
    share : array
        Share of the unlabeled row, in [0, 1].

    Returns
    -------
    penalty : scalar, or one value for each model of a stack
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
