"""Comparison of our strategies on rows not used otherwise, in trials that are not in the tables."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from drpu import ScoreTails
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DRPUWarning
from drpu.networks.function import NetworkFunction
from drpu.priors.calibration import calibrate
from paper.configs import Benchmark, benchmark, recipe
from paper.evaluate import Floats, mean_ratio
from paper.run import Options, network_options
from paper.select import FIRST, choose
from paper.splits import Images, is_reduced, load_images, split
from paper.strategies import STRATEGIES, TrialGroup

__all__ = ["JUDGES", "best_strategy", "compare", "judged_risk", "judges"]

TRIALS = {"mlp": 6, "lenet": 2, "cifar": 1}
JUDGES = 10  # one unlabeled training row in ten is kept for the comparison


def compare(datasets: Sequence[str], options: Options) -> None:
    """Train every strategy, write the risks of each trial, and print the best one for all data sets."""
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "strategies.json"
    found: dict[str, dict[str, list[float]]] = json.loads(path.read_text()) if path.is_file() else {}
    for dataset in datasets:
        if dataset not in found:
            start = time.perf_counter()
            found[dataset] = _risks(dataset, options)
            path.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{dataset}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
        for name, risks in found[dataset].items():
            print(f"  {np.mean(risks):.5f} {name}", file=sys.stderr, flush=True)
    print(best_strategy(found))


def best_strategy(found: dict[str, dict[str, list[float]]]) -> str:
    """The strategy whose mean risk is closest to the best one, on average over the data sets."""
    return choose({d: {name: float(np.mean(r)) for name, r in risks.items()} for d, risks in found.items()})


def _risks(dataset: str, options: Options) -> dict[str, list[float]]:
    """Risks by strategy, one for each trial."""
    data = benchmark(dataset, reduced=is_reduced(dataset, options.data))
    images = load_images(data, options.data)
    judging = data.n_unlabeled[0] // JUDGES
    fewer = replace(data, n_unlabeled=(data.n_unlabeled[0] - judging, data.n_unlabeled[1]))
    seeds = [FIRST + i for i in range(TRIALS[data.network])]
    splits = [split(fewer, images, seed) for seed in seeds]
    settings = network_options(recipe("ours", "drpu", data), options)
    group = TrialGroup(data.network, images, splits, seeds, settings | {"device": options.device})
    rates = sorted({rate for strategy in STRATEGIES.values() for rate in strategy.rates})
    first = group.first(rates)
    models = {
        name: [one.teachers(networks)[0] for networks in first]
        for name, one in STRATEGIES.items()
        if one.teacher is None
    }
    taught = [(name, one) for name, one in STRATEGIES.items() if one.teacher is not None]
    students = group.students(
        [i for _ in taught for i in range(len(seeds))],
        [one.teachers(first[i]) for _, one in taught for i in range(len(seeds))],
        [one.weights for _, one in taught for _ in seeds],
    )
    for n, (name, _) in enumerate(taught):
        models[name] = students[n * len(seeds) : (n + 1) * len(seeds)]
    return {
        name: [
            _judged(model, data, images, group.held[i], splits[i].unlabeled) for i, model in enumerate(own)
        ]
        for name, own in models.items()
    }


def _judged(
    model: NetworkFunction,
    data: Benchmark,
    images: Images,
    held: tuple[Any, Any],
    used: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
) -> float:
    """Risk of a model on the rows that are in no sample, with the true positives among them as positives."""
    rest, positive = judges(data, images, used)
    held_scores = model.log_ratio(held[0]), model.log_ratio(held[1])
    return judged_risk(held_scores, model.log_ratio(images.train[rest]), positive)


def judges(
    data: Benchmark, images: Images, used: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Training images that are in no sample, and which of them are positive."""
    rest = np.setdiff1d(np.arange(len(images.train)), np.concatenate(used))
    return rest, np.isin(images.train_classes[rest], data.positive)


def judged_risk(held: tuple[Floats, Floats], scores: Floats, positive: npt.NDArray[np.bool_]) -> float:
    """LSIF risk, on the rows kept for the comparison, of the ratio calibrated on holdout rows.

    ``scores`` have a column for each fold if there are several.
    """
    tails = ScoreTails(held[0]).update(held[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        ratio = mean_ratio(calibrate(tails, prior_from_tails(tails).value), scores.reshape(len(scores), -1))
    return float((ratio**2).mean() / 2 - ratio[positive].mean())
