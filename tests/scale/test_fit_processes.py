"""Two processes that train a network together end with the same classifier."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from drpu import DistributedNetwork, DRPUClassifier, NetworkRatio, load
from drpu.exceptions import ClusterError

pytest.importorskip("torch")

SCRIPT = """
import sys
import numpy as np
import torch.distributed as dist
from drpu import DRPUClassifier, DistributedNetwork, save

dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=int(sys.argv[3]), world_size=2)
rows = np.load(sys.argv[1] + f"/rows{dist.get_rank()}.npz")
model = DistributedNetwork(hidden=(16,), epochs=25, batch_size=256)
clf = DRPUClassifier(model, holdout=0.2, scenario="single-sample", random_state=0).fit(rows["X"], rows["y"])
save(clf, sys.argv[1] + f"/clf{dist.get_rank()}.drpu")
dist.destroy_process_group()
"""


def make_rows(n, seed):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.4
    X = rng.normal(size=(n, 3)) + 1.3 * positive[:, None]
    return X, (positive & (rng.random(n) < 0.5)).astype(int), positive


def test_processes_learn_what_one_learns(tmp_path):
    X, y, _ = make_rows(4000, 0)
    # One process has all positives and few other rows; gradients are still those of all rows.
    first = np.flatnonzero(y | (np.arange(4000) < 500))
    for rank, chosen in enumerate((first, np.setdiff1d(np.arange(4000), first))):
        np.savez(tmp_path / f"rows{rank}.npz", X=X[chosen], y=y[chosen])
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path), str(tmp_path / "group")]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    started = [
        subprocess.Popen([*arguments, str(rank)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    messages = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0], messages

    one, two = (load(tmp_path / f"clf{rank}.drpu") for rank in range(2))
    new, _, truth = make_rows(4000, 1)
    assert_allclose(one.decision_function(new), two.decision_function(new), rtol=1e-6)
    assert one.prior_ == two.prior_
    assert one.prior_.low < 0.4 < one.prior_.high
    # The best ranking is by the sum of the columns; the standard error of an AUC is 0.004 here.
    assert roc_auc_score(truth, one.decision_function(new)) > roc_auc_score(truth, new.sum(axis=1)) - 0.012
    assert isinstance(one.model_.models[0], NetworkRatio)


def test_without_a_group_there_is_an_error(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    X, y, _ = make_rows(100, 0)
    with pytest.raises(ClusterError, match="torchrun"):
        DRPUClassifier(DistributedNetwork()).fit(X, y)
