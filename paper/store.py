"""Result files: one JSON a result, written whole or not at all."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import drpu

__all__ = ["RESULTS", "Key", "read_result", "read_results", "versions", "write_result"]

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a result is a result of."""

    experiment: str
    dataset: str
    flavour: str
    method: str
    trial: int
    labels: str | None = None
    n_positive: int | None = None
    protocol: str = "full"

    @property
    def name(self) -> str:
        """Name of its file."""
        parts: list[Any] = [self.experiment, self.dataset, self.labels]
        parts += ["reduced" if self.protocol == "reduced" else None, self.flavour, self.method]
        parts += [f"n{self.n_positive}" if self.n_positive else None, f"{self.trial:02d}"]
        return "-".join(str(part) for part in parts if part is not None) + ".json"

    def fields(self) -> dict[str, Any]:
        """Its parts, by the names they have in the file."""
        return {name: getattr(self, name) for name in self.__slots__}


def write_result(key: Key, content: dict[str, Any], folder: Path) -> Path:
    """Write one result; a reader never sees half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / key.name
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(json.dumps(key.fields() | content, indent=1) + "\n")
    partial.replace(path)
    return path


def read_result(key: Key, folder: Path = RESULTS) -> dict[str, Any] | None:
    """One result, or None where there is none yet."""
    path = folder / key.name
    if not path.is_file():
        return None
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def read_results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """All results of a folder, in the order of their names."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*-*.json"))]


def versions(device: str) -> dict[str, str]:
    """What the numbers were made with."""
    import torch

    cuda = device.startswith("cuda")
    return {
        "drpu": drpu.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }
