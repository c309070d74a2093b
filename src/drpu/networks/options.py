"""The checked options of a learner of networks, with their defaults for rows of one shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from drpu._arrays import Rows
from drpu._checks import (
    check_choice,
    check_flag,
    check_fraction,
    check_integer,
    check_prior,
    check_random_state,
    check_rate,
    check_real,
    check_widths,
    is_auto,
)
from drpu.exceptions import DataError, ParameterError
from drpu.networks.augment import make_augment
from drpu.networks.learner import NetworkRatio, NetworkScore, refuse_alpha
from drpu.networks.loop import PRECISIONS, Settings, pick_device, weight_dtype
from drpu.networks.modules import (
    MOST_CHANNELS,
    START,
    MakesModule,
    ResNet9,
    make_module,
    make_network,
)

ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # candidates of alpha="auto"

# epochs="auto": few epochs, but at least so many steps, and for very few rows no more than these.
EPOCHS = 20
LEAST_STEPS = 300
STEPS_A_ROW = 5

# batch_size="auto": so many batches per epoch, within limits.
BATCHES = 100
SMALL_BATCH = 100
LARGE_BATCH = 500
BATCH_PIXELS = 2**21  # two networks of 64 channels and their gradients then need less than 16 GiB

HIDDEN = (100, 100)  # widths of the perceptron
CHANNELS = (64,)  # of resnet9 if it is requested
AUTO_CHANNELS = (16,)  # of resnet9 by default, for training on a CPU
IMAGE_SIDE = 16  # smallest side of images for which convolutions are the default

NETWORKS = ("auto", "perceptron", "resnet9")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Settings):
    """Checked options of a learner for rows of one shape."""

    shape: tuple[int, ...]
    module: MakesModule | None
    network: str
    widths: tuple[int, ...]
    alphas: tuple[float, ...]
    share: float
    least_steps: int
    device: Any
    seed: int
    generator: str = "bkl"
    head: str = "softplus"

    @property
    def place(self) -> tuple[torch.device, torch.dtype]:
        """Device and type of the weights."""
        return pick_device(self.device), weight_dtype(self.dtype)

    def enough_epochs(self, steps: int) -> int:
        """The epochs of a run with so many steps in each; more than ``epochs`` if those are few."""
        return max(self.epochs, -(-self.least_steps // steps))

    def start(self, seed: int, rows: Rows) -> nn.Module:
        """A network to train; a residual network of this library is standardised by the rows."""
        if self.module is not None:
            return make_module(self.module, seed)
        make = partial(make_network, self.network, self.shape, self.widths, start=START[self.head])
        network = make_module(make, seed)
        if isinstance(network, ResNet9):
            network.standardise(rows)
        return network


def check_options(learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The checked options of a learner, for so many unlabeled rows of a shape."""
    if learner.module is not None and learner.hidden is not None:
        raise ParameterError("hidden must be None with a module: it shapes the default network.")
    epochs, least_steps = _epochs(learner, n_unlabeled)
    network = _network(learner, shape)
    rate = check_rate(learner.learning_rate)
    return Options(
        shape=tuple(shape),
        module=learner.module,
        network=network,
        widths=_widths(learner, network),
        augment=make_augment(learner.augment),
        alphas=_alphas(learner),
        share=check_fraction("holdout", learner.holdout),
        least_steps=least_steps,
        device=learner.device,
        seed=network_seed(learner.random_state),
        epochs=epochs,
        batch_size=_batch_size(learner, network, shape, n_unlabeled),
        learning_rate=rate,
        weight_decay=_weight_decay(learner, rate),
        early_stopping=check_flag("early_stopping", learner.early_stopping),
        dtype=check_choice("dtype", learner.dtype, PRECISIONS),
        verbose=learner.verbose,
    )


def score_options(learner: NetworkScore, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The same for a learner of scores, whose ``alpha`` must have its default."""
    options = check_options(learner, shape, n_unlabeled)
    refuse_alpha(learner)
    return replace(options, alphas=(0.0,), head="score", betas=_betas(learner))


def network_seed(random_state: Any) -> int:
    """The seed of a network from the parameter ``random_state``."""
    return int(check_random_state(random_state).randint(2**31 - 1))


# -- single options --------------------------------------------------------------------------------


def _network(learner: NetworkRatio, shape: Sequence[int]) -> str:
    """The network for rows of a shape: "module" for a module of the user, otherwise a name.

    By default images with sides of at least 16 pixels get a residual network, all other rows a
    perceptron.
    """
    name = check_choice("network", learner.network, NETWORKS)
    if learner.module is not None:
        if not callable(learner.module):
            raise ParameterError(
                f"module must be a torch module or a function that makes one, got "
                f"{learner.module!r}: networks are named by network, as in network='resnet9'."
            )
        if name != "auto":
            raise ParameterError(f"network must be 'auto' with a module of your own, got {name!r}.")
        return "module"
    if name != "auto":
        return name
    if len(shape) in (2, 3) and min(shape[-2:]) >= IMAGE_SIDE:
        return "resnet9"
    if len(shape) == 3 and min(shape[:2]) >= IMAGE_SIDE and shape[2] <= MOST_CHANNELS:
        raise DataError(
            f"rows of shape {tuple(shape)} look like images whose channels come last: pass "
            "numpy.moveaxis(X, -1, 1), or network='perceptron', which does not use the order of "
            "the axes."
        )
    return "perceptron"


def _widths(learner: NetworkRatio, network: str) -> tuple[int, ...]:
    """Widths of the layers of a network of this library; for resnet9 one number, the channels."""
    if network == "module":
        return ()
    hidden = learner.hidden
    if hidden is None and network != "resnet9":
        hidden = HIDDEN
    elif hidden is None:
        hidden = AUTO_CHANNELS if learner.network == "auto" else CHANNELS
    widths = check_widths(hidden)
    if network == "resnet9" and len(widths) != 1:
        raise ParameterError(
            "hidden must hold one number for network='resnet9', the channels of its first layer, "
            f"got {widths!r}."
        )
    return widths


def _alphas(learner: NetworkRatio) -> tuple[float, ...]:
    if is_auto("alpha", learner.alpha):
        return ALPHAS
    return (check_prior("alpha", learner.alpha),)


def _epochs(learner: NetworkRatio, n_unlabeled: int) -> tuple[int, int]:
    """Number of epochs, and the least number of steps."""
    if is_auto("epochs", learner.epochs):
        return EPOCHS, min(LEAST_STEPS, STEPS_A_ROW * n_unlabeled)
    return check_integer("epochs", learner.epochs, low=1), 0


def _batch_size(learner: NetworkRatio, network: str, shape: Sequence[int], n_unlabeled: int) -> int:
    if is_auto("batch_size", learner.batch_size):
        return _within_limits(n_unlabeled // BATCHES, network, shape)
    return check_integer("batch_size", learner.batch_size, low=1)


def _within_limits(wanted: int, network: str, shape: Sequence[int]) -> int:
    """Rows of a batch, within limits.

    There are fewer of large images, because all layers are kept for the gradient.
    """
    batch = min(max(wanted, SMALL_BATCH), LARGE_BATCH)
    if network != "resnet9":
        return batch
    return max(16, min(batch, BATCH_PIXELS // math.prod(shape[-2:])))


def _betas(learner: NetworkScore) -> tuple[float, float]:
    if np.shape(learner.betas) != (2,):
        raise ParameterError(f"betas must be a pair of numbers, got {learner.betas!r}.")
    below_one = np.nextafter(1, 0)
    first, second = learner.betas
    return (
        check_real("betas", first, low=0, high=below_one),
        check_real("betas", second, low=0, high=below_one),
    )


def _weight_decay(learner: NetworkRatio, rate: float) -> float:
    decay = check_real("weight_decay", learner.weight_decay, low=0)
    if rate * decay >= 1:
        raise ParameterError(
            f"weight_decay times learning_rate must be below 1, got {decay:g} times {rate:g}: "
            "a step multiplies the weights by 1 minus this product. Lower one of them."
        )
    return decay
