"""Run the steps of the workflows that need Linux only, as GitHub would.

    python tools/steps.py                   # every "run" of every job on ubuntu-latest, each once
    python tools/steps.py weekly --list     # which those of one workflow are
    python tools/steps.py --only test lint  # only commands that contain one of these words

The jobs of a matrix run once, with the interpreter that "make" finds. A step that fails does not stop the
others, and the exit status says whether one did. Steps that use an action of GitHub are left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = ROOT / ".github" / "workflows"


def main() -> None:
    """Run or list the steps that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("workflow", nargs="*", help="release, test, weekly; all if none is named")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="commands that contain one of these words")
    asked = parser.parse_args()
    names = asked.workflow or sorted(path.stem for path in WORKFLOWS.glob("*.yml"))

    failed = []
    for command, environment in linux_steps(names).items():
        if asked.only and not any(word in command for word in asked.only):
            continue
        if asked.list:
            print(command)
        elif not succeeds(command, dict(environment)):
            failed.append(command)
    if failed:
        sys.exit("failed: " + "; ".join(failed))


def linux_steps(names: list[str]) -> dict[str, tuple[tuple[str, str], ...]]:
    """Each command of a job on ubuntu-latest, in the order of the files, with its environment."""
    steps = {}
    for name in names:
        jobs = yaml.safe_load((WORKFLOWS / f"{name}.yml").read_text())["jobs"]
        for job in jobs.values():
            if job["runs-on"] != "ubuntu-latest":
                continue
            for step in job["steps"]:
                if "run" in step:
                    steps.setdefault(step["run"], tuple(step.get("env", {}).items()))
    return steps


def succeeds(command: str, environment: dict[str, str]) -> bool:
    """Whether the command ends with status 0 in a shell as GitHub starts it."""
    # Expressions of GitHub have no value here; the Makefile has a default for each variable.
    known = {name: value for name, value in environment.items() if "${{" not in str(value)}
    print(f"== {command}", flush=True)
    started = time.monotonic()
    shell = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", command]
    status = subprocess.run(shell, cwd=ROOT, env=os.environ | known, check=False).returncode
    print(f"== {command}: status {status}, {time.monotonic() - started:.0f} s", flush=True)
    return status == 0


if __name__ == "__main__":
    main()
