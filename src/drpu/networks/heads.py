"""Links from the output of a network to a density ratio, and their objectives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from drpu.core.bregman import Risk, bregman_risk, get_generator, nonnegative_bregman_risk

__all__ = ["START", "Head", "RatioObjective", "make_head"]

# The output at which the ratio is 1, which is its mean over unlabeled rows: the initial output.
START = {"softplus": math.log(math.e - 1), "relu": 1.0, "identity": 1.0, "exp": 0.0, "bounded": 0.0}


class Head(ABC):
    """A link from an output in (-inf, inf) to a ratio, given on the ratio and on its logarithm."""

    @abstractmethod
    def ratio(self, output: Tensor) -> Tensor:
        """The ratio."""

    @abstractmethod
    def log_ratio(self, output: Tensor) -> Tensor:
        """Its logarithm, computed so that small ratios keep their order."""


class Softplus(Head):
    """r = log(1 + exp(g)): exponential for small g, linear for large g."""

    LOW: ClassVar[float] = -15.0

    def ratio(self, output: Tensor) -> Tensor:
        return F.softplus(output)

    def log_ratio(self, output: Tensor) -> Tensor:
        # log softplus(g) = g - exp(g) / 2 + ...; far below 0 this avoids the logarithm of a tiny number
        upper = F.softplus(output.clamp(min=self.LOW)).log()
        return torch.where(output < self.LOW, output - output.clamp(max=0).exp() / 2, upper)


class Relu(Head):
    """r = max(g, 0), as in the paper."""

    def ratio(self, output: Tensor) -> Tensor:
        return F.relu(output)

    def log_ratio(self, output: Tensor) -> Tensor:
        return F.relu(output).log()


class Identity(Head):
    """r = g in training, for models that are linear in their weights; outputs below 0 are ratios of 0."""

    def ratio(self, output: Tensor) -> Tensor:
        return output

    def log_ratio(self, output: Tensor) -> Tensor:
        return F.relu(output).log()


class Exp(Head):
    """r = exp(g)."""

    def ratio(self, output: Tensor) -> Tensor:
        return output.exp()

    def log_ratio(self, output: Tensor) -> Tensor:
        return output


class Bounded(Head):
    """r = bound * sigmoid(g), with one bound for each model of a stack."""

    def __init__(self, bound: Tensor) -> None:
        self.bound = bound

    def ratio(self, output: Tensor) -> Tensor:
        return self.bound.to(output) * torch.sigmoid(output)

    def log_ratio(self, output: Tensor) -> Tensor:
        return self.bound.to(output).log() + F.logsigmoid(output)


def make_head(name: str, bound: Tensor) -> Head:
    """The head called ``name``; only ``bounded`` uses ``bound``, which broadcasts against outputs."""
    plain: dict[str, type[Head]] = {"softplus": Softplus, "relu": Relu, "identity": Identity, "exp": Exp}
    return plain[name]() if name in plain else Bounded(bound)


class RatioObjective:
    """Non-negative Bregman risk for training, uncorrected risk for selection.

    Parameters
    ----------
    generator : str
        Name of the Bregman generator.
    head : Head
        From outputs to ratios.
    alpha : Tensor of shape (models,)
        Strength of the correction.
    """

    def __init__(self, generator: str, head: Head, alpha: Tensor) -> None:
        self.generator = get_generator(generator)
        # LSIF uses ratios, the other generators use log-ratios
        self.log = self.generator.name != "lsif"
        self.link = head.log_ratio if self.log else head.ratio
        self.alpha = alpha

    def risk(
        self,
        positive: Tensor,
        unlabeled: Tensor,
        positive_weight: Tensor | None,
        unlabeled_weight: Tensor | None,
    ) -> Risk:
        """Corrected risk of outputs: an objective for the loop."""
        return nonnegative_bregman_risk(
            self.link(positive),
            self.link(unlabeled),
            alpha=self.alpha.to(positive),
            generator=self.generator,
            log=self.log,
            positive_weight=positive_weight,
            unlabeled_weight=unlabeled_weight,
        )

    def criterion(
        self,
        positive: Tensor,
        unlabeled: Tensor,
        positive_weight: Tensor | None,
        unlabeled_weight: Tensor | None,
    ) -> Tensor:
        """Uncorrected risk of outputs: a criterion for the loop."""
        risk: Tensor = bregman_risk(
            self.link(positive),
            self.link(unlabeled),
            generator=self.generator,
            log=self.log,
            positive_weight=positive_weight,
            unlabeled_weight=unlabeled_weight,
        )
        return risk
