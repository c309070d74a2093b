"""Choice of our settings, on holdout rows of trials that are not in the tables."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import product

import numpy as np

from drpu import NetworkRatio
from paper.configs import OURS, RUN, benchmark, parted
from paper.evaluate import calibrated_risk
from paper.networks import make_network
from paper.run import Options
from paper.splits import is_reduced, load_images, split
from paper.stacks import Places, fit_many

__all__ = ["choose", "select"]

FIRST = 100  # first trial used to choose; the tables use the trials 0 to 9

Stack = tuple[str, int, float, tuple[float, ...]]
# Generator, epochs, rate, and the decays that are trained together. Slow networks are tried with fewer
# settings, fewer trials and one strength of the correction. The choice is among settings that were tried on
# all data sets.
NARROW: list[Stack] = [("bkl", 20, rate, (0.3, 1.0)) for rate in (1e-3, 2e-3, 3e-3, 5e-3)]
WIDE: list[Stack] = [("bkl", n, rate, (0.3, 1.0, 3.0)) for n in (10, 20) for *_, rate, _ in NARROW]
WIDE += [("lsif", 20, rate, (1.0,)) for rate in (1e-3, 3e-3)]
STACKS = {"mlp": WIDE, "lenet": WIDE, "cifar": NARROW}
ALPHAS = {"mlp": (0.3, 0.45), "lenet": (0.3, 0.45), "cifar": (0.45,)}
TRIALS = {"mlp": 4, "lenet": 3, "cifar": 1}


def select(datasets: Sequence[str], options: Options) -> None:
    """Try every setting on every data set, write the risks, and print the best set for all.

    Results of earlier calls are kept. The file is written after each group of settings.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "selection.json"
    found: dict[str, dict[str, float]] = json.loads(path.read_text()) if path.is_file() else {}
    for dataset in datasets:
        known = found.setdefault(dataset, {})
        for risks in _try_all(dataset, known, options):
            known |= risks
            path.write_text(json.dumps(found, indent=1) + "\n")
        for name, risk in sorted(known.items(), key=lambda item: item[1]):
            print(f"  {risk:.5f} {name}", file=sys.stderr, flush=True)
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


def _try_all(dataset: str, known: Collection[str], options: Options) -> Iterator[dict[str, float]]:
    """Mean holdout risk by setting, over trials and strengths of the correction, one group at a time."""
    data = benchmark(dataset, reduced=is_reduced(dataset, options.data))
    images = load_images(data, options.data)
    parts = [split(data, images, FIRST + i) for i in range(TRIALS[data.network])]
    held = [(images.train[p.positive[1]], images.train[p.unlabeled[1]]) for p in parts]
    for generator, epochs, rate, decays in STACKS[data.network]:
        if all(_name(generator, epochs, rate, decay) in known for decay in decays):
            continue
        start = time.perf_counter()
        lines = list(product(decays, ALPHAS[data.network], range(len(parts))))
        common, run = parted(OURS | {"generator": generator}, RUN)
        common |= {"epochs": options.epochs or epochs, "learning_rate": rate}
        common |= {"device": options.device, "dtype": _precision(data.network, options.device)}
        learners = [
            NetworkRatio(
                make_network(data.network),
                random_state=FIRST + i,
                **common | {"alpha": alpha, "weight_decay": decay},
            )
            for decay, alpha, i in lines
        ]
        models = fit_many(learners, images.train, [Places.of(parts[i]) for *_, i in lines], run=run)
        risks: dict[str, list[float]] = {}
        for model, (decay, _, i) in zip(models, lines, strict=True):
            risk = calibrated_risk(*(model.log_ratio(rows) for rows in held[i]))
            risks.setdefault(_name(generator, epochs, rate, decay), []).append(risk)
        took = time.perf_counter() - start
        print(f"{dataset} {generator} {epochs} epochs at {rate:g}: {took:.1f} s", file=sys.stderr, flush=True)
        yield {name: float(np.mean(values)) for name, values in risks.items()}


def _name(generator: str, epochs: int, rate: float, decay: float) -> str:
    return f"{generator} epochs={epochs} rate={rate:g} decay={decay:g}"


def _precision(network: str, device: str) -> str:
    if device == "cpu":
        return "float32"
    return "bfloat16" if network == "cifar" else "tf32"
