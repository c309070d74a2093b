"""The command line: ``drpu fit``, ``adapt``, ``predict``, ``prior``, ``inspect``, ``report`` and more."""

from __future__ import annotations

import sys
from collections.abc import Sequence

__all__ = ["main"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after ``drpu``; those of the process when left out.

    Returns
    -------
    code : int
        0 done, 1 bad data or file or an output that could not be written, 2 wrong usage,
        130 interrupted by Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:  # from the first import on, Ctrl-C ends in an exit code and not in a traceback
        from drpu.cli.run import run

        return run(words)
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return INTERRUPTED
