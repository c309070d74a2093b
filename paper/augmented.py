"""Flavours with augmented images: candidates, the choice among them, and the fit of each trial.

``ours-augmented`` keeps the networks of the paper. ``beyond`` uses the residual network of the library. Both
have the same rows, labels and test sets as the other flavours.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from drpu import NetworkRatio
from drpu.exceptions import DataError
from drpu.networks.augment import make_augment
from drpu.networks.modules import ResNet9, make_module
from paper.compare import JUDGES, judged_risk, judges
from paper.configs import CANDIDATES, FEW, RUN, Benchmark, Recipe, benchmark, case_of, parted, recipe
from paper.evaluate import Floats, calibrated_risk
from paper.networks import make_network, residual_network
from paper.pretraining import Pretraining, pretrained
from paper.splits import Images, Split, in_folds, is_reduced, load_images, no_shift, split
from paper.store import RESULTS, Key, read_result, read_results, versions, write_result
from paper.teaching import Taught, Teaching, fit_taught

if TYPE_CHECKING:
    from paper.run import Job, Options

__all__ = [
    "CHOICE", "FIRST", "WITH_LABELS", "Choices", "choose_candidate", "chosen_recipe", "comparable",
    "compare_candidates", "folds_of", "mean_risk", "read_choices", "run_job",
]  # fmt: skip

CHOICE = "choice"  # folder of the results of the comparison
WITH_LABELS = "risk_with_labels"
FIRST = 100  # first trial used to choose; the tables use the trials 0 to 9
FOLD_SEED = 1000  # between the seeds of two folds

# By flavour and case, then by candidate: a line for each trial.
Choices: TypeAlias = dict[tuple[str, str], dict[str, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """The networks of a trial, one for each fold, with the rows that each of them has not seen."""

    functions: list[Taught]
    splits: list[Split]

    def held(self, images: Images) -> tuple[Floats, Floats]:
        """Scores of the held-out positive and unlabeled rows, in the precision of training."""
        pairs = list(zip(self.functions, self.splits, strict=True))
        positive = [one.fast_score(images.train[part.positive[1]]) for one, part in pairs]
        unlabeled = [one.fast_score(images.train[part.unlabeled[1]]) for one, part in pairs]
        return np.concatenate(positive), np.concatenate(unlabeled)

    def scores(self, rows: Any) -> Floats:
        """Scores of other rows, with a column for each fold."""
        return np.stack([one.fast_score(rows) for one in self.functions], axis=1)


def run_job(job: Job, images: Images, splits: Sequence[Split], options: Options) -> None:
    """Fit and score one model for each trial; each result is written before the next trial starts."""
    from paper.run import conclude

    for trial, part in zip(job.trials, splits, strict=True):
        _peak()
        start = time.perf_counter()
        model = fit(job.data, job.recipe, images, part, trial, options)
        seconds = time.perf_counter() - start
        own = replace(job, trials=(trial,))
        content = {
            "best_epoch": [one.best_epoch for one in model.functions],
            "alpha": model.functions[0].alpha,
            "gibibytes": _peak(),
        }
        scores = model.scores(images.test)
        conclude(own, trial, images, part, model.held(images), scores, seconds, content, options)


def fit(data: Benchmark, made: Recipe, images: Images, part: Split, seed: int, options: Options) -> Model:
    """The model of one trial."""
    from paper.run import network_options

    settings = network_options(made, options) | {"device": options.device, "verbose": options.verbose}
    splits = in_folds(part, settings.pop("folds", 1), seed)
    epochs, functions, start = settings.pop("pretrain", 0), [], None
    settings, rounds = parted(settings, [field.name for field in fields(Teaching)])
    if epochs:  # once for all folds: no labels are used
        start = _pretrained(images.train[np.concatenate(part.unlabeled)], epochs, settings, seed)
    for number, own in enumerate(splits):
        rows = [images.train[index] for index in (*own.positive, *own.unlabeled)]
        learner = _learner(data, settings, rows[2], start).set_params(random_state=seed + FOLD_SEED * number)
        functions.append(fit_taught(learner, Teaching(**rounds), (rows[0], rows[2]), (rows[1], rows[3])))
    return Model(functions, splits)


def _pretrained(unlabeled: Any, epochs: int, settings: dict[str, Any], seed: int) -> ResNet9:
    """The residual network, trained without labels on all unlabeled rows of a trial."""
    start = make_module(residual_network(unlabeled, settings["hidden"][0]), seed)
    assert isinstance(start, ResNet9)
    pretraining = Pretraining(
        epochs,
        batch_size=settings["batch_size"],
        seed=seed,
        augment=make_augment(settings["augment"]),
        dtype=settings["dtype"],
        device=settings["device"],
    )
    return pretrained(start, unlabeled, pretraining)


def _learner(
    data: Benchmark, settings: dict[str, Any], unlabeled: Any, start: ResNet9 | None = None
) -> NetworkRatio:
    """The learner of a fold; without a network to start from, its unlabeled rows standardise the pixels."""
    settings, _ = parted(settings, RUN)  # those of the library
    if settings.get("network") == "resnet9":
        others = {name: value for name, value in settings.items() if name not in ("network", "hidden")}
        return NetworkRatio(start or residual_network(unlabeled, settings["hidden"][0]), **others)
    return NetworkRatio(make_network(data.network), **settings)


def _peak() -> float | None:
    """Most memory of the GPU that was in use since the last call, in GiB; None without a GPU."""
    if not torch.cuda.is_available():
        return None
    found = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return round(found, 2)


def chosen_recipe(flavour: str, data: Benchmark, folder: Path, experiment: str = "benchmark") -> Recipe:
    """The recipe of the candidate that was chosen in ``folder``, or else in ours.

    Raises
    ------
    DataError
        If neither folder has a choice.
    """
    case = case_of(experiment, data.name)
    for place in (folder, RESULTS):
        tried = read_choices(place).get((flavour, case))
        if tried:
            return recipe(flavour, "drpu", data, choose_candidate(tried), case)
    raise DataError(
        f"{folder / CHOICE} must say which recipe of {flavour} to use for {case}, and has no line about it. "
        f"Run `python -m paper choose --flavour {flavour} --dataset {data.name} --experiment {experiment}` "
        "first."
    )


def read_choices(folder: Path) -> Choices:
    """What `python -m paper choose` found, by flavour and case, then by candidate."""
    found: Choices = {}
    for line in read_results(folder / CHOICE):
        case = case_of(line["experiment"], line["dataset"])
        found.setdefault((line["flavour"], case), {}).setdefault(line["method"], []).append(line)
    return found


def mean_risk(tried: Sequence[dict[str, Any]], name: str = "risk") -> float | None:
    """Mean over trials of one of the risks of a candidate, or None if it was not computed."""
    values = [line[name] for line in tried if line.get(name) is not None]
    return float(np.mean(values)) if values else None


def choose_candidate(tried: dict[str, list[dict[str, Any]]]) -> str:
    """The candidate with the lowest mean risk without labels, or with them if no other was computed."""
    for name in ("risk", WITH_LABELS):
        own = comparable(tried).items()
        means = {each: mean for each, lines in own if (mean := mean_risk(lines, name)) is not None}
        if means:
            return min(means, key=means.__getitem__)
    raise DataError("the comparison of candidates must have a risk.")


def comparable(tried: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The candidates among which the risk decides: those with folds, if any, and of these the most trials.

    The risk of a candidate with folds is that of single networks, each trained without its fold, so it
    cannot be compared with that of other candidates. Folds hold out every labelled row once, so priors and
    thresholds are better known; that is why they come first. A candidate that was left out after fewer trials
    than the others cannot be chosen.
    """
    kept = {name: own for name, own in tried.items() if folds_of(own) > 1} or tried
    most = max(len(own) for own in kept.values())
    return {name: own for name, own in kept.items() if len(own) == most}


def folds_of(tried: Sequence[dict[str, Any]]) -> int:
    """Number of folds of a candidate, from the lines of its trials."""
    folds: int = tried[0].get("options", {}).get("folds", 1)
    return folds


def compare_candidates(
    flavours: Sequence[str],
    datasets: Sequence[str],
    trials: Sequence[int],
    options: Options,
    experiment: str = "benchmark",
) -> None:
    """Fit every candidate in trials that no table has, and write its risks on rows kept out of the trial."""
    for dataset in datasets:
        data = benchmark(dataset, reduced=is_reduced(dataset, options.data))
        images: Images | None = None
        for flavour in flavours:
            case = case_of(experiment, dataset)
            for trial in trials:
                for name in options.candidates or CANDIDATES[flavour][case]:
                    key = Key(experiment, dataset, flavour, name, trial, protocol=data.protocol)
                    if read_result(key, options.out / CHOICE) is None:
                        images = images or load_images(data, options.data, as_bytes=True)
                        made = recipe(flavour, "drpu", data, name, case)
                        content = _judge(data, made, images, trial, options, experiment)
                        write_result(key, content, options.out / CHOICE)
            tried = read_choices(options.out).get((flavour, case), {})
            print(f"{flavour} {case}: {choose_candidate(tried)}", flush=True)


def _judge(
    data: Benchmark, made: Recipe, images: Images, seed: int, options: Options, experiment: str
) -> dict[str, Any]:
    """Both risks of a candidate; a tenth of the unlabeled training rows is kept out of its training.

    The risk without labels is computed from the held-out positives and from all unlabeled rows that are not
    in the training, each scored by one network that was not trained on it. The risk with labels is that of
    the rows kept out, scored by the mean over the folds.
    """
    judging = data.n_unlabeled[0] // JUDGES
    fewer = replace(data, n_unlabeled=(data.n_unlabeled[0] - judging, data.n_unlabeled[1]))
    few = experiment == "no_shift"
    part = no_shift(fewer, images, seed, FEW) if few else split(fewer, images, seed)
    start = time.perf_counter()
    model = fit(fewer, made, images, part, seed, options)
    took = time.perf_counter() - start
    rest, positive = judges(data, images, part.unlabeled)
    p, u = model.held(images)
    scores = model.scores(images.train[rest])
    once = scores[np.arange(len(rest)), np.arange(len(rest)) % scores.shape[1]]  # by the folds in turn
    found = {
        "risk": round(calibrated_risk(p, np.concatenate([u, once])), 6),
        WITH_LABELS: round(judged_risk((p, u), scores, positive), 6),
    }
    what = f"{experiment} {data.name} {made.flavour} {seed} {made.strategy}"
    print(f"{what}: {found} {took:.1f} s", file=sys.stderr, flush=True)
    return found | {
        "seconds": None if options.shared else round(took, 1),
        "options": made.options,
        "versions": versions(options.device),
    }
