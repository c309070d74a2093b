"""Run the code blocks of a page and insert their output below them.

This is a hook of mkdocs, and ``tests/test_docs.py`` uses it, too: no result in the documentation is typed
by hand. The ``python`` blocks of a page run one after the other in one namespace. Lines of ``console``
blocks that start with ``$ drpu`` are passed to the command line, with ``< FILE`` as its input. Blocks in
other languages are shown only.
``<!-- example: NAME -->`` is replaced by the file ``examples/NAME.py``.
"""

from __future__ import annotations

import ast
import contextlib
import io
import itertools
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drpu.exceptions import SeparationWarning

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the data are small: more threads are slower
os.environ["COLUMNS"] = str(WIDTH := 88)  # characters that fit into the column of the site

FIGURES = itertools.count()
EXAMPLES = Path(__file__).parents[1] / "examples"
EXAMPLE = re.compile(r"<!-- example: (\w+) -->")
BLOCK = re.compile(r"^```(python|console)[^\n]*\n(.*?)^```[ ]*$", re.M | re.S)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run the page when mkdocs reads it."""
    return run_page(markdown, page.file.src_uri)


def run_page(markdown: str, name: str) -> str:
    """The page with the outputs and pictures below their blocks."""
    markdown = EXAMPLE.sub(lambda mark: _example(mark[1]), markdown)
    if not BLOCK.search(markdown):
        return markdown
    import matplotlib

    matplotlib.use("Agg")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    clear = dict.fromkeys(("figure.facecolor", "axes.facecolor", "legend.facecolor"), "none")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), matplotlib.rc_context(clear):
        return BLOCK.sub(lambda block: block[0] + _outcome(block, namespace, name), markdown)


def _example(name: str) -> str:
    """An example as a section: title, text, code and a link to its notebook."""
    source = (EXAMPLES / f"{name}.py").read_text()
    tree = ast.parse(source)
    title, _, text = (ast.get_docstring(tree) or name).partition("\n")
    code = "\n".join(source.splitlines()[tree.body[1].lineno - 1 :])
    link = f"[Download as a notebook](notebooks/{name}.ipynb)"
    return f"## {title.rstrip('.')}\n{text}\n\n```python\n{code}\n```\n\n{link}"


def _outcome(block: re.Match[str], namespace: dict[str, Any], name: str) -> str:
    line = block.string.count("\n", 0, block.start()) + 2
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        # Whether a prior is identified is printed with it.
        warnings.filterwarnings("ignore", category=SeparationWarning)
        if block[1] == "python":
            source = "\n" * (line - 1) + block[2]
            _check_searches(source, name)
            exec(compile(source, name, "exec"), namespace)
        else:
            _commands(block[2])
    text = printed.buffer.getvalue().decode().rstrip()
    shown = f'\n\n```text title="Output"\n{text}\n```' if text else ""
    return shown + "".join(_pictures())


SEARCHES = ("GridSearchCV", "RandomizedSearchCV", "cross_val_score", "cross_validate")


def _check_searches(source: str, name: str) -> None:
    """Raise if a search has no ``scoring``: it would count unlabeled positives as errors."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        has_scoring = any(keyword.arg == "scoring" for keyword in node.keywords)
        if node.func.id in SEARCHES and not has_scoring:
            raise RuntimeError(f"{name}, line {node.lineno}: {node.func.id} has no scoring.")


def _commands(lines: str) -> None:
    from drpu.cli import main

    for line in lines.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["drpu"]:
            replies = ""
            if "<" in words:
                replies = Path(words.pop()).read_text()
                words.remove("<")
            with _input(replies):
                code = main(words[1:])
            if code:
                raise RuntimeError(f"{line!r} ended with exit code {code}")


@contextlib.contextmanager
def _input(text: str) -> Iterator[None]:
    """The text as the standard input."""
    before = sys.stdin
    sys.stdin = io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


def _pictures() -> list[str]:
    """The open figures as SVG, which takes the colour of text and axes from the page."""
    from matplotlib import pyplot

    pictures = [_svg(pyplot.figure(number)) for number in pyplot.get_fignums()]
    pyplot.close("all")
    return pictures


def _svg(figure: Any) -> str:
    import matplotlib

    image = io.StringIO()
    salt = f"{next(FIGURES)}"  # identifiers must differ between the pictures of a page
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        figure.savefig(image, format="svg", transparent=True, metadata={"Date": None})
    svg = image.getvalue()[image.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = svg.replace(
        "<svg ", '<svg role="img" aria-label="Picture drawn by the code above" fill="currentColor" ', 1
    )
    svg = svg.replace("#000000", "currentColor")
    return f'\n\n<div class="picture">{" ".join(svg.split())}</div>\n'


if __name__ == "__main__":  # python docs/run_blocks.py docs/tutorial.md
    for path in sys.argv[1:]:
        print(re.sub(r"<svg.*?</svg>", "(picture)", run_page(Path(path).read_text(), os.path.basename(path))))
