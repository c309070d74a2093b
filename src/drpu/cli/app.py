"""The application: one command for each line of a table, in the order of the help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, cleandoc, signature
from typing import Annotated, Any, get_type_hints

import typer
import typer.main

from drpu.cli.options import OutputOptions
from drpu.cli.show import Result, print_result

# Each command is a function of the same name in the module of this package stated here.
COMMANDS = {
    "fit": ("fit", "Fit a classifier to the rows of a file."),
    "adapt": ("adapt", "Estimate the share of positives in new rows."),
    "predict": ("predict", "Label rows, with probabilities."),
    "prior": ("adapt", "Share of positives by file, group or month."),
    "ask": ("ask", "Ask about a few rows, one at a time: 20 answers are usually enough."),
    "audit": ("answers", "Choose rows for which true labels are needed."),
    "evaluate": ("answers", "Measure performance with true labels."),
    "suspects": ("answers", "List labels that look wrong, and copies of labelled rows."),
    "inspect": ("describe", "Describe a saved classifier."),
    "verify": ("describe", "Check a saved classifier without loading it."),
    "report": ("describe", "Write an HTML report with a what-if explorer."),
    "demo": ("describe", "Show the method on images of digits."),
}

# The base class of typer's errors; some versions of typer contain a copy of click.
UsageError: type[Exception] = typer.BadParameter.__mro__[2]

PURPOSE = (
    "Classify from positive and unlabeled rows, and follow the share of positives when it changes."
)

app = typer.Typer(
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: importing rich takes longer than everything else
    help=PURPOSE,
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


@app.callback(help=PURPOSE)
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
    """Options that stand before a command."""


def _add(command: Callable[..., Result], summary: str) -> None:
    """Add a command; the examples in its docstring stay one per line in its help."""
    text, _, examples = cleandoc(command.__doc__ or "").partition("\n\nExample")
    lines = ["\b", "Examples:"]
    for line in examples.splitlines():
        if line.startswith("drpu ") or " | drpu " in line:
            lines.append(f"  {line}")
    help_text = text + "\n\n" + "\n".join(lines)
    add = app.command(command.__name__, help=help_text, short_help=summary)
    add(_with_options(command))


def _with_options(command: Callable[..., Result]) -> Callable[..., None]:
    """A function that prints the result of the command; its parameters are single options.

    A parameter whose type is a group of options is replaced by the options of the group. Every
    command has the options of :class:`drpu.cli.options.OutputOptions`, and gets them if it has a
    parameter ``output``.
    """
    defaults = signature(command).parameters
    types = get_type_hints(command, include_extras=True) | {"output": OutputOptions}
    del types["return"]
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for name, kind in types.items():
        if not is_dataclass(kind):
            parameters.append(_keyword(name, kind, defaults[name].default))
            continue
        groups[name] = kind
        types_in_group = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            parameters.append(_keyword(field.name, types_in_group[field.name], default))

    def run(**values: Any) -> None:
        for name, group in groups.items():
            options = {field.name: values.pop(field.name) for field in fields(group)}
            values[name] = group(**options)
        output = values["output"]
        if "output" not in defaults:
            del values["output"]
        print_result(command(**values), in_json=output.json)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return run


def _keyword(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)


for _name, (_place, _summary) in COMMANDS.items():
    _module = import_module(f"drpu.cli.{_place}")
    _add(getattr(_module, _name), _summary)

command = typer.main.get_command(app)  # made once, not at each call
