"""From the options of a learner and its rows to trained networks, with or without labels first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.parameter import is_lazy

from drpu._arrays import IntArray, Rows
from drpu._checks import check_integer, one_line
from drpu._progress import part, progress, progress_bar
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ParameterError
from drpu.models.crossfit import hold_out
from drpu.models.features import Scaling
from drpu.models.risks import (
    GENERATORS,
    BregmanGenerator,
    PUObjective,
    Risk,
    ShiftedRisk,
    VariationalRisk,
    bregman_risk,
    mixup_penalty,
    nonnegative_bregman_risk,
)
from drpu.networks.augment import Augment, resampled
from drpu.networks.function import NetworkFunction, pixel_range
from drpu.networks.learner import NetworkRatio, NetworkScore
from drpu.networks.loop import (
    Aim,
    Forward,
    Loss,
    Outcome,
    Pool,
    Stack,
    Training,
    TrainingBatch,
    TrainingRows,
    as_floats,
    as_tensor,
    count_steps,
    pick_device,
    precision,
    private_random,
)
from drpu.networks.modules import ResNet9, log_ratio_of, ratio_of
from drpu.networks.options import Options, check_options, score_options, with_effort

SMALLEST = 0.6  # side of the smallest part of an image that a view shows
CHANGE = 0.5  # limit of the logarithms of gain and exponent
TEMPERATURE = 0.2
EMBEDDED_SIZE = 128
RATE = 2e-3
WEIGHT_DECAY = 0.05


@dataclass(frozen=True, slots=True)
class Pretraining:
    """Settings of a training without labels."""

    epochs: int
    batch_size: int
    seed: int
    augment: Augment | None = None
    dtype: str = "float32"
    device: Any = "auto"
    verbose: int = 0


def pretrained(network: ResNet9, rows: Rows, settings: Pretraining) -> ResNet9:
    """A copy of ``network``, trained to find the other random view of an image among views of many.

    The features that it needs for this often differ between classes, and they are learned from all
    rows, not only from the labelled ones. Only the convolutions change; a small network behind them
    is not kept. See :func:`view` for the views and :func:`contrast` for the loss.
    """
    device = pick_device(settings.device)
    pixels = as_tensor(rows).to(device)
    limits = pixel_range(rows, "resnet9")
    n_steps = count_steps(len(rows), settings.batch_size)
    with (
        private_random(settings.seed, device),
        precision(settings.dtype, device),
        progress_bar("pretraining", show=settings.verbose),
    ):
        trained = deepcopy(network).to(device).train()
        head = _head(trained.last.in_features).to(device)
        weights = [*trained.layers.parameters(), *head.parameters()]
        optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=WEIGHT_DECAY, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, RATE, total_steps=settings.epochs * n_steps
        )
        for _ in progress(range(settings.epochs), total=settings.epochs):
            for batch in torch.randperm(len(rows), device=device).tensor_split(n_steps):
                images = as_floats(pixels[batch], torch.float32)
                first_view = view(images, settings.augment, limits)
                second_view = view(images, settings.augment, limits)
                features = trained.features(torch.cat([first_view, second_view])).float()
                with torch.autocast(device.type, enabled=False):
                    loss = contrast(head(features))
                optimizer.zero_grad()
                torch.autograd.backward(loss)
                optimizer.step()
                schedule.step()
    return trained.cpu().eval()


def _head(width: int) -> nn.Module:
    return nn.Sequential(
        nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, EMBEDDED_SIZE)
    )


def view(images: Tensor, augment: Augment | None, limits: tuple[float, float]) -> Tensor:
    """A random part of each image in full size, changed by ``augment``, brightness and contrast.

    Each channel of an image has its own gain and exponent, for pixels between 0 and 1.
    """
    n = len(images)
    device = images.device
    side = torch.empty(n, 1, device=device).uniform_(SMALLEST, 1)
    matrix = torch.zeros(n, 2, 3, device=device)
    matrix[:, 0, 0] = side[:, 0]
    matrix[:, 1, 1] = side[:, 0]
    matrix[:, :, 2] = (1 - side) * torch.empty(n, 2, device=device).uniform_(-1, 1)
    parts = resampled(images, matrix)
    if augment is not None:
        parts = augment(parts)

    low, high = limits
    spread = max(high - low, 1e-6)
    pixels = parts.reshape(n, -1, *images.shape[-2:])
    logs = torch.empty(2, n, pixels.shape[1], 1, 1, device=device).uniform_(-CHANGE, CHANGE)
    gain, exponent = logs.exp()
    changed: Tensor = gain * ((pixels - low) / spread).clamp(0, 1) ** exponent
    return (low + spread * changed).view(images.shape)


def contrast(outputs: Tensor) -> Tensor:
    """Mean cross-entropy of finding, for each view, the other view of its image among all others.

    The two halves of ``outputs`` are views of the same images. The probabilities are a softmax of
    the cosines between the outputs of two views, divided by the temperature.
    """
    unit = F.normalize(outputs, dim=1)
    alike = (unit @ unit.T / TEMPERATURE).fill_diagonal_(-math.inf)
    other = torch.arange(len(unit), device=unit.device).roll(len(unit) // 2)
    return F.cross_entropy(alike, other)


FALLBACK_ALPHA = 0.3  # used if no rows can be held out to choose
QUANTILES = 4096  # size of the table of Beta quantiles

Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Risk]
Place: TypeAlias = tuple[torch.device, torch.dtype]  # of the weights
OnEpoch: TypeAlias = Callable[[Training, int], None]


# -- objectives ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RatioObjective:
    """The non-negative Bregman risk for training, the uncorrected risk for choices."""

    generator: BregmanGenerator
    head: str  # from outputs to ratios
    alpha: Tensor  # strength of the correction

    def risk(self, positive: Tensor, unlabeled: Tensor, *weights: Tensor | None) -> Risk:
        """The corrected risk of outputs; ``weights`` are those of positive and unlabeled rows."""
        return nonnegative_bregman_risk(
            self._link(positive),
            self._link(unlabeled),
            *weights,
            alpha=self.alpha.to(positive),
            generator=self.generator,
            log=self._uses_logs,
        )

    def criterion(self, positive: Tensor, unlabeled: Tensor, *weights: Tensor | None) -> Tensor:
        """The uncorrected risk of outputs."""
        linked = (self._link(positive), self._link(unlabeled))
        risk: Tensor = bregman_risk(
            *linked, *weights, generator=self.generator, log=self._uses_logs
        )
        return risk

    @property
    def _uses_logs(self) -> bool:
        """LSIF uses ratios, the other generators use log-ratios."""
        return self.generator.name != "lsif"

    def _link(self, output: Tensor) -> Tensor:
        if self._uses_logs:
            return log_ratio_of(self.head, output)
        return ratio_of(self.head, output)


def on_outputs(objective: Objective) -> Loss:
    """A loss from an objective of outputs, in one pass so that batch norm uses both samples."""

    def loss(forward: Forward, batch: TrainingBatch) -> Risk:
        if batch.shared:
            positive = unlabeled = forward(batch.unlabeled)
        else:
            n = batch.positive.shape[1]
            output = forward(torch.cat([batch.positive, batch.unlabeled], dim=1))
            positive = output[:, :n]
            unlabeled = output[:, n:]
        return objective(positive, unlabeled, batch.positive_weight, batch.unlabeled_weight)

    return loss


def ratio_aim(options: Options, networks: Sequence[Network]) -> Aim:
    """The aim of density ratios, with a strength of the correction for each network."""
    device, _ = options.place
    alphas = [network.alpha for network in networks]
    alpha = torch.tensor(alphas, dtype=torch.float64, device=device)
    objective = RatioObjective(GENERATORS[options.generator], options.head, alpha)
    return Aim(on_outputs(objective.risk), objective.criterion)


def score_aim(objective: PUObjective, device: torch.device, dtype: torch.dtype) -> Aim:
    """The aim of a network for a score; priors may be lists, with one number for each network."""
    if isinstance(objective, VariationalRisk):
        return Aim(_with_mixup(objective, device, dtype), objective.criterion)
    if isinstance(objective, ShiftedRisk):  # priors in the precision of the network

        def numbers(prior: Any) -> Any:
            return torch.tensor(np.atleast_1d(prior), dtype=dtype, device=device)

        objective = replace(
            objective,
            unlabeled_prior=numbers(objective.unlabeled_prior),
            prior=numbers(objective.prior),
        )
    return Aim(on_outputs(objective.risk), objective.criterion)


def _with_mixup(objective: VariationalRisk, device: torch.device, dtype: torch.dtype) -> Loss:
    """The variational risk with its MixUp penalty; weights are drawn on the device."""
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    quantiles = beta.ppf(levels, objective.concentration, objective.concentration)
    table = torch.as_tensor(quantiles, dtype=dtype, device=device)

    def loss(forward: Forward, batch: TrainingBatch) -> Risk:
        positive, unlabeled, positive_weight, unlabeled_weight = batch
        n_positive = positive.shape[1]
        n_unlabeled = unlabeled.shape[1]
        n = min(n_positive, n_unlabeled)
        shape = (unlabeled.shape[0], n)
        share = table[torch.randint(QUANTILES, shape, device=device)]
        wide = share.view(*shape, *[1] * (unlabeled.ndim - 2))
        mixed = wide * unlabeled[:, :n] + (1 - wide) * positive[:, :n]

        output = forward(torch.cat([positive, unlabeled, mixed], dim=1))
        sizes = [n_positive, n_unlabeled, n]
        of_positive, of_unlabeled, of_mixed = torch.split(output, sizes, dim=1)
        risk = objective.criterion(of_positive, of_unlabeled, positive_weight, unlabeled_weight)
        penalty = mixup_penalty(of_mixed, of_unlabeled[:, :n], share)
        return Risk(risk, risk + objective.mixup * penalty)

    return loss


# -- fits ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Network:
    """What differs between networks that are trained together."""

    seed: int
    alpha: float


def fit_ratio(options: Options, sample: SamplePair, holdout: SamplePair | None) -> NetworkFunction:
    """The density ratio of the value of alpha with the lowest holdout risk."""
    rows = _split(options, sample, holdout)
    alphas = options.alphas
    if rows.held is None and len(alphas) > 1:
        alphas = (FALLBACK_ALPHA,)
    networks = [Network(options.seed, alpha) for alpha in alphas]
    before = options.share_before(len(networks))
    with progress_bar("epochs", show=options.verbose):
        with part(before):
            options = pretrain(options, sample.unlabeled, rows.unlabeled)
        with part(1 - before):
            functions = _train(options, rows, networks, ratio_aim(options, networks))
    return _best(options, functions)


def fit_score(learner: NetworkScore, sample: SamplePair, objective: PUObjective) -> NetworkFunction:
    """The score that minimises an objective."""
    options = score_options(learner, sample.positive.rows.shape[1:], len(sample.unlabeled))
    rows = _split(options, sample, None)
    networks = [Network(options.seed, 0.0)]
    functions = _train(options, rows, networks, score_aim(objective, *options.place))
    return _best(options, functions)


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

    With ``shared`` both samples are the same array with different weights, and a step takes each
    row once. Holdout rows that are not given are drawn by the seed of the first network.
    ``on_epoch`` is called after each epoch with the run and the number of the epoch.
    """
    rows = _split(replace(options, seed=networks[0].seed), sample, holdout)
    if shared:
        both = np.union1d(rows.positive, rows.unlabeled)
        rows = replace(rows, positive=both, unlabeled=both, shared=True)
    functions = _train(options, rows, networks, ratio_aim(options, networks), on_epoch)
    return [_best(options, [function]) for function in functions]


def shared_start(learner: NetworkRatio, unlabeled: Sample, fits: int) -> ResNet9 | None:
    """The network that several fits start from; its training is a part of the current step."""
    shape = unlabeled.rows.shape[1:]
    n = len(unlabeled)
    options = check_options(learner, shape, n)
    learner = with_effort(learner, shape, n)
    teachers = check_integer("teachers", learner.teachers, low=0)
    rounds = check_integer("rounds", learner.rounds, low=1)
    students = check_integer("students", learner.students, low=1)
    networks = len(options.alphas)
    if teachers:
        networks = teachers + rounds * students
    with part(options.share_before(fits * networks)):
        return pretrain(options, unlabeled).first


def pretrain(options: Options, unlabeled: Sample, chosen: IntArray | None = None) -> Options:
    """The options with a network that all start from, trained on unlabeled rows alone."""
    if not options.pretrain or options.first is not None:
        return options
    if chosen is None:
        chosen = weighty(unlabeled)
    rows = unlabeled.rows[chosen]
    start = options.start(options.seed, rows)
    assert isinstance(start, ResNet9)
    settings = Pretraining(
        epochs=options.pretrain,
        batch_size=options.batch_size,
        seed=options.seed,
        augment=options.augment,
        dtype=options.dtype,
        device=options.device,
        verbose=options.verbose,
    )
    return replace(options, first=pretrained(start, rows, settings))


def make_function(
    options: Options,
    outcome: Outcome,
    network: int,
    alpha: float,
    scaling: Scaling | None = None,
    pixels: tuple[float, float] | None = None,
) -> NetworkFunction:
    """One network of a run as a function."""
    weights = {}
    for name, value in outcome.module(network).state_dict().items():
        counts_batches = name.endswith("num_batches_tracked")
        if options.module is not None or not counts_batches:
            weights[name] = value.cpu().numpy()
    return NetworkFunction(
        network=options.network,  # type: ignore[arg-type]
        widths=options.widths,
        members=1,
        input_shape=options.shape,
        weights=weights,
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


def _best(options: Options, functions: Sequence[NetworkFunction | None]) -> NetworkFunction:
    """The converged function with the lowest holdout risk; the first one without holdout rows."""
    converged = [function for function in functions if function is not None]
    if not converged:
        raise ParameterError(
            f"learning_rate must let training converge, got {options.learning_rate:g}: "
            "the risk is not finite any more. Lower it, or scale the rows."
        )
    risks = [function.holdout_risk or 0.0 for function in converged]
    return converged[int(np.argmin(risks))]


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ChosenRows:
    """Samples, the positions of rows to train on and, if there are holdout rows, of those."""

    sample: SamplePair
    holdout_sample: SamplePair  # that holdout rows are taken from
    positive: IntArray
    unlabeled: IntArray
    held: tuple[IntArray, IntArray] | None
    shared: bool = False


def _split(options: Options, sample: SamplePair, holdout: SamplePair | None) -> _ChosenRows:
    """The rows to train on and to hold out; rows of weight zero are left out."""
    positive = weighty(sample.positive)
    unlabeled = weighty(sample.unlabeled)
    if holdout is not None:
        held = (np.arange(len(holdout.positive)), np.arange(len(holdout.unlabeled)))
        return _ChosenRows(sample, holdout, positive, unlabeled, held)
    if options.early_stopping or len(options.alphas) > 1:
        positions = SamplePair(Sample(positive), Sample(unlabeled))
        split = hold_out(positions, None, options.share, np.random.default_rng(options.seed))
        if split.held:
            held = (split.held.positive.rows, split.held.unlabeled.rows)
            train = split.train
            return _ChosenRows(sample, sample, train.positive.rows, train.unlabeled.rows, held)
    return _ChosenRows(sample, sample, positive, unlabeled, None)


def weighty(sample: Sample) -> IntArray:
    """Positions of the rows with a weight above zero."""
    if sample.weight is None:
        return np.arange(len(sample))
    return np.flatnonzero(sample.weight > 0)


def _pool(
    sample: Sample,
    chosen: IntArray,
    place: tuple[torch.device, torch.dtype],
    scaling: Scaling | None,
) -> Pool:
    """The chosen rows of a sample on the device, with their weights.

    Images of eight bits stay as they are, which needs a quarter of the memory.
    """
    device, dtype = place
    rows = sample.rows
    if len(chosen) < len(sample):
        rows = rows[chosen]
    if scaling is not None:
        rows = scaling.softly_clipped(rows)
    tensor = as_tensor(rows)
    if tensor.dtype != torch.uint8:
        tensor = tensor.to(device=device, dtype=dtype)
    return Pool(tensor.to(device), _pool_weight(sample, chosen, place), dtype)


def _pool_weight(sample: Sample, chosen: IntArray, place: Place) -> Tensor | None:
    if sample.weight is None:
        return None
    device, dtype = place
    return torch.as_tensor(sample.weight[chosen], dtype=dtype, device=device)


# -- training --------------------------------------------------------------------------------------


def _train(
    options: Options,
    rows: _ChosenRows,
    networks: Sequence[Network],
    aim: Aim,
    on_epoch: OnEpoch | None = None,
) -> list[NetworkFunction | None]:
    """A function for each network, or None if its training diverged."""
    unlabeled = rows.sample.unlabeled
    scaling = None
    if options.network == "perceptron":
        scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
    pool = partial(_pool, place=options.place, scaling=scaling)
    unlabeled_pool = pool(unlabeled, rows.unlabeled)
    if rows.shared:  # loaded once
        weight = _pool_weight(rows.sample.positive, rows.positive, options.place)
        positive_pool = replace(unlabeled_pool, weight=weight)
    else:
        positive_pool = pool(rows.sample.positive, rows.positive)
    holdout = None
    if rows.held is not None:
        positive_held, unlabeled_held = rows.held
        holdout = (
            pool(rows.holdout_sample.positive, positive_held),
            pool(rows.holdout_sample.unlabeled, unlabeled_held),
        )
    steps = count_steps(rows.unlabeled.size, options.batch_size)
    training = Training(
        _starting_networks(options, networks, unlabeled.rows),
        TrainingRows(positive_pool, unlabeled_pool, shared=rows.shared),
        aim,
        replace(options, epochs=options.enough_epochs(steps)),
        seeds=[network.seed for network in networks],
        holdout=holdout,
    )
    if on_epoch is not None:
        training.on_epoch = partial(on_epoch, training)
    outcome = training.run()

    pixels = None
    if len(options.shape) > 1:
        pixels = pixel_range(unlabeled.rows, options.network)
    functions: list[NetworkFunction | None] = [None] * len(networks)
    for i, network in enumerate(networks):
        if outcome.converged(i):
            functions[i] = make_function(options, outcome, i, network.alpha, scaling, pixels)
    return functions


def _starting_networks(options: Options, networks: Sequence[Network], rows: Rows) -> Stack:
    """A network for each; those of one seed start from the same weights."""
    modules: dict[int, nn.Module] = {}
    for network in networks:
        if network.seed not in modules:
            modules[network.seed] = options.start(network.seed, rows)
    if options.module is not None:
        _try_module(options, modules[networks[0].seed], rows[:2])
    device, dtype = options.place
    return Stack([modules[network.seed] for network in networks], device=device, dtype=dtype)


def _try_module(options: Options, module: nn.Module, rows: Rows) -> None:
    """Raise if a network of the user does not accept rows, or does not return a tensor."""
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise ParameterError(
            "module must have weights, got one with lazy layers: give these layers their number of "
            "inputs, or call the module once."
        )
    device, dtype = options.place
    copy = deepcopy(module).to(device=device, dtype=dtype).eval()
    batch = as_floats(as_tensor(rows).to(device), dtype)
    try:
        with torch.no_grad(), private_random(0, device):
            output = copy(batch)
    except RuntimeError as error:
        advice = ""
        if len(options.shape) == 2:
            advice = " If it needs a dimension of channels, pass X[:, None]."
        raise ParameterError(
            f"module must accept a batch of rows of shape {options.shape}, got the error: "
            f"{one_line(error)}.{advice}"
        ) from error
    if not isinstance(output, torch.Tensor):
        raise ParameterError(f"module must return one tensor, got a {type(output).__name__}.")
