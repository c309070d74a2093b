"""Published numbers: those of the paper, as fractions, and those of others on CIFAR-10 without shift."""

from __future__ import annotations

from typing import NamedTuple

from paper.configs import TEST_PRIORS

__all__ = ["ACCURACY", "AUC", "NO_SHIFT", "NO_SHIFT_SOURCES", "N_TRIALS", "PRIOR_ERROR", "Published"]

N_TRIALS = 10
_DRPU_LAST = ("nnpu", "pua", "vpu", "drpu")

Cell = tuple[float, float]


def _table(rows: dict[str, list[list[float]]], scale: float = 100) -> dict[tuple[str, float, str], Cell]:
    """(data set, test prior, method) to (mean, standard deviation)."""
    return {
        (dataset, prior, method): (round(line[2 * i] / scale, 6), round(line[2 * i + 1] / scale, 6))
        for dataset, lines in rows.items()
        for prior, line in zip(TEST_PRIORS, lines, strict=True)
        for i, method in enumerate(_DRPU_LAST)
    }


ACCURACY = _table(
    {
        "mnist": [
            [92.98, 1.72, 93.11, 1.51, 96.21, 0.20, 95.78, 0.54],
            [93.76, 1.02, 93.70, 0.94, 94.93, 0.51, 94.85, 0.58],
            [94.52, 0.31, 94.79, 0.48, 93.71, 0.89, 94.67, 0.46],
            [95.23, 0.76, 95.28, 0.90, 92.43, 1.39, 95.91, 0.48],
        ],
        "fashion_mnist": [
            [91.67, 0.97, 91.05, 0.61, 89.22, 1.13, 91.59, 0.57],
            [88.95, 1.22, 87.89, 1.10, 90.11, 0.51, 90.42, 0.92],
            [86.26, 1.50, 86.07, 1.35, 90.80, 0.48, 90.46, 0.72],
            [83.26, 2.29, 84.39, 2.27, 91.70, 0.98, 92.97, 0.58],
        ],
        "kmnist": [
            [81.88, 2.52, 82.81, 2.99, 85.78, 2.81, 91.41, 0.56],
            [85.18, 1.64, 85.11, 2.12, 85.93, 1.77, 88.62, 0.52],
            [88.35, 0.95, 87.87, 0.94, 86.11, 1.36, 88.22, 0.67],
            [91.28, 0.53, 90.67, 1.73, 86.10, 2.09, 91.32, 0.62],
        ],
        "cifar10": [
            [80.32, 1.55, 80.33, 2.34, 91.94, 0.67, 91.59, 0.37],
            [84.38, 1.15, 84.03, 1.59, 89.00, 1.21, 88.67, 0.56],
            [88.16, 0.54, 88.05, 0.95, 85.99, 2.45, 89.22, 0.56],
            [92.28, 0.51, 92.21, 0.41, 82.92, 3.92, 92.45, 0.35],
        ],
    }
)

# At a test prior of .6, as in the paper.
AUC: dict[tuple[str, str], Cell] = {
    (dataset, method): (line[2 * i], line[2 * i + 1])
    for dataset, line in {
        "mnist": [0.9855, 0.0022, 0.9861, 0.0024, 0.9902, 0.0010, 0.9815, 0.0023],
        "fashion_mnist": [0.9371, 0.0129, 0.9359, 0.0065, 0.9656, 0.0032, 0.9607, 0.0055],
        "kmnist": [0.9505, 0.0050, 0.9485, 0.0044, 0.9347, 0.0129, 0.9507, 0.0033],
        "cifar10": [0.9509, 0.0062, 0.9512, 0.0071, 0.9594, 0.0024, 0.9577, 0.0028],
    }.items()
    for i, method in enumerate(_DRPU_LAST)
}

PRIOR_ERROR: dict[tuple[str, float, str], Cell] = {
    (dataset, prior, method): (line[2 * i], line[2 * i + 1])
    for dataset, lines in {
        "mnist": [
            [0.0679, 0.0147, 0.0101, 0.0128],
            [0.0410, 0.0169, 0.0279, 0.0265],
            [0.0209, 0.0110, 0.0361, 0.0372],
            [0.2885, 0.0560, 0.0485, 0.0429],
        ],
        "fashion_mnist": [
            [0.0133, 0.0105, 0.0230, 0.0120],
            [0.0170, 0.0151, 0.0181, 0.0115],
            [0.0843, 0.0297, 0.0183, 0.0148],
            [0.2534, 0.0340, 0.0249, 0.0231],
        ],
        "kmnist": [
            [0.0326, 0.0155, 0.0220, 0.0130],
            [0.1029, 0.0201, 0.0704, 0.0211],
            [0.2685, 0.0246, 0.1088, 0.0310],
            [0.4869, 0.0361, 0.1496, 0.0394],
        ],
        "cifar10": [
            [0.1880, 0.0097, 0.0151, 0.0112],
            [0.1399, 0.0163, 0.0189, 0.0142],
            [0.0738, 0.0167, 0.0305, 0.0184],
            [0.1242, 0.0784, 0.0397, 0.0322],
        ],
    }.items()
    for prior, line in zip(TEST_PRIORS, lines, strict=True)
    for i, method in enumerate(("km2", "drpu"))
}


class Published(NamedTuple):
    """One accuracy on CIFAR-10 without shift, in percent, and what its method is given besides the rows."""

    method: str
    network: str
    labels: str
    told: str
    accuracy: float
    source: str


_NCPU, _BENCH = ("ResNet-18", "1,000"), ("see the source", "10 % of the positives")
NO_SHIFT = [
    Published("Dist-PU", *_NCPU, "prior", 85.29, "1"),
    Published("nnPU", *_NCPU, "prior", 87.29, "1"),
    Published("WSC", *_NCPU, "prior", 90.55, "1"),
    Published("LaGAM", *_NCPU, "some negatives", 95.78, "1"),
    Published("NcPU", *_NCPU, "nothing", 97.36, "1"),
    Published("supervised", *_NCPU, "all labels", 96.96, "1"),
    Published("nnPU", *_BENCH, "prior", 85.30, "2"),
    Published("LaGAM", *_BENCH, "prior", 86.22, "2"),
    Published("P3Mix-C", *_BENCH, "prior", 87.65, "2"),
    Published("Dist-PU", *_BENCH, "prior", 88.09, "2"),
    Published("supervised", *_BENCH, "all labels", 94.88, "2"),
]
NO_SHIFT_SOURCES = {
    "1": "Zhao et al., *Noisy-Pair Robust Representation Alignment for Positive-Unlabeled Learning*, "
    "ICLR 2026, [arXiv 2510.01278](https://arxiv.org/abs/2510.01278), with 40,000 unlabeled rows.",
    "2": "*PU-Bench: A Unified Benchmark for Rigorous and Reproducible PU Learning*, ICLR 2026, "
    "[OpenReview](https://openreview.net/forum?id=tb8DabMbMq).",
}
