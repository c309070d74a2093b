"""Time and memory by the number of rows: fits, predictions, single rows, tables, sparse rows and files.

    python -m benchmarks.scale --tables FOLDER [--processes 8] [--before OLD/src] [--records FILE]

Every measurement runs in a separate process with one thread, so that its peak of memory is
its own; ``--processes`` run at the same time. Seconds are processor time. Memory is what a fit
adds to a process that holds the rows, in copies of the rows. A fit is compared with one LightGBM
fit of the same rows with as many rounds as the boosted member took. With ``--before`` the default
of an older version is fitted to the same rows. With ``--records`` each result is written as soon
as it is computed, and not measured again.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._results import (
    RESULTS,
    command_line,
    commit_of_code,
    read_results,
    versions,
    write_results,
)
from benchmarks._scale_data import COLUMNS, LAWS
from benchmarks._scale_engines import ENGINES, SAMPLE, write_parts
from benchmarks._scale_files import COMMANDS, write_classifier, write_rows, write_text
from benchmarks._scale_run import Runner, Task, command_of, key

WAYS = ("nothing", "whole", "batches")
PARTS = ("largest", "dense", "tables", "sparse", "jobs", "files", "text", "engines")
TABLES = ("adult", "shuttle", "credit_default")
MODELS = ("auto", "boosted", "before")


def dense_tasks(options: argparse.Namespace) -> list[Task]:
    """Every distribution at the main sizes, and the first one at all sizes; the longest tasks come first."""
    cases = [(law, n, seed) for n in options.rows for law in options.laws for seed in range(options.draws)]
    cases += [(options.laws[0], n, seed) for n in options.more_rows for seed in range(options.draws)]
    cases.sort(key=lambda case: (-case[1], case[2]))
    return [
        {"kind": "dense", "model": model, "law": law, "rows": n, "draw": seed}
        for law, n, seed in cases
        for model in models(options)
    ]


def largest_tasks(options: argparse.Namespace) -> list[Task]:
    """One fit of very many rows in float32, with four threads."""
    task = {"kind": "dense", "model": "auto", "law": options.laws[0], "rows": options.largest, "draw": 0}
    return [task | {"dtype": "float32", "n_jobs": 4}]


def table_tasks(options: argparse.Namespace) -> list[Task]:
    """The three largest tables, with as many draws as the distributions."""
    return [
        {"kind": "table", "model": model, "table": table, "draw": seed, "folder": str(options.tables)}
        for seed in range(options.draws)
        for table in TABLES
        for model in models(options)
    ]


def models(options: argparse.Namespace) -> tuple[str, ...]:
    return MODELS if options.before else MODELS[:2]


def reference(task: Task, known: dict[str, Task]) -> list[Task]:
    """One fit of LightGBM, when the numbers of rounds of the default and of `boosted` are known."""
    if task["model"] not in ("auto", "boosted") or "dtype" in task:
        return []
    found = [known.get(key(task | {"model": model})) for model in ("auto", "boosted")]
    if any(result is None for result in found):
        return []
    rounds = max(1, *(result["rounds"] for result in found if result))
    other = task | {"model": "lightgbm", "rounds": rounds}
    return [] if key(other) in known else [other]


def gathered(tasks: list[Task], known: dict[str, Task]) -> list[Task]:
    """The means of all draws of a case, one entry for each model, with ratios to LightGBM."""
    cases: dict[tuple[Any, ...], list[Task]] = {}
    for task in tasks:
        name = task.get("law", task.get("table"))
        cases.setdefault((name, task.get("rows")), []).append(task)
    found = []
    for (name, rows), some in cases.items():
        means = [_mean(some, model, known) for model in (*MODELS, "lightgbm")]
        fits = [fit for fit in means if fit is not None]
        entry: Task = {"name": name, "rows": rows or (fits[0]["rows"] if fits else 0), "fits": fits}
        by = {fit["model"]: fit for fit in fits}
        if "auto" in by and "lightgbm" in by:
            for out, part in (("fit_ratio", "seconds"), ("predict_ratio", "predict_microseconds")):
                entry[out] = by["auto"][part] / by["lightgbm"][part]
        found.append(entry)
    return [entry for entry in found if entry["fits"]]


def _mean(tasks: list[Task], model: str, known: dict[str, Task]) -> Task | None:
    draws = sorted({task["draw"] for task in tasks})
    keys = [key(tasks[0] | {"model": model, "draw": seed}) for seed in draws]
    results = [known[one] for one in keys if one in known]
    if not results:
        return None
    numbers = [name for name, value in results[0].items() if isinstance(value, (int, float))]
    entry: Task = {"model": model, "draws": len(results)}
    entry |= {name: float(np.mean([result[name] for result in results])) for name in numbers}
    entry["aucs"] = [result["auc"] for result in results]
    if "prior" in results[0] and "true_prior" in results[0]:
        entry["prior_errors"] = [result["prior"] - result["true_prior"] for result in results]
    if any(result.get("members") for result in results):
        entry["members"] = [result["members"] for result in results]
    if "described" in results[0]:
        entry["described"] = results[0]["described"]
    return entry


def exponents(cases: list[Task]) -> dict[str, float]:
    """Exponents of s ~ n ** exponent, between the two largest sizes of the first distribution."""
    ends = sorted((case for case in cases if case["name"] == cases[0]["name"]), key=lambda c: c["rows"])[-2:]
    if len(ends) < 2:
        return {}
    growth = np.log(ends[1]["rows"] / ends[0]["rows"])
    seconds = [{fit["model"]: fit["seconds"] for fit in end["fits"]} for end in ends]
    return {
        model: float(np.log(seconds[1][model] / seconds[0][model]) / growth)
        for model in seconds[0]
        if model in seconds[1]
    }


def sparse(run: Runner, rows: int) -> Task:
    tasks: list[Task] = [{"kind": "sparse", "model": one, "rows": rows} for one in ("auto", "classifier")]
    known = run.all(tasks)
    fits = [task | known[key(task)] for task in tasks if key(task) in known]
    ratio = {"sparse_ratio": fits[0]["seconds"] / fits[1]["seconds"]} if len(fits) == 2 else {}
    return {"sparse": fits} | ratio


def jobs(options: argparse.Namespace) -> Task:
    """Wall-clock seconds with one and two threads, measured while nothing else runs."""
    run = Runner(records=options.records)
    found = {
        n: [run({"kind": "jobs", "rows": min(options.rows), "n_jobs": n, "draw": i}) for i in range(3)]
        for n in (1, 2)
    }
    least = {n: min((r["clock_seconds"] for r in some if r), default=np.nan) for n, some in found.items()}
    return {"jobs": {"rows": min(options.rows), "one": least[1], "two": least[2]}}


def files(rows: int) -> Task:
    """A Parquet file that is read completely, or in batches."""
    with tempfile.TemporaryDirectory() as folder:
        write_classifier(Path(folder) / "clf.drpu")
        write_rows(Path(folder) / "rows.parquet", rows)
        run = Runner()
        found = [run({"kind": "file", "way": way, "folder": folder}) or {} for way in WAYS]
        size = (Path(folder) / "rows.parquet").stat().st_size / 2**20
    empty = found[0]["peak_mebibytes"]
    ways = [one | {"above_empty_mebibytes": one["peak_mebibytes"] - empty} for one in found[1:]]
    return {"file_rows": rows, "file_mebibytes": size, "ways": ways}


def text(mebibytes: float) -> Task:
    """A CSV file that commands read in batches."""
    with tempfile.TemporaryDirectory() as folder:
        write_classifier(Path(folder) / "clf.drpu")
        write_text(Path(folder) / "few.csv", 0, group=1000)
        rows = write_text(Path(folder) / "rows.csv", mebibytes)
        run = Runner()
        found = [run({"kind": "text", "way": way, "folder": folder}) or {} for way in COMMANDS]
        size = (Path(folder) / "rows.csv").stat().st_size / 2**20
    few = found[0]["peak_mebibytes"]
    commands = [one | {"above_few_mebibytes": one["peak_mebibytes"] - few} for one in found[1:]]
    return {"text_rows": rows, "text_mebibytes": size, "text_ways": commands}


def engines(run: Runner, options: argparse.Namespace) -> Task:
    """Fit, count and score of Parquet files, in batches and on engines, by the number of rows."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.engine_rows:
            parts = Path(folder) / str(rows)
            parts.mkdir()
            write_parts(parts, rows)
            for engine in ENGINES:
                task = {"kind": "engine", "engine": engine, "rows": rows, "fit_rows": options.fit_rows}
                result = run(task | {"folder": folder})
                if result is not None:
                    results.append({"engine": engine, "rows": rows} | result)
    return {"engines": results, "engine_fit_rows": options.fit_rows, "engine_sample": SAMPLE}


def measured(options: argparse.Namespace) -> Task:
    """All parts that were asked for."""
    run = Runner(options.processes, records=options.records, before=options.before, seconds=options.seconds)
    parts = {
        "largest": largest_tasks(options) if "largest" in options.parts else [],
        "dense": dense_tasks(options) if "dense" in options.parts else [],
        "tables": table_tasks(options) if "tables" in options.parts and options.tables else [],
    }
    known = run.all([task for tasks in parts.values() for task in tasks], reference)
    content: Task = {part: gathered(tasks, known) for part, tasks in parts.items() if tasks}
    if content.get("dense"):
        content["exponents"] = exponents(content["dense"])
    if "sparse" in options.parts:
        content |= sparse(run, options.sparse_rows)
    if "jobs" in options.parts:
        content |= jobs(options)
    if "files" in options.parts:
        content |= files(options.file_rows)
    if "text" in options.parts:
        content |= text(options.text_mebibytes)
    if "engines" in options.parts:
        content |= engines(run, options)
    return content


def machine() -> str:
    """The processor, the number of cores and the memory."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{name or platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000], help="with every law")
    parser.add_argument("--more-rows", type=int, nargs="*", default=[10_000], help="with the first law")
    parser.add_argument("--laws", nargs="+", choices=LAWS, default=list(LAWS))
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--largest", type=int, default=10_000_000, help="rows of the fit in float32")
    parser.add_argument("--tables", type=Path, help="folder of Parquet files with a target y")
    parser.add_argument("--sparse-rows", type=int, default=100_000)
    parser.add_argument("--file-rows", type=int, default=2_000_000)
    parser.add_argument("--text-mebibytes", type=float, default=300, help="size of the CSV file")
    parser.add_argument("--engine-rows", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    parser.add_argument("--fit-rows", type=int, default=10**6, help="most rows of a fit on an engine")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="the rest is kept")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--before", type=Path, help="source folder of an older version")
    parser.add_argument("--records", type=Path, help="file of finished measurements")
    parser.add_argument("--note", help="what readers should know about this run")
    parser.add_argument("--seconds", type=float, default=np.inf, help="start nothing later than this")
    options = parser.parse_args()
    command = command_of("scale")
    old = read_results("scale") if (RESULTS / "scale.json").exists() else {}
    kept = {} if set(options.parts) == set(PARTS) else old
    content: Task = {k: v for k, v in kept.items() if k not in ("command", "versions")}
    content |= {"columns": COLUMNS} | measured(options)
    run = {"command": command, "commit": commit_of_code(), "machine": machine(), "versions": versions()}
    if options.note:
        run["note"] = options.note
    content["runs"] = kept.get("runs", {}) | dict.fromkeys(options.parts, run)
    print("wrote", write_results("scale", command, **content))


if __name__ == "__main__":
    main()
