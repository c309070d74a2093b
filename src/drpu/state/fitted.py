"""The stored part of training: functions, counts and a prior, and no rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._codec import kept
from drpu._samples import at_rows, is_matrix, n_rows
from drpu.exceptions import DataError, ParameterError
from drpu.models.learner import LOG_LIMIT, Folds
from drpu.priors.calibration import Calibration, calibrate, population_ratio
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import KeptTails, ScoreTails
from drpu.state.labels import Classes, Labels
from drpu.state.population import Backtest, Population, TrainingColumns
from drpu.tables.values import count_columns

_CHUNK = 1 << 16
# Quantiles of a normal distribution whose standard deviation is that of the log-ratio of a new row
# over the fold models of the default, the mean over tables of different kinds.
FOLD_OFFSETS = 0.15 * np.array([-1.2816, -0.5244, 0.0, 0.5244, 1.2816])
AVERAGE_OFFSETS = FOLD_OFFSETS * 7 / 15  # for models whose ratios are averaged for a label
NO_OFFSET = np.zeros(1)
TIE_BREAK = 1e-9  # part of the score that is added to the log-ratio; too small to matter otherwise


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
    prior: PriorEstimate  # of the training population
    population: Population  # how the training rows were collected
    columns: TrainingColumns
    labels: Labels
    history: Backtest | None = None  # how well past periods would have been read

    def __post_init__(self) -> None:
        calibration = self.calibration
        if calibration is not None:
            gap = abs(calibration.labelled_share - self.population.labelled_fraction)
            if gap > 1e-9:
                raise DataError(
                    "the calibration must have the labelled fraction of the classifier."
                )
            if not np.array_equal(calibration.levels, self.tails.levels):
                raise DataError("the calibration must have the levels of the tails.")
        if np.abs(self.tails.levels).max() > LOG_LIMIT:
            raise DataError(f"the levels of tails must be scores, at most {LOG_LIMIT:g} in size.")
        if not self.tails.counts.any():
            raise DataError("the tails of a classifier must count its unlabeled training rows.")

    @property
    def classes(self) -> Classes:
        """The two labels, the positive one last."""
        return self.labels.classes()

    @property
    def unlabeled_prior(self) -> PriorEstimate:
        """Prior of the unlabeled training rows, which are counted in the tails."""
        return self.population.unlabeled_prior(self.prior)

    def scores(self, X: Rows) -> FloatArray:
        """Score of each row by each model, (rows, models), for labels and counts."""
        return np.concatenate([self.model.scores(rows) for _, rows in _chunks(X)])

    def fold_scores(self, X: Rows) -> FloatArray:
        """Score of each row by each fold model, (rows, folds), for counts."""
        return np.concatenate([self.model.fold_scores(rows) for _, rows in _chunks(X)])

    def log_ratio(self, X: Rows) -> FloatArray:
        """Log of the ratio, or of its mean over the fold models, without an upper bound."""
        parts = [_label_log_ratio(self, self.model.label_scores(rows)) for _, rows in _chunks(X)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def log_ratio_of(self, scores: FloatArray) -> FloatArray:
        """The same from :meth:`scores` of the rows."""
        parts = [_label_log_ratio(self, self.model.labelling(part)) for _, part in _chunks(scores)]
        return np.concatenate(parts) if parts else np.empty(0)

    def best_first(self, scores: FloatArray) -> IntArray:
        """Positions of rows with :meth:`scores`, in descending order of their log-ratios.

        Ties are broken by the mean score before calibration, and then by position.
        """
        raw_scores = _row_means(self.model.labelling(scores))
        return np.lexsort((-raw_scores, -self.log_ratio_of(scores)))

    def cell_probability(self) -> FloatArray:
        """P(positive) as trained in each cell of the counts."""
        if self.calibration is None:
            fraction = self.population.labelled_fraction
            ratio = np.append(0.0, population_ratio(np.exp(self.tails.levels), fraction))
        else:
            ratio = self.calibration.cell_ratios()
        return np.clip(self.prior.value * ratio, 0, 1)

    def no_counts(self) -> ScoreTails:
        """Empty counts for new rows; each row is counted once per fold model."""
        return self.tails.empty(copies=len(self.model.functions))

    def count(
        self, X: Rows, weight: FloatArray | None = None, *, copies: IntArray | None = None
    ) -> ScoreTails:
        """Counts of the scores of new rows; ``copies`` as in :meth:`count_scores`."""
        if copies is not None:
            return self.count_scores(self.model.fold_scores(X), weight, rows=X, copies=copies)
        tails = self.no_counts()
        for place, rows in _chunks(X):
            # scores of a model for labels are not needed
            scores = self.model.fold_scores(rows)
            self.count_scores(scores, at_rows(weight, place), tails, rows)
        return tails

    def count_scores(
        self,
        scores: FloatArray,
        weight: FloatArray | None = None,
        tails: ScoreTails | None = None,
        rows: Rows | None = None,
        copies: IntArray | None = None,
    ) -> ScoreTails:
        """Counts of :meth:`scores` of some rows, added to ``tails`` if these are given.

        If the rows of the scores are given as ``rows``, their columns are counted, too. Rows with
        equal numbers in ``copies`` are one row for limits and in the counts of columns.
        """
        if tails is None:
            tails = self.no_counts()
        profiles = self.columns.profiles
        columns = None
        if profiles and weight is None and rows is not None and is_matrix(rows):
            different = rows
            if copies is not None:
                different = rows[np.unique(copies, return_index=True)[1]]
            columns = count_columns([profile.cells for profile in profiles], different)
        if weight is not None:
            weight = np.repeat(weight, tails.copies)
        groups = None
        if copies is not None:  # each fold model counts the rows once
            groups = (copies[:, None] * tails.copies + np.arange(tails.copies)).ravel()
        counted = self.model.counted(scores).ravel()
        return tails.update(counted, weight, groups=groups, columns=columns)

    def at_train_prior(self, prior: PriorEstimate) -> FittedRatio:
        """The same with another training prior, and the calibration that belongs to it."""
        calibration = None
        if self.calibration is not None:
            unlabeled = self.population.unlabeled_prior(prior).value
            fraction = self.population.labelled_fraction
            calibration = calibrate(self.tails, unlabeled, labelled_share=fraction)
        return replace(self, prior=prior, calibration=calibration)


def check_counts(fitted: FittedRatio, counts: ScoreTails, sample_weight: Any = None) -> ScoreTails:
    """``counts``, if they are counts of some rows by ``fitted``."""
    if sample_weight is not None:
        raise ParameterError(
            "sample_weight must be None with counts: rows are weighted when counted."
        )
    if not fitted.no_counts().same_cells(counts):
        raise DataError(
            "these counts were not made by this classifier: make them with its count method."
        )
    if not counts.counts.any():
        raise DataError("these counts are empty: count at least one row before adapting to them.")
    return counts


def tie_break(train_prior: float) -> float:
    """Multiple of the score that breaks ties; 0 if all training rows are positive."""
    return TIE_BREAK if train_prior < 1 else 0.0


def label_offsets(fitted: FittedRatio) -> FloatArray:
    """Added to a score before it is calibrated; the ratio of a row is the mean over them.

    The calibration is that of the fold models. Their scores of a row differ from each other and
    from the score of the model of all rows. The mean over the offsets replaces the mean over fold
    models.
    """
    if fitted.model.whole is None or fitted.calibration is None:
        return NO_OFFSET
    return FOLD_OFFSETS


def level_offsets(fitted: FittedRatio) -> tuple[float, ...]:
    """Scores of the models for a row of a level, relative to it; its label comes from all."""
    averaged = fitted.model.whole is None and len(fitted.model.functions) > 1
    if averaged and fitted.calibration is not None:
        return tuple(AVERAGE_OFFSETS.tolist())
    return tuple(label_offsets(fitted).tolist())


def level_log_ratios(fitted: FittedRatio) -> FloatArray:
    """Log-ratios at the held-out positive scores, ascending."""
    return _mean_log_ratio(fitted, fitted.tails.levels[:, None] + level_offsets(fitted))


def _label_log_ratio(fitted: FittedRatio, scores: FloatArray) -> FloatArray:
    moved_scores = scores[..., None] + label_offsets(fitted)
    return _mean_log_ratio(fitted, moved_scores.reshape(len(scores), -1))


def _mean_log_ratio(fitted: FittedRatio, scores: FloatArray) -> FloatArray:
    """Log of the mean ratio over the columns of ``scores``.

    Calibration makes ties, above all at its upper bound. A billionth of the score is added to
    break them, so that a threshold can separate any two rows.
    """
    if fitted.calibration is None:
        ratios = population_ratio(np.exp(scores), fitted.population.labelled_fraction)
    else:
        ratios = fitted.calibration.ratios(scores.ravel()).reshape(scores.shape)
    log_ratio = np.log(np.maximum(_row_means(ratios), 1e-300))
    return np.asarray(log_ratio + tie_break(fitted.prior.value) * _row_means(scores) / LOG_LIMIT)


def _row_means(values: FloatArray) -> FloatArray:
    """Means over the models, without the checks of ``mean``, which cost more than a single row."""
    return np.asarray(values.sum(axis=1) / values.shape[1])


def _chunks(X: Rows) -> Iterator[tuple[slice, Rows]]:
    """Rows in blocks, so that only the scores of one block are in memory."""
    for start in range(0, n_rows(X), _CHUNK):
        place = slice(start, start + _CHUNK)
        yield place, X[place]
