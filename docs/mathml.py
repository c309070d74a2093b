"""Convert formulas to MathML when the site is built: a hook of mkdocs.

Browsers render MathML themselves, so the pages load no script and need no network. The extension
``pymdownx.arithmatex`` marks the formulas.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S)


def on_page_content(content: str, **_: Any) -> str:
    """The page with MathML in place of LaTeX."""
    return FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    display = "block" if match[2] == "[" else "inline"
    return convert(html.unescape(match[3]).strip(), display=display)
