"""Risks as objects: the training objectives and selection criteria of score models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drpu._arrays import softplus
from drpu._typing import Array, FloatArray
from drpu.core.bregman import Risk
from drpu.core.losses import LOSSES, MarginLoss, sigmoid
from drpu.core.risk import pua_risk, risk_terms, vpu_risk

__all__ = ["PUObjective", "ShiftedRisk", "VariationalRisk"]


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
        As in :func:`drpu.core.risk.nnpu_risk`.

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
        As in :func:`drpu.core.risk.vpu_risk`.
    mixup : float
        Weight of :func:`drpu.core.risk.mixup_penalty`, which only networks use.
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
