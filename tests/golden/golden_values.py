"""How the values of cases are summarised, written, read and compared."""

from __future__ import annotations

import importlib.metadata
import json
import math
import platform
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import threadpoolctl

VALUES = Path(__file__).parent / "values.json"
ROWS = 4  # values of an array that are written, beside the number of its values and their exact sum
LIBRARIES = ("numpy", "scipy", "scikit-learn", "lightgbm", "torch", "onnxruntime", "pandas")

Value = float | str | list[Any] | dict[str, Any]
Case = Callable[[], dict[str, Any]]


# -- from a result to numbers ---------------------------------------------------------------


def plain(value: Any) -> Value:
    """A result as plain data: of an array its size, its sum and a few values."""
    if value is None or isinstance(value, str):
        return str(value)
    if isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _fields(value)}
    if isinstance(value, np.ndarray) and value.dtype.kind not in "OU":
        return _summary(value)
    items = value.tolist() if isinstance(value, np.ndarray) else value
    return [plain(item) for item in items]


def _fields(value: Any) -> list[str]:
    """The fields of a result; of a value with limits those alone, and how they were found."""
    names = [field.name for field in fields(value)]
    limits = ("value", "low", "high", "level", "method", "identified")
    return [name for name in names if name in limits] if {"low", "high"} <= set(names) else names


def _summary(array: np.ndarray) -> list[float]:
    numbers = np.asarray(array, dtype=np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    step = max(1, len(numbers) // ROWS)
    return [float(array.size), math.fsum(finite), *numbers[::step][:ROWS].tolist()]


@contextmanager
def _steady() -> Iterator[None]:
    """One thread, because the order of sums depends on their number; warnings are not the subject."""
    try:
        import torch
    except ImportError:
        torch = None
    threads = 1 if torch is None else torch.get_num_threads()
    with threadpoolctl.threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if torch is not None:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)


def values_of(case: Case) -> dict[str, Value]:
    """The results of a case as they are written."""
    with _steady():
        return {name: plain(value) for name, value in case().items()}


# -- the file -------------------------------------------------------------------------------


def this_platform() -> dict[str, str]:
    """What may change the last digits: versions, the processor and the code paths of its libraries."""
    found = {name: _version(name) for name in LIBRARIES}
    blas = {
        pool.get("architecture", "") for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"
    }
    return found | {"cpu": _processor(), "blas": ", ".join(sorted(blas))}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name).partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return "none"


def _processor() -> str:
    """Family and model of the processor; virtual machines give the same name to different ones."""
    about = Path("/proc/cpuinfo")
    if not about.exists():
        return f"{platform.machine()} {platform.processor()}"
    found = dict(re.findall(r"^(vendor_id|cpu family|model|model name)\s*:\s*(.*)$", about.read_text(), re.M))
    return " ".join([platform.machine(), *(found[key] for key in sorted(found))])


def read() -> dict[str, Any]:
    """The file: ``platform`` and ``cases``."""
    found: dict[str, Any] = json.loads(VALUES.read_text())
    return found


def write(cases: dict[str, dict[str, Value]]) -> None:
    """Write the file; numbers have as many digits as they need to be read back exactly."""
    lines = ["{", f'"platform": {json.dumps(this_platform())},', '"cases": {']
    for i, (name, values) in enumerate(cases.items()):
        rows = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in values.items())
        lines.append(f"{json.dumps(name)}: {{\n{rows}\n}}{',' if i < len(cases) - 1 else ''}")
    VALUES.write_text("\n".join([*lines, "}}", ""]))


# -- comparison -----------------------------------------------------------------------------


def differences(old: dict[str, Value], new: dict[str, Value], *, tolerance: float = 0.0) -> list[str]:
    """One line for each value that is not the same, up to ``tolerance`` (relative)."""
    found = [f"{name}: only in the file" for name in old.keys() - new.keys()]
    found += [f"{name}: not in the file" for name in new.keys() - old.keys()]
    for name in [name for name in old if name in new]:
        if not _same(old[name], new[name], tolerance):
            found.append(f"{name}: was {old[name]}, is {new[name]}")
    return found


def _same(old: Any, new: Any, tolerance: float) -> bool:
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(_same(a, b, tolerance) for a, b in zip(old, new, strict=True))
    if isinstance(old, dict) and isinstance(new, dict):  # a field that is new is no difference
        return all(name in new and _same(old[name], new[name], tolerance) for name in old)
    if not isinstance(old, float) or not isinstance(new, float):
        return bool(old == new)
    if math.isnan(old) or math.isnan(new):
        return math.isnan(old) and math.isnan(new)
    return old == new or math.isclose(old, new, rel_tol=tolerance, abs_tol=tolerance)
