"""Warning about a name or an argument that a later version removes."""

from __future__ import annotations

import sys
import warnings


def warn_deprecated(name: str, *, instead: str, removed_in: str) -> None:
    """Issue a ``FutureWarning`` that points to the first line outside of drpu.

    A ``DeprecationWarning`` would be hidden from most of those who call the library, because Python
    shows it only for code of the main module.

    Parameters
    ----------
    name : str
        What is deprecated, as users write it, such as ``"adapt(cost=...)"``.
    instead : str
        What to write instead.
    removed_in : str
        The first version without it, such as ``"0.4"``. A test fails in that version until the name
        and its warning are removed.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_deprecated("adapt(cost=...)", instead="adapt(X).at_cost(cost)", removed_in="0.4")
    >>> print(caught[0].message)
    adapt(cost=...) is deprecated and will be removed in drpu 0.4: use adapt(X).at_cost(cost).
    """
    message = f"{name} is deprecated and will be removed in drpu {removed_in}: use {instead}."
    warnings.warn(message, FutureWarning, stacklevel=_level_of_user_code())


def _level_of_user_code() -> int:
    """The ``stacklevel`` with which the calling function names a line outside of drpu."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_of_drpu(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
        level += 1
    return level


def _is_of_drpu(module: str) -> bool:
    return module.partition(".")[0] == "drpu"
