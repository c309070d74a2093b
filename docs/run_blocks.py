"""What the code blocks of a page print and draw, put below them.

A hook of mkdocs, and the runner of ``tests/test_docs.py``: no result in the documentation is typed by
hand. Blocks of ``python`` run one after the other in one namespace for each page; lines of
``console`` that start with ``$ drpu`` go through the command line. Other languages are shown only.
``<!-- example: NAME -->`` stands for the file ``examples/NAME.py``.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import os
import re
import shlex
import tempfile
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # small data: threads only wait for each other

EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = re.compile(r"<!-- example: (\w+) -->")
BLOCK = re.compile(r"^```(python|console)[^\n]*\n(.*?)^```[ ]*$", re.M | re.S)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run the page when mkdocs reads it."""
    return run_page(markdown, page.file.src_uri)


def run_page(markdown: str, name: str) -> str:
    """The page with outputs and pictures below the blocks that made them."""
    markdown = EXAMPLE.sub(lambda mark: _example(mark[1]), markdown)
    if not BLOCK.search(markdown):
        return markdown
    import matplotlib

    matplotlib.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        return BLOCK.sub(lambda block: block[0] + _outcome(block, namespace, name), markdown)


def _example(name: str) -> str:
    """An example as a section: its first line, its words, its code."""
    source = (EXAMPLES / f"{name}.py").read_text()
    tree = ast.parse(source)
    title, _, words = (ast.get_docstring(tree) or name).partition("\n")
    code = "\n".join(source.splitlines()[tree.body[1].lineno - 1 :])
    return f"## {title.rstrip('.')}\n{words}\n\n```python\n{code}\n```"


def _outcome(block: re.Match[str], namespace: dict[str, Any], name: str) -> str:
    line = block.string.count("\n", 0, block.start()) + 2
    said = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("error")
        if block[1] == "python":
            code = compile("\n" * (line - 1) + block[2], name, "exec")
            exec(code, namespace)
        else:
            _commands(block[2])
    text = said.buffer.getvalue().decode().rstrip()
    shown = f'\n\n```text title="Output"\n{text}\n```' if text else ""
    return shown + "".join(_pictures())


def _commands(lines: str) -> None:
    from drpu.cli import main

    for line in lines.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["drpu"]:
            code = main(words[1:])
            if code:
                raise RuntimeError(f"{line!r} ended with exit code {code}")


def _pictures() -> list[str]:
    from matplotlib import pyplot

    pictures = []
    for number in pyplot.get_fignums():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, format="png", dpi=110)
        data = base64.b64encode(image.getvalue()).decode()
        pictures.append(f"\n\n![Picture drawn by the code above](data:image/png;base64,{data})")
    pyplot.close("all")
    return pictures


if __name__ == "__main__":  # python docs/run_blocks.py docs/tutorial.md
    import sys

    for path in sys.argv[1:]:
        print(
            re.sub(r"\(data:[^)]*\)", "(picture)", run_page(Path(path).read_text(), os.path.basename(path)))
        )
