"""The runner: finds the results that are missing, and trains several trials at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from drpu import NetworkRatio
from drpu.networks.function import NetworkFunction
from paper.configs import (
    AUGMENTED,
    FEW,
    N_POSITIVE,
    RUN,
    TEST_PRIORS,
    Benchmark,
    Recipe,
    benchmark,
    parted,
    recipe,
)
from paper.evaluate import Floats, Outcome, by_ratio
from paper.networks import make_network
from paper.progress import progress
from paper.splits import Images, Split, is_reduced, load_images, no_shift, split
from paper.stacks import Places, Scorer, fit_many
from paper.store import RESULTS, Key, missing, versions, write_result

__all__ = [
    "Job",
    "Options",
    "Watch",
    "conclude",
    "finish",
    "labelled_tests",
    "network_options",
    "outcome_of",
    "plan",
    "record",
    "run",
    "run_job",
    "train",
]

WATCHED = 20  # points of an error curve
LIMIT = 690.0  # largest absolute log-ratio; a ratio of 0 becomes finite and keeps its rank


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run: folders of data and results, device, and changes of the settings."""

    data: str | Path | None = None
    out: Path = RESULTS
    device: str = "auto"
    stack: int = 10
    epochs: int | None = None
    strategy: str | None = None
    candidates: Sequence[str] = ()
    verbose: int = 0
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """Trials of one cell that are trained together."""

    experiment: str
    data: Benchmark
    recipe: Recipe
    trials: tuple[int, ...]
    n_positive: int | None = None

    def key(self, trial: int) -> Key:
        """The key of the result of a trial."""
        d, r = self.data, self.recipe
        return Key(self.experiment, d.name, r.flavour, r.method, trial, d.labels, self.n_positive, d.protocol)

    @property
    def known_prior(self) -> float | None:
        """The prior, if the experiment treats it as known and unchanged; otherwise None."""
        return self.data.prior if self.experiment == "n_positive" else None

    def split(self, images: Images, trial: int) -> Split:
        """The rows of a trial."""
        if self.experiment == "no_shift":
            return no_shift(self.data, images, trial, self.n_positive or FEW)
        priors = TEST_PRIORS if self.known_prior is None else (self.known_prior,)
        return split(self.data, images, trial, n_positive=self.n_positive, priors=priors)


def plan(
    experiments: Sequence[str],
    datasets: Sequence[str],
    flavours: Sequence[str],
    methods: Sequence[str],
    trials: Sequence[int],
    options: Options,
    *,
    labels: str = "shirt",
) -> list[Job]:
    """The jobs that are still to be run."""
    jobs = []
    for experiment in experiments:
        sizes: Sequence[int | None] = {"n_positive": N_POSITIVE, "no_shift": [FEW]}.get(experiment, [None])
        for dataset in datasets:
            data = benchmark(dataset, labels=labels, reduced=is_reduced(dataset, options.data))
            for flavour in flavours:
                for method in methods:
                    if flavour in ("ours", *AUGMENTED) and method != "drpu":
                        continue  # our recipes are for DRPU only
                    made = _recipe(flavour, method, data, options, experiment)
                    if options.strategy and flavour == "ours":
                        made = replace(made, strategy=options.strategy)
                    for size in sizes:
                        job = Job(experiment, data, made, tuple(trials), size)
                        jobs += _missing(job, options)
    return jobs


def _recipe(flavour: str, method: str, data: Benchmark, options: Options, experiment: str) -> Recipe:
    from paper.augmented import chosen_recipe

    if flavour in AUGMENTED:
        return chosen_recipe(flavour, data, options.out, experiment)
    return recipe(flavour, method, data)


def _missing(job: Job, options: Options) -> list[Job]:
    """The trials of a job without a result, ``options.stack`` at a time."""
    left = [key.trial for key in missing([job.key(trial) for trial in job.trials], options.out)]
    stacks = [left[i : i + options.stack] for i in range(0, len(left), options.stack)]
    return [replace(job, trials=tuple(stack)) for stack in stacks]


def run(jobs: Sequence[Job], options: Options) -> None:
    """Run the jobs, and write each result as soon as it is computed."""
    if not jobs:
        print(f"nothing is missing in {options.out}", file=sys.stderr)
        return
    images: tuple[str, Images] | None = None
    for job in progress(jobs, [len(job.trials) for job in jobs], "models"):
        as_bytes = job.recipe.flavour in AUGMENTED
        which = f"{job.data.name} {job.data.protocol} {as_bytes}"
        if images is None or images[0] != which:
            images = which, load_images(job.data, options.data, as_bytes=as_bytes)
        run_job(job, images[1], options)


def run_job(job: Job, images: Images, options: Options) -> None:
    """Train the trials of one job together and write a result for each."""
    from paper import augmented, ours, rivals

    splits = [job.split(images, trial) for trial in job.trials]
    if job.recipe.method != "drpu":
        rivals.run_job(job, images, splits, options)
    elif job.recipe.flavour == "ours":
        ours.run_job(job, images, splits, options)
    elif job.recipe.flavour in AUGMENTED:
        augmented.run_job(job, images, splits, options)
    else:
        _run_published(job, images, splits, options)


def _run_published(job: Job, images: Images, splits: Sequence[Split], options: Options) -> None:
    """Train DRPU in the flavours as-run and as-written."""
    start = time.perf_counter()
    models, watch = train(job, images, splits, options)
    seconds = (time.perf_counter() - start - watch.seconds) / len(splits)
    for trial, part, model, curve in zip(job.trials, splits, models, watch.curves, strict=True):
        content = {"alpha": model.alpha, "learning_rate": job.recipe.options["learning_rate"]}
        content |= {"best_epoch": model.best_epoch, "curve": curve}
        finish(job, trial, images, part, model, seconds, content, options)


def train(
    job: Job, images: Images, splits: Sequence[Split], options: Options
) -> tuple[list[NetworkFunction], Watch]:
    """The trained networks of all trials, and the errors observed during training."""
    settings = network_options(job.recipe, options) | {"device": options.device, "verbose": options.verbose}
    accumulate = settings.pop("accumulate_gradients", False)
    network = make_network(job.data.network, batch_norm=job.recipe.batch_norm)
    settings, of_run = parted(settings, RUN)
    learners = [NetworkRatio(network, random_state=trial, **settings) for trial in job.trials]
    watch = Watch(job, images, splits, max(1, job.data.epochs // WATCHED))
    followed = watch if job.experiment == "benchmark" else None
    places = [Places.of(part) for part in splits]
    models = fit_many(learners, images.train, places, run=of_run, on_epoch=followed, accumulate=accumulate)
    return models, watch


def network_options(made: Recipe, options: Options) -> dict[str, Any]:
    """Options of the network on this device; without a GPU, the precision is float32."""
    import torch

    values = dict(made.options)
    on_cuda = options.device.startswith("cuda") or (options.device == "auto" and torch.cuda.is_available())
    if not on_cuda:
        values["dtype"] = "float32"
    if options.epochs is not None:
        values["epochs"] = options.epochs
        if options.epochs <= values.get("refresh", 0):
            values["refresh"] = 0
    return values


def finish(
    job: Job,
    trial: int,
    images: Images,
    part: Split,
    model: NetworkFunction,
    seconds: float,
    content: dict[str, Any],
    options: Options,
) -> None:
    """Score the rows of a trial with its final network, and write the result."""
    rows = images.train[part.positive[1]], images.train[part.unlabeled[1]], images.test
    *held, scores = (model.log_ratio(each) for each in rows)
    conclude(job, trial, images, part, (held[0], held[1]), scores, seconds, content, options)


def conclude(
    job: Job,
    trial: int,
    images: Images,
    part: Split,
    held: tuple[Floats, Floats],
    scores: Floats,
    seconds: float,
    content: dict[str, Any],
    options: Options,
) -> None:
    """Write the result of a trial, from scores of the held-out rows and of all test images."""
    record(job, trial, outcome_of(job, images, part, held, scores), seconds, content, options)


def record(
    job: Job, trial: int, outcome: Outcome, seconds: float, content: dict[str, Any], options: Options
) -> None:
    """Write the result of one trial."""
    write_result(
        job.key(trial),
        {
            "seconds": round(seconds, 4),
            "stack": len(job.trials),
            **({"shared": True} if options.shared else {}),
            "train_prior": job.data.prior,
            "estimated_train_prior": outcome.train_prior,
            "tests": outcome.tests,
            **content,
            "seed": trial,
            "settings": job.recipe.settings() | {"options": network_options(job.recipe, options)},
            "versions": versions(options.device),
        },
        options.out,
    )


def labelled_tests(
    data: Benchmark, images: Images, part: Split, scores: Floats
) -> dict[float, tuple[Floats, npt.NDArray[np.bool_]]]:
    """Scores and labels of every test set, from scores of all test images."""
    positive = np.isin(images.test_classes, data.positive)
    return {prior: (scores[rows], positive[rows]) for prior, rows in part.tests.items()}


def outcome_of(job: Job, images: Images, part: Split, held: tuple[Floats, Floats], scores: Floats) -> Outcome:
    """Accuracy, AUC and priors, from scores of the held-out rows and of all test images."""
    tests = labelled_tests(job.data, images, part, scores)
    best, unchanged = job.recipe.prior == "best", job.experiment == "no_shift"
    return by_ratio(held, tests, best=best, known=job.known_prior, unchanged=unchanged)


class Watch:
    """Errors of every model at some epochs, and the time it took to compute them."""

    def __init__(self, job: Job, images: Images, splits: Sequence[Split], every: int) -> None:
        self.job, self.images, self.splits, self.every = job, images, splits, every
        self.held = [part.positive[1] for part in splits], [part.unlabeled[1] for part in splits]
        self.curves: list[list[dict[str, Any]]] = [[] for _ in splits]
        self.seconds = 0.0

    def __call__(self, epoch: int, log_ratio: Scorer) -> None:
        """Record the errors of an epoch."""
        if epoch % self.every and epoch != 1:
            return
        start = time.perf_counter()
        train, test = self.images.train, self.images.test
        parts = [log_ratio(train, self.held[0]), log_ratio(train, self.held[1]), log_ratio(test)]
        parts = [part.clip(-LIMIT, LIMIT) for part in parts]
        for curve, part, p, u, scores in zip(self.curves, self.splits, *parts, strict=True):
            outcome = outcome_of(self.job, self.images, part, (p, u), scores)
            curve.append({"epoch": epoch, "errors": [round(1 - t["accuracy"], 4) for t in outcome.tests]})
        self.seconds += time.perf_counter() - start
