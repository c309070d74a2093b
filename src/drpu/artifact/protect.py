"""Copies of a classifier with fewer levels or noisy counts."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from drpu.core.calibration import Calibration, calibrate
from drpu.core.prior import PriorEstimate, prior_from_tails
from drpu.core.privacy import GRID_END, GRID_STEP, GridCounts, Protection, coarsen, privatize
from drpu.core.proportion import PROPORTIONS
from drpu.core.tails import ScoreTails
from drpu.estimators.adapted import AdaptedClassifier
from drpu.estimators.drpu import DRPUClassifier
from drpu.estimators.fitted import FittedRatio, with_labelled, without_labelled
from drpu.exceptions import DataError, ParameterError

__all__ = ["protect"]


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
