"""Objectives of the training loop: heads, the risk of density ratios, and the risks of scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from drpu.models.bregman import Generator, Risk, bregman_risk, nonnegative_bregman_risk
from drpu.models.risks import PUObjective, ShiftedRisk, VariationalRisk, mixup_penalty
from drpu.networks.loop import Batch, Criterion, Forward, Loss

# The output at which the ratio is 1, which is its mean over unlabeled rows: the initial output.
START = {
    "softplus": math.log(math.e - 1), "relu": 1.0, "identity": 1.0, "exp": 0.0, "score": 0.0,
}  # fmt: skip
LOW = -15.0  # below this output log softplus is computed by its series
QUANTILES = 4096  # size of the table of Beta quantiles

Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Risk]


def ratio_of(head: str, output: Tensor) -> Tensor:
    """The ratio that a head makes of outputs."""
    match head:
        case "softplus":
            return F.softplus(output)
        case "relu":
            return F.relu(output)
        case "exp":
            return output.exp()
        case _:  # the identity, for modules that are linear in their weights
            return output


def log_ratio_of(head: str, output: Tensor) -> Tensor:
    """The logarithm of the ratio, computed so that small ratios keep their order; outputs for a score."""
    match head:
        case "softplus":  # log softplus(g) = g - exp(g) / 2 + ...: no logarithm of a tiny number far below 0
            upper = F.softplus(output.clamp(min=LOW)).log()
            return torch.where(output < LOW, output - output.clamp(max=0).exp() / 2, upper)
        case "relu" | "identity":  # outputs below 0 are ratios of 0
            return F.relu(output).log()
        case _:
            return output


@dataclass(frozen=True, slots=True)
class RatioObjective:
    """The non-negative Bregman risk for training, the uncorrected risk for choices."""

    generator: Generator
    head: str  # from outputs to ratios
    alpha: Tensor  # strength of the correction

    def risk(self, positive: Tensor, unlabeled: Tensor, *weights: Tensor | None) -> Risk:
        """The corrected risk of outputs; ``weights`` are those of positive and of unlabeled rows."""
        alpha, options = self.alpha.to(positive), self._options(*weights)
        return nonnegative_bregman_risk(self._link(positive), self._link(unlabeled), alpha=alpha, **options)

    def criterion(self, positive: Tensor, unlabeled: Tensor, *weights: Tensor | None) -> Tensor:
        """The uncorrected risk of outputs."""
        options = self._options(*weights)
        risk: Tensor = bregman_risk(self._link(positive), self._link(unlabeled), **options)
        return risk

    def _link(self, output: Tensor) -> Tensor:
        # LSIF uses ratios, the other generators use log-ratios.
        link = ratio_of if self.generator.name == "lsif" else log_ratio_of
        return link(self.head, output)

    def _options(self, positive_weight: Tensor | None, unlabeled_weight: Tensor | None) -> dict[str, Any]:
        weights = {"positive_weight": positive_weight, "unlabeled_weight": unlabeled_weight}
        return {"generator": self.generator, "log": self.generator.name != "lsif", **weights}


@dataclass(frozen=True, slots=True)
class Aim:
    """What a run minimises, and the criterion by which an epoch is chosen."""

    loss: Loss
    criterion: Criterion


def on_outputs(objective: Objective) -> Loss:
    """A loss from an objective of outputs, in one pass so that batch norm uses both samples."""

    def loss(forward: Forward, batch: Batch) -> Risk:
        if batch.shared:
            output = forward(batch.unlabeled)
            return objective(output, output, batch.positive_weight, batch.unlabeled_weight)
        n = batch.positive.shape[1]
        output = forward(torch.cat([batch.positive, batch.unlabeled], dim=1))
        return objective(output[:, :n], output[:, n:], batch.positive_weight, batch.unlabeled_weight)

    return loss


def score_aim(objective: PUObjective, device: torch.device, dtype: torch.dtype) -> Aim:
    """The aim of a network for a score; priors may be lists, with one number for each network."""
    if isinstance(objective, VariationalRisk):
        return Aim(_mixed_up(objective, device, dtype), objective.criterion)
    if isinstance(objective, ShiftedRisk):  # priors in the precision of the network

        def numbers(prior: Any) -> Any:
            return torch.tensor(np.atleast_1d(prior), dtype=dtype, device=device)

        objective = replace(
            objective, unlabeled_prior=numbers(objective.unlabeled_prior), prior=numbers(objective.prior)
        )
    return Aim(on_outputs(objective.risk), objective.criterion)


def _mixed_up(objective: VariationalRisk, device: torch.device, dtype: torch.dtype) -> Loss:
    """The variational risk with its MixUp penalty; weights are drawn on the device."""
    middle = (np.arange(QUANTILES) + 0.5) / QUANTILES
    a = objective.concentration
    table = torch.as_tensor(beta.ppf(middle, a, a), dtype=dtype, device=device)

    def loss(forward: Forward, batch: Batch) -> Risk:
        positive, unlabeled = batch.positive, batch.unlabeled
        n = min(positive.shape[1], unlabeled.shape[1])
        shape = unlabeled.shape[0], n
        share = table[torch.randint(QUANTILES, shape, device=device)]
        wide = share.view(*shape, *[1] * (unlabeled.ndim - 2))
        mixed = wide * unlabeled[:, :n] + (1 - wide) * positive[:, :n]
        output = forward(torch.cat([positive, unlabeled, mixed], dim=1))
        of_p, of_u, of_mixed = torch.split(output, [positive.shape[1], unlabeled.shape[1], n], dim=1)
        risk = objective.criterion(of_p, of_u, batch.positive_weight, batch.unlabeled_weight)
        penalty = mixup_penalty(of_mixed, of_u[:, :n], share)
        return Risk(risk, risk + objective.mixup * penalty)

    return loss
