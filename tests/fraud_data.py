"""Payments with an amount and a country, of which a share is fraud."""

import numpy as np
import pandas as pd

from drpu import DRPUClassifier


def payments(n, share, seed):
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < share
    country = np.where(rng.random(n) < 0.6 * fraud, "XX", rng.choice(["FR", "DE"], n))
    return pd.DataFrame({"amount": rng.normal(50 + 60 * fraud, 20), "country": country})


def fraud_classifier():
    clf = DRPUClassifier("kernel", holdout=2, random_state=0)
    return clf.fit_pu(payments(150, 1, 0), payments(500, 0.3, 1))
