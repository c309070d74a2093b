"""Warnings about names that a later version removes."""

import ast
import warnings
from pathlib import Path

import pytest

import drpu
from drpu.exceptions import warn_deprecated

PACKAGE = Path(drpu.__file__).parent

NESTED_CALLS = """
def inner():
    warn_deprecated("old", instead="new", removed_in="0.9")

def outer():
    inner()
"""


def release(version):
    """The first two numbers of a version."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def calls_of(path):
    """The calls of ``warn_deprecated`` in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "warn_deprecated":
            yield node


def test_the_warning_names_the_old_way_the_new_way_and_the_version_of_removal():
    message = r"^old is deprecated .* removed in drpu 0\.9: use new\.$"
    with pytest.warns(FutureWarning, match=message):
        warn_deprecated("old", instead="new", removed_in="0.9")


def test_the_warning_points_to_the_caller_however_deep_drpu_calls_it():
    namespace = {"__name__": "drpu.some_module", "warn_deprecated": warn_deprecated}
    exec(compile(NESTED_CALLS, "inside_drpu.py", "exec"), namespace)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        namespace["outer"]()
    assert [warning.filename for warning in caught] == [__file__]


def test_nothing_is_kept_longer_than_its_warning_says(tmp_path):
    (tmp_path / "example.py").write_text(NESTED_CALLS, encoding="utf-8")
    assert len(list(calls_of(tmp_path / "example.py"))) == 1  # the package may have none
    for path in PACKAGE.rglob("*.py"):
        for call in calls_of(path):
            (removed_in,) = (word.value.value for word in call.keywords if word.arg == "removed_in")
            assert release(drpu.__version__) < release(removed_in), f"{path}, line {call.lineno}"
