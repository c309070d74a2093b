"""The application: its commands are the modules of ``drpu.cli.commands``."""

from __future__ import annotations

from typing import Annotated

import typer

from drpu.cli.commands import adapt, audit, demo, evaluate, fit, inspect, predict, prior, report

__all__ = ["UsageError", "app"]

# The base of typer's own errors, wherever this version of it keeps click.
UsageError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Classify from positive and unlabeled rows, and follow the share of positives when it changes.",
    epilog="Learn once: [bold]drpu fit train.parquet --label fraud --out fraud.drpu[/bold]  ·  "
    "then every month: [bold]drpu predict fraud.drpu june.parquet --adapt --out june-scored.parquet[/bold]",
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


app.command("fit")(fit.fit)
app.command("adapt")(adapt.adapt)
app.command("predict")(predict.predict)
app.command("prior")(prior.prior)
app.command("audit")(audit.audit)
app.command("evaluate")(evaluate.evaluate)
app.command("inspect")(inspect.inspect)
app.command("report")(report.report)
app.command("demo")(demo.demo)
