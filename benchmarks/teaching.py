"""Ranking of networks without and with teachers, by the number of labelled positives.

    python -m benchmarks.teaching [--seeds 8]

Area under the ROC curve on held-out rows, of ``NetworkRatio`` with default settings and with five
teachers, on the same rows with the same seeds. Digits (even or odd) and breast_cancer are standardised,
the normals have twenty columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from benchmarks._results import command_line, write_results
from benchmarks.shift import load
from drpu import NetworkRatio, make_gaussian_pu, make_pu

TEACHERS = (0, 5)
CASES = (
    ("digits", 50),
    ("digits", 200),
    ("breast_cancer", 30),
    ("breast_cancer", 60),
    ("normals", 50),
    ("normals", 200),
)


def draw(name: str, labelled: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Labelled and unlabeled training rows, and test rows with their classes."""
    if name == "normals":
        data = make_gaussian_pu(
            labelled,
            1000,
            prior=0.4,
            test_prior=0.4,
            n_test=2000,
            separation=2.5,
            dimensions=20,
            random_state=seed,
        )
        return data.positive, data.unlabeled, data.test, data.test_labels
    X, y = load(name)
    X = StandardScaler().fit_transform(X)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    train = make_pu(
        X_train, y_train, prior=0.5, labelled=labelled, scenario="single-sample", random_state=seed
    )
    return train.X[train.y == 1], train.X[train.y == 0], X_test, y_test


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    options = parser.parse_args()
    rows = []
    for name, labelled in CASES:
        aucs = []
        for seed in range(options.seeds):
            positive, unlabeled, X, y = draw(name, labelled, seed)
            models = [NetworkRatio(teachers=n, random_state=seed, device="cpu") for n in TEACHERS]
            aucs.append([roc_auc_score(y, m.fit_ratio(positive, unlabeled).log_ratio(X)) for m in models])
        gains = np.diff(aucs, axis=1)[:, 0]
        row = {
            "data": name,
            "labelled": labelled,
            "alone": float(np.mean(aucs, axis=0)[0]),
            "taught": float(np.mean(aucs, axis=0)[1]),
            "gain_standard_error": float(gains.std(ddof=1) / np.sqrt(options.seeds)),
            "aucs": aucs,
        }
        print({key: value for key, value in row.items() if key != "aucs"}, flush=True)
        rows.append(row)
    command = f"python -m benchmarks.teaching --seeds {options.seeds}"
    print("wrote", write_results("teaching", command, teachers=TEACHERS[1], rows=rows))


if __name__ == "__main__":
    main()
