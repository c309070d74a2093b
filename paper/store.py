"""Result files: one JSON Lines file for each experiment and flavour, one line for each trial."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import drpu

__all__ = ["RESULTS", "Key", "missing", "read_result", "read_results", "versions", "write_result"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identifies one result."""

    experiment: str
    dataset: str
    flavour: str
    method: str
    trial: int
    labels: str | None = None
    n_positive: int | None = None
    protocol: str = "full"

    @classmethod
    def of(cls, result: dict[str, Any]) -> Key:
        """The key of a result that was read from a file."""
        return cls(**{name: result[name] for name in cls.__slots__})

    @property
    def name(self) -> str:
        """All parts in one string."""
        parts: list[Any] = [self.experiment, self.dataset, self.labels]
        parts += ["reduced" if self.protocol == "reduced" else None, self.flavour, self.method]
        parts += [f"n{self.n_positive}" if self.n_positive else None, f"{self.trial:02d}"]
        return "-".join(str(part) for part in parts if part is not None)

    @property
    def file(self) -> str:
        """Name of the file that contains the result as a line."""
        return f"{self.experiment}-{self.flavour}.jsonl"

    def fields(self) -> dict[str, Any]:
        """Its parts, with the names used in the file."""
        return {name: getattr(self, name) for name in self.__slots__}


def write_result(key: Key, content: dict[str, Any], folder: Path) -> None:
    """Add one result to its file, or replace the line of an earlier result.

    A new line is appended in a single write, so that processes which run different trials can share a
    file, and a run that is stopped loses no trial that it has finished.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / key.file
    line = json.dumps(key.fields() | content, separators=(",", ":")) + "\n"
    found = _read(path)
    if key in found:
        lines = [
            line if Key.of(r) == key else json.dumps(r, separators=(",", ":")) + "\n" for r in found.values()
        ]
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text("".join(lines))
        partial.replace(path)
        return
    torn = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" + line if torn else line)


def read_result(key: Key, folder: Path = RESULTS) -> dict[str, Any] | None:
    """One result, or None if it does not exist yet."""
    return _read(folder / key.file).get(key)


def read_results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All results of a folder, in the order of their names."""
    found = {key: result for path in folder.glob("*.jsonl") for key, result in _read(path).items()}
    return [found[key] for key in sorted(found, key=lambda key: key.name)]


def missing(keys: list[Key], folder: Path) -> list[Key]:
    """The keys without a result in the folder."""
    known = {file: _read(folder / file) for file in {key.file for key in keys}}
    return [key for key in keys if key not in known[key.file]]


def _read(path: Path) -> dict[Key, dict[str, Any]]:
    """The results in a file; a line that was cut off when a run was stopped is left out."""
    found: dict[Key, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[Key.of(result)] = result
    return found


def versions(device: str = "auto") -> dict[str, str]:
    """Versions of the software, and the device, that the numbers were computed with."""
    import torch

    cuda = device != "cpu" and torch.cuda.is_available()
    return {
        "drpu": drpu.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }
