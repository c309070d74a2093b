"""Predictions and locks in a forked process.

LightGBM and torch compute with the threads of OpenMP. These do not exist in a forked child, and
work that is given to them there never ends. So a child uses one thread. A new process
(``multiprocessing.get_context("spawn")``) can use all of them.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

_STATE = {"forked": False, "torch": False}  # whether torch has been told to use one thread


def _after_fork() -> None:
    _STATE["forked"] = True
    _STATE["torch"] = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_here(threads: int) -> int:
    """``threads``, or one in a forked process."""
    if _STATE["forked"]:
        return 1
    return threads


def torch_threads_here() -> None:
    """Let torch use one thread in a forked process; call this before it computes."""
    if _STATE["forked"] and not _STATE["torch"] and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
        _STATE["torch"] = True


class ObjectLock:
    """The lock of one object; in a forked child it is free, whoever held it in the parent.

    A deep copy of the object, or what is read from a pickle, has a lock of its own.
    """

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if self._process != os.getpid():
            self._renew()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectLock, ()
