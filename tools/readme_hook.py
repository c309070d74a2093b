"""README for a package index: its links and images are absolute, at the tag of the version.

A plugin of hatchling, named in pyproject.toml. The address of the repository is that of
``[project.urls]``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

RELATIVE_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)")


def with_absolute_links(markdown: str, repository: str, tag: str) -> str:
    """The text with links into the repository at ``tag``; images are linked as raw files."""

    def absolute(link: re.Match[str]) -> str:
        is_image, text, target = link.groups()
        view = "raw" if is_image else "blob"
        return f"{is_image}[{text}]({repository}/{view}/{tag}/{target})"

    return RELATIVE_LINK.sub(absolute, markdown)


class ReadmeHook(MetadataHookInterface):
    """Sets the field ``readme`` of the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the rewritten README to ``metadata``."""
        markdown = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = metadata["urls"]["Repository"]
        tag = f"v{metadata['version']}"
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": with_absolute_links(markdown, repository, tag),
        }
