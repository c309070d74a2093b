"""Tables with more columns than rows: the default, and the same with directions as for narrow tables.

    python -m benchmarks.wide                      # half an hour on one core
    python -m benchmarks.wide --seeds 1 --dry      # a few minutes, nothing written

Above 1000 columns the cosines of the default have random signs as directions, for smaller files. Both
variants are fitted to the same simulated tables: all columns say a little, columns come in correlated blocks,
ten columns say all, or the classes differ by a smooth curve. Times and sizes are ratios within one run.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from drpu import DRPUClassifier, save
from drpu.exceptions import DRPUWarning

POSITIVES, UNLABELED, TEST, PRIOR, COLUMNS = 100, 400, 1000, 0.4, 1500
KINDS = ("dense", "blocks", "few", "smooth")

Row = dict[str, Any]


def draw(kind: str, positive: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows of a kind of table, for given classes."""
    n, sign = len(positive), np.where(positive, 1.0, -1.0)[:, None]
    X = rng.standard_normal((n, COLUMNS))
    if kind == "dense":
        return X + 0.06 * sign
    if kind == "blocks":
        block = rng.standard_normal((n, COLUMNS // 50)) + 0.4 * sign
        return 0.8 * X + 0.6 * np.repeat(block, 50, axis=1)
    if kind == "few":
        X[:, :10] += 0.7 * sign
        return X
    factor = rng.standard_normal((n, 3)) * np.where(positive, 2.0, 0.7)[:, None]
    return X + 0.5 * np.tile(factor, (1, COLUMNS // 3))


def one(kind: str, seed: int, *, narrow: bool) -> Row:
    """Time, size and quality of one fit."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    labels = [np.ones(POSITIVES, bool), rng.random(UNLABELED) < PRIOR, rng.random(TEST) < PRIOR]
    labelled, unlabeled, test = (draw(kind, each, rng) for each in labels)
    with patch("drpu.ratios.fourier._SIGNS_COLUMNS", 10**9) if narrow else nullcontext():
        start = time.process_time()
        clf = DRPUClassifier(random_state=seed).fit_pu(labelled, unlabeled)
        seconds = time.process_time() - start
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "wide.drpu"
            save(clf, path)
            size = path.stat().st_size
        scores = clf.decision_function(test)
    true = labels[1].mean()
    return {
        "seconds": seconds,
        "bytes": size,
        "auc": float(roc_auc_score(labels[2], scores)),
        "prior_error": float(abs(clf.prior_.value - true)),
        "holds": bool(clf.prior_.low <= true <= clf.prior_.high),
    }


def compare(kind: str, seeds: int) -> Row:
    """Means over seeds of both variants; ratios of times and sizes."""
    pairs = [[one(kind, seed, narrow=narrow) for narrow in (False, True)] for seed in range(seeds)]
    found: Row = {
        f"{name}_ratio": float(np.mean([now[name] / then[name] for now, then in pairs]))
        for name in ("seconds", "bytes")
    }
    for at, variant in enumerate(("wide", "narrow")):
        found[variant] = {
            name: float(np.mean([pair[at][name] for pair in pairs]))
            for name in ("auc", "prior_error", "holds")
        }
    gains = [now["auc"] - then["auc"] for now, then in pairs]
    return found | {"auc_gain": float(np.mean(gains)), "auc_gain_spread": float(np.std(gains, ddof=1))}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    kinds = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        for kind in KINDS:
            kinds[kind] = compare(kind, max(2, given.seeds))
            print(kind, kinds[kind], flush=True)
    if not given.dry:
        command = f"python -m benchmarks.wide --seeds {given.seeds}"
        write_results("wide", command, rows=[POSITIVES, UNLABELED, COLUMNS], kinds=kinds)


if __name__ == "__main__":
    main()
