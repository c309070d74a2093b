"""Tables 2 to 4 from result files, beside the published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from paper.configs import DATASETS, FLAVOURS, TEST_PRIORS
from paper.published import ACCURACY, AUC, N_TRIALS, PRIOR_ERROR
from paper.store import RESULTS, read_results

__all__ = [
    "NAMES",
    "Cells",
    "Table",
    "accuracy_table",
    "all_tables",
    "auc_table",
    "prior_table",
    "write_tables",
]

NAMES = {
    "mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "kmnist": "Kuzushiji-MNIST", "cifar10": "CIFAR-10",
    "nnpu": "nnPU", "pua": "PUa", "vpu": "VPU", "drpu": "DRPU", "km2": "KM2", "upu": "uPU",
}  # fmt: skip
LEVEL = 0.05
AUC_PRIOR = 0.6

Column = tuple[str, str]  # flavour and method; published numbers have the flavour "paper"


@dataclass(frozen=True, slots=True)
class Cells:
    """Mean and spread of the trials of one cell, or the published ones."""

    mean: float
    spread: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Cells:
        """Mean and standard deviation of trials."""
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), spread, len(values))

    def errors_from(self, other: Cells) -> float:
        """Difference from another cell, in standard errors of the difference."""
        error = np.sqrt(self.spread**2 / self.n + other.spread**2 / other.n)
        return float((self.mean - other.mean) / error) if error > 0 else float("nan")

    def worse_than(self, best: Cells) -> bool:
        """Whether this mean is smaller than the best one by a one-sided t-test at 5 %."""
        if min(self.n, best.n) < 2 or self.spread + best.spread == 0:
            return self.mean < best.mean
        test = stats.ttest_ind_from_stats(
            self.mean,
            self.spread,
            self.n,
            best.mean,
            best.spread,
            best.n,
            equal_var=False,
            alternative="less",
        )
        return bool(test.pvalue < LEVEL)


@dataclass(slots=True)
class Table:
    """Rows of text, with the cells to print in bold."""

    title: str
    header: list[str]
    rows: list[list[str]] = field(default_factory=list)
    bold: list[set[int]] = field(default_factory=list)

    def add(self, row: Iterable[str], bold: Iterable[int] = ()) -> None:
        """Append a row."""
        self.rows.append(list(row))
        self.bold.append(set(bold))

    def markdown(self) -> str:
        """The table in Markdown."""
        lines = ["| " + " | ".join(self.header) + " |", "|" + "---|" * len(self.header)]
        for row, bold in zip(self.rows, self.bold, strict=True):
            marked = [f"**{text}**" if i in bold and text else text for i, text in enumerate(row)]
            lines.append("| " + " | ".join(marked) + " |")
        return "\n".join(lines)

    def latex(self) -> str:
        """The table in LaTeX."""
        lines = [rf"\begin{{tabular}}{{{'l' * len(self.header)}}}", r"\toprule"]
        lines += [" & ".join(map(_tex, self.header)) + r" \\", r"\midrule"]
        for row, bold in zip(self.rows, self.bold, strict=True):
            marked = [rf"\textbf{{{_tex(t)}}}" if i in bold and t else _tex(t) for i, t in enumerate(row)]
            lines.append(" & ".join(marked) + r" \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def accuracy_table(results: Sequence[dict[str, Any]], dataset: str, labels: str | None = None) -> Table:
    """Table 2 for one data set: accuracy in percent by test prior, and its average."""
    found = {
        (column, prior): cells
        for column, trials in _by_column(results, dataset, labels).items()
        for prior, cells in _by_prior(trials, "accuracy").items()
    }
    paper = {(("paper", m), p): Cells(*v, N_TRIALS) for (d, p, m), v in ACCURACY.items() if d == dataset}
    title = f"Accuracy, {_name(results, dataset, labels)}"
    return _by_prior_table(title, paper, found, scale=100, digits=2)


def auc_table(results: Sequence[dict[str, Any]]) -> Table:
    """Table 3: area under the curve at a test prior of .6."""
    found = [column for d in DATASETS for column in _by_column(results, d, None)]
    columns = _columns([*found, *(("paper", method) for _, method in AUC)])
    table = Table("AUC", ["data set", *map(_title, columns)])
    for dataset in DATASETS:
        cells = {("paper", m): Cells(*v, N_TRIALS) for (d, m), v in AUC.items() if d == dataset}
        cells |= {
            column: _by_prior(trials, "auc")[AUC_PRIOR]
            for column, trials in _by_column(results, dataset, None).items()
        }
        table.add(
            [NAMES[dataset], *_texts(columns, cells, 1, 4)],
            [i + 1 for i in _bold(columns, cells, largest=True)],
        )
    return table


def prior_table(results: Sequence[dict[str, Any]], dataset: str, labels: str | None = None) -> Table:
    """Table 4 for one data set: mean absolute error of the test prior."""
    found = {
        (column, prior): cells
        for column, trials in _by_column(results, dataset, labels, experiments=("benchmark", "km2")).items()
        if column[1] in ("drpu", "km2")
        for prior, cells in _by_prior(trials, "error").items()
    }
    paper = {(("paper", m), p): Cells(*v, N_TRIALS) for (d, p, m), v in PRIOR_ERROR.items() if d == dataset}
    title = f"Error of the prior, {_name(results, dataset, labels)}"
    return _by_prior_table(title, paper, found, 1, 4, largest=False)


def all_tables(results: Sequence[dict[str, Any]]) -> dict[str, Table]:
    """Every table that the results allow, by the name of its file."""
    tables = {f"accuracy-{dataset}": accuracy_table(results, dataset) for dataset in DATASETS}
    if any((r["experiment"], r["labels"]) == ("benchmark", "bag") for r in results):
        tables["accuracy-fashion_mnist-bag"] = accuracy_table(results, "fashion_mnist", "bag")
        tables["prior-fashion_mnist-bag"] = prior_table(results, "fashion_mnist", "bag")
    return tables | {"auc": auc_table(results)} | {f"prior-{d}": prior_table(results, d) for d in DATASETS}


def write_tables(folder: Path = RESULTS, to: Path | None = None) -> None:
    """Write all tables as Markdown and LaTeX."""
    target = to or folder.parent / "tables"
    target.mkdir(parents=True, exist_ok=True)
    for name, table in all_tables(read_results(folder)).items():
        (target / f"{name}.md").write_text(f"{table.title}\n\n{table.markdown()}\n")
        (target / f"{name}.tex").write_text(table.latex() + "\n")


# -- from results to cells ---------------------------------------------------------


def _name(results: Sequence[dict[str, Any]], dataset: str, labels: str | None = None) -> str:
    """Name of the data set, with a remark if it is reduced or if its labels are not the usual ones."""
    if labels == "bag":
        return f"{NAMES[dataset]} (Bag in place of Shirt)"
    reduced = any(r["dataset"] == dataset and r["protocol"] == "reduced" for r in results)
    return NAMES[dataset] + (" (reduced: 7,000 training images)" if reduced else "")


def _by_column(
    results: Sequence[dict[str, Any]],
    dataset: str,
    labels: str | None,
    experiments: Sequence[str] = ("benchmark",),
) -> dict[Column, list[dict[str, Any]]]:
    wanted = labels or DATASETS[dataset].labels
    columns: dict[Column, list[dict[str, Any]]] = {}
    for result in results:
        if result["experiment"] in experiments and (result["dataset"], result["labels"]) == (dataset, wanted):
            columns.setdefault((result["flavour"], result["method"]), []).append(result)
    return columns


def _by_prior(trials: Sequence[dict[str, Any]], what: str) -> dict[float, Cells]:
    """Cells by test prior; ``error`` is the absolute error of the estimated prior."""

    def value(line: dict[str, Any]) -> float:
        if what == "error":
            return float(abs(line["estimated_prior"] - line["test_prior"]))
        return float(line[what])

    return {
        prior: Cells.of([value(t) for r in trials for t in r["tests"] if t["test_prior"] == prior])
        for prior in TEST_PRIORS
    }


def _by_prior_table(
    title: str,
    paper: dict[tuple[Column, float], Cells],
    found: dict[tuple[Column, float], Cells],
    scale: float,
    digits: int,
    largest: bool = True,
) -> Table:
    both = paper | found
    columns = _columns([column for column, _ in both])
    table = Table(title, ["test prior", *map(_title, columns)])
    for prior in TEST_PRIORS:
        cells = {column: both[column, prior] for column in columns}
        bold = [i + 1 for i in _bold(columns, cells, largest=largest)]
        table.add([f"{prior:g}", *_texts(columns, cells, scale, digits)], bold)
    averages = [float(np.mean([both[column, p].mean for p in TEST_PRIORS])) for column in columns]
    table.add(
        ["average", *(f"{scale * value:.{digits}f}" for value in averages)], _best(columns, averages, largest)
    )
    return table


def _best(columns: Sequence[Column], averages: Sequence[float], largest: bool) -> list[int]:
    """The best average of each group."""
    sign = 1 if largest else -1
    groups: dict[str, int] = {}
    for i, (flavour, _) in enumerate(columns):
        group = "paper" if flavour == "paper" else "found"
        if group not in groups or sign * averages[i] > sign * averages[groups[group]]:
            groups[group] = i
    return [i + 1 for i in groups.values()]


def _columns(found: Iterable[Column]) -> list[Column]:
    """Columns in the order of the paper: its own numbers first."""
    flavours, methods = ("paper", *FLAVOURS), ("km2", "nnpu", "pua", "vpu", "drpu")
    unique = set(found)
    return sorted(unique, key=lambda column: (flavours.index(column[0]), methods.index(column[1])))


def _title(column: Column) -> str:
    return f"{NAMES[column[1]]}, {column[0]}"


def _texts(columns: Sequence[Column], cells: dict[Column, Cells], scale: float, digits: int) -> list[str]:
    """Mean and spread, with the distance from the published number in standard errors."""
    texts = []
    for column in columns:
        cell = cells.get(column)
        if cell is None:
            texts.append("")
            continue
        text = f"{scale * cell.mean:.{digits}f} ± {scale * cell.spread:.{digits}f}"
        published = cells.get(("paper", column[1]))
        if column[0] != "paper" and published is not None and cell.n > 1:
            text += f" ({cell.errors_from(published):+.1f})"
        texts.append(text)
    return texts


def _bold(columns: Sequence[Column], cells: dict[Column, Cells], *, largest: bool) -> list[int]:
    """Columns that are not worse than the best of their group, by a one-sided t-test."""
    sign = 1.0 if largest else -1.0
    bold = []
    for published in (True, False):
        group = [c for c in columns if (c[0] == "paper") is published and c in cells]
        signed = {c: Cells(sign * cells[c].mean, cells[c].spread, cells[c].n) for c in group}
        if signed:
            best = max(signed.values(), key=lambda cell: cell.mean)
            bold += [columns.index(c) for c in group if not signed[c].worse_than(best)]
    return bold


def _tex(text: str) -> str:
    return text.replace("±", r"$\pm$").replace("%", r"\%").replace("_", r"\_")
