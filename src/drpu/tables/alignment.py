"""Columns of a table found by name, in any order; extra columns are ignored with a warning."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Sequence

from drpu.exceptions import DataError, ExtraColumnsWarning
from drpu.tables.frames import Frame

__all__ = ["aligned", "columns_named", "warn_of_extra"]

SHOWN = 8  # maximum number of names in a message


def aligned(
    frame: Frame, names: Sequence[str], *, named: bool, optional: frozenset[str] = frozenset()
) -> Frame:
    """The columns of a frame called ``names``, in that order; by position if there are no names.

    Columns in ``optional`` may be absent.
    """
    if not named or not frame.named:
        if named == frame.named and len(frame.names) == len(names):
            return frame
        here, there = ("named" if has else "unnamed" for has in (frame.named, named))
        raise DataError(
            f"X has {len(frame.names)} {here} features, but was fitted with {len(names)} {there} features."
        )
    position = {name: j for j, name in enumerate(frame.names)}
    absent = [name for name in names if name not in position and name not in optional]
    if absent:
        raise DataError(
            f"X must have the columns of training, got none called {columns_named(absent)}"
            f"{_suggestion(absent[0], frame.names)}. X has {columns_named(frame.names)}."
        )
    warn_of_extra([name for name in frame.names if name not in set(names)])
    return frame.select([position[name] for name in names if name in position])


def warn_of_extra(names: Sequence[str]) -> None:
    """Warn of columns that training did not have, if there are any."""
    if names:
        warnings.warn(
            f"X has columns that training did not have: {columns_named(names)}. They are ignored.",
            ExtraColumnsWarning,
            stacklevel=3,
        )


def columns_named(names: Sequence[str]) -> str:
    """The names in quotation marks, at most eight of them."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def _suggestion(name: str, here: list[str]) -> str:
    close = difflib.get_close_matches(name, here, 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
