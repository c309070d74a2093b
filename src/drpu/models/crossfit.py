"""Cross-fitting: every row is scored by a function that was not trained on it.

Known negatives give a second score, of positives against these negatives, which is averaged with
that of positives against unlabeled rows. They may be a biased sample. Their share in the average
is therefore the one at which labelled positives rank highest among unlabeled rows that neither
score has seen, which assumes nothing about the negatives.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu import _lazy
from drpu._arrays import BoolArray, FloatArray, IntArray
from drpu._checks import check_fraction, check_integer, check_random_state
from drpu._process import one_matrix_thread
from drpu._progress import Step, rest
from drpu._samples import Sample, SamplePair
from drpu.exceptions import (
    AlphaWarning,
    FewNegativesWarning,
    FewPositivesWarning,
    ParameterError,
    SeenPositivesWarning,
    UnusedNegativesWarning,
    heard,
    warn,
)
from drpu.models.choices import JOBS
from drpu.models.learner import Blend, Folds, Function, RatioLearner
from drpu.priors.estimate import FEW_POSITIVES, PriorEstimate
from drpu.priors.tails import ScoreTails

FEWEST_TO_SPLIT = 4  # with fewer positives, a fold would leave at most two for training
FEW_TO_SPLIT = 100  # with fewer positives there are ten folds
FEW_ON_A_SIDE = 10  # with fewer rows of either kind on one side of a split there is a warning
MOST_TO_FOLD = 2000  # with more positives a single split is enough
MIN_HELD = 5  # with fewer rows of either kind a holdout risk is mostly noise

Positions = tuple[IntArray, IntArray]  # positions to train on, positions held out
PairSplit = tuple[Positions, Positions]  # of the positive and of the unlabeled rows

# -- divisions of the rows -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrainAndHeld:
    """Training rows and, if there are enough rows, holdout rows."""

    train: SamplePair
    held: SamplePair | None


def hold_out(
    pair: SamplePair,
    holdout: SamplePair | None,
    fraction: float,
    rng: np.random.Generator,
    *,
    most: int | None = None,
) -> TrainAndHeld:
    """The pair and the given holdout rows, or ``fraction`` of the pair as holdout rows.

    ``most`` limits the rows of either sample that are held out. If the fraction has fewer
    than :data:`MIN_HELD` rows of either kind, nothing is held out and ``held`` is None.
    """
    if holdout is not None:
        return TrainAndHeld(pair, holdout)
    split = _one_split(pair, fraction, rng, most)
    if split is None:
        return TrainAndHeld(pair, None)
    (train_positive, held_positive), (train_unlabeled, held_unlabeled) = split
    if min(held_positive.size, held_unlabeled.size) < MIN_HELD:
        return TrainAndHeld(pair, None)
    if min(train_positive.size, train_unlabeled.size) == 0:
        raise ParameterError(f"holdout must leave rows to train on, got {fraction!r}: lower it.")
    train = pair.take(train_positive, train_unlabeled)
    held = pair.take(held_positive, held_unlabeled)
    if min(train.smallest_total, held.smallest_total) <= 0:
        return TrainAndHeld(pair, None)
    return TrainAndHeld(train, held)


def _one_split(
    pair: SamplePair, fraction: float, rng: np.random.Generator, most: int | None
) -> PairSplit | None:
    """One split of both samples; None if groups, of which each is on one side, are too few."""
    if pair.positive.groups is not None or pair.unlabeled.groups is not None:
        splits = draw_splits(pair, fraction, np.random.RandomState(rng.integers(2**31)))
        return splits[0] if splits else None
    positive = _shuffled(len(pair.positive), fraction, rng, most)
    unlabeled = _shuffled(len(pair.unlabeled), fraction, rng, most)
    return positive, unlabeled


def _shuffled(n: int, fraction: float, rng: np.random.Generator, most: int | None) -> Positions:
    order = rng.permutation(n)
    held = round(fraction * n)
    if most is not None:
        held = min(held, most)
    return np.sort(order[held:]), np.sort(order[:held])


def draw_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[PairSplit]:
    """Splits of both samples: ``holdout`` folds, or one split that holds out that fraction.

    Rows of one group, in either sample, are on the same side. If there are
    too few groups, there are fewer folds, and none if two are not possible.
    """
    if pair.positive.groups is None and pair.unlabeled.groups is None:
        positive = _row_splits(len(pair.positive), holdout, rng)
        unlabeled = _row_splits(len(pair.unlabeled), holdout, rng)
        return list(zip(positive, unlabeled, strict=True))
    if holdout < 1:
        return _complete(_group_splits(pair, holdout, rng))
    for folds in range(int(holdout), 1, -1):
        splits = _complete(_group_splits(pair, folds, rng))
        if splits:
            return splits
    return []


def _complete(splits: list[PairSplit]) -> list[PairSplit]:
    """The splits, or none of them if a side of one has no rows."""
    for positive, unlabeled in splits:
        sizes = [part.size for part in (*positive, *unlabeled)]
        if min(sizes) == 0:
            return []
    return splits


def count_held(n: int, share: float) -> int:
    """Number of rows that one split holds out; at least one row is on either side."""
    return min(max(1, round(n * share)), n - 1)


def _row_splits(n: int, holdout: int | float, rng: np.random.RandomState) -> list[Positions]:
    order = rng.permutation(n)
    parts = [order[: count_held(n, holdout)]]
    if holdout >= 1:
        parts = np.array_split(order, int(holdout))
    splits = []
    for held in parts:
        is_seen = np.ones(n, dtype=bool)
        is_seen[held] = False
        splits.append((np.flatnonzero(is_seen), np.sort(held)))
    return splits


def _group_splits(
    pair: SamplePair, holdout: int | float, rng: np.random.RandomState
) -> list[PairSplit]:
    positive_codes, unlabeled_codes, n_groups = _group_codes(pair)
    positives = np.bincount(positive_codes, minlength=n_groups)
    unlabeled = np.bincount(unlabeled_codes, minlength=n_groups)
    # Groups with positives are balanced by their positives, the others by their rows.
    with_positives = np.flatnonzero(positives > 0)
    without = np.flatnonzero(positives == 0)
    fold = np.empty(n_groups, dtype=np.int64)
    fold[with_positives] = _dealt(positives[with_positives], holdout, rng)
    fold[without] = _dealt(unlabeled[without], holdout, rng)

    n_splits = int(holdout) if holdout >= 1 else 1
    return [
        (_positions(fold[positive_codes], k), _positions(fold[unlabeled_codes], k))
        for k in range(n_splits)
    ]


def _dealt(sizes: IntArray, holdout: int | float, rng: np.random.RandomState) -> IntArray:
    """The fold of each group; with a fraction, groups of fold 0 are held out and others are not."""
    order = rng.permutation(len(sizes))
    middle: FloatArray = (np.cumsum(sizes[order]) - sizes[order] / 2) / max(sizes.sum(), 1)
    fold = np.empty(len(sizes), dtype=np.int64)
    if holdout >= 1:
        fold[order] = np.floor(middle * holdout)
    else:
        fold[order] = middle >= holdout
    return fold


def _positions(fold: IntArray, held: int) -> Positions:
    """Positions of the rows that are not in a fold, and of those that are."""
    return np.flatnonzero(fold != held), np.flatnonzero(fold == held)


def _group_codes(pair: SamplePair) -> tuple[IntArray, IntArray, int]:
    """Group numbers of the rows of both samples, and how many there are.

    In a sample without groups every row is a group.
    """
    groups = [sample.groups for sample in (pair.positive, pair.unlabeled)]
    names, codes = np.unique(
        np.concatenate([known for known in groups if known is not None]), return_inverse=True
    )
    if pair.positive.groups is None:
        n_groups = len(names) + len(pair.positive)
        return np.arange(len(names), n_groups), codes, n_groups
    if pair.unlabeled.groups is None:
        n_groups = len(names) + len(pair.unlabeled)
        return codes, np.arange(len(names), n_groups), n_groups
    return codes[: len(pair.positive)], codes[len(pair.positive) :], len(names)


# -- number of folds ------------------------------------------------------------------------------


def resolve_holdout(
    holdout: Any, n_positive: int, n_unlabeled: int, *, grouped: bool = False
) -> int | float:
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
        folds = 10 if n_positive < FEW_TO_SPLIT else 5
        return min(folds, few)
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
        "holdout must be 'auto', a share of the rows in (0, 1) or a number of folds, "
        f"got {holdout!r}."
    )


def _warn_of_few_rows(share: float, n_positive: int, n_unlabeled: int) -> None:
    """Warn if a split has few rows on one of its sides."""
    held_positive = count_held(n_positive, share)
    held_unlabeled = count_held(n_unlabeled, share)
    train_positive = n_positive - held_positive
    train_unlabeled = n_unlabeled - held_unlabeled
    setting = f"of {n_positive} positives and {n_unlabeled} unlabeled rows, holdout={share!r}"
    few = f"with fewer than {FEW_ON_A_SIDE} of either kind"
    if min(train_positive, train_unlabeled) < FEW_ON_A_SIDE:
        FewPositivesWarning.issue(
            f"{setting} leaves {train_positive} and {train_unlabeled} to train on: {few}, a model "
            "learns hardly anything. Lower it, or use 'auto'."
        )
    if min(held_positive, held_unlabeled) < FEW_ON_A_SIDE:
        FewPositivesWarning.issue(
            f"{setting} holds out {held_positive} and {held_unlabeled}: {few}, the prior and the "
            "calibration are rough. Raise it, or use 'auto'."
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


def warn_of_alpha(folds: Folds, prior: PriorEstimate) -> None:
    """Warn if alpha exceeds the prior of the unlabeled rows: the correction is then wrong."""
    alpha = max(getattr(model, "alpha", None) or 0.0 for model in folds.functions)
    if alpha > prior.high:
        AlphaWarning.issue(
            f"the model was corrected with alpha = {alpha:.3g}, above the prior of the unlabeled "
            f"rows ({prior}): its ratios are too small. Use a smaller alpha, or 'auto'."
        )


# -- rows of known class --------------------------------------------------------------------------

FEWEST_KNOWN = 10  # with fewer known negatives, or positives, the second score is not used
_SHARES = np.linspace(0, 1, 11)
_PULL = 1.0  # penalty of a share of 1, in areas under the curve times the root of the positives


@dataclass(frozen=True, slots=True)
class Known:
    """Rows whose class is known, beside the labelled positives. They are used in training only."""

    sample: Sample  # the rows and their weights
    positive: BoolArray  # their class
    # Their place among the unlabeled rows, so that no held-out row is used in training; or -1.
    place: IntArray

    @property
    def n_negative(self) -> int:
        """Number of known negatives."""
        return int((~self.positive).sum())

    def joined(self, train: SamplePair, held: IntArray | None, *, negative: bool) -> SamplePair:
        """Training rows with known positives.

        If ``negative``, known negatives are the other sample. Rows in the places ``held`` are not
        used.
        """
        used = np.ones(len(self.place), dtype=bool)
        if held is not None:
            used = ~np.isin(self.place, held)
        known_positive = self.sample.take(np.flatnonzero(used & self.positive))
        positive = train.positive.joined(known_positive)
        if not negative:
            return SamplePair(positive, train.unlabeled)
        return SamplePair(positive, self.sample.take(np.flatnonzero(used & ~self.positive)))


def negative_share(
    labelled: BoolArray,
    unlabeled_score: FloatArray,
    negative_score: FloatArray,
    weight: FloatArray | None = None,
) -> float:
    r"""Share of the score against known negatives in the average with that against unlabeled rows.

    The share w maximises the area under the curve of labelled against unlabeled rows minus
    :math:`w^2 / \sqrt n` with the number of labelled rows n, about twice the noise of the
    area. If the labelled positives are a random sample, the area is an increasing function of that
    of positives against negatives, whatever the known negatives are.
    """
    n = int(labelled.sum())
    if n < FEWEST_KNOWN or n == len(labelled):
        return 0.0
    gains = []
    for share in _SHARES:
        blend = (1 - share) * unlabeled_score + share * negative_score
        area = _lazy.roc_auc_score(labelled, blend, sample_weight=weight)
        gains.append(area - _PULL / math.sqrt(n) * share**2)
    return float(_SHARES[int(np.argmax(gains))])


def warn_of_few_known(known: Known | None, positives: int, *, split: bool) -> None:
    """Warn that known negatives are too few to be used."""
    if known is None or known.n_negative == 0:
        return
    if min(known.n_negative, positives) < FEWEST_KNOWN or not split:
        FewNegativesWarning.issue(
            f"{known.n_negative} known negatives beside {positives} labelled positives: with fewer "
            f"than {FEWEST_KNOWN} of either kind, the negatives are not used for the score. Label "
            "more."
        )


def negative_part(folds: Folds) -> float:
    """Part of the score that comes from known negatives; 0 if there are none, or none are used."""
    shares = [getattr(function, "share", 0.0) for function in folds.functions]
    return float(sum(shares) / len(shares))


def warn_of_unused_known(folds: Folds, known: Known, positives: int) -> None:
    """Say that known negatives change nothing, although there are enough of them."""
    if min(known.n_negative, positives) >= FEWEST_KNOWN and negative_part(folds) == 0:
        UnusedNegativesWarning.issue(
            f"{known.n_negative} known negatives were given and change no score: a score against "
            "them ranks held-out labelled positives no higher than one against unlabeled rows. "
            "They are probably easy to reject, and negatives that look like positives would help "
            "more."
        )


# -- fits -----------------------------------------------------------------------------------------


def tails_of(scores: SamplePair) -> ScoreTails:
    """The scores of held-out positives, with those of the unlabeled rows counted over them."""
    positive = scores.positive
    unlabeled = scores.unlabeled
    tails = ScoreTails(positive.rows, positive.weight, groups=positive.groups)
    return tails.update(unlabeled.rows, unlabeled.weight, groups=unlabeled.groups)


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

    ``holdout`` is a number of folds, a fraction, or 0: one function is fitted to all rows, and its
    training rows are scored. With several folds, some learners also fit one to all rows.
    Rows of ``known`` class: positives join those of training; negatives give a second function in
    each fold, which is averaged with the first as far as it ranks held-out positives higher.
    """
    if holdout == 0:
        return _fit_without_split(learner, pair, known)
    learners = learner.for_divisions(pair) if holdout >= 1 else [learner]
    rng = check_random_state(random_state)
    drawn = [draw_splits(pair, holdout, rng) for _ in learners]
    splits = drawn[0]
    if not splits:  # groups that cannot be divided
        return _fit_without_split(learner, pair, known)

    jobs = _lazy.effective_n_jobs(n_jobs)
    if len(splits) == 1 and getattr(learner, "n_jobs", None) == 1:
        threads = threads_of_one_fit(jobs, [pair.positive.rows, pair.unlabeled.rows])
        learners = [_lazy.clone(learner).set_params(n_jobs=threads)]
    second = known is not None and min(known.n_negative, len(pair.positive)) >= FEWEST_KNOWN
    fits = len(splits) * (2 if second else 1)
    placed = pair.placed()
    divisions: list[Division] = []
    for learner, splits in zip(learners, drawn, strict=True):
        if len(splits) == len(drawn[0]):  # groups may be divided into fewer folds
            divisions.append((learner.prepared(pair, fits), _Rows(placed, splits, known)))
    if not second:
        with rest():
            return _fit_divisions(divisions, jobs, negative=False)

    with rest(0.5):
        folds, scores = _fit_divisions(divisions, jobs, negative=False)
    with rest():
        second_folds, second_scores = _fit_divisions(divisions, jobs, negative=True)
    share = negative_share(
        scores.flags() == 1, scores.stacked(), second_scores.stacked(), scores.weights()
    )
    if share == 0:
        return folds, scores
    positive = (1 - share) * scores.positive.rows + share * second_scores.positive.rows
    unlabeled = (1 - share) * scores.unlabeled.rows + share * second_scores.unlabeled.rows
    return _blended(folds, second_folds, share), scores.with_rows(positive, unlabeled)


def _fit_without_split(
    learner: RatioLearner, pair: SamplePair, known: Known | None
) -> tuple[Folds, SamplePair]:
    """One function of all rows, and their scores."""
    train = pair
    if known is not None:
        train = known.joined(pair, None, negative=False)
    function = learner.fit_checked(train)
    positive = function.score(pair.positive.rows)
    return Folds((function,)), pair.with_rows(positive, function.score(pair.unlabeled.rows))


def _blended(folds: Folds, second: Folds, share: float) -> Folds:
    """The functions of each fold against unlabeled rows and against known negatives, averaged."""
    pairs = zip(folds.functions, second.functions, strict=True)
    functions = tuple(Blend(unlabeled, negative, share) for unlabeled, negative in pairs)
    if folds.whole is None or second.whole is None:
        return Folds(functions)
    return Folds(functions, Blend(folds.whole, second.whole, share))


@dataclass(frozen=True, slots=True)
class _Rows:
    """The samples, how they are divided into folds, and rows of known class."""

    pair: SamplePair
    splits: list[PairSplit]
    known: Known | None

    def held(self) -> SamplePair:
        """Positions of the held-out rows in place of the rows, in the order of the folds."""
        positive = np.concatenate([positive[1] for positive, _ in self.splits])
        unlabeled = np.concatenate([unlabeled[1] for _, unlabeled in self.splits])
        pair = self.pair
        positions = pair.with_rows(np.arange(len(pair.positive)), np.arange(len(pair.unlabeled)))
        return positions.take(positive, unlabeled)


Division = tuple[RatioLearner, _Rows]  # of the rows into folds, and the learner for it


def _fit_divisions(
    divisions: list[Division], jobs: int, *, negative: bool
) -> tuple[Folds, SamplePair]:
    """Fold functions and scores of held-out rows, averaged over the divisions.

    A fold function is the mean of one from each division. A held-out row is scored by the mean of
    those that have not seen it, so that its score is distributed like that of a new row.
    """
    parts = []
    for k, (learner, rows) in enumerate(divisions):
        with rest(1 / (len(divisions) - k)):
            parts.append(_fit_folds(learner, rows, jobs, negative=negative))
    if len(parts) == 1:
        return parts[0]
    folds = Folds.mean_of([folds for folds, _ in parts])
    pairs = zip(divisions, parts, strict=True)
    return folds, _mean_scores([(rows, scores) for (_, rows), (_, scores) in pairs])


def _mean_scores(parts: Sequence[tuple[_Rows, SamplePair]]) -> SamplePair:
    """The mean of the scores that each row has in several divisions, in the order of the rows."""
    pair = parts[0][0].pair
    positive = np.zeros(len(pair.positive))
    unlabeled = np.zeros(len(pair.unlabeled))
    for rows, scores in parts:
        held = rows.held()
        positive[held.positive.rows] += scores.positive.rows / len(parts)
        unlabeled[held.unlabeled.rows] += scores.unlabeled.rows / len(parts)
    return pair.with_rows(positive, unlabeled)


def _fit_folds(
    learner: RatioLearner, rows: _Rows, jobs: int, *, negative: bool, whole: bool = True
) -> tuple[Folds, SamplePair]:
    """Fold functions, and the scores of the held-out rows in the order of the folds.

    With ``negative``, known negatives are the other sample in training. ``whole`` is whether some
    learners also fit a function to all rows.
    """
    pair = rows.pair
    n_folds = len(rows.splits)
    if rows.known is not None and negative:
        pair = rows.known.joined(pair, None, negative=True)
    copies = learner.for_folds(pair, n_folds)
    work: list[tuple[Any, ...]] = []
    for copy, split in zip(copies, rows.splits, strict=True):
        work.append((copy, rows, split, negative))
    learner_of_all = None
    if whole and n_folds > 1:
        learner_of_all = learner.for_labels(pair, n_folds)
    if learner_of_all is not None:  # the longest fit first, so that no other job waits for it
        work.insert(0, (learner_of_all, rows, None, negative))

    # Threads share the rows, processes would copy them; LightGBM and BLAS release the
    # interpreter lock.
    n_rows = len(rows.pair)
    fits = _with_warnings_last(
        run_jobs(_fit_split, work, jobs=jobs, threads=learner.fits_in_threads, rows=n_rows)
    )
    function_of_all = None
    if learner_of_all is not None:
        function_of_all, _, _ = fits.pop(0)
    folds = Folds(tuple(function for function, _, _ in fits), function_of_all)
    positive = np.concatenate([positive for _, positive, _ in fits])
    unlabeled = np.concatenate([unlabeled for _, _, unlabeled in fits])
    return folds, rows.held().with_rows(positive, unlabeled)


def _with_warnings_last(results: Iterator[Any]) -> list[Any]:
    """The results; each warning is given once, in the end, and interrupts no progress bar."""
    with heard() as warnings:
        collected = list(results)
    different = {(type(warning), str(warning)): warning for warning in warnings}
    for warning in different.values():
        warn(warning)
    return collected


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

    Every repeat divides the rows into other folds. Empty if the groups of the rows cannot be
    divided.
    """
    rng = check_random_state(random_state)
    jobs = _lazy.effective_n_jobs(n_jobs)
    learner = learner.prepared(pair, folds * repeats)
    parts = []
    for repeat in range(repeats):
        rows = _Rows(pair.placed(), draw_splits(pair, folds, rng), None)
        if not rows.splits:
            return np.empty(0), np.empty(0)
        with rest(1 / (repeats - repeat)):
            _, scores = _fit_folds(learner, rows, jobs, negative=False, whole=False)
        parts.append((rows, scores))
    mean = _mean_scores(parts)
    return mean.positive.rows, mean.unlabeled.rows


def _fit_split(
    learner: RatioLearner, rows: _Rows, split: PairSplit | None, negative: bool
) -> tuple[Function, FloatArray, FloatArray]:
    """A function and the scores of its held-out rows; without a split, a function of all rows."""
    if split is None:
        train = rows.pair
        if rows.known is not None:
            train = rows.known.joined(train, None, negative=negative)
        return learner.fit_checked(train), np.empty(0), np.empty(0)
    (train_positive, held_positive), (train_unlabeled, held_unlabeled) = split
    train = rows.pair.take(train_positive, train_unlabeled)
    if rows.known is not None:
        train = rows.known.joined(train, held_unlabeled, negative=negative)
    function = learner.fit_checked(train)
    positive = function.score(rows.pair.positive.rows[held_positive])
    unlabeled = function.score(rows.pair.unlabeled.rows[held_unlabeled])
    return function, positive, unlabeled


# -- several fits at a time -----------------------------------------------------------------------


def run_jobs(
    function: Callable[..., Any],
    work: Sequence[tuple[Any, ...]],
    *,
    jobs: int,
    threads: bool,
    rows: int,
) -> Iterator[Any]:
    """Results of ``function`` for each tuple of arguments, in their order.

    More jobs are used only if they are expected to save time. Threads, which share the rows, are
    used if there are enough of them. Processes are started only if the first result, which is
    computed here, took so long that the others are finished earlier with them.
    """
    jobs = min(jobs, len(work), _lazy.cpu_count())
    steps = Step.parts(len(work))
    if threads:
        if rows <= JOBS.thread_rows:
            jobs = 1
        limit = one_matrix_thread() if len(work) > 1 else nullcontext()
        with limit:
            yield from _run_in_threads(function, work, steps, jobs)
        return
    if jobs > 1:
        start = time.perf_counter()
        busy_start = time.process_time()
        yield steps[0].run(function, *work[0])
        wall = time.perf_counter() - start
        busy = time.process_time() - busy_start
        work = work[1:]
        steps = steps[1:]
        if _saved(wall, busy, len(work), jobs) < JOBS.process_start:
            jobs = 1
    if jobs == 1:
        for step, arguments in zip(steps, work, strict=True):
            yield step.run(function, *arguments)
        return
    calls = [_lazy.delayed(function)(*arguments) for arguments in work]
    results = _lazy.Parallel(n_jobs=jobs, return_as="generator")(calls)
    for step, result in zip(steps, results, strict=True):
        step.advance(1)
        yield result


def _run_in_threads(
    function: Callable[..., Any], work: Sequence[tuple[Any, ...]], steps: list[Step], jobs: int
) -> Iterator[Any]:
    calls = []
    for step, arguments in zip(steps, work, strict=True):
        # Threads get the context of this one, so that its listener hears their warnings.
        calls.append(_lazy.delayed(copy_context().run)(step.run, function, *arguments))
    yield from _lazy.Parallel(n_jobs=jobs, backend="threading", return_as="generator")(calls)


def _saved(wall: float, busy: float, calls: int, jobs: int) -> float:
    """Seconds that processes save, if a call takes ``wall`` seconds and ``busy`` of all processors.

    A call that uses several processors already is slower beside others, as in products of large
    matrices.
    """
    wall_with_others: float = max(wall, busy * jobs / _lazy.cpu_count())
    return calls * wall - math.ceil(calls / jobs) * wall_with_others


def threads_of_one_fit(jobs: int, samples: Sequence[Any]) -> int:
    """Number of threads inside a single fit: one if there are few values."""
    values = sum(getattr(rows, "nnz", math.prod(rows.shape)) for rows in samples)
    return min(jobs, _lazy.cpu_count()) if values >= JOBS.thread_values else 1
