"""``drpu predict``: labels and probabilities of rows, and the list to check."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from drpu._progress import progress_bar, rest
from drpu.cli.options import (
    By,
    Data,
    DecisionOptions,
    FormOptions,
    Formulas,
    Keep,
    OutputOptions,
    Prior,
    ReadingOptions,
    SavedOptions,
    option,
    refuse,
)
from drpu.cli.show import (
    PIPE,
    Result,
    about,
    by_group,
    standing,
)
from drpu.exceptions import ParameterError
from drpu.report.texts import prior_text, share

REASONS = 3  # columns that speak for and against each row of the list to check


@dataclass(frozen=True, kw_only=True)
class WrittenOptions(FormOptions):
    """The file of labelled rows: its columns, which rows it has and in which order."""

    out: Annotated[
        str, typer.Option("--out", "-o", help="Output file; - is CSV on standard output.")
    ] = "-"
    keep: Keep = None
    prefix: Annotated[str, typer.Option(help="Prefix of the names of the new columns.")] = "drpu_"
    every_row: Annotated[
        bool, typer.Option("--all", help="With --budget: write every row, not only the list.")
    ] = False
    only_flagged: Annotated[
        bool, typer.Option("--only-flagged", help="Write the flagged rows only.")
    ] = False
    sort: Annotated[
        bool, typer.Option("--sort", help="Write the best row first, with its rank.")
    ] = False
    explain: Annotated[
        int | None,
        option(
            min=0,
            help="Add this many columns that speak for and against each written row, as drpu_for "
            f"and drpu_against; {REASONS} in the list of --budget if left out.",
        ),
    ] = None
    formulas: Formulas = False

    @property
    def six_digits(self) -> list[str]:
        """The columns that need no more digits in a text or workbook."""
        return [f"{self.prefix}probability", f"{self.prefix}ratio"]

    def check(self, decision: DecisionOptions) -> None:
        """Raise if options contradict each other or have no effect."""
        if self.every_row and self.only_flagged:
            raise typer.BadParameter("--all and --only-flagged contradict: give one of them.")
        if decision.budget is None:
            refuse({"--all": self.every_row}, "is about a list of --budget rows: leave it out.")

    def is_list(self, decision: DecisionOptions) -> bool:
        """Whether exactly the rows of the budget are written, the best first."""
        return decision.budget is not None and not self.every_row and not self.only_flagged

    def selects(self, decision: DecisionOptions) -> bool:
        """Whether not all rows are written in the order of the file."""
        return self.sort or self.only_flagged or self.is_list(decision)

    def each_alone(self, decision: DecisionOptions) -> bool:
        """Whether rows are written in the order of the file, and none depends on others."""
        return decision.budget is None and not self.sort and not self.explain

    def chosen(self, scored: Any, decision: DecisionOptions) -> Any:
        """Positions of the rows to write, in the order of the output."""
        if self.is_list(decision):
            return scored.listed
        if self.sort:
            chosen = scored.best_first
        else:
            chosen = scored.in_order
        if self.only_flagged:
            return chosen[scored.flagged[chosen]]
        return chosen

    def columns(
        self,
        scored: Any,
        chosen: Any,
        classifier: Any,
        X: Any,
        decision: DecisionOptions,
        output: OutputOptions,
    ) -> dict[str, Any]:
        """The new columns of the rows to write."""
        columns = {}
        if decision.budget is not None:
            columns["check"] = scored.place[chosen]
        if self.sort and not self.is_list(decision):
            columns["rank"] = scored.rank[chosen]
        for name in ("label", "probability", "ratio"):
            columns[name] = scored.outputs[name][chosen]
        most = self.explain
        if most is None and self.is_list(decision):
            most = REASONS
        if not most:
            return columns
        reasons: list[Any] = []
        if len(chosen):
            show = int(sys.stderr.isatty() and not output.json)
            try:
                with progress_bar("explain", show=show):
                    reasons = classifier.reasons(X.take(chosen), most)
            except ParameterError:  # a model without trees
                if self.explain is not None:
                    raise
                return columns
        columns["for"] = [reason.texts()[0] for reason in reasons]
        columns["against"] = [reason.texts()[1] for reason in reasons]
        return columns


def predict(
    saved: SavedOptions,
    data: Data,
    *,
    written: WrittenOptions,
    adapt: Annotated[
        bool, typer.Option("--adapt", help="Estimate the share of positives first.")
    ] = False,
    by: By = None,
    prior: Prior = None,
    decision: DecisionOptions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> Result:
    """Label rows, with probabilities: columns drpu_label, drpu_probability, drpu_ratio.

    With --budget 200, the 200 rows to check are written, the best first: drpu_check is their rank,
    and more columns speak for and against each row. The label is the one without a budget. --all
    writes every row, with an empty drpu_check for those that are not on the list.

    Examples
    --------
    drpu predict fraud.drpu june.csv --adapt --cost 0.8 --out june-scored.csv
    drpu predict fraud.drpu year.csv --by month --out year-scored.csv
    drpu predict fraud.drpu june.csv --prior 0.02 --keep id > june-scored.csv
    drpu predict fraud.drpu june.csv --adapt --budget 200 --out check.csv
    drpu predict fraud.drpu june.csv --only-flagged --sort --explain 3 > top.csv
    cat june.csv | drpu predict fraud.drpu - --adapt --json | jq .flagged
    """
    if (adapt or by is not None) and prior is not None:
        raise typer.BadParameter(
            "--adapt and --by estimate the prior and --prior sets it: give one of them."
        )
    written.check(decision)
    from drpu.classifier.groups import GroupOutputs
    from drpu.cli.large import tables_with
    from drpu.cli.tables import check_out, write_tables

    out = written.out
    check_out(out, [saved.artifact, data], table=True)
    reading.check(data)
    form = written.form(out, data, reading)
    classifier = decision.applied_to(saved.load(), prior)
    if by is None and written.each_alone(decision) and _takes_batches(out, output):
        in_batches = _predict_in_batches(classifier, reading, data, written, adapts=adapt)
        if in_batches is not None:
            return in_batches
    mixed = adapt and by is None
    in_parts = _takes_batches(out, output) and not written.explain
    if in_parts or written.selects(decision):
        loaded = reading.open(classifier, data, mixed=mixed)
    else:
        loaded = reading.read(data, classifier)
    kept = loaded.kept(written.keep)
    group_of_row = loaded.groups(by)
    X = reading.scored(classifier, loaded, used=[by], mixed=mixed, by=group_of_row)
    table = None
    with about(data):
        if by is not None:
            groups = classifier.adapt_by(X, by=group_of_row, budget=decision.checked)
            values, table = by_group(groups, by)
            scored = GroupOutputs.of(groups, X, group_of_row)
        else:
            if adapt:
                classifier = classifier.adapt(X)
            classifier = decision.with_budget(classifier, X)
            if not adapt:
                classifier._warn_of_prior()
            values = standing(classifier)
            scored = GroupOutputs.of_all(classifier, X)
        chosen = written.chosen(scored, decision)
        new_columns = written.columns(scored, chosen, classifier, X, decision, output)
    flagged = int(scored.flagged.sum())
    n = len(X)
    values |= {"rows": n, "flagged": flagged, "written": len(chosen), "out": out}
    new_columns = {f"{written.prefix}{name}": column for name, column in new_columns.items()}
    line = _flagged_text(flagged, n)
    if by is None:
        line += _list_text(values)
        line += f"; share of positives {prior_text(classifier.test_prior_)}"
    rows = chosen if written.selects(decision) else None
    if out == PIPE and output.json:
        values["answers"] = new_columns
        if written.keep is not None:
            values["kept"] = (kept if rows is None else kept.take(rows)).to_pydict()
        return Result(values)
    write_tables(
        out,
        tables_with(kept, new_columns, rows),
        formulas=written.formulas,
        form=form,
        six_digits=written.six_digits,
    )
    return _result(values, line, table)


def _flagged_text(flagged: int, n: int) -> str:
    return f"{flagged:,} of {n:,} rows flagged ({share(flagged / max(n, 1))})"


def _list_text(values: dict[str, Any]) -> str:
    """How many rows are to check, and how many share the last score if that is more than one."""
    budget = values.get("budget")
    if budget is None or budget["rows"] is None:
        return ""
    text = f"; {budget['rows']:,} rows to check"
    if budget["flagged"] in (None, budget["rows"]):
        return text
    return f"{text} ({budget['tied']:,} rows share the last score)"


def _takes_batches(out: str, output: OutputOptions) -> bool:
    """Whether labelled rows can be written in batches."""
    from drpu.cli.tables import NUMPY, ending_of

    if out == PIPE:
        return not output.json
    return ending_of(out) not in NUMPY


def _predict_in_batches(
    classifier: Any, reading: ReadingOptions, data: str, written: WrittenOptions, *, adapts: bool
) -> Result | None:
    """Label the rows of a large file in one pass, or in two; None if the file is not large.

    ``adapts``: Whether the share of positives is estimated, which takes a pass of its own.
    """
    from drpu.cli.tables import write_tables

    with progress_bar("predict", show=1):
        rows = reading.large(classifier, data, mixed=adapts)
        if rows is None:
            return None
        keep = None
        if written.keep is not None:
            keep = rows.file.head.names_of(written.keep)
        with about(data):
            if adapts:
                with rest(0.5):
                    rows.classifier = rows.adapted()
            else:
                classifier._warn_of_prior()
            scored = rows.scored(keep, written.prefix, only_flagged=written.only_flagged)
            with rest():
                write_tables(
                    written.out,
                    scored,
                    formulas=written.formulas,
                    form=written.form(written.out, data, reading),
                    six_digits=written.six_digits,
                )
    values = standing(rows.classifier)
    values |= {"rows": rows.n, "flagged": rows.flagged, "written": rows.written}
    values["out"] = written.out
    line = _flagged_text(rows.flagged, rows.n)
    return _result(values, f"{line}; share of positives {prior_text(rows.classifier.test_prior_)}")


def _result(values: dict[str, Any], line: str, table: Any = None) -> Result:
    """The result of a command that has written labelled rows."""
    aside = values["out"] == PIPE
    if not aside:
        line += f"; {values['written']:,} rows written to {values['out']}"
    return Result(values, [line], table=table, aside=aside)
