"""``drpu fit``: fits a classifier to the rows of a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["fit"]


def fit(
    train: given.Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the classifier to.")],
    label: Annotated[
        str | None, typer.Option("--label", "-l", help="Column that marks labelled positives with 1.")
    ] = None,
    unlabeled: Annotated[
        str | None, typer.Option(help="Second file with the unlabeled rows; then TRAIN holds positives only.")
    ] = None,
    columns: given.Columns = None,
    drop: given.Drop = None,
    weight: Annotated[str | None, typer.Option(help="Column of row weights.")] = None,
    pos_label: Annotated[
        str | None, typer.Option(help="Label of the positives; the larger of two numbers if left out.")
    ] = None,
    model: Annotated[str, typer.Option(help="auto, boosted, classifier, kernel or network.")] = "auto",
    scenario: Annotated[
        str,
        typer.Option(
            help="case-control: unlabeled rows are a sample of the population. "
            "single-sample: some rows of one sample are labelled."
        ),
    ] = "case-control",
    prior: Annotated[str, typer.Option(help="Share of positives, or how to estimate it.")] = "auto",
    cost: given.Cost = None,
    false_alarm: given.FalseAlarm = None,
    miss: given.Miss = None,
    seed: Annotated[
        int, typer.Option(help="Seed: the same rows give the same classifier.", min=0, max=2**32 - 1)
    ] = 0,
    jobs: Annotated[int, typer.Option(help="Folds fitted at the same time; -1 takes all cores.")] = 1,
    column_values: Annotated[
        str | None,
        typer.Option(help="Levels of categories in the file: keep, or hash.", show_default=False),
    ] = None,
    rare_values: Annotated[
        int | None, typer.Option(help="Leave out levels of fewer rows than this.", show_default=False)
    ] = None,
    sep: given.Sep = None,
    encoding: given.Encoding = None,
    decimal: given.Decimal = ".",
    json: given.Json = False,
) -> None:
    """Fit a classifier to labelled positives and unlabeled rows.

    Examples
    --------
    drpu fit train.parquet --label fraud --drop id,date --out fraud.drpu

    drpu fit confirmed.csv --unlabeled everything.csv --out fraud.drpu

    drpu fit train.csv.gz --label y --sep ';' --encoding latin-1 --out y.drpu
    """
    if (label is None) == (unlabeled is None):
        raise typer.BadParameter("give a column of labels (--label y) or a second file (--unlabeled u.csv).")
    if jobs == 0:
        raise typer.BadParameter("--jobs must be a number of processes, or -1 for all cores, got 0.")
    from drpu import DRPUClassifier, save
    from drpu.classifier.record import Reduction
    from drpu.cli.reading import TextFormat, read
    from drpu.cli.rows import (
        as_label,
        check_positive_label,
        chosen_cost,
        in_file,
        labelled,
        number_or_word,
        weighted_rows,
    )
    from drpu.cli.show import check_out, learnt

    check_out(out, [train, unlabeled])
    Reduction(column_values, rare_values)  # checked before the fit, which takes a while
    form = TextFormat(sep, encoding, decimal)
    stated = chosen_cost(cost, false_alarm, miss)
    classifier = DRPUClassifier(
        model, prior=number_or_word(prior), cost=0.5 if stated is None else stated, scenario=scenario,
        random_state=seed, n_jobs=jobs, verbose=int(sys.stderr.isatty() and not json),
    )  # fmt: skip
    loaded = read(train, form)
    if label is not None:
        X, y, w = labelled(loaded, label, columns, drop, weight)
        positive = as_label(pos_label, y)
        check_positive_label(y, positive, where=f"{train}, column {label!r}")
        classifier.set_params(pos_label=positive)
        in_file(train, lambda: classifier.fit(X, y, sample_weight=w))
    else:
        assert unlabeled is not None
        sides = [weighted_rows(side, columns, drop, weight) for side in (loaded, read(unlabeled, form))]
        (P, w_p), (U, w_u) = sides
        in_file(train, lambda: classifier.fit_pu(P, U, positive_weight=w_p, unlabeled_weight=w_u))
    save(classifier, out, column_values=column_values, rare_values=rare_values)
    result = {"artifact": str(out), "bytes": out.stat().st_size} | learnt(classifier)
    if json:
        show.as_json(result)
        return
    show.say(f"fitted to {result['positives']:,.0f} positives and {result['unlabeled']:,.0f} unlabeled rows")
    show.facts(
        {
            "share of positives": show.prior(classifier.prior_),
            "threshold": f"ratio above {classifier.threshold_:.3g}",
            "to expect": show.performance(classifier),
            "written": f"{out} ({show.size(out.stat().st_size)}, no training rows)",
        }
    )
