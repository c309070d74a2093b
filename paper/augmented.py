"""Flavours with augmented images: candidates, the choice among them, and the fit of each trial.

``ours-augmented`` keeps the networks of the paper. ``beyond`` uses the residual network of the library. Both
have the same rows, labels and test sets as the other flavours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from drpu import NetworkRatio
from drpu.networks.function import NetworkFunction
from paper.compare import JUDGES, judged_risk, judges
from paper.configs import CANDIDATES, FEW, Benchmark, Recipe, benchmark, case_of, recipe
from paper.networks import make_network, residual_network
from paper.splits import Images, Split, is_reduced, load_images, no_shift, split
from paper.store import RESULTS

if TYPE_CHECKING:
    from paper.run import Job, Options

__all__ = ["CHOICE", "FIRST", "choose_candidate", "chosen_recipe", "compare_candidates", "run_job"]

CHOICE = "augmented.json"
FIRST = 100  # first trial used to choose; the tables use the trials 0 to 9

Risks = dict[str, dict[str, dict[str, list[float]]]]  # by flavour, case and candidate, one per trial


def run_job(job: Job, images: Images, splits: Sequence[Split], options: Options) -> None:
    """Fit and score one model for each trial; each result is written before the next trial starts."""
    from paper.run import finish

    for trial, part in zip(job.trials, splits, strict=True):
        start = time.perf_counter()
        model = fit(job.data, job.recipe, images, part, trial, options)
        seconds = time.perf_counter() - start
        own = replace(job, trials=(trial,))
        content = {"best_epoch": model.best_epoch, "alpha": model.alpha}
        finish(own, trial, images, part, model, seconds, content, options)


def fit(
    data: Benchmark, made: Recipe, images: Images, part: Split, seed: int, options: Options
) -> NetworkFunction:
    """The model of one trial."""
    from paper.run import network_options

    settings = network_options(made, options) | {"device": options.device, "verbose": options.verbose}
    rows = [images.train[index] for index in (*part.positive, *part.unlabeled)]
    if settings.pop("network", None) == "resnet9":
        module = residual_network(rows[2], settings.pop("hidden")[0])
    else:
        module = make_network(data.network)
    learner = NetworkRatio(module, random_state=seed, **settings)
    found = learner.fit_ratio(rows[0], rows[2], holdout=(rows[1], rows[3]))
    assert isinstance(found, NetworkFunction)
    return found


def chosen_recipe(flavour: str, data: Benchmark, folder: Path, experiment: str = "benchmark") -> Recipe:
    """The recipe of the candidate with the lowest risk in the file in ``folder``, or else in ours."""
    case = case_of(experiment, data.name)
    risks: dict[str, list[float]] = {}
    for place in (folder, RESULTS):
        if not risks and (place / CHOICE).is_file():
            risks = json.loads((place / CHOICE).read_text()).get(flavour, {}).get(case, {})
    return recipe(flavour, "drpu", data, choose_candidate(risks) if risks else None, case)


def choose_candidate(risks: dict[str, list[float]]) -> str:
    """The candidate with the lowest mean risk."""
    return min(risks, key=lambda name: float(np.mean(risks[name])))


def compare_candidates(
    flavours: Sequence[str],
    datasets: Sequence[str],
    trials: int,
    options: Options,
    experiment: str = "benchmark",
) -> None:
    """Fit every candidate in trials that no table has, and write its risk on rows kept out of the trial."""
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / CHOICE
    found: Risks = json.loads(path.read_text()) if path.is_file() else {}
    for dataset in datasets:
        data = benchmark(dataset, reduced=is_reduced(dataset, options.data))
        images: Images | None = None
        for flavour in flavours:
            case = case_of(experiment, dataset)
            risks = found.setdefault(flavour, {}).setdefault(case, {})
            for name in CANDIDATES[flavour][case]:
                while len(risks.setdefault(name, [])) < trials:
                    images = images or load_images(data, options.data, as_bytes=True)
                    made = recipe(flavour, "drpu", data, name, case)
                    seed = FIRST + len(risks[name])
                    risks[name].append(_risk(data, made, images, seed, options, experiment))
                    path.write_text(json.dumps(found, indent=1) + "\n")
            print(f"{flavour} {case}: {choose_candidate(risks)}", flush=True)


def _risk(
    data: Benchmark, made: Recipe, images: Images, seed: int, options: Options, experiment: str
) -> float:
    """Risk of a candidate on a tenth of the unlabeled training rows, which it does not see."""
    judging = data.n_unlabeled[0] // JUDGES
    fewer = replace(data, n_unlabeled=(data.n_unlabeled[0] - judging, data.n_unlabeled[1]))
    few = experiment == "no_shift"
    part = no_shift(fewer, images, seed, FEW) if few else split(fewer, images, seed)
    start = time.perf_counter()
    model = fit(fewer, made, images, part, seed, options)
    rest, positive = judges(data, images, part.unlabeled)
    p, u, scores = (
        model.fast_score(images.train[index]) for index in (part.positive[1], part.unlabeled[1], rest)
    )
    risk = round(judged_risk((p, u), scores, positive), 6)
    took = time.perf_counter() - start
    if options.keep_scores is not None:
        case = case_of(experiment, data.name)
        name = f"{case}-{made.flavour}-{made.strategy.replace(' ', '_')}-{seed}.npz"
        path = options.keep_scores / "choice" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, held_positive=p, held_unlabeled=u, judges=scores, labels=positive)
    what = f"{experiment} {data.name} {made.flavour} {seed}"
    print(f"{what} {risk:.5f} {took:.1f} s {made.strategy}", file=sys.stderr, flush=True)
    return risk
