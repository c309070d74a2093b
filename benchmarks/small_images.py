"""The smallest batch of ``effort`` on a few thousand images or fewer.

    python -m benchmarks.small_images --data FOLDER                       # half an hour on one core
    python -m benchmarks.small_images --data FOLDER --seeds 1 --dry       # nothing written

``effort`` aims at 80 batches an epoch, and a batch has a smallest size, so that few images make few steps.
Each smallest size is fitted to the same rows of each data set in FOLDER (``NAME.npz``, as for ``python -m
paper``). The criterion needs no labels: how often a new labelled positive scores above a new unlabeled row.
The AUC with true labels is shown beside it. The size is chosen for each data set by the others.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from drpu import NetworkRatio
from drpu.exceptions import DRPUWarning
from paper.configs import DATASETS
from paper.image_sets import load_image_set

SIZES = (16, 32, 64, 100)
UNLABELED = (500, 1000, 3000)
NEW = 500, 1500  # labelled and unlabeled rows for the criterion
CHANGES = {"mnist": "affine", "fashion_mnist": "shift-flip", "cifar10": "crop-flip"}


def one(name: str, n: int, seed: int, data: str) -> dict[str, dict[str, float]]:
    """Criterion, AUC with labels and seconds of every smallest size, on the same rows."""
    found = load_image_set(name, data_dir=data)
    rng = np.random.default_rng([seed, n])
    images = np.moveaxis(found.x_train, -1, 1) if found.x_train.ndim == 4 else found.x_train
    positive = np.isin(found.y_train, DATASETS[name].positive)
    labelled = rng.choice(np.flatnonzero(positive), n // 5 + NEW[0], replace=False)
    others = rng.permutation(np.setdiff1d(np.arange(len(images)), labelled))
    train, new = others[:n], others[n : n + NEW[1]]
    result = {}
    for size in SIZES:
        learner = NetworkRatio(
            network="resnet9",
            effort="low",
            hidden=(8,),
            augment=CHANGES[name],
            device="cpu",
            random_state=seed,
        )
        start = time.process_time()
        with patch("drpu.networks.fit.SMALL_BATCH", size):
            model = learner.fit_ratio(images[labelled[NEW[0] :]], images[train])
        seconds = time.process_time() - start
        p, u = (model.fast_score(images[rows]) for rows in (labelled[: NEW[0]], new))
        sample = np.repeat([1, 0], [len(p), len(u)])
        result[str(size)] = {
            "criterion": float(roc_auc_score(sample, np.concatenate([p, u]))),
            "auc": float(roc_auc_score(positive[new], u)),
            "seconds": round(seconds, 1),
        }
    return result


def chosen_without(cells: list[dict[str, Any]], name: str) -> str:
    """The size with the highest mean criterion on the other data sets."""
    rest = [cell["sizes"] for cell in cells if cell["set"] != name]
    return max(map(str, SIZES), key=lambda size: float(np.mean([each[size]["criterion"] for each in rest])))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", required=True, help="folder with NAME.npz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sets = [name for name in CHANGES if (Path(given.data) / f"{name}.npz").is_file()]
    cells: list[dict[str, Any]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        for seed in range(given.seeds):
            for name in sets:
                for n in UNLABELED:
                    sizes = one(name, n, seed, given.data)
                    cells.append({"set": name, "unlabeled": n, "seed": seed, "sizes": sizes})
                    print(cells[-1], flush=True)
    means = {
        part: {str(s): float(np.mean([cell["sizes"][str(s)][part] for cell in cells])) for s in SIZES}
        for part in ("criterion", "auc", "seconds")
    }
    chosen = {name: chosen_without(cells, name) for name in sets}
    print(means, chosen)
    if not given.dry:
        command = f"python -m benchmarks.small_images --data FOLDER --seeds {given.seeds}"
        write_results("small_images", command, means=means, chosen_by_the_others=chosen, cells=cells)


if __name__ == "__main__":
    main()
