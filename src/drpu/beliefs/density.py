r"""Densities that were learned from many tables whose truth is known.

What is not known, such as the log-odds of a prior, is a mixture of two normals. Log weights, means
and log deviations of these are linear in the *evidence*, a short list of named numbers that the
counts give, and in its products with the size of a sample: the smaller it is, the less its other
evidence says. The coefficients are learned by maximum likelihood
(``python -m benchmarks.learn``) and kept in the package as JSON, with the names, ranges and units
of the evidence, the tables and the score of tables that were left out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Self

import numpy as np

from drpu._arrays import FloatArray

LEAST_LOG_SPREAD = -3.5  # of a normal, in log-odds
MOST_LOG_SPREAD = 1.2


@dataclass(frozen=True, slots=True)
class NormalMixture:
    """Normals with weights: what is believed about one number."""

    log_weight: FloatArray
    mean: FloatArray
    spread: FloatArray

    def log_density(self, values: FloatArray) -> FloatArray:
        """Log density at each value, up to a constant."""
        deviation = (values[:, None] - self.mean) / self.spread
        parts = self.log_weight - deviation**2 / 2 - np.log(self.spread)
        return np.asarray(np.logaddexp.reduce(parts, axis=1))


@dataclass(frozen=True, slots=True)
class LearnedDensity:
    """The coefficients of a density, and what they refer to.

    ``names``: Names of the evidence.
    ``low``, ``high``: The range of each in the tables that were learned from, between which it is
    used.
    ``centre``, ``scale``: What is subtracted from each, and what it is divided by.
    ``missing``: The value of each where it is not known; NaN if it always is.
    ``counts``: Whether it is the size of a sample.
    ``chance_of_far_off``: Below this chance a prior is identified: then few of the tables that were
    left out were far off.
    ``base``: The evidence that the means of the normals are differences from.
    ``factors``: The evidence that everything is multiplied by for the products.
    ``coefficients``: Of log weights, means and log deviations, two of each: of the evidence, of the
    products, and a constant.
    """

    names: tuple[str, ...]
    low: FloatArray
    high: FloatArray
    centre: FloatArray
    scale: FloatArray
    missing: FloatArray
    counts: FloatArray
    chance_of_far_off: float
    base: str
    factors: tuple[str, ...]
    coefficients: FloatArray

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The density that a record of the file describes."""
        evidence = record["evidence"]

        def column(name: str) -> FloatArray:
            return np.array([line[name] for line in evidence], dtype=np.float64)

        return cls(
            names=tuple(line["name"] for line in evidence),
            low=column("low"),
            high=column("high"),
            centre=column("centre"),
            scale=column("scale"),
            missing=column("missing"),
            counts=column("is_count"),
            chance_of_far_off=float(record["chance_of_far_off"]),
            base=str(record["base"]),
            factors=tuple(record["factors"]),
            coefficients=np.array(record["coefficients"], dtype=np.float64),
        )

    def mixture(self, evidence: Mapping[str, float | None]) -> NormalMixture:
        """The mixture for this evidence.

        Evidence outside the learned range is moved to its edge. Sizes of samples then change
        nothing else; other evidence widens the density by its distance from the range.
        """
        values = self.values(evidence)
        inside = np.clip(values, self.low, self.high)
        beyond = np.abs(values - inside) / self.scale * (1 - self.counts)
        columns = self.columns(inside[None])[0]
        log_weight, mean, log_spread = (self.coefficients @ columns).reshape(3, -1)
        base = inside[self.names.index(self.base)]
        return NormalMixture(
            log_weight=log_weight - np.logaddexp.reduce(log_weight),
            mean=base + mean,
            spread=np.exp(bounded_log_spread(log_spread)) * (1 + beyond.sum()),
        )

    def columns(self, values: FloatArray) -> FloatArray:
        """What the coefficients multiply, for rows of evidence without gaps."""
        standardised = (values - self.centre) / self.scale
        columns = [standardised]
        for factor in self.factors:
            columns.append(standardised * standardised[:, [self.names.index(factor)]])
        return np.column_stack([*columns, np.ones(len(values))])

    def values(self, evidence: Mapping[str, float | None]) -> FloatArray:
        """The evidence in the order of the coefficients, without gaps."""
        values = []
        for name, missing in zip(self.names, self.missing, strict=True):
            value = evidence[name]
            values.append(missing if value is None else value)
        return np.array(values, dtype=np.float64)


def bounded_log_spread(log_spread: Any) -> Any:
    """Smoothly bounded log deviations, of an array or a tensor."""
    middle = (LEAST_LOG_SPREAD + MOST_LOG_SPREAD) / 2
    half = (MOST_LOG_SPREAD - LEAST_LOG_SPREAD) / 2
    tanh = np.tanh if isinstance(log_spread, np.ndarray) else type(log_spread).tanh
    return middle + half * tanh((log_spread - middle) / half)


@cache
def learned_density(name: str) -> LearnedDensity:
    """A density of the package."""
    text = files("drpu.beliefs").joinpath("learned.json").read_text(encoding="utf-8")
    return LearnedDensity.from_record(json.loads(text)[name])
