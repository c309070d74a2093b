"""Presence-only species: ranking, prior and probabilities of a survey that nobody used for training.

    python -m benchmarks.species --species FOLDER              # a quarter of an hour on one core
    python -m benchmarks.species --species FOLDER --number 5   # five species of each region

FOLDER has three Parquet files for each region: ``REGION_positives`` (a row for each presence, with its
``species``), ``REGION_background`` (random places) and ``REGION_survey`` (places of an independent survey,
with a column ``is_SPECIES`` for each species). Columns that all three have are features. The data are those
of ``disdat`` (Elith et al. 2020, https://github.com/rspatial/disdat).

Species are random ones of each region. Training rows are up to 1000 presences and 5000 places of the
background; 3000 places of the survey are ranked. Rivals get the same rows: a forest that draws as many places
as presences for each of 200 trees, fully grown or with leaves of three; LightGBM with its own settings; and
logistic regression on splines, with equal masses of presences and background. Answers are those of a random
plan, given by the survey. A probability is compared with the true share of the survey, given to every place
alike.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import SplineTransformer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from benchmarks._results import ROOT, command_line, write_results
from benchmarks._tables import encode, generator
from drpu import DRPUClassifier

FIGURE = ROOT / "docs" / "images" / "species.svg"
NUMBER = 20  # species of a region
FEWEST = 15  # presences
PRESENCES, BACKGROUND, SITES = 1000, 5000, 3000
TREES = 200
ANSWERS = (0, 20, 50)
SKILL = 0.6  # area under the curve from which on a probability can be better than a constant
GROUPS = {"below 30": (0, 30), "30 to 100": (30, 100), "above 100": (100, 10**9)}

Row = dict[str, Any]


@dataclass(frozen=True)
class Species:
    """Presences and background of a species, and places of the survey with its truth."""

    region: str
    name: str
    presence: pd.DataFrame
    background: pd.DataFrame
    survey: pd.DataFrame
    is_present: np.ndarray


def read_species(folder: Path, number: int) -> Iterator[Species]:
    """Random species of each region, in random order."""
    for path in sorted(folder.glob("*_positives.parquet")):
        region = path.name.removesuffix("_positives.parquet")
        positives = pd.read_parquet(path)
        background = pd.read_parquet(folder / f"{region}_background.parquet")
        survey = pd.read_parquet(folder / f"{region}_survey.parquet")
        columns = [name for name in background.columns if name in positives and name in survey]
        counts = positives["species"].value_counts()
        names = sorted(name for name in counts.index[counts >= FEWEST] if f"is_{name}" in survey)
        for name in generator(region, "species").permutation(names)[:number]:
            rng = generator(region, name)
            sites = _some(survey, SITES, rng)
            presence = _some(positives[positives["species"] == name], PRESENCES, rng)
            yield Species(
                region,
                str(name),
                presence[columns],
                _some(background, BACKGROUND, rng)[columns],
                sites[columns],
                sites[f"is_{name}"].to_numpy() == 1,
            )


def _some(frame: pd.DataFrame, most: int, rng: np.random.Generator) -> pd.DataFrame:
    """At most so many random rows."""
    return frame.iloc[rng.permutation(len(frame))[:most]].reset_index(drop=True)


# -- rivals ----------------------------------------------------------------------------------------


def forest(X: np.ndarray, y: np.ndarray, new: np.ndarray, leaf: int) -> np.ndarray:
    """Mean of trees, each of which gets a bootstrap sample of presences and as many random places."""
    rng = np.random.default_rng(0)
    presence, background = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
    total = np.zeros(len(new))
    for seed in range(TREES):
        drawn = [rng.choice(rows, len(presence)) for rows in (presence, background)]
        rows = np.concatenate(drawn)
        tree = DecisionTreeClassifier(min_samples_leaf=leaf, max_features="sqrt", random_state=seed)
        total += tree.fit(X[rows], y[rows]).predict_proba(new)[:, 1]
    return total / TREES


def boosted(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """LightGBM with its own settings."""
    settings = {"objective": "binary", "num_threads": 1, "verbosity": -1}
    return np.asarray(lightgbm.train(settings, lightgbm.Dataset(X, y), 100).predict(new))


def splines(X: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Logistic regression on cubic splines of the columns."""
    curves = SplineTransformer(n_knots=5, knots="quantile", extrapolation="constant")
    regression = LogisticRegression(class_weight="balanced", max_iter=500)
    model = make_pipeline(StandardScaler(), curves, regression)
    return np.asarray(model.fit(X, y).decision_function(new))


RIVALS: dict[str, Callable[..., np.ndarray]] = {
    "forest": lambda X, y, new: forest(X, y, new, 1),
    "forest, leaves of 3": lambda X, y, new: forest(X, y, new, 3),
    "LightGBM": boosted,
    "splines": splines,
}


# -- figures of one species ------------------------------------------------------------------------


def figures(species: Species) -> Row:
    """Areas under the curve of all methods; error of the prior and Brier scores by answers."""
    truth = species.is_present
    share = float(truth.mean())
    row: Row = {"region": species.region, "species": species.name}
    row |= {"presences": len(species.presence), "share": share, "constant": share * (1 - share)}
    start = time.perf_counter()
    clf = DRPUClassifier(random_state=0).fit_pu(species.presence, species.background)
    row["seconds"] = time.perf_counter() - start
    row["drpu"] = float(roc_auc_score(truth, clf.ratio(species.survey)))
    plan = clf.plan_audit(species.survey, n=max(ANSWERS), random_state=0)
    for n in ANSWERS:
        adapted = clf.adapt(species.survey)
        if n:
            answers = plan.answer(truth[plan.rows[:n]])
            adapted = clf.adapt(species.survey, audit=answers)
        p = adapted.predict_proba(species.survey)[:, 1]
        row[f"error {n}"] = abs(adapted.test_prior_.value - share)
        row[f"Brier {n}"] = float(np.mean((p - truth) ** 2))
    together = pd.concat([species.presence, species.background, species.survey], ignore_index=True)
    encoded = np.asarray(encode(together))
    n_train = len(species.presence) + len(species.background)
    y = np.repeat([1, 0], [len(species.presence), len(species.background)])
    for name, rival in RIVALS.items():
        scores = rival(encoded[:n_train], y, encoded[n_train:])
        row[name] = float(roc_auc_score(truth, scores))
    return row


# -- summaries -------------------------------------------------------------------------------------


def summary(name: str, rows: Sequence[Row]) -> Row:
    """Means over species, and how often the default loses."""

    def mean(key: str) -> float:
        return float(np.mean([row[key] for row in rows]))

    line: Row = {"of": name, "species": len(rows)}
    for key in ("drpu", *RIVALS, *(f"error {n}" for n in ANSWERS)):
        line[key] = mean(key)
    best = [max(row["forest"], row["forest, leaves of 3"]) for row in rows]
    line["lost .02"] = int(sum(row["drpu"] < of - 0.02 for row, of in zip(rows, best, strict=True)))
    skilled = [row for row, of in zip(rows, best, strict=True) if of > SKILL]
    line["skilled"] = len(skilled)
    for n in ANSWERS:
        line[f"better {n}"] = int(sum(row[f"Brier {n}"] < row["constant"] for row in skilled))
    return line


def summaries(rows: Sequence[Row]) -> list[Row]:
    """All species, those with few, some and many presences, and each region."""
    lines = [summary("all", rows)]
    for name, (low, high) in GROUPS.items():
        group = [row for row in rows if low <= row["presences"] < high]
        if group:
            lines.append(summary(name, group))
    for region in sorted({row["region"] for row in rows}):
        lines.append(summary(region, [row for row in rows if row["region"] == region]))
    return lines


def draw_figure(rows: Sequence[Row], path: Path) -> None:
    """Area under the curve beyond that of the fully grown forest, by the number of presences."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with matplotlib.rc_context({"svg.hashsalt": "species", "svg.fonttype": "path"}):
        figure, axes = pyplot.subplots(figsize=(6.4, 3.2), layout="constrained")
        for region, marker in zip(sorted({row["region"] for row in rows}), "osD^v<>", strict=False):
            found = [row for row in rows if row["region"] == region]
            gains = [row["drpu"] - row["forest"] for row in found]
            axes.plot([row["presences"] for row in found], gains, marker, alpha=0.7, label=region)
        axes.axhline(0, color="gray", linewidth=1)
        axes.set(xscale="log", xlabel="presences", ylabel="area: drpu minus forest")
        axes.legend()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def main() -> None:
    """Measure, print, write the result file and draw the figure."""
    parser = command_line(__doc__)
    parser.add_argument("--species", type=Path, required=True, help="folder of the Parquet files")
    parser.add_argument("--number", type=int, default=NUMBER, help="species of each region")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for species in read_species(options.species, options.number):
        if 0 < species.is_present.sum() < len(species.is_present):
            rows.append(figures(species))
            shown = {k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}
            print(shown, flush=True)
    lines = summaries(rows)
    for line in lines:
        print(line)
    command = "python -m benchmarks.species --species FOLDER"
    if options.number != NUMBER:
        command += f" --number {options.number}"
    print("wrote", write_results("species", command, figures=lines, rows=rows))
    draw_figure(rows, FIGURE)


if __name__ == "__main__":
    main()
