"""Failures with hostile artifacts, killed writers and concurrent threads.

    python -m benchmarks.hardening [--edits 20000] [--kills 1250] [--counts 32000000]

Edits: artifacts of every kind with edited parts and correct digests are loaded and used in a separate
process. Crashes, hangs of more than 5 s of processor time, errors of other types than ``ArtifactError``,
and allocations of more than four times those of the unedited artifact are counted. A run that is ended by
SIGTERM keeps what it has counted.

Kills: processes that save an artifact, write predictions, write a report or ask questions are killed, half
of them at random moments and half of them while a file is written; updates of a monitor are interrupted.
Only kills of processes that still ran are counted. Files that are neither the old nor the new one, answers
that are lost, and temporary files that are left after the next run, are counted.

Memory: every array of every kept class is grown as far as its rule allows, and what reads and uses the file
is compared with the promise of SECURITY.md.

Uses: all threads on one core, audits of equal rows and of few rows, and ONNX graphs row by row.

Counts: eight threads add scores and merge tails; the sum must be exact.
"""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import threading
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._fuzz import all_steps, artifacts, edited, outcome
from benchmarks._memory import memory
from benchmarks._results import RESULTS, command_line, commit_of_code, read_results, write_results
from benchmarks._uses import odd_uses
from drpu import DRPUClassifier, KernelRatio, PriorMonitor, ScoreTails, load, make_gaussian_pu, save

HANG = 5.0  # seconds of processor time
SLOWER = 10  # how many times as long an edit may take whose allocations are traced
FACTOR, SLACK = 4.0, 2**21  # limit of allocations relative to the unedited artifact; the slack is for Python
TRACED = 10  # for one edit in ten, allocations are traced exactly
THREADS = 8
STOPPED = "stopped"
PARTS = ("edits", "kills", "counts", "memory", "uses")


# -- edits -----------------------------------------------------------------------------------


Task = tuple[str, int]  # a kind and a seed
Done = tuple[Task, str, float, float]  # outcome, seconds, and memory relative to the unedited artifact


def fuzz(edits: int, seed: int) -> dict[str, Any]:
    """Outcomes of edits, kind by kind."""
    honest = artifacts()
    # The default has ten times as many parts as the others, so it is used in every fifth round.
    rounds = range(-(-edits * 5 // (5 * len(honest) - 4)))
    todo = [(kind, seed + i) for i in rounds for kind in honest if kind != "auto" or i % 5 == 0]
    counts = {kind: Counter[str]() for kind in honest}
    faults, slowest, largest = [], 0.0, 0.0
    end = None
    while todo and end != STOPPED:
        done, end = _run_worker(honest, todo)
        for (kind, number), what, seconds, growth in done:
            name = what if what in ("refused", "works") else "other_errors"
            name = "hangs" if seconds > HANG else name
            counts[kind].update({"edits": 1, name: 1, "large_allocations": int(growth > FACTOR)})
            slowest, largest = max(slowest, seconds), max(largest, growth)
            if name in ("hangs", "other_errors") or growth > FACTOR:
                faults.append(
                    f"{kind}, seed {number}: {what}, {growth:.1f} times the memory, {seconds:.1f} s"
                )
        todo = todo[len(done) :]
        if end in ("crashes", "hangs"):  # the edit that ended the worker
            counts[todo[0][0]].update({"edits": 1, end: 1})
            faults.append(f"{todo[0]}: {end}")
            print(faults[-1], flush=True)
            todo = todo[1:]
    total = dict.fromkeys(("edits", "refused", "works", "crashes", "hangs", "other_errors"), 0)
    total |= {"large_allocations": 0}
    for found in counts.values():
        for name, n in found.items():
            total[name] += n
    extremes = {"slowest_seconds": round(slowest, 3), "memory_factor": round(largest, 2)}
    return {"total": total | extremes, "kinds": {k: dict(v) for k, v in counts.items()}, "faults": faults}


def _run_worker(honest: dict[str, bytes], tasks: list[Task]) -> tuple[list[Done], str | None]:
    """Outcomes until the worker is done, dies or hangs."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    worker = context.Process(target=_work, args=(theirs, honest, tasks))
    worker.start()
    theirs.close()
    done: list[Done] = []
    try:
        while True:
            used = _processor_seconds(worker.pid)
            while not ours.poll(1.0):
                if not worker.is_alive():
                    return done, "crashes"
                most = HANG * (SLOWER if len(done) % TRACED == 0 else 1)
                if done and _processor_seconds(worker.pid) - used > most:
                    return done, "hangs"
            try:
                found = ours.recv()
            except EOFError:
                return done, "crashes"
            if found is None:
                return done, None
            done.append(found)
            if len(done) % 1000 == 0:
                print(f"{len(done)} edits, {len(tasks) - len(done)} to go", flush=True)
    except KeyboardInterrupt:
        return done, STOPPED
    finally:
        worker.kill()
        worker.join()


def _processor_seconds(pid: int | None) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _work(pipe: Any, honest: dict[str, bytes], tasks: list[Task]) -> None:
    base = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, content in honest.items():
            outcome(kind, content, Path(folder), every=True)  # imports what it needs
        for kind, content in honest.items():
            for every in (False, True):  # an edited file is compared with the same steps
                base[kind, every] = _peak(kind, content, Path(folder), every)
        most = _most_memory()
        for i, task in enumerate(tasks):
            kind, content = task[0], edited(honest[task[0]], task[1])
            start = time.process_time()
            what = outcome(kind, content, Path(folder))
            # the memory of the process also shows large allocations, and takes no time
            seconds, peak = time.process_time() - start, _most_memory() - most
            if i % TRACED == 0:
                peak = max(peak, _peak(kind, content, Path(folder), all_steps(content)))
            most = _most_memory()
            pipe.send((task, what, seconds, max(0.0, peak - SLACK) / base[kind, all_steps(content)]))
    pipe.send(None)


def _most_memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0


def _peak(kind: str, content: bytes, folder: Path, every: bool) -> float:
    tracemalloc.start()
    outcome(kind, content, folder, every=every)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


# -- kills -----------------------------------------------------------------------------------


def _save(old: Path, _: Path, target: Path) -> None:
    save(load(old), target)


def _predict(old: Path, table: Path, target: Path) -> None:
    _command("predict", old, table, "--out", target)


def _report(old: Path, _: Path, target: Path) -> None:
    _command("report", old, "--out", target)


def _command(*words: Any) -> None:
    from drpu.cli import main as run

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        run([str(word) for word in words])


Writer = Callable[[Path, Path, Path], None]
_WRITERS: dict[str, Writer] = {"save": _save, "predict": _predict, "report": _report}


def kill(kills: int, seed: int, names: list[str]) -> dict[str, Any]:
    """Files after writers were killed, and after the next run; each writer has the same number of kills."""
    rng = random.Random(seed)
    each = -(-kills // len(names))
    counts: dict[str, Any] = {}
    for name in names:
        if name == "monitor":
            counts[name] = _interrupt_monitor(each, rng)
        elif name == "ask":
            counts[name] = _kill_ask(each, rng)
        else:
            counts[name] = _kill_writer(_WRITERS[name], each, rng)
        print(f"{name:15} {counts[name]}", flush=True)
    return counts


def _kill_writer(write: Writer, kills: int, rng: random.Random) -> dict[str, int]:
    """Child processes write the same file, and are killed at random moments."""
    context = multiprocessing.get_context("fork")
    done = lost = half = left = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old, table, target = folder / "old.drpu", folder / "rows.csv", folder / "out" / "target.csv"
        target.parent.mkdir()
        save(_classifier(), old)
        table.write_text("a,b\n" + "0.5,-0.5\n" * 2000)
        seconds = _run_child(context, write, (old, table, target))
        whole = target.read_bytes()
        while done < kills:
            running, writing = _killed(context, write, (old, table, target), seconds, rng)
            done += running
            left += writing
            lost += not target.exists()
            half += target.exists() and target.read_bytes() != whole
        _run_child(context, write, (old, table, target))
        stale = sum(path != target for path in target.parent.iterdir())
    return {
        "kills": kills,
        "in_mid_write": left,
        "lost": lost,
        "half_written": half,
        "stale_after_next_run": stale,
    }


def _killed(
    context: Any, write: Writer, paths: tuple[Path, Path, Path], seconds: float, rng: random.Random
) -> tuple[bool, bool]:
    """Start a writer and kill it; whether it was still running, and had begun a file."""
    target = paths[-1]
    before = {target, *target.parent.iterdir()}
    child = context.Process(target=write, args=paths)
    child.start()
    if rng.random() < 0.5:  # at any moment, or in the middle of a write
        time.sleep(rng.random() * seconds)
    else:
        time.sleep(rng.random() * seconds / 2)
        while child.is_alive() and before.issuperset(target.parent.iterdir()):
            pass
        time.sleep(rng.random() * 2e-3)
    child.kill()
    child.join()
    writing = not before.issuperset(target.parent.iterdir())
    return child.exitcode == -signal.SIGKILL, writing


def _ask(old: Path, table: Path, target: Path) -> None:
    sys.stdin = io.StringIO("y\nn\n" * 30)
    _command("ask", old, table, "--n", 20, "--out", target)


def _kill_ask(kills: int, rng: random.Random) -> dict[str, int]:
    """Conversations that are killed at random moments, and go on with the same file."""
    context = multiprocessing.get_context("fork")
    done = lost = broken = finished = left = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old, table, target = folder / "old.drpu", folder / "rows.csv", folder / "out" / "answers.csv"
        target.parent.mkdir()
        save(_classifier(), old)
        rows = np.random.default_rng(0).normal(0.5, 1.5, size=(500, 2)).tolist()
        table.write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
        seconds = _run_child(context, _ask, (old, table, target))
        target.unlink()
        answers = 0
        while done < kills:
            running, writing = _killed(context, _ask, (old, table, target), seconds, rng)
            done += running
            left += writing
            now = _answers_in(target)
            broken += now < 0
            lost += 0 <= now < answers
            answers = max(now, 0)
            if answers >= 20 or now < 0:
                finished += now >= 0
                target.unlink()
                answers = 0
        _run_child(context, _ask, (old, table, target))
        stale = sum(path != target for path in target.parent.iterdir())
    return {
        "kills": kills,
        "in_mid_write": left,
        "finished_conversations": finished,
        "lost_answers": lost,
        "half_written": broken,
        "stale_after_next_run": stale,
    }


def _answers_in(path: Path) -> int:
    """Number of answers in a file; -1 if it is not a whole table, 0 if there is none."""
    if not path.exists():
        return 0
    header, *lines = csv.reader(path.read_text().splitlines())
    if not lines or any(len(line) != len(header) for line in lines):
        return -1
    place = header.index("drpu_label")
    return sum(bool(line[place]) for line in lines)


def _run_child(context: Any, write: Any, arguments: Any) -> float:
    """Seconds that a writer takes if it is not killed."""
    start = time.perf_counter()
    child = context.Process(target=write, args=arguments)
    child.start()
    child.join()
    if child.exitcode:
        raise RuntimeError(f"{write.__name__} ended with {child.exitcode}")
    return time.perf_counter() - start


def _interrupt_monitor(interruptions: int, rng: random.Random) -> dict[str, int]:
    """Interrupt updates by an exception at a random line; after a retry a batch must be counted once."""
    classifier = _classifier()
    batch = np.random.default_rng(0).normal(size=(50, 2))
    wrong = 0
    for _ in range(interruptions):
        monitor = PriorMonitor(classifier, window=rng.choice([None, 120]))
        monitor.update(batch)
        steps = rng.randrange(1, 120)
        try:
            with _Interruption(steps):
                monitor.update(batch)
            updates = 2
        except _StopError:
            updates = 1 if len(monitor.readings) == 1 else 2
            if updates == 1:
                monitor.update(batch)
        wrong += monitor.tails.n != 100 or len(monitor.readings) != 2
    return {"interruptions": interruptions, "counted_wrongly": wrong}


class _StopError(Exception):
    pass


class _Interruption:
    """Raises after drpu.scale.monitor has run a number of lines in this thread."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *_: Any) -> None:
        sys.settrace(None)

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.endswith(("monitor.py", "tails.py")):
            return None
        if event == "line":
            self.steps -= 1
            if self.steps == 0:
                raise _StopError
        return self._trace


def _classifier() -> Any:
    data = make_gaussian_pu(100, 400, prior=0.4, separation=3, dimensions=2, random_state=0)
    model = KernelRatio(width=1.0, ridge=0.1, n_centres=10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DRPUClassifier(model, holdout=2, scenario="case-control", random_state=0).fit(*data.X_y())


# -- counts ----------------------------------------------------------------------------------


def count(n: int) -> dict[str, Any]:
    """Rows that eight threads counted, in each way of counting."""
    positive = np.random.default_rng(0).normal(1, 1, 500)
    each = n // THREADS // 100
    scores = np.random.default_rng(1).normal(0, 1, each)
    weight = np.ones(each)
    shard = ScoreTails(positive).update(scores)
    ways: dict[str, Callable[[ScoreTails], Any]] = {
        "update": lambda tails: tails.update(scores),
        "weighted update": lambda tails: tails.update(scores, weight),
        "merge": lambda tails: tails.merge(shard),
    }
    found = {}
    for name, way in ways.items():
        tails = ScoreTails(positive)
        workers = [threading.Thread(target=_repeat, args=(way, tails)) for _ in range(THREADS)]
        switch = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        sys.setswitchinterval(switch)
        expected = each * THREADS * 100
        found[name] = {"expected": expected, "lost": round(expected - float(tails.counts.sum()))}
    return found


def _repeat(way: Callable[[ScoreTails], Any], tails: ScoreTails) -> None:
    for _ in range(100):
        way(tails)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--edits", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=1_250)
    parser.add_argument("--counts", type=int, default=32_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), help="what to run")
    parser.add_argument("--writers", nargs="+", default=[*_WRITERS, "ask", "monitor"], help="what to kill")
    parser.add_argument("--dry", action="store_true", help="write no file; fail where edits found faults")
    options = parser.parse_args()
    work = {
        "edits": lambda: fuzz(options.edits, options.seed),
        "kills": lambda: kill(options.kills, options.seed, options.writers),
        "counts": lambda: count(options.counts),
        "memory": lambda: memory(artifacts()),
        "uses": lambda: odd_uses(options.seed),
    }
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    commit = commit_of_code()
    found = {name: work[name]() for name in options.parts}
    if options.dry:
        total = found["edits"]["total"]
        print(*found["edits"]["faults"], total, sep="\n")
        bad = sum(total[name] for name in ("crashes", "hangs", "other_errors", "large_allocations"))
        sys.exit(f"{bad} faults" if bad else 0)
    before = read_results("hardening") if (RESULTS / "hardening.json").exists() else {}
    results = {name: before[name] for name in work if name in before}
    if "kills" in found:  # those of other writers stay
        found["kills"] = results.get("kills", {}) | found["kills"]
    results |= found
    sizes = f"--edits {options.edits} --kills {options.kills} --counts {options.counts} --seed {options.seed}"
    command = f"python -m benchmarks.hardening {sizes}"
    if options.writers != parser.get_default("writers"):
        command += f" --writers {' '.join(options.writers)}"
    # Parts may be measured at different commits; a part without an entry is as old as the file.
    whole = {key: before.get(key) for key in ("command", "commit")}
    made = dict.fromkeys(results, whole) | before.get("made", {})
    for part in options.parts:
        run = {"command": f"{command} --parts {part}", "commit": commit}
        if part == "kills":  # each kind of writer may be measured at another commit
            made |= {f"kills of {name}": run for name in options.writers}
        else:
            made[part] = run
    if all(f"kills of {name}" in made for name in results.get("kills", {})):
        made.pop("kills", None)
    write_results("hardening", command, made=made, **results)


if __name__ == "__main__":
    main()
