"""Networks trained in rounds: the ratio of one round weights the unlabeled rows of the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from sklearn.base import clone

from drpu._checks import check_integer, check_random_state, check_real
from drpu._progress import part, progress_bar
from drpu._samples import Sample, SamplePair
from drpu._typing import FloatArray
from drpu.exceptions import FewPositivesWarning, ParameterError
from drpu.models.splits import TrainAndHeld, hold_out
from drpu.networks.fit import Network, Options, check_options, fit_networks, network_seed, pretrain, weighty
from drpu.networks.function import NetworkFunction
from drpu.networks.learner import NetworkRatio
from drpu.networks.loop import Training, count_steps
from drpu.networks.modules import ResNet9
from drpu.networks.objectives import log_ratio_of
from drpu.priors.calibration import calibrate
from drpu.priors.estimate import prior_from_tails
from drpu.priors.tails import ScoreTails

ENOUGH = 25  # with fewer held-out positives a calibration would be too noisy
TEACHER_ALPHAS = (0.3, 0.45, 0.15, 0.6, 0.05)  # values for the teachers in turn, with alpha="auto"
STACKED = 3_000_000  # most network weights that are trained at a time
TEACHING_EPOCHS, TEACHING_STEPS = 20, 1500  # enough for networks whose weights are replaced by refresh
LEAST = 1e-6  # smallest weight, so that every row stays in the sample


def fit_in_rounds(
    learner: NetworkRatio, pair: SamplePair, holdout: SamplePair | None, first: ResNet9 | None
) -> NetworkFunction:
    """Train teachers and rounds of students with the options of ``learner``, and return the last students.

    The mean ratio of the teachers, calibrated on rows kept out, gives each unlabeled row its weight
    as a positive, see :func:`teaching_weights`; labelled rows get
    the largest weight. Students are trained with these weights, and each further round uses the
    students before it as teachers. With ``refresh`` students also replace the weights by their own mean
    ratio while they train. Only the scores of a network are kept once its round is over.
    """
    rounds = check_integer("rounds", learner.rounds, low=1)
    students = check_integer("students", learner.students, low=1)
    teachers = check_integer("teachers", learner.teachers, low=1)
    check_real("labelled_share", learner.labelled_share, low=0, high=np.nextafter(1, 0))
    rng = check_random_state(learner.random_state)
    seeds = [int(seed) for seed in rng.randint(2**31 - 1, size=teachers + rounds * students + 2)]
    if pair.weighted:
        pair = pair.take(weighty(pair.positive), weighty(pair.unlabeled))
    split = hold_out(pair, holdout, learner.holdout, np.random.default_rng(seeds.pop(0)))
    start, trial = seeds.pop(), _Rounds(learner, split, len(seeds), first)
    if trial.refresh and split.held is None:
        FewPositivesWarning.issue(
            f"{len(pair.positive)} positives are too few to hold some out, so there is no refresh: "
            "students keep the weights of their teachers."
        )
    with progress_bar("networks", show=learner.verbose):
        with part(trial.before):
            trial.options = pretrain(replace(trial.options, seed=start), split.train.unlabeled)
        scores = trial.score(trial.teach(seeds[:teachers]))
        for number in range(rounds):
            at, last = teachers + number * students, number + 1 == rounds
            fitted = trial.learn(seeds[at : at + students], scores, last=last)
            if last:
                networks = list(fitted)
            else:
                scores = trial.score(fitted)
    return joined(networks)


class _Rounds:
    """The rows of all rounds, and networks trained on them, a few at a time."""

    def __init__(self, learner: NetworkRatio, split: TrainAndHeld, total: int, first: ResNet9 | None) -> None:
        self.learner, self.split, self.total = learner, split, total
        self.refresh = check_integer("refresh", learner.refresh, low=0)
        held = split.held
        self.held = (
            None if held is None else SamplePair(Sample(held.positive.rows), Sample(held.unlabeled.rows))
        )
        self.rows = split.train.stacked()  # one array that both samples are parts of
        given = split.train.weights()
        self.weight = np.ones(len(split.train)) if given is None else given
        self.labelled = split.train.flags() > 0
        plain = clone(learner).set_params(alpha=0.0, random_state=0)
        options = replace(check_options(plain, self.rows.shape[1:], len(self.rows)), first=first)
        self.steps = count_steps(len(self.rows), options.batch_size)
        epochs = max(options.epochs, -(-options.least_steps // self.steps))
        if self.refresh >= epochs:
            raise ParameterError(
                f"refresh must be below the number of epochs, {epochs}, got {self.refresh}: the "
                "weights would never be replaced."
            )
        self.options, self.before = replace(options, verbose=0), options.share_before(total)

    def teach(self, seeds: Sequence[int]) -> Iterator[NetworkFunction]:
        """Networks that learn from the labelled rows."""
        alphas = TEACHER_ALPHAS if isinstance(self.learner.alpha, str) else (self.learner.alpha,)
        networks = [Network(network_seed(s), alphas[i % len(alphas)]) for i, s in enumerate(seeds)]
        yield from self._fit(networks, np.where(self.labelled, self.weight, 0), shared=False)

    def learn(
        self, seeds: Sequence[int], scores: Sequence[FloatArray], *, last: bool
    ) -> Iterator[NetworkFunction]:
        """Networks that learn from all rows, weighted by the scores of others."""
        networks = [Network(network_seed(seed), 0.0) for seed in seeds]
        yield from self._fit(networks, self._as_positive(scores), shared=True, last=last)

    def _as_positive(self, scores: Sequence[FloatArray]) -> FloatArray:
        """Weights of all training rows as positives."""
        found = np.asarray(self.weight * np.concatenate(student_weights(self.split, *scores)))
        own, share = found[self.labelled], self.learner.labelled_share
        least = share / (1 - share) * found[~self.labelled].sum()
        found[self.labelled] = own * max(1.0, least / own.sum())
        return found

    def score(self, networks: Iterable[NetworkFunction]) -> list[FloatArray]:
        """Log of the mean ratio of networks, for the unlabeled rows and for both kinds of held-out rows."""
        held = () if self.held is None else (self.held.positive.rows, self.held.unlabeled.rows)
        parts = [self.split.train.unlabeled.rows, *held]
        if self.refresh and held:  # first weights only, so not worth up to ten views of each row
            networks = (replace(network, views=None) for network in networks)
        found = [[network.fast_score(rows) for rows in parts] for network in networks]
        return [mean_log_ratio(each) for each in zip(*found, strict=True)]

    def _fit(
        self, networks: Sequence[Network], positive_weight: FloatArray, *, shared: bool, last: bool = False
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
        refreshed = shared and self.held is not None and self.refresh > 0
        on_epoch = partial(self._refresh, options) if refreshed else None
        at_once = len(networks) if refreshed else 1
        while networks:
            group, networks = networks[:at_once], networks[at_once:]
            with part((1 - self.before) * len(group) / self.total):
                fitted = fit_networks(options, sample, self.held, group, shared=shared, on_epoch=on_epoch)
            for network in fitted:
                size = sum(weight.numel() for weight in network.torch_module.parameters())
                at_once = max(1, STACKED // size)
                yield network

    def _refresh(self, options: Options, training: Training, epoch: int) -> None:
        """Weight the rows by the mean ratio of the networks in training, every ``refresh`` epochs."""
        positive = training.rows.positive
        if epoch % self.refresh or epoch == training.settings.epochs:
            return
        assert positive.weight is not None
        outputs = [each.cpu() for each in (training.score(positive), *training.held_outputs)]
        own, *held = (mean_log_ratio(list(log_ratio_of(options.head, each).numpy())) for each in outputs)
        positive.weight.copy_(torch.as_tensor(self._as_positive([own[~self.labelled], *held])))


def student_weights(
    split: TrainAndHeld,
    scores: FloatArray,
    held_positive: FloatArray | None = None,
    held_unlabeled: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Weights of the labelled and of the unlabeled training rows as positives, from the teachers' scores."""
    tails, held = None, split.held
    if held is not None and held_positive is not None and len(held_positive) >= ENOUGH:
        tails = ScoreTails(held_positive, held.positive.weight)
        tails.update(held_unlabeled, held.unlabeled.weight)
    weights, ceiling = teaching_weights(scores, tails)
    return np.full(len(split.train.positive), ceiling), weights


def joined(networks: Sequence[NetworkFunction]) -> NetworkFunction:
    """One function whose output is the mean output of all."""
    first, n = networks[0], len(networks)
    if n == 1:
        return first
    weights = {
        f"members.{i}.{name}": value for i, one in enumerate(networks) for name, value in one.weights.items()
    }
    return replace(first, weights=weights, members=n)


def mean_log_ratio(scores: Sequence[FloatArray]) -> FloatArray:
    """Log of the mean ratio of several models, given one array of log-ratios per model."""
    return np.asarray(np.logaddexp.reduce(list(scores)) - np.log(len(scores)))


def teaching_weights(scores: FloatArray, tails: ScoreTails | None = None) -> tuple[FloatArray, float]:
    r"""Weights of unlabeled rows as positives, and the largest possible weight.

    The mean of any function over positives is its mean over unlabeled rows weighted by the
    ratio, :math:`E_+[f] = E_U[r f]`. So the ratio of one model allows another one to be trained
    on all unlabeled rows instead of a few labelled rows, which it would overfit. Held-out scores in
    ``tails`` calibrate the ratios. The largest weight, that of a labelled row, is 1 / prior.
    """
    if tails is None:
        ratio = np.exp(scores)
        return np.maximum(ratio, LEAST), float(ratio.max())
    # The upper reading limits the weight of a row; the classifier warns when it estimates its prior.
    prior = max(prior_from_tails(tails, method="adaptive", warn=False).value, 1 / tails.n)
    ratio = calibrate(tails, prior)(scores)
    return np.clip(ratio, LEAST, 1 / prior), 1 / prior
