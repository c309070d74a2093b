"""Cross-fitting: every row is scored by a function that was not trained on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone
from sklearn.utils import check_random_state

from drpu._checks import check_fraction, check_integer
from drpu._optional import progress
from drpu._samples import SamplePair, take_rows
from drpu._typing import FloatArray
from drpu.core.tails import ScoreTails
from drpu.exceptions import ParameterError, heard, warn
from drpu.functions.base import Function
from drpu.functions.folds import Folds
from drpu.ratios.base import RatioLearner
from drpu.ratios.splits import Positions, draw_splits, run_jobs, threads_of_one_fit

__all__ = ["cross_fit", "held_scores", "resolve_holdout", "tails_of"]

FEWEST_TO_SPLIT = 4  # with fewer positives, a fold would leave at most two for training
FEW_TO_SPLIT = 100  # with fewer positives there are ten folds
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
    if grouped and isinstance(holdout, (int, np.integer)) and not isinstance(holdout, bool):
        return min(check_integer("holdout", holdout, low=2), few)
    if isinstance(holdout, str) and holdout == "auto":
        if few < FEWEST_TO_SPLIT:
            return 0
        if n_positive > MOST_TO_FOLD:
            return 0.2
        return min(10 if n_positive < FEW_TO_SPLIT else 5, few)
    if isinstance(holdout, (int, np.integer)) and not isinstance(holdout, bool):
        folds = check_integer("holdout", holdout, low=2)
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
        return share
    raise ParameterError(
        f"holdout must be 'auto', a share of the rows in (0, 1) or a number of folds, got {holdout!r}."
    )


def cross_fit(
    learner: RatioLearner,
    pair: SamplePair,
    *,
    holdout: int | float,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[Folds, SamplePair]:
    """Fold functions, and the scores of their held-out rows in place of the rows.

    ``holdout`` is a number of folds, a fraction, or 0: one function is fitted to all rows, and its training
    rows are scored. With several folds, some learners also fit one to all rows.
    """
    if holdout == 0:
        fitted = learner.fit_checked(pair)
        parts = (replace(part, rows=fitted.score(part.rows)) for part in (pair.positive, pair.unlabeled))
        return Folds((fitted,)), SamplePair(*parts)

    rng = check_random_state(random_state)
    splits = draw_splits(pair, holdout, rng)
    if not splits:  # groups that cannot be divided
        return cross_fit(learner, pair, holdout=0)
    jobs = effective_n_jobs(n_jobs)
    if len(splits) == 1 and getattr(learner, "n_jobs", None) == 1:
        threads = threads_of_one_fit(jobs, [pair.positive.rows, pair.unlabeled.rows])
        learner = clone(learner).set_params(n_jobs=threads)
    copies = learner.for_folds(pair, len(splits))
    work: list[Any] = [(copy, pair, *split) for copy, split in zip(copies, splits, strict=True)]
    of_all = learner.for_labels(pair, len(splits)) if len(splits) > 1 else None
    if of_all is not None:  # the longest fit first, so that no other job waits for it
        work.insert(0, (of_all, pair, None, None))
    # Threads share the rows, processes would copy them; LightGBM and BLAS release the interpreter lock.
    done = run_jobs(_fit_split, work, jobs=jobs, threads=learner.fits_in_threads, rows=len(pair))
    with heard() as warnings:  # given once, after the last fold, so that none interrupts a progress bar
        fits = list(progress(done, total=len(work), label="folds", show=verbose > 0))
    for warning in {(type(warning), str(warning)): warning for warning in warnings}.values():
        warn(warning)
    whole = None if of_all is None else fits.pop(0)[0]

    held = []
    for at, sample in enumerate((pair.positive, pair.unlabeled)):
        places = replace(sample, rows=np.arange(len(sample)))  # which are copied in place of the rows
        places = places.take(np.concatenate([split[at][1] for split in splits]))
        held.append(replace(places, rows=np.concatenate([fit[1 + at] for fit in fits])))
    return Folds(tuple(fit[0] for fit in fits), whole), SamplePair(*held)


def held_scores(
    learner: RatioLearner,
    pair: SamplePair,
    *,
    folds: int,
    repeats: int,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[FloatArray, FloatArray]:
    """Mean score of each positive and each unlabeled row by functions that were not trained on it.

    Every repeat divides the rows into other folds. Empty if the groups of the rows cannot be divided.
    """
    rng = check_random_state(random_state)
    work: list[Any] = []
    for _ in range(repeats):
        splits = draw_splits(pair, folds, rng)
        copies = learner.for_folds(pair, len(splits)) if splits else []
        work += [(copy, pair, *split) for copy, split in zip(copies, splits, strict=True)]
    if not work:
        return np.empty(0), np.empty(0)
    jobs = effective_n_jobs(n_jobs)
    done = run_jobs(_fit_split, work, jobs=jobs, threads=learner.fits_in_threads, rows=len(pair))
    scores = np.zeros(len(pair.positive)), np.zeros(len(pair.unlabeled))
    for (*_, positive, unlabeled), (_, *found) in zip(
        work, progress(done, total=len(work), label="folds", show=verbose > 0), strict=True
    ):
        scores[0][positive[1]] += found[0] / repeats
        scores[1][unlabeled[1]] += found[1] / repeats
    return scores


def _fit_split(
    learner: RatioLearner, pair: SamplePair, positive: Positions | None, unlabeled: Positions | None
) -> tuple[Function, FloatArray, FloatArray]:
    """A function and the scores of its held-out rows; without a split, a function of all rows."""
    if positive is None or unlabeled is None:
        return learner.fit_checked(pair), np.empty(0), np.empty(0)
    fitted = learner.fit_checked(pair.take(positive[0], unlabeled[0]))
    return (
        fitted,
        fitted.score(take_rows(pair.positive.rows, positive[1])),
        fitted.score(take_rows(pair.unlabeled.rows, unlabeled[1])),
    )
