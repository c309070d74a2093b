"""A progress bar with the estimated remaining time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

__all__ = ["progress"]

Item = TypeVar("Item")


def progress(items: Sequence[Item], sizes: Sequence[int], label: str) -> Iterator[Item]:
    """``items`` under a bar with the remaining time, each counted by its size."""
    total, done, start = sum(sizes), 0, time.perf_counter()
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        for item, size in zip(items, sizes, strict=True):
            yield item
            done += size
            left = (time.perf_counter() - start) / done * (total - done)
            print(f"{label}: {done}/{total}, about {left:.0f} s left", file=sys.stderr, flush=True)
        return
    with tqdm(total=total, desc=label) as bar:
        for item, size in zip(items, sizes, strict=True):
            yield item
            bar.update(size)
