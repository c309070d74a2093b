"""Losses as functions of the margin, for scores that are above 0 for the positive class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from drpu._arrays import namespace, softplus
from drpu._checks import check_choice
from drpu._typing import Array, FloatArray
from drpu.exceptions import ParameterError

__all__ = ["LOSSES", "MarginLoss", "get_loss", "sigmoid"]


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
