"""Beliefs that were learned without a table, for benchmarks of tables that the library has learned from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from unittest.mock import patch

from benchmarks._pool import source_of
from drpu.beliefs.density import LearnedDensity, learned_density


@contextmanager
def without_source(table: str) -> Iterator[None]:
    """Estimate training priors by coefficients that were learned without the source of ``table``.

    They are those of the fold of :mod:`benchmarks.learn` in which the source is left out. A table that is
    not in the pool keeps the coefficients of the package.
    """
    fold = fold_of_sources().get(source_of(table))
    if fold is None:
        yield
        return
    density = density_without(fold)
    with patch("drpu.beliefs.priors.learned_density", lambda name: density):
        yield


@cache
def fold_of_sources() -> dict[str, int]:
    """The fold in which each source is left out."""
    from benchmarks.learn import folds_of, read_evidence  # needs torch, which pages of results do not

    pool = read_evidence()
    return dict(zip(pool["source"], folds_of(pool).tolist(), strict=True))


@cache
def density_without(fold: int) -> LearnedDensity:
    """The density that was learned from the other folds.

    It calls a prior identified by the chance of the package, which is from tables left out already.
    """
    from benchmarks.learn import evidence_names, folds_of, learn, read_evidence

    pool = read_evidence()
    density = learn(pool[folds_of(pool) != fold], evidence_names(pool))
    return replace(density, chance_of_far_off=learned_density("training_prior").chance_of_far_off)
