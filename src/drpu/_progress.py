"""One progress bar for a computation and all of its parts, and lines that are written above it.

A fit consists of folds, these of members, these of epochs. :func:`progress_bar` shows one bar for
the outermost of them, and :func:`part`, :func:`rest`, :func:`progress` and :class:`Step` move it by
their share, in any thread. The bar is shown in terminals and in notebooks, and nowhere else.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from numbers import Integral
from typing import Any, TextIO, TypeVar

from drpu._output import in_notebook
from drpu.exceptions import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")

_WIDTH = 24  # characters of a full bar
_PAUSE = 0.1  # seconds between two drawings, so that drawing takes no time
_ENOUGH = 0.02  # share that must be done before the time left is estimated
_ROUNDING = 1e-9
_LOCK = threading.RLock()


class Step:
    """A part of a computation, which may have parts itself, and how much of it is done."""

    current: ContextVar[Step | None] = ContextVar("step", default=None)

    def __init__(self, whole: Any, share: float) -> None:
        self.whole = whole
        self.share = share
        self.done = 0.0

    def advance(self, share: float) -> None:
        """Add a share of this part to what is done; nothing if no bar is shown."""
        with _LOCK:
            share = min(share, 1 - self.done)
            if self.whole is not None and share > _ROUNDING:
                self.done += share
                self.whole.advance(share * self.share)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Run the block as this step: the progress of its parts is progress of the step."""
        if self.whole is None:
            yield
            return
        before = Step.current.get()
        Step.current.set(self)
        try:
            yield
            self.advance(1)
        finally:
            Step.current.set(before)

    def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Call a function as this step, see :meth:`inside`."""
        with self.inside():
            return function(*arguments)

    @staticmethod
    def parts(n: int) -> list[Step]:
        """Equal parts of the current step, such as jobs that run at the same time."""
        return [Step(Step.current.get(), 1 / max(n, 1)) for _ in range(n)]


def part(share: float) -> AbstractContextManager[None]:
    """Run the block as a share of the current step."""
    return Step(Step.current.get(), share).inside()


def rest(share: float = 1.0) -> AbstractContextManager[None]:
    """Run the block as a share of what is not done yet in the current step."""
    whole = Step.current.get()
    if whole is not None:
        share *= 1 - whole.done
    return part(share)


def progress(items: Iterable[Item], *, total: int) -> Iterable[Item]:
    """``items``, each of which is an equal part of the current step.

    They may be computed one by one.
    """
    if Step.current.get() is None or not total:
        return items
    return _parts(iter(items), total)


def _parts(items: Iterator[Item], total: int) -> Iterator[Item]:
    for _ in range(total):
        with part(1 / total):
            try:
                item = next(items)
            except StopIteration:
                return
            yield item
    yield from items


@contextmanager
def watched(watcher: Any) -> Iterator[None]:
    """Tell ``watcher.advance`` each share that is done in the block, instead of showing a bar."""
    before = Step.current.get()
    Step.current.set(Step(watcher, 1.0))
    try:
        yield
    finally:
        Step.current.set(before)


@contextmanager
def progress_bar(label: str, *, show: int) -> Iterator[None]:
    """Show a bar while the block runs, unless one is shown already.

    ``show`` is the ``verbose`` of the user, which must be above 0.
    """
    if not isinstance(show, Integral):
        raise ParameterError(f"verbose must be an integer, got {show!r}.")
    write = None
    if show > 0 and Step.current.get() is None:
        write = _place()
    if write is None:
        yield
        return
    bar = _Bar(label, write)
    _BARS.append(bar)
    Step.current.set(Step(bar, 1.0))
    try:
        yield
    finally:
        Step.current.set(None)
        _BARS.remove(bar)
        write("")


class _Bar:
    """A line with the share that is done and the time that is left."""

    def __init__(self, label: str, write: Callable[[str], None]) -> None:
        self.label = label
        self.write = write
        self.done = 0.0
        self.start = time.monotonic()
        self.drawn = self.start
        write(self.text())

    def advance(self, share: float) -> None:
        self.done = min(self.done + share, 1.0)
        now = time.monotonic()
        if now - self.drawn >= _PAUSE:
            self.drawn = now
            self.write(self.text())

    def text(self) -> str:
        full = round(_WIDTH * self.done)
        line = f"{self.label} {'█' * full}{'░' * (_WIDTH - full)} {self.done:4.0%}"
        if self.done < _ENOUGH:
            return line
        left = (time.monotonic() - self.start) * (1 - self.done) / self.done
        return f"{line}, {_clock(left)} left"


_BARS: list[_Bar] = []


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{rest:02d}"
    return f"{minutes}:{rest:02d}"


def _place() -> Callable[[str], None] | None:
    """A function that replaces the line of a bar in a notebook or in a terminal; None elsewhere."""
    if in_notebook():
        handle = sys.modules["IPython"].display.display(
            {"text/plain": ""}, raw=True, display_id=True
        )

        def update(text: str) -> None:
            handle.update({"text/plain": text}, raw=True)

        return update
    stream = sys.stderr
    if stream is None or not stream.isatty():
        return None

    def write(text: str) -> None:
        stream.write(f"\r\x1b[K{text}\r")  # lines of others overwrite the bar
        stream.flush()

    return write


def say_above(line: str, stream: TextIO) -> None:
    """Print a line; a bar in the terminal is drawn again below it."""
    with _LOCK:
        for bar in _BARS:
            bar.write("")
        print(line, file=stream, flush=True)
        for bar in _BARS:
            bar.write(bar.text())


_LOGGER = logging.getLogger("drpu")


class _AboveBars(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        say_above(f"drpu: {self.format(record)}", sys.stderr)


def inform(message: str) -> None:
    """Log ``message`` at level INFO; to the standard error if no logging is configured."""
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(_AboveBars())
        _LOGGER.setLevel(logging.INFO)
    _LOGGER.info(message)
