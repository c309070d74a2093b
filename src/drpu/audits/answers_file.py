"""Audits that people filled in, read from the columns of a file.

Each row of the file has the design by which it was chosen and a checksum. So a file can be sorted,
filled in partly, shortened or extended by columns, and is still read correctly. A row whose position or
design was changed is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._typing import Rows
from drpu.audits.evaluation import Answers
from drpu.audits.plan import (
    DESIGN,
    GROUP,
    LABEL,
    POPULATIONS,
    ROW,
    SEEN,
    VERSION,
    Audit,
    AuditPart,
    check_of,
    check_positions,
    group_text,
    listed,
    mean_scores,
    read_answers,
    warn_of_missing,
)
from drpu.classifier.base import RatioClassifier
from drpu.exceptions import DataError, LabelError
from drpu.periods.groups import group_members
from drpu.state.fitted import ScoredRows, score_once
from drpu.tables.values import is_missing, is_missing_cell

_CLOSE = 1e-3  # scores of one row on two machines differ by less


def audit_from_columns(
    classifier: RatioClassifier,
    X: Rows,
    columns: Mapping[str, Any],
    *,
    by: Any = None,
    label: str = LABEL,
) -> Any:
    """The audit in a filled-in file, or that of each group.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        The classifier that planned the audit, or an adaptation or a loaded copy of it.
    X : rows of shape (N, d)
        The rows that the audit was planned on, in their order at that time.
    columns : mapping from name to array-like
        The columns of the file: ``drpu_row``, ``drpu_design``, the labels and, if it was planned in groups,
        ``drpu_group``. Values may be strings. Rows of the file may be in any order, and some may be missing.
    by : str or array-like of shape (N,), optional
        The groups of the rows, as they were planned.
    label : str, default="drpu_label"
        Name of the column with the answers: yes and no, 1 and 0, true and false, or values of
        ``classes_``; an empty field means: no answer.

    Returns
    -------
    audit : Audit, or dict of Audit
        For ``classifier.adapt(X, audit=...)``. With groups, a dictionary by the names of the groups for
        ``classifier.adapt_by(X, by=by, audit=...)``; a group without answers is left out.
    """
    if by is not None:
        return _by_group(classifier, X, columns, by, label)
    if any(not is_missing_cell(name) for name in columns.get(GROUP, ())):
        raise DataError(
            f"the audit was planned in groups (column {GROUP!r}): name the column of the groups, by=... in "
            "Python and --by on the command line."
        )
    tokens, labels = _read_tokens(columns, label), listed(columns[label], label)
    return _audit(classifier, score_once(classifier, X), tokens, labels, label)


def _by_group(
    classifier: RatioClassifier, X: Rows, columns: Mapping[str, Any], by: Any, label: str
) -> dict[Any, Audit]:
    if GROUP not in columns:
        raise DataError(
            f"the audit file must have a column {GROUP!r}: plan the audit with the same groups."
        )
    names, member, scored = group_members(classifier, X, by)
    tokens, labels = _read_tokens(columns, label), listed(columns[label], label)
    if all(is_missing_cell(value) for value in labels):
        raise LabelError(
            f"the column {label!r} of the audit file holds no answer: fill in at least one."
        )
    found: dict[Any, Audit] = {}
    texts = [group_text(name) for name in names]
    strange = [token.group for token in tokens if token.group not in texts]
    if strange:
        raise DataError(f"{GROUP} must name groups of the rows, {names[:8]}, got {strange[0]!r}.")
    for token in tokens:
        if token.row >= len(member) or texts[member[token.row]] != token.group:
            raise DataError(
                f"row {token.row} is not in the group {token.group!r} now: pass the rows of the plan."
            )
    for k in dict.fromkeys(int(member[token.row]) for token in tokens):
        own = [i for i, token in enumerate(tokens) if member[token.row] == k]
        if all(is_missing_cell(labels[i]) for i in own):
            continue
        at = np.flatnonzero(member == k)
        inside = [replace(tokens[i], row=int(np.searchsorted(at, tokens[i].row))) for i in own]
        part = classifier.fitted_.some(scored, at)
        found[names[k]] = _audit(classifier, part, inside, [labels[i] for i in own], label)
    return found


def _read_tokens(columns: Mapping[str, Any], label: str) -> list[_Token]:
    for name in (ROW, DESIGN, label):
        if name not in columns:
            raise DataError(
                f"the audit file must have a column {name!r}, got {list(columns)}: "
                "use the file that 'drpu audit' wrote, with its columns."
            )
    pairs = list(zip(listed(columns[ROW], ROW), listed(columns[DESIGN], DESIGN), strict=True))
    if not pairs:
        raise DataError("the audit file holds no rows.")
    for row, design in pairs:
        if (
            is_missing(row)
            or is_missing(design)
            or not isinstance(design, str)
            or not design.strip()
        ):
            raise DataError(
                f"the audit file holds a row without {ROW} or {DESIGN}: answers for other rows than planned "
                "would bias the estimates. Remove that row."
            )
    groups = listed(columns[GROUP], GROUP) if GROUP in columns else [None] * len(pairs)
    groups = [None if is_missing_cell(group) else group_text(group) for group in groups]
    read = [_read_token(row, text, group) for (row, text), group in zip(pairs, groups, strict=True)]
    changed = [row for (row, _), token in zip(pairs, read, strict=True) if token is None]
    if changed:
        more = f" and {len(changed) - 1} more rows" if len(changed) > 1 else ""
        raise DataError(
            f"the audit file was changed at {ROW} = {changed[0]!r}{more}: position, group and design do not "
            f"belong together. Restore {ROW}, {GROUP} and {DESIGN} as 'drpu audit' wrote them."
        )
    return [token for token in read if token is not None]


def _audit(
    classifier: RatioClassifier,
    scored: ScoredRows,
    tokens: list[_Token],
    labels: list[Any],
    name: str,
) -> Audit:
    """The answers of one plan."""
    design = tokens[0].design
    if any(token.design != design for token in tokens):
        raise DataError("the audit file holds rows of several plans: pass one file for each plan.")
    rows = check_positions(ROW, [token.row for token in tokens], None)
    if design.classifier != classifier.fitted_.mark:
        raise DataError(
            "the audit file was planned with another classifier: plan it with this one, or use the one that "
            "wrote the file."
        )
    planned, n = sum(design.rows), len(scored)
    if planned != n or rows.max() >= n:
        raise DataError(
            f"the audit was planned on {planned} rows, got {n}: pass the rows of the plan."
        )
    if all(is_missing_cell(value) for value in labels):
        raise LabelError(
            f"the column {name!r} of the audit file holds no answer: fill in at least one."
        )
    answered, positive = read_answers(labels, classifier.fitted_.classes, name=name)
    scores = scored.scores[rows]
    other = [
        token.row
        for token, score in zip(tokens, mean_scores(scores), strict=True)
        if not math.isclose(token.score, score, rel_tol=_CLOSE, abs_tol=_CLOSE)
    ]
    if other:
        raise DataError(
            f"the rows are not those that the audit was planned on: the scores differ at {len(other)} of "
            f"{len(tokens)} answered positions, first at row {other[0]}. Pass the same rows, in the same "
            "order, as when the audit was planned."
        )
    if answered.sum() < design.planned:
        warn_of_missing(
            design.planned - int(answered.sum()), design.planned, design.planned - len(tokens)
        )
    stratum = np.array([token.stratum for token in tokens])[answered]
    answers = Answers(positive, stratum, np.array(design.rows))
    places = (design.classifier, design.population, rows[answered])
    return Audit((AuditPart(answers, scores[answered], scored.counts, *places),))


@dataclass(frozen=True, slots=True)
class _Design:
    classifier: str
    population: str
    planned: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    row: int
    design: _Design
    stratum: int
    score: float
    group: str | None


def _read_token(row: Any, text: str, group: str | None) -> _Token | None:
    """What a row of the file says about its choice; None if it was changed."""
    try:
        position = int(float(row))
        body, _, check = text.strip().rpartition("-")
        if check != check_of(position, body, group) or float(row) != position:
            return None
        version, classifier, population, strata, stratum, score = body.split("-", 5)
        pairs = [tuple(map(int, pair.split("of"))) for pair in strata.split("_")]
        possible = all(0 <= n <= size < 2**53 for n, size in pairs) and 0 <= int(stratum) < len(
            pairs
        )
        design = _Design(
            classifier, population, sum(n for n, _ in pairs), tuple(size for _, size in pairs)
        )
        token = _Token(position, design, int(stratum), float(score), group)
    except (TypeError, ValueError, OverflowError):  # int(inf) overflows
        return None
    return (
        token if possible and version == VERSION and population in (*POPULATIONS, *SEEN) else None
    )
