"""The training prior of a fit: given or estimated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from drpu import _lazy, beliefs, models, priors
from drpu._arrays import FloatArray, Rows
from drpu._checks import check_choice
from drpu._samples import Sample, SamplePair
from drpu.exceptions import (
    ContradictionWarning,
    ParameterError,
    PriorBoundaryWarning,
    PriorError,
)
from drpu.models.boosted import ForestRatio
from drpu.priors.estimate import PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.tails import ScoreTails
from drpu.state.population import TrainingColumns, with_labelled
from drpu.tables.notes import LEAKS, Note, compared_with_others

KERNEL_MEANS = ("km2", "km1")
SURE = 0.999  # level of the limit that a given prior must exceed to contradict the rows
EDGE = 0.005  # an estimate closer to 0 or 1 is suspect,
TINY = 1e-6  # if its limit is as close as this
MOST_COMPARED = 5_000  # rows of a sample in the comparison of one column with all others
LEAK_TREES = 50  # of that comparison


def check_prior_parameter(name: str, prior: Any) -> None:
    """Raise unless ``prior`` is a number, a PriorEstimate or the name of an estimator."""
    if isinstance(prior, str):
        check_choice(name, prior, ("auto", *priors.PROPORTIONS, *KERNEL_MEANS))
    else:
        as_prior(name, prior)


def training_prior(
    method: Any,
    tails: ScoreTails,
    fraction: float,
    pair: SamplePair | None,
    rng: np.random.RandomState,
) -> PriorEstimate:
    """Prior of the training population, whose labelled fraction is known to be positive.

    ``method`` is the parameter ``prior`` of the classifier, and ``pair`` is None on a cluster.
    """
    if not isinstance(method, str) and not callable(method):
        return _given_prior(method, tails, fraction)
    if isinstance(method, str) and method in KERNEL_MEANS:
        if pair is None:
            raise ParameterError(
                f"prior={method!r} needs the rows in memory, which a fit on a cluster does not "
                "have: use 'auto', or another method that reads counts."
            )
        estimate = kernel_mean_prior(method, pair.positive, pair.unlabeled, rng)
    else:
        share = fraction or None
        estimate = beliefs.prior_from_tails(tails, method=method, labelled_share=share, warn=False)
    prior = with_labelled(estimate, fraction)
    warn_if_not_identified(prior)
    _warn_of_boundary(prior)
    return prior


def _given_prior(value: Any, tails: ScoreTails, fraction: float) -> PriorEstimate:
    prior = as_prior("prior", value)
    if prior.value < fraction:
        raise PriorError(
            f"prior must be at least {fraction:.4f}, the fraction of labelled positives in a "
            f"single sample, got {prior.value!r}."
        )
    by_rows = beliefs.prior_from_tails(
        tails, level=SURE, labelled_share=fraction or None, warn=False
    )
    by_rows = with_labelled(by_rows, fraction)
    if prior.low > by_rows.most:
        ContradictionWarning.issue(
            "the given prior of {given} contradicts the training rows, of which at most {most} can "
            "be positive: it is too large, or the labelled positives are not a fair sample of all "
            "positives.",
            advice="Leave it out (prior='auto'), or find out how the positives were labelled.",
            command="Leave --prior out, or find out how the positives were labelled.",
            given=prior.value,
            most=by_rows.most,
        )
    return prior


def _warn_of_boundary(prior: PriorEstimate) -> None:
    near_0 = prior.value < EDGE and prior.low < TINY
    near_1 = prior.value > 1 - EDGE and prior.high > 1 - TINY
    if near_0 or near_1:
        PriorBoundaryWarning.issue(
            "the training prior is estimated as {value} ({low} to {high}), which does not exclude "
            "that one class is absent: check the meaning of the labels, or give the prior if you "
            "know it.",
            value=prior.value,
            low=prior.low,
            high=prior.high,
        )


# -- columns made from the label ---------------------------------------------------------------


def with_leaks_found(columns: TrainingColumns, pair: SamplePair) -> TrainingColumns:
    """The columns with notes of those that say far more about the label than all others."""
    names = columns.encoded_names(pair.positive.rows.shape[1])

    def area_without(name: str) -> float:
        others = [k for k, other in enumerate(names) if other != name]
        return _area_by_columns(pair, others)

    notes = compared_with_others(columns.notes, area_without)
    return replace(columns, notes=notes)


def _area_by_columns(pair: SamplePair, columns: list[int]) -> float:
    """AUC of labelled against unlabeled rows by some columns, from a forest of half of the rows."""
    if not columns:
        return 1.0  # there is nothing to compare with
    rng = np.random.default_rng(0)
    compared = pair.at_most(MOST_COMPARED, rng)
    positive, held_positive = _halves(compared.positive.rows[:, columns], rng)
    unlabeled, held_unlabeled = _halves(compared.unlabeled.rows[:, columns], rng)
    forest = ForestRatio(LEAK_TREES, random_state=0, n_jobs=1)
    function = forest.fit_checked(SamplePair(positive, unlabeled))
    scores = function.score(np.concatenate([held_positive.rows, held_unlabeled.rows]))
    labelled = np.arange(len(scores)) < len(held_positive)
    return float(_lazy.roc_auc_score(labelled, scores))


def _halves(rows: FloatArray, rng: np.random.Generator) -> tuple[Sample, Sample]:
    shuffled = rows[rng.permutation(len(rows))]
    middle = len(shuffled) // 2
    return Sample(shuffled[:middle]), Sample(shuffled[middle:])


def identified_by(prior: PriorEstimate, notes: Sequence[Note]) -> PriorEstimate:
    """The prior; an estimate is not identified if a column tells how the label was made."""
    is_known = prior.method in ("given", "audit")
    if is_known or not any(note.code in LEAKS for note in notes):
        return prior
    return replace(prior, identified=False)


# -- kernel means ------------------------------------------------------------------------------


def kernel_mean_prior(
    method: str, positive: Sample, unlabeled: Sample, rng: np.random.RandomState
) -> PriorEstimate:
    """KM1 or KM2 on standardised columns; weighted rows are resampled by their weights."""
    positive_rows = _drawn(flat_sample(positive), rng)
    unlabeled_rows = _drawn(flat_sample(unlabeled), rng)
    scale = models.Scaling.of(unlabeled_rows, None)
    estimator = priors.KernelMeanPrior(method, random_state=int(rng.randint(2**31 - 1)))
    positive_columns, _ = models.standardised(positive_rows, scale)
    unlabeled_columns, _ = models.standardised(unlabeled_rows, scale)
    return estimator.estimate(positive_columns, unlabeled_columns)


def flat_sample(sample: Sample) -> Sample:
    """The sample with two-dimensional rows: images become vectors of pixels."""
    if sample.rows.ndim == 2:
        return sample
    return Sample(sample.rows.reshape(len(sample), -1), sample.weight, sample.groups)


def _drawn(sample: Sample, rng: np.random.RandomState) -> Rows:
    if sample.weight is None or np.ptp(sample.weight) == 0:
        return sample.rows
    share: FloatArray = sample.weight / sample.weight.sum()
    return sample.rows[rng.choice(len(sample), len(sample), p=share)]
