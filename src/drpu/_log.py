"""Progress messages: the logger ``drpu``, and a handler that is used with ``verbose``."""

from __future__ import annotations

import logging
import sys

__all__ = ["inform"]

_LOGGER = logging.getLogger("drpu")


class _BesideBars(logging.Handler):
    """Writes lines above a progress bar, so that they do not mix."""

    def emit(self, record: logging.LogRecord) -> None:
        line = f"drpu: {self.format(record)}"
        bars = sys.modules.get("tqdm.std")
        if bars is None:
            print(line, file=sys.stderr)
        else:
            bars.tqdm.write(line, file=sys.stderr)


def inform(message: str) -> None:
    """Log ``message`` at level INFO; to the standard error if no logging is configured."""
    if not _LOGGER.hasHandlers():
        _LOGGER.addHandler(_BesideBars())
        _LOGGER.setLevel(logging.INFO)
    _LOGGER.info(message)
