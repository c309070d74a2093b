"""Values of columns in a file: the levels of categories, and counts in ranges of each column."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from typing import Any

from drpu._checks import check_choice, check_integer
from drpu.exceptions import KeptValuesWarning, ParameterError

__all__ = ["check_values", "with_profiles", "with_values"]


def check_values(column_values: str | None, rare_values: int | None) -> None:
    """Raise unless these are options of ``save``."""
    if column_values is not None:
        check_choice("column_values", column_values, ("keep", "hash"))
    if rare_values is not None:
        check_integer("rare_values", rare_values, low=1)


def with_values(classifier: Any, column_values: str | None, rare_values: int | None) -> Any:
    """The classifier to write; warns if it keeps column values without the consent of the user."""
    check_values(column_values, rare_values)
    table = getattr(classifier, "table_", None)
    if table is None:
        return classifier
    if rare_values is not None:
        table = table.without_rare(rare_values)
    if column_values == "hash":
        table = table.hashed()
    if column_values is None and table.salt is None and table.kept_values():
        _warn_of_values(table.kept_values())
    written = copy.copy(classifier)
    written.table_ = table
    return written


def with_profiles(classifier: Any, keep: bool) -> Any:
    """The classifier to write, without counts of the training rows in ranges of columns unless they stay."""
    if not isinstance(keep, bool):
        raise ParameterError(f"column_profiles must be True or False, got {keep!r}.")
    if keep or not getattr(getattr(classifier, "fitted_", None), "columns", ()):
        return classifier
    written = copy.copy(classifier)
    written.fitted_ = replace(classifier.fitted_, columns=())
    return written


def _warn_of_values(kept: dict[str, int]) -> None:
    shown = ", ".join(f"{name!r} ({n})" for name, n in list(kept.items())[:8])
    more = f" and {len(kept) - 8} more columns" if len(kept) > 8 else ""
    warnings.warn(
        f"the file keeps values of the data, the levels of the categories {shown}{more}: pass "
        "column_values='keep' to accept this, 'hash' to write digests, rare_values=20 to leave out values "
        "of fewer than 20 rows.",
        KeptValuesWarning,
        stacklevel=4,
    )
