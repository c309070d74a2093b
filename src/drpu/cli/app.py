"""The application: its commands are the modules of ``drpu.cli.commands``."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli.commands import adapt, audit, demo, evaluate, fit, inspect, predict, prior, report, verify

__all__ = ["UsageError", "app"]

# The base of typer's own errors, wherever this version of it keeps click.
UsageError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: rich alone would take longer than all the rest
    help="Classify from positive and unlabeled rows, and follow the share of positives when it changes.",
    epilog="Learn once: drpu fit train.parquet --label fraud --out fraud.drpu  ·  "
    "then every month: drpu predict fraud.drpu june.parquet --adapt --out june-scored.parquet",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from drpu import __version__

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
    """Classify from positive and unlabeled rows, and follow the share of positives when it changes."""


app.command("fit", short_help="Learn a classifier from a file.")(fit.fit)
app.command("adapt", short_help="Find the share of positives in new rows.")(adapt.adapt)
app.command("predict", short_help="Label rows, with probabilities.")(predict.predict)
app.command("prior", short_help="Share of positives by file, group or month.")(prior.prior)
app.command("audit", short_help="Choose rows to have looked at.")(audit.audit)
app.command("evaluate", short_help="Measure performance with true labels.")(evaluate.evaluate)
app.command("inspect", short_help="Say what a saved classifier is.")(inspect.inspect)
app.command("verify", short_help="Check a saved classifier without loading it.")(verify.verify)
app.command("report", short_help="Write a page that explains and explores.")(report.report)
app.command("demo", short_help="Run the whole idea once, on digits.")(demo.demo)
