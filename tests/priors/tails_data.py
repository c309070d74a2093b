"""Small tails for tests of ScoreTails."""

import numpy as np

from drpu.priors.tails import ScoreTails

POSITIVE = np.array([0.2, 0.5, 0.5, 0.9])


def weighted_tails():
    """Tails with three weighted rows."""
    return ScoreTails(POSITIVE).update([0.1, 0.5, 0.6], [1.0, 2.0, 0.5])
