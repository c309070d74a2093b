"""Ask every address in the documentation whether it still exists: ``make links``.

Links between pages need no network: tests and ``make docs`` check them.
"""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"https?://[^\s<>()\[\]\"'`|]+")
NOT_PUBLIC = ("https://example.", "http://localhost", "http://127.0.0.1")
REFUSES_PROGRAMS = {403, 405, 429}  # such a site answers, but only to browsers


def main() -> None:
    """Print the addresses that fail, and fail if there are any."""
    broken = 0
    addresses = all_addresses(ROOT)
    for address, page in sorted(addresses.items()):
        problem = problem_of(address)
        if problem:
            print(f"{page}: {address}: {problem}")
            broken += 1
    print(f"{len(addresses)} addresses, {broken} broken")
    if broken:
        raise SystemExit(1)


def all_addresses(root: Path) -> dict[str, str]:
    """The addresses of all pages, each with a file that contains it."""
    addresses = {}
    for pattern in ("*.md", "*.cff", "llms.txt", "docs/**/*.md"):
        for path in sorted(root.glob(pattern)):
            for address in ADDRESS.findall(path.read_text(encoding="utf-8")):
                if not address.startswith(NOT_PUBLIC):
                    addresses[address.rstrip(".,:;")] = str(path.relative_to(root))
    return addresses


def problem_of(address: str) -> str:
    """Why the address cannot be opened; an empty text if it can."""
    request = urllib.request.Request(address, headers={"User-Agent": "drpu link check"})
    try:
        with urllib.request.urlopen(request, timeout=30):
            return ""
    except urllib.error.HTTPError as error:
        if error.code in REFUSES_PROGRAMS:
            return ""
        return f"status {error.code}"
    except OSError as error:
        return str(error)


if __name__ == "__main__":
    main()
