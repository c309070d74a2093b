"""Single measurements of :mod:`benchmarks.scale`, each made in a separate process."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._scale_data import draw, labelled, sparse_text
from benchmarks._scale_engines import measured
from benchmarks._scale_files import label, peak_mebibytes, read
from benchmarks.choice import fit_choice

TEST_ROWS = 50_000
SINGLE_ROWS = 300
WORDS = 50_000
SHARE = 0.3  # fraction of the positives of a table that are labelled
JOBS_ROWS = 100_000

Task = dict[str, Any]


def held_mebibytes() -> float:
    """Memory that this process holds now; on Linux, in pages."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def warm_up() -> None:
    """Import everything that a fit imports, so that imports do not count as part of the fit."""
    from drpu import DRPUClassifier, make_gaussian_pu

    data = make_gaussian_pu(60, 200, prior=0.4, separation=3, random_state=0)
    DRPUClassifier(random_state=0).fit_pu(data.positive, data.unlabeled).predict(data.unlabeled)


def fit_dense(task: Task) -> Task:
    """Seconds and memory of a fit, its AUC on new rows, and the cost of a prediction."""
    warm_up()
    law, n, dtype = task["law"], task["rows"], task.get("dtype", "float64")
    X, label = labelled(law, n, task["draw"], dtype)
    before, start = held_mebibytes(), time.process_time()
    score, found = fitted(task, X, label)
    seconds, peak = time.process_time() - start, peak_mebibytes()
    found["true_prior"] = 0.5
    found |= {"seconds": seconds, "copies": (peak - before) / (X.nbytes / 2**20), "peak_mebibytes": peak}
    new, truth = draw(law, TEST_ROWS, seed=1000 + task["draw"], dtype=dtype)
    return found | judged(score, new, truth)


def fit_table(task: Task) -> Task:
    """The same for a real table: 60 % of its rows, of whose positives 30 % are labelled, at random."""
    from benchmarks._tables import generator, read_tables

    warm_up()
    table = next(iter(read_tables(Path(task["folder"]), [task["table"]])))
    rng = generator("scale", task["table"], task["draw"])
    order = rng.permutation(len(table.y))
    first, second = np.split(order, [round(0.6 * len(order))])
    X, y = np.ascontiguousarray(table.X[first]), table.y[first] == 1
    label = (y & (rng.random(len(y)) < SHARE)).astype(np.int64)
    before, start = held_mebibytes(), time.process_time()
    score, found = fitted(task, X, label)
    seconds = time.process_time() - start
    found |= {"rows": len(X), "columns": X.shape[1], "true_prior": float(y.mean()), "seconds": seconds}
    found |= {"copies": (peak_mebibytes() - before) / (X.nbytes / 2**20)}
    return found | judged(score, table.X[second], table.y[second])


def fitted(task: Task, X: Any, label: Any) -> tuple[Any, Task]:
    """A function that scores rows, and facts about the fit."""
    if task["model"] == "lightgbm":
        import lightgbm

        settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
        booster = lightgbm.train(settings, lightgbm.Dataset(X, label), task["rounds"])
        return lambda rows: booster.predict(rows, num_threads=1), {"rounds": task["rounds"]}
    from drpu import DRPUClassifier

    model = "auto" if task["model"] == "before" else task["model"]
    clf = DRPUClassifier(
        model, scenario="single-sample", n_jobs=task.get("n_jobs"), random_state=task["draw"]
    ).fit(X, label)
    if task["model"] == "before":  # of an older version, only public names are used
        return clf.decision_function, {"rounds": 0, "prior": clf.prior_.value}
    return Scores(clf), _facts(clf)


def _facts(clf: Any) -> Task:
    from drpu._codec import encode
    from drpu.models.auto import Average
    from drpu.models.boosted import BoostedFunction

    first = clf.model_.functions[0]
    members = first.members if isinstance(first, Average) else (first,)
    took = [member.n_rounds for member in members if isinstance(member, BoostedFunction)]
    facts: Task = {"rounds": max(took, default=0), "described": clf.model_.describe()}
    facts |= {"prior": clf.prior_.value, "levels": len(clf.tails_.levels)}
    return facts | {"state_bytes": _size(encode(clf.fitted_))}


class Scores:
    """Scores of a classifier, and those of the members of its model."""

    def __init__(self, clf: Any) -> None:
        self.clf = clf

    def __call__(self, rows: Any) -> Any:
        return self.clf.decision_function(rows)

    def members(self, rows: Any) -> dict[str, Any]:
        """Log-ratios of each member of an average that is in use, if it is one fit."""
        from drpu._codec import kind_of
        from drpu.models.auto import Average

        first, *others = self.clf.model_.functions
        if others or not isinstance(first, Average):
            return {}
        return {
            str(kind_of(type(member))): member.score(first.filling.rows(rows, member))
            for member in first.members
        }


def _size(encoded: Any) -> int:
    """Bytes of the arrays and texts that a file would keep."""
    arrays = sum(array.nbytes for array in encoded.arrays.values())
    return int(arrays) + sum(map(len, encoded.blobs.values())) + len(json.dumps(encoded.tree))


def judged(score: Any, new: Any, truth: Any) -> Task:
    """The AUC, and the time for a row in a large batch and for a single row."""
    from sklearn.metrics import roc_auc_score

    start = time.process_time()
    scores = score(new)
    many = time.process_time()
    for row in new[:SINGLE_ROWS]:
        score(row[None])
    single = 1e3 * (time.process_time() - many) / SINGLE_ROWS
    alone = score.members(new) if isinstance(score, Scores) else {}
    return {
        "auc": float(roc_auc_score(truth, scores)),
        "members": {name: float(roc_auc_score(truth, one)) for name, one in alone.items()},
        "predict_microseconds": 1e6 * (many - start) / len(new),
        "single_row_milliseconds": single,
    }


def fit_sparse(task: Task) -> Task:
    """Seconds of a fit of sparse text, and its AUC."""
    from sklearn.metrics import roc_auc_score

    from drpu import DRPUClassifier

    warm_up()
    X, label, _ = sparse_text(task["rows"], WORDS)
    new, _, truth = sparse_text(20_000, WORDS, seed=9)
    start = time.process_time()
    clf = DRPUClassifier(task["model"], scenario="single-sample", random_state=0).fit(X, label)
    seconds = time.process_time() - start
    auc = float(roc_auc_score(truth, clf.decision_function(new)))
    return {"columns": WORDS, "seconds": seconds, "auc": auc}


def fit_jobs(task: Task) -> Task:
    """Seconds on the clock of a fit with some number of threads."""
    from drpu import DRPUClassifier

    warm_up()
    X, label = labelled("network", task["rows"])
    start = time.perf_counter()
    DRPUClassifier(scenario="single-sample", n_jobs=task["n_jobs"], random_state=0).fit(X, label)
    return {"clock_seconds": time.perf_counter() - start}


def read_file(task: Task) -> Task:
    """The prior of a file, estimated in one of the ways."""
    folder = Path(task["folder"])
    return read(task["way"], folder / "clf.drpu", folder / "rows.parquet")


def label_text(task: Task) -> Task:
    """The labels of a CSV file."""
    return label(task["way"], Path(task["folder"]))


KINDS = {
    "choice": fit_choice,
    "dense": fit_dense,
    "engine": measured,
    "file": read_file,
    "jobs": fit_jobs,
    "sparse": fit_sparse,
    "table": fit_table,
    "text": label_text,
}

if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps(KINDS[wanted["kind"]](wanted)))
