"""List every module with the first line of its docstring, and every warning with who issues it.

A hook of mkdocs: ``<!-- modules -->`` and ``<!-- warnings -->`` on a page are replaced by the lists.
``python docs/modules.py`` prints them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
MARK = "<!-- modules -->"
MARK_OF_WARNINGS = "<!-- warnings -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with the lists in place of the marks."""
    if MARK in markdown:
        markdown = markdown.replace(MARK, listing())
    if MARK_OF_WARNINGS in markdown:
        markdown = markdown.replace(MARK_OF_WARNINGS, warning_table())
    return markdown


def modules() -> Iterator[tuple[str, ast.Module]]:
    """The dotted name of every module, and its syntax tree."""
    for path in sorted((SOURCE / "drpu").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def summaries() -> dict[str, str]:
    """The first line of the docstring of every module, by its dotted name."""
    found = {}
    for name, tree in modules():
        docstring = ast.get_docstring(tree) or ""
        found[name] = docstring.partition("\n")[0]
    return found


def issuers() -> dict[str, list[str]]:
    """The modules that issue each class of warnings, by the name of the class.

    A module issues a class that it calls, as in ``FewRowsWarning(...)`` or ``FewRowsWarning.issue(...)``.
    """
    found: dict[str, list[str]] = {}
    for module, tree in modules():
        names = set()
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            function = node.func
            if isinstance(function, ast.Attribute) and function.attr == "issue":
                function = function.value
            if isinstance(function, ast.Name) and function.id.endswith("Warning"):
                names.add(function.id)
        for name in names:
            found.setdefault(name, []).append(module)
    return found


def warning_table() -> str:
    """A table of the warnings: code, class, and issued by."""
    from drpu import exceptions

    lines = ["| code | class | issued by |", "|---|---|---|"]
    by_class = issuers()
    for name, one in vars(exceptions).items():
        if name.endswith("Warning") and name != "DRPUWarning":
            modules_of_class = ", ".join(f"`{module}`" for module in by_class.get(name, []))
            lines.append(f"| `{one.code}` | `{name}` | {modules_of_class} |")
    return "\n".join(lines)


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
    print(warning_table())
