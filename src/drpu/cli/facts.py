"""Facts about a classifier and its current prior, as plain values."""

from __future__ import annotations

from typing import Any

from drpu.core.prior import PriorEstimate

FIGURES = ("accuracy", "precision", "recall", "flagged", "cost")

__all__ = ["learnt", "standing", "train_prior"]


def train_prior(classifier: Any) -> PriorEstimate:
    """Prior of the population that the classifier learnt from."""
    prior: PriorEstimate = getattr(classifier, "train_prior_", classifier.prior_)
    return prior


def standing(classifier: Any) -> dict[str, Any]:
    """The current prior, cost and threshold of the classifier, for JSON."""
    expected, (low, high) = classifier.expected_performance(), classifier.expected_range()
    return {
        "train_prior": train_prior(classifier),
        "prior": classifier.test_prior_,
        "cost": classifier.cost_,
        "threshold": classifier.threshold_,
        "expected": {name: getattr(expected, name) for name in FIGURES},
        "expected_range": {name: [getattr(low, name), getattr(high, name)] for name in FIGURES},
    } | _by_amounts(classifier)


def _by_amounts(classifier: Any) -> dict[str, Any]:
    """Figures that depend on two amounts and on a budget, if these were given."""
    found: dict[str, Any] = {}
    if hasattr(classifier.cost_, "bill"):
        costs = classifier.cost_
        found["costs"] = {"false_alarm": costs.false_alarm, "miss": costs.miss}
        found["expected_bill_per_row"] = classifier.expected_bill()
    budget = getattr(classifier, "budget_", None)
    if budget is not None:
        names = ("rows", "share", "threshold", "precision", "recall", "lift")
        found["budget"] = {name: getattr(budget, name) for name in names}
    return found


def learnt(classifier: Any) -> dict[str, Any]:
    """Facts about the fit of the classifier, for JSON."""
    core = classifier.fitted_
    names = getattr(classifier, "feature_names_in_", None)
    return {
        "kind": type(classifier).__name__,
        "model": f"{len(core.model.models)} x {core.model.models[0].kind}",
        "n_columns": classifier.n_features_in_,
        "columns": None if names is None else names.tolist(),
        "classes": classifier.classes_,
        "positives": core.tails.n_positive,
        "unlabeled": core.tails.n,
        "labelled_share": core.labelled_fraction,
    } | standing(classifier)
