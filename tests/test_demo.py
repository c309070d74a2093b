"""The demo prints a table, writes files, and gets the same result in a new process."""

import re
import warnings

import numpy as np
import pytest

from drpu import load
from drpu.demo import PRIORS, main

pytest.importorskip("matplotlib")

ROW = re.compile(
    r"^ +(\d\.\d\d) +(\d\.\d{3}) +\[(\d\.\d{3}), (\d\.\d{3})\] +(\d+\.\d)% +(\d+\.\d)% +(\d+\.\d)%$", re.M
)
AGAIN = re.compile(
    r"^ +share of even digits (\d\.\d{3}) \[(\d\.\d{3}), (\d\.\d{3})\] at 95%(?: .*)?, accuracy (\d+\.\d)%$",
    re.M,
)


def numbers(found):
    return np.array([[float(x) for x in row] for row in found])


def test_the_demo_finds_every_prior_and_finds_it_again(tmp_path, capfd):
    out = tmp_path / "new" / "folder"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # matplotlib's own
        main(["--out", str(out)])
    printed = capfd.readouterr().out

    table = numbers(ROW.findall(printed))
    assert table.shape == (len(PRIORS), 7)
    truth, found, low, high, as_trained, adapted, known = table.T
    np.testing.assert_allclose(truth, PRIORS, atol=0.006)
    assert (np.abs(found - truth) < 0.08).all()
    assert ((low <= found) & (found <= high)).all()
    assert adapted.mean() > as_trained.mean()
    assert adapted.mean() > known.mean() - 3

    again = numbers(AGAIN.findall(printed))
    np.testing.assert_array_equal(again[:, :3], table[:, 1:4])
    np.testing.assert_array_equal(again[:, 3], adapted)

    assert {"digits.drpu", "shift.png"} <= {path.name for path in out.iterdir()}
    assert (out / "shift.png").read_bytes().startswith(b"\x89PNG")
    assert load(out / "digits.drpu").n_features_in_ == 64
