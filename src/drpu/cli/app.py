"""The application: its commands are the modules of ``drpu.cli.commands``."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli.commands import adapt, audit, demo, evaluate, fit, inspect, predict, prior, report, verify

__all__ = ["UsageError", "app"]

# The base class of typer's errors; some versions of typer contain a copy of click.
UsageError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: importing rich takes longer than everything else
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show the traceback of an error; may follow any command.")
    ] = False,
) -> None:
    """Classify from positive and unlabeled rows, and follow the share of positives when it changes."""


app.command("fit", short_help="Fit a classifier to the rows of a file.")(fit.fit)
app.command("adapt", short_help="Estimate the share of positives in new rows.")(adapt.adapt)
app.command("predict", short_help="Label rows, with probabilities.")(predict.predict)
app.command("prior", short_help="Share of positives by file, group or month.")(prior.prior)
app.command("audit", short_help="Choose rows for which true labels are needed.")(audit.audit)
app.command("evaluate", short_help="Measure performance with true labels.")(evaluate.evaluate)
app.command("inspect", short_help="Describe a saved classifier.")(inspect.inspect)
app.command("verify", short_help="Check a saved classifier without loading it.")(verify.verify)
app.command("report", short_help="Write an HTML report with a what-if explorer.")(report.report)
app.command("demo", short_help="Show the method on images of digits.")(demo.demo)
