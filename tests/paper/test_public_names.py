"""The code of the paper imports public names only."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "paper").glob("*.py"))
PUBLIC = ("drpu", "drpu.datasets", "drpu.exceptions")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_study_uses_public_names_only(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(a.name == "drpu" or not a.name.startswith("drpu.") for a in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drpu":
            assert node.module in PUBLIC
            assert {a.name for a in node.names} <= set(import_module(node.module).__all__)
