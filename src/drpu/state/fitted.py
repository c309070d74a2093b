"""The stored part of training: functions, counts and a prior, and no rows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from scipy.special import logit

from drpu._codec import Items, NotKept, Number, Text, Whole, kept
from drpu._samples import n_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.audits.design import carried_prior
from drpu.audits.plan import TrainingMark
from drpu.audits.recalibration import LogOddsMap, Population, bounded_log_odds
from drpu.decisions.performance import Decision
from drpu.decisions.thresholds import KeptCosts, check_cost
from drpu.exceptions import DataError
from drpu.models.crossfit import Folds
from drpu.models.learner import LOG_LIMIT
from drpu.periods.columns import ColumnShift, moved_columns
from drpu.periods.moves import Backtest, LabelCount, mean_probability
from drpu.priors.calibration import Calibration, calibrate, population_ratio
from drpu.priors.estimate import PriorEstimate, prior_from_tails
from drpu.priors.figures import Figure
from drpu.priors.tails import KeptTails, ScoreTails
from drpu.state.record import Labels
from drpu.tables.cells import ColumnProfile, count_columns
from drpu.tables.notes import MOST_NOTES, Note

if TYPE_CHECKING:
    from drpu.classifier.decisions import RatioDecisions


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Checked rows with their scores.

    ``adapt``, ``adapt_by``, ``at_budget`` and ``predict`` take them in place of rows.
    """

    rows: Rows  # in the form that the model accepts
    scores: FloatArray  # score of each row by each model, as by :meth:`FittedRatio.scores`
    counts: ScoreTails  # the counts of these scores

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, index: Any) -> ScoredRows:
        """The rows at ``index``, with the counts of all rows."""
        return ScoredRows(self.rows[index], self.scores[index], self.counts)


def score_once(classifier: RatioDecisions, X: Rows | ScoredRows) -> ScoredRows:
    """``X`` checked and scored by ``classifier``."""
    return (
        X if isinstance(X, ScoredRows) else classifier.fitted_.scored(classifier._checked_rows(X))
    )


_CHUNK = 1 << 16
# Quantiles of a normal distribution whose standard deviation is that of the log-ratio of a new row over the
# fold models of the default, the mean over tables of different kinds.
FOLD_OFFSETS = 0.15 * np.array([-1.2816, -0.5244, 0.0, 0.5244, 1.2816])
AVERAGE_OFFSETS = FOLD_OFFSETS * 7 / 15  # the same for models whose ratios are averaged for a label
NO_OFFSET = np.zeros(1)
NEAREST = 1e-9  # priors of a map are kept this far from 0 and 1
TIE_BREAK = (
    1e-9  # multiple of the score that is added to the log-ratio; too small to change a decision
)


@kept("anchor")
@dataclass(frozen=True, slots=True)
class Anchor:
    """Rows whose prior is known from answers, and their counts.

    ``map`` is that of the trained log-odds which the answers gave. ``moved`` names the columns that had moved
    since training: how positives are distributed in them now is not known, so later rows are not compared
    by them.
    """

    tails: KeptTails
    prior: PriorEstimate
    map: LogOddsMap
    moved: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.tails.counts.any():
            raise DataError("the tails of an anchor must count its rows.")


@kept("fitted")
@dataclass(frozen=True, slots=True)
class FittedRatio:
    """The part of a fitted classifier that does not depend on the prior of new rows.

    It is the attribute ``fitted_`` of :class:`drpu.DRPUClassifier` and of
    :class:`drpu.AdaptedClassifier`; a classifier and its adaptations share one. Reports, files,
    exports and cluster code need nothing else. It is immutable.
    """

    model: Folds  # scores rows by each fold, and by a function of all rows if there is one
    calibration: Calibration | None  # maps scores to ratios relative to the training population
    tails: KeptTails  # held-out positives, and the unlabeled training rows counted over them
    train_prior: PriorEstimate
    labelled_fraction: Annotated[
        float, Number(0, 1 - 1e-9)
    ]  # of the population; 0 in a case-control study
    labels: Labels
    training: Annotated[TrainingMark | None, NotKept] = None  # recognises the training rows
    columns: tuple[
        ColumnProfile, ...
    ] = ()  # empty for sparse rows, images, and frames that the model reads
    backtest: Backtest | None = None  # how well past periods would have been read
    label_count: LabelCount | None = (
        None  # training labels that are complete; None in a case-control study
    )
    anchor: Anchor | None = (
        None  # audited rows, with which later rows are compared, not with training rows
    )
    sizes: tuple[Annotated[int, Whole(0)], Annotated[int, Whole(0)]] = (
        0,
        0,
    )  # labelled and unlabeled rows
    notes: Annotated[
        tuple[Note, ...], Items(0, MOST_NOTES)
    ] = ()  # what to know about the training table
    period: Annotated[str, Text(most=10_000)] | None = None  # name of the column of periods
    cost: Annotated[float, Number(0, 1)] | KeptCosts = 0.5  # false-positive cost of the fit
    label_delay: Annotated[int, Whole(0)] = 0  # periods after which labels are complete

    def __post_init__(self) -> None:
        calibration = self.calibration
        if (
            calibration is not None
            and abs(calibration.labelled_share - self.labelled_fraction) > 1e-9
        ):
            raise DataError("the calibration must have the labelled fraction of the classifier.")
        if not self.tails.counts.any():
            raise DataError("the tails of a classifier must count its unlabeled training rows.")
        check_cost("cost", self.cost)

    @property
    def classes(self) -> np.ndarray[Any, Any]:
        """The two labels, the positive one last."""
        return self.labels.classes()

    @property
    def scenario(self) -> str:
        """How the labelled rows were collected: "single-sample" or "case-control"."""
        return "single-sample" if self.labelled_fraction > 0 else "case-control"

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the ratio, or of its mean over the fold models, without an upper bound."""
        parts = [
            self._log_ratio_for_labels(self.model.label_scores(rows)) for _, rows in _chunks(X)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def log_ratio_of(self, scores: FloatArray) -> FloatArray:
        """The same from :meth:`scores` of the rows."""
        return self._log_ratio_for_labels(self.model.labelling(scores))

    def _log_ratio_for_labels(self, scores: FloatArray) -> FloatArray:
        return self._log_ratio_at((scores[..., None] + self.label_offsets).reshape(len(scores), -1))

    @property
    def label_offsets(self) -> FloatArray:
        """Added to a score before it is calibrated; the ratio of a row is the mean over them.

        The calibration is that of the fold models. Their scores of a row differ from each other and
        from the score of the model of all rows. The mean over the offsets replaces the mean over fold models.
        """
        return NO_OFFSET if self.model.whole is None or self.calibration is None else FOLD_OFFSETS

    def _log_ratio_at(self, scores: FloatArray) -> FloatArray:
        """Log of the mean ratio over the columns of ``scores``.

        Calibration makes ties, above all at its upper bound. A billionth of the score is added to
        break them, so that a threshold can separate any two rows.
        """
        if self.calibration is None:
            ratios = population_ratio(np.exp(scores), self.labelled_fraction)
        else:
            ratios = self.calibration.ratios(scores.ravel()).reshape(scores.shape)
        log_ratio = np.log(np.maximum(_row_means(ratios), 1e-300))
        return np.asarray(log_ratio + self.tie_break * _row_means(scores) / LOG_LIMIT)

    @property
    def tie_break(self) -> float:
        """Multiple of the score that breaks ties; 0 if all training rows are positive, with the ratio 1."""
        return TIE_BREAK if self.train_prior.value < 1 else 0.0

    @property
    def level_offsets(self) -> tuple[float, ...]:
        """Scores of several models for a row of a level, relative to it; a label comes from all of them."""
        if (
            self.model.whole is None
            and len(self.model.functions) > 1
            and self.calibration is not None
        ):
            return tuple(AVERAGE_OFFSETS.tolist())
        return tuple(self.label_offsets.tolist())

    def level_log_ratios(self) -> FloatArray:
        """Log-ratios at the held-out positive scores, ascending."""
        return self._log_ratio_at(self.tails.levels[:, None] + self.level_offsets)

    def scores(self, X: Rows) -> FloatArray:
        """Score of each row by each model, (rows, models), for labels and counts."""
        return np.concatenate([self.model.scores(rows) for _, rows in _chunks(X)])

    def scored(self, rows: Rows, scores: FloatArray | None = None) -> ScoredRows:
        """Checked rows with their scores, which may be known, and counts."""
        scores = self.scores(rows) if scores is None else scores
        return ScoredRows(rows, scores, self.count_scores(scores, rows=rows))

    def some(self, whole: ScoredRows, at: IntArray) -> ScoredRows:
        """Some of the scored rows, with their own counts."""
        return self.scored(whole.rows[at], whole.scores[at])

    def no_counts(self) -> ScoreTails:
        """Empty counts for new rows; each row is counted once per fold model."""
        return self.tails.empty(copies=len(self.model.functions))

    def count(self, X: Rows, weight: FloatArray | None = None) -> ScoreTails:
        """Counts of the scores of new rows."""
        tails = self.no_counts()
        for at, rows in _chunks(X):
            # scores of a model for labels are not needed
            self.count_scores(
                self.model.fold_scores(rows), None if weight is None else weight[at], tails, rows
            )
        return tails

    def count_scores(
        self,
        scores: FloatArray,
        weight: FloatArray | None = None,
        tails: ScoreTails | None = None,
        rows: Rows | None = None,
    ) -> ScoreTails:
        """Counts of :meth:`scores` of some rows, added to ``tails`` if these are given.

        If the rows of the scores are given as ``rows``, their columns are counted, too.
        """
        tails = self.no_counts() if tails is None else tails
        columns = None
        if self.columns and weight is None and isinstance(rows, np.ndarray) and rows.ndim == 2:
            columns = count_columns([profile.cells for profile in self.columns], rows)
        weight = None if weight is None else np.repeat(weight, tails.copies)
        return tails.update(self.model.counted(scores).ravel(), weight, columns=columns)

    def prior_of(self, tails: ScoreTails, *, level: float = 0.95) -> PriorEstimate:
        """Prior of the rows counted in ``tails``, estimated with the unlabeled training rows as reference."""
        base = self.unlabeled_prior
        if self.anchor is not None:
            return _carried(tails, self.anchor.tails, self.anchor.prior, level)
        if base.method == "audit":
            return _carried(tails, self.tails, base, level)
        return prior_from_tails(
            tails, level=level, reference=self.tails, train_prior=base, warn=False
        )

    def in_other_scenario(self) -> PriorEstimate | None:
        """The training prior if the labelled rows were part of the sample, or were not; None if unknown."""
        n = sum(self.sizes)
        if self.train_prior.method in ("given", "audit") or n == 0:
            return None
        share = 0.0 if self.scenario == "single-sample" else self.sizes[0] / n
        prior = self.unlabeled_prior
        if prior.method in ("adaptive", "central"):
            prior = prior_from_tails(self.tails, labelled_share=share or None, warn=False)
        return with_labelled(prior, share)

    def map_at(self, prior: float) -> LogOddsMap | None:
        """The map of answers, moved by as much as the log-odds of the prior; None if there are none."""
        if self.anchor is None:
            return None
        after, before = logit(np.clip([prior, self.anchor.prior.value], NEAREST, 1 - NEAREST))
        return replace(self.anchor.map, intercept=self.anchor.map.intercept + float(after - before))

    def map_curves(self) -> list[tuple[FloatArray, FloatArray]]:
        """Shares of positives and of negatives in or above each cell by the map of answers; empty without.

        For the slope and its limits in turn, at the prior of the answers and at its limits.
        """
        if self.anchor is None:
            return []
        found, prior, counts = self.anchor.map, self.anchor.prior, self.anchor.tails.counts
        z = bounded_log_odds(self.cell_probability())
        rows, far = (
            Population.of(z, counts / self.anchor.tails.copies),
            1.96 * np.sqrt(found.covariance[2]),
        )
        curves = []
        for slope in (found.slope, max(found.slope - far, found.slope / 10), found.slope + far):
            for share in (prior.value, prior.low, prior.high):
                inside = float(np.clip(share, NEAREST, 1 - NEAREST))
                p = replace(found, slope=slope).with_share(inside, rows).probability(z)
                parts = (
                    (part / part.sum())[::-1].cumsum()[::-1]
                    for part in (counts * p, counts * (1 - p))
                )
                positive, negative = (np.append(part, 0.0) for part in parts)
                curves.append((positive, negative))
        return curves

    @property
    def reference(self) -> ScoreTails:
        """The counts that new rows are compared with: of audited rows, or of the unlabeled training rows."""
        return self.tails if self.anchor is None else self.anchor.tails

    @property
    def reference_prior(self) -> PriorEstimate:
        """The prior of the rows counted in :attr:`reference`."""
        return self.unlabeled_prior if self.anchor is None else self.anchor.prior

    def cell_probability(self) -> FloatArray:
        """P(positive) as trained in each cell of the counts."""
        if self.calibration is None:
            ratio = np.append(
                0.0, population_ratio(np.exp(self.tails.levels), self.labelled_fraction)
            )
        else:
            ratio = self.calibration.cell_ratios()
        return np.clip(self.train_prior.value * ratio, 0, 1)

    def explained_share(self) -> float:
        """Share of the variance of the classes that this probability explains in training.

        It is (a - m) / (1 - m) with the mean a over held-out positives and the mean m over all rows, if the
        probabilities are calibrated.
        """
        top, mean = self._mean_probabilities()
        return (top - mean) / max(1 - mean, 1e-9)

    def mean_probability_before(self) -> float:
        """Mean of that probability over the training population, or over audited rows."""
        if self.anchor is not None:
            return mean_probability(self.cell_probability(), self.anchor.tails.counts)
        return self._mean_probabilities()[1]

    def _mean_probabilities(self) -> tuple[float, float]:
        """Means of that probability over the positives and over the population of training."""
        probability, share = self.cell_probability(), self.labelled_fraction
        top = mean_probability(probability, self.tails.positive_counts)
        return top, (1 - share) * mean_probability(probability, self.tails.counts) + share * top

    def moved_columns(self, tails: ScoreTails, prior: PriorEstimate) -> tuple[ColumnShift, ...]:
        """Columns of the rows counted in ``tails`` that moved more than their ``prior`` explains."""
        if self.anchor is None or self.anchor.tails.columns is None:
            return moved_columns(self.columns, tails.columns, self.unlabeled_prior, prior)
        ends = np.cumsum([profile.cells.n for profile in self.columns])[:-1]
        counts = np.split(self.anchor.tails.columns.astype(np.float64), ends)
        profiles = [replace(p, unlabeled=own) for p, own in zip(self.columns, counts, strict=True)]
        found = moved_columns(profiles, tails.columns, self.anchor.prior, prior)
        return tuple(shift for shift in found if shift.name not in self.anchor.moved)

    @property
    def unlabeled_prior(self) -> PriorEstimate:
        """Prior of the unlabeled training rows, which are counted in the tails."""
        return without_labelled(self.train_prior, self.labelled_fraction)

    def score_above(self, log_ratio: float) -> float:
        """Smallest held-out positive score whose log-ratio is above ``log_ratio``; infinite if none is."""
        above = np.flatnonzero(self.level_log_ratios() > log_ratio)
        return float(self.tails.levels[above[0]]) if above.size else float("inf")

    def decision(self, score: float, ratio: float | None, rows: float | None = None) -> Decision:
        """The decision that flags rows from a score on; ``ratio`` if a calibrated one determines it.

        ``rows`` is the number of rows that the prior was estimated on.
        """
        models, whole = len(self.model.functions), self.model.whole is not None
        labelled, offsets = self.labelled_fraction, self.level_offsets
        return Decision(self.tails, score, ratio, labelled, models, rows, offsets, whole)

    def decision_above(self, ratio: float) -> Decision:
        """The decision that flags rows above the ratio ``ratio``."""
        log_ratio = float(np.log(ratio)) + self.tie_break if ratio > 0 else -np.inf
        score = ratio if np.isinf(ratio) else self.score_above(log_ratio)
        return self.decision(score, ratio if self.calibration is not None else None)

    def at_train_prior(self, prior: PriorEstimate) -> FittedRatio:
        """The same with another training prior, and the calibration that belongs to it."""
        calibration = None
        if self.calibration is not None:
            unlabeled = without_labelled(prior, self.labelled_fraction).value
            calibration = calibrate(self.tails, unlabeled, labelled_share=self.labelled_fraction)
        return replace(self, train_prior=prior, calibration=calibration)

    @property
    def mark(self) -> str:
        """A short text, equal for two classifiers only if equal scores give equal counts.

        It names the classifier that an audit belongs to; adapting and saving do not change it.
        """
        digest = hashlib.sha256(np.ascontiguousarray(self.tails.levels, dtype="<f8").tobytes())
        digest.update(np.ascontiguousarray(self.tails.positive_counts, dtype="<f8").tobytes())
        digest.update(str(len(self.model.functions)).encode())
        return digest.hexdigest()[:12]

    def with_module(self, module: Any) -> FittedRatio:
        """The same with the torch module of a custom network that ``module`` makes, unless it is None."""
        return self if module is None else replace(self, model=self.model.with_module(module))

    def facts(self) -> dict[str, Any]:
        """What it keeps of the training rows."""
        statistics = list(self.model.statistics)
        if self.columns:
            statistics.append("counts of rows in ranges of each column, with rounded limits")
        kept_values = dict(sorted(self.model.keeps.items()))
        return {
            "training_rows": any("row" in values for values in kept_values.values()),
            "values_of_rows": kept_values,
            "statistics": sorted(statistics),
            "scores": "the score of every held-out positive, and counts of unlabeled rows between them",
        }


def _chunks(X: Rows) -> Iterator[tuple[slice, Rows]]:
    """Rows in blocks, so that only the scores of one block are in memory."""
    for start in range(0, n_rows(X), _CHUNK):
        at = slice(start, start + _CHUNK)
        yield at, X[at]


def _row_means(values: FloatArray) -> FloatArray:
    """Means over the models, without the checks of ``mean``, which cost more than a single row."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def with_labelled(prior: PriorEstimate, fraction: float) -> PriorEstimate:
    """Prior of a population, from that of its unlabeled rows."""
    return _affine(prior, fraction, 1 - fraction)


def without_labelled(prior: PriorEstimate, fraction: float) -> PriorEstimate:
    """Prior of the unlabeled rows of a population, from that of the population."""
    return _affine(prior, -fraction / (1 - fraction), 1 / (1 - fraction))


def _carried(
    tails: ScoreTails, reference: ScoreTails, train_prior: PriorEstimate, level: float
) -> PriorEstimate:
    """Prior of new rows from an audited training prior, without an assumption about the highest scores."""
    known = Figure(train_prior.value, train_prior.low, train_prior.high)
    prior = carried_prior(tails, reference, known, prior_level=train_prior.level, level=level)
    return PriorEstimate(prior.value, prior.low, prior.high, level, "efficient")


def _affine(prior: PriorEstimate, shift: float, scale: float) -> PriorEstimate:
    def moved(share: float) -> float:
        return min(max(shift + scale * share, 0.0), 1.0)

    value, low, high = (moved(share) for share in (prior.value, prior.low, prior.high))
    upper = None if prior.upper is None else moved(prior.upper)
    return replace(prior, value=value, low=low, high=high, upper=upper)
