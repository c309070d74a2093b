"""Networks trained in rounds: the ratio of one round weights the unlabeled rows of the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle

import numpy as np
import torch
from sklearn.base import clone

from drpu._arrays import FloatArray
from drpu._checks import check_integer, check_random_state, check_real
from drpu._progress import part, progress_bar
from drpu._samples import Sample, SamplePair
from drpu.exceptions import FewPositivesWarning, ParameterError
from drpu.models.crossfit import TrainAndHeld, hold_out
from drpu.networks.fit import Network, fit_networks, fit_ratio, pretrain, weighty
from drpu.networks.function import NetworkFunction
from drpu.networks.learner import NetworkRatio
from drpu.networks.loop import Training, count_steps
from drpu.networks.modules import ResNet9, log_ratio_of
from drpu.networks.options import Options, check_options, network_seed, with_effort
from drpu.priors.calibration import calibrate
from drpu.priors.methods import prior_from_tails
from drpu.priors.tails import ScoreTails

ENOUGH = 25  # with fewer held-out positives a calibration would be too noisy
TEACHER_ALPHAS = (0.3, 0.45, 0.15, 0.6, 0.05)  # values for the teachers in turn, with alpha="auto"
STACKED = 3_000_000  # most network weights that are trained at a time
# Enough for networks whose weights are replaced by refresh.
TEACHING_EPOCHS = 20
TEACHING_STEPS = 1500
LEAST = 1e-6  # smallest weight, so that every row stays in the sample


def fit_learner(
    learner: NetworkRatio, pair: SamplePair, holdout: SamplePair | None, first: ResNet9 | None
) -> NetworkFunction:
    """The density ratio of a learner, with teachers or without.

    ``first`` is the network that all others start from, if it has been trained already.
    """
    shape = pair.positive.rows.shape[1:]
    n_unlabeled = len(pair.unlabeled)
    learner = with_effort(learner, shape, n_unlabeled)
    options = check_options(learner, shape, n_unlabeled)
    if check_integer("teachers", learner.teachers, low=0):
        return fit_in_rounds(learner, pair, holdout, first)
    for_students = (
        learner.rounds,
        learner.students,
        learner.refresh,
        learner.mixup,
        learner.labelled_share,
    )
    if for_students != (1, 1, 0, False, 0):
        raise ParameterError(
            "rounds, students, refresh, mixup and labelled_share must be left at their defaults "
            "without teachers, as they apply to students: set teachers=3, for example."
        )
    return fit_ratio(replace(options, first=first), pair, holdout)


def fit_in_rounds(
    learner: NetworkRatio, pair: SamplePair, holdout: SamplePair | None, first: ResNet9 | None
) -> NetworkFunction:
    """The last students, after teachers and rounds of students by the options of ``learner``.

    The mean ratio of the teachers, calibrated on rows kept out, gives each unlabeled row its weight
    as a positive, see :func:`teaching_weights`; labelled rows get the largest weight. Students are
    trained with these weights, and each further round uses the students before it as teachers. With
    ``refresh`` students also replace the weights by their own mean ratio while they train. Only the
    scores of a network are kept once its round is over.
    """
    n_rounds = check_integer("rounds", learner.rounds, low=1)
    n_students = check_integer("students", learner.students, low=1)
    n_teachers = check_integer("teachers", learner.teachers, low=1)
    check_real("labelled_share", learner.labelled_share, low=0, high=np.nextafter(1, 0))
    if pair.weighted:
        pair = pair.take(weighty(pair.positive), weighty(pair.unlabeled))

    n_networks = n_teachers + n_rounds * n_students
    rng = check_random_state(learner.random_state)
    split_seed, *seeds, start_seed = rng.randint(2**31 - 1, size=n_networks + 2).tolist()
    split = hold_out(pair, holdout, learner.holdout, np.random.default_rng(split_seed))
    rounds = _Rounds(learner, split, n_networks, first)
    if rounds.refresh and split.held is None:
        FewPositivesWarning.issue(
            f"{len(pair.positive)} positives are too few to hold some out, so there is no refresh: "
            "students keep the weights of their teachers."
        )
    with progress_bar("networks", show=learner.verbose):
        rounds.pretrain(start_seed)
        networks = rounds.teach(seeds[:n_teachers])
        for number in range(n_rounds):
            scores = rounds.score(networks)
            start = n_teachers + number * n_students
            last = number + 1 == n_rounds
            networks = rounds.learn(seeds[start : start + n_students], scores, last=last)
        return joined(list(networks))


class _Rounds:
    """The rows of all rounds, and networks trained on them, a few at a time."""

    def __init__(
        self, learner: NetworkRatio, split: TrainAndHeld, total: int, first: ResNet9 | None
    ) -> None:
        self.learner = learner
        self.split = split
        self.total = total
        self.refresh = check_integer("refresh", learner.refresh, low=0)
        self.held: SamplePair | None = None  # without weights
        if split.held is not None:
            positive = Sample(split.held.positive.rows)
            unlabeled = Sample(split.held.unlabeled.rows)
            self.held = SamplePair(positive, unlabeled)
        self.rows = split.train.stacked()  # one array that both samples are parts of
        train = split.train
        self.weight = np.concatenate([train.positive.weights(), train.unlabeled.weights()])
        self.labelled = split.train.flags() > 0

        plain = clone(learner).set_params(alpha=0.0, random_state=0)
        options = check_options(plain, self.rows.shape[1:], len(self.rows))
        options = replace(options, first=first, verbose=0)
        self.steps = count_steps(len(self.rows), options.batch_size)
        epochs = options.enough_epochs(self.steps)
        if self.refresh >= epochs:
            raise ParameterError(
                f"refresh must be below the number of epochs, {epochs}, got {self.refresh}: the "
                "weights would never be replaced."
            )
        self.options = options
        self.share_before = options.share_before(total)

    def pretrain(self, seed: int) -> None:
        """Train the network that all others start from, if the options ask for one."""
        with part(self.share_before):
            options = replace(self.options, seed=seed)
            self.options = pretrain(options, self.split.train.unlabeled)

    def teach(self, seeds: Sequence[int]) -> Iterator[NetworkFunction]:
        """Networks that learn from the labelled rows."""
        alpha = self.learner.alpha
        alphas = TEACHER_ALPHAS if isinstance(alpha, str) else (alpha,)
        networks = []
        for seed, alpha_of_network in zip(seeds, cycle(alphas), strict=False):
            networks.append(Network(network_seed(seed), alpha_of_network))
        yield from self._fit(networks, np.where(self.labelled, self.weight, 0), shared=False)

    def learn(
        self, seeds: Sequence[int], scores: Sequence[FloatArray], *, last: bool
    ) -> Iterator[NetworkFunction]:
        """Networks that learn from all rows, weighted by the scores of others."""
        networks = [Network(network_seed(seed), 0.0) for seed in seeds]
        yield from self._fit(networks, self._as_positive(scores), shared=True, last=last)

    def _as_positive(self, scores: Sequence[FloatArray]) -> FloatArray:
        """Weights of all training rows as positives."""
        ratios = np.concatenate(student_weights(self.split, *scores))
        weight = np.asarray(self.weight * ratios)
        share = self.learner.labelled_share
        least_total = share / (1 - share) * weight[~self.labelled].sum()
        total = weight[self.labelled].sum()
        weight[self.labelled] *= max(1.0, least_total / total)
        return weight

    def score(self, networks: Iterable[NetworkFunction]) -> list[FloatArray]:
        """Log of the mean ratio of networks, for the unlabeled rows and both kinds of held rows."""
        parts = [self.split.train.unlabeled.rows]
        if self.held is not None:
            parts += [self.held.positive.rows, self.held.unlabeled.rows]
        scores: list[list[FloatArray]] = [[] for _ in parts]
        for network in networks:
            if self.refresh and self.held is not None:
                # first weights only, so not worth up to ten views of each row
                network = replace(network, views=None)
            for of_part, rows in zip(scores, parts, strict=True):
                of_part.append(network.fast_score(rows))
        return [mean_log_ratio(of_part) for of_part in scores]

    def _fit(
        self,
        networks: Sequence[Network],
        positive_weight: FloatArray,
        *,
        shared: bool,
        last: bool = False,
    ) -> Iterator[NetworkFunction]:
        """Fitted networks, one after the other; those that refresh weights are trained all at once.

        The others are trained first one alone, then as many at a time as their size allows.
        """
        options = replace(self.options, mixup=self.options.mixup and shared)
        if self.refresh and not last:
            # these networks only give the first weights
            enough = max(TEACHING_EPOCHS, -(-TEACHING_STEPS // self.steps))
            options = replace(options, epochs=min(options.epochs, enough))
        unlabeled_weight = np.where(self.labelled, 0, self.weight)
        sample = SamplePair(Sample(self.rows, positive_weight), Sample(self.rows, unlabeled_weight))
        on_epoch = None
        at_once = 1
        if shared and self.refresh and self.held is not None:
            on_epoch = partial(self._refresh, options)
            at_once = len(networks)
        while networks:
            group = networks[:at_once]
            networks = networks[at_once:]
            with part((1 - self.share_before) * len(group) / self.total):
                fitted = fit_networks(
                    options, sample, self.held, group, shared=shared, on_epoch=on_epoch
                )
            for network in fitted:
                size = sum(weight.numel() for weight in network.torch_module.parameters())
                at_once = max(1, STACKED // size)
                yield network

    def _refresh(self, options: Options, training: Training, epoch: int) -> None:
        """Weight the rows by the mean ratio of networks in training, every ``refresh`` epochs."""
        if epoch % self.refresh or epoch == training.settings.epochs:
            return
        positive = training.rows.positive
        assert positive.weight is not None
        scores = []
        for outputs in (training.score(positive), *training.held_outputs):
            log_ratios = log_ratio_of(options.head, outputs.cpu()).numpy()
            scores.append(mean_log_ratio(list(log_ratios)))
        scores[0] = scores[0][~self.labelled]
        positive.weight.copy_(torch.as_tensor(self._as_positive(scores)))


def student_weights(
    split: TrainAndHeld,
    scores: FloatArray,
    held_positive: FloatArray | None = None,
    held_unlabeled: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights of labelled and unlabeled training rows as positives, from the teachers' scores."""
    tails = None
    held = split.held
    if held is not None and held_positive is not None and len(held_positive) >= ENOUGH:
        tails = ScoreTails(held_positive, held.positive.weight)
        tails.update(held_unlabeled, held.unlabeled.weight)
    weights, largest = teaching_weights(scores, tails)
    return np.full(len(split.train.positive), largest), weights


def joined(networks: Sequence[NetworkFunction]) -> NetworkFunction:
    """One function whose output is the mean output of all."""
    if len(networks) == 1:
        return networks[0]
    weights = {}
    for i, network in enumerate(networks):
        for name, value in network.weights.items():
            weights[f"members.{i}.{name}"] = value
    return replace(networks[0], weights=weights, members=len(networks))


def mean_log_ratio(scores: Sequence[FloatArray]) -> FloatArray:
    """Log of the mean ratio of several models, given one array of log-ratios per model."""
    return np.asarray(np.logaddexp.reduce(list(scores)) - np.log(len(scores)))


def teaching_weights(
    scores: FloatArray, tails: ScoreTails | None = None
) -> tuple[FloatArray, float]:
    r"""Weights of unlabeled rows as positives, and the largest possible weight.

    The mean of any function over positives is its mean over unlabeled rows weighted by the
    ratio, :math:`E_+[f] = E_U[r f]`. So the ratio of one model allows another one to be trained
    on all unlabeled rows instead of a few labelled rows, which it would overfit. Held-out scores in
    ``tails`` calibrate the ratios. The largest weight, that of a labelled row, is 1 / prior.
    """
    if tails is None:
        ratio = np.exp(scores)
        return np.maximum(ratio, LEAST), float(ratio.max())
    # The upper reading limits the weight of a row; the classifier warns when it estimates its
    # prior.
    estimate = prior_from_tails(tails, method="adaptive", warn=False)
    prior = max(estimate.value, 1 / tails.n)
    ratio = calibrate(tails, prior)(scores)
    return np.clip(ratio, LEAST, 1 / prior), 1 / prior
