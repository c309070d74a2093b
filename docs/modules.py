"""List every module with the first line of its docstring: a hook of mkdocs.

``<!-- modules -->`` on a page is replaced by the list. ``python docs/modules.py`` prints it.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
MARK = "<!-- modules -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the list in place of the mark."""
    return markdown.replace(MARK, listing()) if MARK in markdown else markdown


def summaries() -> dict[str, str]:
    """The first line of the docstring of every module, by its dotted name."""
    found = {}
    for path in sorted((SOURCE / "drpu").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        found[name] = docstring.partition("\n")[0]
    return found


def listing() -> str:
    """One section per package, with a table of its modules."""
    sections: dict[str, list[str]] = {}
    for name, summary in summaries().items():
        package = ".".join(name.split(".")[:2])
        if not (SOURCE / package.replace(".", "/")).is_dir():  # a module directly in drpu
            package = "drpu"
        sections.setdefault(package, []).append(f"| `{name}` | {summary} |")
    return "\n\n".join(
        "\n".join([f"## {package}", "", "| module | content |", "|---|---|", *lines])
        for package, lines in sections.items()
    )


if __name__ == "__main__":
    print(listing())
