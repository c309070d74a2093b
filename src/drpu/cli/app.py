"""The application: its commands are the functions of ``drpu.cli.commands``, in the order of the help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, get_type_hints

import typer
import typer.main

from drpu.cli.commands import adapt, audit, demo, fit, inspect, predict, prior, report
from drpu.cli.options import Output
from drpu.cli.show import Result, print_result

# The base class of typer's errors; some versions of typer contain a copy of click.
UsageError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
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
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    traceback: Annotated[
        bool,
        typer.Option("--traceback", help="Show the traceback of an error; may follow any command."),
    ] = False,
) -> None:
    """Classify from positive and unlabeled rows, and follow the share of positives when it changes."""


def _add(command: Callable[..., Result], short_help: str) -> None:
    """Add a command; the examples in its docstring stay one per line in its help."""
    text, _, examples = cleandoc(command.__doc__ or "").partition("\n\nExample")
    lines = [
        line for line in examples.splitlines() if line.startswith("drpu ") or " | drpu " in line
    ]
    shown = "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
    app.command(command.__name__, help=f"{text}\n\n{shown}", short_help=short_help)(
        _expand(command)
    )


def _expand(command: Callable[..., Result]) -> Callable[..., None]:
    """A function that prints the result of the command; the options of its groups are parameters.

    Every command has the options of :class:`drpu.cli.options.Output`, and gets them if it has a parameter
    ``output``.
    """
    own = signature(command).parameters
    hints = get_type_hints(command, include_extras=True) | {"output": Output}
    del hints["return"]
    groups: dict[str, Any] = {}
    parameters = []
    for name, kind in hints.items():
        if is_dataclass(kind):
            groups[name] = kind
            types = get_type_hints(kind, include_extras=True)
            for field in fields(kind):
                default = Parameter.empty if field.default is MISSING else field.default
                parameters.append((field.name, types[field.name], default))
        else:
            parameters.append((name, kind, own[name].default))

    def run(**given: Any) -> None:
        made: dict[str, Any] = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        output = made["output"] if "output" in own else made.pop("output")
        print_result(command(**given, **made), in_json=output.json)

    run.__annotations__ = {name: kind for name, kind, _ in parameters}
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, kind, default in parameters
        ]
    )
    return run


_add(fit.fit, "Fit a classifier to the rows of a file.")
_add(adapt.adapt, "Estimate the share of positives in new rows.")
_add(predict.predict, "Label rows, with probabilities.")
_add(prior.prior, "Share of positives by file, group or month.")
_add(audit.audit, "Choose rows for which true labels are needed.")
_add(audit.evaluate, "Measure performance with true labels.")
_add(audit.suspects, "List labels that look wrong, and copies of labelled rows.")
_add(inspect.inspect, "Describe a saved classifier.")
_add(inspect.verify, "Check a saved classifier without loading it.")
_add(report.report, "Write an HTML report with a what-if explorer.")
_add(demo.demo, "Show the method on images of digits.")

command = typer.main.get_command(app)  # made once, not at each call
