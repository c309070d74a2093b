"""Networks trained in rounds: the ratio of one round weights the unlabeled rows of the next.

A network overfits a few labelled positives within some epochs. So some *teachers* are trained first. Their
mean ratio, calibrated on rows kept out, gives each unlabeled row its weight as a positive, and *students* are
trained on all rows with these weights. The students of one round are the teachers of the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from torch import Tensor, nn

from drpu import NetworkRatio, ScoreTails
from drpu.beliefs.methods import prior_from_tails
from drpu.models.features import Scaling
from drpu.models.risks import GENERATORS, Risk
from drpu.networks import modules
from drpu.networks.augment import Augment
from drpu.networks.fit import (
    Network,
    RatioObjective,
    best,
    functions_of,
    ratio_aim,
    starting_networks,
)
from drpu.networks.function import NetworkFunction
from drpu.networks.loop import (
    Aim,
    Forward,
    Loss,
    Pool,
    Training,
    TrainingBatch,
    TrainingRows,
    as_tensor,
    count_steps,
    shuffled_parts,
)
from drpu.networks.modules import log_ratio_of
from drpu.networks.options import Options, check_options, network_seed
from drpu.priors.calibration import calibrate
from paper.evaluate import Floats

__all__ = [
    "Taught",
    "Teaching",
    "fit_taught",
    "fixed_views",
    "mean_log_ratio",
    "student_weights",
    "teaching_weights",
]

ENOUGH = 25  # with fewer held-out positives a calibration would be too noisy
TEACHER_ALPHAS = (0.3, 0.45, 0.15, 0.6, 0.05)  # values for the teachers in turn, with alpha="auto"
STACKED = 3_000_000  # most network weights that are trained at a time
# Enough for networks whose weights are replaced by refresh.
TEACHING_EPOCHS = 20
TEACHING_STEPS = 1500
LEAST = 1e-6  # smallest weight, so that every row stays in the sample

Rows: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """How networks are trained in rounds.

    Attributes
    ----------
    teachers : int
        Networks to train first, on the labelled rows.
    rounds : int
        How many times students are trained.
    students : int
        Networks in each round. The model is the mean output of those of the last round.
    refresh : int
        Epochs after which students replace the weights by their own mean ratio while they train, again and
        again; 0 keeps the weights. All networks but the last students then train for at most 20 epochs, or
        1,500 steps if these are more.
    mixup : bool
        Train students on random averages of two rows and of their weights.
    labelled_share : float
        Least share of the labelled rows in the positive sample of a student, in [0, 1). The rest are
        unlabeled rows with their weights.
    average_views : bool
        Average outputs over fixed changes of each image, of the kinds that ``augment`` names.
    """

    teachers: int = 1
    rounds: int = 1
    students: int = 1
    refresh: int = 0
    mixup: bool = False
    labelled_share: float = 0.0
    average_views: bool = False


@dataclass(frozen=True, eq=False)
class Taught:
    """The log-ratio of the mean output of some networks, over some views of each image."""

    networks: Sequence[NetworkFunction]
    views: Sequence[Augment]

    @property
    def alpha(self) -> float | None:
        """Strength of the non-negative correction of the networks."""
        return self.networks[0].alpha

    @property
    def best_epoch(self) -> int:
        """The epoch that was kept, of the first network."""
        return self.networks[0].best_epoch

    def fast_score(self, X: Rows) -> Floats:
        """Scores of rows in the precision of the training."""
        first = self.networks[0]
        return np.asarray(modules.scores(first, self._mean_output, X, first.dtype))

    @cached_property
    def _mean_output(self) -> nn.Module:
        return _MeanOutput([network.torch_module for network in self.networks], self.views)


class _MeanOutput(nn.Module):
    """The mean output of several networks for several views of each image."""

    def __init__(self, networks: Sequence[nn.Module], views: Sequence[Augment]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.views = list(views)

    def forward(self, rows: Tensor) -> Tensor:
        """One output for each row."""
        outputs = []
        for view in self.views:
            images = view(rows)
            for network in self.networks:
                outputs.append(network(images).reshape(len(rows)).double())
        return torch.stack(outputs).mean(0)


def fit_taught(
    learner: NetworkRatio,
    teaching: Teaching,
    sample: tuple[Rows, Rows],
    holdout: tuple[Rows, Rows],
) -> Taught:
    """The last students, after teachers and rounds of students.

    ``sample`` and ``holdout`` are positive and unlabeled rows, to train on and kept out. Labelled rows get
    the largest weight. With ``refresh`` students also replace the weights by their own mean ratio while they
    train. Only the scores of a network are kept once its round is over.
    """
    n_networks = teaching.teachers + teaching.rounds * teaching.students
    rng = check_random_state(learner.random_state)
    _, *seeds, _ = rng.randint(2**31 - 1, size=n_networks + 2).tolist()
    rounds = _Rounds(learner, teaching, sample, holdout)
    networks = rounds.teach(seeds[: teaching.teachers])
    for number in range(teaching.rounds):
        scores = rounds.score(networks)
        first = teaching.teachers + number * teaching.students
        last = number + 1 == teaching.rounds
        networks = rounds.learn(seeds[first : first + teaching.students], scores, last=last)
    views: Sequence[Augment] = [nn.Identity()]
    if teaching.average_views:
        views = fixed_views(learner.augment)
    return Taught(list(networks), views)


class _Rounds:
    """The rows of all rounds, and networks trained on them, a few at a time."""

    def __init__(
        self, learner: NetworkRatio, teaching: Teaching, sample: tuple[Rows, Rows], holdout: tuple[Rows, Rows]
    ) -> None:
        self.learner = learner
        self.teaching = teaching
        self.rows = np.concatenate(sample)  # one array that both samples are parts of
        self.labelled = np.arange(len(self.rows)) < len(sample[0])
        self.unlabeled = self.rows[~self.labelled]
        self.held = holdout
        plain = clone(learner).set_params(alpha=0.0, random_state=0)
        self.options = check_options(plain, self.rows.shape[1:], len(self.rows))
        self.steps = count_steps(len(self.rows), self.options.batch_size)

    def teach(self, seeds: Sequence[int]) -> Iterator[NetworkFunction]:
        """Networks that learn from the labelled rows."""
        alpha = self.learner.alpha
        alphas = TEACHER_ALPHAS if isinstance(alpha, str) else (alpha,)
        epochs = self._options(last=False).epochs
        positive = self.rows[self.labelled]
        for seed, alpha_of_network in zip(seeds, cycle(alphas), strict=False):
            teacher = clone(self.learner)
            teacher.set_params(alpha=alpha_of_network, epochs=epochs, random_state=seed)
            function = teacher.fit_ratio(positive, self.unlabeled, holdout=self.held)
            assert isinstance(function, NetworkFunction)
            yield function

    def learn(
        self, seeds: Sequence[int], scores: Sequence[Floats], *, last: bool
    ) -> Iterator[NetworkFunction]:
        """Networks that learn from all rows, weighted by the scores of others."""
        networks = [Network(network_seed(seed), 0.0) for seed in seeds]
        rows = WeightedRows(self.rows, self.as_positive(scores), ~self.labelled, self.held)
        at_once = len(networks) if self.teaching.refresh else 1  # they refresh their weights together
        while networks:
            students = Students(self._options(last=last), rows, networks[:at_once], self)
            for network in students.fit():
                yield network
            networks = networks[at_once:]
            at_once = max(at_once, STACKED // _size(network))

    def as_positive(self, scores: Sequence[Floats]) -> Floats:
        """Weights of all training rows as positives."""
        of_unlabeled, largest = student_weights(*scores)
        weight = np.full(len(self.rows), largest)
        weight[~self.labelled] = of_unlabeled
        share = self.teaching.labelled_share
        least_total = share / (1 - share) * of_unlabeled.sum()
        weight[self.labelled] *= max(1.0, least_total / weight[self.labelled].sum())
        return weight

    def score(self, networks: Iterable[NetworkFunction]) -> list[Floats]:
        """Log of the mean ratio of networks, for the unlabeled rows and both kinds of held rows."""
        parts = (self.unlabeled, *self.held)
        scores: list[list[Floats]] = [[] for _ in parts]
        for network in networks:
            views: Sequence[Augment] = [nn.Identity()]
            if self.teaching.average_views and not self.teaching.refresh:
                # first weights that are refreshed are not worth up to ten views of each row
                views = fixed_views(self.learner.augment)
            taught = Taught([network], views)
            for of_part, rows in zip(scores, parts, strict=True):
                of_part.append(taught.fast_score(rows))
        return [mean_log_ratio(of_part) for of_part in scores]

    def _options(self, *, last: bool) -> Options:
        """The options of the networks of a round; before the last one fewer epochs may be enough."""
        if not self.teaching.refresh or last:
            return self.options
        enough = max(TEACHING_EPOCHS, -(-TEACHING_STEPS // self.steps))
        return replace(self.options, epochs=min(self.options.epochs, enough))


def _size(network: NetworkFunction) -> int:
    return sum(weight.numel() for weight in network.torch_module.parameters())


# -- students: each row is in both samples ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WeightedRows:
    """Rows that belong to both samples, with their weights in each, and rows kept out."""

    rows: Rows
    positive_weight: Floats
    unlabeled_weight: npt.NDArray[Any]
    held: tuple[Rows, Rows]


class SharedRows(TrainingRows):
    """Rows that belong to both samples; a step takes each of its rows once."""

    def epoch(self, n_steps: int, generators: Sequence[torch.Generator]) -> Iterator[tuple[Tensor, Tensor]]:
        """Positions of the rows of each step, twice."""
        both = shuffled_parts(len(self.unlabeled), n_steps, generators)
        return zip(both, both, strict=True)

    def batch(self, positive: Tensor, unlabeled: Tensor) -> TrainingBatch:
        """The rows at these positions, once, with both weights."""
        rows = self.unlabeled.take(unlabeled)
        weights = self.positive.take_weight(positive), self.unlabeled.take_weight(unlabeled)
        return TrainingBatch(rows, rows, *weights)


def mixed(batch: TrainingBatch) -> TrainingBatch:
    """Each row and its weights averaged with the row before it, in random shares.

    The share is close to 0 or 1 more often than in between: it follows an arcsine distribution.
    """
    rows, _, positive_weight, unlabeled_weight = batch
    angle = torch.rand(rows.shape[:2], device=rows.device) * (math.pi / 2)
    share = torch.sin(angle) ** 2

    def mix(values: Tensor) -> Tensor:
        wide = share.to(values.dtype).view(*share.shape, *[1] * (values.ndim - 2))
        return wide * values + (1 - wide) * values.roll(1, dims=1)

    assert positive_weight is not None  # students have weights
    assert unlabeled_weight is not None
    mixed_rows = mix(rows)
    return TrainingBatch(mixed_rows, mixed_rows, mix(positive_weight), mix(unlabeled_weight))


class StudentTraining(Training):
    """A run on rows that belong to both samples."""

    mixup = False

    def batch(self, positive: Tensor, unlabeled: Tensor) -> TrainingBatch:
        """The rows at these positions, changed once for both samples."""
        batch = self.rows.batch(positive, unlabeled)
        if self.settings.augment is not None:
            rows = batch.unlabeled
            changed = self.settings.augment(rows.flatten(0, 1)).view(rows.shape)
            batch = TrainingBatch(changed, changed, batch.positive_weight, batch.unlabeled_weight)
        return mixed(batch) if self.mixup else batch


def on_shared_outputs(objective: RatioObjective) -> Loss:
    """A loss from one pass over rows that belong to both samples."""

    def loss(forward: Forward, batch: TrainingBatch) -> Risk:
        output = forward(batch.unlabeled)
        return objective.risk(output, output, batch.positive_weight, batch.unlabeled_weight)

    return loss


def _pool(rows: Rows, options: Options, scaling: Scaling | None) -> Pool:
    """Rows on the device, without weights; images of eight bits stay as they are."""
    device, dtype = options.place
    if scaling is not None:
        rows = scaling.softly_clipped(rows)
    tensor = as_tensor(rows)
    if tensor.dtype != torch.uint8:
        tensor = tensor.to(dtype)
    return Pool(tensor.to(device), None, dtype)


class Students:
    """Students that are trained together, and the weights that they refresh."""

    def __init__(
        self, options: Options, rows: WeightedRows, networks: Sequence[Network], rounds: _Rounds
    ) -> None:
        self.options = options
        self.rows = rows
        self.networks = networks
        self.rounds = rounds

    def fit(self) -> list[NetworkFunction]:
        """A function for each network."""
        options = self.options
        scaling = None
        if options.network == "perceptron":
            scaling = Scaling.of(self.rows.rows, self.rows.unlabeled_weight.astype(np.float64))
        training = self._training(scaling)
        training.mixup = self.rounds.teaching.mixup
        if self.rounds.teaching.refresh:
            training.on_epoch = partial(self._refresh, training)
        outcome = training.run()
        functions = functions_of(options, outcome, self.networks, self.rows.rows, scaling)
        return [best(options, [function]) for function in functions]

    def _training(self, scaling: Scaling | None) -> StudentTraining:
        options = self.options
        rows = self.rows
        device, dtype = options.place
        plain = _pool(rows.rows, options, scaling)
        weights = []
        for weight in (rows.positive_weight, rows.unlabeled_weight):
            weights.append(torch.as_tensor(weight, dtype=dtype, device=device))
        positive = replace(plain, weight=weights[0])
        unlabeled = replace(plain, weight=weights[1])
        held = [_pool(held_rows, options, scaling) for held_rows in rows.held]
        aim = ratio_aim(options, self.networks)
        alpha = torch.zeros(len(self.networks), dtype=torch.float64, device=device)
        objective = RatioObjective(GENERATORS[options.generator], options.head, alpha)
        return StudentTraining(
            starting_networks(options, self.networks, rows.rows),
            SharedRows(positive, unlabeled),
            Aim(on_shared_outputs(objective), aim.criterion),
            replace(options, epochs=options.enough_epochs(self.rounds.steps)),
            seeds=[network.seed for network in self.networks],
            holdout=(held[0], held[1]),
        )

    def _refresh(self, training: Training, epoch: int) -> None:
        """Weight the rows by the mean ratio of networks in training, every ``refresh`` epochs."""
        if epoch % self.rounds.teaching.refresh or epoch == training.settings.epochs:
            return
        assert training.holdout is not None
        pool: Pool = training.rows.positive
        assert pool.weight is not None
        scores = []
        for part in (pool, *training.holdout):
            log_ratios = log_ratio_of(self.options.head, training.score(part).cpu()).numpy()
            scores.append(mean_log_ratio(list(log_ratios)))
        scores[0] = scores[0][~self.rounds.labelled]
        pool.weight.copy_(torch.as_tensor(self.rounds.as_positive(scores)))


# -- weights ---------------------------------------------------------------------------------------------


def student_weights(scores: Floats, held_positive: Floats, held_unlabeled: Floats) -> tuple[Floats, float]:
    """Weights of unlabeled rows as positives, and of labelled ones, from the teachers' scores."""
    tails = None
    if len(held_positive) >= ENOUGH:
        tails = ScoreTails(held_positive)
        tails.update(held_unlabeled)
    return teaching_weights(scores, tails)


def mean_log_ratio(scores: Sequence[Floats]) -> Floats:
    """Log of the mean ratio of several models, given one array of log-ratios per model."""
    return np.asarray(np.logaddexp.reduce(list(scores)) - np.log(len(scores)))


def teaching_weights(scores: Floats, tails: ScoreTails | None = None) -> tuple[Floats, float]:
    r"""Weights of unlabeled rows as positives, and the largest possible weight.

    The mean of any function over positives is its mean over unlabeled rows weighted by the
    ratio, :math:`E_+[f] = E_U[r f]`. So the ratio of one model allows another one to be trained
    on all unlabeled rows instead of a few labelled rows, which it would overfit. Held-out scores in
    ``tails`` calibrate the ratios. The largest weight, that of a labelled row, is 1 / prior.
    """
    if tails is None:
        ratio = np.exp(scores)
        return np.maximum(ratio, LEAST), float(ratio.max())
    # The upper reading limits the weight of a row.
    estimate = prior_from_tails(tails, method="plateau", warn=False)
    prior = max(estimate.value, 1 / tails.n)
    ratio = calibrate(tails, prior)(scores)
    return np.clip(ratio, LEAST, 1 / prior), 1 / prior


# -- views of images --------------------------------------------------------------------------------------


def fixed_views(augment: Any) -> list[Augment]:
    """Fixed changes of the kinds that ``augment`` names; a score is averaged over them."""
    names = augment.split("-")
    views: list[Augment] = [nn.Identity()]
    if "shift" in names or "crop" in names or "affine" in names:
        for down, right in ((1, 0), (-1, 0), (0, 1), (0, -1)):
            views.append(partial(_shifted, down, right))
    if "flip" in names:
        views += [partial(_mirrored, view) for view in views]
    return views


def _shifted(down: int, right: int, images: Tensor) -> Tensor:
    height, width = images.shape[-2:]
    rows = (torch.arange(height, device=images.device) - down).clamp(0, height - 1)
    columns = (torch.arange(width, device=images.device) - right).clamp(0, width - 1)
    return images.index_select(-2, rows).index_select(-1, columns)


def _mirrored(view: Augment, images: Tensor) -> Tensor:
    return view(images).flip(-1)
