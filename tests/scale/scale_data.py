"""A classifier with named columns and one without, and rows to count."""

import numpy as np
import pandas as pd

from drpu import DRPUClassifier, make_gaussian_pu

COLUMNS = ["a", "b"]
DATA = make_gaussian_pu(
    200, 600, prior=0.4, test_prior=0.15, n_test=900, separation=3, dimensions=2, random_state=0
)
PLAIN = DRPUClassifier("kernel", random_state=0).fit_pu(DATA.positive, DATA.unlabeled)
NAMED = DRPUClassifier("kernel", random_state=0).fit_pu(
    *(pd.DataFrame(rows, columns=COLUMNS) for rows in (DATA.positive, DATA.unlabeled))
)

# new rows among other columns, in another order, with weights
TABLE = pd.DataFrame(
    {
        "id": np.arange(len(DATA.test)),
        "b": DATA.test[:, 1],
        "a": DATA.test[:, 0],
        "w": np.random.default_rng(0).integers(1, 4, len(DATA.test)).astype(float),
    }
)
