"""The checked options of a learner of networks, with their defaults for rows of one shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
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
from drpu.models.risks import GENERATORS
from drpu.networks.augment import fixed_views, make_augment
from drpu.networks.learner import NetworkRatio, NetworkScore, from_ratio
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
HEADS = ("softplus", "relu", "identity", "exp")
OPTIMIZERS = ("adamw", "adam")
DECAYS = ("cosine", "step", "constant")

# Options of resnet9 by effort; each level takes two to three times as long as the one before.
OF_STUDENTS = {"students": 2, "refresh": 4, "mixup": True}
EFFORTS: dict[str, dict[str, Any]] = {
    "low": {"hidden": (32,), "epochs": 12, "teachers": 1},
    "medium": {"hidden": (32,), "epochs": 20, "teachers": 2} | OF_STUDENTS,
    "high": {"hidden": (64,), "epochs": 60, "teachers": 3} | OF_STUDENTS,
}
RATES = {32: 2e-3, 64: 1e-3}  # learning rate by channels
STEPS_AN_EPOCH = 80  # least number of them

# Options that are None unless the user or an effort sets them.
PLAIN: dict[str, Any] = {
    "average_views": False,
    "learning_rate": 3e-3,
    "teachers": 0,
    "students": 1,
    "refresh": 0,
    "mixup": False,
    "dtype": "float32",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Settings):
    """Checked options of a learner for rows of one shape."""

    shape: tuple[int, ...]
    module: MakesModule | None
    network: str
    widths: tuple[int, ...]
    views: str | None
    generator: str
    head: str
    alphas: tuple[float, ...]
    share: float
    least_steps: int
    device: Any
    seed: int
    pretrain: int
    first: ResNet9 | None = None

    @property
    def place(self) -> tuple[torch.device, torch.dtype]:
        """Device and type of the weights."""
        return pick_device(self.device), weight_dtype(self.dtype)

    def share_before(self, networks: int) -> float:
        """Share of the time of a fit that training without labels takes.

        One of its epochs takes as long as two others.
        """
        before = 2 * self.pretrain if self.first is None else 0
        return before / (before + self.epochs * networks)

    def enough_epochs(self, steps: int) -> int:
        """The epochs of a run with so many steps in each; more than ``epochs`` if those are few."""
        return max(self.epochs, -(-self.least_steps // steps))

    def start(self, seed: int, rows: Rows) -> nn.Module:
        """A network to train; a residual network of this library is standardised by the rows."""
        if self.first is not None:
            return deepcopy(self.first)
        if self.module is not None:
            return make_module(self.module, seed)
        make = partial(make_network, self.network, self.shape, self.widths, start=START[self.head])
        network = make_module(make, seed)
        if isinstance(network, ResNet9):
            network.standardise(rows)
        return network


def check_options(learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The checked options of a learner, for so many unlabeled rows of a shape."""
    learner = with_effort(learner, shape, n_unlabeled)
    generator = check_choice("generator", learner.generator, GENERATORS)
    head = _head(learner, generator)
    if learner.module is not None and learner.hidden is not None:
        raise ParameterError("hidden must be None with a module: it shapes the default network.")
    epochs, least_steps = _epochs(learner, n_unlabeled)
    betas = _betas(learner)
    network = _network(learner, shape)
    rate = check_rate(learner.learning_rate)
    return Options(
        shape=tuple(shape),
        module=learner.module,
        network=network,
        widths=_widths(learner, network),
        augment=make_augment(learner.augment),
        views=_views(learner),
        generator=generator,
        head=head,
        alphas=_alphas(learner),
        share=check_fraction("holdout", learner.holdout),
        least_steps=least_steps,
        device=learner.device,
        seed=network_seed(learner.random_state),
        pretrain=_pretrain(learner, network),
        epochs=epochs,
        batch_size=_batch_size(learner, network, shape, n_unlabeled),
        learning_rate=rate,
        weight_decay=_weight_decay(learner, rate),
        optimizer=check_choice("optimizer", learner.optimizer, OPTIMIZERS),
        betas=betas,
        decay=check_choice("decay", learner.decay, DECAYS),
        ema=None if learner.ema is None else check_fraction("ema", learner.ema),
        early_stopping=check_flag("early_stopping", learner.early_stopping),
        mixup=check_flag("mixup", learner.mixup),
        dtype=check_choice("dtype", learner.dtype, PRECISIONS),
        verbose=learner.verbose,
    )


def score_options(learner: NetworkScore, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The same for a learner of scores, whose options of ratios must have their defaults."""
    plain = from_ratio(learner).set_params(alpha=0.0, head="exp")
    return replace(check_options(plain, shape, n_unlabeled), head="score")


def network_seed(random_state: Any) -> int:
    """The seed of a network from the parameter ``random_state``."""
    return int(check_random_state(random_state).randint(2**31 - 1))


# -- effort ----------------------------------------------------------------------------------------


def with_effort(learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int) -> NetworkRatio:
    """The learner with options of its effort, then plain ones, in place of those left open."""
    if learner.effort is not None:
        default = type(learner)()  # None or "auto" in all these options
        wanted = _effort_options(learner, shape, n_unlabeled)
        for name in list(wanted):
            if getattr(learner, name) != getattr(default, name):
                del wanted[name]
        learner = replace(learner, effort=None, **wanted)
    plain = {name: value for name, value in PLAIN.items() if getattr(learner, name) is None}
    return replace(learner, **plain)


def _effort_options(
    learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int
) -> dict[str, Any]:
    effort = check_choice("effort", learner.effort, EFFORTS)
    if _network(learner, shape) != "resnet9":
        raise ParameterError(
            f"effort must be None except for network='resnet9', got {effort!r} for rows of shape "
            f"{tuple(shape)}: it sets the options of that network, for images of shape (height, "
            "width) or (channels, height, width). If a side is shorter than "
            f"{IMAGE_SIDE} pixels, set network='resnet9'. For other networks set epochs, teachers "
            "and hidden."
        )
    wanted = dict(EFFORTS[effort])
    wanted["network"] = "resnet9"
    wanted["batch_size"] = _within_limits(n_unlabeled // STEPS_AN_EPOCH, "resnet9", shape)
    wanted["learning_rate"] = RATES[wanted["hidden"][0]]
    wanted["average_views"] = effort != "low" and len(fixed_views(learner.augment)) > 1
    on_gpu = pick_device(learner.device).type == "cuda"
    wanted["dtype"] = "bfloat16" if on_gpu else "float32"
    if isinstance(learner.epochs, int) and learner.epochs <= wanted.get("refresh", 0):
        del wanted["refresh"]  # too few epochs to replace weights
    if learner.teachers == 0:  # then there are no students
        for name in OF_STUDENTS:
            wanted.pop(name, None)
    return wanted


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


def _views(learner: NetworkRatio) -> str | None:
    """The names of the changes over which scores are averaged."""
    if not check_flag("average_views", learner.average_views):
        return None
    if len(fixed_views(learner.augment)) == 1:
        raise ParameterError(
            f"average_views must be False with augment={learner.augment!r}: scores can be averaged "
            "over the changes shift, crop, affine and flip, if augment names them."
        )
    return str(learner.augment)


def _head(learner: NetworkRatio, generator: str) -> str:
    head = check_choice("head", learner.head, HEADS)
    if head in ("relu", "identity") and generator != "lsif":
        raise ParameterError(
            f"head={head!r} needs generator='lsif', got {generator!r}: it makes ratios of zero."
        )
    return head


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
    batch_size = check_integer("batch_size", learner.batch_size, low=1)
    if batch_size == 1 and (learner.teachers or learner.pretrain):
        raise ParameterError(
            "batch_size must be at least 2 with teachers or pretrain, got 1: rows of a batch are "
            "compared."
        )
    return batch_size


def _within_limits(wanted: int, network: str, shape: Sequence[int]) -> int:
    """Rows of a batch, within limits.

    There are fewer of large images, because all layers are kept for the gradient.
    """
    batch = min(max(wanted, SMALL_BATCH), LARGE_BATCH)
    if network != "resnet9":
        return batch
    return max(16, min(batch, BATCH_PIXELS // math.prod(shape[-2:])))


def _betas(learner: NetworkRatio) -> tuple[float, float]:
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
    if learner.optimizer == "adamw" and rate * decay >= 1:
        raise ParameterError(
            f"weight_decay times learning_rate must be below 1, got {decay:g} times {rate:g}: "
            "a step multiplies the weights by 1 minus this product. Lower one of them."
        )
    return decay


def _pretrain(learner: NetworkRatio, network: str) -> int:
    epochs = check_integer("pretrain", learner.pretrain, low=0)
    if epochs and network != "resnet9":
        raise ParameterError(
            f"pretrain must be 0 except for network='resnet9', got {epochs}: it trains the "
            "residual network of this library on images without labels. A module of your own may "
            "come with trained weights."
        )
    return epochs
