"""Audits that people filled in, read from the columns of a file.

Each row of the file has the design by which it was chosen and a checksum. So a file can be sorted,
filled in partly, shortened or extended by columns, and is still read correctly. A row whose
position or design was changed is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._arrays import IntArray
from drpu.audits.evaluation import Answers
from drpu.audits.plan import (
    DESIGN,
    LABEL,
    POPULATIONS,
    ROW,
    SEEN,
    VERSION,
    Audit,
    AuditPart,
    AuditPlan,
    check_of,
    check_positions,
    mark_of,
    mean_scores,
    warn_of_missing,
)
from drpu.exceptions import DataError, LabelError, ParameterError
from drpu.priors.tails import ScoreTails
from drpu.state.fitted import FittedRatio
from drpu.state.labels import listed, read_answers
from drpu.state.rows import Batch
from drpu.tables.frames import read_frame
from drpu.tables.values import is_missing, is_missing_cell

_CLOSE = 1e-3  # scores of one row on two machines differ by less
SECOND_ANSWER = "answer_2"


FIRST_NUMBERS = (0, 1, 2)  # of rows: in Python, and in files without and with a header


@dataclass(frozen=True, slots=True)
class _Design:
    """The plan of an audit, as every row of its file states it."""

    classifier: str
    population: str
    strata: tuple[int, ...]  # rows planned in each stratum
    rows: tuple[int, ...]  # rows of each stratum
    independent_rows: float | None  # None if all are

    @property
    def planned(self) -> int:
        """Number of rows to label."""
        return sum(self.strata)


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of the file, and its answer."""

    row: int
    number: Any  # of the row, as the file has it
    design: _Design
    place: int  # in the order of the plan
    stratum: int
    group: int | None  # None if rows are independent
    score: float
    label: Any = None

    @property
    def is_answered(self) -> bool:
        """Whether the label was filled in."""
        return not is_missing_cell(self.label)


def read_audit(
    fitted: FittedRatio,
    batch: Batch,
    columns: Mapping[str, Any],
    *,
    label: str = LABEL,
) -> Audit:
    """The audit in a filled-in file.

    Parameters
    ----------
    fitted : FittedRatio
        The attribute ``fitted_`` of the classifier that planned the audit, or of an adaptation or
        a loaded copy of it.
    batch : Batch
        The rows that the audit was planned on, in their order at that time, scored.
    columns : mapping from name to array-like
        The columns of the file: ``drpu_row``, the position of the row or its line in a file,
        ``drpu_design`` and the labels. Values may be
        strings. Rows of the file may be in any order, and some may be missing.
    label : str, default="drpu_label"
        Name of the column with the answers: yes and no, 1 and 0, true and false, or values of
        ``classes_``; an empty field means: no answer.

    Returns
    -------
    audit : Audit
        For ``classifier.adapt(X, audit=...)``.
    """
    _refuse_second_answers(fitted, columns, label)
    return _audit(fitted, batch, _read_lines(columns, label), label)


def read_table(fitted: FittedRatio, batch: Batch | ScoreTails, table: Any) -> Audit:
    """The audit in a data frame that was filled in."""
    if isinstance(batch, ScoreTails):
        raise ParameterError("a table of answers needs the rows that it is about, not counts.")
    frame = read_frame(table)
    columns = {name: frame.column(place).to_list() for name, place in frame.positions.items()}
    return read_audit(fitted, batch, columns)


def read_plan(
    plan: AuditPlan, fitted: FittedRatio, batch: Batch, columns: Mapping[str, Any]
) -> tuple[AuditPlan, dict[int, bool]]:
    """The plan in a file that is partly filled in, and the answers by their place in this plan.

    ``plan`` is any plan of these rows by the same classifier; the other arguments are those of
    :func:`read_audit`. The rows are those that the file has, in the order in which they were
    planned.
    """
    _refuse_second_answers(fitted, columns, LABEL)
    lines = sorted(_read_lines(columns, LABEL), key=lambda line: line.place)
    rows = _checked_rows(fitted, batch, lines)
    design = lines[0].design
    if len(design.rows) != len(plan.strata.rows):
        raise DataError(
            "the audit file was planned by another version of drpu: its answers can be used, but "
            "for more questions choose another file."
        )
    answers = {}
    if any(line.is_answered for line in lines):
        labels = [line.label for line in lines]
        answered, positive = read_answers(labels, fitted.classes, name=LABEL)
        answers = dict(zip(np.flatnonzero(answered).tolist(), positive.tolist(), strict=True))
    strata = replace(plan.strata, rows=np.array(design.rows), planned=np.array(design.strata))
    stratum = np.array([line.stratum for line in lines])
    plan = replace(
        plan,
        rows=rows,
        strata=strata,
        stratum=stratum,
        scores=batch.scores[rows],
        population=design.population,
        groups=_groups_of(lines),
        independent_rows=design.independent_rows,
    )
    return plan, answers


def _refuse_second_answers(fitted: FittedRatio, columns: Mapping[str, Any], label: str) -> None:
    """Raise if the file has a column for the answers of a second person, which is no feature."""
    features = fitted.columns.names or ()
    for name in (SECOND_ANSWER, f"{label}_2"):
        if name in columns and name not in features:
            raise DataError(
                f"the audit file must hold one answer for each row, and it has a column {name!r}: "
                f"settle it first where two people disagree, write the result to {label!r}, and "
                "delete the other column."
            )


def _read_lines(columns: Mapping[str, Any], label: str) -> list[_Line]:
    """The rows of the file; raises if one of them was changed."""
    for name in (ROW, DESIGN, label):
        if name not in columns:
            raise DataError(
                f"the audit file must have a column {name!r}, got {list(columns)}: "
                "use the file that 'drpu ask' or 'drpu audit' wrote, with its columns."
            )
    rows = listed(columns[ROW], ROW)
    designs = listed(columns[DESIGN], DESIGN)
    labels = listed(columns[label], label)
    if not rows:
        raise DataError("the audit file holds no rows.")
    for row, design in zip(rows, designs, strict=True):
        _check_filled(row, design)
    lines = []
    changed = []
    first = _number_of_first(rows, designs)
    for row, design, answer in zip(rows, designs, labels, strict=True):
        line = _read_line(row, design, first)
        if line is None:
            changed.append(row)
        else:
            lines.append(replace(line, label=answer))
    if changed:
        more = f" and {len(changed) - 1} more rows" if len(changed) > 1 else ""
        raise DataError(
            f"the audit file was changed at {ROW} = {changed[0]!r}{more}: position and design do "
            f"not belong together. Restore {ROW} and {DESIGN} as they were written."
        )
    return lines


def _number_of_first(rows: list[Any], designs: list[str]) -> int:
    """The number of the first row, which fits most lines.

    It is 0 in Python, 2 in a file with a header and 1 in one without: the line of the row.
    """
    fitting = []
    for first in FIRST_NUMBERS:
        lines = zip(rows, designs, strict=True)
        fitting.append(sum(_read_line(row, design, first) is not None for row, design in lines))
    return FIRST_NUMBERS[fitting.index(max(fitting))]


def _check_filled(row: Any, design: Any) -> None:
    """Raise if a row of the file does not say which row it is, or how that was chosen."""
    is_text = isinstance(design, str) and design.strip()
    if is_missing(row) or is_missing(design) or not is_text:
        raise DataError(
            f"the audit file holds a row without {ROW} or {DESIGN}: answers for other rows than "
            "planned would bias the estimates. Remove that row."
        )


def _audit(fitted: FittedRatio, batch: Batch, lines: list[_Line], name: str) -> Audit:
    """The answers of one plan; ``name`` is that of the column of answers."""
    rows = _checked_rows(fitted, batch, lines)
    design = lines[0].design
    if not any(line.is_answered for line in lines):
        raise LabelError(
            f"the column {name!r} of the audit file holds no answer: fill in at least one."
        )
    labels = [line.label for line in lines]
    answered, positive = read_answers(labels, fitted.classes, name=name)
    _warn_of_gaps(lines)
    stratum = np.array([line.stratum for line in lines])[answered]
    answers = Answers(
        positive,
        stratum,
        np.array(design.rows),
        groups=_groups_of([line for line in lines if line.is_answered]),
        independent_rows=design.independent_rows,
    )
    part = AuditPart(
        answers=answers,
        scores=batch.scores[rows[answered]],
        counts=batch.counts,
        classifier=design.classifier,
        population=design.population,
        rows=rows[answered],
    )
    return Audit((part,))


def _warn_of_gaps(lines: list[_Line]) -> None:
    """Warn of rows without an answer before the last answered one, in the order of the plan."""
    places = np.array([line.place for line in lines])
    answered = np.array([line.is_answered for line in lines])
    reached = int(places[answered].max()) + 1
    missing = reached - int(answered.sum())
    if missing:
        deleted = reached - int((places < reached).sum())
        warn_of_missing(missing, reached, deleted)


def _checked_rows(fitted: FittedRatio, batch: Batch, lines: list[_Line]) -> IntArray:
    """Positions of the rows of the file; raises unless it is a plan of these rows."""
    design = lines[0].design
    if any(line.design != design for line in lines):
        raise DataError("the audit file holds rows of several plans: pass one file for each plan.")
    rows = check_positions(ROW, [line.row for line in lines], None)
    if design.classifier != mark_of(fitted):
        raise DataError(
            "the audit file was planned with another classifier: plan it with this one, or use the "
            "one that wrote the file."
        )
    planned = sum(design.rows)
    if planned != len(batch) or rows.max() >= len(batch):
        raise DataError(
            f"the audit was planned on {planned} rows, got {len(batch)}: pass the rows of the plan."
        )
    _check_scores(lines, mean_scores(batch.scores[rows]))
    return rows


def _check_scores(lines: list[_Line], scores: list[float]) -> None:
    """Raise if the rows have other scores than when the audit was planned."""
    different = []
    for line, score in zip(lines, scores, strict=True):
        if not math.isclose(line.score, score, rel_tol=_CLOSE, abs_tol=_CLOSE):
            different.append(line.number)
    if different:
        raise DataError(
            "the rows are not those that the audit was planned on: the scores differ at "
            f"{len(different)} of {len(lines)} answered positions, first at row {different[0]}. "
            "Pass the same rows, in the same order, as when the audit was planned."
        )


def _read_group(text: str) -> tuple[int | None, float | None]:
    """The number of a row's group, and the number of independent rows; None if there are none."""
    if not text:
        return None, None
    group, independent_rows = text.split("of")
    return int(group), float(independent_rows)


def _groups_of(lines: list[_Line]) -> IntArray | None:
    """The groups of rows, if the plan knew them."""
    groups = [line.group for line in lines if line.group is not None]
    if not groups:
        return None
    return np.array(groups, dtype=np.int64)


def _read_line(row: Any, text: str, first: int) -> _Line | None:
    """What a row of the file says about its choice; None if it was changed.

    ``first`` is the number of the first row.
    """
    try:
        number = int(float(row))
        position = number - first
        body, _, check = text.strip().rpartition("-")
        if check != check_of(position, body) or float(row) != number:
            return None
        version, classifier, population, strata, place, stratum, grouped, score = body.split("-", 7)
        planned = []
        sizes = []
        for of_stratum in strata.split("_"):
            n, size = map(int, of_stratum.split("of"))
            planned.append(n)
            sizes.append(size)
        group, independent_rows = _read_group(grouped)
        design = _Design(classifier, population, tuple(planned), tuple(sizes), independent_rows)
        line = _Line(position, number, design, int(place), int(stratum), group, float(score))
    except (TypeError, ValueError, OverflowError):  # int(inf) overflows
        return None
    if version != VERSION or population not in (*POPULATIONS, *SEEN):
        return None
    if not 0 <= line.stratum < len(sizes) or not 0 <= line.place < design.planned:
        return None
    for n, size in zip(planned, sizes, strict=True):
        if not 0 <= n <= size < 2**53:
            return None
    return line
