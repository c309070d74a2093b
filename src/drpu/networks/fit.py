"""From the options of a learner and its rows to trained networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch.nn.parameter import is_lazy

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
    one_line,
)
from drpu._progress import part, progress_bar
from drpu._samples import Sample, SamplePair
from drpu._typing import IntArray, Rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.bregman import GENERATORS, get_generator
from drpu.models.features import Scaling
from drpu.models.risks import PUObjective
from drpu.models.splits import hold_out
from drpu.networks.augment import Augment, make_augment
from drpu.networks.augment import test_views as views_of
from drpu.networks.device import PRECISIONS, pick_device, private_random, weight_dtype
from drpu.networks.function import NetworkFunction, pixel_range
from drpu.networks.loop import (
    Outcome,
    Pool,
    Settings,
    Stack,
    Training,
    TrainingRows,
    as_floats,
    as_tensor,
    count_steps,
)
from drpu.networks.modules import MOST_CHANNELS, MakesModule, ResNet9, make_module, make_network
from drpu.networks.objectives import START, Aim, RatioObjective, on_outputs, score_aim
from drpu.networks.pretraining import pretrained

if TYPE_CHECKING:
    from torch import Tensor, nn

    from drpu.networks.learner import NetworkRatio, NetworkScore

ALPHAS = (0.05, 0.15, 0.3, 0.45, 0.6)  # candidates of alpha="auto"
FALLBACK_ALPHA = 0.3  # used if no rows can be held out to choose
EPOCHS, LEAST_STEPS = 20, 300  # epochs="auto": few epochs, but at least this many steps
STEPS_A_ROW = 5  # upper limit of these epochs, for very few rows
BATCHES, SMALL_BATCH, LARGE_BATCH = 100, 100, 500  # batch_size="auto": batches per epoch, within limits

HIDDEN = (100, 100)  # widths of the perceptron
CHANNELS, AUTO_CHANNELS = (64,), (16,)  # of resnet9 if requested, and by default, for training on a CPU
NETWORKS = ("auto", "perceptron", "resnet9")
IMAGE_SIDE = 16  # smallest side of images for which convolutions are the default
HEADS = ("softplus", "relu", "identity", "exp")
OPTIMIZERS = ("adamw", "adam")
DECAYS = ("cosine", "step", "constant")

# Options of resnet9 by effort; each level takes two to three times as long as the one before.
EFFORTS: dict[str, dict[str, Any]] = {
    "low": {"hidden": (32,), "epochs": 12, "teachers": 1},
    "medium": {"hidden": (32,), "epochs": 20, "teachers": 2, "students": 2, "refresh": 4, "mixup": True},
    "high": {"hidden": (64,), "epochs": 60, "teachers": 3, "students": 2, "refresh": 4, "mixup": True},
}
RATES, STEPS_AN_EPOCH = {32: 2e-3, 64: 1e-3}, 80  # learning rate by channels, and least number of steps
BATCH_PIXELS = 2**21  # two networks of 64 channels and their gradients then need less than 16 GiB

# Options that are None unless the user or an effort sets them.
PLAIN: dict[str, Any] = {
    "average_views": False, "learning_rate": 3e-3, "teachers": 0, "students": 1, "refresh": 0, "mixup": False,
    "dtype": "float32",
}  # fmt: skip
OF_STUDENTS = {"students", "refresh", "mixup"}

OnEpoch: TypeAlias = Callable[[Training, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(Settings):
    """Checked options of a learner for rows of one shape."""

    shape: tuple[int, ...]
    module: MakesModule | None
    network: str
    widths: tuple[int, ...]
    augment: Augment | None
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
        """Share of the time of a fit that training without labels takes, an epoch as long as two others."""
        before = 2 * self.pretrain if self.first is None else 0
        return before / (before + self.epochs * networks)

    def start(self, seed: int, rows: Rows) -> nn.Module:
        """A network to train; a residual network of this library is standardised by the rows."""
        if self.first is not None:
            return deepcopy(self.first)
        if self.module is not None:
            return make_module(self.module, seed)
        start = START[self.head]
        made = make_module(lambda: make_network(self.network, self.shape, self.widths, start=start), seed)
        if isinstance(made, ResNet9):
            made.standardise(rows)
        return made


@dataclass(frozen=True, slots=True)
class Network:
    """What differs between networks that are trained together."""

    seed: int
    alpha: float


def pretrain(options: Options, unlabeled: Sample, chosen: IntArray | None = None) -> Options:
    """The options with a network that all start from, trained on unlabeled rows alone."""
    if not options.pretrain or options.first is not None:
        return options
    rows = unlabeled.rows[weighty(unlabeled) if chosen is None else chosen]
    start = options.start(options.seed, rows)
    assert isinstance(start, ResNet9)
    names = ("batch_size", "augment", "seed", "dtype", "device", "verbose")
    settings = {name: getattr(options, name) for name in names}
    return replace(options, first=pretrained(start, rows, options.pretrain, **settings))


def shared_start(learner: NetworkRatio, unlabeled: Sample, fits: int) -> ResNet9 | None:
    """The network that several fits start from; its training is a part of the current step."""
    shape, n = unlabeled.rows.shape[1:], len(unlabeled)
    made, options = with_effort(learner, shape, n), check_options(learner, shape, n)
    teachers, rounds, students = (
        check_integer(name, getattr(made, name), low=low)
        for name, low in (("teachers", 0), ("rounds", 1), ("students", 1))
    )
    networks = teachers + rounds * students if teachers else len(options.alphas)
    with part(options.share_before(fits * networks)):
        return pretrain(options, unlabeled).first


def fit_ratio(options: Options, sample: SamplePair, holdout: SamplePair | None) -> NetworkFunction:
    """The density ratio of the value of alpha with the lowest holdout risk."""
    rows = _split(options, sample, holdout)
    alphas = options.alphas if rows.held or len(options.alphas) == 1 else (FALLBACK_ALPHA,)
    networks = [Network(options.seed, alpha) for alpha in alphas]
    before = options.share_before(len(networks))
    with progress_bar("epochs", show=options.verbose):
        with part(before):
            options = pretrain(options, sample.unlabeled, rows.unlabeled)
        with part(1 - before):
            return _best(options, _train(options, rows, networks, ratio_aim(options, networks)))


def fit_score(options: Options, sample: SamplePair, objective: PUObjective) -> NetworkFunction:
    """The score that minimises an objective."""
    rows, aim = _split(options, sample, None), score_aim(objective, *options.place)
    return _best(options, _train(options, rows, [Network(options.seed, 0.0)], aim))


def fit_networks(
    options: Options,
    sample: SamplePair,
    holdout: SamplePair | None,
    networks: Sequence[Network],
    *,
    shared: bool = False,
    on_epoch: OnEpoch | None = None,
) -> list[NetworkFunction]:
    """Density ratios, trained together.

    With ``shared`` both samples are the same array with different weights, and a step takes each row once.
    Holdout rows that are not given are drawn by the seed of the first network. ``on_epoch`` is called after
    each epoch with the run and the number of the epoch.
    """
    rows = _split(replace(options, seed=networks[0].seed), sample, holdout)
    if shared:
        both = np.union1d(rows.positive, rows.unlabeled)
        rows = replace(rows, positive=both, unlabeled=both, shared=True)
    found = _train(options, rows, networks, ratio_aim(options, networks), on_epoch)
    return [_best(options, [one]) for one in found]


def ratio_aim(options: Options, networks: Sequence[Network]) -> Aim:
    """The aim of density ratios, with a strength of the correction for each network."""
    device, _ = options.place
    alpha = torch.tensor([network.alpha for network in networks], dtype=torch.float64, device=device)
    objective = RatioObjective(get_generator(options.generator), options.head, alpha)
    return Aim(on_outputs(objective.risk), objective.criterion)


def make_function(
    options: Options,
    outcome: Outcome,
    network: int,
    alpha: float,
    scaling: Scaling | None = None,
    pixels: tuple[float, float] | None = None,
) -> NetworkFunction:
    """One network of a run as a function."""
    state = outcome.module(network).state_dict()
    if options.module is None:
        state = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    return NetworkFunction(
        network=options.network,  # type: ignore[arg-type]
        widths=options.widths,
        members=1,
        input_shape=options.shape,
        weights={name: value.cpu().numpy() for name, value in state.items()},
        scaling=scaling,
        head=options.head,  # type: ignore[arg-type]
        views=options.views,
        dtype=options.dtype,  # type: ignore[arg-type]
        alpha=None if options.head == "score" else alpha,
        best_epoch=int(outcome.best_epoch[network]),
        history=outcome.history(network),
        pixels=pixels,
        device=options.device,
        module=options.module,
    )


def _best(options: Options, found: Sequence[NetworkFunction | None]) -> NetworkFunction:
    """The converged function with the lowest holdout risk; the first one without holdout rows."""
    converged = [one for one in found if one is not None]
    if not converged:
        raise ParameterError(
            f"learning_rate must let training converge, got {options.learning_rate:g}: "
            "the risk is not finite any more. Lower it, or scale the rows."
        )
    return min(converged, key=lambda one: one.holdout_risk or 0.0)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Samples, the positions of their rows to train on and, if there are holdout rows, of those."""

    sample: SamplePair
    source: SamplePair  # of the holdout rows
    positive: IntArray
    unlabeled: IntArray
    held: tuple[IntArray, IntArray] | None
    shared: bool = False


def _split(options: Options, sample: SamplePair, holdout: SamplePair | None) -> _Rows:
    """The rows to train on and to hold out; rows of weight zero are left out."""
    positive, unlabeled = weighty(sample.positive), weighty(sample.unlabeled)
    if holdout is not None:
        held = np.arange(len(holdout.positive)), np.arange(len(holdout.unlabeled))
        return _Rows(sample, holdout, positive, unlabeled, held)
    if options.early_stopping or len(options.alphas) > 1:
        places = SamplePair(Sample(positive), Sample(unlabeled))
        split = hold_out(places, None, options.share, np.random.default_rng(options.seed))
        if split.held:
            held = split.held.positive.rows, split.held.unlabeled.rows
            return _Rows(sample, sample, split.train.positive.rows, split.train.unlabeled.rows, held)
    return _Rows(sample, sample, positive, unlabeled, None)


def weighty(sample: Sample) -> IntArray:
    """Positions of the rows with a weight above zero."""
    return np.arange(len(sample)) if sample.weight is None else np.flatnonzero(sample.weight > 0)


def _train(
    options: Options, rows: _Rows, networks: Sequence[Network], aim: Aim, on_epoch: OnEpoch | None = None
) -> list[NetworkFunction | None]:
    """A function for each network, or None if its training diverged."""
    device, dtype = options.place
    unlabeled = rows.sample.unlabeled
    scaling = Scaling.of(unlabeled.rows, unlabeled.weight) if options.network == "perceptron" else None
    seeds = [network.seed for network in networks]
    made = {seed: options.start(seed, unlabeled.rows) for seed in dict.fromkeys(seeds)}
    if options.module is not None:
        _try_module(options, made[seeds[0]], unlabeled.rows[:2])
    steps = count_steps(rows.unlabeled.size, options.batch_size)
    epochs = max(options.epochs, -(-options.least_steps // steps))

    pools, held = _pools(options, rows, scaling)
    training = Training(
        Stack([made[seed] for seed in seeds], device=device, dtype=dtype),
        pools,
        aim.loss,
        replace(options, epochs=epochs),
        seeds=seeds,
        holdout=held,
        criterion=aim.criterion,
        augment=options.augment,
    )
    if on_epoch is not None:
        training.on_epoch = partial(on_epoch, training)
    outcome = training.run()
    pixels = pixel_range(unlabeled.rows, options.network) if len(options.shape) > 1 else None
    return [
        make_function(options, outcome, i, network.alpha, scaling, pixels) if outcome.converged(i) else None
        for i, network in enumerate(networks)
    ]


def _try_module(options: Options, module: nn.Module, rows: Rows) -> None:
    """Raise if a network of the user does not accept rows, or does not return a tensor."""
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise ParameterError(
            "module must have weights, got one with lazy layers: give these layers their number of inputs, "
            "or call the module once."
        )
    device, dtype = options.place
    tried = deepcopy(module).to(device=device, dtype=dtype).eval()
    try:
        with torch.no_grad(), private_random(0, device):
            output = tried(as_floats(as_tensor(rows).to(device), dtype))
    except RuntimeError as error:
        raise ParameterError(
            f"module must accept a batch of rows of shape {options.shape}, got the error: {one_line(error)}."
            + (" If it needs a dimension of channels, pass X[:, None]." if len(options.shape) == 2 else "")
        ) from error
    if not isinstance(output, torch.Tensor):
        raise ParameterError(f"module must return one tensor, got a {type(output).__name__}.")


def _pools(
    options: Options, rows: _Rows, scaling: Scaling | None
) -> tuple[TrainingRows, tuple[Pool, Pool] | None]:
    """The rows on the device. Images of eight bits stay as they are, which needs a quarter of the memory."""
    device, dtype = options.place

    def load(sample: Sample, chosen: IntArray) -> Tensor:
        own = sample.rows if len(chosen) == len(sample) else sample.rows[chosen]
        found = as_tensor(own if scaling is None else scaling.softly_clipped(own))
        return found.to(device) if found.dtype == torch.uint8 else found.to(device=device, dtype=dtype)

    def pool(sample: Sample, chosen: IntArray, loaded: Tensor | None = None) -> Pool:
        weight = None
        if sample.weight is not None:
            weight = torch.as_tensor(sample.weight[chosen], dtype=dtype, device=device)
        return Pool(load(sample, chosen) if loaded is None else loaded, weight, dtype)

    unlabeled = pool(rows.sample.unlabeled, rows.unlabeled)
    positive = pool(rows.sample.positive, rows.positive, unlabeled.rows if rows.shared else None)
    training = TrainingRows(positive, unlabeled, rows.shared)
    if rows.held is None:
        return training, None
    return training, (pool(rows.source.positive, rows.held[0]), pool(rows.source.unlabeled, rows.held[1]))


def check_options(learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The checked options of a learner, for so many unlabeled rows of a shape."""
    learner = with_effort(learner, shape, n_unlabeled)
    generator = check_choice("generator", learner.generator, GENERATORS)
    head = check_choice("head", learner.head, HEADS)
    if head in ("relu", "identity") and generator != "lsif":
        raise ParameterError(
            f"head={head!r} needs generator='lsif', got {generator!r}: it makes ratios of zero."
        )
    if learner.module is not None and learner.hidden is not None:
        raise ParameterError("hidden must be None with a module: it shapes the default network.")
    auto = is_auto("epochs", learner.epochs)
    if np.shape(learner.betas) != (2,):
        raise ParameterError(f"betas must be a pair of numbers, got {learner.betas!r}.")
    betas = tuple(check_real("betas", beta, low=0, high=np.nextafter(1, 0)) for beta in learner.betas)
    name, rate = _network(learner, shape), check_rate(learner.learning_rate)
    batch = _batch(n_unlabeled // BATCHES, name, shape)
    if not is_auto("batch_size", learner.batch_size):
        batch = check_integer("batch_size", learner.batch_size, low=1)
    if batch == 1 and (learner.teachers or learner.pretrain):
        raise ParameterError(
            "batch_size must be at least 2 with teachers or pretrain, got 1: rows of a batch are compared."
        )
    return Options(
        shape=tuple(shape),
        module=learner.module,
        network=name,
        widths=_widths(learner, name),
        augment=make_augment(learner.augment),
        views=_views(learner),
        generator=generator,
        head=head,
        alphas=ALPHAS if is_auto("alpha", learner.alpha) else (check_prior("alpha", learner.alpha),),
        share=check_fraction("holdout", learner.holdout),
        least_steps=min(LEAST_STEPS, STEPS_A_ROW * n_unlabeled) if auto else 0,
        device=learner.device,
        seed=network_seed(learner.random_state),
        pretrain=_pretrain(learner, name),
        epochs=EPOCHS if auto else check_integer("epochs", learner.epochs, low=1),
        batch_size=batch,
        learning_rate=rate,
        weight_decay=_weight_decay(learner, rate),
        optimizer=check_choice("optimizer", learner.optimizer, OPTIMIZERS),
        betas=(betas[0], betas[1]),
        decay=check_choice("decay", learner.decay, DECAYS),
        ema=None if learner.ema is None else check_fraction("ema", learner.ema),
        early_stopping=check_flag("early_stopping", learner.early_stopping),
        accumulate_gradients=check_flag("accumulate_gradients", learner.accumulate_gradients),
        mixup=check_flag("mixup", learner.mixup),
        dtype=check_choice("dtype", learner.dtype, PRECISIONS),
        verbose=learner.verbose,
    )


def with_effort(learner: NetworkRatio, shape: Sequence[int], n_unlabeled: int) -> NetworkRatio:
    """The learner with the options of its effort, or without one the plain ones, for those left open."""
    if learner.effort is None:
        return replace(learner, **{k: v for k, v in PLAIN.items() if getattr(learner, k) is None})
    effort = check_choice("effort", learner.effort, EFFORTS)
    if _network(learner, shape) != "resnet9":
        raise ParameterError(
            f"effort must be None except for network='resnet9', got {effort!r} for rows of shape "
            f"{tuple(shape)}: it sets the options of that network, for images of shape (height, width) or "
            f"(channels, height, width). If a side is shorter than {IMAGE_SIDE} pixels, set "
            "network='resnet9'. For other networks set epochs, teachers and hidden."
        )
    batch = _batch(n_unlabeled // STEPS_AN_EPOCH, "resnet9", shape)
    wanted = EFFORTS[effort] | {"network": "resnet9", "batch_size": batch}
    wanted["learning_rate"] = RATES[wanted["hidden"][0]]
    if isinstance(learner.epochs, int) and learner.epochs <= wanted.get("refresh", 0):
        del wanted["refresh"]  # too few epochs to replace weights
    if learner.teachers == 0:  # then there are no students
        wanted = {name: value for name, value in wanted.items() if name not in OF_STUDENTS}
    wanted["average_views"] = effort != "low" and len(views_of(learner.augment)) > 1
    wanted["dtype"] = "bfloat16" if pick_device(learner.device).type == "cuda" else "float32"
    plain = type(learner)()  # None or "auto" in all these options
    left = {k: v for k, v in wanted.items() if getattr(learner, k) == getattr(plain, k)}
    return with_effort(replace(learner, effort=None, **left), shape, n_unlabeled)


def _batch(wanted: int, network: str, shape: Sequence[int]) -> int:
    """Rows of a batch, within limits; fewer of large images, because all layers are kept for the gradient."""
    batch = min(max(wanted, SMALL_BATCH), LARGE_BATCH)
    return batch if network != "resnet9" else max(16, min(batch, BATCH_PIXELS // math.prod(shape[-2:])))


def score_options(learner: NetworkScore, shape: Sequence[int], n_unlabeled: int) -> Options:
    """The same for a learner of scores, whose options of ratios must have their defaults."""
    from drpu.networks.learner import from_ratio

    plain = from_ratio(learner).set_params(alpha=0.0, head="exp")
    return replace(check_options(plain, shape, n_unlabeled), head="score")


def network_seed(random_state: Any) -> int:
    """The seed of a network from the parameter ``random_state``."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def _pretrain(learner: NetworkRatio, network: str) -> int:
    epochs = check_integer("pretrain", learner.pretrain, low=0)
    if epochs and network != "resnet9":
        raise ParameterError(
            f"pretrain must be 0 except for network='resnet9', got {epochs}: it trains the residual network "
            "of this library on images without labels. A module of your own may come with trained weights."
        )
    return epochs


def _weight_decay(learner: NetworkRatio, rate: float) -> float:
    decay = check_real("weight_decay", learner.weight_decay, low=0)
    if learner.optimizer == "adamw" and rate * decay >= 1:
        raise ParameterError(
            f"weight_decay times learning_rate must be below 1, got {decay:g} times {rate:g}: "
            "a step multiplies the weights by 1 minus this product. Lower one of them."
        )
    return decay


def _views(learner: NetworkRatio) -> str | None:
    if not check_flag("average_views", learner.average_views):
        return None
    if not isinstance(learner.augment, str):
        raise ParameterError(
            f"average_views must be False with augment={learner.augment!r}: scores are averaged over the "
            "kinds of changes that augment names."
        )
    if len(views_of(learner.augment)) == 1:
        raise ParameterError(
            f"average_views must be False with augment={learner.augment!r}: scores can be averaged over "
            "shift, crop, affine and flip."
        )
    return learner.augment


def _network(learner: NetworkRatio, shape: Sequence[int]) -> str:
    """The network for rows of a shape: "module" for a module of the user, otherwise a name.

    By default images with sides of at least 16 pixels get a residual network, all other rows a perceptron.
    """
    name = check_choice("network", learner.network, NETWORKS)
    if learner.module is not None and not callable(learner.module):
        raise ParameterError(
            f"module must be a torch module or a function that makes one, got {learner.module!r}: networks "
            f"are named by network, as in network='resnet9'."
        )
    if learner.module is not None:
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
            "numpy.moveaxis(X, -1, 1), or network='perceptron', which does not use the order of the axes."
        )
    return "perceptron"


def _widths(learner: NetworkRatio, network: str) -> tuple[int, ...]:
    """Widths of the layers of a network of this library; for resnet9 one number, the channels."""
    if network == "module":
        return ()
    default = HIDDEN if network != "resnet9" else AUTO_CHANNELS if learner.network == "auto" else CHANNELS
    widths = check_widths(default if learner.hidden is None else learner.hidden)
    if network == "resnet9" and len(widths) != 1:
        raise ParameterError(
            "hidden must hold one number for network='resnet9', the channels of its first layer, "
            f"got {widths!r}."
        )
    return widths
