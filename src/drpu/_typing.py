"""Types that several layers share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# A numpy array or a torch tensor: functions on it return the kind they were given.
Array: TypeAlias = Any

# Rows as a user holds them: numpy, pandas, polars, Arrow, scipy sparse, torch.
Rows: TypeAlias = Any
