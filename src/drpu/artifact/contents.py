"""Description of the values in an artifact that come from training data, for its manifest."""

from __future__ import annotations

from typing import Any

from drpu._state import ModelState

__all__ = ["contents", "kept_values"]

# Values that each kind of model keeps, all learnt from many rows.
_STATISTICS = {
    "auto": "medians of the columns",
    "boosted": "thresholds of splits and values of leaves",
    "classifier": "coefficients, splits and statistics of scikit-learn estimators",
    "forest": "thresholds of splits and values of leaves",
    "fourier": "means and standard deviations of the columns, coefficients",
    "kernel": "means and standard deviations of the columns, centres of clusters of rows, coefficients",
    "kernel-score": "means and standard deviations of the columns, coefficients",
    "linear-score": "means and standard deviations of the columns, coefficients",
    "network": "means and standard deviations of the columns, weights of networks",
    "network-score": "means and standard deviations of the columns, weights of networks",
    "generators": "weights of networks that generate rows",
}
_SCORES = {
    None: "the score of every held-out positive, and counts of unlabeled rows between them",
    "quantiles": "quantiles of the scores of held-out positives, none of them a score, and exact counts",
    "discrete-laplace": "noisy counts of scores on a fixed grid",
}


def contents(classifier: Any, state: ModelState) -> dict[str, Any]:
    """Description of a classifier's state: values of rows, scores, statistics and names."""
    kept = kept_values(classifier)
    found: dict[str, Any] = {
        "training_rows": any("row" in values for values in kept.values()),
        "values_of_rows": kept,
        "statistics": sorted({_STATISTICS[kind] for kind in _kinds(state) if kind in _STATISTICS}),
        "column_names": hasattr(classifier, "feature_names_in_"),
        "category_names": not getattr(getattr(classifier, "table_", None), "plain", True),
    }
    if hasattr(classifier, "fitted_"):
        protection = classifier.fitted_.protection
        if classifier.fitted_.columns:
            found["statistics"].append("counts of rows in ranges of each column, with rounded limits")
        found["scores"] = _SCORES[None if protection is None else protection.mechanism]
    return found


def kept_values(classifier: Any) -> dict[str, str]:
    """Parts of the classifier that keep values of training rows, and what they keep."""
    models = classifier.fitted_.model.all_models if hasattr(classifier, "fitted_") else [classifier.model_]
    kept: dict[str, str] = {}
    waiting = list(models)
    while waiting:
        model = waiting.pop()
        waiting.extend(getattr(model, "members_", ()))
        if hasattr(model, "kept_values"):
            kept |= model.kept_values
        elif getattr(model, "keeps_rows", False):
            kept[type(model).__name__] = "training rows"
    return dict(sorted(kept.items()))


def _kinds(state: ModelState) -> set[str]:
    return {state.kind}.union(*(_kinds(part) for part in state.parts.values()))
