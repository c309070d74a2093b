"""Dated tables as protocols of training and later periods, and a cache of everything that rules need.

    python -m benchmarks._months --data FOLDER --rates 0.3    # write missing cells of the cache
    python -m benchmarks._months --data FOLDER --list         # what the cache has
    python -m benchmarks._months --data FOLDER --resampled    # tables of benchmarks.tables, protocols A and B

A table is a Parquet file with a target ``y``, a column ``period`` that sorts by time (as numbers, if all of
them are numbers), and features.
A *cell* is one fit and one later period that it reads. Scenario: single sample; labels are drawn once for
a table, a rate and a seed, so that a row has the same label in every cell, and a row labelled at 10 % is
labelled at 30 %, too.

======== ============================================ ==============================================
protocol fitted to                                    reads
======== ============================================ ==============================================
next     the periods just before: at least 2,500 rows each of the last 12 periods
         (or all there are, 1,400 or more), at most
         4,000
far      the first periods: at least 2,000 rows, at   each of the last two periods
         most 4,000
history  all earlier periods: the newest 12,000 rows  each of the last 11 periods; those with at
                                                      least 7 earlier periods are reported, the
                                                      last 5 of them
======== ============================================ ==============================================

At most 2,000 rows of a period are read. The backtest of a "history" cell is the "history" cells of the six
periods before it, which are in the same cache (:func:`backtest_cells`).

Format of the cache
-------------------
One file for each cell, ``FOLDER/TABLE_PROTOCOL_RATE_SEED_PERIOD.npz`` (``RATE`` in percent), which
:func:`read_cells` reads as :class:`Cell`. It holds arrays and plain JSON, no objects of the library, so it
stays readable when modules move. Arrays of the period that is read, one value a row:

``y``, ``label``          true class; 1 where the label has arrived (single sample, at the cell's rate)
``score``, ``fold_score`` scores for labels (rows x models), and by each fold model (float32)
``supervised``            P(positive) by boosted trees that are trained with all true labels of the same rows
``rows``                  positions of the rows in the file

Arrays of training: ``train_y``, ``train_label``, ``train_rows``, ``levels``, ``positive_counts``, ``counts``
(held-out positives and unlabeled training rows in the cells of :class:`drpu.ScoreTails`), ``new_counts``
(rows of the period, one count a fold model). Columns, unless rows are sparse: ``train_x`` and ``x`` (encoded
rows of training and of the period), and for each column k of levels or indicators ``edges_k`` or ``codes_k``
and ``held_out_k`` (:class:`drpu.tables.values.Cells`).

``Cell.facts`` (JSON): ``table``, ``protocol``, ``rate``, ``seed``, ``period``, ``earlier`` (number of periods
before it in the file), ``train_periods``, ``train_prior``, ``prior`` (true shares of positives in training
and in the period), ``labelled_fraction``, ``copies``, ``label_offsets``, ``columns`` (names of the
encoded columns). Older files have more.

Nothing that depends on rules for priors or on tests is kept: :meth:`Cell.classifier` makes a classifier of
the kept scores and columns, whose priors, calibration, tests and adaptations are computed by the library
when figures are made.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks._left_out import without_source
from benchmarks._results import command_line
from benchmarks._tables import Table, draw, generator, read_tables, test_priors
from drpu import DRPUClassifier, ScoreTails
from drpu.classifier.fitting import training_prior
from drpu.classifier.reading import read_rows
from drpu.models.learner import Folds, Function
from drpu.state.fitted import FittedRatio, label_offsets
from drpu.state.labels import Labels
from drpu.state.population import LabelCount, Population, TrainingColumns
from drpu.state.rows import Batch
from drpu.tables.encoder import fixed_cells
from drpu.tables.values import Cells, count_columns, profile_columns

PROTOCOLS = ("next", "far", "history")
RATES = (0.1, 0.3, 0.6)
CACHE = Path(__file__).parent / ".cache" / "months"
RESAMPLED = CACHE.parent / "resampled"
MOST_TRAIN, MOST_HISTORY, MOST_READ = 4000, 12000, 2000
LEAST_TRAIN, LEAST_NEXT, LEAST_FAR, LEAST_PERIODS = 1400, 2500, 2000, 7
LAST = {"next": 12, "far": 2, "history": 11}
BACKTEST, REPORTED = 6, 5  # most past periods of a backtest, periods of a table in "history"
FEWEST = 50  # a period with fewer rows is not read


@dataclass(frozen=True)
class Split:
    """Row positions of one cell: ``train`` of the fit, ``read`` of the later period."""

    protocol: str
    period: str
    train: np.ndarray
    read: np.ndarray


@dataclass(frozen=True)
class Rows:
    """Features, true classes, and 1 for labelled rows."""

    X: Any
    y: np.ndarray
    label: np.ndarray


@dataclass(frozen=True, eq=False)
class Cell:
    """What one fit knows about one later period, and the truth; the module's docstring lists the fields."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    @property
    def table(self) -> str:
        return str(self.facts["table"])

    @property
    def label_counts(self) -> tuple[LabelCount, LabelCount]:
        """Labels that arrived in the period, and those of training."""
        now, before = (
            LabelCount(float(self[k].sum()), float(len(self[k]))) for k in ("label", "train_label")
        )
        return now, before

    @cached_property
    def rows(self) -> Batch:
        """The rows of the period, which only have scores and counts of their columns."""
        scores = self["score"]
        if self._whole:
            scores = np.column_stack([self["fold_score"], scores])
        columns = None
        if "x" in self.arrays:
            cells = [profile.cells for profile in self._columns.profiles]
            columns = count_columns(cells, self["x"])
        tails = self._tails.empty(copies=self.facts["copies"])
        tails.add_counts(self["new_counts"], columns=columns)
        return Batch(np.zeros((len(scores), 1)), scores, tails)

    def classifier(self, kind: str) -> DRPUClassifier:
        """The classifier of the cell, with the training prior estimated or given."""
        found = self._classifiers.get(kind)
        if found is None:
            found = self._classifiers[kind] = self._fitted(kind)
        return found

    @cached_property
    def _classifiers(self) -> dict[str, DRPUClassifier]:
        return {}

    def _fitted(self, kind: str) -> DRPUClassifier:
        prior = "auto" if kind == "estimated" else self.facts["train_prior"]
        share = self.facts["labelled_fraction"]
        clf = DRPUClassifier(scenario="single-sample" if share else "case-control", prior=prior)
        clf.n_features_in_ = 1
        clf.table_ = None
        whole = NoRows() if self._whole else None
        folds = Folds((NoRows(),) * self.facts["copies"], whole)
        rng = np.random.RandomState(0)
        with without_source(self.table):
            train_prior = training_prior(prior, self._tails, share, None, rng)
        population = Population(share, label_count=self.label_counts[1] if share else None)
        fitted = FittedRatio(
            model=folds,
            calibration=clf._calibrated(folds, self._tails, train_prior, population),
            tails=self._tails,
            prior=train_prior,
            population=population,
            columns=self._columns,
            labels=Labels.of(np.array([0, 1])),
        )
        return clf._keep(fitted)

    @cached_property
    def _columns(self) -> TrainingColumns:
        if "train_x" not in self.arrays:
            return TrainingColumns(1, None, None)
        rows = self["train_x"]
        labelled = self["train_label"] == 1
        cells = [self._fixed_cells(k) for k in range(rows.shape[1])]
        profiles = profile_columns(rows[labelled], rows[~labelled], self.facts["columns"], cells)
        return TrainingColumns(rows.shape[1], None, None, profiles=profiles)

    def _fixed_cells(self, k: int) -> Cells | None:
        """The cells of a column of levels or indicators; None for numbers."""
        if f"codes_{k}" in self.arrays:
            return Cells(np.empty(0), self[f"codes_{k}"], held_out=self[f"held_out_{k}"])
        if f"edges_{k}" in self.arrays:
            return Cells(self[f"edges_{k}"])
        return None

    @property
    def _whole(self) -> bool:
        return len(self.facts["label_offsets"]) > 1

    @cached_property
    def _tails(self) -> ScoreTails:
        """Counts of the unlabeled training rows over the held-out positives."""
        scores = np.repeat(self["levels"], self["positive_counts"][1:])
        return ScoreTails(scores).add_counts(self["counts"])


@dataclass(frozen=True, eq=False)
class NoRows(Function):
    """A function in place of one whose scores are kept; it cannot score rows."""

    n_columns: int = 1

    def _score(self, X: Any) -> Any:
        raise TypeError("only the scores of these rows are kept: the rows cannot be scored again.")


# -- protocols -------------------------------------------------------------------------------------


def read_month_tables(folder: Path, names: Sequence[str] | None = None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Name and rows of every dated table of ``folder``."""
    for path in sorted(folder.glob("*.parquet")):
        if not names or path.stem in names:
            yield path.stem, pd.read_parquet(path)


def labels_of(name: str, y: np.ndarray, rate: float, seed: int) -> np.ndarray:
    """1 for labelled positives; the rows labelled at one rate are among those of every higher rate."""
    chosen = generator(name, "labels", seed).random(len(y)) < rate
    return np.asarray((y == 1) & chosen, dtype=int)


def periods_in_order(period: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The periods in the order of time, and the number of each row's period; "2" comes before "10"."""
    names, code = np.unique(period.astype(str), return_inverse=True)
    try:
        order = np.argsort([float(name) for name in names])
    except ValueError:
        return names, code
    return names[order], np.argsort(order)[code]


def splits(name: str, period: np.ndarray, protocol: str, seed: int = 0) -> Iterator[Split]:
    """The cells of one table and protocol, in the order of time."""
    names, code = periods_in_order(period)
    size = np.bincount(code)
    found = list(_windows(size, protocol))[-LAST[protocol] :]
    most = MOST_HISTORY if protocol == "history" else MOST_TRAIN
    for first, end, now in found:
        rng = generator(name, protocol, "rows", now, seed)
        train = rng.permutation(np.flatnonzero((code >= first) & (code < end)))
        if protocol == "history":  # the newest rows, in random order inside a period
            train = train[np.argsort(-code[train], kind="stable")]
        read = rng.permutation(np.flatnonzero(code == now))[:MOST_READ]
        yield Split(protocol, str(names[now]), np.sort(train[:most]), np.sort(read))


def _windows(size: np.ndarray, protocol: str) -> Iterator[tuple[int, int, int]]:
    """First period of training, first after it, and the period read, by their numbers."""
    before = np.concatenate(([0], size.cumsum()))
    for now in range(1, len(size)):
        if before[now] < LEAST_TRAIN or size[now] < FEWEST:
            continue
        if protocol == "next":
            first = max((k for k in range(now) if before[now] - before[k] >= LEAST_NEXT), default=0)
            yield first, now, now
        elif protocol == "far":
            end = int(np.argmax(before >= LEAST_FAR))
            if 0 < end <= now:
                yield 0, end, now
        else:
            yield 0, now, now


# -- one cell --------------------------------------------------------------------------------------


def fit(frame: pd.DataFrame, label: np.ndarray, seed: int = 0, **parameters: Any) -> DRPUClassifier:
    """The default classifier of the labelled rows, single sample."""
    clf = DRPUClassifier(scenario="single-sample", random_state=seed, **parameters)
    return clf.fit(frame, label)


def measure(
    name: str, table: pd.DataFrame, split: Split, rate: float, seed: int, clf: DRPUClassifier | None = None
) -> tuple[Cell, DRPUClassifier]:
    """The cell of a dated table, and its classifier, which further periods of "far" share."""
    y = table["y"].to_numpy().astype(int)
    label = labels_of(name, y, rate, seed)
    X = table.drop(columns=["y", "period"])
    old, new = (Rows(X.iloc[at], y[at], label[at]) for at in (split.train, split.read))
    if clf is None:
        clf = fit(old.X, old.label, seed)
    facts = {
        "table": name,
        "protocol": split.protocol,
        "rate": rate,
        "seed": seed,
        "period": split.period,
        "earlier": int(np.flatnonzero(periods_in_order(table["period"].to_numpy())[0] == split.period)[0]),
        "train_periods": sorted({str(p) for p in table["period"].iloc[split.train]}),
    }
    cell = cell_of(facts, clf, old, new)
    cell.arrays["supervised"] = supervised(old.X, old.y, new.X)
    cell.arrays["rows"], cell.arrays["train_rows"] = (at.astype(np.int32) for at in (split.read, split.train))
    return cell, clf


def cell_of(facts: dict[str, Any], clf: DRPUClassifier, old: Rows, new: Rows) -> Cell:
    """The cell of a fitted classifier, its training rows and later rows."""
    truth = float(old.y.mean())
    tails, seen, checked = clf.tails_, clf.count(new.X), read_rows(clf, new.X)
    arrays: dict[str, Any] = {
        "y": new.y.astype(np.int8),
        "label": new.label.astype(np.int8),
        "score": clf.model_.label_scores(checked),
        "fold_score": clf.model_.fold_scores(checked).astype(np.float32),
        "train_y": old.y.astype(np.int8),
        "train_label": old.label.astype(np.int8),
        "levels": tails.levels,
        "positive_counts": tails.positive_counts,
        "counts": tails.counts,
        "new_counts": seen.counts,
    }
    facts = facts | {
        "train_prior": truth,
        "prior": float(new.y.mean()),
        "labelled_fraction": clf.fitted_.population.labelled_fraction,
        "copies": seen.copies,
        "label_offsets": label_offsets(clf.fitted_).tolist(),
    }
    encoded = read_rows(clf, old.X)
    if clf.fitted_.columns.profiles:
        arrays |= {"train_x": encoded, "x": checked} | _kept_cells(clf, encoded.shape[1])
        facts["columns"] = [profile.name for profile in clf.fitted_.columns.profiles]
    return Cell(facts, arrays)


def _kept_cells(clf: DRPUClassifier, columns: int) -> dict[str, np.ndarray]:
    """Arrays of the cells of columns of levels and indicators."""
    arrays: dict[str, np.ndarray] = {}
    for k, cells in enumerate(fixed_cells(clf.table_, columns)):
        if cells is not None and cells.codes is not None:
            arrays[f"codes_{k}"] = cells.codes
            arrays[f"held_out_{k}"] = cells.codes if cells.held_out is None else cells.held_out
        elif cells is not None:
            arrays[f"edges_{k}"] = cells.edges
    return arrays


def resampled(table: Table, protocol: str, seed: int, rate: float) -> Iterator[Cell]:
    """Cells of a table without a calendar, whose prior is moved by resampling: protocols A and B.

    The rows are those of :func:`benchmarks._tables.score`. Labels arrive for the later rows at the same rate.
    """
    rng = generator(table.name, protocol, seed, 0)
    X, y = table.X, table.y
    order, cut = rng.permutation(len(y)), round(0.6 * len(y))
    first, second = order[:cut], order[cut:]
    train = first[draw(y[first], 0.5 if protocol == "A" else float(y.mean()), MOST_TRAIN, rng)]
    label = labels_of(table.name, y, rate, seed)
    clf = fit(X[train], label[train], seed)
    for q in test_priors(protocol, float(y.mean())):
        read = second[draw(y[second], q, MOST_TRAIN, rng)]
        facts = {"table": table.name, "protocol": protocol, "rate": rate, "seed": seed, "period": f"{q:.3f}"}
        old, new = (Rows(X[at], y[at], label[at]) for at in (train, read))
        yield cell_of(facts | {"earlier": 1, "train_periods": []}, clf, old, new)


def supervised(old: pd.DataFrame, y: np.ndarray, new: pd.DataFrame) -> np.ndarray:
    """P(positive) of the rows ``new`` by boosted trees trained with true labels."""
    coded: dict[bool, dict[str, Any]] = {True: {}, False: {}}
    text = []
    for name in old.columns[old.notna().any()]:  # the trees need a value in every column
        numeric = pd.api.types.is_numeric_dtype(old[name]) or pd.api.types.is_bool_dtype(old[name])
        text.append(not numeric)
        levels: Any = None if numeric else old[name].astype(str).value_counts().index[:200]
        for is_new, frame in ((False, old), (True, new)):
            column = frame[name]
            if numeric:
                coded[is_new][name] = column.to_numpy(dtype=float, na_value=np.nan)
            else:
                code = levels.get_indexer(column.astype(str))
                coded[is_new][name] = np.where(code < 0, np.nan, code)
    model = HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.06, max_leaf_nodes=15, categorical_features=text, random_state=0
    )
    model.fit(pd.DataFrame(coded[False]).to_numpy(), y)
    return np.asarray(model.predict_proba(pd.DataFrame(coded[True]).to_numpy())[:, 1])


# -- the cache -------------------------------------------------------------------------------------


def cell_path(folder: Path, name: str, protocol: str, rate: float, seed: int, period: str) -> Path:
    return folder / f"{name}_{protocol}_{round(100 * rate)}_{seed}_{period.replace('/', '-')}.npz"


def write_cell(path: Path, cell: Cell) -> None:
    """Write the cell completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / ".gitignore").write_text("*\n")
    part = path.with_name(f".{path.name}.{os.getpid()}.npz")
    everything: dict[str, Any] = {"facts": np.array(json.dumps(cell.facts)), **cell.arrays}
    np.savez_compressed(part, **everything)
    part.replace(path)


def read_cell(path: Path) -> Cell:
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files if name != "facts"}
        return Cell(json.loads(str(content["facts"])), arrays)


def read_cells(
    folder: Path = CACHE,
    *,
    protocol: str | None = None,
    rate: float | None = None,
    tables: Sequence[str] | None = None,
    seed: int | None = None,
) -> list[Cell]:
    """Cells of the cache, by table, protocol, rate, seed and time."""
    found = []
    for path in folder.glob("*.npz"):
        if path.name.startswith("."):
            continue
        name, kind, percent, number, _ = path.stem.rsplit("_", 4)
        if protocol not in (None, kind) or (tables and name not in tables):
            continue
        if (rate is not None and percent != str(round(100 * rate))) or seed not in (None, int(number)):
            continue
        found.append(((name, kind, int(percent), int(number)), path))
    cells = [(kind, read_cell(path)) for kind, path in found]
    return [c for _, c in sorted(cells, key=lambda pair: (pair[0], pair[1].facts["earlier"]))]


def backtest_cells(cell: Cell, others: Sequence[Cell], most: int = BACKTEST) -> list[Cell]:
    """The cells of the same protocol, table, rate and seed whose periods end before that of ``cell``."""
    same = ("protocol", "table", "rate", "seed")
    past = [
        c
        for c in others
        if c.facts["earlier"] < cell.facts["earlier"] and all(c.facts[k] == cell.facts[k] for k in same)
    ]
    return sorted(past, key=lambda c: int(c.facts["earlier"]))[-most:]


def reported(cells: Sequence[Cell]) -> list[Cell]:
    """The cells whose figures are reported: in "history" the last five with seven or more earlier periods."""
    found = []
    for cell in cells:
        if cell.facts["protocol"] == "history":
            later = [
                c
                for c in cells
                if c.facts["protocol"] == "history"
                and all(c.facts[k] == cell.facts[k] for k in ("table", "rate", "seed"))
                and c.facts["earlier"] > cell.facts["earlier"]
            ]
            if cell.facts["earlier"] < LEAST_PERIODS or len(later) >= REPORTED:
                continue
        found.append(cell)
    return found


def write_missing(
    data: Path,
    folder: Path,
    *,
    rates: Sequence[float] = RATES,
    protocols: Sequence[str] = PROTOCOLS,
    seed: int = 0,
    names: Sequence[str] | None = None,
    last: int | None = None,
) -> None:
    """Fit and write every cell that the cache does not have, of the last periods of each table."""
    for rate in rates:
        for protocol in protocols:
            for name, table in read_month_tables(data, names):
                clf = None
                found = list(splits(name, table["period"].to_numpy(), protocol, seed))
                for split in found[-(last or len(found)) :]:
                    path = cell_path(folder, name, protocol, rate, seed, split.period)
                    if path.exists():
                        continue
                    start = time.perf_counter()
                    cell, fitted = measure(name, table, split, rate, seed, clf)
                    clf = fitted if protocol == "far" else None
                    write_cell(path, cell)
                    print(path.name, f"{time.perf_counter() - start:.1f} s", flush=True)


def write_resampled(data: Path, folder: Path, rates: Sequence[float], seed: int, names: Any) -> None:
    """Fit and write the missing cells of tables whose prior is moved by resampling."""
    for rate in rates:
        for table in read_tables(data, names):
            for protocol in ("A", "B"):
                priors = [f"{q:.3f}" for q in test_priors(protocol, float(table.y.mean()))]
                paths = [cell_path(folder, table.name, protocol, rate, seed, q) for q in priors]
                if not all(path.exists() for path in paths):
                    for path, cell in zip(paths, resampled(table, protocol, seed, rate), strict=True):
                        write_cell(path, cell)
                    print(paths[-1].name, flush=True)


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of dated Parquet files")
    parser.add_argument(
        "--resampled", action="store_true", help="tables without a calendar: protocols A and B"
    )
    parser.add_argument("--cache", type=Path, help="folder of the cells")
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES))
    parser.add_argument("--protocols", nargs="*", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--tables", nargs="*", help="only these files, by their names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--last", type=int, help="only so many of the last periods of a table")
    parser.add_argument("--list", action="store_true", help="count the cells, and fit nothing")
    options = parser.parse_args()
    options.cache = options.cache or (RESAMPLED if options.resampled else CACHE)
    warnings.simplefilter("ignore")  # weak signals and other shift are what is measured
    if options.resampled:
        write_resampled(options.data, options.cache, options.rates, options.seed, options.tables)
    elif not options.list:
        write_missing(
            options.data,
            options.cache,
            rates=options.rates,
            protocols=options.protocols,
            seed=options.seed,
            names=options.tables,
            last=options.last,
        )
    kinds = [
        (c.table, c.facts["protocol"], c.facts["rate"], c.facts["seed"]) for c in read_cells(options.cache)
    ]
    for kind in sorted(set(kinds)):
        print(*kind, kinds.count(kind))


if __name__ == "__main__":
    main()
