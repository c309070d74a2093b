"""Estimated time of all experiments, from the seconds in the result files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.configs import DATASETS, TEST_PRIORS

__all__ = ["alone_seconds", "km2_seconds", "measured_seconds", "projected_minutes"]

# Cost of a trial relative to one of DRPU, for methods that were not measured. PUa trains a model for each
# test prior. A step of VPU uses three batches of 500 rows; the others use one batch and a few positives.
LIKE = {"drpu": 1.0, "nnpu": 1.0, "pua": float(len(TEST_PRIORS)), "vpu": 1500 / 527}


def measured_seconds(
    results: Sequence[dict[str, Any]],
    flavour: str = "as-run",
    protocols: Sequence[str] = ("full",),
    *,
    shared: bool = False,
) -> dict[tuple[str, str], float]:
    """Seconds of one trial of each method, by data set, without the time that error curves took.

    Trials that ``shared`` the device with other work are left out, or on request only they are used.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for r in results:
        wanted = (r["experiment"], r["flavour"], r.get("shared", False)) == ("benchmark", flavour, shared)
        if wanted and r["protocol"] in protocols:
            found.setdefault((r["dataset"], r["method"]), []).append(r["seconds"])
    return {key: float(np.mean(values)) for key, values in found.items()}


def alone_seconds(results: Sequence[dict[str, Any]], dataset: str) -> list[float]:
    """Seconds of DRPU networks that were trained alone, as those of figure 3."""
    return sorted(
        r["seconds"]
        for r in results
        if (r["experiment"], r["dataset"], r["method"], r.get("stack")) == ("n_positive", dataset, "drpu", 1)
    )


def projected_minutes(results: Sequence[dict[str, Any]], trials: int = 10) -> dict[str, float]:
    """Minutes of four methods and ten trials on each data set, measured where possible.

    Kuzushiji-MNIST has the network and the sizes of Fashion-MNIST, so the same time is assumed.
    """
    measured = measured_seconds(results)
    minutes = {}
    for dataset in DATASETS:
        source = "fashion_mnist" if dataset == "kmnist" else dataset
        known = {method: measured[source, method] for method in LIKE if (source, method) in measured}
        if not known:
            continue
        unit = float(np.mean([seconds / LIKE[method] for method, seconds in known.items()]))
        total = sum(known.get(method, unit * LIKE[method]) for method in LIKE)
        minutes[dataset] = trials * total / 60
    return minutes


def km2_seconds(results: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Seconds of one trial's five priors by KM2, by data set."""
    found: dict[str, list[float]] = {}
    for r in results:
        if r["experiment"] == "km2":
            found.setdefault(r["dataset"], []).append(r["seconds"])
    return {dataset: float(np.mean(values)) for dataset, values in found.items()}
