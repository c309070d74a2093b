"""Cross-fitting: every row is scored by a function that was not trained on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone

from drpu._checks import check_fraction, check_integer, check_random_state
from drpu._progress import rest
from drpu._samples import Sample, SamplePair
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.audits.labelling import FEWEST_KNOWN, negative_share
from drpu.exceptions import FewPositivesWarning, ParameterError, heard, warn
from drpu.models.folds import Blend, Folds
from drpu.models.function import Function
from drpu.models.learner import RatioLearner
from drpu.models.splits import Positions, count_held, draw_splits, run_jobs, threads_of_one_fit
from drpu.priors.tails import ScoreTails

FEWEST_TO_SPLIT = 4  # with fewer positives, a fold would leave at most two for training
FEW_TO_SPLIT = 100  # with fewer positives there are ten folds
FEW_ON_A_SIDE = 10  # with fewer rows of either kind on one side of a split there is a warning
MOST_TO_FOLD = 2000  # with more positives a single split is enough


def tails_of(scores: SamplePair) -> ScoreTails:
    """The scores of held-out positives, with those of the unlabeled rows counted over them."""
    positive, unlabeled = scores.positive, scores.unlabeled
    tails = ScoreTails(positive.rows, positive.weight, groups=positive.groups)
    return tails.update(unlabeled.rows, unlabeled.weight, groups=unlabeled.groups)


def resolve_holdout(holdout: Any, n_positive: int, n_unlabeled: int, *, grouped: bool = False) -> int | float:
    """Folds (an integer), a fraction to hold out, or 0 for no split at all.

    ``n_positive`` and ``n_unlabeled`` count groups if rows are ``grouped``. With too few groups
    there are fewer folds; too few rows for the requested folds are an error.
    """
    few = min(n_positive, n_unlabeled)
    if grouped and few < 2 and not isinstance(holdout, str):
        return 0
    if isinstance(holdout, str) and holdout == "auto":
        if few < FEWEST_TO_SPLIT:
            return 0
        if n_positive > MOST_TO_FOLD:
            return 0.2
        return min(10 if n_positive < FEW_TO_SPLIT else 5, few)
    if isinstance(holdout, (int, np.integer)) and not isinstance(holdout, bool):
        folds = check_integer("holdout", holdout, low=2)
        if grouped:
            return min(folds, few)
        if folds > few:
            raise ParameterError(
                f"holdout must not ask for more folds than there are positives and unlabeled rows, "
                f"got {folds} for {n_positive} and {n_unlabeled}: use fewer, or 'auto'."
            )
        return folds
    if isinstance(holdout, (float, np.floating)):
        share = check_fraction("holdout", holdout)
        if few < 2:
            raise ParameterError(
                f"holdout={holdout!r} needs two positives and two unlabeled rows, "
                f"got {n_positive} and {n_unlabeled}: use 'auto', which fits without a split."
            )
        _warn_of_few_rows(share, n_positive, n_unlabeled)
        return share
    raise ParameterError(
        f"holdout must be 'auto', a share of the rows in (0, 1) or a number of folds, got {holdout!r}."
    )


def _warn_of_few_rows(share: float, n_positive: int, n_unlabeled: int) -> None:
    """Warn if a split has few rows on one of its sides."""
    held = count_held(n_positive, share), count_held(n_unlabeled, share)
    rest = n_positive - held[0], n_unlabeled - held[1]
    given = f"of {n_positive} positives and {n_unlabeled} unlabeled rows, holdout={share!r}"
    few = f"with fewer than {FEW_ON_A_SIDE} of either kind"
    if min(rest) < FEW_ON_A_SIDE:
        FewPositivesWarning.issue(
            f"{given} leaves {rest[0]} and {rest[1]} to train on: {few}, a model learns hardly anything. "
            "Lower it, or use 'auto'."
        )
    if min(held) < FEW_ON_A_SIDE:
        FewPositivesWarning.issue(
            f"{given} holds out {held[0]} and {held[1]}: {few}, the prior and the calibration are rough. "
            "Raise it, or use 'auto'."
        )


@dataclass(frozen=True, slots=True)
class Known:
    """Rows whose class is known, beside the labelled positives. They are used in training only."""

    sample: Sample  # the rows and their weights
    positive: BoolArray  # their class
    place: IntArray  # among the unlabeled rows, so that no held-out row is used in training; -1 for others

    @property
    def n_negative(self) -> int:
        """Number of known negatives."""
        return int((~self.positive).sum())

    def joined(self, train: SamplePair, held: IntArray | None, *, negative: bool) -> SamplePair:
        """Training rows with known positives and, if ``negative``, known negatives as the other sample."""
        used = np.ones(len(self.place), bool) if held is None else ~np.isin(self.place, held)
        positive = train.positive.joined(self.sample.take(np.flatnonzero(used & self.positive)))
        other = self.sample.take(np.flatnonzero(used & ~self.positive)) if negative else train.unlabeled
        return SamplePair(positive, other)


def cross_fit(
    learner: RatioLearner,
    pair: SamplePair,
    *,
    holdout: int | float,
    random_state: Any = None,
    n_jobs: int | None = None,
    known: Known | None = None,
) -> tuple[Folds, SamplePair]:
    """Fold functions, and the scores of their held-out rows in place of the rows.

    ``holdout`` is a number of folds, a fraction, or 0: one function is fitted to all rows, and its training
    rows are scored. With several folds, some learners also fit one to all rows.
    Rows of ``known`` class: positives join those of training; negatives give a second function in each fold,
    which is averaged with the first as far as it ranks held-out positives higher.
    """
    if holdout == 0:
        fitted = learner.fit_checked(pair if known is None else known.joined(pair, None, negative=False))
        held = [replace(own, rows=fitted.score(own.rows)) for own in (pair.positive, pair.unlabeled)]
        return Folds((fitted,)), SamplePair(*held)

    rng = check_random_state(random_state)
    splits = draw_splits(pair, holdout, rng)
    if not splits:  # groups that cannot be divided
        return cross_fit(learner, pair, holdout=0, known=known)
    jobs = effective_n_jobs(n_jobs)
    if len(splits) == 1 and getattr(learner, "n_jobs", None) == 1:
        threads = threads_of_one_fit(jobs, [pair.positive.rows, pair.unlabeled.rows])
        learner = clone(learner).set_params(n_jobs=threads)
    rows = _Rows(pair, splits, known)
    twice = known is not None and min(known.n_negative, len(pair.positive)) >= FEWEST_KNOWN
    learner = learner.prepared(pair, len(splits) * (2 if twice else 1))
    with rest(0.5 if twice else 1.0):
        folds, scores = _fit_folds(learner, rows, jobs, negative=False)
    if twice:
        with rest():
            others, second = _fit_folds(learner, rows, jobs, negative=True)
        places = SamplePair(*rows.held())
        share = negative_share(
            places.flags() == 1, np.concatenate(scores), np.concatenate(second), places.weights()
        )
        if share > 0:
            pairs = zip(folds.all_functions, others.all_functions, strict=True)
            both = [Blend(one, other, share) for one, other in pairs]
            whole = None if folds.whole is None else both.pop()
            folds = Folds(tuple(both), whole)
            scores = [(1 - share) * one + share * other for one, other in zip(scores, second, strict=True)]
    held = [replace(own, rows=found) for own, found in zip(rows.held(), scores, strict=True)]
    return folds, SamplePair(*held)


@dataclass(frozen=True, slots=True)
class _Rows:
    """The samples, how they are divided into folds, and rows of known class."""

    pair: SamplePair
    splits: list[tuple[Positions, Positions]]
    known: Known | None

    def held(self) -> list[Sample]:
        """Positions of the held-out rows of either sample, in the order of the folds."""
        found = []
        for at, sample in enumerate((self.pair.positive, self.pair.unlabeled)):
            places = replace(sample, rows=np.arange(len(sample)))  # which are copied in place of the rows
            found.append(places.take(np.concatenate([split[at][1] for split in self.splits])))
        return found


def _fit_folds(
    learner: RatioLearner, rows: _Rows, jobs: int, *, negative: bool, whole: bool = True
) -> tuple[Folds, list[FloatArray]]:
    """Fold functions, and the scores of the held-out positive and unlabeled rows.

    With ``negative``, known negatives are the other sample in training. ``whole`` is whether some learners
    also fit a function to all rows.
    """
    pair, known, splits = rows.pair, rows.known, rows.splits
    shown = pair if known is None or not negative else known.joined(pair, None, negative=True)
    copies = learner.for_folds(shown, len(splits))
    work: list[Any] = [(copy, rows, split, negative) for copy, split in zip(copies, splits, strict=True)]
    of_all = learner.for_labels(shown, len(splits)) if whole and len(splits) > 1 else None
    if of_all is not None:  # the longest fit first, so that no other job waits for it
        work.insert(0, (of_all, rows, None, negative))
    # Threads share the rows, processes would copy them; LightGBM and BLAS release the interpreter lock.
    done = run_jobs(_fit_split, work, jobs=jobs, threads=learner.fits_in_threads, rows=len(pair))
    with heard() as warnings:  # given once, after the last fold, so that none interrupts a progress bar
        fits = list(done)
    for warning in {(type(warning), str(warning)): warning for warning in warnings}.values():
        warn(warning)
    fitted = None if of_all is None else fits.pop(0)[0]
    scores = [np.concatenate([fit[1 + at] for fit in fits]) for at in (0, 1)]
    return Folds(tuple(fit[0] for fit in fits), fitted), scores


def held_scores(
    learner: RatioLearner,
    pair: SamplePair,
    *,
    folds: int,
    repeats: int,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Mean score of each positive and each unlabeled row by functions that were not trained on it.

    Every repeat divides the rows into other folds. Empty if the groups of the rows cannot be divided.
    """
    rng = check_random_state(random_state)
    jobs = effective_n_jobs(n_jobs)
    learner = learner.prepared(pair, folds * repeats)
    scores = np.zeros(len(pair.positive)), np.zeros(len(pair.unlabeled))
    for repeat in range(repeats):
        rows = _Rows(pair, draw_splits(pair, folds, rng), None)
        if not rows.splits:
            return np.empty(0), np.empty(0)
        with rest(1 / (repeats - repeat)):
            _, found = _fit_folds(learner, rows, jobs, negative=False, whole=False)
        for sums, held, own in zip(scores, rows.held(), found, strict=True):
            sums[held.rows] += own / repeats
    return scores


def _fit_split(
    learner: RatioLearner, rows: _Rows, split: tuple[Positions, Positions] | None, negative: bool
) -> tuple[Function, FloatArray, FloatArray]:
    """A function and the scores of its held-out rows; without a split, a function of all rows."""
    pair = rows.pair
    train = pair if split is None else pair.take(split[0][0], split[1][0])
    if rows.known is not None:
        train = rows.known.joined(train, None if split is None else split[1][1], negative=negative)
    fitted = learner.fit_checked(train)
    if split is None:
        return fitted, np.empty(0), np.empty(0)
    return (
        fitted,
        fitted.score(pair.positive.rows[split[0][1]]),
        fitted.score(pair.unlabeled.rows[split[1][1]]),
    )
