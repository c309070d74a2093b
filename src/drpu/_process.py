"""The state of a process: floating-point errors in public calls, threads and locks after a fork.

Formulas of this package divide by zero and underflow where the result is the right limit. With
``np.seterr(all="raise")``, as some programs set it, each of these would be an error. So public
calls have NumPy's default state, whatever the caller has set. It is set once, by the outermost
public call: those inside only look at a variable. A traceback does not show the calls that set it.

LightGBM, torch and scikit-learn compute with the threads of OpenMP. These do not exist in a forked
child, and work that is given to them there never ends. So every public call in a child first sees
to it that its thread uses no others. A new process (``multiprocessing.get_context("spawn")``) can
use all of them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import wraps
from inspect import isfunction
from typing import Any, ParamSpec, TypeVar

import numpy as np

from drpu import _lazy

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound=type)

_ALSO_PUBLIC = ("__call__", "_repr_html_")
_INSIDE = ContextVar("drpu_inside", default=False)  # whether a public call is running


def default_errors(function: Callable[P, T]) -> Callable[P, T]:
    """The function, called with NumPy's default handling of floating-point errors."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            if _STATE["forked"]:
                _use_one_thread()
            if _INSIDE.get():
                return function(*args, **kwargs)
            with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
                outermost = _INSIDE.set(True)
                try:
                    return function(*args, **kwargs)
                finally:
                    _INSIDE.reset(outermost)
        except BaseException as error:
            # a plain raise does not add this frame again: a traceback shows each step once
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next
            raise

    call.__dict__["has_default_errors"] = True
    return call


def default_errors_in(cls: C) -> C:
    """The class, whose own public methods are called with :func:`default_errors`."""
    for name, value in list(vars(cls).items()):
        if name.startswith("_") and name not in _ALSO_PUBLIC:
            continue
        function = value.__func__ if isinstance(value, classmethod) else value
        if not isfunction(function) or hasattr(function, "has_default_errors"):
            continue
        wrapped = default_errors(function)
        setattr(cls, name, classmethod(wrapped) if isinstance(value, classmethod) else wrapped)
    return cls


class DefaultErrors:
    """Base of classes whose public methods, and those of subclasses, have the default state."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        default_errors_in(cls)


# -- forked processes ------------------------------------------------------------------------

_STATE = {"forked": False}
_LIMITED = threading.local()  # has the attribute "in_process" in threads with one OpenMP thread


def _after_fork() -> None:
    _STATE["forked"] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def threads_here(threads: int) -> int:
    """``threads``, or one in a forked process."""
    if _STATE["forked"]:
        return 1
    return threads


def _use_one_thread() -> None:
    """Let libraries that were loaded before the fork compute in this thread alone, from now on.

    OpenMP keeps the number of threads for each thread of the process.
    """
    if getattr(_LIMITED, "in_process", None) == os.getpid():
        return
    _LIMITED.in_process = os.getpid()
    if "threadpoolctl" in sys.modules:  # which scikit-learn imports
        sys.modules["threadpoolctl"].threadpool_limits(1, user_api="openmp")
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


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


# -- threads of matrix products ----------------------------------------------------------------

_LIMITS: list[Any] = []  # one for each call that runs now; all of them are the same
_LIMITS_LOCK = ObjectLock()
_CONTROLLERS: list[Any] = []  # at most one: to find the libraries takes longer than to limit them


@contextmanager
def one_matrix_thread(*, libraries_known: bool = False) -> Iterator[None]:
    """Products of matrices use one thread.

    Their own threads would compete with those of the jobs, and they slow down even a single job
    whose matrices are small. The last bits of a product depend on its threads, so any number of
    jobs has the same results. The limit is one of the whole process: the last of the calls that
    overlap restores it. Libraries are searched for again unless they are known.
    """
    with _LIMITS_LOCK:
        if not _LIMITS:
            _LIMITS.append(_controller(libraries_known).limit(limits=1, user_api="blas"))
        else:
            _LIMITS.append(_LIMITS[0])
    try:
        yield
    finally:
        with _LIMITS_LOCK:
            limit = _LIMITS.pop()
            if not _LIMITS:
                limit.restore_original_limits()


def _controller(libraries_known: bool) -> Any:
    if not (libraries_known and _CONTROLLERS):
        _CONTROLLERS[:] = [_lazy.ThreadpoolController()]
    return _CONTROLLERS[0]


def matrix_threads_for(n_rows: int) -> AbstractContextManager[None]:
    """One thread to score rows; a single row needs no large product, and is scored faster as it is.

    With two threads, 50 rows took sixteen times the processor time.
    """
    if n_rows == 1:
        return nullcontext()
    return one_matrix_thread(libraries_known=True)
