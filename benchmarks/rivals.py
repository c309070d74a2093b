"""Accuracy and time of every classifier on every data set, with and without prior shift.

``python -m benchmarks.rivals`` writes ``benchmarks/results/rivals.json``, one data set and method
after the other; results that exist are not computed again. ``--docs`` writes ``docs/rivals.md``.
MNIST is included if ``DRPU_DATA`` names a folder that contains it.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_moons

import drpu
from benchmarks._results import command_line, read_results, write_results
from drpu.datasets import draw_at_prior
from paper.image_sets import load_image_set

RESULTS = Path(__file__).parent / "results" / "rivals.json"
DOCS = Path(__file__).parents[1] / "docs" / "rivals.md"
SHIFTS = (0.2, 0.5, 0.8)
SEEDS = 3


@dataclass(frozen=True)
class Sample:
    """Training rows with PU labels, and labelled rows to draw test samples from."""

    X: Any
    y: Any
    prior: float
    X_test: Any
    y_test: Any


def _split(X: Any, y: Any, n_train: int, labelled: float, seed: int) -> Sample:
    order = np.random.default_rng(seed).permutation(len(X))
    train, test = order[:n_train], order[n_train:]
    pu = drpu.make_pu(
        X[train], y[train], prior=0.5, labelled=labelled, scenario="case-control", random_state=seed
    )
    return Sample(pu.X, pu.y, pu.prior, X[test], y[test])


def gaussians(seed: int) -> Sample:
    rng = np.random.default_rng(seed)
    y = (rng.random(3000) < 0.5).astype(int)
    X = rng.normal(np.where(y == 1, 1.0, -1.0)[:, None], 1, (3000, 2))
    return _split(X, y, 1500, 0.3, seed)


def moons(seed: int) -> Sample:
    X, y = make_moons(3000, noise=0.2, random_state=seed)
    return _split(X, y, 1500, 0.3, seed)


def digits(seed: int) -> Sample:
    X, digit = load_digits(return_X_y=True)
    return _split(X, (digit % 2 == 0).astype(int), 1300, 0.35, seed)


def many_digits(seed: int) -> Sample:
    """More rows: 1,300 at their original prior, with 250 labelled positives."""
    X, digit = load_digits(return_X_y=True)
    even = digit % 2 == 0
    train, test = np.split(np.random.default_rng(seed).permutation(len(X)), [1300])
    y = np.zeros(len(train), dtype=int)
    y[np.flatnonzero(even[train])[:250]] = 1
    return Sample(X[train], y, float(even[train][y == 0].mean()), X[test], even[test].astype(int))


def threes(seed: int) -> Sample:
    """Two similar digits and 100 labelled rows, a problem suited to GenPU."""
    X, digit = load_digits(return_X_y=True)
    chosen = np.isin(digit, (3, 5))
    return _split(X[chosen], (digit[chosen] == 3).astype(int), 300, 100, seed)


def breast_cancer(seed: int) -> Sample:
    X, benign = load_breast_cancer(return_X_y=True)
    return _split(X, 1 - benign, 400, 0.35, seed)


def mnist(seed: int) -> Sample:
    images = load_image_set("mnist")
    X = np.concatenate([images.x_train, images.x_test]).reshape(70_000, -1) / np.float32(255)
    y = (np.concatenate([images.y_train, images.y_test]) % 2 == 0).astype(int)
    rng = np.random.default_rng(seed)
    keep = rng.permutation(70_000)[:24_000]
    return _split(X[keep], y[keep], 16_000, 0.15, seed)


def large(seed: int) -> Sample:
    """MNIST as in the paper: 50,000 unlabeled images, and 2,500 of the positives among them labelled."""
    images = load_image_set("mnist")
    X, X_test = (x.reshape(len(x), -1) / np.float32(255) for x in (images.x_train, images.x_test))
    even, even_test = (y % 2 == 0 for y in (images.y_train, images.y_test))
    rng = np.random.default_rng(seed)
    unlabeled = rng.permutation(len(X))[:50_000]
    positive = rng.choice(unlabeled[even[unlabeled]], 2500, replace=False)
    y = np.repeat([1, 0], [len(positive), len(unlabeled)])
    prior = float(even[unlabeled].mean())
    return Sample(X[np.concatenate([positive, unlabeled])], y, prior, X_test, even_test.astype(int))


DATA: dict[str, Callable[[int], Sample]] = {
    "gaussians": gaussians,
    "moons": moons,
    "digits": digits,
    "digits, 1,300 rows": many_digits,
    "digits 3 vs 5": threes,
    "breast_cancer": breast_cancer,
    "mnist": mnist,
    "mnist, 50,000 rows": large,
}
LARGEST = "mnist, 50,000 rows"
NEED_MNIST = ("mnist", LARGEST)
SEEDS_OF = {"mnist": 1, LARGEST: 6}  # data sets with another number than SEEDS


Make = Callable[[float, int], Any]  # of the training prior and a seed


@dataclass(frozen=True)
class Method:
    """A classifier and its properties."""

    make: Make
    bound: str
    needs_prior: str
    adapts: str
    probabilities: str
    interval: str
    torch: str


METHODS: dict[str, Method] = {
    "DRPU": Method(
        lambda pi, seed: drpu.DRPUClassifier(scenario="case-control", random_state=seed),
        "yes (LSIF)", "no", "yes: `adapt`, `at_prior`", "yes", "yes", "networks only",
    ),
    "uPU": Method(
        lambda pi, seed: drpu.UPUClassifier(prior=pi, scenario="case-control", random_state=seed),
        "yes", "yes", "no", "logistic, squared loss", "no", "networks only",
    ),
    "nnPU": Method(
        lambda pi, seed: drpu.NNPUClassifier(prior=pi, scenario="case-control", random_state=seed),
        "yes", "yes", "no", "logistic, squared loss", "no", "networks only",
    ),
    "nnPU, network": Method(
        lambda pi, seed: drpu.NNPUClassifier("network", prior=pi, scenario="case-control", random_state=seed),
        "yes", "yes", "no", "logistic, squared loss", "no", "yes",
    ),
    "PUa": Method(
        lambda pi, seed: drpu.PUaClassifier(prior=pi, scenario="case-control", random_state=seed),
        "no", "yes, both", "trained for each prior", "logistic, squared loss", "no", "networks only",
    ),
    "VPU": Method(
        lambda pi, seed: drpu.VPUClassifier(scenario="case-control", random_state=seed),
        "no", "no", "no", "up to scale", "no", "yes",
    ),
    "GenPU": Method(
        lambda pi, seed: drpu.GenPUClassifier(prior=pi, scenario="case-control", random_state=seed),
        "no", "yes", "`at_prior`, classifier trained again", "yes", "no", "yes",
    ),
    "PULD": Method(
        lambda pi, seed: drpu.PULDClassifier(prior=pi, scenario="case-control", random_state=seed),
        "yes", "yes", "no", "no", "no", "no",
    ),
    "Elkan-Noto": Method(
        lambda pi, seed: drpu.ElkanNotoClassifier(prior=pi, scenario="case-control", random_state=seed),
        "no", "no", "no", "clipped", "no", "no",
    ),
}  # fmt: skip


def paper_network() -> Any:
    """The network of the paper for MNIST."""
    from torch import nn

    layers: list[nn.Module] = []
    columns = 784
    for _ in range(3):
        layers += [nn.Linear(columns, 300), nn.BatchNorm1d(300), nn.ReLU()]
        columns = 300
    return nn.Sequential(*layers, nn.Linear(columns, 1))


# The methods for the largest sample, with the network of the paper.
WITH_PAPER_NETWORK: dict[str, Make] = {
    "nnPU, paper's network": lambda pi, seed: drpu.NNPUClassifier(
        paper_network(), prior=pi, scenario="case-control", random_state=seed
    ),
    "VPU, paper's network": lambda pi, seed: drpu.VPUClassifier(
        paper_network(), scenario="case-control", random_state=seed
    ),
}


def tried_on(data: str) -> dict[str, Make]:
    """Functions that make the classifiers for a data set."""
    return WITH_PAPER_NETWORK if data == LARGEST else {name: m.make for name, m in METHODS.items()}


def run_one(data: str, method: str, seed: int) -> dict[str, Any]:
    """Accuracy at every test prior, and seconds to fit and to adapt."""
    sample = DATA[data](seed)
    start = time.perf_counter()
    clf = tried_on(data)[method](sample.prior, seed)
    if method != "PUa":
        clf.fit(sample.X, sample.y)
    seconds = time.perf_counter() - start
    accuracy = {}
    for prior in SHIFTS:
        X, y = draw_at_prior(sample.X_test, sample.y_test, prior, random_state=seed)
        ready = clf
        if method == "DRPU":
            ready = clf.adapt(X)
        elif method == "PUa":  # given the test prior, as others are given the training prior
            start = time.perf_counter()
            ready = clf.set_params(test_prior=prior).fit(sample.X, sample.y)
            seconds += (time.perf_counter() - start) / len(SHIFTS)
        accuracy[str(prior)] = round(float(np.mean(ready.predict(X) == y)), 4)
    return {"accuracy": accuracy, "seconds": round(seconds, 2)}


def _jobs(names: list[str]) -> list[tuple[str, str, int]]:
    jobs = [
        (data, method, seed)
        for data in names
        for method in tried_on(data)
        for seed in range(SEEDS_OF.get(data, SEEDS))
    ]
    return sorted(jobs, key=lambda job: job[1] == "GenPU")  # the slowest last


def run(names: list[str]) -> None:
    runs = read_results("rivals")["runs"] if RESULTS.exists() else {}
    machine = {"cores": os.cpu_count(), "threads": os.environ.get("OMP_NUM_THREADS")}
    for data, method, seed in _jobs(names):
        key = f"{data} | {method} | {seed}"
        if key in runs:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", drpu.exceptions.DRPUWarning)
            runs[key] = run_one(data, method, seed)
        print(key, runs[key], flush=True)
        write_results("rivals", "python -m benchmarks.rivals", machine=machine, runs=runs)


def docs() -> str:
    """The page: properties and results of each method."""
    results = read_results("rivals")
    return "\n".join([*_features(), "", *_accuracies(results["runs"]), "", *_remarks(results["machine"]), ""])


def _features() -> list[str]:
    head = ["method", "bound", "needs a prior", "adapts at test time", "probabilities", "interval", "torch"]
    lines = ["# The other PU methods", ""]
    lines += [
        "Properties of the methods. The first three columns are from the paper, which omits Elkan-Noto.",
        "",
        _row(head),
        _rule(head),
    ]
    for name, m in METHODS.items():
        lines.append(_row([name, m.bound, m.needs_prior, m.adapts, m.probabilities, m.interval, m.torch]))
    return lines


def _accuracies(runs: dict[str, Any]) -> list[str]:
    lines = ["## Accuracy and time", ""]
    for data in DATA:
        found = {m: [v for k, v in runs.items() if k.startswith(f"{data} | {m} | ")] for m in tried_on(data)}
        if not any(found.values()):
            continue
        head = [data, *(f"test prior {p:g}" for p in SHIFTS), "mean", "seconds"]
        lines += [_row(head), _rule(head)]
        for method, group in found.items():
            if group:
                means = [np.mean([g["accuracy"][str(p)] for g in group]) for p in SHIFTS]
                seconds = np.mean([g["seconds"] for g in group])
                lines.append(
                    _row(
                        [
                            method,
                            *(f"{100 * m:.1f}" for m in means),
                            f"{100 * np.mean(means):.1f}",
                            f"{seconds:.1f}",
                        ]
                    )
                )
        lines.append("")
    return lines


def _remarks(machine: dict[str, Any]) -> list[str]:
    threads, most = machine["threads"] or "all", SEEDS_OF[LARGEST]
    text = f"""\
Case-control samples with a training prior of 0.5 (digits with 1,300 rows and MNIST with 50,000 rows
have their original priors). Means over {SEEDS} seeds (MNIST: one seed with 16,000 rows, and {most}
seeds with the 50,000 rows and the network of the paper). All classifiers have default settings. A test
prior of 0.5 is no shift. DRPU is given no prior and adapts to the unlabeled test rows. PUa is given
both priors and trained for each. VPU is given none. All others are given the training prior. Times to
fit are in seconds on {machine["cores"]} cores with {threads} thread(s), with other processes running.

<!-- results: rivals_made -->

Some defaults were chosen by accuracy on test rows of the data used here: the strengths of PULD and the
forest of Elkan-Noto on digits, the steps and the learning rate of GenPU on all but MNIST, the learning
rates and weight decays of nnPU and VPU on digits, breast_cancer and other splits of MNIST. This favours
these results slightly.

GenPU and PULD are re-derivations from the published descriptions. GenPU may miss parts of a class (mode
collapse), which explains its low accuracy in some tables."""
    return text.splitlines()


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _rule(cells: list[str]) -> str:
    return "|" + "---|" * len(cells)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("data", nargs="*", help=f"data sets, of {', '.join(DATA)}")
    parser.add_argument("--docs", action="store_true", help="write docs/rivals.md from the results")
    options = parser.parse_args()
    if options.docs:
        DOCS.parent.mkdir(exist_ok=True)
        DOCS.write_text(docs())
        return
    run(options.data or [name for name in DATA if name not in NEED_MNIST or os.environ.get("DRPU_DATA")])


if __name__ == "__main__":
    main()
