"""What size costs: fits, predictions, single rows, sparse rows, files; all as ratios.

    python -m benchmarks.scale [--rows 10000 100000] [--file-rows 2000000]

Every measurement runs in a process of its own with one thread, so that its peak of memory is
its own. Seconds are processor time. Memory is what a fit adds to a process that holds
the rows, in copies of the rows. A fit is compared with one LightGBM fit of the same rows with as
many rounds as the boosted member took.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import read_results, write_results
from benchmarks._scale_data import LAWS, draw, labelled, sparse_text
from benchmarks._scale_files import peak_mebibytes, read, write_classifier, write_rows

TEST_ROWS = 20_000
WORDS = 50_000
WAYS = ("nothing", "whole", "batches")
PARTS = ("dense", "sparse", "files")


def held_mebibytes() -> float:
    """Memory that this process holds now; on Linux, in pages."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def warm_up() -> None:
    """Import everything that a fit imports: neither its seconds nor its memory are the fit's."""
    from drpu import DRPUClassifier, make_gaussian_pu

    data = make_gaussian_pu(60, 200, prior=0.4, separation=3, random_state=0)
    DRPUClassifier(random_state=0).fit_pu(data.positive, data.unlabeled).predict(data.unlabeled)


def fit_dense(model: str, law: str, n: int, rounds: int) -> dict[str, Any]:
    """Seconds and memory of a fit, its AUC on new rows, and the cost of a prediction."""
    from sklearn.metrics import roc_auc_score

    warm_up()
    X, label = labelled(law, n)
    new, truth = draw(law, TEST_ROWS, seed=9)
    before, start = held_mebibytes(), time.process_time()
    score, found = _fitted(model, X, label, rounds)
    seconds, memory = time.process_time() - start, peak_mebibytes() - before
    start = time.process_time()
    scores = score(new)
    per_row = (time.process_time() - start) / len(new)
    start = time.process_time()
    for row in new[:300]:
        score(row[None])
    return found | {
        "model": model,
        "law": law,
        "rows": n,
        "seconds": seconds,
        "copies": memory / (X.nbytes / 2**20),
        "auc": float(roc_auc_score(truth, scores)),
        "predict_microseconds": 1e6 * per_row,
        "single_row_milliseconds": (time.process_time() - start) / 300 * 1e3,
    }


def _fitted(model: str, X: Any, label: Any, rounds: int) -> tuple[Any, dict[str, Any]]:
    """A function that scores rows, and facts about the fit."""
    if model == "lightgbm":
        import lightgbm

        settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
        booster = lightgbm.train(settings, lightgbm.Dataset(X, label), rounds)
        return lambda rows: booster.predict(rows, num_threads=1), {"rounds": rounds}
    from drpu import DRPUClassifier

    clf = DRPUClassifier(model, scenario="single-sample", random_state=0).fit(X, label)
    members = getattr(clf.model_.models[0], "members_", clf.model_.models)
    took = [member.n_rounds_ for member in members if hasattr(member, "n_rounds_")]
    facts = {"rounds": max(took, default=0), "described": clf.model_.describe(), "prior": clf.prior_.value}
    facts |= {"levels": len(clf.tails_.levels), "state_bytes": _size(clf.fitted_.state())}
    return clf.decision_function, facts


def _size(state: Any) -> int:
    """Bytes of a state: what travels to a worker once."""
    own = sum(array.nbytes for array in state.arrays.values()) + sum(map(len, state.blobs.values()))
    return int(own) + sum(_size(part) for part in state.parts.values())


def fit_sparse(model: str, n: int) -> dict[str, Any]:
    """Seconds of a fit of sparse text, and its AUC."""
    from sklearn.metrics import roc_auc_score

    from drpu import DRPUClassifier

    warm_up()
    X, label, _ = sparse_text(n, WORDS)
    new, _, truth = sparse_text(TEST_ROWS, WORDS, seed=9)
    start = time.process_time()
    clf = DRPUClassifier(model, scenario="single-sample", random_state=0).fit(X, label)
    seconds = time.process_time() - start
    auc = float(roc_auc_score(truth, clf.decision_function(new)))
    return {"model": model, "rows": n, "columns": WORDS, "seconds": seconds, "auc": auc}


def alone(task: str, *arguments: Any) -> dict[str, Any]:
    """The result of a task, measured in a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.scale", "--task", task]
    done = subprocess.run(
        [*command, *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(
        {key: round(value, 4) if isinstance(value, float) else value for key, value in result.items()},
        flush=True,
    )
    return result


def run_task(task: str, arguments: list[str]) -> dict[str, Any]:
    if task == "dense":
        return fit_dense(arguments[0], arguments[1], int(arguments[2]), int(arguments[3]))
    if task == "sparse":
        return fit_sparse(arguments[0], int(arguments[1]))
    return read(task, Path(arguments[0]) / "clf.drpu", Path(arguments[0]) / "rows.parquet")


def dense(rows: list[int], laws: list[str]) -> list[dict[str, Any]]:
    """Every law at the first size, and one of them at all sizes."""
    cases = [(law, rows[0]) for law in laws] + [(laws[0], n) for n in rows[1:]]
    found = []
    for law, n in cases:
        default, boosted = (alone("dense", model, law, n, 0) for model in ("auto", "boosted"))
        reference = alone("dense", "lightgbm", law, n, max(default["rounds"], boosted["rounds"], 1))
        found.append(
            {
                "law": law,
                "rows": n,
                "fits": [default, boosted, reference],
                "fit_ratio": default["seconds"] / reference["seconds"],
                "predict_ratio": default["predict_microseconds"] / reference["predict_microseconds"],
            }
        )
    return found


def exponents(cases: list[dict[str, Any]]) -> dict[str, float]:
    """How seconds grow with rows, s ~ n ** exponent, between the smallest and the largest size of a law."""
    law = cases[0]["law"]
    ends = sorted((case for case in cases if case["law"] == law), key=lambda case: case["rows"])
    if len(ends) < 2:
        return {}
    growth = np.log(ends[-1]["rows"] / ends[0]["rows"])
    pairs = zip(ends[0]["fits"], ends[-1]["fits"], strict=True)
    return {a["model"]: float(np.log(b["seconds"] / a["seconds"]) / growth) for a, b in pairs}


def files(rows: int) -> dict[str, Any]:
    """A Parquet file that is read whole, or a batch at a time."""
    with tempfile.TemporaryDirectory() as folder:
        write_classifier(Path(folder) / "clf.drpu")
        write_rows(Path(folder) / "rows.parquet", rows)
        found = [alone(way, folder) for way in WAYS]
        size = (Path(folder) / "rows.parquet").stat().st_size / 2**20
    empty = found[0]["peak_mebibytes"]
    ways = [one | {"above_empty_mebibytes": one["peak_mebibytes"] - empty} for one in found[1:]]
    return {"file_rows": rows, "file_mebibytes": size, "ways": ways}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 10_000, 1_000_000])
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--sparse-rows", type=int, default=100_000)
    parser.add_argument("--file-rows", type=int, default=2_000_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="the rest is kept")
    parser.add_argument("--task", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        print(json.dumps(run_task(options.task[0], options.task[1:])))
        return
    content: dict[str, Any] = {"columns": 30}
    if set(options.parts) != set(PARTS):
        content |= {k: v for k, v in read_results("scale").items() if k not in ("command", "versions")}
    if "dense" in options.parts:
        cases = dense(options.rows, options.laws)
        content |= {"dense": cases, "exponents": exponents(cases)}
    if "sparse" in options.parts:
        fits = [alone("sparse", model, options.sparse_rows) for model in ("auto", "classifier")]
        content |= {"sparse": fits, "sparse_ratio": fits[0]["seconds"] / fits[1]["seconds"]}
    if "files" in options.parts:
        content |= files(options.file_rows)
    command = f"python -m benchmarks.scale --rows {' '.join(map(str, options.rows))}"
    command += f" --laws {' '.join(options.laws)} --sparse-rows {options.sparse_rows}"
    print("wrote", write_results("scale", f"{command} --file-rows {options.file_rows}", **content))


if __name__ == "__main__":
    main()
