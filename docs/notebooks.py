"""Make a notebook of every example when the site is built: a hook of mkdocs."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"


def on_files(files: Any, config: Any) -> Any:
    """The files of the site with ``notebooks/NAME.ipynb`` for each ``examples/NAME.py``."""
    from mkdocs.structure.files import File

    for path in sorted(EXAMPLES.glob("plot_*.py")):
        text = json.dumps(notebook(path.read_text()), indent=1)
        files.append(File.generated(config, f"notebooks/{path.stem}.ipynb", content=text))
    return files


def notebook(source: str) -> dict[str, Any]:
    """The notebook (format 4.5) of an example: its docstring as text, then one cell per paragraph of code."""
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or "").partition("\n")
    code = "\n".join(source.splitlines()[tree.body[1].lineno - 1 :])
    cells = [_cell(0, "markdown", f"# {title.rstrip('.')}\n\n{text.strip()}")]
    cells += [_cell(number, "code", part) for number, part in enumerate(_paragraphs(code), 1)]
    return {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _paragraphs(code: str) -> list[str]:
    """Code split at blank lines between statements; consecutive imports stay together."""
    starts: list[int] = []
    for previous, node in zip([None, *ast.parse(code).body], ast.parse(code).body, strict=False):
        both_import = all(isinstance(n, (ast.Import, ast.ImportFrom)) for n in (previous, node))
        apart = previous is None or node.lineno - (previous.end_lineno or 0) > 1
        if apart and not both_import:
            starts.append(node.lineno - 1)
    lines = code.splitlines()
    return ["\n".join(lines[i:j]).strip() for i, j in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    cell["source"] = text.splitlines(keepends=True)
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell
