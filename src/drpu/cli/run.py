"""One run of the command line: errors become one line or one JSON object, and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from drpu.cli import FAILED, OK, USAGE, show
from drpu.exceptions import DRPUError

__all__ = ["run"]


def run(words: list[str]) -> int:
    """Exit code of the command in ``words``."""
    with_traceback, in_json = _take(words, "--traceback"), _has(words, "--json")
    if sys.stderr is None:  # closed by the caller: warnings cannot be shown
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        return _fail(DRPUError("the standard output is closed, so the result cannot be written."), False)
    try:
        code = _command(words, with_traceback, in_json)
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output cannot be written; without this, Python tries to write it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if with_traceback:
            raise
        return _fail(error, False)
    return code


def _command(words: list[str], with_traceback: bool, in_json: bool) -> int:
    try:
        from drpu.cli.app import UsageError, app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        needed = f"the command line needs {error.name!r}, which is not installed."
        return _fail(DRPUError(f'{needed} Run: pip install "drpu[cli]"'), in_json)
    try:
        with warnings.catch_warnings(), show.shown_warnings():
            code = app(words, prog_name="drpu", standalone_mode=False)
    except SystemExit as stop:  # shell completion exits in this way
        return stop.code if isinstance(stop.code, int) else OK if stop.code is None else FAILED
    except UsageError as error:
        return _wrong_usage(error, in_json)
    except BrokenPipeError:
        raise
    except Exception as error:
        if with_traceback:
            raise
        return _fail(error, in_json)
    return code if isinstance(code, int) else OK


def _wrong_usage(error: Any, in_json: bool) -> int:
    message = error.format_message()
    if not message:  # no command at all: the help has been shown
        return USAGE
    if in_json:
        show.error_as_json("UsageError", USAGE, message)
    context = getattr(error, "ctx", None)
    if context is not None:
        show.say(context.get_usage(), aside=True)
        show.say(f"Try '{context.command_path} --help' for help.", aside=True)
    show.say(f"error: {message}", aside=True)
    return USAGE


def _fail(error: BaseException, in_json: bool) -> int:
    message = _one_line(error)
    if not isinstance(error, (DRPUError, OSError, MemoryError)):
        message = f"{type(error).__name__}: {message} (run again with --traceback and report it)"
    if in_json:
        show.error_as_json(type(error).__name__, FAILED, message)
    show.say(f"error: {message}", aside=True)
    return FAILED


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror is not None:
        reason = f"{error.strerror[:1].lower()}{error.strerror[1:]}."
        return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"
    if isinstance(error, MemoryError):
        return "not enough memory for this data: read fewer columns (--columns), or a Parquet file."
    return show.message_of(error)


def _options(words: list[str]) -> list[str]:
    """The words before ``--``; all words after it are arguments."""
    return words[: words.index("--")] if "--" in words else words


def _has(words: list[str], flag: str) -> bool:
    return flag in _options(words)


def _take(words: list[str], flag: str) -> bool:
    """Whether ``flag`` is among the options; it is removed, so it may stand anywhere."""
    end = len(_options(words))
    found = flag in words[:end]
    words[:end] = [word for word in words[:end] if word != flag]
    return found
