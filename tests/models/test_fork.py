"""Predictions in a forked child end, although the threads of the parent do not exist there."""

import importlib.util
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

SCRIPT = """
import os, signal, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from drpu import BoostedRatio, NetworkRatio, make_gaussian_pu
from drpu.models.boosted import ForestRatio

models = [BoostedRatio(n_jobs=-1, n_rounds=5), ForestRatio(5, n_jobs=-1)]
if sys.argv[1] == "networks":
    import torch
    torch.set_num_threads(4)
    models.append(NetworkRatio(hidden=(64, 64), epochs=1, alpha=0.3, device="cpu"))
data = make_gaussian_pu(100, 1000, prior=0.4, separation=3, dimensions=5, random_state=0)
fitted = [model.fit_ratio(data.positive, data.unlabeled) for model in models]
rows = np.repeat(data.unlabeled, 20, axis=0)
expected = [model.log_ratio(rows) for model in fitted]
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that hangs
    same = [np.allclose(model.log_ratio(rows), scores, atol=1e-6) for model, scores in zip(fitted, expected)]
    os._exit(0 if all(same) else 3 + same.index(False))  # the code says which model differs
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
"""


def test_a_forked_child_predicts():
    networks = "networks" if importlib.util.find_spec("torch") else "none"
    environment = os.environ | {"OMP_NUM_THREADS": "4", "OMP_WAIT_POLICY": "passive"}
    subprocess.run([sys.executable, "-c", SCRIPT, networks], check=True, env=environment)
