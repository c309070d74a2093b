"""Rows for fits on a cluster."""

import numpy as np
import pandas as pd

COLUMNS = ["a", "b", "c"]
PRIOR = 0.4


def make_rows(n, seed=0):
    """A table with a label column of a single sample, and its true classes."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < PRIOR
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + 1.3 * y[:, None], columns=COLUMNS)
    frame["label"] = (y & (rng.random(n) < 0.5)).astype(int)
    frame["id"] = np.arange(n)
    return frame, y
