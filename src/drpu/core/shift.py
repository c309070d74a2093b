"""Prior of a second sample, seen beside the first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from drpu._typing import FloatArray
from drpu.core.calibration import monotone_cells
from drpu.core.tails import ScoreTails

__all__ = ["SHIFTS", "em", "em_on_ratios", "match_negatives", "matching"]
