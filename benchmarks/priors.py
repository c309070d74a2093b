"""Errors of all estimators of the prior, over scores, priors and sizes.

    python -m benchmarks.priors            # everything, a few minutes on one core
    python -m benchmarks.priors --docs     # write docs/priors.md from the result file

Four parts. ``scores``: one sample, scores drawn from known families, ten unlabeled rows
for each positive. ``models``: one sample, scores of models cross-fitted on digits
(even = positive) and breast_cancer (malignant = positive). ``shift``: a second sample
at another prior, with the first as reference. ``features``: KM1 and KM2, which use features and
are slow, compared with the default on the same few samples.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks._families import FAMILIES, draw_mixture, draw_rows
from benchmarks._results import command_line, read_results, write_results
from benchmarks._rules import em, scott
from benchmarks.shift import load
from drpu import KernelMeanPrior, make_pu
from drpu._samples import Sample, SamplePair
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DRPUWarning
from drpu.models.crossfit import cross_fit, tails_of
from drpu.models.learner import seeded
from drpu.models.registry import resolve_model
from drpu.priors.readings import PROPORTIONS
from drpu.priors.tails import ScoreTails

PRIORS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.95)
SIZES = (50, 200, 500, 2500)
DRAWN = ("g2", "g3", "g4", "pure10", "t3", "clip", "gamma", "hard negatives", "two modes", "two decimals")
RATIOS = {"ratio 2": 2.0, "ratio 3": 3.0}  # log-ratios of normals this far apart, blurred by 0.3
DOCS = Path(__file__).parent.parent / "docs" / "priors.md"

Row = dict[str, Any]


def generator(*what: Any) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(what).encode()))


def one_sample(tails: ScoreTails) -> dict[str, float]:
    """Every estimate of :func:`drpu.estimate_prior`, and ``scott``."""
    found = {name: prior_from_tails(tails, method=name).value for name in ("auto", *PROPORTIONS)}
    return found | {"scott": scott(tails)}


def two_samples(tails: ScoreTails, reference: ScoreTails) -> dict[str, float]:
    """Every estimate for a second sample; ``direct`` uses that sample alone."""
    train = prior_from_tails(reference)
    found = {}
    for name in ("auto", "efficient"):
        prior = prior_from_tails(tails, method=name, reference=reference, train_prior=train)
        found[name] = prior.value
    found["em"] = em(tails, reference, train.value)
    return found | {"direct": prior_from_tails(tails).value}


def summary(what: Row, truth: float, found: list[dict[str, float]]) -> Row:
    errors = {name: np.array([values[name] for values in found]) - truth for name in found[0]}
    return {
        **what,
        "runs": len(found),
        "error": {name: float(np.abs(e).mean()) for name, e in errors.items()},
        "bias": {name: float(e.mean()) for name, e in errors.items()},
    }


# -- the parts -----------------------------------------------------------------------------


def draw(name: str, rng: np.random.Generator, n_positive: int, n: int, prior: float, test: float) -> Any:
    """Scores of positives, of unlabeled rows, and of a second sample."""
    if name in FAMILIES:
        family = FAMILIES[name]
        latent = draw_mixture(family.positive, rng, n_positive)
        samples = (latent, draw_rows(family, rng, n, prior), draw_rows(family, rng, n, test))
        return tuple(family.scores(sample) for sample in samples)
    apart = RATIOS[name]

    def ratios(size: int, share: float) -> Any:
        ratio = np.exp(apart * (rng.normal(0, 1, size) + apart * (rng.random(size) < share)) - apart**2 / 2)
        return np.log(ratio / (prior * ratio + 1 - prior)) + rng.normal(0, 0.3, size)

    return ratios(n_positive, 1.0), ratios(n, prior), ratios(n, test)


def scores(runs: int) -> Iterator[Row]:
    for name in (*DRAWN, *RATIOS):
        for n_positive in SIZES:
            for prior in PRIORS:
                found = []
                for run in range(runs):
                    rng = generator(name, n_positive, prior, run)
                    positive, unlabeled, _ = draw(name, rng, n_positive, 10 * n_positive, prior, prior)
                    found.append(one_sample(ScoreTails(positive).update(unlabeled)))
                yield summary({"scores": name, "n_positive": n_positive, "prior": prior}, prior, found)


MODELS: dict[str, Callable[[], Any]] = {
    "logistic": lambda: "classifier",
    "forest": lambda: RandomForestClassifier(50, min_samples_leaf=3),
    "kernel": lambda: "kernel",
}


def models(runs: int) -> Iterator[Row]:
    runs = max(1, runs // 2)
    for data, sizes in (("digits", (50, 200)), ("breast_cancer", (50,))):
        X, y = load(data)
        for name, model in MODELS.items():
            for n_positive in sizes:
                for prior in PRIORS:
                    found = [model_sample(X, y, model(), n_positive, prior, run) for run in range(runs)]
                    what = {"scores": f"{data}, {name}", "n_positive": n_positive, "prior": prior}
                    yield summary(what, prior, found)


def model_sample(X: Any, y: Any, model: Any, n_positive: int, prior: float, run: int) -> dict[str, float]:
    rows = make_pu(X, y, prior=prior, labelled=n_positive, scenario="case-control", random_state=run)
    pair = SamplePair(Sample(rows.X[rows.y == 1]), Sample(rows.X[rows.y == 0]))
    rng = np.random.RandomState(run)
    _, held = cross_fit(seeded(resolve_model(model), rng), pair, holdout=5, random_state=rng)
    return one_sample(tails_of(held))


def shift(runs: int) -> Iterator[Row]:
    for name in (*DRAWN, *RATIOS):
        for n_positive in (200, 1000):
            for prior, test in (
                (p, q) for p in (0.2, 0.5, 0.8) for q in (0.05, 0.2, 0.5, 0.8, 0.95) if p != q
            ):
                found = []
                for run in range(runs):
                    rng = generator("shift", name, n_positive, prior, test, run)
                    positive, unlabeled, new = draw(name, rng, n_positive, 10 * n_positive, prior, test)
                    reference = ScoreTails(positive).update(unlabeled)
                    found.append(two_samples(reference.empty().update(new), reference))
                what = {"scores": name, "n_positive": n_positive, "prior": test, "train_prior": prior}
                yield summary(what, test, found)


def features(runs: int) -> Iterator[Row]:
    for data, n_positive in (("digits", 200), ("breast_cancer", 50)):
        X, y = load(data)
        X = StandardScaler().fit_transform(X) if data == "breast_cancer" else X
        for prior in (0.1, 0.3, 0.5, 0.7, 0.9):
            found = []
            for run in range(max(1, runs // 5)):
                rows = make_pu(
                    X, y, prior=prior, labelled=n_positive, scenario="case-control", random_state=run
                )
                samples = rows.X[rows.y == 1], rows.X[rows.y == 0]
                values = {name: KernelMeanPrior(name).estimate(*samples).value for name in ("km1", "km2")}
                values["auto"] = model_sample(X, y, "classifier", n_positive, prior, run)["auto"]
                found.append(values)
            yield summary({"scores": data, "n_positive": n_positive, "prior": prior}, prior, found)


PARTS: dict[str, Callable[[int], Iterator[Row]]] = {
    "scores": scores,
    "models": models,
    "shift": shift,
    "features": features,
}


# -- tables --------------------------------------------------------------------------------


def table(rows: list[Row], by: str) -> list[list[str]]:
    """Mean errors, one line for each value of ``by``, all of them last."""
    names = list(rows[0]["error"])
    lines = [[by.replace("_", " "), *names]]
    for value in (*dict.fromkeys(row[by] for row in rows), "all"):
        chosen = [row for row in rows if value in ("all", row[by])]
        means = [np.mean([row["error"][name] for row in chosen]) for name in names]
        lines.append([str(value), *(f"{mean:.3f}" for mean in means)])
    worst = [max(row["error"][name] for row in rows) for name in names]
    return [*lines, ["worst cell", *(f"{error:.3f}" for error in worst)]]


def show(lines: list[list[str]]) -> str:
    return "\n".join("  ".join(f"{cell:>14s}" for cell in line) for line in lines)


def markdown(lines: list[list[str]]) -> str:
    head, *body = lines
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *body))


TEXT = {
    "scores": "One sample, scores from known families (ten unlabeled rows for each positive).",
    "models": "One sample, scores of models cross-fitted on digits and breast_cancer.",
    "shift": "A second sample at another prior, with the training prior estimated. `auto` is the default, "
    "`direct` is the default for one sample, applied to the new rows alone.",
    "features": "KM1 and KM2 read features and cannot exceed 0.875; beside them the default on "
    "logistic scores.",
}


def docs() -> str:
    """The page: errors of the estimators."""
    record = read_results("priors")
    text = [
        "# Which prior estimator, and why",
        "",
        "Numbers are mean absolute errors of the prior; *worst cell* is the largest of the "
        "means over the runs of one setting. `auto` is the default: the mean of [a distribution that was "
        "learned from many tables](unidentified.md). The other columns are named readings, which assume "
        "that the best-scored rows are all positive. Scores with clearly separated classes, as most of "
        "these are, suit readings; in real tables the classes overlap more.",
        "",
        "<!-- results: priors_made -->",
    ]
    for part, lead in TEXT.items():
        rows = record[part]
        text += ["", f"## {part.capitalize()}", "", lead, "", f"Measured by {record['commands'][part]}."]
        for by in ("prior", "n_positive", "scores"):
            text += ["", markdown(table(rows, by))]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--docs", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.docs:
        DOCS.write_text(docs())
        print("wrote", DOCS)
        return
    warnings.simplefilter("ignore", DRPUWarning)  # overlap and few rows are part of the protocol
    names = options.parts or list(PARTS)
    try:
        before = read_results("priors")
    except FileNotFoundError:
        before = {"commands": {}}
    kept = {name: rows for name, rows in before.items() if name in PARTS}
    commands: dict[str, str] = before["commands"]
    for name in names:
        start = time.perf_counter()
        kept[name] = list(PARTS[name](options.runs))
        print(
            f"\n{name}: {time.perf_counter() - start:.0f} s\n{show(table(kept[name], 'prior'))}", flush=True
        )
        commands[name] = f"`python -m benchmarks.priors {name} --runs {options.runs}`"
        write_results("priors", "python -m benchmarks.priors", commands=commands, **kept)


if __name__ == "__main__":
    main()
