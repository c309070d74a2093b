"""Plans of audits, which choose rows to label, and the answers."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._typing import FloatArray, IntArray, Rows
from drpu.core.audit import Strata
from drpu.core.audit_performance import Answers
from drpu.core.tails import ScoreTails
from drpu.estimators.audit_labels import check_positions, is_missing, listed, read_answers
from drpu.exceptions import DataError, DataTypeError, MissingAnswersWarning, ParameterError

__all__ = ["POPULATIONS", "Audit", "AuditPart", "AuditPlan", "RandomPart", "classifier_mark"]

POPULATIONS = ("auto", "new", "training", "unlabeled")
SEEN = ("unlabeled", "fitted")  # populations whose rows were used in training


def classifier_mark(tails: ScoreTails, n_models: int) -> str:
    """A short text that is equal for two classifiers only if equal scores give equal counts."""
    digest = hashlib.sha256(np.ascontiguousarray(tails.levels, dtype="<f8").tobytes())
    digest.update(np.ascontiguousarray(tails.positive_counts, dtype="<f8").tobytes())
    digest.update(str(n_models).encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True, eq=False)
class AuditPart:
    """Answers for rows of one population, with the design by which the rows were chosen.

    Attributes
    ----------
    answers : Answers
        True labels, their strata, and the number of rows in each stratum.
    scores : ndarray of shape (n, n_models)
        Scores of the answered rows.
    counts : ScoreTails
        Counts of all rows that the audit was planned on.
    classifier : str
        Mark of the classifier that gave the scores.
    population : str
        Where the rows come from; see ``plan_audit``. ``"fitted"``: all training rows, labelled
        ones included.
    """

    answers: Answers
    scores: FloatArray
    counts: ScoreTails
    classifier: str
    population: str = "auto"

    @property
    def seen_in_training(self) -> bool:
        """Whether the rows were used in training, so that their scores differ from those of new rows."""
        return self.population in SEEN

    def __len__(self) -> int:
        return len(self.answers.positive)


@dataclass(frozen=True, eq=False)
class RandomPart:
    """Answers from simple random sampling: positions or values of rows, and their labels."""

    rows: Rows
    labels: tuple[Any, ...]
    positions: bool

    def __len__(self) -> int:
        return sum(not is_missing(label) for label in self.labels)


class Audit:
    """True labels of a few rows, with the probabilities by which the rows were chosen.

    Made by :meth:`AuditPlan.answer` and by :meth:`Audit.random`. ``a + b`` joins the answers
    of two audits, for example of two months. Pass it to ``adapt(X, audit=...)`` to set both
    priors, or to ``evaluate`` to measure performance. It keeps labels and scores of the
    answered rows, no row values (except in :meth:`Audit.random` until it is used).

    Attributes
    ----------
    parts : tuple
        The answers, one part for each plan.
    n : int
        Number of answers.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.4, test_prior=0.2, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit(*data.X_y())
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
    def random(cls, rows: Rows, labels: Any) -> Audit:
        """Answers for rows that the user chose by simple random sampling.

        Parameters
        ----------
        rows : rows of shape (n, d), or array-like of n integers
            The rows themselves, or their positions in the rows that are passed to ``adapt``.
            They must be a simple random sample of the population of those rows: every row
            had the same probability of being chosen.
        labels : array-like of shape (n,)
            The true label of each: True and False, 1 and 0, or values of ``classes_``;
            None and NaN mean: no answer.

        Returns
        -------
        audit : Audit
        """
        answers = tuple(listed(labels))
        array = None if hasattr(rows, "columns") or hasattr(rows, "tocsr") else np.asarray(rows)
        positions = array is not None and array.ndim == 1
        if positions:
            rows = check_positions("rows", rows, None)
        elif not hasattr(rows, "shape"):
            rows = array
        n = int(rows.shape[0])
        if n != len(answers):
            raise DataError(f"rows and labels must have the same length, got {n} and {len(answers)}.")
        if all(is_missing(label) for label in answers):
            raise DataError("labels must hold at least one answer, got none.")
        return cls((RandomPart(rows, answers, positions),))

    @property
    def n(self) -> int:
        """Number of answers."""
        return sum(len(part) for part in self.parts)

    def __add__(self, other: Audit) -> Audit:
        if not isinstance(other, Audit):
            return NotImplemented
        planned = [part for part in (*self.parts, *other.parts) if isinstance(part, AuditPart)]
        if len({part.classifier for part in planned}) > 1:
            raise ParameterError(
                "audits can be added only if the same classifier planned them: "
                "these were planned by different ones."
            )
        return Audit((*self.parts, *other.parts))

    def __repr__(self) -> str:
        return f"Audit(n={self.n}, parts={len(self.parts)})"


@dataclass(frozen=True, eq=False)
class AuditPlan:
    """Rows to label, chosen by ``plan_audit``.

    The rows are in random order, so the first ones alone are also a valid random sample.

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
    level : float
        Confidence level of that interval.
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
    level: float

    @property
    def n(self) -> int:
        """Number of rows to label."""
        return len(self.rows)

    @property
    def chance(self) -> FloatArray:
        """Probability with which each planned row was chosen."""
        return np.asarray((self.strata.planned / self.strata.rows)[self.stratum])

    def answer(self, labels: Any, *, rows: Any = None) -> Audit:
        """The audit with these answers.

        Parameters
        ----------
        labels : array-like of shape (n,), or mapping from position to label
            The true label of each row in the order of ``rows``: True and False, 1 and 0, or
            values of ``classes_``. None and NaN mean: no answer.
        rows : array-like of int, optional
            Positions that the labels belong to, in any order; all planned rows when left
            out. Planned rows that are not named have no answer.

        Returns
        -------
        audit : Audit
        """
        if isinstance(labels, Mapping):
            if rows is not None:
                raise ParameterError("rows must be None if labels is a mapping: its keys are the rows.")
            rows, labels = list(labels), list(labels.values())
        values = listed(labels)
        place = np.arange(self.n) if rows is None else self._places(rows)
        if len(values) != len(place):
            raise DataError(
                f"labels must hold one answer for each of {len(place)} rows, got {len(values)}: "
                "use None for rows without an answer."
            )
        answered, positive = read_answers(values, self.classes)
        place = place[answered]
        if len(place) == 0:
            raise DataError("labels must hold at least one answer, got none.")
        if len(place) < self.n:
            warn_of_missing(self.n - len(place), self.n)
        answers = Answers(positive, self.stratum[place], self.strata.rows)
        return Audit((AuditPart(answers, self.scores[place], self.counts, self.classifier, self.population),))

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns for a file to fill in; see :func:`drpu.estimators.audit_file.design_columns`."""
        from drpu.estimators.audit_file import design_columns

        return design_columns(self)

    def _places(self, rows: Any) -> IntArray:
        """Places of the given positions in the plan."""
        wanted = check_positions("rows", rows, None)
        order = np.argsort(self.rows)
        at = np.minimum(np.searchsorted(self.rows, wanted, sorter=order), self.n - 1)
        place = order[at]
        wrong = wanted[self.rows[place] != wanted]
        if len(wrong):
            raise DataError(
                f"rows must be rows of the plan, got {wrong[0]}, which was not planned: answers for other "
                "rows would bias the estimates. Use Audit.random for rows that you chose yourself."
            )
        return np.asarray(place, dtype=np.int64)

    def __repr__(self) -> str:
        return (
            f"AuditPlan(n={self.n}, rows={int(self.strata.rows.sum())}, strata={len(self.strata.rows)}, "
            f"expected_width={self.expected_width:.3f})"
        )

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("stratum", "rows", "to label", "expected positives"))
        lines = "".join(
            f"<tr><td>{h + 1}</td><td>{rows:,}</td><td>{planned}</td><td>{share:.0%}</td></tr>"
            for h, (rows, planned, share) in enumerate(
                zip(self.strata.rows, self.strata.planned, self.strata.posterior, strict=True)
            )
        )
        return (
            f"<p><b>Audit plan</b>: label {self.n} of {int(self.strata.rows.sum()):,} rows; expected width "
            f"of the interval {self.expected_width:.3f} at {self.level:.0%}.</p>"
            f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
        )


def warn_of_missing(missing: int, planned: int) -> None:
    """Warn about missing answers, and state when they do not matter."""
    warnings.warn(
        f"{missing} of {planned} rows have no answer, and the other {planned - missing} are used. The limits "
        "hold if the rows without an answer are missing at random; they do not if people skipped the rows "
        "that are hard to judge.",
        MissingAnswersWarning,
        stacklevel=3,
    )


def check_audit(audit: Any) -> Audit:
    """``audit``, if it is one."""
    if isinstance(audit, AuditPlan):
        raise DataTypeError("audit must hold answers, got a plan: pass plan.answer(labels).")
    if not isinstance(audit, Audit):
        raise DataTypeError(
            f"audit must be an Audit, got {type(audit).__name__}: make one with plan.answer(labels) "
            "or Audit.random(rows, labels)."
        )
    return audit
