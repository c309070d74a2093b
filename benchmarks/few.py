"""Pure prior shift with few positives: what the tests call it, priors and labels.

    python -m benchmarks.few --data FOLDER             # Parquet files with a target y; minutes at first
    python -m benchmarks.few --data FOLDER --choose    # constants of the tests, by tables left out

Protocol "tables": 8 to 80 labelled positives and 500 unlabeled rows (case-control) of each table, and 500
later rows with another prior, all drawn without replacement, so that only the prior moves.
Protocol "small": small tables that come with scikit-learn; half of the rows are for training, with half of
the positives labelled (single sample), the others are later rows.

Columns are standardised by the mean and the deviation of the training rows. Later rows are read twice:
standardised as the training rows were ("plain"), and by their own mean and deviation ("self"), as many people
do: values then move a little, and that is not what anybody wants to be told.
The tables of :data:`LEFT_OUT` took no part in the choice of constants.

The cache ``.cache/few`` keeps rows and scores; priors, tests and labels are computed by the library.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

from benchmarks._months import Cell, Rows, cell_of, read_cell, write_cell
from benchmarks._results import command_line, write_results
from benchmarks._tables import Table, generator, read_tables
from drpu import DRPUClassifier
from drpu.periods.read import matched_prior
from drpu.periods.shift_tests import moved_columns
from drpu.tables import values
from drpu.tables.values import count_columns, profile_columns

CACHE = Path(__file__).parent / ".cache" / "few"
POSITIVES = (8, 20, 40, 80)
UNLABELED = 500
LATER = 500
PRIORS = ((0.3, 0.6), (0.5, 0.2), (0.6, 0.3), (0.2, 0.2))  # of training and of later rows
SMALL_PRIORS = ((0.5, 0.25), (0.3, 0.6), (0.5, 0.5))
SEEDS = (0, 1)
KINDS = ("plain", "self")
LEFT_OUT = ("bank", "landsat", "magic", "wine_quality")

Row = dict[str, Any]


# -- samples ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Training rows with labels, and later rows whose columns are standardised in two ways."""

    train: Rows
    later: dict[str, Rows]
    scenario: str


def sample_of_table(table: Table, n_positive: int, priors: tuple[float, float], seed: int) -> Sample | None:
    """Few labelled positives, unlabeled rows and later rows; None if the table is too small."""
    rng = generator(table.name, "few", n_positive, seed)
    positive = rng.permutation(np.flatnonzero(table.y == 1))
    negative = rng.permutation(np.flatnonzero(table.y == 0))
    sizes = (UNLABELED, LATER)
    n_of_positive = [n_positive] + [round(n * p) for n, p in zip(sizes, priors, strict=True)]
    n_of_negative = [n - k for n, k in zip(sizes, n_of_positive[1:], strict=True)]
    if sum(n_of_positive) > len(positive) or sum(n_of_negative) > len(negative):
        return None
    labelled, hidden, later_positive = np.split(positive[: sum(n_of_positive)], np.cumsum(n_of_positive)[:-1])
    unlabeled, later_negative = np.split(negative[: sum(n_of_negative)], [n_of_negative[0]])
    train = np.concatenate([labelled, hidden, unlabeled])
    later = np.concatenate([later_positive, later_negative])
    label = np.zeros(len(train), dtype=int)
    label[:n_positive] = 1
    return standardised(table, train, label, later, "case-control")


def sample_of_small(table: Table, priors: tuple[float, float], seed: int) -> Sample | None:
    """Two halves of a small table, each with a prior of its own."""
    rng = generator(table.name, "small", priors, seed)
    positive = rng.permutation(np.flatnonzero(table.y == 1))
    negative = rng.permutation(np.flatnonzero(table.y == 0))
    parts = []
    for half, prior in enumerate(priors):
        half_positive = positive[half::2]
        half_negative = negative[half::2]
        n = int(min(len(half_positive) / prior, len(half_negative) / (1 - prior), UNLABELED))
        k = round(n * prior)
        parts.append(np.concatenate([half_positive[:k], half_negative[: n - k]]))
    train, later = parts
    label = (table.y[train] == 1) & (rng.random(len(train)) < 0.5)
    if label.sum() < POSITIVES[0]:
        return None
    return standardised(table, train, label.astype(int), later, "single-sample")


def standardised(
    table: Table, train: np.ndarray, label: np.ndarray, later: np.ndarray, scenario: str
) -> Sample:
    """Rows of a table, by the mean and deviation of the training rows, and of the later rows."""
    old = table.X[train]
    new = table.X[later]
    later_rows = {}
    for kind, source in zip(KINDS, (old, new), strict=True):
        later_rows[kind] = Rows(_scaled(new, source), table.y[later], np.zeros(len(later), dtype=int))
    return Sample(Rows(_scaled(old, old), table.y[train], label), later_rows, scenario)


def _scaled(rows: Any, source: Any) -> Any:
    """Rows by the mean and deviation of ``source``; sparse rows keep their zeros."""
    if hasattr(rows, "multiply"):
        squares = np.asarray(source.multiply(source).mean(axis=0)).ravel()
        deviation = np.sqrt(squares - np.asarray(source.mean(axis=0)).ravel() ** 2)
        return rows.multiply(1 / np.where(deviation > 0, deviation, 1)).tocsr()
    deviation = source.std(axis=0)
    return (rows - source.mean(axis=0)) / np.where(deviation > 0, deviation, 1)


def small_tables() -> Iterator[Table]:
    """Tables of scikit-learn with at most 1,800 rows, as two classes."""
    cancer = datasets.load_breast_cancer()
    yield Table("breast_cancer", cancer.data, (cancer.target == 0).astype(int))
    wine = datasets.load_wine()
    yield Table("wine", wine.data, (wine.target == 1).astype(int))
    iris = datasets.load_iris()
    yield Table("iris", iris.data, (iris.target == 1).astype(int))
    diabetes = datasets.load_diabetes(scaled=False)
    yield Table("diabetes", diabetes.data, (diabetes.target > np.median(diabetes.target)).astype(int))
    digits = datasets.load_digits()
    yield Table("digits_odd", digits.data, digits.target % 2)
    of_two = np.isin(digits.target, (3, 8))
    yield Table("digits_3_8", digits.data[of_two], (digits.target[of_two] == 8).astype(int))


# -- cells -----------------------------------------------------------------------------------------


def samples(data: Path, names: Sequence[str] | None) -> Iterator[tuple[Row, Sample]]:
    """All samples with their facts."""
    for table in read_tables(data, list(names) if names else None):
        for n_positive in POSITIVES:
            for k, priors in enumerate(PRIORS):
                sample = sample_of_table(table, n_positive, priors, seed=k)
                if sample is not None:
                    yield _facts("tables", table, n_positive, priors, k), sample
    for table in small_tables():
        for k, priors in enumerate(SMALL_PRIORS * len(SEEDS)):
            sample = sample_of_small(table, priors, seed=k)
            if sample is not None:
                yield _facts("small", table, int(sample.train.label.sum()), priors, k), sample


def _facts(protocol: str, table: Table, n_positive: int, priors: tuple[float, float], seed: int) -> Row:
    return {
        "protocol": protocol,
        "table": table.name,
        "positives": n_positive,
        "before": priors[0],
        "after": priors[1],
        "seed": seed,
    }


def write_missing(data: Path, folder: Path, names: Sequence[str] | None = None) -> None:
    """Fit and write every cell that the cache does not have."""
    for facts, sample in samples(data, names):
        paths = {kind: _path(folder, facts, kind) for kind in KINDS}
        if all(path.exists() for path in paths.values()):
            continue
        start = time.perf_counter()
        clf = DRPUClassifier(scenario=sample.scenario, random_state=facts["seed"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(sample.train.X, sample.train.label)
            for kind, path in paths.items():
                write_cell(path, cell_of({**facts, "kind": kind}, clf, sample.train, sample.later[kind]))
        print(path.name, f"{time.perf_counter() - start:.1f} s", flush=True)


def _path(folder: Path, facts: Row, kind: str) -> Path:
    return folder / f"{facts['protocol']}_{facts['table']}_{facts['positives']}_{facts['seed']}_{kind}.npz"


def read_few(folder: Path) -> list[Cell]:
    """All cells of the cache."""
    return [read_cell(path) for path in sorted(folder.glob("*.npz")) if not path.name.startswith(".")]


# -- figures ---------------------------------------------------------------------------------------


def figures(cell: Cell) -> Row:
    """Figures of one cell: what the tests say, errors of the prior, and accuracies.

    With both true priors given, labels are as good as these scores allow.
    """
    truth = cell["y"] == 1
    row: Row = dict(cell.facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trained = cell.classifier("estimated")
        row["trained"] = float(np.mean((trained.predict(cell.rows) == 1) == truth))
        for shift in ("auto", "prior"):
            adapted = trained.adapt(cell.rows, shift=shift)
            row[f"error_{shift}"] = abs(adapted.test_prior_.value - cell.facts["prior"])
            row[f"accuracy_{shift}"] = float(np.mean((adapted.predict(cell.rows) == 1) == truth))
            if shift == "auto":
                row["other"] = adapted.shift_ == "other"
                row["untested"] = adapted.untested_
        known = cell.classifier("given").at_prior(cell.facts["prior"])
        row["accuracy_known"] = float(np.mean((known.predict(cell.rows) == 1) == truth))
    return row


FIGURES = (
    "other",
    "untested",
    "error_auto",
    "error_prior",
    "trained",
    "accuracy_auto",
    "accuracy_prior",
    "accuracy_known",
)


def means(rows: Sequence[Row]) -> Row:
    """Means over the cells."""
    summary: Row = {"cells": len(rows)}
    for name in FIGURES:
        summary[name] = round(float(np.mean([row[name] for row in rows])), 4)
    return summary


def summaries(rows: Sequence[Row]) -> list[Row]:
    """Figures by protocol and kind of scaling: of all cells, by number of positives, and left out."""
    lines = []
    for protocol in ("tables", "small"):
        for kind in KINDS:
            cells = [row for row in rows if row["protocol"] == protocol and row["kind"] == kind]
            groups = {"all": cells}
            if protocol == "tables":
                for n in POSITIVES:
                    groups[f"{n} positives"] = [row for row in cells if row["positives"] == n]
                groups["tables left out"] = [row for row in cells if row["table"] in LEFT_OUT]
            for name, group in groups.items():
                if group:
                    lines.append({"protocol": protocol, "kind": kind, "of": name, **means(group)})
    return lines


# -- constants -------------------------------------------------------------------------------------

MARGINS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
MOVED = 0.75  # a real move of one column, in deviations, which must be found


def called(cell: Cell, moved: float = 0.0) -> bool:
    """Whether a column of the later rows is called moved, after the first one was moved."""
    rows = cell["train_x"].astype(np.float64)
    labelled = cell["train_label"] == 1
    later = cell["x"].astype(np.float64)
    if moved:
        widest = int(np.argmax([len(np.unique(column)) for column in rows.T]))
        later[:, widest] += moved
    names = [str(k) for k in range(rows.shape[1])]
    profiles = profile_columns(rows[labelled], rows[~labelled], names)
    counts = count_columns([profile.cells for profile in profiles], later)
    classifier = cell.classifier("estimated")
    prior = matched_prior(classifier.fitted_, classifier.reference_, cell.rows.counts)
    return bool(moved_columns(profiles, counts, classifier.fitted_.unlabeled_prior, prior))


def choose(cells: Sequence[Cell]) -> list[Row]:
    """For each margin, how often self-standardised rows are called moved, and rows that did move."""
    lines = []
    usable = [cell for cell in cells if "x" in cell.arrays]
    for margin in MARGINS:
        values.MARGIN = margin
        for cell in usable:
            cell.__dict__.pop("_columns", None)
        by_table: dict[str, list[tuple[bool, bool]]] = {}
        for cell in usable:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if cell.facts["kind"] == "self":
                    by_table.setdefault(cell.table, []).append((called(cell), True))
                else:
                    by_table.setdefault(cell.table, []).append((called(cell, MOVED), False))
        for table, outcomes in by_table.items():
            harmless = [moved for moved, is_self in outcomes if is_self]
            real = [moved for moved, is_self in outcomes if not is_self]
            lines.append(
                {
                    "margin": margin,
                    "table": table,
                    "harmless": round(float(np.mean(harmless)), 4),
                    "real": round(float(np.mean(real)), 4),
                }
            )
    return lines


def best_margin(lines: Sequence[Row], without: Sequence[str]) -> float:
    """The margin with the largest difference between real and harmless moves that are called."""
    gains = []
    for margin in MARGINS:
        used = [line for line in lines if line["margin"] == margin and line["table"] not in without]
        gains.append(np.mean([line["real"] - line["harmless"] for line in used]))
    return MARGINS[int(np.argmax(gains))]


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of Parquet files with a target y")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of the cells")
    parser.add_argument("--tables", nargs="*", help="only these files, by their names")
    parser.add_argument("--choose", action="store_true", help="constants, by tables left out")
    options = parser.parse_args()
    write_missing(options.data, options.cache, options.tables)
    cells = read_few(options.cache)
    if options.choose:
        lines = choose(cells)
        tables = sorted({line["table"] for line in lines})
        print("chosen", best_margin(lines, LEFT_OUT))
        for table in tables:
            print("without", table, best_margin(lines, (*LEFT_OUT, table)))
        for margin in MARGINS:
            used = [line for line in lines if line["margin"] == margin]
            harmless = np.mean([line["harmless"] for line in used])
            real = np.mean([line["real"] for line in used])
            print(f"margin {margin:.2f}: harmless moves called {harmless:.3f}, real ones {real:.3f}")
        return
    lines = summaries([figures(cell) for cell in cells])
    for line in lines:
        print(line)
    path = write_results("few", "python -m benchmarks.few --data FOLDER", left_out=LEFT_OUT, figures=lines)
    print(path)


if __name__ == "__main__":
    main()
