"""Adaptation to new rows: what moved, and how far prior and labels follow."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from drpu._checks import check_choice, check_integer
from drpu.classifier.audit import labelled_flags
from drpu.classifier.findings import Findings
from drpu.classifier.fitted import FittedRatio
from drpu.classifier.notices import warn_of_contradicted, warn_of_few_rows, warn_of_late_labels
from drpu.classifier.profiles import warn_of_other_shift
from drpu.core.diagnostics import MixtureTest, mixture_test
from drpu.core.prior.estimate import PriorEstimate, warn_if_not_identified
from drpu.core.shift.columns import ColumnShift
from drpu.core.shift.periods import (
    POOLED,
    Arrived,
    Evidence,
    LabelCount,
    PeriodDecision,
    decide,
    what_moved,
)
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from drpu.classifier.adapted import AdaptedClassifier
    from drpu.classifier.base import RatioClassifier

SHIFTS = ("auto", "prior", "none")


def adapt_to_counts(
    classifier: RatioClassifier,
    seen: ScoreTails,
    adapted: PriorEstimate,
    *,
    cost: float | None,
    shift: str = "auto",
    arrived: Arrived | None = None,
) -> AdaptedClassifier:
    """The classifier for rows that have been counted."""
    check_choice("shift", shift, SHIFTS)
    warn_of_few_rows(seen.n, adapted)
    test, moved, decision = read_counts(classifier.fitted_, seen, adapted, arrived)
    found = Findings(rows=seen.n, shift_test=test, moved_columns=moved)
    if shift == "none":
        kept = replace(found, shift="none", labels_at=classifier._labels_at(), map=classifier._map())
        return classifier._adapted_at(classifier.test_prior_, cost=cost, findings=kept)
    if shift == "prior":
        warn_of_other_shift(test, moved, done="prior")
        warn_if_not_identified(adapted)
        return classifier._adapted_at(adapted, cost=cost, findings=found)
    if decision.late:
        warn_of_late_labels()
    if decision.moved == "other":
        warn_of_other_shift(test, moved, done="supported" if len(decision.sources) > 1 else "kept")
    else:
        warn_if_not_identified(decision.prior)
    if classifier.fitted_.anchor is not None:
        warn_of_contradicted(classifier.fitted_.anchor.prior, decision.prior)
    return classifier._adapted_at(decision.prior, cost=cost, findings=_decided(found, decision, classifier))


def tested(
    fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate
) -> tuple[MixtureTest, tuple[ColumnShift, ...], Evidence]:
    """Both tests of what moved, and what the rows show; ``adapted`` is the prior if only the prior moved."""
    test, moved = mixture_test(seen, fitted.reference), fitted.moved_columns(seen, adapted)
    return test, moved, evidence_of(fitted, seen, adapted, what_moved(test.p_value, test.degrees, moved))


def read_counts(
    fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate, arrived: Arrived | None = None
) -> tuple[MixtureTest, tuple[ColumnShift, ...], PeriodDecision]:
    """Both tests, and the decision that follows from them, the past and labels that arrived."""
    test, moved, evidence = tested(fitted, seen, adapted)
    return test, moved, decide(evidence, backtest=fitted.backtest, arrived=arrived)


def _decided(found: Findings, decision: PeriodDecision, classifier: RatioClassifier) -> Findings:
    """The findings with a decision; labels move from where the classifier makes them."""
    labels_at: float | None = decision.labels_at
    current = classifier._map()
    if current is not None:
        base = classifier.fitted_.anchor
        before = classifier.test_prior_.value if base is None else base.prior.value
        found = replace(found, map=moved_map(current, before, decision.labels_at))
        labels_at = None
    elif decision.labels_at == decision.prior.value:
        labels_at = None
    return replace(found, shift=decision.moved, labels_at=labels_at, sources=decision.sources)


def moved_map(current: Any, before: float, after: float) -> Any:
    """The map with the intercept moved by as much as the log-odds of the prior."""
    if before in (0.0, 1.0) or after in (0.0, 1.0) or before == after:
        return current
    step = np.log(after / (1 - after)) - np.log(before / (1 - before))
    return replace(current, intercept=current.intercept + float(step))


def evidence_of(fitted: FittedRatio, seen: ScoreTails, adapted: PriorEstimate, moved: Any) -> Evidence:
    """What counted rows show without labels."""
    train = fitted.train_prior if fitted.anchor is None else fitted.anchor.prior
    return Evidence(
        train,
        adapted,
        moved,
        fitted.cell_probability(),
        fitted.mean_probability_before(),
        seen.counts,
        fitted.labelled_fraction,
    )


def sampling_error(
    fitted: FittedRatio, seen: ScoreTails, adapted: AdaptedClassifier, arrived: Arrived | None
) -> float:
    """Standard error of the prior of counted rows by their number alone, as if training were exact."""
    prior = adapted.prior_.value
    evidence = evidence_of(fitted, seen, adapted.prior_, "other" if adapted.shift_ == "other" else "prior")
    slope = POOLED.slope if fitted.backtest is None else fitted.backtest.slope
    error = evidence.noise(prior, seen.n, slope=slope)
    return error if arrived is None else max(error, prior * math.sqrt(arrived.now.noise))


def arrived_labels(classifier: RatioClassifier, y: Any, n: int, label_delay: int) -> Arrived:
    """Labels of new rows that have arrived, and those of training."""
    before = labels_of_training(classifier.fitted_, "y")
    positive = labelled_flags(y, classifier.classes_)
    if len(positive) != n:
        raise DataError(f"X and y must have the same number of rows, got {n} and {len(positive)}.")
    delay = check_integer("label_delay", label_delay, low=0)
    return Arrived(LabelCount(float(positive.sum()), float(n)), before, complete=delay == 0)


def labels_of_training(fitted: FittedRatio, argument: str) -> LabelCount:
    """Labels of the training sample, with which labels given as ``argument`` are compared."""
    if fitted.label_count is None:
        raise ParameterError(
            f"{argument} must be None with scenario='case-control', where the share of labelled rows says "
            "nothing about the prior: fit with scenario='single-sample' if labelled rows are part of the "
            "sample."
        )
    return fitted.label_count
