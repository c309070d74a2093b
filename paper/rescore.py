"""Results computed again from kept scores, with the library as it is now."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paper.configs import benchmark, recipe
from paper.run import Job, outcome_of
from paper.splits import Images, load_images
from paper.store import Key, read_results, write_result

__all__ = ["rescore"]

KEPT = ("held_positive", "held_unlabeled", "test")


def rescore(scores: Path, out: Path, data: str | None) -> None:
    """Accuracy, AUC and priors of every kept run; settings and times stay as they are."""
    loaded: dict[str, Images] = {}
    known = {Key.of(result).name: result for result in read_results(out)}
    for path in sorted(scores.glob("*.npz")):
        result = known[path.stem]
        name, reduced = result["dataset"], result["protocol"] == "reduced"
        made = benchmark(name, labels=result["labels"], reduced=reduced)
        if name not in loaded:
            loaded[name] = load_images(made, data, as_bytes=True)
        used = recipe(result["flavour"], "drpu", made)
        job = Job(result["experiment"], made, used, (result["trial"],), result["n_positive"])
        with np.load(path) as kept:
            p, u, test = (np.asarray(kept[part], dtype=np.float64) for part in KEPT)
        part = job.split(loaded[name], result["trial"])
        outcome = outcome_of(job, loaded[name], part, (p, u), test)
        changed = {"estimated_train_prior": outcome.train_prior, "tests": outcome.tests}
        write_result(Key.of(result), result | changed, out)
