"""Pictures and a page over what a classifier has counted; nothing here needs training rows."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpu.report.page import render_report as render_report
    from drpu.report.page import write_report as write_report
    from drpu.report.plots import CalibrationDisplay as CalibrationDisplay
    from drpu.report.plots import PerformanceDisplay as PerformanceDisplay
    from drpu.report.plots import PriorDisplay as PriorDisplay
    from drpu.report.plots import RocDisplay as RocDisplay
    from drpu.report.plots import ScoreDisplay as ScoreDisplay
    from drpu.report.plots import TailRatioDisplay as TailRatioDisplay

_SHELF = {
    "CalibrationDisplay": "drpu.report.plots",
    "PerformanceDisplay": "drpu.report.plots",
    "PriorDisplay": "drpu.report.plots",
    "RocDisplay": "drpu.report.plots",
    "ScoreDisplay": "drpu.report.plots",
    "TailRatioDisplay": "drpu.report.plots",
    "render_report": "drpu.report.page",
    "write_report": "drpu.report.page",
}

__all__ = sorted(_SHELF)


def __getattr__(name: str) -> Any:
    if name in _SHELF:
        return getattr(import_module(_SHELF[name]), name)
    raise AttributeError(f"module 'drpu.report' has no attribute {name!r}")
