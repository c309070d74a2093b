"""An audit as columns of a file that people fill in.

Each row of the file has the design by which it was chosen and a checksum. So a file can be sorted,
filled in partly, shortened or extended by columns, and is still read correctly. A row whose position or
design was changed is refused.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._typing import Rows
from drpu.classifier.audit import (
    POPULATIONS,
    SEEN,
    Audit,
    AuditPart,
    AuditPlan,
    check_positions,
    listed,
    read_answers,
    warn_of_missing,
)
from drpu.classifier.auditing import mark_of
from drpu.classifier.base import RatioClassifier
from drpu.classifier.fitted import ScoredRows, score_once
from drpu.core.audit.results import Answers
from drpu.exceptions import DataError, LabelError
from drpu.tables.values import is_missing

__all__ = ["DESIGN", "LABEL", "ROW", "audit_from_columns", "design_columns"]

ROW, DESIGN, LABEL = "drpu_row", "drpu_design", "drpu_label"
_VERSION = "1"
_CLOSE = 1e-3  # scores of one row on two machines differ by less


def design_columns(plan: AuditPlan) -> dict[str, list[Any]]:
    """Columns that a file of rows to label needs besides the rows themselves.

    Returns
    -------
    columns : dict
        ``drpu_row``: positions of the rows, in the order of ``plan.rows``; ``drpu_design``:
        how each was chosen, with a checksum; ``drpu_label``: None, to be filled in.

    See Also
    --------
    audit_from_columns : Reads the filled-in file.
    """
    strata = "_".join(f"{n}of{rows}" for n, rows in zip(plan.strata.planned, plan.strata.rows, strict=True))
    design = f"{_VERSION}-{plan.classifier}-{plan.population}-{strata}"
    scores = _score(plan.scores)
    tokens = []
    for row, stratum, score in zip(plan.rows.tolist(), plan.stratum.tolist(), scores, strict=True):
        body = f"{design}-{stratum}-{score:.6g}".replace("+", "")
        tokens.append(f"{body}-{_check(row, body)}")
    return {ROW: plan.rows.tolist(), DESIGN: tokens, LABEL: [None] * plan.n}


def audit_from_columns(
    classifier: RatioClassifier, X: Rows, columns: Mapping[str, Any], *, label: str = LABEL
) -> Audit:
    """The audit in a filled-in file.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        The classifier that planned the audit, or an adaptation or a loaded copy of it.
    X : rows of shape (N, d)
        The rows that the audit was planned on, in their order at that time.
    columns : mapping from name to array-like
        The columns of the file: ``drpu_row``, ``drpu_design`` and the labels. Values may be
        strings. Rows of the file may be in any order, and some may be missing.
    label : str, default="drpu_label"
        Name of the column with the answers: 1 and 0, true and false, or values of
        ``classes_``; an empty field means: no answer.

    Returns
    -------
    audit : Audit
        For ``classifier.adapt(X, audit=...)``.
    """
    for name in (ROW, DESIGN, label):
        if name not in columns:
            raise DataError(
                f"the audit file must have a column {name!r}, got {list(columns)}: "
                "use the file that 'drpu audit' wrote, with its columns."
            )
    tokens = [_read_token(row, text) for row, text in _pairs(columns[ROW], columns[DESIGN])]
    design = tokens[0].design
    if any(token.design != design for token in tokens):
        raise DataError("the audit file holds rows of several plans: pass one file for each plan.")
    rows = check_positions(ROW, [token.row for token in tokens], None)
    scored = X if isinstance(X, ScoredRows) else score_once(classifier, X)
    _check_belongs(classifier, design, rows, len(scored))
    answered, positive = read_answers(columns[label], classifier.fitted_.classes, words=True, name=label)
    if not answered.any():
        raise LabelError(f"the column {label!r} of the audit file holds no answer: fill in at least one.")
    scores = scored.scores[rows]
    if any(
        not math.isclose(token.score, score, rel_tol=_CLOSE, abs_tol=_CLOSE)
        for token, score in zip(tokens, _score(scores), strict=True)
    ):
        raise DataError(
            "the rows are not those that the audit was planned on: their scores differ. Pass the same rows, "
            "in the same order, as when the audit was planned."
        )
    if answered.sum() < design.planned:
        warn_of_missing(design.planned - int(answered.sum()), design.planned)
    stratum = np.array([token.stratum for token in tokens])[answered]
    answers = Answers(positive, stratum, np.array(design.rows))
    part = AuditPart(answers, scores[answered], scored.counts, design.classifier, design.population)
    return Audit((part,))


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


def _pairs(rows: Any, designs: Any) -> list[tuple[Any, str]]:
    """Positions and designs of the rows of a file that were planned; other rows are refused."""
    pairs = list(zip(listed(rows, ROW), listed(designs, DESIGN), strict=True))
    if not pairs:
        raise DataError("the audit file holds no rows.")
    for row, design in pairs:
        if is_missing(row) or is_missing(design) or not isinstance(design, str) or not design.strip():
            raise DataError(
                f"the audit file holds a row without {ROW} or {DESIGN}: answers for other rows than planned "
                "would bias the estimates. Remove that row."
            )
    return pairs


def _read_token(row: Any, text: str) -> _Token:
    try:
        position = int(float(row))
        body, _, check = text.strip().rpartition("-")
        if check != _check(position, body) or float(row) != position:
            raise ValueError
        version, classifier, population, strata, stratum, score = body.split("-", 5)
        pairs = [tuple(map(int, pair.split("of"))) for pair in strata.split("_")]
        if version != _VERSION or population not in (*POPULATIONS, *SEEN):
            raise ValueError
        if not all(0 <= n <= size < 2**53 for n, size in pairs) or not 0 <= int(stratum) < len(pairs):
            raise ValueError
        design = _Design(classifier, population, sum(n for n, _ in pairs), tuple(size for _, size in pairs))
        return _Token(position, design, int(stratum), float(score))
    except (ValueError, TypeError, OverflowError):
        raise DataError(
            f"the audit file was changed at {ROW} = {row!r:.100}: its position and its design do not belong "
            f"together. Restore the columns {ROW} and {DESIGN} as 'drpu audit' wrote them."
        ) from None


def _check_belongs(classifier: RatioClassifier, design: _Design, rows: Any, n: int) -> None:
    if design.classifier != mark_of(classifier.fitted_):
        raise DataError(
            "the audit file was planned with another classifier: plan it with this one, or use the one that "
            "wrote the file."
        )
    if sum(design.rows) != n or rows.max() >= n:
        raise DataError(
            f"the audit was planned on {sum(design.rows)} rows, got {n}: pass the rows of the plan."
        )


def _score(scores: Any) -> list[float]:
    """The mean score of each row, made finite, by which rows are recognised."""
    values = np.clip(np.asarray(scores), -1e6, 1e6).mean(axis=1)
    return [float(value) for value in values]


def _check(row: int, body: str) -> str:
    return hashlib.sha256(f"{row}|{body}".encode()).hexdigest()[:8]
