"""Say what stops a release: ``make release-check`` (a dry run) and ``make release``.

Nothing is published from here. The workflow "release" publishes what ``make release`` has accepted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "example.invalid"
WITH_ADDRESSES = ("pyproject.toml", ".github/CODEOWNERS")


def main() -> None:
    """Print what stops a release; without ``--dry-run``, fail if there is anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dry-run", action="store_true", help="end with exit status 0 in any case")
    dry_run = parser.parse_args().dry_run

    version = version_of(ROOT)
    reasons = reasons_against(ROOT, version) + reasons_of_git(ROOT, version)
    for reason in reasons:
        print(f"drpu {version} must not be published: {reason}.")
    if not reasons:
        print(f"drpu {version} can be published.")
    if reasons and not dry_run:
        raise SystemExit(1)


def version_of(root: Path) -> str:
    """The version of the package, which is written in one place."""
    text = (root / "src" / "drpu" / "__init__.py").read_text(encoding="utf-8")
    line = re.search(r'^__version__ = "(.+)"', text, re.M)
    if line is None:
        raise SystemExit("src/drpu/__init__.py has no __version__")
    return line[1]


def reasons_against(root: Path, version: str) -> list[str]:
    """What the files of the repository lack for a release of ``version``."""
    reasons = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        reasons.append(f"the version {version} is not of the form 1.2.3")

    for name in WITH_ADDRESSES:
        if PLACEHOLDER in (root / name).read_text(encoding="utf-8"):
            reasons.append(f"{name} contains the placeholder {PLACEHOLDER}")

    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    heading = re.search(rf"^## {re.escape(version)} — (\d{{4}}-\d\d-\d\d)$", changelog, re.M)
    if heading is None:
        reasons.append(f'CHANGELOG.md has no heading "## {version} — YYYY-MM-DD"')

    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    if f"\nversion: {version}\n" not in citation:
        reasons.append(f"CITATION.cff has another version than {version}")
    if heading is not None and f"\ndate-released: {heading[1]}\n" not in citation:
        reasons.append(f"CITATION.cff has no line date-released: {heading[1]}")

    if "not on a package index yet" in (root / "README.md").read_text(encoding="utf-8"):
        reasons.append("README.md says that the package is not on a package index yet")
    return reasons


def reasons_of_git(root: Path, version: str) -> list[str]:
    """Whether the last commit lacks the tag of ``version``, or files differ from it."""
    reasons = []
    if git(root, "status", "--porcelain"):
        reasons.append("there are files that are not committed")
    if f"v{version}" not in git(root, "tag", "--points-at", "HEAD").split():
        reasons.append(f"the last commit has no tag v{version}")
    return reasons


def git(root: Path, *arguments: str) -> str:
    """What a git command prints."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
