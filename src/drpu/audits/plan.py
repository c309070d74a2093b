"""Audits: plans of rows to label, and answers, which are read as true labels."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._arrays import BoolArray, FloatArray, IntArray, Rows, as_numpy
from drpu._checks import check_choice, check_fraction, check_integer, check_real
from drpu._output import in_notebook
from drpu._process import default_errors_in
from drpu._results import html_text
from drpu.audits.evaluation import (
    Answers,
    Strata,
    draw_rows,
    effective_counts,
    expected_width,
    few_of_a_kind,
    independent_rows_of,
    make_strata,
    stopped_tails,
    stratified_share,
    with_reading,
)
from drpu.exceptions import (
    DataError,
    DataTypeError,
    LabelError,
    MissingAnswersWarning,
    ParameterError,
)
from drpu.periods.read import matched_prior, read_new_rows
from drpu.priors.calibration import ratio_posterior
from drpu.priors.constants import FEW_ANSWERS
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.labels import Classes, listed, read_answers
from drpu.state.reference import Reference
from drpu.state.rows import Batch
from drpu.tables.frames import as_records, collected, is_frame, read_frame, warn_of_order
from drpu.tables.values import group_codes, is_missing_cell


def true_labels(y: Any, classes: Classes, *, blank: str | None = None) -> list[Any]:
    """The true labels of rows; with ``blank="negative"``, a missing label is that of a negative.

    Labels of one class beside blanks are refused otherwise: they are often those of a training
    table, where a blank is not a missing answer, and every measured precision would be 0 or 1.
    """
    if blank not in (None, "negative"):
        raise ParameterError(f"blank must be 'negative' or None, got {blank!r:.100}.")
    values = listed(y, "y")
    answered, positive = read_answers(values, classes, name="y")
    if answered.all():
        return values
    if blank == "negative":
        flags = np.zeros(len(values), dtype=bool)
        flags[answered] = positive
        return list(flags.tolist())
    if positive.all() or not positive.any():
        kind = "positive" if positive.all() else "negative"
        finding = f"all answers are {kind} and the other rows are blank, which means no answer"
        raise LabelError(
            f"y: {finding}. Pass blank='negative' if blank rows are negative, write both labels, "
            "or leave the rows without an answer out.",
            command=f"{finding}: write no for negatives, or --blank no if blank rows are negative.",
        )
    return values


def audit_of_labels(
    X: Any, y: Any, classes: Classes, *, blank: str | None = None, groups: Any = None
) -> Audit:
    """The audit ``X``, or answers ``y`` about the simple random sample of rows ``X``."""
    if isinstance(X, (Audit, AuditPlan)):
        for name, value in {"y": y, "blank": blank, "groups": groups}.items():
            if value is not None:
                raise ParameterError(f"{name} must be None with an audit: it contains the answers.")
        return check_audit(X)
    if y is None:
        raise ParameterError("y must be given with rows: their true labels.")
    warn_of_order(X, y=y)
    return Audit.random(X, true_labels(y, classes, blank=blank), groups=groups)


def refuse_beside_audit(*, shift: str, **arguments: Any) -> None:
    """Raise if ``adapt`` was called with an audit and another argument that sets the prior."""
    if shift != "auto":
        arguments["shift"] = shift
    for name, value in arguments.items():
        if value is not None:
            raise ParameterError(
                f"{name} must be left out with an audit: its answers are used instead."
            )


def check_positions(name: str, rows: Any, most: int | None) -> IntArray:
    """``rows`` as different positions from 0 on, below ``most`` if it is given."""
    array = np.asarray(as_numpy(rows))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be a list of integers, positions of rows, got {array.dtype} values."
        )
    positions = array.astype(np.int64)
    outside = positions < 0
    if most is not None:
        outside |= positions >= most
    if outside.any():
        last = "the last row" if most is None else most - 1
        raise DataError(f"{name} must be positions from 0 to {last}, got {positions[outside][0]}.")
    values, counts = np.unique(positions, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"{name} must not name a row twice, got {values[counts > 1][0]} more than once: "
            "keep one answer for each row."
        )
    return positions


POPULATIONS = ("auto", "new", "training", "unlabeled")
SEEN = ("unlabeled", "fitted")  # populations whose rows were used in training


@dataclass(frozen=True, eq=False)
class AuditPart:
    """Answers for rows of one population, with the design by which the rows were chosen."""

    answers: Answers  # true labels, their strata, and the number of rows in each stratum
    scores: FloatArray  # scores of the answered rows
    counts: ScoreTails  # counts of all rows that the audit was planned on
    classifier: str  # mark of the classifier that gave the scores
    population: str = "auto"  # as in ``plan_audit``, or "fitted": all rows of training
    rows: IntArray | None = None  # positions of the answered rows among those of the plan

    @property
    def seen_in_training(self) -> bool:
        """Whether the rows were used in training: their scores differ from those of new rows."""
        return self.population in SEEN

    def __len__(self) -> int:
        return len(self.answers.positive)


@dataclass(frozen=True, eq=False)
class RandomPart:
    """Answers from simple random sampling: positions or values of rows, and their labels."""

    rows: Rows
    labels: tuple[Any, ...]
    positions: bool
    error_rate: float = 0.0
    groups: IntArray | None = None  # of each row

    def groups_of(self, answered: BoolArray) -> IntArray | None:
        """The groups of the answered rows."""
        if self.groups is None:
            return None
        return self.groups[answered]

    def __len__(self) -> int:
        return sum(not is_missing_cell(label) for label in self.labels)


@default_errors_in
class Audit:
    """True labels of a few rows, with the probabilities by which the rows were chosen.

    Made by :meth:`AuditPlan.answer` and by :meth:`Audit.random`. ``a + b`` joins the answers
    of two audits: of two months, or of two parts of a plan. Pass it to ``adapt(X, audit=...)`` to
    set both priors, or to ``evaluate`` to measure performance. It keeps labels and scores of the
    answered rows, no row values (except in :meth:`Audit.random` until it is used).

    Attributes
    ----------
    parts : tuple
        The answers, one part for each plan.
    n : int
        Number of answered rows.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.4, test_prior=0.2, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> plan = clf.plan_audit(data.test, n=30, random_state=0)
    >>> audit = plan.answer(data.test_labels[plan.rows])
    >>> audit.n
    30
    >>> clf.adapt(data.test, audit=audit).test_prior_.method
    'audit'
    """

    def __init__(self, parts: tuple[AuditPart | RandomPart, ...]) -> None:
        self.parts = parts

    @classmethod
    def random(
        cls, rows: Rows, labels: Any, *, groups: Any = None, error_rate: float = 0.0
    ) -> Audit:
        """Answers for rows that the user chose by simple random sampling.

        Parameters
        ----------
        rows : rows of shape (n, d), or array-like of n integers
            The rows themselves, or their positions in the rows that are passed to ``adapt``.
            They must be a simple random sample of the population of those rows: every row
            had the same probability of being chosen.
        labels : array-like of shape (n,)
            The true label of each: yes and no, 1 and 0, true and false, or values of ``classes_``;
            None, NaN and a blank mean: no answer.
        groups : array-like of shape (n,), optional
            What rows have in common that are not independent, such as patient or shop. Then groups
            may have been chosen by simple random sampling instead of rows, and limits are wider.
        error_rate : float, default=0.0
            Probability that an answer is wrong, below 1/2.

        Returns
        -------
        audit : Audit
        """
        error_rate = check_error_rate(error_rate)
        rows = collected(as_records(rows))
        warn_of_order(rows, rows="rows", labels=labels)
        answers = tuple(listed(labels))
        array = None if hasattr(rows, "columns") or hasattr(rows, "tocsr") else np.atleast_1d(rows)
        positions = array is not None and array.ndim == 1
        if positions:
            rows = check_positions("rows", rows, None)
        elif not hasattr(rows, "shape"):
            rows = array
        n = int(rows.shape[0])
        if n != len(answers):
            raise DataError(
                f"rows and labels must have the same length, got {n} and {len(answers)}."
            )
        if all(is_missing_cell(label) for label in answers):
            raise DataError("labels must hold at least one answer, got none.")
        codes = None
        if groups is not None:
            codes = group_codes("groups", groups, n)
        return cls((RandomPart(rows, answers, positions, error_rate, codes),))

    @property
    def n(self) -> int:
        """Number of answered rows."""
        return sum(len(part) for part in self.parts)

    def with_error_rate(self, error_rate: float) -> Audit:
        """The same answers, each of which is wrong with the probability ``error_rate``."""
        rate = check_error_rate(error_rate)
        parts: list[AuditPart | RandomPart] = []
        for part in self.parts:
            if isinstance(part, RandomPart):
                parts.append(replace(part, error_rate=rate))
            else:
                parts.append(replace(part, answers=replace(part.answers, error_rate=rate)))
        return Audit(tuple(parts))

    def __add__(self, other: Audit) -> Audit:
        if not isinstance(other, Audit):
            return NotImplemented
        both = [*self.parts, *other.parts]
        if len({id(part) for part in both}) < len(both):
            raise DataError("an audit must not be given twice: its answers would be counted twice.")
        planned = [part for part in both if isinstance(part, AuditPart)]
        if len({part.classifier for part in planned}) > 1:
            raise ParameterError(
                "audits can be added only if the same classifier planned them: "
                "these were planned by different ones."
            )
        parts = list(self.parts)
        for part in other.parts:
            _add_part(parts, part)
        return Audit(tuple(parts))

    def __repr__(self) -> str:
        return f"Audit(n={self.n}, parts={len(self.parts)})"

    def __str__(self) -> str:
        return f"{self.n:,} answers, parts: {len(self.parts)}"

    def _repr_html_(self) -> str:
        return html_text(self)


def _add_part(parts: list[AuditPart | RandomPart], part: AuditPart | RandomPart) -> None:
    """Add a part to a list of parts, joined with the one of the same plan if there is one."""
    for k, earlier in enumerate(parts):
        if isinstance(earlier, RandomPart) or isinstance(part, RandomPart):
            continue
        if _same_plan(earlier, part):
            parts[k] = _joined(earlier, part)
            return
    parts.append(part)


def _same_plan(first: AuditPart, second: AuditPart) -> bool:
    """Whether two parts answer a plan with the same strata of the same rows."""
    if first.rows is None or second.rows is None or first.population != second.population:
        return False
    same_strata = np.array_equal(first.answers.rows, second.answers.rows)
    same_errors = first.answers.error_rate == second.answers.error_rate
    same_groups = first.answers.independent_rows == second.answers.independent_rows
    return same_strata and same_errors and same_groups and first.counts == second.counts


def _joined(first: AuditPart, second: AuditPart) -> AuditPart:
    """The answers of two parts of one plan; a row that both answered counts once."""
    assert first.rows is not None  # parts of a plan know their rows
    assert second.rows is not None
    _, in_first, in_second = np.intersect1d(first.rows, second.rows, return_indices=True)
    different = first.answers.positive[in_first] != second.answers.positive[in_second]
    if different.any():
        rows = first.rows[in_first[different]]
        raise DataError(
            f"the answers about {len(rows)} rows differ, first about row {rows[0]}: settle it "
            "first, and keep one answer for each row."
        )
    new = np.setdiff1d(np.arange(len(second.rows)), in_second)
    groups = None
    if first.answers.groups is not None and second.answers.groups is not None:
        groups = np.append(first.answers.groups, second.answers.groups[new])
    answers = replace(
        first.answers,
        positive=np.append(first.answers.positive, second.answers.positive[new]),
        stratum=np.append(first.answers.stratum, second.answers.stratum[new]),
        groups=groups,
    )
    return replace(
        first,
        answers=answers,
        scores=np.concatenate([first.scores, second.scores[new]]),
        rows=np.append(first.rows, second.rows[new]),
    )


def refuse_repeated(parts: Sequence[AuditPart | RandomPart]) -> None:
    """Raise if the same answers are given twice, which would be counted twice."""
    for first, second in itertools.combinations(parts, 2):
        if first is second or _same_rows(first, second):
            raise DataError("an audit must not be given twice: its answers would be counted twice.")


def _same_rows(first: AuditPart | RandomPart, second: AuditPart | RandomPart) -> bool:
    """Whether two parts are answers about the same rows of the same plan."""
    if not isinstance(first, AuditPart) or not isinstance(second, AuditPart):
        return False
    if first.rows is None or second.rows is None:
        return False
    return np.array_equal(np.sort(first.rows), np.sort(second.rows)) and (
        first.counts == second.counts
    )


@dataclass(frozen=True, slots=True)
class AuditProgress:
    """How much the first answers to a plan tell about the prior of its rows.

    Attributes
    ----------
    n : int
        Number of answers.
    skipped : int
        Number of rows before the last answered one that have no answer.
    prior : PriorEstimate
        Prior of the rows by these answers, with the limits that ``adapt`` gives.
    """

    n: int
    skipped: int
    prior: PriorEstimate
    strata: Strata
    answers: Answers
    without_answers: PriorEstimate

    @property
    def width(self) -> float:
        """Width of the interval of the prior."""
        return self.prior.high - self.prior.low

    def __str__(self) -> str:
        facts = f"{self.n} answers, interval {self.width:.3f} wide"
        if self.n == 0:
            return facts
        return f"{facts}{few_of_a_kind(int(self.answers.positive.sum()), self.n)}"

    def _repr_html_(self) -> str:
        return html_text(self)

    def width_after(self, further: int) -> float:
        """Expected width after so many further answers, if they are like those so far."""
        check_integer("further", further, low=0)
        answers = self.answers
        hits_so_far = answers.hits(answers.positive)
        sizes = np.maximum(self.strata.first(self.n + further).planned, answers.sizes)
        share = (hits_so_far + self.strata.posterior) / (answers.sizes + 1)
        hits = hits_so_far + (sizes - answers.sizes) * share
        tails = stopped_tails(self.without_answers.level)
        effect = answers.design_effect(answers.positive, min(tails))
        further_share = stratified_share(
            self.strata.weight,
            *effective_counts(hits, sizes, effect),
            tails=tails,
            rows=answers.n_rows,
        )
        interval = with_reading(further_share, self.without_answers)
        return interval.high - interval.low


@default_errors_in
@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to label, chosen by ``plan_audit``, in an order of which every beginning is a plan.

    Answer the rows in this order and stop at any time: the rows answered so far are a stratified
    random sample, and limits hold whether answering stops after a number of rows or as soon as the
    interval is narrow enough. A longer plan of the same rows with the same ``random_state`` begins
    with the same rows.

    Attributes
    ----------
    rows : ndarray of shape (n,)
        Positions of the rows to label.
    chance : ndarray of shape (n,)
        Probability with which each of these rows was chosen.
    strata : Strata
        Ranges of scores, the number of rows in each and the number to label.
    expected_width : float
        Width of the interval of the prior if the answers are as the classifier expects.
    without_answers : PriorEstimate
        Prior of the rows as ``adapt`` reads it without answers.
    level : float
        Confidence level of that interval.
    groups : ndarray of shape (n,), or None
        Number of the group of each of these rows, if ``plan_audit`` was told the groups.
    independent_rows : float or None
        Number of independent rows that tell as much as all rows, if rows of a group are alike.
    """

    rows: IntArray
    strata: Strata
    stratum: IntArray
    scores: FloatArray
    counts: ScoreTails
    classes: np.ndarray[Any, Any]
    classifier: str
    population: str
    expected_width: float
    without_answers: PriorEstimate
    level: float
    groups: IntArray | None = None
    independent_rows: float | None = None

    @property
    def n(self) -> int:
        """Number of rows to label."""
        return len(self.rows)

    @property
    def chance(self) -> FloatArray:
        """Probability with which each planned row was chosen."""
        return np.asarray((self.strata.planned / self.strata.rows)[self.stratum])

    def first(self, n: int) -> AuditPlan:
        """The plan of the first ``n`` rows."""
        if check_integer("n", n, low=1) > self.n:
            raise ParameterError(
                f"n must be at most the number of planned rows, {self.n}, got {n}."
            )
        planned = np.bincount(self.stratum[:n], minlength=len(self.strata.rows))
        strata = replace(self.strata, planned=planned.astype(np.int64))
        groups = None
        if self.groups is not None:
            groups = self.groups[:n]
        return replace(
            self,
            groups=groups,
            rows=self.rows[:n],
            strata=strata,
            stratum=self.stratum[:n],
            scores=self.scores[:n],
            expected_width=expected_width(strata, self.level, _bound(self.without_answers)),
        )

    def answer(self, labels: Any, *, rows: Any = None, error_rate: float = 0.0) -> Audit:
        """The audit with these answers.

        Parameters
        ----------
        labels : array-like of shape (n,) or shorter, mapping from position to label, or frame
            The true label of each row in the order of ``rows``: yes and no, 1 and 0, true and
            false, or values of ``classes_``. None, NaN and a blank mean: no answer. A shorter list
            has the answers about the first rows. A data frame is the table of :meth:`to_frame`,
            filled in.
        rows : array-like of int, optional
            Positions that the labels belong to, in any order; the first planned rows when left
            out. Planned rows that are not named have no answer.
        error_rate : float, default=0.0
            Probability that an answer is wrong, below 1/2: shares, limits and probabilities are
            corrected for it.

        Returns
        -------
        audit : Audit

        Warns
        -----
        MissingAnswersWarning
            If rows before the last answered one have no answer.
        """
        error_rate = check_error_rate(error_rate)
        place, values = self._placed(labels, rows)
        answered, positive = read_answers(values, self.classes)
        place = place[answered]
        reached = int(place.max()) + 1
        if len(place) < reached:
            warn_of_missing(reached - len(place), reached)
        answers = replace(self._answers(place, positive), error_rate=error_rate)
        design = (self.counts, self.classifier, self.population, self.rows[place])
        return Audit((AuditPart(answers, self.scores[place], *design),))

    def progress(self, labels: Any) -> AuditProgress:
        """What the answers so far tell: cheap, to be called after each answer.

        ``labels`` are answers about the first rows, as in :meth:`answer`; there may be none.
        """
        place, values = self._placed(labels, None)
        reading = self.without_answers
        if all(is_missing_cell(value) for value in values):
            none = self._answers(place[:0], np.zeros(0, dtype=bool))
            return AuditProgress(0, 0, reading, self.strata, none, reading)
        answered, positive = read_answers(values, self.classes)
        place = place[answered]
        answers = self._answers(place, positive)
        share = answers.share(positive, stopped_tails(reading.level))
        figure = with_reading(share, reading)
        value = min(max(figure.value, figure.low), figure.high)
        prior = PriorEstimate(value, figure.low, figure.high, reading.level, "audit")
        skipped = int(place.max()) + 1 - len(place)
        return AuditProgress(len(place), skipped, prior, self.strata, answers, reading)

    def _answers(self, place: IntArray, positive: BoolArray) -> Answers:
        """The answers about the rows at some places of the plan, with their design."""
        groups = None
        if self.groups is not None:
            groups = self.groups[place]
        return Answers(
            positive,
            self.stratum[place],
            self.strata.rows,
            groups=groups,
            independent_rows=self.independent_rows,
        )

    def _placed(self, labels: Any, rows: Any) -> tuple[IntArray, list[Any]]:
        """Places in the plan, and the answer for each."""
        if is_frame(labels):
            labels = self._filled_in(labels)
        if isinstance(labels, Mapping):
            if rows is not None:
                raise ParameterError(
                    "rows must be None if labels is a mapping: its keys are the rows."
                )
            rows, labels = list(labels), list(labels.values())
        values = listed(labels)
        if rows is None:
            if len(values) > self.n:
                raise DataError(
                    f"labels must hold at most one answer for each of {self.n} planned rows, got "
                    f"{len(values)}."
                )
            return np.arange(len(values)), values
        place = self._places(rows)
        if len(values) != len(place):
            raise DataError(
                f"labels must hold one answer for each of {len(place)} rows, got {len(values)}: "
                "use None for rows without an answer."
            )
        return place, values

    def ask(self, X: Rows, *, n: int | None = None, keep: Any = None, page: Any = None) -> Any:
        """Ask about the planned rows, one at a time: on a page in a notebook, otherwise in text.

        Parameters
        ----------
        X : rows of shape (N, d)
            The rows that the audit was planned on.
        n : int, optional
            Number of answers after which it stops; all planned rows when left out.
        keep : list of str, optional
            Columns to show; all when left out.
        page : bool, optional
            Whether to make a page; True in a notebook when left out. The page holds values of the
            planned rows, and sends nothing.

        Returns
        -------
        audit : Audit, or ShownPage
            The answers that were typed, for ``adapt(X, audit=...)``. Or the page, which a notebook
            shows: it saves a file, for ``adapt(X, audit=pandas.read_csv("answers.csv"))``.
            ``str(page)`` is its HTML.
        """
        from drpu.audits.ask import ask_in_text
        from drpu.audits.ask_page import page_in_notebook

        if page is None:
            page = in_notebook()
        if page:
            return page_in_notebook(self, X, n=n, keep=keep)
        return ask_in_text(self, X, n=n, keep=keep)

    def to_frame(self, X: Rows) -> Any:
        """The planned rows of ``X`` as a table to fill in, with the columns of :meth:`to_columns`.

        :meth:`answer` accepts the table when its column ``drpu_label`` is filled in.
        """
        from drpu.audits.ask import table_to_fill_in

        return table_to_fill_in(self, X)

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns that a file of rows to label needs besides the rows, in the order of ``rows``.

        ``drpu_row``: their positions; ``drpu_design``: how each was chosen, with a checksum;
        ``drpu_label``: None, to be filled in. :func:`drpu.audits.answers_file.audit_from_columns`
        reads the file.
        """
        return {ROW: self.rows.tolist(), DESIGN: self._design(), LABEL: [None] * self.n}

    def _design(self) -> list[str]:
        """How each row was chosen, as texts with a checksum."""
        strata = []
        for planned, rows in zip(self.strata.planned, self.strata.rows, strict=True):
            strata.append(f"{planned}of{rows}")
        design = f"{VERSION}-{self.classifier}-{self.population}-{'_'.join(strata)}"
        groups = [""] * self.n
        if self.groups is not None:
            groups = [f"{group}of{self.independent_rows:.17g}" for group in self.groups]
        texts = []
        rows_of_plan = zip(self.rows, self.stratum, groups, mean_scores(self.scores), strict=True)
        for place, (row, stratum, group, score) in enumerate(rows_of_plan):
            body = f"{design}-{place}-{stratum}-{group}-{score:.6g}".replace("+", "")
            texts.append(f"{body}-{check_of(int(row), body)}")
        return texts

    def _filled_in(self, frame: Any) -> dict[int, Any]:
        """The answers in the table of :meth:`to_frame`, by position."""
        table = read_frame(frame)
        for name in (ROW, DESIGN, LABEL):
            if name not in table.positions:
                raise DataError(
                    f"the table of answers must have a column {name!r}, got {table.names}: fill in "
                    "the table of to_frame(X)."
                )
        columns = [table.column(table.positions[name]).to_list() for name in (ROW, DESIGN, LABEL)]
        designs = dict(zip(self.rows.tolist(), self._design(), strict=True))
        answers = {}
        for row, design, label in zip(*columns, strict=True):
            position = _position(row)
            if designs.get(position) != design:
                raise DataError(
                    f"the table of answers belongs to another plan, or was changed, at {ROW} = "
                    f"{row}: pass the table of this plan's to_frame(X), filled in, or the table "
                    "itself to adapt(X, audit=table)."
                )
            answers[position] = label
        return answers

    def _places(self, rows: Any) -> IntArray:
        """Places of the given positions in the plan."""
        wanted = check_positions("rows", rows, None)
        order = np.argsort(self.rows)
        nearest = np.searchsorted(self.rows, wanted, sorter=order)
        place = order[np.minimum(nearest, self.n - 1)]
        wrong = wanted[self.rows[place] != wanted]
        if len(wrong):
            raise DataError(
                f"rows must be rows of the plan, got {wrong[0]}, which was not planned: answers "
                "for other rows would bias the estimates. Use Audit.random for rows that you chose "
                "yourself."
            )
        return np.asarray(place, dtype=np.int64)

    def __repr__(self) -> str:
        return (
            f"AuditPlan(n={self.n}, rows={int(self.strata.rows.sum())}, "
            f"strata={len(self.strata.rows)}, expected_width={self.expected_width:.3f})"
        )

    def _repr_html_(self) -> str:
        strata = self.strata
        lines = []
        columns = zip(strata.rows, strata.planned, strata.posterior, strict=True)
        for h, (rows, planned, share) in enumerate(columns, start=1):
            lines.append(
                f"<tr><td>{h}</td><td>{rows:,}</td><td>{planned}</td><td>{share:.0%}</td></tr>"
            )
        head = "<th>stratum</th><th>rows</th><th>to label</th><th>expected positives</th>"
        return (
            f"<p><b>Audit plan</b>: label {self.n} of {int(strata.rows.sum()):,} rows; expected "
            f"width of the interval {self.expected_width:.3f} at {self.level:.0%}.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        )


ROW = "drpu_row"
DESIGN = "drpu_design"
LABEL = "drpu_label"
VERSION = "3"


def mean_scores(scores: Any) -> list[float]:
    """The mean score of each row, made finite, by which rows are recognised."""
    values: list[float] = np.clip(np.asarray(scores), -1e6, 1e6).mean(axis=1).tolist()
    return values


def _position(row: Any) -> int:
    """The position of a row that a table holds as a number or text; -1 if it is neither."""
    try:
        return int(float(row))
    except (TypeError, ValueError, OverflowError):  # int(inf) overflows
        return -1


def check_of(row: int, body: str) -> str:
    """Checksum of a row and its design."""
    return hashlib.sha256(f"{row}|{body}".encode()).hexdigest()[:8]


def check_error_rate(error_rate: Any) -> float:
    """``error_rate`` as a number from 0 to less than 1/2."""
    rate = check_real("error_rate", error_rate, low=0.0, high=0.5)
    if rate == 0.5:
        raise ParameterError("error_rate must be below 0.5, got 0.5: such answers say nothing.")
    return rate


def warn_of_missing(missing: int, planned: int, deleted: int = 0) -> None:
    """Warn about missing answers, and state when they do not matter."""
    how = f" ({deleted} of them are not in the file)" if deleted else ""
    MissingAnswersWarning.issue(
        f"{missing} of {planned} rows have no answer{how}, and the other {planned - missing} are "
        "used. The limits hold if the rows without an answer are missing at random; they do not if "
        "people skipped the rows that are hard to judge."
    )


def check_audit(audit: Any) -> Audit:
    """``audit``, if it is one."""
    if isinstance(audit, AuditPlan):
        raise DataTypeError("audit must hold answers, got a plan: pass plan.answer(labels).")
    if not isinstance(audit, Audit):
        raise DataTypeError(
            f"audit must be an Audit, got {type(audit).__name__}: make one with "
            "plan.answer(labels) or Audit.random(rows, labels)."
        )
    return audit


# -- planning ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Arguments of ``plan_audit``, checked."""

    n: int | None
    width: float | None
    population: str
    level: float
    groups: Any = None

    @classmethod
    def of(cls, n: Any, width: Any, population: str, level: Any, groups: Any = None) -> PlanRequest:
        """The request; raises if it has a number of rows and a width."""
        level = check_fraction("level", level)
        check_choice("population", population, POPULATIONS)
        if n is not None and width is not None:
            raise ParameterError(
                f"give n or width, one of the two, got n={n!r} and width={width!r}."
            )
        return cls(n, width, population, level, groups)


def plan_audit(
    fitted: FittedRatio,
    reference: Reference,
    batch: Batch,
    request: PlanRequest,
    rng: np.random.RandomState,
) -> AuditPlan:
    """The rows to label among those of ``batch``; see ``DRPUClassifier.plan_audit``."""
    n = _rows_to_plan(request, len(batch))
    population = request.population
    mark = fitted.population.training
    if population == "auto" and mark is not None:
        population = mark.population_of(batch.rows)
    ratio = np.exp(fitted.log_ratio_of(batch.scores))
    reading = read_new_rows(fitted, reference, batch.counts, level=request.level).prior
    prior = matched_prior(fitted, reference, batch.counts, level=bound_level(request.level))
    posterior = ratio_posterior(ratio, fitted.prior.value, prior.value)
    bound = _bound(reading)
    strata = make_strata(ratio, posterior, n or 1, prior.high)

    def width_of(n: int) -> float:
        return expected_width(strata.first(n), request.level, bound)

    if n is None:
        width = check_real("width", request.width, low=0.0, high=1.0)
        n = _rows_for_width(width, width_of, len(batch))
        strata = strata.first(n)
    chosen = draw_rows(strata, ratio, rng)
    plan = AuditPlan(
        rows=chosen,
        strata=strata,
        stratum=strata.of(ratio[chosen]),
        scores=batch.scores[chosen],
        counts=batch.counts,
        classes=fitted.classes,
        classifier=mark_of(fitted),
        population=population,
        expected_width=width_of(n),
        without_answers=reading,
        level=request.level,
    )
    if request.groups is None:
        return plan
    groups = group_codes("groups", request.groups, len(batch))
    return replace(plan, groups=groups[chosen], independent_rows=independent_rows_of(groups))


def mark_of(fitted: FittedRatio) -> str:
    """A short text, equal for two classifiers only if equal scores give equal counts.

    It names the classifier that an audit belongs to; adapting and saving do not change it.
    """
    tails = fitted.tails
    digest = hashlib.sha256(np.ascontiguousarray(tails.levels, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(tails.positive_counts, dtype="<f8").tobytes())
    digest.update(str(len(fitted.model.functions)).encode())
    return digest.hexdigest()[:12]


def _rows_to_plan(request: PlanRequest, most: int) -> int | None:
    """The number of rows that was asked for; None if a width was."""
    if request.n is not None:
        if check_integer("n", request.n, low=1) > most:
            raise ParameterError(f"n must be at most the number of rows, {most}, got {request.n}.")
        return request.n
    if request.width is not None:
        return None
    return min(FEW_ANSWERS, most)


def _bound(reading: PriorEstimate) -> float:
    """The upper limit without answers, which helps only if the prior is as high as estimated."""
    return reading.most if reading.identified else 1.0


def _rows_for_width(width: float, width_of: Callable[[int], float], most: int) -> int:
    """Smallest number of rows whose expected interval is at most ``width`` wide."""
    best = width_of(most)
    if best > width:
        raise ParameterError(
            f"width must be at least {best:.3f} here, got {width!r}: even the labels of all {most} "
            "rows leave this uncertainty about the population they come from. Pass more rows, or "
            "ask for a wider interval."
        )
    low = 0
    high = most
    while high - low > 1:
        middle = (low + high) // 2
        if width_of(middle) <= width:
            high = middle
        else:
            low = middle
    return high


BOUND = 0.2  # part of the error probability of the upper limit for the bound from unlabeled rows


def bound_level(level: float) -> float:
    """Level of the two-sided interval whose upper limit is a bound besides the answers."""
    return 1 - BOUND * (1 - level)
