"""What the process has set in torch changes no network, and is as it was afterwards."""

from contextlib import contextmanager

import numpy as np
import pytest

from drpu import DRPUClassifier, GenPUClassifier, NetworkRatio, NNPUClassifier, load, make_gaussian_pu, save

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.DRPUWarning")


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(60, 200, prior=0.4, separation=3, dimensions=3, random_state=0)


@contextmanager
def default_of(dtype):
    torch.set_default_dtype(dtype)
    try:
        yield
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)


SETTINGS = {
    "float64": lambda: default_of(torch.float64),
    "bfloat16": lambda: default_of(torch.bfloat16),
    "another device": lambda: torch.device("meta"),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
}


def results(data, folder):
    """Scores of each kind of network, before and after saving."""
    options = {"hidden": (4,), "epochs": 2, "device": "cpu", "random_state": 0}
    X, y = data.X_y()
    ratio = DRPUClassifier(NetworkRatio(alpha=0.3, **options), holdout=2, random_state=0).fit(X, y)
    save(ratio, folder / "a.drpu")
    risk = NNPUClassifier(NetworkRatio(**options), prior=0.4, random_state=0).fit(X, y)
    game = GenPUClassifier("linear", steps=2, hidden=(4,), device="cpu", prior=0.4, random_state=0).fit(X, y)
    return [
        ratio.ratio(X),
        load(folder / "a.drpu").ratio(X),
        risk.decision_function(X),
        game.decision_function(X),
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_torch_change_no_result(name, data, tmp_path):
    expected = results(data, tmp_path)
    with SETTINGS[name]():
        found = results(data, tmp_path)
    for scores, usual in zip(found, expected, strict=True):
        np.testing.assert_array_equal(scores, usual)
