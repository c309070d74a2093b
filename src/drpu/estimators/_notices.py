"""Warnings about the data and the settings of a fit."""

from __future__ import annotations

import warnings

from drpu.core.prior import FEW_POSITIVES, PriorEstimate
from drpu.exceptions import AlphaWarning, FewPositivesWarning, FewRowsWarning, SeenPositivesWarning
from drpu.models.folds import FoldedRatio

__all__ = ["warn_of_alpha", "warn_of_few_positives", "warn_of_few_rows"]

FEW_ROWS = 30  # with fewer new rows, adapt warns that the prior is rough


def warn_of_alpha(folds: FoldedRatio, prior: PriorEstimate) -> None:
    """Warn if alpha exceeds the prior of the unlabeled rows, because the correction is then wrong."""
    alpha = max(getattr(model, "alpha_", None) or 0.0 for model in folds.models)
    if alpha > prior.high:
        warnings.warn(
            f"the model was corrected with alpha = {alpha:.3g}, above the prior of the unlabeled rows "
            f"({prior}): its ratios are too small. Use a smaller alpha, or 'auto'.",
            AlphaWarning,
            stacklevel=4,
        )


def warn_of_few_positives(n: int, *, split: bool) -> None:
    """Warn that the prior is rough because of few positives, or because no rows were held out."""
    if n < FEW_POSITIVES:
        warnings.warn(
            f"{n} labelled positives: the prior and its interval are rough. Label more, or give the prior "
            "if you know it.",
            FewPositivesWarning,
            stacklevel=4,
        )
    if not split:
        warnings.warn(
            "no rows were held out, so the prior is estimated from scores of training rows: it is too low, "
            "and its interval too narrow. Label at least four positives.",
            SeenPositivesWarning,
            stacklevel=4,
        )


def warn_of_few_rows(n: float, prior: PriorEstimate) -> None:
    """Warn that few new rows say little about their prior."""
    if n < FEW_ROWS:
        warnings.warn(
            f"{n:g} new rows say little about their prior, which lies between {prior.low:.3f} and "
            f"{prior.high:.3f}: labels and expected figures depend on a rough value. Adapt to more rows, or "
            "give the prior with at_prior.",
            FewRowsWarning,
            stacklevel=3,
        )
