"""From the options of a learner and its rows to trained networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.stats import beta
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from drpu._arrays import IntArray, Rows
from drpu._checks import one_line
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
    own_defaults,
    private_random,
)
from drpu.networks.modules import log_ratio_of, ratio_of
from drpu.networks.options import Options, check_options, score_options

FALLBACK_ALPHA = 0.3  # used if no rows can be held out to choose
QUANTILES = 4096  # size of the table of Beta quantiles

Objective: TypeAlias = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Risk]
Place: TypeAlias = tuple[torch.device, torch.dtype]  # of the weights


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


@own_defaults()
def fit_learner(
    learner: NetworkRatio, pair: SamplePair, holdout: SamplePair | None
) -> NetworkFunction:
    """The density ratio of a learner."""
    options = check_options(learner, pair.positive.rows.shape[1:], len(pair.unlabeled))
    return fit_ratio(options, pair, holdout)


def fit_ratio(options: Options, sample: SamplePair, holdout: SamplePair | None) -> NetworkFunction:
    """The density ratio of the value of alpha with the lowest holdout risk."""
    rows = _choose_rows(options, sample, holdout)
    alphas = options.alphas
    if rows.held is None and len(alphas) > 1:
        alphas = (FALLBACK_ALPHA,)
    networks = [Network(options.seed, alpha) for alpha in alphas]
    return best(options, _train(options, rows, networks, ratio_aim(options, networks)))


@own_defaults()
def fit_score(learner: NetworkScore, sample: SamplePair, objective: PUObjective) -> NetworkFunction:
    """The score that minimises an objective."""
    options = score_options(learner, sample.positive.rows.shape[1:], len(sample.unlabeled))
    rows = _choose_rows(options, sample, None)
    networks = [Network(options.seed, 0.0)]
    functions = _train(options, rows, networks, score_aim(objective, *options.place))
    return best(options, functions)


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
        input_shape=options.shape,
        weights=weights,
        scaling=scaling,
        head=options.head,  # type: ignore[arg-type]
        dtype=options.dtype,  # type: ignore[arg-type]
        alpha=None if options.head == "score" else alpha,
        best_epoch=int(outcome.best_epoch[network]),
        history=outcome.history(network),
        pixels=pixels,
        device=options.device,
        module=options.module,
    )


def best(options: Options, functions: Sequence[NetworkFunction | None]) -> NetworkFunction:
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


def _choose_rows(options: Options, sample: SamplePair, holdout: SamplePair | None) -> _ChosenRows:
    """The rows to train on and to hold out; rows of weight zero are left out."""
    positive = _weighty(sample.positive)
    unlabeled = _weighty(sample.unlabeled)
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


def _weighty(sample: Sample) -> IntArray:
    """Positions of the rows with a weight above zero."""
    if sample.weight is None:
        return np.arange(len(sample))
    return np.flatnonzero(sample.weight > 0)


def _pool(
    sample: Sample,
    chosen: IntArray,
    place: Place,
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
    weight = None
    if sample.weight is not None:
        weight = torch.as_tensor(sample.weight[chosen], dtype=dtype, device=device)
    return Pool(tensor.to(device), weight, dtype)


# -- training --------------------------------------------------------------------------------------


def _train(
    options: Options, rows: _ChosenRows, networks: Sequence[Network], aim: Aim
) -> list[NetworkFunction | None]:
    """A function for each network, or None if its training diverged."""
    unlabeled = rows.sample.unlabeled
    scaling = None
    if options.network == "perceptron":
        scaling = Scaling.of(unlabeled.rows, unlabeled.weight)
    pool = partial(_pool, place=options.place, scaling=scaling)
    positive_pool = pool(rows.sample.positive, rows.positive)
    unlabeled_pool = pool(unlabeled, rows.unlabeled)
    holdout = None
    if rows.held is not None:
        positive_held, unlabeled_held = rows.held
        holdout = (
            pool(rows.holdout_sample.positive, positive_held),
            pool(rows.holdout_sample.unlabeled, unlabeled_held),
        )
    steps = count_steps(rows.unlabeled.size, options.batch_size)
    training = Training(
        starting_networks(options, networks, unlabeled.rows),
        TrainingRows(positive_pool, unlabeled_pool),
        aim,
        replace(options, epochs=options.enough_epochs(steps)),
        seeds=[network.seed for network in networks],
        holdout=holdout,
    )
    return functions_of(options, training.run(), networks, unlabeled.rows, scaling)


def functions_of(
    options: Options,
    outcome: Outcome,
    networks: Sequence[Network],
    rows: Rows,
    scaling: Scaling | None,
) -> list[NetworkFunction | None]:
    """A function for each network trained on ``rows``, or None if its training diverged."""
    pixels = None
    if len(options.shape) > 1:
        pixels = pixel_range(rows, options.network)
    functions: list[NetworkFunction | None] = [None] * len(networks)
    for i, network in enumerate(networks):
        if outcome.converged(i):
            functions[i] = make_function(options, outcome, i, network.alpha, scaling, pixels)
    return functions


def starting_networks(options: Options, networks: Sequence[Network], rows: Rows) -> Stack:
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
