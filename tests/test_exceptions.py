"""Errors and warnings: base classes, codes, and the tree in the docstring."""

import inspect
import pickle
import re
from pathlib import Path

import pytest

from drpu import _checks, exceptions
from drpu.exceptions import DRPUError, DRPUWarning, MissingExtraError

ERRORS = [
    cls
    for _, cls in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(cls, DRPUError) and cls is not DRPUError
]
PAGE = (Path(__file__).parents[1] / "docs/reference/exceptions.md").read_text(encoding="utf-8")
WARNINGS = [cls for _, cls in inspect.getmembers(exceptions, inspect.isclass) if issubclass(cls, DRPUWarning)]


@pytest.mark.parametrize("cls", ERRORS)
def test_every_error_is_also_one_that_python_has(cls):
    assert issubclass(cls, (ValueError, TypeError, ImportError, RuntimeError))


@pytest.mark.parametrize(
    ("name", "also"),
    [
        ("ParameterError", ValueError),
        ("PriorError", exceptions.ParameterError),
        ("OutputError", exceptions.ParameterError),
        ("DataError", ValueError),
        ("LabelError", exceptions.DataError),
        ("DataTypeError", TypeError),
        ("ArtifactError", ValueError),
        ("MissingExtraError", ImportError),
    ],
)
def test_errors_can_be_caught_as_what_they_also_are(name, also):
    with pytest.raises(also):
        raise getattr(exceptions, name)("reason")


def test_every_name_is_exported_and_in_the_tree():
    names = {cls.__name__ for cls in [*ERRORS, *WARNINGS, DRPUError]}
    assert set(exceptions.__all__) == names
    for name in names - {cls.__name__ for cls in WARNINGS} | {"DRPUWarning"}:
        assert re.search(rf"\b{name}\b", exceptions.__doc__)


@pytest.mark.parametrize("cls", WARNINGS)
def test_every_warning_carries_a_code_that_the_documentation_names(cls):
    assert str(cls("reason")) == f"[{cls.code}] reason"
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cls.code)
    if cls is not DRPUWarning:
        assert f"| `{cls.code}` | `{cls.__name__}` |" in PAGE


def test_codes_are_distinct():
    codes = [cls.code for cls in WARNINGS]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("cls", [*ERRORS, *WARNINGS])
def test_they_travel_between_processes(cls):
    copy = pickle.loads(pickle.dumps(cls("reason")))
    assert type(copy) is cls
    assert copy.args == ("reason",)


def test_a_missing_extra_says_what_to_install():
    with pytest.raises(MissingExtraError) as caught:
        _checks.require("drpu_has_no_such_module.part", extra="torch", for_="NetworkRatio")
    assert str(caught.value) == (
        "NetworkRatio needs 'drpu_has_no_such_module', which is not installed. "
        'Run: pip install "drpu[torch]"'
    )
    assert caught.value.name == "drpu_has_no_such_module"


def test_a_module_that_is_there_is_imported():
    assert _checks.require("json", extra="data", for_="a table").loads("1") == 1


def test_a_broken_dependency_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "drpu_broken_module.py").write_text("import drpu_inner_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="drpu_inner_that_is_not_there") as caught:
        _checks.require("drpu_broken_module", extra="data", for_="a table")
    assert not isinstance(caught.value, MissingExtraError)
