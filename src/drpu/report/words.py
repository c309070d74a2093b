"""Numbers as text for people."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["number", "prior_words", "share", "share_range"]


def share(value: float) -> str:
    """A share in percent with one decimal; below one percent, with two significant digits.

    Examples
    --------
    >>> [share(value) for value in (0.0, 0.5, 0.0307, 0.003, 0.00042, 1.0)]
    ['0.0%', '50.0%', '3.1%', '0.30%', '0.042%', '100.0%']
    """
    if not 0 < value < 0.01:
        return f"{100 * value:.1f}%"
    decimals = min(1 - math.floor(math.log10(100 * value)), 6)
    return f"{100 * value:.{decimals}f}%"


def share_range(low: float, high: float) -> str:
    """Two shares as a range."""
    return f"{share(low)} to {share(high)}"


def number(value: float) -> str:
    """A number with three digits; an infinite threshold flags no row, or all of them."""
    if math.isinf(value):
        return "none" if value > 0 else "all"
    return f"{value:.3g}"


def prior_words(prior: Any) -> str:
    """A prior as text: its value and limits, or the bound if it is not identified."""
    if prior.method == "given":
        return f"{share(prior.value)} (given)"
    if not prior.identified:
        return f"at most {share(prior.high)}; {share(prior.value)} if the best-scored rows are all positive"
    return f"{share(prior.value)} ({share_range(prior.low, prior.high)} at {prior.level:.0%})"
