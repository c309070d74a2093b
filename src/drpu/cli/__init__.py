"""The command line: ``drpu fit``, ``adapt``, ``predict``, ``prior``, ``inspect``, ``report`` and more."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

OK, FAILED, USAGE, DOUBTFUL, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error becomes one line or one JSON object.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``drpu``; those of the process when left out.

    Returns
    -------
    code : int
        0 done, 1 bad data or file or an output that could not be written, 2 wrong usage, 3 done with a
        warning about a violated assumption and ``--strict``, 130 interrupted by Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)  # all words after it are arguments
    flags = ("--traceback", "--json", "--quiet", "--strict")
    with_traceback, in_json, quiet, strict = (flag in words[:end] for flag in flags)
    words[:end] = [word for word in words[:end] if word != "--traceback"]  # it may stand anywhere
    if sys.stderr is None:  # closed by the caller: warnings cannot be shown
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:  # from the first import on, Ctrl-C ends in an exit code and not in a traceback
        if sys.stdout is None:
            raise OSError("the standard output is closed, so the result cannot be written.")
        code = _command(words, with_traceback, in_json, quiet=quiet)
        sys.stdout.flush()
        from drpu.cli.show import doubtful

        return DOUBTFUL if code == OK and strict and doubtful() else code
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Buffered output cannot be written; without this, Python tries to write it again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        if with_traceback:
            raise
        return _fail(error, False)


def _command(words: list[str], with_traceback: bool, in_json: bool, *, quiet: bool) -> int:
    from drpu.cli import show
    from drpu.exceptions import MissingExtraError

    try:
        from drpu.cli.app import UsageError, command
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        needed = f"the command line needs {error.name!r}, which is not installed."
        return _fail(MissingExtraError(f'{needed} Run: pip install "drpu[cli]"'), in_json)
    try:
        with show.shown_warnings(quiet=quiet):
            code = command(words or ["--help"], prog_name="drpu", standalone_mode=False)
    except SystemExit as stop:  # shell completion exits in this way
        return stop.code if isinstance(stop.code, int) else OK if stop.code is None else FAILED
    except UsageError as error:
        return _fail(error, in_json, USAGE)
    except BrokenPipeError:
        raise
    except Exception as error:
        if with_traceback:
            raise
        return _fail(error, in_json)
    if not words:  # no command at all: the help has been shown
        return USAGE
    return code if isinstance(code, int) else OK


def _fail(error: Any, in_json: bool, code: int = FAILED) -> int:
    from drpu.cli import show

    if code == USAGE:
        kind, message, context = "UsageError", error.format_message(), getattr(error, "ctx", None)
    else:
        kind, message, context = type(error).__name__, show.message_of(error), None
    if in_json:
        show.as_json({"error": {"type": kind, "exit_code": code, "message": message}})
    if context is not None:
        show.say(context.get_usage(), aside=True)
        show.say(f"Try '{context.command_path} --help' for help.", aside=True)
    show.say(f"error: {message}", aside=True)
    return code
