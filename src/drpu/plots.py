"""Display objects: pictures of priors, scores, calibration and expected performance.

Each has ``from_classifier`` or ``from_estimator``-like constructors and ``plot(ax)``, as the
displays of scikit-learn have. They need matplotlib, the extra ``report``.
"""

from __future__ import annotations

from drpu.report.gain_plots import GainDisplay, LiftDisplay
from drpu.report.plots import (
    CalibrationDisplay,
    PerformanceDisplay,
    PriorDisplay,
    RocDisplay,
    ScoreDisplay,
    TailRatioDisplay,
)

__all__ = [
    "CalibrationDisplay",
    "GainDisplay",
    "LiftDisplay",
    "PerformanceDisplay",
    "PriorDisplay",
    "RocDisplay",
    "ScoreDisplay",
    "TailRatioDisplay",
]
