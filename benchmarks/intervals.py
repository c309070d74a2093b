"""Simulated coverage and width of the limits of priors, and size and power of the shift test.

Every cell is a family of scores, sizes and priors; counts are drawn directly, cell by
cell, from the family's survival functions, so that most of the time is used for the limits. ``low``
and ``high`` are quantiles of the learned distribution, and hold where a table is usual; ``upper``
needs no assumption. Run from a checkout::

    python -m benchmarks.intervals            # the whole table, a few minutes on one core
    python -m benchmarks.intervals --quick    # fewer replications, a minute
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from benchmarks._families import FAMILIES, Array, Family, Mixture, draw_mixture, draw_rows, normal
from benchmarks._results import command_line, write_results
from drpu.beliefs.methods import prior_from_tails
from drpu.periods.shift_tests import mixture_test
from drpu.priors.estimate import PriorEstimate
from drpu.priors.tails import ScoreTails

LEVELS = (0.95, 0.80)
SEPARATES = 0.45  # Youden's index above which classes are separated
SLACK = 0.02


# -- drawing counts ------------------------------------------------------------------------


def fill(tails: ScoreTails, rng: np.random.Generator, n: int, family: Family, prior: float) -> ScoreTails:
    """``tails`` with ``n`` rows of a mixture counted, drawn cell by cell."""
    survival = prior * family.survival("positive", tails.levels)
    survival += (1 - prior) * family.survival("negative", tails.levels)
    return with_survival(tails, rng, n, survival)


def with_survival(tails: ScoreTails, rng: np.random.Generator, n: int, survival: Array) -> ScoreTails:
    share = np.maximum(-np.diff(np.concatenate(([1.0], survival, [0.0]))), 0)
    return replace(tails.record(), counts=rng.multinomial(n, share / share.sum())).tails()


# -- coverage ------------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts at one level."""

    covers: int = 0
    upper: int = 0
    width: float = 0.0
    runs: int = 0

    def add(self, estimate: PriorEstimate, prior: float) -> None:
        """Count one replication."""
        assert estimate.upper is not None
        self.covers += estimate.low <= prior <= estimate.high
        self.upper += prior <= estimate.upper
        self.width += estimate.high - estimate.low
        self.runs += 1

    def row(self) -> dict[str, float]:
        """Averages over the replications."""
        return {
            "covers_prior": self.covers / self.runs,
            "upper_holds": self.upper / self.runs,
            "mean_width": self.width / self.runs,
        }


Draw = Callable[[np.random.Generator], tuple[ScoreTails, ...]]
Rule = Callable[..., PriorEstimate]


def measure(
    what: dict[str, Any],
    family: Family,
    prior: float,
    draw: Draw,
    rule: Rule,
    runs: int,
    seed: int,
) -> list[dict[str, Any]]:
    """One row for each level: coverage and width of ``rule`` over ``runs`` replications of ``draw``."""
    key = zlib.crc32(json.dumps(what, sort_keys=True).encode())
    rng = np.random.default_rng([seed, key])
    tallies = {level: Tally() for level in LEVELS}
    youden = family.youden
    for _ in range(runs):
        tails = draw(rng)
        for level, tally in tallies.items():
            tally.add(rule(*tails, level=level, warn=False), prior)
    return [
        {**what, "prior": prior, "youden": youden, "level": level, **tally.row()}
        for level, tally in tallies.items()
    ]


def training_cells() -> Iterator[tuple[Family, int, int, float]]:
    for family in FAMILIES.values():
        if family.chosen_on:
            for n_positive, n in ((50, 500), (200, 5000), (500, 5000), (2500, 50_000)):
                yield family, n_positive, n, 0.3
            for prior in (0.05, 0.5, 0.8):
                yield family, 500, 5000, prior
        else:
            for n_positive, n in ((80, 1000), (800, 8000)):
                for prior in (0.15, 0.65):
                    yield family, n_positive, n, prior


def shift_cells() -> Iterator[tuple[Family, int, int, int, float, float]]:
    for family in FAMILIES.values():
        if family.chosen_on:
            for sizes in ((50, 500, 500), (500, 5000, 5000)):
                for test_prior in (0.1, 0.6):
                    yield family, *sizes, 0.3, test_prior
        else:
            for sizes in ((80, 1000, 1000), (800, 8000, 4000)):
                for test_prior in (0.15, 0.65):
                    yield family, *sizes, 0.4, test_prior


def samples(family: Family, n_positive: int, *unlabeled: tuple[int, float]) -> Draw:
    """Draws of positives and, over them, of samples given as (size, prior)."""

    def draw(rng: np.random.Generator) -> tuple[ScoreTails, ...]:
        tails = family.tails(rng, n_positive)
        return tuple(fill(tails, rng, n, family, prior) for n, prior in unlabeled)

    return draw


def training_rows(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    for family, n_positive, n, prior in training_cells():
        what = {"kind": "training", "family": family.name, "n_positive": n_positive, "n": n, "train": prior}
        draw = samples(family, n_positive, (n, prior))
        yield from measure(what, family, prior, draw, prior_from_tails, runs, seed)


def shift_rows(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    for family, n_positive, n, n_test, prior, test_prior in shift_cells():
        what = {"kind": "test", "family": family.name, "n_positive": n_positive, "n": n, "n_test": n_test,
                "train": prior, "test": test_prior}  # fmt: skip
        draw = samples(family, n_positive, (n_test, test_prior), (n, prior))
        yield from measure(what, family, test_prior, draw, later_prior, runs, seed)


def other_rows(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Weights, copies, and a known training prior."""
    for name in ("g2", "g3", "pure40", "logistic"):
        family, known = FAMILIES[name], (2000, 0.3)
        what = {"family": name, "n_positive": 200, "n": 2000, "train": 0.3}
        for kind, draw in (
            ("weights", weighted(family)),
            ("3 copies", copied(family, 3)),
            ("5 copies", copied(family, 5)),
        ):
            yield from measure({"kind": kind, **what}, family, 0.3, draw, prior_from_tails, runs, seed)
        for test in (0.1, 0.6):
            label = {"kind": "known prior", **what, "n_test": 2000, "test": test}
            draw = samples(family, 200, (2000, test), known)
            yield from measure(label, family, test, draw, partial(later_prior, train_prior=0.3), runs, seed)


def later_prior(tails: ScoreTails, reference: ScoreTails, **options: Any) -> PriorEstimate:
    return prior_from_tails(tails, reference=reference, **options)


def weighted(family: Family) -> Draw:
    """Exponential weights on every row, independent of its class."""

    def draw(rng: np.random.Generator) -> tuple[ScoreTails, ...]:
        tails = ScoreTails(family.scores(draw_mixture(family.positive, rng, 200)), rng.exponential(size=200))
        return (tails.update(family.scores(draw_rows(family, rng, 2000, 0.3)), rng.exponential(size=2000)),)

    return draw


def copied(family: Family, copies: int) -> Draw:
    """Rows scored by several models that differ by noise of .3; a positive by one of them."""

    def draw(rng: np.random.Generator) -> tuple[ScoreTails, ...]:
        positive = draw_mixture(family.positive, rng, 200) + rng.normal(0, 0.3, 200)
        rows = np.tile(draw_rows(family, rng, 2000, 0.3), copies)
        return (ScoreTails(positive, copies=copies).update(rows + rng.normal(0, 0.3, len(rows))),)

    return draw


# -- the test of prior shift -----------------------------------------------------------------

TEST_SIZES = ((50, 500, 500), (200, 5000, 1000), (500, 5000, 5000), (100, 50_000, 50_000))

# New rows that are not a mixture: their positives, their negatives.
SHIFTS: dict[str, tuple[Mixture, Mixture]] = {
    "covariate shift: all scores move by .3": (normal(2.3), normal(0.3)),
    "covariate shift: all scores spread by 1.3": (normal(2, 1.3), normal(0, 1.3)),
    "concept shift: positives move down by .7": (normal(1.3), normal(0)),
    "concept shift: negatives move up by .3": (normal(2), normal(0.3)),
    "new subpopulation: 10 % of negatives at 1": (
        normal(2),
        ((0.9, "normal", 0, 1), (0.1, "normal", 1, 0.3)),
    ),
    "new subpopulation: 10 % of rows far above": (
        ((0.9, "normal", 2, 1), (0.1, "normal", 4, 0.5)),
        ((0.9, "normal", 0, 1), (0.1, "normal", 4, 0.5)),
    ),
}


def shift_test_rows(runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Share of replications with p below .05: the size under prior shift, the power otherwise."""
    for name in ("g1", "g2", "g4", "pure10", "t3", "ties", "clip", "six leaves"):
        for sizes in TEST_SIZES:
            for prior in (0.1, 0.6):
                family = FAMILIES[name]
                yield rejections("size", name, sizes, family, family, prior, runs, seed)
    for name, (positive, negative) in SHIFTS.items():
        moved = Family(name, positive, negative)
        for sizes in TEST_SIZES:
            yield rejections("power", name, sizes, FAMILIES["g2"], moved, 0.5, runs, seed)


def rejections(
    kind: str,
    name: str,
    sizes: tuple[int, int, int],
    old: Family,
    new: Family,
    prior: float,
    runs: int,
    seed: int,
) -> dict[str, Any]:
    what = {"kind": kind, "family": name, "n_positive": sizes[0], "n": sizes[1], "n_test": sizes[2],
            "train": 0.3, "test": prior}  # fmt: skip
    rng = np.random.default_rng([seed, zlib.crc32(json.dumps(what, sort_keys=True).encode())])
    rejected, misfit = 0, 0.0
    for _ in range(runs):
        tails = old.tails(rng, sizes[0])
        reference = fill(tails, rng, sizes[1], old, 0.3)
        result = mixture_test(fill(tails, rng, sizes[2], new, prior), reference)
        rejected += result.p_value < 0.05
        misfit += result.misfit
    return {**what, "rejected": rejected / runs, "mean_misfit": misfit / runs}


# -- the report ------------------------------------------------------------------------------


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Averages over families for each kind and level, with the worst cell that separates."""
    table = []
    for kind in dict.fromkeys(row["kind"] for row in rows):
        for level in LEVELS:
            cells = [row for row in rows if row["kind"] == kind and row["level"] == level]
            apart = [row for row in cells if row["youden"] >= SEPARATES]
            table.append(
                {
                    "kind": kind,
                    "level": level,
                    "cells": len(cells),
                    "cells_that_separate": len(apart),
                    "covers_prior": float(np.mean([row["covers_prior"] for row in apart])),
                    "worst": min(row["covers_prior"] for row in apart),
                    "below_nominal": sum(row["covers_prior"] < level - SLACK for row in apart),
                    "upper_holds": float(np.mean([row["upper_holds"] for row in cells])),
                    "mean_width": float(np.mean([row["mean_width"] for row in apart])),
                }
            )
    return table


def show(rows: list[dict[str, Any]], table: list[dict[str, Any]], tests: list[dict[str, Any]]) -> None:
    print("kind        family            n_P      n n_test    pi pi_new  Youden  level  prior  upper  width")
    for row in rows:
        low = row["youden"] >= SEPARATES and row["covers_prior"] < row["level"] - SLACK
        print(
            f"{row['kind']:<12}{row['family']:<16}{row['n_positive']:>5}{row['n']:>7}"
            f"{row.get('n_test', ''):>7}{row['train']:>6}{row.get('test', ''):>7}{row['youden']:>8.2f}"
            f"{row['level']:>7.2f}{row['covers_prior']:>7.3f}{row['upper_holds']:>7.3f}"
            f"{row['mean_width']:>7.3f}{' <' if low else ''}"
        )
    print("\nwhere Youden's index is at least", SEPARATES)
    for line in table:
        print(
            f"{line['kind']:<12} {line['level']:.0%}: prior {line['covers_prior']:.3f} "
            f"(worst {line['worst']:.3f}), upper {line['upper_holds']:.3f}, width {line['mean_width']:.3f}, "
            f"{line['below_nominal']} of {line['cells_that_separate']} cells below nominal - {SLACK}"
        )
    print("\ntest of prior shift at 5 %: share rejected, mean misfit")
    for row in tests:
        print(
            f"{row['kind']:<6}{row['family']:<44}{row['n_positive']:>6}{row['n']:>7}{row['n_test']:>7}"
            f"{row['test']:>6}{row['rejected']:>8.3f}{row['mean_misfit']:>8.4f}"
        )


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--runs", type=int, default=500, help="replications a cell")
    parser.add_argument("--seed", type=int, default=20261115)
    parser.add_argument("--quick", action="store_true", help="50 replications, nothing written")
    arguments = parser.parse_args()
    runs = 50 if arguments.quick else arguments.runs

    started = time.perf_counter()
    rows = [row for make in (training_rows, shift_rows, other_rows) for row in make(runs, arguments.seed)]
    tests = list(shift_test_rows(runs, arguments.seed))
    table = summary(rows)
    show(rows, table, tests)
    seconds = time.perf_counter() - started
    print(f"\n{runs} replications a cell, {seconds:.0f} s")
    if arguments.quick:
        return
    write_results(
        "intervals",
        " ".join(["python -m benchmarks.intervals", *sys.argv[1:]]),
        seed=arguments.seed,
        replications=runs,
        seconds=round(seconds),
        cpu_seconds=round(time.process_time()),
        summary=table,
        coverage=rows,
        shift_test=tests,
    )


if __name__ == "__main__":
    main()
