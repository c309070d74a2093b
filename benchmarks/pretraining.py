"""Ranking of small residual networks after training without labels, by the number of labelled positives.

    python -m benchmarks.pretraining [--seeds 4]

Area under the ROC curve on held-out images of ``NetworkRatio(network="resnet9", effort="low")`` with eight
channels, on a CPU, without and with ``pretrain``. The images are scikit-learn's digits of eight by eight
pixels, of which 1,200 are for training, with two choices of positive classes.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from benchmarks._results import command_line, write_results
from drpu import NetworkRatio

EPOCHS = (0, 5, 20, 60)
TRAINING = 1200
POSITIVE = {"even digits": (0, 2, 4, 6, 8), "digits below 5": (0, 1, 2, 3, 4)}
LABELLED = (50, 250)


def fitted(name: str, labelled: int, seed: int, epochs: int) -> tuple[float, float]:
    """Area under the ROC curve of a fit, and its seconds."""
    torch.set_num_threads(1)
    digits = load_digits()
    images, positive = (15 * digits.images).astype(np.uint8), np.isin(digits.target, POSITIVE[name])
    rng = np.random.default_rng(seed)
    train, rest = np.split(rng.permutation(len(images)), [TRAINING])
    known = rng.choice(train[positive[train]], labelled, replace=False)
    learner = NetworkRatio(
        network="resnet9", effort="low", hidden=(8,), batch_size=32, augment="shift", pretrain=epochs,
        device="cpu", random_state=seed,
    )  # fmt: skip
    start = time.perf_counter()
    ratio = learner.fit_ratio(images[known], images[np.setdiff1d(train, known)])
    took = time.perf_counter() - start
    return float(roc_auc_score(positive[rest], ratio.log_ratio(images[rest]))), took


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_args()
    cases = [(name, labelled) for name in POSITIVE for labelled in LABELLED]
    fits = [(*case, seed, n) for case in cases for seed in range(options.seeds) for n in EPOCHS]
    found = Parallel(n_jobs=2, verbose=1)(delayed(fitted)(*one) for one in fits)
    shape = len(cases), options.seeds, len(EPOCHS)
    aucs, seconds = (np.reshape([one[i] for one in found], shape) for i in range(2))
    rows = []
    for (name, labelled), own in zip(cases, aucs, strict=True):
        gains = own - own[:, :1]
        errors = gains.std(axis=0, ddof=1) / np.sqrt(options.seeds)
        row = {"positive": name, "labelled": labelled, "aucs": own.tolist()}
        row |= {"mean": own.mean(axis=0).tolist(), "gain_standard_error": errors.tolist()}
        print(row, flush=True)
        rows.append(row)
    times = seconds.mean(axis=(0, 1))
    command = f"python -m benchmarks.pretraining --seeds {options.seeds}"
    relative = (times / times[0]).tolist()
    print("wrote", write_results("pretraining", command, epochs=EPOCHS, relative_time=relative, rows=rows))


if __name__ == "__main__":
    main()
