"""The command line: ``drpu fit``, ``adapt``, ``predict``, ``prior``, ``inspect``, ``report`` ..."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

OK = 0
FAILED = 1
USAGE = 2
DOUBTFUL = 3
INTERRUPTED = 130
ENDED = 128  # plus the number of the signal


@dataclass(frozen=True, slots=True)
class Flags:
    """Options that hold before a command line is parsed, and if that fails."""

    traceback: bool
    json: bool
    quiet: bool
    strict: bool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one line or one JSON object.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``drpu``; those of the process when left out.

    Returns
    -------
    code : int
        0 done, 1 bad data or file or an output that could not be written, 2 wrong usage, 3 done
        with a warning about a violated assumption and ``--strict``, 130 interrupted by Ctrl-C, 143
        and 129 ended by SIGTERM and SIGHUP.
    """
    flags, words = _split_flags(sys.argv[1:] if arguments is None else arguments)
    if sys.stderr is None:  # closed by the caller: warnings cannot be shown
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:  # from the first import on, Ctrl-C ends in an exit code and not in a traceback
        if sys.stdout is None:
            raise OSError("the standard output is closed, so the result cannot be written.")
        with _clean_end():
            code = _command(words, flags)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Buffered output cannot be written; without this, Python tries to write it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if flags.traceback:
            raise
        return _fail(error, in_json=False)


@contextmanager
def _clean_end() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP end the command as Ctrl-C does.

    So what it was writing, which may hold values of rows, is removed.
    """
    handled = []
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _end)
                handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: Any) -> None:
    raise SystemExit(ENDED + number)


def _split_flags(arguments: Sequence[str]) -> tuple[Flags, list[str]]:
    """The flags among the words, and the words without ``--traceback``, which may stand anywhere.

    All words after ``--`` are arguments.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    options = words[:end]
    flags = Flags(
        traceback="--traceback" in options,
        json="--json" in options,
        quiet="--quiet" in options,
        strict="--strict" in options,
    )
    kept = [word for word in options if word != "--traceback"]
    return flags, kept + words[end:]


def _command(words: list[str], flags: Flags) -> int:
    from drpu.cli import show

    try:
        from drpu.cli.app import UsageError, command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        from drpu._checks import missing_extra

        missing = missing_extra(error.name, extra="cli", for_="the command line")
        return _fail(missing, in_json=flags.json)
    try:
        with show.warnings_as_lines(quiet=flags.quiet):
            code = command(words or ["--help"], prog_name="drpu", standalone_mode=False)
    except SystemExit as stop:  # shell completion exits in this way
        if stop.code is None:
            return OK
        return stop.code if isinstance(stop.code, int) else FAILED
    except UsageError as error:
        return _fail_usage(error, in_json=flags.json)
    except BrokenPipeError:
        raise
    except Exception as error:
        if flags.traceback:
            raise
        return _fail(error, in_json=flags.json)
    if not words:  # no command at all: the help has been shown
        return USAGE
    if isinstance(code, int) and code != OK:
        return code
    return DOUBTFUL if flags.strict and show.doubtful() else OK


def _fail(error: Exception, *, in_json: bool) -> int:
    """Print an error about data or a file; return the exit code."""
    from drpu.cli import show

    show.print_error(type(error).__name__, show.message_of(error), code=FAILED, in_json=in_json)
    return FAILED


def _fail_usage(error: Any, *, in_json: bool) -> int:
    """Print how the command is used, and what was wrong; return the exit code."""
    from drpu.cli import show

    usage = []
    if getattr(error, "ctx", None) is not None:
        usage = [error.ctx.get_usage(), f"Try '{error.ctx.command_path} --help' for help."]
    message = error.format_message()
    show.print_error("UsageError", message, code=USAGE, in_json=in_json, usage=usage)
    return USAGE
