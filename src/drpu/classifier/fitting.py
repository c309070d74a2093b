"""Steps of a fit: copies among the rows, the training prior, and warnings about both."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from drpu import models, priors
from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_choice
from drpu._samples import Sample, SamplePair, is_sparse
from drpu.exceptions import (
    AlphaWarning,
    ContradictionWarning,
    CopiedPositivesWarning,
    FewNegativesWarning,
    FewPositivesWarning,
    ParameterError,
    PriorBoundaryWarning,
    PriorError,
    SeenPositivesWarning,
    TrainingTableWarning,
    UnusedNegativesWarning,
)
from drpu.models.crossfit import FEWEST_KNOWN
from drpu.models.learner import Folds, RatioLearner
from drpu.priors.estimate import FEW_POSITIVES, PriorEstimate, as_prior, warn_if_not_identified
from drpu.priors.tails import ScoreTails
from drpu.state.population import Population, with_labelled
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import FrameRows
from drpu.tables.notes import Note, list_of_notes

KERNEL_MEANS = ("km2", "km1")
SURE = 0.999  # level of the limit that a given prior must exceed to contradict the rows
EDGE = 0.005  # an estimate closer to 0 or 1 is suspect,
TINY = 1e-6  # if its limit is as close as this
_MOST_ROWS = 20_000  # unlabeled rows that are compared with the positives
# Rows of a coarse table coincide by chance. If chance is the reason, positives coincide with
# unlabeled rows at least prior times as often as with each other; priors below this are ignored.
_LEAST_PRIOR = 0.02
_LEAST_EXCESS = 5  # number of coinciding rows above chance before there is a warning


def with_categories(model: RatioLearner, table: TableEncoder | None) -> RatioLearner:
    """The model with the positions of the encoded columns that hold category codes."""
    if table is None or not model.accepts_categories or not table.categories:
        return model
    if len(model.get_params()["categories"]):
        raise ParameterError(
            "categories of the model must be empty for a table, whose own categories are found: "
            "declare further columns as categories in the table."
        )
    model.set_params(categories=table.categories)
    return model


# -- copies ------------------------------------------------------------------------------------


def grouped_copies(pair: SamplePair) -> SamplePair:
    """The pair with copies of a labelled positive in one group, unless the user gave groups."""
    if pair.positive.groups is not None:
        return pair
    groups = copied_positives(pair, np.random.RandomState(0))
    if groups is None:
        return pair
    positive = Sample(pair.positive.rows, pair.positive.weight, groups)
    CopiedPositivesWarning.issue(
        f"{len(positive) - positive.n_independent} of the {len(positive)} labelled positives are "
        "copies of others. Copies stay in one fold and count once in intervals.",
        advice="If they are different cases with equal values, pass groups with a value for each "
        "row.",
        command="",
    )
    return SamplePair(positive, pair.unlabeled)


def copied_positives(pair: SamplePair, rng: np.random.RandomState) -> IntArray | None:
    """Group numbers of the positives, in which copies of a row share one; None without copies.

    Rows that coincide only because columns take few values are independent and are not grouped.
    Let q be the chance that two positives coincide and c the chance that a positive and an
    unlabeled row do. A fraction of the unlabeled rows, the prior, are positives, so q is at most
    c / prior. Positives that coincide more often than that have been copied.
    """
    n = len(pair.positive)
    if n < 2:
        return None
    keys, groups, counts = np.unique(
        _keys(pair.positive.rows), return_inverse=True, return_counts=True
    )
    if n - len(counts) < _LEAST_EXCESS:
        return None
    equal_positives = float((counts.astype(np.float64) * (counts - 1)).sum()) / 2
    unlabeled = pair.unlabeled.rows
    if len(pair.unlabeled) > _MOST_ROWS:
        unlabeled = unlabeled[np.sort(rng.permutation(len(pair.unlabeled))[:_MOST_ROWS])]
    other_keys, other_counts = np.unique(_keys(unlabeled), return_counts=True)
    _, place, other_place = np.intersect1d(
        keys, other_keys, assume_unique=True, return_indices=True
    )
    met = int((counts[place].astype(np.int64) * other_counts[other_place]).sum())
    chance = (met + 1) / (n * unlabeled.shape[0]) / _LEAST_PRIOR
    by_chance = chance * n * (n - 1) / 2
    if equal_positives > by_chance + _LEAST_EXCESS:
        return np.asarray(groups.ravel())
    return None


def copies_of_labelled(pair: SamplePair) -> IntArray:
    """Positions of unlabeled rows that equal a labelled positive, and of that positive, (n, 2).

    Empty for a coarse table, in which at least half of the unlabeled rows coincide: equal rows are
    then different cases with equal values.
    """
    keys = np.concatenate([_keys(pair.positive.rows), _keys(pair.unlabeled.rows)])
    _, codes = np.unique(keys, return_inverse=True)
    labelled, others = np.split(codes.ravel(), [len(pair.positive)])
    if 2 * len(np.unique(others)) <= len(others):
        return np.empty((0, 2), dtype=np.int64)
    known, first = np.unique(labelled, return_index=True)
    place = np.full(len(keys), -1)
    place[known] = first
    copies = np.flatnonzero(place[others] >= 0)
    return np.column_stack([copies, place[others[copies]]])


def _keys(rows: Rows) -> np.ndarray[Any, Any]:
    """One comparable value for each row, equal where the rows are equal."""
    if isinstance(rows, FrameRows):
        return rows.keys()
    if is_sparse(rows):
        rows = rows.tocsr()
        keys = []
        for start, end in pairwise(rows.indptr):
            keys.append(hash(rows.indices[start:end].tobytes() + rows.data[start:end].tobytes()))
        return np.array(keys, dtype=np.int64)
    flat = np.ascontiguousarray(np.asarray(rows).reshape(rows.shape[0], -1))
    return flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()


# -- the training prior ------------------------------------------------------------------------


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
    score_error: float | None = None,
) -> PriorEstimate:
    """Prior of the training population, whose labelled fraction is known to be positive.

    ``method`` is the parameter ``prior`` of the classifier; ``pair`` is None on a cluster, and
    ``score_error`` is what the fold models showed.
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
        estimate = priors.prior_from_tails(
            tails, method=method, labelled_share=share, score_error=score_error, warn=False
        )
    prior = with_labelled(estimate, fraction)
    warn_if_not_identified(prior)
    _warn_of_boundary(prior)
    return prior


def with_other_scenario(
    population: Population,
    tails: ScoreTails,
    prior: PriorEstimate,
    score_error: float | None = None,
) -> Population:
    """The population with the training prior in the other scenario, if prior was estimated."""
    n_rows = sum(population.sizes)
    if prior.method in ("given", "audit") or n_rows == 0:
        return population
    share = 0.0
    if population.scenario == "case-control":
        share = population.sizes[0] / n_rows
    unlabeled_prior = population.unlabeled_prior(prior)
    if prior.method in ("adaptive", "central"):
        unlabeled_prior = priors.prior_from_tails(
            tails, labelled_share=share or None, score_error=score_error, warn=False
        )
    return replace(population, other_scenario_prior=with_labelled(unlabeled_prior, share))


def _given_prior(value: Any, tails: ScoreTails, fraction: float) -> PriorEstimate:
    prior = as_prior("prior", value)
    if prior.value < fraction:
        raise PriorError(
            f"prior must be at least {fraction:.4f}, the fraction of labelled positives in a "
            f"single sample, got {prior.value!r}."
        )
    by_rows = priors.prior_from_tails(
        tails, level=SURE, labelled_share=fraction or None, warn=False
    )
    by_rows = with_labelled(by_rows, fraction)
    if prior.low > by_rows.high:
        ContradictionWarning.issue(
            "the given prior of {given} contradicts the training rows, of which at most {most} can "
            "be positive: it is too large, or the labelled positives are not a fair sample of all "
            "positives.",
            advice="Leave it out (prior='auto'), or find out how the positives were labelled.",
            command="Leave --prior out, or find out how the positives were labelled.",
            given=prior.value,
            most=by_rows.high,
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


# -- warnings ----------------------------------------------------------------------------------


def warn_of_alpha(folds: Folds, prior: PriorEstimate) -> None:
    """Warn if alpha exceeds the prior of the unlabeled rows: the correction is then wrong."""
    alpha = max(getattr(model, "alpha", None) or 0.0 for model in folds.functions)
    if alpha > prior.high:
        AlphaWarning.issue(
            f"the model was corrected with alpha = {alpha:.3g}, above the prior of the unlabeled "
            f"rows ({prior}): its ratios are too small. Use a smaller alpha, or 'auto'."
        )


def warn_of_few_known(negatives: int, positives: int, *, split: bool) -> None:
    """Warn that known negatives are too few to be used."""
    if negatives and (min(negatives, positives) < FEWEST_KNOWN or not split):
        FewNegativesWarning.issue(
            f"{negatives} known negatives beside {positives} labelled positives: with fewer than "
            f"{FEWEST_KNOWN} of either kind, the negatives are not used for the score. Label more."
        )


def negative_part(folds: Folds) -> float:
    """Part of the score that comes from known negatives; 0 if there are none, or none are used."""
    shares = [getattr(function, "share", 0.0) for function in folds.functions]
    return float(sum(shares) / len(shares))


def warn_of_unused_known(folds: Folds, negatives: int, positives: int) -> None:
    """Say that known negatives change nothing, although there are enough of them."""
    if min(negatives, positives) >= FEWEST_KNOWN and negative_part(folds) == 0:
        UnusedNegativesWarning.issue(
            f"{negatives} known negatives were given and change no score: a score against them "
            "ranks held-out labelled positives no higher than one against unlabeled rows. They are "
            "probably easy to reject, and negatives that look like positives would help more."
        )


def warn_of_few_positives(n: int, *, split: bool) -> None:
    """Warn that the prior is rough because of few positives, or because none were held out."""
    if n < FEW_POSITIVES:
        positives = "1 labelled positive" if n == 1 else f"{n} labelled positives"
        FewPositivesWarning.issue(
            f"{positives}: the prior and its interval are rough. Label more, or give the prior if "
            "you know it."
        )
    if not split:
        SeenPositivesWarning.issue(
            "no rows were held out, so the prior is estimated from scores of training rows: it is "
            "too low, and its interval too narrow. Pass at least four positives and four unlabeled "
            "rows."
        )


def warn_of_notes(notes: tuple[Note, ...]) -> None:
    """Warn once of everything in a training table that there is something to do about."""
    doubtful = [note for note in notes if note.doubtful]
    if doubtful:
        TrainingTableWarning.issue(
            "look at the training table before this classifier is used:",
            advice=f"{list_of_notes(doubtful, command_line=False)}.",
            command=f"{list_of_notes(doubtful, command_line=True)}.",
        )


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
