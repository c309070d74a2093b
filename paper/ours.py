"""The flavour ``ours``: our recipe on the rows of the paper, several trials at a time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from drpu.networks.function import NetworkFunction
from paper.splits import Images, Split
from paper.strategies import STRATEGIES, TrialGroup

if TYPE_CHECKING:
    from paper.run import Job, Options

__all__ = ["run_job"]

EVERY = 4  # epochs between two points of an error curve


def run_job(job: Job, images: Images, splits: Sequence[Split], options: Options) -> None:
    """Train the networks of every trial, and write the result of its model."""
    from paper.run import Watch, finish, network_options

    strategy = STRATEGIES[job.recipe.strategy]
    start = time.perf_counter()
    settings = network_options(job.recipe, options) | {"device": options.device, "verbose": options.verbose}
    group = TrialGroup(job.data.network, images, splits, job.trials, settings)
    first = group.first(strategy.rates)
    teachers = [strategy.teachers(networks) for networks in first]
    watch = Watch(job, images, splits, EVERY)
    if strategy.teacher is None:
        models = [one for (one,) in teachers]
    else:
        weights = [strategy.weights] * len(splits)
        followed = watch if job.experiment == "benchmark" else None
        models = group.students(range(len(splits)), teachers, weights, followed)
    seconds = (time.perf_counter() - start - watch.seconds) / len(splits)
    for i, (trial, part) in enumerate(zip(job.trials, splits, strict=True)):
        rates = [(model, rate) for rate in strategy.rates for model in first[i][rate]]
        own = next((rate for model, rate in rates if model is models[i]), settings["learning_rate"])
        networks = [_kept(model, rate) for model, rate in rates]
        content = {"networks": networks, "final": _kept(models[i], own), "curve": watch.curves[i]}
        content["strategy"] = asdict(strategy)
        finish(job, trial, images, part, models[i], seconds, content, options)


def _kept(model: NetworkFunction, learning_rate: float) -> dict[str, Any]:
    """The settings of a network, and the epoch that was kept."""
    return {
        "learning_rate": learning_rate,
        "alpha": model.alpha,
        "best_epoch": model.best_epoch,
        "holdout_risk": round(model.holdout_risk or 0.0, 6),
    }
