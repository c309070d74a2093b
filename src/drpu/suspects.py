"""Labels that look wrong, and unlabeled copies of labelled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_fraction, check_integer, check_jobs, check_random_state, is_auto
from drpu._process import default_errors
from drpu._progress import progress_bar
from drpu._results import TableColumns, TableResult, frame_of
from drpu._samples import Sample, SamplePair, n_rows
from drpu.beliefs.methods import prior_from_tails
from drpu.classifier.drpu import RatioClassifier
from drpu.classifier.reading import read_rows
from drpu.exceptions import DataError, DataTypeError, silent
from drpu.models.clusters import FrameLearner
from drpu.models.crossfit import FEW_TO_SPLIT, FEWEST_TO_SPLIT, held_scores
from drpu.models.learner import RatioLearner, seeded, with_categories
from drpu.models.registry import LearntElsewhere, resolve_model
from drpu.priors.calibration import calibrate
from drpu.priors.figures import Figure
from drpu.priors.tails import ScoreTails
from drpu.state.labels import check_same_rows, labelled_flags
from drpu.tables.copies import copies_of_labelled, grouped_copies
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import FrameRows, read_frame, warn_of_order

MANY = 500  # with fewer positives every row is scored several times: the order is less random
REPEATS = 3


@dataclass(frozen=True, slots=True, repr=False)
class Suspects(TableResult):
    """Labelled positives in the order of how wrong their labels look, and copies of them.

    Its length is the number of labelled positives.

    Attributes
    ----------
    positions : ndarray of int
        Positions of all labelled positives in the rows, the most suspicious one first.
    probability : ndarray
        Probability that each of these labels is wrong, if the expected number is right.
    expected : Figure
        Number of wrong labels, with limits. The lower one is 0: positives that look like negatives
        explain the same rows as wrong labels.
    identified : bool
        Whether the rows tell the number. If not, only its upper limit and the order are known, and
        tables have no probabilities.
    copies : ndarray of shape (m, 2) or None
        Positions of unlabeled rows that equal a labelled positive, and of that positive. None if
        equal rows of this table may be different cases, so that copies were not looked for.
    """

    positions: IntArray
    probability: FloatArray
    expected: Figure
    identified: bool
    copies: IntArray | None

    def __len__(self) -> int:
        return len(self.positions)

    def to_columns(self, n: int | None = None) -> TableColumns:
        """Columns of a table: the first ``n`` labelled positives, then the copies.

        ``row`` is a position, ``copy_of`` that of the labelled positive that an unlabeled row
        equals. ``n`` is the upper limit of the expected number if left out.
        """
        if n is None:
            n = int(np.ceil(self.expected.high))
        n = min(n, len(self.positions))
        probability: list[float | None] = [None] * n
        if self.identified:
            probability = self.probability[:n].tolist()
        unlabeled, labelled = [], []
        if self.copies is not None:
            unlabeled, labelled = self.copies.T.tolist()
        n_copies = len(unlabeled)
        return {
            "row": self.positions[:n].tolist() + unlabeled,
            "suspicion": ["label"] * n + ["copy"] * n_copies,
            "probability": probability + [None] * n_copies,
            "copy_of": [None] * n + labelled,
        }

    def to_frame(self, n: int | None = None) -> Any:
        """The table of :meth:`to_columns` as a data frame of pandas, polars or Arrow."""
        return frame_of(self.to_columns(n))

    def _title(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self._about_labels}; {self._about_copies}"

    @property
    def _about_labels(self) -> str:
        expected = self.expected
        n = f"{len(self.positions):,} labels"
        if not self.identified:
            return f"at most {expected.high:.0f} of {n} are wrong, these rows cannot tell how many"
        limits = f"{expected.low:.0f} to {expected.high:.0f}"
        return f"{expected.value:.0f} ({limits}) of {n} are expected to be wrong"

    @property
    def _about_copies(self) -> str:
        if self.copies is None:
            return (
                "copies were not looked for, because equal rows of this table may be different "
                "cases"
            )
        return f"{len(self.copies):,} unlabeled rows are copies of labelled ones"


@default_errors
def suspects(
    classifier: RatioClassifier,
    X: Rows,
    y: Any,
    *,
    level: float = 0.95,
    repeats: int | str = "auto",
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Suspects:
    r"""Labelled positives that look like no other positive, and unlabeled copies of labelled rows.

    A fitted classifier has seen its training rows and has learnt their labels, so it cannot judge
    them. The ratio is learnt again in folds here, by the learner of the classifier, and each row is
    scored by fits that did not see it. If the learner is not known (an adapted classifier, or an
    object that a file does not keep), the default is used, or a network if the rows are images.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted; its columns and its learner are used.
    X : rows of shape (n, d)
        Labelled positives and unlabeled rows, such as those of training.
    y : array-like of shape (n,)
        Their labels; a missing one means unlabeled.
    level : float, default=0.95
        Confidence level of the expected number.
    repeats : int or "auto", default="auto"
        How often the rows are divided into five folds, or ten below 100 positives, with one fit a
        fold. The mean score of several repeats is a better order; ``"auto"`` makes three below 500
        positives.
    n_jobs : int, optional
        Most folds fitted at the same time.
    verbose : int, default=0
        1 shows a progress bar.

    Returns
    -------
    suspects : Suspects
        The labelled positives in order, the expected number of wrong labels, and the copies.

    Notes
    -----
    Let a share :math:`\varepsilon` of the labelled rows be negatives, and let the unlabeled
    rows have the prior :math:`\pi`. The ratio :math:`r` of labelled to unlabeled rows then lies
    between :math:`\kappa_1 = \varepsilon / (1-\pi)`, where only negatives are, and
    :math:`1/\kappa_0 = (1-\varepsilon)/\pi`, where only positives are. Both are estimated as
    priors, :math:`\kappa_1` with exchanged samples and the scores in reverse order. They give
    :math:`\varepsilon = \kappa_1 (1-\kappa_0) / (1-\kappa_0\kappa_1)`, and a label at :math:`x` is
    wrong with probability :math:`\kappa_1 (1-\kappa_0 r(x)) / ((1-\kappa_0\kappa_1) r(x))`. Where
    positives are among the lowest scores as well, they cannot be told from wrong labels: the number
    is then not identified, and its upper limit holds.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu, suspects
    >>> X, y = make_gaussian_pu(200, 600, prior=0.4, separation=4, random_state=0).X_y()
    >>> y[X[:, 0].argmin()] = 1  # a negative is labelled
    >>> clf = DRPUClassifier("classifier", scenario="case-control", random_state=0).fit(X, y)
    >>> bool(suspects(clf, X, y).positions[0] == X[:, 0].argmin())
    True
    """
    check_fraction("level", level)
    check_jobs(n_jobs)
    if not isinstance(classifier, RatioClassifier):
        raise DataTypeError(
            "classifier must be a DRPUClassifier or an AdaptedClassifier, got "
            f"{type(classifier).__name__}: only their ratios can be learnt again."
        )
    if not is_auto("repeats", repeats):
        check_integer("repeats", repeats, low=1)
    warn_of_order(X, y=y)
    rows = read_rows(classifier, X)
    labelled = labelled_flags(y, classifier.classes_)
    check_same_rows(n_rows(rows), len(labelled))
    positive_rows = np.flatnonzero(labelled)
    unlabeled_rows = np.flatnonzero(~labelled)
    if min(len(positive_rows), len(unlabeled_rows)) < FEWEST_TO_SPLIT:
        raise DataError(
            f"suspects needs at least {FEWEST_TO_SPLIT} labelled positives and as many unlabeled "
            f"rows, got {len(positive_rows)} and {len(unlabeled_rows)}."
        )
    with silent(), progress_bar("suspects", show=verbose):  # the fit has given its warnings
        learner, rows = _learner(classifier, rows)
        pair = SamplePair(Sample(rows[positive_rows]), Sample(rows[unlabeled_rows]))
        copies = copies_of_labelled(pair)
        grouped = grouped_copies(pair)
        n_independent = grouped.positive.n_independent
        folds = 10 if n_independent < FEW_TO_SPLIT else 5
        if isinstance(repeats, str):
            repeats = REPEATS if n_independent < MANY else 1
        positive, unlabeled = held_scores(
            learner,
            grouped,
            folds=min(folds, n_independent, len(unlabeled_rows)),
            repeats=int(repeats),
            random_state=getattr(classifier._used, "random_state", 0),
            n_jobs=n_jobs,
        )
    if not len(positive):
        raise DataError(
            "the labelled positives are copies of each other: no row can be compared to others."
        )
    wrong, expected, identified = _wrong_labels(positive, unlabeled, level)
    order = np.argsort(positive, kind="stable")
    if copies is not None:
        copies = np.column_stack([unlabeled_rows[copies[:, 0]], positive_rows[copies[:, 1]]])
    return Suspects(positive_rows[order], wrong[order], expected, identified, copies)


def _learner(classifier: RatioClassifier, rows: Rows) -> tuple[Any, Rows]:
    """The learner of the classifier, with its categories, and the rows as it reads them.

    If it is unknown, it is the default, or a network if the rows are images.
    """
    model = getattr(classifier._used, "model", None)
    table = classifier.table_
    if model is None or isinstance(model, LearntElsewhere):
        model = "network" if len(rows.shape) > 2 else "auto"
        if isinstance(rows, FrameRows):  # a table that only the pipeline of the classifier reads
            table, rows = TableEncoder.fit([read_frame(rows.native)])
    learner = resolve_model(model)
    if isinstance(learner, FrameLearner):  # fitted on a cluster; the rows here are in memory
        learner = resolve_model("boosted")
    assert isinstance(learner, RatioLearner)
    rng = check_random_state(getattr(classifier._used, "random_state", 0))
    return seeded(with_categories(learner, table), rng), rows


def _wrong_labels(
    positive: FloatArray, unlabeled: FloatArray, level: float
) -> tuple[FloatArray, Figure, bool]:
    """Probability that each label is wrong, their expected number, and whether it is identified."""
    tails = ScoreTails(positive).update(unlabeled)
    reverse = ScoreTails(-unlabeled).update(-positive)
    # other methods lean to usual priors; the share of wrong labels is near 0
    top = min(prior_from_tails(tails, method="dedpul", warn=False).value, 1 - 1e-6)
    bottom = prior_from_tails(reverse, method="dedpul", level=level, warn=False)
    usual = prior_from_tails(reverse, level=level, warn=False)

    def number(low: float) -> float:
        return len(positive) * low * (1 - top) / (1 - top * low)

    floor = min(bottom.value, 1 - 1e-6)
    ratio = np.clip(calibrate(tails, top).ratios(positive), max(floor, 1e-12), 1 / max(top, 1e-12))
    wrong = np.clip(floor * (1 - top * ratio) / ((1 - top * floor) * ratio), 0, 1)
    # a single low score must not be certain if hardly any wrong label is expected
    wrong *= min(1.0, number(floor) / max(float(wrong.sum()), 1e-12))
    highest = max(bottom.high, usual.high)
    expected = Figure(number(floor), 0.0, number(min(highest, 1.0)))
    return wrong, expected, bool(usual.identified)
