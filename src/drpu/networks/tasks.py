"""Checked parameters of a NetworkRatio, with its training rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from torch import nn

from drpu._checks import check_choice, check_fraction, check_integer, check_prior, check_real
from drpu._samples import SamplePair
from drpu.core.bregman import GENERATORS
from drpu.exceptions import ParameterError
from drpu.networks.augment import Augment, make_augment
from drpu.networks.device import PRECISIONS
from drpu.networks.loop import Settings

if TYPE_CHECKING:
    from drpu.networks.learner import NetworkRatio
    from drpu.networks.score import NetworkScore

__all__ = [
    "ALPHAS",
    "FALLBACK_ALPHA",
    "HIDDEN",
    "NETWORKS",
    "Task",
    "hidden_widths",
    "make_task",
    "network_name",
]

ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # candidates of alpha="auto"
FALLBACK_ALPHA = 0.3  # used if no rows can be held out to choose
EPOCHS, LEAST_STEPS = 20, 300  # epochs="auto": few epochs, but at least this many steps
STEPS_A_ROW = 5  # upper limit of these epochs, for very few rows
BATCHES, SMALL_BATCH, LARGE_BATCH = (
    100,
    100,
    500,
)  # batch_size="auto": this many batches per epoch, within limits

HIDDEN = (100, 100)  # widths of the perceptron
CHANNELS, AUTO_CHANNELS = (
    (64,),
    (16,),
)  # channels of resnet9 if requested, and by default, so that it can be trained on a CPU
NETWORKS = ("auto", "perceptron", "resnet9")
IMAGE_SIDE = 16  # smallest side of images for which convolutions are the default
HEADS = ("softplus", "relu", "identity", "exp", "bounded")
OPTIMIZERS = ("adamw", "adam")
DECAYS = ("cosine", "step", "constant")


@dataclass(frozen=True, slots=True)
class Task:
    """Checked parameters and rows of one model."""

    sample: SamplePair
    holdout: SamplePair | None
    module: nn.Module | Callable[[], nn.Module] | None
    network: str
    augment: Augment | None
    hidden: tuple[int, ...]
    generator: str
    head: str
    bound: float | None
    alphas: tuple[float, ...]
    fallback_alpha: float
    share: float
    least_steps: int
    settings: Settings
    device: Any
    seed: int


def make_task(model: NetworkRatio, sample: SamplePair, holdout: SamplePair | None) -> Task:
    """The checked parameters and rows of a model."""
    generator = check_choice("generator", model.generator, GENERATORS)
    head = check_choice("head", model.head, HEADS)
    if head in ("relu", "identity") and generator != "lsif":
        raise ParameterError(
            f"head={head!r} needs generator='lsif', got {generator!r}: it makes ratios of zero."
        )
    if model.module is not None and model.hidden is not None:
        raise ParameterError("hidden must be None with a module: it shapes the default network.")
    shape = sample.positive.rows.shape[1:]
    _check_views(model)
    alphas, bound = _alphas(model), _bound(model, head)
    share = check_fraction("holdout", model.holdout)
    auto = isinstance(model.epochs, str) and check_choice("epochs", model.epochs, ["auto"]) == "auto"
    return Task(
        sample=sample,
        holdout=holdout,
        module=model.module,
        network=network_name(model, shape),
        augment=make_augment(model.augment),
        hidden=hidden_widths(model, shape),
        generator=generator,
        head=head,
        bound=bound,
        alphas=alphas,
        fallback_alpha=FALLBACK_ALPHA,
        share=share,
        least_steps=min(LEAST_STEPS, STEPS_A_ROW * len(sample.unlabeled)) if auto else 0,
        settings=_settings(model, len(sample.unlabeled)),
        device=model.device,
        seed=int(check_random_state(model.random_state).randint(2**31 - 1)),
    )


def _settings(model: NetworkRatio, n_unlabeled: int) -> Settings:
    betas = tuple(check_real("betas", beta, low=0, high=np.nextafter(1, 0)) for beta in model.betas)
    if len(betas) != 2:
        raise ParameterError(f"betas must be a pair of numbers, got {model.betas!r}.")
    epochs = EPOCHS if isinstance(model.epochs, str) else check_integer("epochs", model.epochs, low=1)
    return Settings(
        epochs=epochs,
        batch_size=_batch_size(model, n_unlabeled),
        learning_rate=(check_real("learning_rate", model.learning_rate, low=0),),
        weight_decay=(check_real("weight_decay", model.weight_decay, low=0),),
        optimizer=check_choice("optimizer", model.optimizer, OPTIMIZERS),
        betas=(betas[0], betas[1]),
        decay=check_choice("decay", model.decay, DECAYS),
        ema=None if model.ema is None else check_fraction("ema", model.ema),
        early_stopping=bool(model.early_stopping),
        accumulate_gradients=bool(model.accumulate_gradients),
        mixup=bool(model.mixup),
        dtype=check_choice("dtype", model.dtype, PRECISIONS),
        verbose=int(model.verbose),
    )


def _batch_size(model: NetworkRatio, n_unlabeled: int) -> int:
    if isinstance(model.batch_size, str):
        check_choice("batch_size", model.batch_size, ["auto"])
        return min(max(n_unlabeled // BATCHES, SMALL_BATCH), LARGE_BATCH)
    return check_integer("batch_size", model.batch_size, low=1)


def _alphas(model: NetworkRatio) -> tuple[float, ...]:
    if isinstance(model.alpha, str):
        check_choice("alpha", model.alpha, ["auto"])
        return ALPHAS
    return (check_prior("alpha", model.alpha),)


def _bound(model: NetworkRatio, head: str) -> float | None:
    if head != "bounded":
        if model.bound is not None:
            raise ParameterError(f"bound must be None with head={head!r}: only head='bounded' has one.")
        return None
    if model.bound is None and not isinstance(model.alpha, str) and model.alpha == 0:
        raise ParameterError("bound must be given with head='bounded' and alpha=0, which bounds nothing.")
    return None if model.bound is None else check_real("bound", model.bound, low=1)


def _check_views(model: NetworkRatio) -> None:
    if model.average_views and not isinstance(model.augment, str):
        raise ParameterError(
            f"average_views must be False with augment={model.augment!r}: scores are averaged over the "
            "kinds of changes that augment names."
        )


def network_name(model: NetworkRatio | NetworkScore, shape: Sequence[int]) -> str:
    """The network for rows of a shape: "module" for a module of the user, otherwise a name.

    By default images with sides of at least 16 pixels get a residual network, all other rows a perceptron.
    """
    name = check_choice("network", model.network, NETWORKS)
    if isinstance(model.module, str):
        raise ParameterError(
            f"module must be a torch module or a function that makes one, got {model.module!r}: networks are "
            f"named by network, as in network='resnet9'."
        )
    if model.module is not None:
        if name != "auto":
            raise ParameterError(f"network must be 'auto' with a module of your own, got {name!r}.")
        return "module"
    if name == "auto":
        return "resnet9" if len(shape) in (2, 3) and min(shape[-2:]) >= IMAGE_SIDE else "perceptron"
    return name


def hidden_widths(model: NetworkRatio | NetworkScore, shape: Sequence[int]) -> tuple[int, ...]:
    """Widths of the layers of a built-in network; for resnet9 one number, the channels."""
    name = network_name(model, shape)
    default = HIDDEN if name != "resnet9" else AUTO_CHANNELS if model.network == "auto" else CHANNELS
    widths = default if model.hidden is None else model.hidden
    if name == "resnet9" and len(widths) != 1:
        raise ParameterError(
            "hidden must hold one number for network='resnet9', the channels of its first layer, "
            f"got {widths!r}."
        )
    return tuple(check_integer("hidden", width, low=1) for width in widths)
