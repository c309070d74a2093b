"""Result files: measurements, the command that made them, and versions."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch")


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
