"""The code of the paper uses nothing private."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parents[2] / "paper").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_paper_uses_public_names_of_public_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(a.name == "drpu" or not a.name.startswith("drpu.") for a in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drpu":
            assert not any(part.startswith("_") for part in node.module.split("."))
            assert not any(a.name.startswith("_") for a in node.names)
            assert all(hasattr(import_module(node.module), a.name) for a in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self":
            assert not node.attr.startswith("_") or node.attr.endswith("__"), f"line {node.lineno}"
