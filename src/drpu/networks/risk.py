"""Score networks, trained for an objective of positive and unlabeled batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.stats import beta

from drpu.core.bregman import Risk
from drpu.core.risks import PUObjective, ShiftedRisk, VariationalRisk, mixup_penalty
from drpu.exceptions import ParameterError
from drpu.networks.device import pick_device, weight_dtype
from drpu.networks.loop import Loss, on_outputs
from drpu.networks.pools import Batch
from drpu.networks.stack import Forward
from drpu.networks.tasks import Task
from drpu.networks.training import Aim, Fitted, Watch, fit_together

__all__ = ["fit_stack"]

QUANTILES = 4096  # size of the table of Beta quantiles


def fit_stack(
    tasks: Sequence[Task],
    objectives: Sequence[PUObjective],
    watch: Watch | None = None,
    *,
    equal_batches: bool = False,
) -> list[Fitted]:
    """One trained network per task, as a stack; objectives may differ in their priors."""
    device, dtype = pick_device(tasks[0].device), weight_dtype(tasks[0].settings.dtype)
    first = objectives[0]
    if isinstance(first, VariationalRisk):
        if any(other != first for other in objectives):
            raise ParameterError("variational objectives must be the same in all models trained together.")
        loss, criterion = _mixed_up(first, device, dtype), first.criterion
    else:
        joined = _joined(objectives, device, dtype)
        loss, criterion = on_outputs(joined.risk), joined.criterion
    return fit_together(tasks, watch, Aim(loss, criterion, equal_batches))


def _joined(objectives: Sequence[PUObjective], device: torch.device, dtype: torch.dtype) -> ShiftedRisk:
    """One risk for a stack, with one prior per model."""
    shifted = [one for one in objectives if isinstance(one, ShiftedRisk)]
    alike = {(one.loss.name, one.cost, one.corrected, one.beta, one.gamma) for one in shifted}
    if len(shifted) < len(objectives) or len(alike) > 1:
        raise ParameterError("objectives trained together must be of one kind and differ in priors alone.")

    def column(values: Sequence[float]) -> Any:
        return torch.tensor(values, dtype=dtype, device=device)

    return replace(
        shifted[0],
        unlabeled_prior=column([one.unlabeled_prior for one in shifted]),
        prior=column([one.prior for one in shifted]),
    )


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
