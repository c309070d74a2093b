"""Results computed again from kept scores, with the library as it is now."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from paper.configs import benchmark, recipe
from paper.run import Job, outcome_of
from paper.splits import Images, load_images
from paper.store import Key, write_result

__all__ = ["rescore"]

KEPT = ("held_positive", "held_unlabeled", "test")


def rescore(scores: Path, out: Path, data: str | None) -> None:
    """Accuracy, AUC and priors of every kept run; what was learnt, and how fast, stays as it is."""
    loaded: dict[str, Images] = {}
    for path in sorted(scores.glob("*.npz")):
        result = json.loads((out / path.with_suffix(".json").name).read_text())
        name, reduced = result["dataset"], result["protocol"] == "reduced"
        made = benchmark(name, labels=result["labels"], reduced=reduced)
        if name not in loaded:
            loaded[name] = load_images(made, data)
        job = Job("benchmark", made, recipe(result["flavour"], "drpu", made), (result["trial"],))
        with np.load(path) as kept:
            p, u, test = (np.asarray(kept[part], dtype=np.float64) for part in KEPT)
        part = job.split(loaded[name], result["trial"])
        outcome = outcome_of(job, loaded[name], part, (p, u), test)
        fields = {key: result.pop(key) for key in Key.__slots__}
        changed = {"estimated_train_prior": outcome.train_prior, "tests": outcome.tests}
        write_result(Key(**fields), result | changed, out)
