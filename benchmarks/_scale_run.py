"""Tasks in parallel processes; every result is recorded as soon as it is computed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

Task = dict[str, Any]


def key(task: Task) -> str:
    """A name of the task, which does not depend on the order of its fields or on the location of files."""
    return json.dumps({k: task[k] for k in sorted(task) if k not in ("folder", "rounds")})


def command_of(name: str) -> str:
    """The command of this process, without places on this machine."""
    arguments = [Path(one).name if os.sep in one else one for one in sys.argv[1:]]
    return f"python -m benchmarks.{name} {shlex.join(arguments)}".strip()


class Runner:
    """Runs each task in a separate process, and reads the results of an earlier run.

    ``before`` is a source folder of an older version: tasks of the model ``before`` import
    that one. No task is started later than ``seconds`` after the runner was made.
    """

    def __init__(
        self,
        processes: int = 1,
        *,
        records: Path | None = None,
        before: Path | None = None,
        seconds: float = float("inf"),
    ) -> None:
        self.processes, self.records, self.before = processes, records, before
        self.end = time.monotonic() + seconds
        self.known: dict[str, Task] = {}
        if records is not None and records.exists():
            for line in records.read_text().splitlines():
                record = json.loads(line)
                self.known[key(record["task"])] = record["result"]

    def __call__(self, task: Task) -> Task | None:
        """The result of one task; None if it failed or came too late."""
        return self.all([task]).get(key(task))

    def all(
        self, tasks: Iterable[Task], then: Callable[[Task, dict[str, Task]], list[Task]] | None = None
    ) -> dict[str, Task]:
        """Results by the keys of tasks; ``then`` names tasks that follow from a finished one."""
        todo, started = deque(tasks), set()
        running: dict[Future[Task | None], Task] = {}
        with ThreadPoolExecutor(self.processes) as pool:
            while todo or running:
                while todo and len(running) < self.processes:
                    task = todo.popleft()
                    if key(task) not in started:
                        started.add(key(task))
                        running[pool.submit(self._run, task)] = task
                if not running:
                    break
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    task, result = running.pop(future), future.result()
                    if result is not None:
                        self._remember(task, result)
                    todo.extendleft(then(task, self.known) if then else [])
        return self.known

    def _remember(self, task: Task, result: Task) -> None:
        if key(task) in self.known:
            return
        self.known[key(task)] = result
        if self.records is not None:
            with self.records.open("a") as lines:
                lines.write(json.dumps({"task": task, "result": result}) + "\n")

    def _run(self, task: Task) -> Task | None:
        if key(task) in self.known:
            return self.known[key(task)]
        if time.monotonic() > self.end:
            return None
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks._scale_fits", json.dumps(task)]
        done = subprocess.run(command, env=self._environment(task), capture_output=True, text=True)
        if done.returncode:
            print("failed:", task, done.stderr[-600:], flush=True)
            return None
        result: Task = json.loads(done.stdout.splitlines()[-1])
        shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in result.items()}
        print({k: v for k, v in task.items() if k != "folder"}, shown, flush=True)
        return result

    def _environment(self, task: Task) -> dict[str, str]:
        env = os.environ | {"OMP_NUM_THREADS": str(task.get("n_jobs", 1))}
        if task.get("model") == "before":
            env["PYTHONPATH"] = os.pathsep.join([str(self.before), env.get("PYTHONPATH", "")])
        return env
