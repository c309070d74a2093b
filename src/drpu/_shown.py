"""Texts that are safe where they are shown: on a terminal, and inside a self-contained page."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from typing import Any


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that a file cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def json_for_script(values: Any) -> str:
    """The values as JSON that is safe inside a script element."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def page_policy(css: str, js: str) -> str:
    """Content security policy: the style and the script of a page, and nothing else."""
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {_digest(css)}; script-src {_digest(js)}; img-src data:"


def _digest(text: str) -> str:
    sha256 = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(sha256).decode()}'"


def in_notebook() -> bool:
    """Whether the process is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
