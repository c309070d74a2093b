"""Fail the build if a page would load anything over the network: a hook of mkdocs."""

from __future__ import annotations

import re
from typing import Any

LOADED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def on_post_page(output: str, page: Any, **_: Any) -> str:
    """The page unchanged, or an error that shows what it loads."""
    for tag in LOADED.findall(output):
        if 'rel="canonical"' not in tag:
            raise RuntimeError(f"{page.file.src_uri} loads something over the network: {tag}")
    return output
