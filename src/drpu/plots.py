"""Display objects: plots of priors, scores, calibration and expected performance.

Each has a constructor ``from_classifier`` and a method ``plot(ax)``, like the displays of scikit-learn. They
need matplotlib, which the extra ``report`` installs.
"""

from __future__ import annotations

from drpu.report.plots import (
    CalibrationDisplay,
    GainDisplay,
    LiftDisplay,
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
