"""Prints the oldest versions that pyproject.toml allows, as constraints for pip: ``make test-floor``."""

import re
import tomllib
from pathlib import Path

FLOOR = re.compile(r"^([A-Za-z0-9_.-]+)(?:\[[^\]]*\])?>=([0-9.]+)")


def floors(text: str) -> list[str]:
    """``name==version`` for each requirement of the project that has a lower bound."""
    project = tomllib.loads(text)["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    found = (FLOOR.match(requirement) for group in groups for requirement in group)
    return sorted({f"{match[1]}=={_padded(match[2])}" for match in found if match})


def _padded(version: str) -> str:
    """``2.6`` also allows 2.6.1: the oldest is 2.6.0."""
    return version if version.count(".") >= 1 else f"{version}.0"


if __name__ == "__main__":
    print("\n".join(floors((Path(__file__).parents[1] / "pyproject.toml").read_text())))
