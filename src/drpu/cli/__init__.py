"""The command line: ``drpu fit``, ``adapt``, ``predict``, ``prior``, ``inspect``, ``report``, ``demo``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from drpu.exceptions import DRPUError, MissingExtraError

__all__ = ["main"]

OK, FAILED, USAGE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 bad data or file, 2 wrong usage.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``drpu``; those of the process when left out.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with_traceback = _take(words, "--traceback")
    try:
        from drpu.cli.app import app, quiet_warnings
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        needed = f"the command line needs {error.name!r}, which is not installed."
        return _fail(f'{needed} Run: pip install "drpu[cli]"')

    try:
        with warnings.catch_warnings(), quiet_warnings():
            app(words, prog_name="drpu")
    except SystemExit as stop:  # typer has said what there was to say
        return stop.code if isinstance(stop.code, int) else OK if stop.code is None else FAILED
    except (DRPUError, MissingExtraError, OSError) as error:
        if with_traceback:
            raise
        return _fail(_one_line(error))
    except Exception as error:
        if with_traceback:
            raise
        return _fail(f"{type(error).__name__}: {_one_line(error)} (run again with --traceback and report it)")
    return OK


def _take(words: list[str], flag: str) -> bool:
    """Whether ``flag`` stands among the options; it is taken out, so it works anywhere."""
    end = words.index("--") if "--" in words else len(words)
    found = flag in words[:end]
    words[:end] = [word for word in words[:end] if word != flag]
    return found


def _one_line(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror is not None and error.filename is not None:
        return f"{os.fspath(error.filename)}: {error.strerror.lower()}."
    return " ".join(str(error).split())


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return FAILED
