"""Expected performance of a fitted classifier with any threshold, at any prior."""

from __future__ import annotations

import math
from typing import Any

from drpu.core.diagnostics import Performance
from drpu.core.expectation import Decision, Judge, expect
from drpu.core.prior import PriorEstimate
from drpu.estimators.adapted import Adaptable
from drpu.estimators.fitted import FittedRatio
from drpu.exceptions import DataTypeError

__all__ = ["fitted_of", "judge_of", "judged"]


def fitted_of(classifier: Any) -> FittedRatio:
    """The fitted state of a classifier that can be adapted; raises if it is none, or not fitted."""
    if not isinstance(classifier, Adaptable):
        kind = type(classifier).__name__
        raise DataTypeError(f"classifier must be a fitted DRPUClassifier or AdaptedClassifier, got {kind}.")
    classifier._check_fitted()
    return classifier.fitted_


def judge_of(fitted: FittedRatio) -> Judge:
    """The judge of thresholds on the counts of a fitted classifier."""
    labelled = None if fitted.calibration is None else fitted.labelled_fraction
    return Judge.of(fitted.tails, fitted.unlabeled_prior.value, labelled)


def judged(
    fitted: FittedRatio, judge: Judge, ratio: float, prior: PriorEstimate, cost: float
) -> tuple[Performance, Performance, Performance]:
    """Expected performance and its limits with the threshold ``ratio``."""
    decision = Decision(
        fitted.tails,
        ratio if math.isinf(ratio) else fitted.score_above(ratio),
        ratio if fitted.calibration is not None else None,
        fitted.labelled_fraction,
        len(fitted.model.models),
    )
    return expect(decision, fitted.unlabeled_prior, prior, cost=cost, judge=judge)
