"""Numbers that several packages show."""

from __future__ import annotations

# Answers that are planned and asked for unless a number is given: more of them change few labels
# (``python -m benchmarks.answers``).
FEW_ANSWERS = 20

# A share whose limits are further apart is printed as a range, without its value.
WIDE_RANGE = 0.3
