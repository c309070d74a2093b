"""Versions of dependencies to test with, as constraints for pip.

python tools/versions.py floors          # the oldest that pyproject.toml allows: make test-floor
python tools/versions.py drawn --seed 3  # of the core and "data", newer ones too: make test-drawn
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOOR = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)")
ATTEMPTS = 20  # draws that pip may refuse, because these versions do not fit together


def main() -> None:
    """Print the constraints that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("which", choices=["floors", "drawn"])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    text = (ROOT / "pyproject.toml").read_text()
    if asked.which == "floors":
        print("\n".join(f"{name}=={version}" for name, version in floors(text).items()))
        return
    print("\n".join(drawn_that_fit(text, random.Random(asked.seed))))


def floors(text: str) -> dict[str, str]:
    """The oldest version of each dependency of the project, with its extras and groups."""
    content = tomllib.loads(text)
    lists = [content["project"]["dependencies"]]
    lists.extend(content["project"]["optional-dependencies"].values())
    lists.extend(content["dependency-groups"].values())
    oldest = {}
    for requirement in (requirement for requirements in lists for requirement in requirements):
        match = FLOOR.match(requirement)
        if match:
            oldest[match[1]] = _padded(match[2])
    return dict(sorted(oldest.items()))


def drawn_that_fit(text: str, generator: random.Random) -> list[str]:
    """Constraints for the core and ``data``, drawn until pip finds that the versions fit together."""
    project = tomllib.loads(text)["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["data"]]
    releases = {}
    for requirement in requirements:
        name, oldest = FLOOR.match(requirement).groups()
        releases[name] = between(available(name), oldest)

    for _ in range(ATTEMPTS):
        drawn = [f"{name}=={generator.choice(versions)}" for name, versions in releases.items()]
        if _fit(drawn):
            return drawn
    sys.exit(f"none of {ATTEMPTS} draws fit together: use another --seed")


def available(name: str) -> list[str]:
    """The final versions on the index that this Python can install."""
    command = [sys.executable, "-m", "pip", "index", "versions", "--only-binary", ":all:", name]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.search(r"^Available versions: (.*)$", output, re.MULTILINE)[1].split(", ")


def between(versions: list[str], oldest: str) -> list[str]:
    """The versions that are not older than ``oldest``."""
    return [version for version in versions if _numbers(version) >= _numbers(oldest)]


def _fit(pinned: list[str]) -> bool:
    """Whether pip can install these versions together with the project, its extras and the group "dev"."""
    project = [f"{ROOT}[all]", "--group", f"{ROOT / 'pyproject.toml'}:dev"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", *pinned, *project]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def _padded(version: str) -> str:
    """``2.6`` also allows 2.6.1: the oldest is 2.6.0."""
    return version if version.count(".") >= 1 else f"{version}.0"


if __name__ == "__main__":
    main()
