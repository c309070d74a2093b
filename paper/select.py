"""Our settings, chosen on holdout rows of trials that no table reports."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from drpu import NetworkRatio, fit_many
from paper.configs import OURS, benchmark
from paper.evaluate import holdout_risk
from paper.networks import make_network
from paper.run import Options, mask
from paper.splits import is_reduced, load_images, split

__all__ = ["choose", "select"]

FIRST = 100  # trials of the choice; the tables have 0 to 9
ALPHAS = (0.3, 0.45)
EPOCHS, RATES, DECAYS = (10, 20), (1e-3, 2e-3, 3e-3, 5e-3), (0.3, 1.0, 3.0)
# Stacks of settings: generator, epochs, rate, and the decays that are trained together.
STACKS = [("bkl", epochs, rate, DECAYS) for epochs, rate in product(EPOCHS, RATES)]
STACKS += [("lsif", 20, rate, (1.0,)) for rate in (1e-3, 3e-3)]
TRIALS = {"mlp": 4, "lenet": 3, "cifar": 1}  # fewer where a network takes longer


def select(datasets: Sequence[str], options: Options) -> None:
    """Try every setting on every data set, write the risks, and print the best set for all.

    What an earlier call has found counts too.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "selection.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.is_file() else {}
    for dataset in datasets:
        found[dataset] = _try_all(dataset, options)
        path.write_text(json.dumps(found, indent=1) + "\n")
    print(choose(found))


def choose(found: dict[str, dict[str, float]]) -> str:
    """The setting whose risk is closest to the best one, on average over the data sets that tried it."""
    shared = set.intersection(*(set(risks) for risks in found.values()))
    excess = {
        name: np.mean(
            [(risks[name] - min(risks.values())) / abs(min(risks.values())) for risks in found.values()]
        )
        for name in shared
    }
    return min(sorted(excess), key=excess.__getitem__)


def _try_all(dataset: str, options: Options) -> dict[str, float]:
    """Mean holdout risk by setting, over trials and strengths of the correction."""
    data = benchmark(dataset, reduced=is_reduced(dataset, options.data))
    images = load_images(data, options.data)
    trials = range(FIRST, FIRST + TRIALS[data.network])
    parts = [split(data, images, trial) for trial in trials]
    held = [(images.train[p.positive[1]], images.train[p.unlabeled[1]]) for p in parts]
    risks: dict[str, float] = {}
    for generator, epochs, rate, decays in STACKS:
        start = time.perf_counter()
        lines = list(product([rate], decays, ALPHAS, range(len(parts))))
        models = [
            NetworkRatio(
                make_network(data.network),
                random_state=FIRST + i,
                device=options.device,
                **OURS
                | {"generator": generator, "epochs": options.epochs or epochs, "alpha": alpha}
                | {"learning_rate": rate, "weight_decay": decay}
                | {"dtype": _precision(data.network, options.device)},
            )
            for rate, decay, alpha, i in lines
        ]
        chosen = [parts[i] for *_, i in lines]
        fit_many(
            models,
            images.train,
            images.train,
            holdout=[held[i] for *_, i in lines],
            positive_weight=[mask(p.positive[0], len(images.train)) for p in chosen],
            unlabeled_weight=[mask(p.unlabeled[0], len(images.train)) for p in chosen],
        )
        risks |= _by_setting(models, lines, held, generator, epochs)
        took = time.perf_counter() - start
        print(f"{dataset} {generator} {epochs} epochs at {rate:g}: {took:.1f} s", file=sys.stderr, flush=True)
    for name, risk in sorted(risks.items(), key=lambda item: item[1]):
        print(f"  {risk:.5f} {name}", file=sys.stderr, flush=True)
    return risks


def _by_setting(
    models: Sequence[NetworkRatio],
    lines: Sequence[tuple[float, float, float, int]],
    held: Sequence[tuple[Any, Any]],
    generator: str,
    epochs: int,
) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for model, (rate, decay, _, i) in zip(models, lines, strict=True):
        name = f"{generator} epochs={epochs} rate={rate:g} decay={decay:g}"
        found.setdefault(name, []).append(holdout_risk(*(model.log_ratio(rows) for rows in held[i])))
    return {name: float(np.mean(risks)) for name, risks in found.items()}


def _precision(network: str, device: str) -> str:
    if device == "cpu":
        return "float32"
    return "bfloat16" if network == "cifar" else "tf32"
