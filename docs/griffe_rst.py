"""Convert roles and formulas of docstrings from reStructuredText to Markdown for mkdocs."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

ROLE = re.compile(r":(?:func|class|meth|attr|mod|exc):`~?([^`]+)`")
INLINE = re.compile(r":math:`([^`]+)`")
DISPLAY = re.compile(r"^([ ]*)\.\. math::[ ]*([^\n]*)\n?((?:\1[ ]+[^\n]*\n?|[ ]*\n)*)", re.M)


def to_markdown(text: str) -> str:
    """The docstring with code marks for roles and dollars for formulas."""

    def display(match: re.Match[str]) -> str:
        body = " ".join([match[2], *textwrap.dedent(match[3]).split("\n")]).strip()
        return f"{match[1]}$$ {body} $$\n\n"

    text = DISPLAY.sub(display, text)
    text = INLINE.sub(lambda match: f"${' '.join(match[1].split())}$", text)
    return ROLE.sub(lambda match: f"`{match[1].rsplit('.', 1)[-1]}`", text)


class RstToMarkdown(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
