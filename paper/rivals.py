"""nnPU, PUa and VPU on the same rows, several trials at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from drpu.exceptions import DataError
from drpu.models.risks import ShiftedRisk, VariationalRisk
from drpu.networks.function import NetworkFunction
from drpu.networks.learner import NetworkScore
from paper.configs import RUN, parted
from paper.evaluate import Floats, Outcome, by_margin
from paper.km2 import km2_priors
from paper.networks import make_network
from paper.splits import Images, Split
from paper.stacks import Places, Scorer, fit_many

if TYPE_CHECKING:
    from paper.run import Job, Options

__all__ = ["run_job"]

Risk: TypeAlias = ShiftedRisk | VariationalRisk
Priors: TypeAlias = tuple[float, dict[float, float]]


def run_job(job: Job, images: Images, splits: Sequence[Split], options: Options) -> None:
    """Train the trials of one method and write a result for each."""
    from paper.run import record

    priors = [_priors(job, trial, part, options.out) for trial, part in zip(job.trials, splits, strict=True)]
    # PUa is trained for one test prior, so each test prior has its own model
    targets = [list(part.tests) if job.recipe.method == "pua" else [None] for part in splits]
    lines = [(i, target) for i, own in enumerate(targets) for target in own]
    objectives = [_objective(job, priors[i], target) for i, target in lines]
    reader = _Reader(job, images, splits, lines, priors)

    start = time.perf_counter()
    models = _train(job, images, splits, [i for i, _ in lines], objectives, reader, options)
    seconds = (time.perf_counter() - start - reader.seconds) / len(splits)
    scores = np.stack([model.score(images.test) for model in models])
    levels = None
    if job.recipe.method == "vpu":
        trained = [images.train[splits[i].unlabeled[0]] for i, _ in lines]
        levels = [float(model.score(rows).max()) for model, rows in zip(models, trained, strict=True)]
    outcomes = reader.outcomes(scores, levels)
    for i, trial in enumerate(job.trials):
        content = {"best_epoch": [m.best_epoch for m, (j, _) in zip(models, lines, strict=True) if i == j]}
        record(job, trial, outcomes[i], seconds, content | {"curve": reader.curves[i]}, options)


def _priors(job: Job, trial: int, part: Split, out: Path) -> Priors | None:
    """Training and test priors given to the method: known ones, KM2's estimates, or none."""
    if job.recipe.method == "vpu":
        return None
    if job.known_prior is not None:
        return job.known_prior, dict.fromkeys(part.tests, job.known_prior)
    found = km2_priors(job.data, trial, out)
    if found is None:
        raise DataError(
            f"{job.recipe.method} needs the KM2 priors of {job.data.name}, trial {trial}: "
            "run python -m paper km2 first."
        )
    return found


def _objective(job: Job, priors: Priors | None, target: float | None) -> Risk:
    if priors is None:
        return VariationalRisk(mixup=job.data.mixup)
    train, tests = priors
    test = train if target is None else tests[target]
    # with a prior of 0 or 1 a class has no weight, and there is nothing to learn
    train, test = (float(np.clip(prior, 0.01, 0.99)) for prior in (train, test))
    return ShiftedRisk(train, test, corrected=True)


def _train(
    job: Job,
    images: Images,
    splits: Sequence[Split],
    lines: Sequence[int],
    objectives: Sequence[Risk],
    reader: _Reader,
    options: Options,
) -> list[NetworkFunction]:
    from paper.run import network_options

    network = make_network(job.data.network, batch_norm=job.recipe.batch_norm)
    settings = network_options(job.recipe, options) | {"device": options.device, "verbose": options.verbose}
    accumulate = settings.pop("accumulate_gradients", False)
    settings, of_run = parted(settings, RUN)
    learners = [NetworkScore(network, random_state=job.trials[i], **settings) for i in lines]
    # VPU keeps its best epoch, because its accuracy collapses without this; a step of its published runs has
    # as many positives as unlabeled rows.
    vpu = job.recipe.method == "vpu"
    places = [Places.of(splits[i], hold_out=vpu) for i in lines]
    if vpu:
        places = [place.repeated() for place in places]
    followed = reader if job.experiment == "benchmark" else None
    return fit_many(
        learners,
        images.train,
        places,
        objectives=objectives,
        run=of_run,
        on_epoch=followed,
        accumulate=accumulate,
    )


class _Reader:
    """Computes the results of each trial from the scores of all trials, during and after training."""

    def __init__(
        self,
        job: Job,
        images: Images,
        splits: Sequence[Split],
        lines: Sequence[tuple[int, float | None]],
        priors: Sequence[Priors | None],
    ) -> None:
        self.job, self.images, self.splits, self.lines, self.priors = job, images, splits, lines, priors
        self.every = max(1, job.data.epochs // 20)
        self.curves: list[list[dict[str, Any]]] = [[] for _ in splits]
        self.seconds = 0.0

    def __call__(self, epoch: int, score: Scorer) -> None:
        """Record the errors of an epoch."""
        if epoch % self.every and epoch != 1:
            return
        start = time.perf_counter()
        levels = None
        if self.job.recipe.method == "vpu":
            trained = [self.splits[i].unlabeled[0] for i, _ in self.lines]
            of_train = score(self.images.train)
            levels = [float(own[rows].max()) for own, rows in zip(of_train, trained, strict=True)]
        for curve, outcome in zip(self.curves, self.outcomes(score(self.images.test), levels), strict=True):
            curve.append({"epoch": epoch, "errors": [round(1 - t["accuracy"], 4) for t in outcome.tests]})
        self.seconds += time.perf_counter() - start

    def outcomes(self, scores: npt.NDArray[np.float64], levels: Sequence[float] | None) -> list[Outcome]:
        """One outcome for each trial, from the outputs on all test images."""
        from paper.run import labelled_tests

        found = []
        for i, (part, priors) in enumerate(zip(self.splits, self.priors, strict=True)):
            tests: dict[float, tuple[Floats, npt.NDArray[np.bool_]]] = {}
            for n, (own, target) in enumerate(self.lines):
                if own != i:
                    continue
                margin = scores[n] if levels is None else _share_of(scores[n], levels[n])
                of_model = labelled_tests(self.job.data, self.images, part, margin)
                tests |= of_model if target is None else {target: of_model[target]}
            train, test_priors = priors if priors is not None else (None, None)
            found.append(by_margin(tests, train_prior=train, test_priors=test_priors))
        return found


def _share_of(scores: Floats, level: float) -> Floats:
    """Difference between log Phi and (log(1/2) plus its largest value on training rows)."""
    return np.asarray(-np.logaddexp(0, -scores) + np.logaddexp(0, -level) - np.log(0.5))
