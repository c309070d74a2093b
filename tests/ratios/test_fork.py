"""Predictions in a forked child end, although the threads of the parent do not exist there."""

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
from drpu.ratios.forest import ForestRatio

models = {
    "boosted": lambda: BoostedRatio(n_jobs=-1, n_rounds=5),
    "forest": lambda: ForestRatio(5, n_jobs=-1),
    "network": lambda: NetworkRatio(hidden=(64, 64), epochs=1, alpha=0.3, device="cpu"),
}
data = make_gaussian_pu(100, 1000, prior=0.4, separation=3, dimensions=5, random_state=0)
if sys.argv[1] == "network":
    import torch
    torch.set_num_threads(4)
model = models[sys.argv[1]]().fit_ratio(data.positive, data.unlabeled)
rows = np.repeat(data.unlabeled, 20, axis=0)
expected = model.log_ratio(rows)
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that hangs
    same = np.allclose(model.log_ratio(rows), expected, atol=1e-6)
    os._exit(0 if same else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
"""


@pytest.mark.parametrize("kind", ["boosted", "forest", "network"])
def test_a_forked_child_predicts(kind):
    if kind == "network":
        pytest.importorskip("torch", reason="part of the torch extra")
    environment = os.environ | {"OMP_NUM_THREADS": "4"}
    subprocess.run([sys.executable, "-c", SCRIPT, kind], check=True, env=environment)
