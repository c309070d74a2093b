"""Audits: plans of rows to label, and answers, which are read as true labels."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse

from drpu._arrays import as_numpy
from drpu._samples import n_rows
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.audits.design import Strata
from drpu.audits.evaluation import Answers
from drpu.exceptions import (
    DataError,
    DataTypeError,
    LabelError,
    MissingAnswersWarning,
    ParameterError,
)
from drpu.priors.tails import ScoreTails
from drpu.tables.frames import FrameRows, collected, warn_of_order
from drpu.tables.values import NULL_WORDS, is_missing, is_missing_cell

_WORDS = {
    **dict.fromkeys((1.0, "true", "t", "yes", "y"), True),
    **dict.fromkeys((0.0, "false", "f", "no", "n"), False),
}


def listed(labels: Any, name: str = "labels") -> list[Any]:
    """The labels as a list of Python values."""
    if isinstance(labels, (str, bytes)) or labels is None:
        raise LabelError(f"{name} must be a sequence with one label for each row, got {labels!r}.")
    values = as_numpy(labels)
    if not isinstance(values, (list, tuple)):
        if hasattr(values, "to_list") and not isinstance(values, np.ndarray):
            values = values.to_list()  # pandas, polars and Arrow columns keep their missing values
        else:
            array = np.asarray(values)
            array = array[:, 0] if array.shape[1:] == (1,) else array
            if array.ndim != 1:
                raise LabelError(f"{name} must have one dimension, got shape {array.shape}.")
            values = array.tolist()
    found = [value.item() if isinstance(value, np.generic) else value for value in values]
    for value in found:
        if isinstance(value, (list, dict, set, np.ndarray)):
            raise LabelError(f"{name} must hold one value for each row, got {value!r:.100}.")
    return found


def check_same_rows(rows: int, labels: int) -> None:
    """Raise unless there are as many labels as rows."""
    if rows != labels:
        raise DataError(f"X and y must have the same number of rows, got {rows} and {labels}.")


def labels_of(y: Any, n: int) -> np.ndarray[Any, Any]:
    """Labels of ``n`` rows, of any type."""
    labels = np.array(listed(y, "y"), dtype=object)
    check_same_rows(n, len(labels))
    return labels


def read_answers(
    labels: Any, classes: np.ndarray[Any, Any], *, name: str = "labels"
) -> tuple[BoolArray, BoolArray]:
    """Which rows have an answer, and which of these answers are positive.

    Answers are yes and no, 1 and 0, true and false (as values or as words), or values of ``classes``. None,
    NaN and a blank mean: no answer.
    """
    values, own = listed(labels, name), classes.tolist()
    answered = np.array(
        [not (is_missing_cell(v) or (v in NULL_WORDS and v not in own)) for v in values], dtype=bool
    )
    if not answered.any():
        raise LabelError(f"{name} must hold at least one answer, got none.")
    given = [value for value, there in zip(values, answered, strict=True) if there]
    return answered, np.array(_positive(given, classes, name), dtype=bool)


def true_labels(y: Any, classes: np.ndarray[Any, Any], *, blank: str | None = None) -> list[Any]:
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


def labelled_flags(y: Any, classes: np.ndarray[Any, Any]) -> BoolArray:
    """Which rows have the label of the positives; all others, also missing ones, have not."""
    values, positive = listed(y, "y"), classes.tolist()[1]
    flags = np.array(
        [not is_missing(value) and bool(value == positive) for value in values], dtype=bool
    )
    strange = [
        v for v in values if not is_missing(v) and v != positive and v != classes.tolist()[0]
    ]
    if strange:
        raise LabelError(
            f"y must hold the labels of training, {classes.tolist()}, or missing values, got {strange[0]!r}: "
            "pass a missing value for every row that is not a labelled positive."
        )
    return flags


def _positive(given: list[Any], classes: np.ndarray[Any, Any], name: str) -> list[bool]:
    """The answers as labels of training, as words, or as a mixture of both that has one meaning."""
    keys = [_key(value) for value in given]
    negative, positive = (_key(label) for label in classes.tolist())
    own = [None if key not in (negative, positive) else key == positive for key in keys]
    words = [_WORDS.get(key.lower() if isinstance(key, str) else key) for key in keys]
    if None not in own and (None in words or isinstance(classes[1], (bool, np.bool_))):
        return [one is True for one in own]
    if None not in words and None in own:
        return [one is True for one in words]
    for value, one, other in zip(given, own, words, strict=True):
        if one is None and other is None:
            raise LabelError(
                f"{name} must be yes and no, 1 and 0, true and false, or the labels of training "
                f"({_shown(classes)}), and blank for no answer, got {value!r}."
            )
        if one is not None and other is not None and one != other:
            raise LabelError(
                f"{name} can be read as 1 and 0 and as the labels of training ({_shown(classes)}), with "
                "different answers: use True for positive and False for negative."
            )
    return [bool(other if one is None else one) for one, other in zip(own, words, strict=True)]


def _shown(classes: np.ndarray[Any, Any]) -> str:
    return " and ".join(repr(label) for label in classes.tolist()[::-1] if not is_missing(label))


def _key(value: Any) -> Any:
    """What answers are compared by: a number, or a word without blanks around it."""
    if isinstance(value, (bool, str)):
        text = str(value).strip()
        value = text.lower() if text.lower() in ("true", "false") else text
    for number in (int, float) if isinstance(value, (str, bytes)) else ():
        try:  # as an integer first: large ones are equal as floats
            return number(value)
        except ValueError:
            continue
    return value


def check_positions(name: str, rows: Any, most: int | None) -> np.ndarray[Any, np.dtype[np.int64]]:
    """``rows`` as different positions from 0 on, below ``most`` if it is given."""
    array = np.asarray(as_numpy(rows))
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError(
            f"{name} must be a list of integers, positions of rows, got {array.dtype} values."
        )
    positions = array.astype(np.int64)
    if len(positions) and (positions.min() < 0 or (most is not None and positions.max() >= most)):
        worst = positions[(positions < 0) | (positions >= (np.inf if most is None else most))][0]
        raise DataError(
            f"{name} must be positions from 0 to {'the last row' if most is None else most - 1}, got {worst}."
        )
    values, counts = np.unique(positions, return_counts=True)
    if (counts > 1).any():
        raise DataError(
            f"{name} must not name a row twice, got {values[counts > 1][0]} more than once: "
            "keep one answer for each row."
        )
    return positions


_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)


@dataclass(frozen=True, slots=True)
class TrainingMark:
    """Numbers of rows and digests of the positive and the unlabeled training sample."""

    n_positive: int
    n_unlabeled: int
    positive: int
    unlabeled: int

    @classmethod
    def of(cls, positive: Rows, unlabeled: Rows) -> TrainingMark:
        """The mark of two samples."""
        return cls(n_rows(positive), n_rows(unlabeled), row_digest(positive), row_digest(unlabeled))

    def population_of(self, X: Rows) -> str:
        """``"unlabeled"``, ``"fitted"`` (both samples), or ``"auto"`` if X is neither."""
        n = n_rows(X)
        if n not in (self.n_unlabeled, self.n_unlabeled + self.n_positive):
            return "auto"
        digest = row_digest(X)
        if n == self.n_unlabeled and digest == self.unlabeled:
            return "unlabeled"
        both = (self.unlabeled + self.positive) & (2**64 - 1)
        return "fitted" if n == self.n_unlabeled + self.n_positive and digest == both else "auto"


def row_digest(X: Rows) -> int:
    """A 64-bit hash of a set of rows, which does not depend on their order."""
    if isinstance(X, FrameRows):
        X = (X.keys() >> 11).astype(np.float64)[:, None]  # 53 bits fit into float64
    if sparse.issparse(X):
        rows = cast(Any, X).tocsr(copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        cells = _mixed(np.asarray(rows.data, dtype=np.float64).view(np.uint64), rows.indices)
        first = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        hashes = np.zeros(rows.shape[0], dtype=np.uint64)
        np.add.at(hashes, first, cells)
        return _total(hashes)
    total = 0
    dense = np.asarray(X).reshape(n_rows(X), -1)
    columns = np.arange(dense.shape[1])
    for start in range(0, len(dense), 4096):  # in blocks, to limit memory
        block = (
            np.ascontiguousarray(dense[start : start + 4096], dtype=np.float64) + 0.0
        )  # -0 becomes 0
        hashes = _mixed(block.view(np.uint64), columns).sum(axis=1, dtype=np.uint64)
        total = (total + _total(hashes)) & (2**64 - 1)
    return total


def _mixed(bits: Any, columns: Any) -> Any:
    """A hash of each value in its column; integers wrap around."""
    with np.errstate(over="ignore"):
        x = bits ^ ((columns.astype(np.uint64) + np.uint64(1)) * _ODD)
        x = (x ^ (x >> np.uint64(30))) * _MIX
        return x ^ (x >> np.uint64(27))


def _total(hashes: Any) -> int:
    """Sum of the hashes, mixed again so that exchanging values between rows changes the sum."""
    with np.errstate(over="ignore"):
        x = (hashes ^ (hashes >> np.uint64(29))) * _ODD
        return int((x ^ (x >> np.uint64(32))).sum(dtype=np.uint64))


POPULATIONS = ("auto", "new", "training", "unlabeled")
SEEN = ("unlabeled", "fitted")  # populations whose rows were used in training


@dataclass(frozen=True, eq=False)
class AuditPart:
    """Answers for rows of one population, with the design by which the rows were chosen."""

    answers: Answers  # true labels, their strata, and the number of rows in each stratum
    scores: FloatArray  # scores of the answered rows
    counts: ScoreTails  # counts of all rows that the audit was planned on
    classifier: str  # mark of the classifier that gave the scores
    population: str = (
        "auto"  # as in ``plan_audit``, or "fitted": all training rows, labelled ones included
    )
    rows: IntArray | None = None  # positions of the answered rows among those that were planned on

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
        return sum(not is_missing_cell(label) for label in self.labels)


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
    def random(cls, rows: Rows, labels: Any) -> Audit:
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

        Returns
        -------
        audit : Audit
        """
        rows = collected(rows)
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
        return cls((RandomPart(rows, answers, positions),))

    @property
    def n(self) -> int:
        """Number of answers."""
        return sum(len(part) for part in self.parts)

    def __add__(self, other: Audit) -> Audit:
        if not isinstance(other, Audit):
            return NotImplemented
        refuse_repeated([*self.parts, *other.parts])
        planned = [part for part in (*self.parts, *other.parts) if isinstance(part, AuditPart)]
        if len({part.classifier for part in planned}) > 1:
            raise ParameterError(
                "audits can be added only if the same classifier planned them: "
                "these were planned by different ones."
            )
        return Audit((*self.parts, *other.parts))

    def __repr__(self) -> str:
        return f"Audit(n={self.n}, parts={len(self.parts)})"


def refuse_repeated(parts: Sequence[AuditPart | RandomPart]) -> None:
    """Raise if the same answers are given twice, which would be counted twice."""
    for one, other in itertools.combinations(parts, 2):
        rows = [
            part.rows
            for part in (one, other)
            if isinstance(part, AuditPart) and part.rows is not None
        ]
        again = len(rows) == 2 and np.array_equal(np.sort(rows[0]), np.sort(rows[1]))
        if one is other or (
            again and getattr(one, "counts", None) == getattr(other, "counts", None)
        ):
            raise DataError("an audit must not be given twice: its answers would be counted twice.")


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
            The true label of each row in the order of ``rows``: yes and no, 1 and 0, true and false, or
            values of ``classes_``. None, NaN and a blank mean: no answer.
        rows : array-like of int, optional
            Positions that the labels belong to, in any order; all planned rows when left
            out. Planned rows that are not named have no answer.

        Returns
        -------
        audit : Audit
        """
        if isinstance(labels, Mapping):
            if rows is not None:
                raise ParameterError(
                    "rows must be None if labels is a mapping: its keys are the rows."
                )
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
        if len(place) < self.n:
            warn_of_missing(self.n - len(place), self.n)
        answers = Answers(positive, self.stratum[place], self.strata.rows)
        design = (self.counts, self.classifier, self.population, self.rows[place])
        return Audit((AuditPart(answers, self.scores[place], *design),))

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns that a file of rows to label needs besides the rows themselves, in the order of ``rows``.

        ``drpu_row``: their positions; ``drpu_design``: how each was chosen, with a checksum; ``drpu_label``:
        None, to be filled in. :func:`drpu.audits.answers_file.audit_from_columns` reads the file.
        """
        return {ROW: self.rows.tolist(), DESIGN: self._design(), LABEL: [None] * self.n}

    def _design(self, group: Any = None) -> list[str]:
        pairs = zip(self.strata.planned, self.strata.rows, strict=True)
        strata = "_".join(f"{n}of{rows}" for n, rows in pairs)
        design, scores = (
            f"{VERSION}-{self.classifier}-{self.population}-{strata}",
            mean_scores(self.scores),
        )
        found = []
        for row, stratum, score in zip(
            self.rows.tolist(), self.stratum.tolist(), scores, strict=True
        ):
            body = f"{design}-{stratum}-{score:.6g}".replace("+", "")
            found.append(f"{body}-{check_of(row, body, group)}")
        return found

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
        head = "".join(
            f"<th>{name}</th>" for name in ("stratum", "rows", "to label", "expected positives")
        )
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


class GroupPlans(dict[Any, AuditPlan]):
    """The plans of an audit in groups of rows, such as months, by the names of the groups.

    Positions are those in all rows.
    """

    @property
    def rows(self) -> IntArray:
        """Positions of the rows to label, group by group."""
        return np.concatenate([plan.rows for plan in self.values()])

    @property
    def n(self) -> int:
        """Number of rows to label."""
        return len(self.rows)

    def answer(self, labels: Any) -> dict[Any, Audit]:
        """The audit of each group, from the true labels in the order of ``rows``."""
        values = listed(labels)
        if len(values) != self.n:
            raise DataError(
                f"labels must hold one answer for each of {self.n} rows, got {len(values)}."
            )
        found, start = {}, 0
        for name, plan in self.items():
            own, start = values[start : start + plan.n], start + plan.n
            if not all(
                is_missing_cell(value) for value in own
            ):  # a group without answers has no audit
                found[name] = plan.answer(own)
        if not found:
            raise LabelError("labels must hold at least one answer, got none.")
        return found

    def to_columns(self) -> dict[str, list[Any]]:
        """Columns for a file, as those of a plan, with the group of each row as ``drpu_group``."""
        groups = [name for name, plan in self.items() for _ in range(plan.n)]
        design = [text for name, plan in self.items() for text in plan._design(name)]
        return {ROW: self.rows.tolist(), GROUP: groups, DESIGN: design, LABEL: [None] * self.n}

    def __repr__(self) -> str:
        return f"GroupPlans({len(self)} groups, n={self.n})"


ROW, GROUP, DESIGN, LABEL = "drpu_row", "drpu_group", "drpu_design", "drpu_label"
VERSION = "1"


def mean_scores(scores: Any) -> list[float]:
    """The mean score of each row, made finite, by which rows are recognised."""
    values: list[float] = np.clip(np.asarray(scores), -1e6, 1e6).mean(axis=1).tolist()
    return values


def group_text(group: Any) -> str:
    """The name of a group as a file keeps it: numbers may come back as 3, 3.0 or "3"."""
    try:
        return f"{float(group):.17g}"
    except (TypeError, ValueError):
        return str(group).strip().removeprefix("'")  # which protects formulas in CSV files


def check_of(row: int, body: str, group: Any) -> str:
    """Checksum of a row, its design and its group."""
    own = "" if group is None else f"|{group_text(group)}"
    return hashlib.sha256(f"{row}|{body}{own}".encode()).hexdigest()[:8]


def warn_of_missing(missing: int, planned: int, deleted: int = 0) -> None:
    """Warn about missing answers, and state when they do not matter."""
    how = f" ({deleted} of them are not in the file)" if deleted else ""
    MissingAnswersWarning.issue(
        f"{missing} of {planned} rows have no answer{how}, and the other {planned - missing} are used. "
        "The limits hold if the rows without an answer are missing at random; they do not if people "
        "skipped the rows that are hard to judge."
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
