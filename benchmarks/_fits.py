"""Fits of the default classifier to real tables, kept as plain arrays to try rules without fitting.

Each fit is one training sample of one table: its scenario, its prior and the share of its positives that is
labelled. The share varies from 5 to 70 %: with a fixed one, a rule could learn the share instead of the
prior.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks._tables import Table, draw, encode, generator
from drpu import DRPUClassifier, ScoreTails
from drpu.classifier.reading import read_rows
from drpu.exceptions import DRPUWarning
from drpu.state.fitted import label_offsets

TEST_ROWS = 1000  # most rows of a test sample
FEWEST = 8  # labelled positives without which a fit is left out
WINDOWS = 6  # of each table with periods
RATES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


class Plan(NamedTuple):
    """One training sample: scenario, prior ("own" or "half"), labelled share of the positives, most rows."""

    scenario: str
    drawn: str
    rate: float
    rows: int = 2000


FIRST = Plan("single-sample", "own", 0.3, 3000)  # for every table
PLANS = tuple(  # a table gets half of them
    Plan(scenario, drawn, rate)
    for rate in (0.1, 0.7, 0.3, 0.05, 0.5, 0.2)
    for drawn in ("own", "half")
    for scenario in ("single-sample", "case-control")
)
_FACTS = ("table", "kind", "scenario", "drawn", "rate", "prior", "labelled")
_ARRAYS = ("levels", "positive_counts", "counts", "scores", "label_scores", "y")


@dataclass(frozen=True)
class Fit:
    """One fit and the scores of its test samples.

    Attributes
    ----------
    table, kind : str
        The table, and its set: "pool", "others" or "months".
    scenario, drawn, rate : str, str, float
        Scenario, prior of the training sample ("own" or "half") and share of labelled positives.
    prior : float
        True prior of the population sample.
    labelled : float
        Labelled rows over all rows of the population sample; 0 in case-control.
    levels, positive_counts, counts : ndarray
        The tails: held-out positives, and unlabeled training rows counted over them.
    scores, label_scores, y : ndarray
        Scores of the test rows by the fold models and by the models for labels, and true labels.
    samples : dict
        Test prior (or "next" for the period after a window) to positions of its rows.
    """

    table: str
    kind: str
    scenario: str
    drawn: str
    rate: float
    prior: float
    labelled: float
    levels: np.ndarray
    positive_counts: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    label_scores: np.ndarray
    y: np.ndarray
    samples: dict[str, np.ndarray]

    @cached_property
    def tails(self) -> ScoreTails:
        """Counts of the unlabeled training rows."""
        positive = np.repeat(self.levels, self.positive_counts[1:])
        return ScoreTails(positive).add_counts(self.counts)

    @property
    def unlabeled_prior(self) -> float:
        """Share of positives among the training rows without a label."""
        return (self.prior - self.labelled) / (1 - self.labelled)

    def test_tails(self, name: str) -> ScoreTails:
        """Counts of a test sample."""
        scores = self.scores[self.samples[name]]
        return self.tails.empty(copies=scores.shape[1]).update(scores.ravel())

    def save(self, path: Path) -> None:
        """Write the fit as one file."""
        facts = {k: v for k, v in vars(self).items() if isinstance(v, (str, float))}
        arrays: dict[str, Any] = {name: getattr(self, name) for name in _ARRAYS}
        samples: dict[str, Any] = {f"sample {name}": at for name, at in self.samples.items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(path, facts=np.array(repr(facts)), **arrays, **samples)

    @classmethod
    def load(cls, path: Path) -> Fit:
        """The fit that :meth:`save` wrote."""
        from ast import literal_eval

        with np.load(path) as kept:
            samples = {name[7:]: kept[name] for name in kept.files if name.startswith("sample ")}
            arrays = {name: kept[name] for name in _ARRAYS}
            return cls(**literal_eval(str(kept["facts"])), **arrays, samples=samples)


# -- tables without periods ------------------------------------------------------------------------


def fit_table(table: Table, kind: str, plan: Plan, *, quick: bool = False, seed: int = 0) -> Fit | None:
    """The fit of one plan; None if it would have too few labelled positives.

    With ``quick`` the model is :class:`QuickRatio` instead of the default.
    """
    scenario, drawn, rate, _ = plan
    labelled, unlabeled = training_rows(table.name, table.y, plan, seed)
    if len(labelled) < FEWEST:
        return None
    rows = _rows(table.X, np.concatenate([labelled, unlabeled]))
    model = (
        QuickRatio(rows, len(labelled), seed) if quick else DefaultRatio(rows, len(labelled), scenario, seed)
    )
    second = _split(table.name, table.y, plan, seed)[1]
    rng = generator(table.name, *plan, seed, "test")
    own = float(table.y.mean())
    odds = own / (1 - own)
    later = (1 / 3, 1.0, 3.0) if drawn == "own" else (0.25 / odds, 1 / odds, 4 / odds)
    tests = [k * odds / (1 + k * odds) for k in later]
    samples = {f"{q:.6f}": second[draw(table.y[second], q, TEST_ROWS, rng)] for q in tests}
    population = unlabeled if scenario == "case-control" else np.concatenate([labelled, unlabeled])
    share = 0.0 if scenario == "case-control" else len(labelled) / len(population)
    facts = (table.name, kind, scenario, drawn, rate, float(table.y[population].mean()), share)
    return _scored(model, facts, table.X, table.y, samples)


def training_rows(name: str, y: np.ndarray, plan: Plan, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the labelled and of the unlabeled rows of a training sample."""
    first = _split(name, y, plan, seed)[0]
    prior = float(y.mean()) if plan.drawn == "own" else 0.5
    labelled, unlabeled = _training(y[first], prior, plan, generator(name, *plan, seed, "train"))
    return first[labelled], first[unlabeled]


def _split(name: str, y: np.ndarray, plan: Plan, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows for training, and the others for tests."""
    order = generator(name, *plan, seed).permutation(len(y))
    cut = round(0.6 * len(order))
    return order[:cut], order[cut:]


def _training(
    y: np.ndarray, prior: float, plan: Plan, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the labelled and of the unlabeled rows of a sample with a prior."""
    positive, negative = (rng.permutation(np.flatnonzero(y == label)) for label in (1, 0))
    # In case-control, labelled rows come on top of the sample.
    more = 1 + plan.rate if plan.scenario == "case-control" else 1.0
    n = min(plan.rows, len(positive) / (prior * more), len(negative) / (1 - prior))
    k, labels = round(n * prior), round(n * prior * plan.rate)
    positive, negative = positive[: round(n * prior * more)], negative[: round(n) - k]
    return positive[:labels], np.concatenate([positive[labels:], negative])


def _rows(X: Any, at: np.ndarray) -> Any:
    return X.iloc[at] if isinstance(X, pd.DataFrame) else X[at]


class DefaultRatio:
    """The default classifier, fitted to rows of which the first are labelled."""

    def __init__(self, rows: Any, labelled: int, scenario: str, seed: int) -> None:
        y = np.zeros(rows.shape[0], dtype=int)
        y[:labelled] = 1
        order = np.random.default_rng(seed).permutation(len(y))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DRPUWarning)  # weak signals are part of the protocol
            clf = DRPUClassifier(scenario=scenario, random_state=seed)
            self._clf = clf.fit(_rows(rows, order), y[order])
        self.tails = self._clf.tails_

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores of new rows that are counted, and those that labels come from."""
        rows = read_rows(self._clf, X)  # frames become the numbers that the models were fitted to
        labels = self._clf.model_.label_scores(rows)[..., None] + label_offsets(self._clf.fitted_)
        return self._clf.model_.fold_scores(rows), labels.reshape(labels.shape[0], -1)


class QuickRatio:
    """Ridge regression of the label on columns and random features, in five folds; 20 ms a fit.

    Least squares on the label of positive against unlabeled rows is a density-ratio fit. Its ranking is
    somewhat worse than that of the default, and rules that read tails see the same kinds of curves.
    """

    FEATURES, FOLDS, RIDGE = 200, 5, 0.6

    def __init__(self, rows: Any, labelled: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        dense = np.asarray(rows.todense()) if hasattr(rows, "todense") else np.asarray(rows, dtype=float)
        self._mean, self._scale = dense.mean(axis=0), np.maximum(dense.std(axis=0), 1e-9)
        width = 0.7 * np.sqrt(dense.shape[1])
        self._frequency = rng.normal(size=(dense.shape[1], self.FEATURES)) / width
        self._phase = rng.uniform(0, 2 * np.pi, self.FEATURES)
        Z = self._features(dense)
        target = np.zeros(len(Z))
        target[:labelled] = 1 / labelled * len(Z)
        fold = np.concatenate(
            [rng.permutation(np.arange(n) % self.FOLDS) for n in (labelled, len(Z) - labelled)]
        )
        gram, moment = Z.T @ Z, Z.T @ target
        held, self._weights = np.zeros(len(Z)), []
        for k in range(self.FOLDS):
            out = Z[fold == k]
            left = gram - out.T @ out
            ridge = self.RIDGE * np.trace(left) / len(left) * np.eye(len(left))
            self._weights.append(np.linalg.solve(left + ridge, moment - out.T @ target[fold == k]))
            held[fold == k] = out @ self._weights[-1]
        self.tails = ScoreTails(held[:labelled]).update(held[labelled:])

    def _features(self, X: np.ndarray) -> np.ndarray:
        scaled = np.clip((X - self._mean) / self._scale, -5, 5)
        return np.column_stack([np.ones(len(X)), scaled, np.cos(scaled @ self._frequency + self._phase)])

    def scores(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores of new rows by the fold models, twice."""
        dense = np.asarray(X.todense()) if hasattr(X, "todense") else np.asarray(X, dtype=float)
        found = self._features(dense) @ np.array(self._weights).T
        return found, found


def _scored(
    model: DefaultRatio | QuickRatio, facts: tuple[Any, ...], X: Any, y: np.ndarray, samples: dict[str, Any]
) -> Fit:
    """The fit with the scores of its test rows."""
    union = np.unique(np.concatenate(list(samples.values())))
    counted, labels = model.scores(_rows(X, union))
    tails = model.tails
    named: dict[str, Any] = dict(zip(_FACTS, facts, strict=True))
    arrays = (tails.levels, tails.positive_counts, tails.counts, counted, labels, y[union])
    kept = {name: np.searchsorted(union, at) for name, at in samples.items()}
    return Fit(**named, **dict(zip(_ARRAYS, arrays, strict=True)), samples=kept)


# -- windows of tables with periods ----------------------------------------------------------------


def windows(frame: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of some windows of at least 2,500 rows at their natural prior, and of the periods after them."""
    names = sorted(frame.period.unique())
    size = frame.groupby("period").size()
    ends = [j for j in range(1, len(names)) if size[names[:j]].sum() >= 2500]
    chosen = np.unique(np.linspace(0, len(ends) - 1, WINDOWS).round().astype(int))
    found = []
    for j in (ends[k] for k in chosen):
        k, n = j, 0
        while k and n < 2500:
            k -= 1
            n += size[names[k]]
        found.append(
            (
                np.flatnonzero(frame.period.isin(names[k:j])),
                np.flatnonzero(frame.period == names[j]),
            )
        )
    return found


def fit_window(name: str, frame: pd.DataFrame, number: int, rate: float) -> Fit | None:
    """A fit to one window, single sample, at its natural prior; the test sample is the next period."""
    rng = generator(name, number, rate)
    found = windows(frame)
    if number >= len(found):
        return None
    train, after = found[number]
    train, after = rng.permutation(train)[:2500], rng.permutation(after)[:TEST_ROWS]
    X, y = frame.drop(columns=["y", "period"]), frame.y.to_numpy().astype(int)
    positive = train[y[train] == 1]
    labels = round(rate * len(positive))
    if labels < FEWEST:
        return None
    rest = np.setdiff1d(train, positive[:labels])
    rows = X.iloc[np.concatenate([positive[:labels], rest])]
    facts = (
        name,
        "months",
        "single-sample",
        f"window {number}",
        rate,
        float(y[train].mean()),
        labels / len(train),
    )
    return _scored(DefaultRatio(rows, labels, "single-sample", number), facts, X, y, {"next": after})


# -- the cache -------------------------------------------------------------------------------------


def make_fits(
    cache: Path, pool: Path | None, others: Path | None, months: Path | None, *, quick: bool = False
) -> None:
    """Make every fit that ``cache`` does not have yet, in an order that mixes tables and plans."""
    cache.mkdir(parents=True, exist_ok=True)
    jobs: dict[str, Callable[[], Fit | None]] = {}
    for folder, kind in ((pool, "pool"), (others, "others")):
        for path in sorted(folder.glob("*.parquet") if folder else []):
            for plan in (FIRST, *PLANS):
                name = f"{kind}_{path.stem}_{plan.scenario[0]}_{plan.drawn}_{plan.rate}_{plan.rows}"
                if plan == FIRST or zlib.crc32(name.encode()) % 2:
                    jobs[name] = partial(_of_table, path, kind, plan, quick)
    for path in sorted(months.glob("*.parquet") if months and not quick else []):
        for number in range(WINDOWS):
            for rate in (RATES[number], RATES[(number + 3) % len(RATES)]):
                jobs[f"months_{path.stem}_{number}_{rate}"] = partial(_of_window, path, number, rate)
    for name in sorted(jobs, key=lambda name: zlib.crc32(name[::-1].encode())):
        path = cache / f"{name}.npz"
        if not path.exists() and not path.with_suffix(".none").exists():
            fit = jobs[name]()
            if fit is None:
                path.with_suffix(".none").touch()
            else:
                fit.save(path)
            print(name, "left out" if fit is None else "", flush=True)


def _of_table(path: Path, kind: str, plan: Plan, quick: bool) -> Fit | None:
    return fit_table(_table(path), kind, plan, quick=quick)


def _of_window(path: Path, number: int, rate: float) -> Fit | None:
    return fit_window(path.stem, _frame(path), number, rate)


@lru_cache(maxsize=200)
def _table(path: Path) -> Table:
    frame = _frame(path)
    return Table(path.stem, encode(frame.drop(columns="y")), frame["y"].to_numpy().astype(int))


@lru_cache(maxsize=20)
def _frame(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path)


def read_fits(cache: Path) -> Iterator[Fit]:
    """All fits of the cache."""
    for path in sorted(cache.glob("*.npz")):
        yield Fit.load(path)
