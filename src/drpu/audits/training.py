"""Answers that a fit uses: rows of known class, and the training prior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from drpu._samples import Sample, SamplePair
from drpu._typing import BoolArray, FloatArray, IntArray, Rows
from drpu.audits.combine import half_an_answer, share_as_prior
from drpu.audits.design import combine_figures
from drpu.audits.evaluation import Answers
from drpu.audits.labelling import answer_weights
from drpu.audits.plan import (
    Audit,
    AuditPart,
    RandomPart,
    check_audit,
    check_positions,
    read_answers,
    refuse_repeated,
)
from drpu.exceptions import ContradictionWarning, DataError
from drpu.models.crossfit import Known
from drpu.priors.estimate import PriorEstimate
from drpu.priors.figures import Figure
from drpu.state.labels import Classes
from drpu.state.population import with_labelled


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
        answers = Answers.random(positive)
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
        share = part.answers.share(part.answers.positive, (0.025, 0.025))
        if not part.of_unlabeled:
            share = _among_unlabeled(share, n_labelled, n_unlabeled)
        figures.append(share)
    half = half_an_answer([part.answers for part in about_rows])
    prior = share_as_prior(combine_figures(figures), 1.0, 0.95, half)
    return with_labelled(prior, fraction)


def _among_unlabeled(share: Figure, n_labelled: int, n_unlabeled: int) -> Figure:
    """The share of positives among unlabeled rows; labelled rows are known to be positive."""
    n = n_labelled + n_unlabeled

    def remaining(value: float) -> float:
        return min(max((value * n - n_labelled) / n_unlabeled, 0.0), 1.0)

    variance = share.variance * (n / n_unlabeled) ** 2
    return Figure(remaining(share.value), remaining(share.low), remaining(share.high), variance)
