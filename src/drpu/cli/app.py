"""The application: its commands are the modules of ``drpu.cli.commands``."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
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
    epilog="\b\nLearn once, then label the rows of every month:\n"
    "  drpu fit train.parquet --label fraud --out fraud.drpu\n"
    "  drpu predict fraud.drpu june.parquet --adapt --out june-scored.parquet",
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


def _add(command: Callable[..., None], short_help: str) -> None:
    """Add a command; the examples in its docstring stay one per line in its help."""
    text, _, examples = cleandoc(command.__doc__ or "").partition("\n\nExample")
    lines = [line for line in examples.splitlines() if line.startswith("drpu ") or " | drpu " in line]
    shown = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
    app.command(command.__name__, help=f"{text}\n\n{shown}", short_help=short_help)(command)


_add(fit.fit, "Fit a classifier to the rows of a file.")
_add(adapt.adapt, "Estimate the share of positives in new rows.")
_add(predict.predict, "Label rows, with probabilities.")
_add(prior.prior, "Share of positives by file, group or month.")
_add(audit.audit, "Choose rows for which true labels are needed.")
_add(evaluate.evaluate, "Measure performance with true labels.")
_add(inspect.inspect, "Describe a saved classifier.")
_add(verify.verify, "Check a saved classifier without loading it.")
_add(report.report, "Write an HTML report with a what-if explorer.")
_add(demo.demo, "Show the method on images of digits.")
