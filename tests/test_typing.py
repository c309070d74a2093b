"""People who install the package get its types: mypy and pyright on README's example, from outside."""

import subprocess
import sys

import pytest

from test_readme import example

CHECKERS = [
    pytest.param(["pyright", "--pythonpath", sys.executable], id="pyright"),
    pytest.param(["mypy"], id="mypy", marks=pytest.mark.slow),  # it reads the whole package first
]

TYPES = """
from typing import assert_type

from drpu import AdaptedClassifier, PriorEstimate

assert_type(clf, DRPUClassifier)
assert_type(june, AdaptedClassifier)
assert_type(june.prior_, PriorEstimate)
"""

MISTAKES = """
from drpu import DRPUClassifier

DRPUClassifier(cost="high")
DRPUClassifier().fit([[1.0]], [1]).adopt([[2.0]])
"""


def check(checker, folder, code):
    path = folder / "people.py"
    path.write_text(code)
    program, *options = checker
    command = [sys.executable, "-m", program, *options, str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_example_of_readme_has_the_types_that_it_seems_to_have(checker, tmp_path):
    done = check(checker, tmp_path, example() + TYPES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_wrong_argument_and_a_wrong_name_are_found(checker, tmp_path):
    done = check(checker, tmp_path, MISTAKES)
    assert "cost" in done.stdout
    assert "adopt" in done.stdout
    assert done.returncode == 1
