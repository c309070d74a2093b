"""Rows that were read and checked once: those of a fit, and a batch of new ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows
from drpu._samples import SamplePair, at_rows, indexable
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.labels import Labels
from drpu.state.population import Population, TrainingColumns
from drpu.tables.copies import copied_rows
from drpu.tables.frames import is_frame, take_frame

if TYPE_CHECKING:
    from drpu.models.crossfit import Known


@dataclass(frozen=True, slots=True)
class Batch:
    """Checked rows with their scores.

    ``adapt``, ``adapt_by``, ``at_budget`` and ``predict`` take them in place of rows.
    ``periods``: The period of each row, if it is known and ``adapt`` has to compare the periods.
    """

    rows: Rows  # in the form that the model accepts
    scores: FloatArray  # score of each row by each model, as by :meth:`FittedRatio.scores`
    counts: ScoreTails  # the counts of these scores
    texts: dict[str, Any] = field(default_factory=dict)  # columns of free text as they were
    periods: np.ndarray[Any, Any] | None = None

    @classmethod
    def of(cls, fitted: FittedRatio, rows: Rows) -> Batch:
        """Checked rows, scored and counted by ``fitted``."""
        return cls._counted(fitted, rows, fitted.scores(rows))

    @classmethod
    def _counted(cls, fitted: FittedRatio, rows: Rows, scores: FloatArray) -> Batch:
        counts = fitted.count_scores(scores, rows=rows, copies=copied_rows(rows))
        return cls(rows, scores, counts)

    def __len__(self) -> int:
        return len(self.scores)

    def take(self, index: Any) -> Batch:
        """The rows at ``index``, with the counts of all rows."""
        texts = {name: values[index] for name, values in self.texts.items()}
        return Batch(self.rows[index], self.scores[index], self.counts, texts)

    def scores_of(self, index: IntArray) -> Batch:
        """The scores of the rows at ``index``, without the rows and with the counts of all."""
        return Batch(np.empty((len(index), 0)), self.scores[index], self.counts)

    def part(self, fitted: FittedRatio, index: IntArray) -> Batch:
        """The rows at ``index``, with counts of these rows only."""
        return Batch._counted(fitted, self.rows[index], self.scores[index])


@dataclass(frozen=True, slots=True)
class BacktestPlan:
    """Which past periods a backtest reads."""

    names: tuple[Any, ...]  # the periods in the order of time
    number: IntArray  # position of each row's period in ``names``; -1 for a row without a period
    read: tuple[int, ...]  # positions of the periods to read, each by a fit to the rows before it
    settled: int  # number of periods whose labels are complete: all but the last ``label_delay``
    reason: str = ""  # why there is nothing to read; empty otherwise

    @property
    def complete(self) -> BoolArray:
        """Which rows have complete labels: all, or those of the periods before the last ones."""
        if self.settled == len(self.names):
            return np.ones(len(self.number), dtype=bool)
        return (self.number >= 0) & (self.number < self.settled)


@dataclass(frozen=True, slots=True)
class RawRows:
    """Rows as the user passed them, of which a backtest reads parts again.

    A fit to the rows before a period learns its own encoder of the columns from them.
    """

    X: Any  # without the column of periods
    labelled: BoolArray
    sample_weight: FloatArray | None
    groups: Any = None

    def take(self, index: IntArray) -> RawRows:
        """The rows at ``index``."""
        if is_frame(self.X) or hasattr(self.X, "iloc"):  # also pandas with sparse columns
            rows = take_frame(self.X, index)
        else:
            rows = indexable(self.X)[index]
        weight = at_rows(self.sample_weight, index)
        return RawRows(rows, self.labelled[index], weight, at_rows(self.groups, index))


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Everything that a fit reads from its arguments, checked and encoded once."""

    pair: SamplePair  # the positive and the unlabeled sample
    known: Known | None  # rows of known class: answers, and negatives
    population: Population
    columns: TrainingColumns
    labels: Labels
    prior: PriorEstimate | None = None  # of the population, if answers set it
    raw: RawRows | None = None  # for a backtest
    periods: BacktestPlan | None = None
