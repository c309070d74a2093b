"""Copies of a classifier with fewer levels or noisy counts."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from drpu._checks import check_choice, check_integer
from drpu._state import ModelState
from drpu.classifier.adapted import AdaptedClassifier
from drpu.classifier.drpu import DRPUClassifier
from drpu.classifier.fitted import FittedRatio, with_labelled, without_labelled
from drpu.core.calibration import Calibration, calibrate
from drpu.core.prior.estimate import PriorEstimate, prior_from_tails
from drpu.core.prior.mixture import PROPORTIONS
from drpu.core.reduction import GRID_END, GRID_STEP, GridCounts, Protection, coarsen, privatize
from drpu.core.tails import ScoreTails
from drpu.exceptions import DataError, KeptValuesWarning, ParameterError, warn

__all__ = ["check_values", "contents", "kept_values", "protect", "with_profiles", "with_values"]


def protect(classifier: Any, *, levels: int | None, epsilon: float | None, random_state: int | None) -> Any:
    """``classifier`` itself, or a copy with reduced counts if ``levels`` or ``epsilon`` is given."""
    if levels is None and epsilon is None:
        if random_state is not None:
            raise ParameterError("random_state seeds the noise of epsilon: without epsilon it must be None.")
        return classifier
    if levels is not None and (epsilon is not None or random_state is not None):
        raise ParameterError("levels cannot be given with epsilon or random_state: choose one protection.")
    core = _exact_core(classifier)
    if levels is not None:
        return _with_core(classifier, _coarse(core, levels))
    assert epsilon is not None  # one of the two was given
    adapted = isinstance(classifier, AdaptedClassifier) and classifier.prior.method != "given"
    return _forgotten(_with_core(classifier, _private(core, epsilon, random_state, adapted=adapted)))


def _exact_core(classifier: Any) -> FittedRatio:
    core = getattr(classifier, "fitted_", None)
    if not isinstance(core, FittedRatio):
        raise ParameterError(
            f"levels and epsilon are for a fitted DRPUClassifier or AdaptedClassifier, "
            f"got {type(classifier).__name__}: it keeps no held-out scores, or is not fitted."
        )
    if core.protection is not None:
        raise ParameterError(
            f"this classifier was saved with {core.protection.mechanism} before: its reduced counts "
            "cannot be protected again. Save it without levels and epsilon."
        )
    return core


def _coarse(core: FittedRatio, levels: int) -> FittedRatio:
    coarse = coarsen(core.tails, levels)
    protection = Protection(
        "quantiles",
        len(coarse.tails.levels),
        positive_error=coarse.positive_error,
        unlabeled_error=coarse.unlabeled_error,
        not_covered=("model",),
    )
    return replace(
        core,
        tails=coarse.tails,
        calibration=_recalibrated(core, coarse.tails, core.train_prior, core.labelled_fraction),
        grid=None,
        protection=protection,
    )


def _private(core: FittedRatio, epsilon: float, random_state: int | None, *, adapted: bool) -> FittedRatio:
    """A copy in which everything computed from exact counts is computed from noisy ones."""
    tails = privatize(_grid(core), epsilon, random_state=random_state)
    # In a single sample the labelled fraction would reveal the sizes, which are noisy now.
    labelled = float(tails.positive_counts.sum())
    share = labelled / (labelled + tails.n) if core.labelled_fraction > 0 else 0.0
    prior = core.train_prior
    if prior.method != "given":
        method = prior.method if prior.method in PROPORTIONS else "auto"
        prior = with_labelled(prior_from_tails(tails, method=method, level=prior.level), share)
    protection = Protection(
        "discrete-laplace",
        len(tails.levels),
        epsilon=float(epsilon),
        neighbours="data sets that differ by one row more or less, scored by the same model",
        grid=(-GRID_END, GRID_END, GRID_STEP),
        randomness="operating system" if random_state is None else "seeded",
        not_covered=("model", "adapted prior") if adapted else ("model",),
    )
    return replace(
        core,
        tails=tails,
        calibration=_recalibrated(core, tails, prior, share),
        train_prior=prior,
        labelled_fraction=share,
        columns=(),  # counts without noise
        grid=None,
        protection=protection,
        means=None,
        adapt_method=_without_means(core),
    )


def _without_means(core: FittedRatio) -> str:
    """The method of adapting; raises if it needs exact means of the training rows."""
    if core.means is not None:
        raise DataError(
            f"epsilon covers counts, and adapt_method={core.adapt_method!r} keeps exact means of the "
            "training rows: fit with adapt_method='auto', or use levels."
        )
    return core.adapt_method


def _grid(core: FittedRatio) -> GridCounts:
    if core.grid is None:
        raise DataError(
            "epsilon needs rows without weights, and these had weights (or were fitted before grids "
            "were kept): fit without sample_weight, or use levels."
        )
    return core.grid


def _recalibrated(
    core: FittedRatio, tails: ScoreTails, prior: PriorEstimate, share: float
) -> Calibration | None:
    if core.calibration is None:
        return None
    return calibrate(tails, without_labelled(prior, share).value, labelled_share=share)


def _with_core(classifier: Any, core: FittedRatio) -> Any:
    """A copy with another core."""
    new = copy.copy(classifier)
    new.fitted_ = core
    return new


def _forgotten(classifier: Any) -> Any:
    """``classifier`` without settings that contain numbers computed from exact counts."""
    prior = classifier.prior
    if (
        isinstance(classifier, DRPUClassifier)
        and isinstance(prior, PriorEstimate)
        and prior.method != "given"
    ):
        classifier.prior = "auto"
    return classifier


def check_values(column_values: str | None, rare_values: int | None) -> None:
    """Raise unless these are options of ``save``."""
    if column_values is not None:
        check_choice("column_values", column_values, ("keep", "hash"))
    if rare_values is not None:
        check_integer("rare_values", rare_values, low=1)


def with_values(classifier: Any, column_values: str | None, rare_values: int | None) -> Any:
    """The classifier to write; warns if it keeps column values without the consent of the user."""
    check_values(column_values, rare_values)
    table = getattr(classifier, "table_", None)
    if table is None:
        return classifier
    if rare_values is not None:
        table = table.without_rare(rare_values)
    if column_values == "hash":
        table = table.hashed()
    if column_values is None and table.salt is None and table.kept_values():
        _warn_of_values(table.kept_values())
    written = copy.copy(classifier)
    written.table_ = table
    return written


def with_profiles(classifier: Any, keep: bool) -> Any:
    """The classifier to write, without counts of the training rows in ranges of columns unless they stay."""
    if not isinstance(keep, bool):
        raise ParameterError(f"column_profiles must be True or False, got {keep!r}.")
    if keep or not getattr(getattr(classifier, "fitted_", None), "columns", ()):
        return classifier
    written = copy.copy(classifier)
    written.fitted_ = replace(classifier.fitted_, columns=())
    return written


def _warn_of_values(kept: dict[str, int]) -> None:
    shown = ", ".join(f"{name!r} ({n})" for name, n in list(kept.items())[:8])
    more = f" and {len(kept) - 8} more columns" if len(kept) > 8 else ""
    warn(
        KeptValuesWarning(
            f"the file keeps values of the data, the levels of the categories {shown}{more}:",
            advice="pass column_values='keep' to accept this, 'hash' to write digests, rare_values=20 to "
            "leave out values of fewer than 20 rows.",
            command="give --column-values keep to accept this, --column-values hash to write digests, "
            "--rare-values 20 to leave out values of fewer than 20 rows.",
        )
    )


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
