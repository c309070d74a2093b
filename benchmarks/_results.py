"""Result files: measurements, their command, commit and versions. And the options of commands."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PACKAGES = ("drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch")


def command_line(doc: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the benchmark.

    Folders that a benchmark cannot do without are required options: ``python -m benchmarks`` leaves out
    those that end with the exit status of a wrong command line.
    """
    return argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)


def write_results(name: str, command: str, **content: Any) -> Path:
    """Write ``benchmarks/results/NAME.json`` and return its path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    record = {"command": command, "commit": commit_of_code(), "versions": versions(), **content}
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    return path


def read_results(name: str) -> dict[str, Any]:
    """The content that :func:`write_results` wrote last."""
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def commit_of_code() -> str | None:
    """The last commit that changed the library, with "+" for later changes; None without a checkout.

    It is not the last commit of all, which a rebase may replace before it is published.
    """
    commit = git("log", "-1", "--format=%h", "--abbrev=10", "--", "src")
    if not commit:
        return None
    changed = git("status", "--porcelain", "--", "src")
    return f"{commit}+" if changed else commit


def git(*arguments: str) -> str | None:
    """What git prints; None if it fails or is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
