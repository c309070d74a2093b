"""``drpu demo``: shows the method on images of digits."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from drpu.cli import options as given
from drpu.cli import show

__all__ = ["demo"]


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files.")] = Path("demo"),
    json: given.Json = False,
) -> None:
    """Train on images of digits, change the share of even ones, and show the adapted classifier.

    Example

    drpu demo --out demo
    """
    from drpu.demo import main

    if not json:
        main(["--out", str(out)])
        return
    with contextlib.redirect_stdout(sys.stderr):
        main(["--out", str(out)])
    show.as_json({"files": sorted(str(path) for path in out.iterdir())})
