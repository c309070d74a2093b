"""Result files: measurements, the command that made them, and versions. And the options of commands."""

from __future__ import annotations

import argparse
import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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
    record = {"command": command, "versions": versions(), **content}
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n")
    return path


def read_results(name: str) -> dict[str, Any]:
    """The content that :func:`write_results` wrote last."""
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
