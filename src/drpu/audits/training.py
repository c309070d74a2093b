"""What a fit learns of its labels: rows of known class, the prior, weights of labelled rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows
from drpu._checks import check_numbers, one_line
from drpu._process import default_errors
from drpu._results import TableColumns, TableResult, columns_of
from drpu._samples import Sample, SamplePair, indexable, is_sparse
from drpu.audits.combine import off_the_ends
from drpu.audits.evaluation import Answers, combine_figures
from drpu.audits.labelling import answer_weights, inverse_weights
from drpu.audits.labelling import labelling_rates as rates_by_cell
from drpu.audits.plan import (
    Audit,
    AuditPart,
    RandomPart,
    check_audit,
    check_positions,
    refuse_repeated,
)
from drpu.exceptions import ContradictionWarning, DataError, ParameterError
from drpu.models.crossfit import Known
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure
from drpu.state.labels import Classes, check_same_rows, read_answers, read_labels, split_negatives
from drpu.state.population import with_labelled
from drpu.tables.frames import collected, is_frame, warn_of_order
from drpu.tables.values import is_missing, positions_in


@dataclass(frozen=True, slots=True)
class TrainingAnswers:
    """Answers that a fit uses.

    ``of_unlabeled``: Whether the rows were chosen among the unlabeled rows of the fit only.
    """

    answers: Answers  # true labels and their design
    place: IntArray  # positions of the answered rows in the rows of the fit, or in ``other``
    other: Any = None  # other rows than those of the fit
    of_unlabeled: bool = False

    @property
    def chance(self) -> FloatArray:
        """Probability with which each row was chosen, without a scale."""
        answers = self.answers
        return np.asarray((answers.sizes / np.maximum(answers.rows, 1))[answers.stratum])


def training_answers(audits: Any, classes: Classes, labelled: BoolArray) -> list[TrainingAnswers]:
    """The answers in ``audits``, as in ``fit``."""
    parts = []
    others = []
    for item in _listed_audits(audits):
        other = None
        audit = item
        if isinstance(item, tuple) and len(item) == 2:
            other, audit = item
        for part in check_audit(audit).parts:
            parts.append(part)
            others.append(other)
    refuse_repeated(parts)
    answers = []
    for part, other in zip(parts, others, strict=True):
        answers.append(_training_part(part, other, classes, labelled))
    return answers


def _listed_audits(audits: Any) -> Any:
    """``audits`` as a list of audits and of pairs (rows, audit); it may be one of these."""
    if isinstance(audits, list):
        return audits
    if isinstance(audits, tuple) and all(isinstance(item, (Audit, tuple)) for item in audits):
        return audits
    return [audits]


def _training_part(
    part: AuditPart | RandomPart, other: Any, classes: Classes, labelled: BoolArray
) -> TrainingAnswers:
    n = len(labelled)
    unlabeled = np.flatnonzero(~labelled)
    if isinstance(part, RandomPart):
        answered, positive = read_answers(list(part.labels), classes)
        answers = Answers.random(positive, part.error_rate, part.groups_of(answered))
        if not part.positions:
            return TrainingAnswers(answers, np.flatnonzero(answered), part.rows)
        planned = n if other is None else len(other)
        place = check_positions("rows", part.rows, planned)[answered]
    else:
        answers = part.answers
        planned = int(answers.rows.sum())
        if part.rows is None or part.rows.max() >= planned:
            raise DataError("audits must not be planned by groups: plan one audit of all rows.")
        place = part.rows
    if other is not None:
        if planned != len(other):
            raise DataError(f"the audit was planned on {planned} rows, got {len(other)} beside it.")
        return TrainingAnswers(answers, place, other)
    if planned not in (n, len(unlabeled)):
        raise DataError(
            f"audits must be about the rows of X ({n}) or its unlabeled ones ({len(unlabeled)}), "
            f"got one that was planned on {planned} rows: pass (rows, audit) for other rows."
        )
    if planned != n:
        return TrainingAnswers(answers, unlabeled[place], None, of_unlabeled=True)
    # Positions of a random sample without any labelled row were chosen among the unlabeled ones.
    of_unlabeled = isinstance(part, RandomPart) and not labelled[part.rows].any()
    return TrainingAnswers(answers, place, None, of_unlabeled)


@dataclass(frozen=True, slots=True)
class _KnownPart:
    sample: Sample
    positive: BoolArray
    place: IntArray  # among the unlabeled rows; -1 for other rows


def known_rows(
    pair: SamplePair,
    labelled: BoolArray,
    answers: list[TrainingAnswers],
    negative: BoolArray | None,
    check: Callable[[Any], Rows],
) -> Known | None:
    """All rows of known class: answers, and unlabeled rows with the negative label.

    ``check`` reads rows that are not those of the fit.
    """
    place_among_unlabeled = np.cumsum(~labelled) - 1
    parts = []
    if negative is not None:
        place = place_among_unlabeled[negative]
        sample = replace(pair.unlabeled.take(place), groups=None)
        parts.append(_KnownPart(sample, np.zeros(len(place), bool), place))
    _warn_of_answered_positives(answers, labelled)
    for part in answers:
        if part.other is None:
            kept = ~labelled[part.place]
            place = place_among_unlabeled[part.place[kept]]
            rows = pair.unlabeled.rows[place]
        else:
            kept = np.ones(len(part.place), bool)
            place = np.full(len(part.place), -1)
            rows = check(part.other)[part.place]
        parts.append(_answered_part(part, kept, rows, place))
    parts = [part for part in parts if len(part.positive)]
    if not parts:
        return None
    sample = parts[0].sample
    for more in parts[1:]:
        sample = sample.joined(more.sample)
    positive = np.concatenate([part.positive for part in parts])
    return Known(sample, positive, np.concatenate([part.place for part in parts]))


def _answered_part(
    part: TrainingAnswers, kept: BoolArray, rows: Rows, place: IntArray
) -> _KnownPart:
    """Answered rows with their design weights, which are scaled within each class."""
    positive = part.answers.positive[kept]
    chance = part.chance[kept]
    weight = np.ones(len(positive))
    for of_class in (positive, ~positive):
        if of_class.any():
            weight[of_class] = answer_weights(chance[of_class])
    if np.allclose(weight, 1):
        return _KnownPart(Sample(rows), positive, place)
    return _KnownPart(Sample(rows, weight), positive, place)


def _warn_of_answered_positives(answers: list[TrainingAnswers], labelled: BoolArray) -> None:
    """Warn of rows that are labelled as positive and were answered as negative."""
    n = 0
    for part in answers:
        if part.other is None:
            n += int((labelled[part.place] & ~part.answers.positive).sum())
    if n:
        ContradictionWarning.issue(
            f"{n} labelled rows were answered as negative. They are used as positives, as y says.",
            advice="Correct y if the answers are right.",
        )


def beside(pair: SamplePair, known: Known, negative: BoolArray) -> tuple[SamplePair, Known]:
    """The pair without the unlabeled rows ``negative``, which come beside it in case-control."""
    place = np.where(negative, -1, np.cumsum(~negative) - 1)[known.place]
    place = np.where(known.place < 0, -1, place)
    rest = pair.unlabeled.take(np.flatnonzero(~negative))
    return SamplePair(pair.positive, rest), replace(known, place=place)


def prior_from_answers(
    answers: list[TrainingAnswers], n_labelled: int, n_unlabeled: int, fraction: float
) -> PriorEstimate | None:
    """Prior of the training population from answers about its rows; None if there are none."""
    about_rows = [part for part in answers if part.other is None]
    if not about_rows:
        return None
    figures = []
    for part in about_rows:
        share = part.answers.answered_share(part.answers.positive, (0.025, 0.025))
        if not part.of_unlabeled:
            share = _among_unlabeled(share, n_labelled, n_unlabeled)
        figures.append(share)
    n_answers = sum(len(part.answers.positive) for part in about_rows)
    prior = off_the_ends(combine_figures(figures), 1.0, 0.95, n_answers)
    return with_labelled(prior, fraction)


def _among_unlabeled(share: Figure, n_labelled: int, n_unlabeled: int) -> Figure:
    """The share of positives among unlabeled rows; labelled rows are known to be positive."""
    n = n_labelled + n_unlabeled

    def remaining(value: float) -> float:
        return min(max((value * n - n_labelled) / n_unlabeled, 0.0), 1.0)

    variance = share.variance * (n / n_unlabeled) ** 2
    return Figure(remaining(share.value), remaining(share.low), remaining(share.high), variance)


@dataclass(frozen=True, eq=False, repr=False)
class LabellingWeights(TableResult):
    """Weights under which the labelled rows represent all positives, and the rates behind them.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        One weight per row, for ``fit(X, y, sample_weight=...)``: 1 for rows that are not labelled,
        and with mean 1 for labelled rows. Multiply them by your own weights if you have some.
    rates : dict
        Rate of labelling by the value of the column ``by``, or by the tuple of values of several
        columns: a figure with ``value``, ``low`` and ``high``.
    by : tuple
        The columns.
    n_labelled : dict
        Number of labelled rows by the same values.
    """

    weights: FloatArray
    rates: dict[Any, Figure]
    by: tuple[Any, ...]
    n_labelled: dict[Any, int]

    def to_columns(self) -> TableColumns:
        """One row per value of the columns, with its rate and its number of labelled rows."""
        rows = []
        for level, rate in self.rates.items():
            name = level
            if len(self.by) > 1:
                name = ", ".join(map(str, level))
            row = {
                "level": name,
                "rate": rate.value,
                "low": rate.low,
                "high": rate.high,
                "labelled": self.n_labelled[level],
            }
            rows.append(row)
        return columns_of(rows)

    def _title(self) -> str:
        names = ", ".join(map(str, self.by))
        return f"{len(self.weights):,} rows, rates of labelling by {names}"


@default_errors
def labelling_weights(
    X: Rows,
    y: Any,
    *,
    by: Any,
    rates: Mapping[Any, float] | None = None,
    audits: Any = None,
    pos_label: Any = None,
    negative_label: Any = None,
) -> LabellingWeights:
    """Weights for a fit where the rate at which positives are labelled depends on known columns.

    The labelled positives are then no random sample of all positives. With weights in inverse
    proportion to the rates they represent all of them.

    Parameters
    ----------
    X : rows of shape (n, d)
        The training rows, in memory.
    y : array-like of shape (n,)
        Their labels, as in :meth:`drpu.DRPUClassifier.fit`.
    by : str, int or list
        The columns that decide who gets labelled, such as a branch or a month; positions if ``X``
        is an array.
    rates : mapping, optional
        The known probability that a positive is labelled, by the value of the column, or by the
        tuple of values of several columns. Give this or ``audits``.
    audits : list of Audit, optional
        Answers about rows of ``X``, or about its unlabeled rows, from which the rates are
        estimated.
    pos_label, negative_label : label, optional
        As in :class:`drpu.DRPUClassifier`.

    Returns
    -------
    result : LabellingWeights
        ``result.weights`` for ``sample_weight``, and ``result.rates`` with their limits.

    Notes
    -----
    In each cell of the columns the rate is :math:`l / (l + u s)` with :math:`l` labelled
    rows, :math:`u` unlabeled ones and the share :math:`s` of positives among them. Rates of cells
    with few answers are shrunk to the mean over cells.

    Examples
    --------
    >>> import numpy as np
    >>> from drpu import labelling_weights
    >>> branch = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    >>> y = np.array([1, 1, 0, 1, 0, 0, 0, 0])
    >>> found = labelling_weights(branch[:, None], y, by=0, rates={0: 0.8, 1: 0.2})
    >>> found.weights
    array([0.5, 0.5, 1. , 2. , 1. , 1. , 1. , 1. ])
    """
    if (rates is None) == (audits is None):
        raise ParameterError(
            "give rates, the known ones, or audits to estimate them, one of the two."
        )
    X = collected(X)
    warn_of_order(X, y=y)
    y, _, classes = split_negatives(y, negative_label, pos_label)
    labelled, read_classes = read_labels(y, pos_label)
    cells = _LabellingCells.of(X, by)
    check_same_rows(len(cells.cell), len(labelled))
    if audits is not None:
        answers = training_answers(audits, read_classes if classes is None else classes, labelled)
        rate_of_level = _rates_from_answers(cells, labelled, answers)
    else:
        rate_of_level = _known_rates(rates, cells.levels_of(labelled))
    value_of_cell = np.full(len(cells.levels), np.nan)
    n_labelled = dict.fromkeys(rate_of_level, 0)
    labelled_of_cell = cells.count(labelled)
    for k, level in enumerate(cells.levels):
        if level in rate_of_level:
            value_of_cell[k] = rate_of_level[level].value
            n_labelled[level] = int(labelled_of_cell[k])
    weights = np.ones(len(labelled))
    weights[labelled] = inverse_weights(value_of_cell[cells.cell[labelled]])
    return LabellingWeights(weights, rate_of_level, tuple(_listed(by)), n_labelled)


def _known_rates(rates: Any, needed: list[Any]) -> dict[Any, Figure]:
    """Given rates as figures without uncertainty; every level with labelled rows needs one."""
    if not isinstance(rates, Mapping):
        raise ParameterError(
            "rates must be a mapping from the values of the columns by to rates. If you know the "
            "rate of each row, no function is needed: labelled rows have weights 1 / rate, divided "
            "by their mean."
        )
    for level in needed:
        if level not in rates:
            raise DataError(
                "rates must have a rate for every level with labelled rows, got none for "
                f"{level!r:.100}."
            )
    values = check_numbers("rates", list(rates.values()))
    figures = {}
    for level, value in zip(rates, values.tolist(), strict=True):
        if not 0 < value <= 1:
            raise DataError(f"rates must lie in (0, 1], as they are probabilities, got {value!r}.")
        figures[level] = Figure(value, value, value)
    return figures


def _rates_from_answers(
    cells: _LabellingCells, labelled: BoolArray, answers: list[TrainingAnswers]
) -> dict[Any, Figure]:
    """Rate of labelling in each cell, from answers about unlabeled rows of the fit."""
    places = []
    positives = []
    weights = []
    for part in answers:
        if part.other is None:
            unlabeled = ~labelled[part.place]
            places.append(part.place[unlabeled])
            positives.append(part.answers.positive[unlabeled])
            weights.append(1 / part.chance[unlabeled])
    if not places:
        raise ParameterError(
            "audits must have answers about rows of X, from which the rates are estimated: answers "
            "about other rows say nothing about them. If you know the rates, pass "
            "rates={level: rate}."
        )
    rates = rates_by_cell(
        cells.count(labelled),
        cells.count(~labelled),
        cells.cell[np.concatenate(places)],
        np.concatenate(positives),
        weight=np.concatenate(weights),
    )
    return dict(zip(cells.levels, rates, strict=True))


def _listed(by: Any) -> list[Any]:
    """The columns as a list; ``by`` may be one column or several."""
    columns: list[Any] = [by]
    if hasattr(by, "__len__") and not isinstance(by, str):
        columns = list(by)
    if not columns:
        raise ParameterError("by must name at least one column, got none.")
    return columns


@dataclass(frozen=True, slots=True)
class _LabellingCells:
    """The levels of some columns, values or tuples of values, and the cell of each row."""

    levels: list[Any]
    cell: IntArray

    @classmethod
    def of(cls, X: Any, by: Any) -> _LabellingCells:
        """The cells of the rows of ``X`` by the columns ``by``."""
        columns = _listed(by)
        if is_frame(X):
            values = _frame_values(X, columns)
        else:
            values = _array_values(X, columns)
        filled = [_without_gaps(column) for column in values]
        level_of_row = filled[0]
        if len(columns) > 1:
            level_of_row = list(zip(*filled, strict=True))
        levels = sorted(set(level_of_row), key=str)
        return cls(levels, positions_in(levels, level_of_row))

    def count(self, rows: BoolArray) -> IntArray:
        """How many of these rows are in each cell."""
        return np.bincount(self.cell[rows], minlength=len(self.levels))

    def levels_of(self, rows: BoolArray) -> list[Any]:
        """The levels that these rows have."""
        return [self.levels[k] for k in np.unique(self.cell[rows])]


def _without_gaps(values: list[Any]) -> list[Any]:
    """The values with None for every missing one, so that all of these are equal."""
    return [None if is_missing(value) else value for value in values]


def _frame_values(X: Any, columns: list[Any]) -> list[list[Any]]:
    table = nw.from_native(X, eager_only=True)
    for name in columns:
        if name not in table.columns:
            raise DataError(f"by must name columns of X, got {name!r}.")
    return [table[name].to_list() for name in columns]


def _array_values(X: Any, columns: list[Any]) -> list[list[Any]]:
    try:
        array = indexable(X)
    except ValueError as error:
        raise DataError(f"X must have rows of one length: {one_line(error)}") from error
    if array.ndim != 2:
        raise DataError(
            f"by needs rows with columns, got X of shape {array.shape}: if you know the rate of "
            "each row, labelled rows have weights 1 / rate, divided by their mean."
        )
    for name in columns:
        is_whole = isinstance(name, (int, np.integer)) and not isinstance(name, bool)
        if not is_whole or not 0 <= name < array.shape[1]:
            raise ParameterError(
                f"by must hold positions of columns for an array, got {columns!r:.100}."
            )
    chosen: Any = array[:, columns]
    if is_sparse(X):
        chosen = chosen.toarray()
    values: list[list[Any]] = chosen.T.tolist()
    return values
