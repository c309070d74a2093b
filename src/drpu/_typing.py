"""Type aliases."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

# A NumPy array or a torch tensor; functions return the type of their argument.
Array: TypeAlias = Any

# Rows as users pass them: numpy, pandas, polars, Arrow, scipy sparse, torch.
Rows: TypeAlias = Any
