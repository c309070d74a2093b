"""nnPU, PUa and VPU on the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["run_job"]


def run_job(job: Any, images: Any, splits: Sequence[Any], options: Any) -> None:
    """Train the trials of one rival and write a result for each."""
    raise NotImplementedError
