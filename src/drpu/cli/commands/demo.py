"""``drpu demo``: shows the method on images of digits."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from drpu.cli.options import Output
from drpu.cli.show import Result


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("demo"),
    *,
    output: Output,
) -> Result:
    """Train on images of digits, change the share of even ones, and show the adapted classifier.

    Example

    drpu demo --out demo
    """
    from drpu.demo import main

    progress = sys.stderr if output.json else sys.stdout
    with contextlib.redirect_stdout(progress):
        main(["--out", str(out)])
    return Result({"files": sorted(str(path) for path in out.iterdir())})
