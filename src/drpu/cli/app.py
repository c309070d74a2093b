"""The commands, one function each: read, call the library, say what came of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from drpu import __version__
from drpu.cli import show
from drpu.cli.facts import learnt, standing, train_prior, versions
from drpu.cli.rows import (
    adapted_to,
    answers_for,
    as_label,
    groups,
    kept_columns,
    labelled,
    load_classifier,
    number_or_word,
    rows_for,
    weighted_rows,
)
from drpu.cli.show import quiet_warnings
from drpu.cli.tables import PIPE, check_folder, read, write
from drpu.core.prior import PriorEstimate
from drpu.estimators.adapted import OTHER_SHIFT

__all__ = ["app", "quiet_warnings"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Classify from positive and unlabeled rows, and follow the share of positives when it moves.",
    epilog="Learn once: **drpu fit train.parquet --label fraud --out fraud.drpu**  ·  "
    "then every month: **drpu predict fraud.drpu june.parquet --adapt --out june-scored.parquet**",
    context_settings={"help_option_names": ["-h", "--help"]},
)

# -- arguments that several commands share -----------------------------------------------------

Artifact = Annotated[Path, typer.Argument(help="A classifier that `drpu fit` wrote.", show_default=False)]
Data = Annotated[
    str, typer.Argument(help="CSV, Parquet, Arrow, npz; - is CSV from a pipe.", show_default=False)
]
Columns = Annotated[str | None, typer.Option("--columns", "-c", help="Use these columns only: a,b,c.")]
Drop = Annotated[str | None, typer.Option("--drop", "-d", help="Leave these columns out: id,date.")]
Cost = Annotated[
    float | None,
    typer.Option(help="False-positive cost in (0, 1). k times a miss: k/(1+k).", show_default=False),
]
Level = Annotated[float, typer.Option(help="Confidence level of the interval.")]
Json = Annotated[bool, typer.Option("--json", help="Answer in JSON.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"drpu {__version__}")
        raise typer.Exit


@app.callback()
def drpu(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where an error came from; works after any command too.")
    ] = False,
) -> None:
    """Classify from positive and unlabeled rows, and follow the share of positives when it moves."""


# -- commands --------------------------------------------------------------------------------------


@app.command()
def fit(
    train: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the classifier.")],
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Column that marks labelled positives with 1.")
    ] = None,
    unlabeled: Annotated[
        str | None, typer.Option(help="Second file with the unlabeled rows; then TRAIN holds positives only.")
    ] = None,
    columns: Columns = None,
    drop: Drop = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    pos_label: Annotated[
        str | None, typer.Option(help="Label of the positives; the larger if left out.")
    ] = None,
    model: Annotated[str, typer.Option(help="auto, boosted, classifier, kernel or network.")] = "auto",
    scenario: Annotated[
        str,
        typer.Option(
            help="case-control: unlabeled rows are a sample of the population. "
            "single-sample: labels were given to some rows of it."
        ),
    ] = "case-control",
    prior: Annotated[str, typer.Option(help="Share of positives, or how to estimate it.")] = "auto",
    cost: Cost = None,
    seed: Annotated[int, typer.Option(help="Seed: the same rows give the same classifier.")] = 0,
    jobs: Annotated[int, typer.Option(help="Folds fitted at the same time.")] = 1,
    json: Json = False,
) -> None:
    """Learn a classifier from labelled positives and unlabeled rows.

    **Examples**

    `drpu fit train.parquet --label fraud --drop id,date --out fraud.drpu`

    `drpu fit confirmed.csv --unlabeled everything.csv --out fraud.drpu`

    `zcat train.csv.gz | drpu fit - --label y --model boosted --out y.drpu`
    """
    from drpu import DRPUClassifier, save

    if (label is None) == (unlabeled is None):
        raise typer.BadParameter("give a column of labels (--label y) or a second file (--unlabeled u.csv).")
    classifier = DRPUClassifier(
        model, prior=number_or_word(prior), cost=0.5 if cost is None else cost, scenario=scenario,
        random_state=seed, n_jobs=jobs, verbose=int(sys.stderr.isatty() and not json),
    )  # fmt: skip
    check_folder(out)
    loaded = read(train)
    if label is not None:
        X, y, w = labelled(loaded, label, columns, drop, weight)
        classifier.set_params(pos_label=as_label(pos_label, y)).fit(X, y, sample_weight=w)
    else:
        assert unlabeled is not None
        sides = [weighted_rows(side, columns, drop, weight) for side in (loaded, read(unlabeled))]
        (P, w_p), (U, w_u) = sides
        classifier.fit_pu(P, U, positive_weight=w_p, unlabeled_weight=w_u)
    save(classifier, out)
    result = {"artifact": str(out), "bytes": out.stat().st_size} | learnt(classifier)
    if json:
        show.as_json(result)
        return
    show.say(
        f"learnt from {result['positives']:,.0f} positives and {result['unlabeled']:,.0f} unlabeled rows"
    )
    show.facts(
        {
            "share of positives": show.prior(classifier.prior_),
            "threshold": f"ratio above {classifier.threshold_:.3g}",
            "to expect": show.performance(classifier.expected_performance()),
            "written": f"{out} ({show.size(out.stat().st_size)}, no training rows)",
        }
    )


@app.command()
def adapt(
    artifact: Artifact,
    data: Data,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write the outcome.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    cost: Cost = None,
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """Find the share of positives in new rows and move the classifier there.

    **Examples**

    `drpu adapt fraud.drpu june.parquet`

    `drpu adapt fraud.drpu june.parquet --cost 0.8 --out june.drpu`
    """
    from drpu import save

    check_folder(out)
    classifier = load_classifier(artifact)
    adapted = adapted_to(classifier, data, columns, drop, cost=cost, level=level)
    if out is not None:
        save(adapted, out)
    if json:
        show.as_json(standing(adapted) | {"artifact": None if out is None else str(out)})
        return
    show.facts(
        {
            "share of positives": show.prior(adapted.prior_),
            "in training": show.prior(adapted.train_prior_),
            "threshold": f"ratio above {adapted.threshold_:.3g} (in training {classifier.threshold_:.3g})",
            "to expect": show.performance(adapted.expected_performance()),
        }
        | ({} if out is None else {"written": str(out)})
    )


@app.command()
def predict(
    artifact: Artifact,
    data: Data,
    out: Annotated[str, typer.Option("--out", "-o", help="Where to write; - is CSV to the pipe.")] = PIPE,
    adapt: Annotated[bool, typer.Option("--adapt", help="Find the share of positives first.")] = False,
    prior: Annotated[float | None, typer.Option(help="The share of positives, if you know it.")] = None,
    cost: Cost = None,
    columns: Columns = None,
    drop: Drop = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Columns to carry over: id,date; all if left out.", show_default=False),
    ] = None,
    prefix: Annotated[str, typer.Option(help="Start of the names of the new columns.")] = "drpu_",
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """Label rows, with probabilities: columns drpu_label, drpu_probability, drpu_ratio.

    **Examples**

    `drpu predict fraud.drpu june.parquet --adapt --cost 0.8 --out june-scored.parquet`

    `drpu predict fraud.drpu june.csv --prior 0.02 --keep id > june-scored.csv`

    `cat june.csv | drpu predict fraud.drpu - --adapt --json | jq .flagged`
    """
    if adapt and prior is not None:
        raise typer.BadParameter("--adapt finds the prior and --prior gives it: choose one.")
    check_folder(out)
    classifier, loaded = load_classifier(artifact), read(data)
    X = rows_for(classifier, loaded, columns, drop)
    if adapt:
        classifier = classifier.adapt(X, cost=cost, level=level)
    elif prior is not None or cost is not None:
        classifier = classifier.at_prior(classifier._current_prior if prior is None else prior, cost=cost)

    answers = answers_for(classifier, X, prefix)
    labels = answers[f"{prefix}label"]
    flagged = int(np.sum(labels == classifier.classes_[1]))
    summary = standing(classifier) | {"rows": len(labels), "flagged": flagged, "out": out}
    if out == PIPE and json:
        show.as_json(summary | {"answers": answers})
        return
    write(out, kept_columns(loaded, keep), answers)
    if json:
        show.as_json(summary)
        return
    share = flagged / max(len(labels), 1)
    show.say(
        f"{flagged:,} of {len(labels):,} rows flagged ({share:.1%}); "
        f"share of positives {show.prior(classifier._current_prior)}"
        + ("" if out == PIPE else f"; written to {out}"),
        aside=out == PIPE,
    )


@app.command("prior")
def prior_command(
    artifact: Artifact,
    data: Annotated[list[str], typer.Argument(help="One file or more.", show_default=False)],
    by: Annotated[str | None, typer.Option(help="Column to group by, such as month.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    level: Level = 0.95,
    json: Json = False,
) -> None:
    """Share of positives in new rows, file by file or group by group, with intervals.

    **Examples**

    `drpu prior fraud.drpu april.csv may.csv june.csv`

    `drpu prior fraud.drpu year.parquet --by month --json`
    """
    classifier = load_classifier(artifact)
    found: list[dict[str, Any]] = []
    for path in data:
        if by is None:
            moved = {path: adapted_to(classifier, path, columns, drop, level=level)}
        else:
            moved = {
                name: classifier.adapt(rows_for(classifier, part, columns, drop), level=level)
                for name, part in groups(read(path), by)
            }
        for name, adapted in moved.items():
            found.append({"data": name, "prior": adapted.prior_, "p_value": adapted.shift_test_.p_value})
    if json:
        show.as_json({"train_prior": train_prior(classifier), "found": found})
        return
    lines = [["(training)", *_numbers(train_prior(classifier)), ""]]
    for item in found:
        only = "no" if item["p_value"] < OTHER_SHIFT else "yes"
        lines.append([item["data"], *_numbers(item["prior"]), only])
    show.table(["data", "prior", "low", "high", "only the prior moved"], lines)


def _numbers(prior: PriorEstimate) -> list[str]:
    return [f"{number:.4f}" for number in (prior.value, prior.low, prior.high)]


@app.command()
def inspect(artifact: Artifact, json: Json = False) -> None:
    """Say what a saved classifier is, without any data.

    **Examples**

    `drpu inspect fraud.drpu`

    `drpu inspect fraud.drpu --json | jq .versions`
    """
    classifier = load_classifier(artifact)
    size, wrote, what = artifact.stat().st_size, versions(artifact), learnt(classifier)
    if json:
        show.as_json({"artifact": str(artifact), "bytes": size, "versions": wrote} | what)
        return
    names = what["columns"] or [f"{what['n_columns']} without names"]
    show.facts(
        {
            "kind": what["kind"],
            "model": what["model"],
            "columns": ", ".join(names[:8]) + (", ..." if len(names) > 8 else ""),
            "learnt from": f"{what['positives']:,.0f} positives, {what['unlabeled']:,.0f} unlabeled rows",
            "labels": f"{classifier.classes_[1]!s} is positive, {classifier.classes_[0]!s} is not",
            "training prior": show.prior(train_prior(classifier)),
            "works at prior": show.prior(classifier._current_prior),
            "cost": f"{classifier._current_cost:g}",
            "threshold": f"ratio above {classifier.threshold_:.3g}",
            "to expect": show.performance(classifier.expected_performance()),
            "written by": ", ".join(f"{name} {number}" for name, number in wrote.items()),
            "size": show.size(size),
        }
    )


@app.command()
def report(
    artifact: Artifact,
    data: Annotated[str | None, typer.Argument(help="New rows, if any.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    columns: Columns = None,
    drop: Drop = None,
    cost: Cost = None,
    level: Level = 0.95,
    title: Annotated[str | None, typer.Option(help="Heading of the page.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Write one self-contained page: what was learnt, what moved, and what if.

    **Examples**

    `drpu report fraud.drpu june.parquet --out june.html`

    `drpu report fraud.drpu --cost 0.9 --out fraud.html`
    """
    from drpu.report import write_report

    check_folder(out)
    classifier = load_classifier(artifact)
    X = None if data is None else rows_for(classifier, read(data), columns, drop)
    heading = title or (artifact.name if data is None else f"{artifact.stem} on {Path(data).stem}")
    at = write_report(classifier, X, out, cost=cost, level=level, title=heading)
    if json:
        show.as_json({"report": str(out), "bytes": out.stat().st_size} | standing(at))
        return
    show.say(f"{out} ({show.size(out.stat().st_size)}): open it in a browser, it needs no network")


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("demo"),
    json: Json = False,
) -> None:
    """Train on digits, let the share of even ones move, and watch the classifier follow.

    **Example**

    `drpu demo --out demo`
    """
    from drpu.demo import main

    if not json:
        main(["--out", str(out)])
        return
    import contextlib

    with contextlib.redirect_stdout(sys.stderr):
        main(["--out", str(out)])
    show.as_json({"files": sorted(str(path) for path in out.iterdir())})
