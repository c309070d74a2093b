"""Errors and warnings: base classes, codes, and the tree in the docstring."""

import inspect
import json
import pickle
import re
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace

import pytest

from drpu import _checks, exceptions
from drpu.exceptions import DRPUError, DRPUWarning, MissingExtraError

ERRORS = [
    cls
    for _, cls in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(cls, DRPUError) and cls is not DRPUError
]
WARNINGS = [cls for _, cls in inspect.getmembers(exceptions, inspect.isclass) if issubclass(cls, DRPUWarning)]


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
    assert all(issubclass(cls, (ValueError, TypeError, ImportError, RuntimeError)) for cls in ERRORS)
    assert len({cls.code for cls in WARNINGS}) == len(WARNINGS)


@pytest.mark.parametrize("cls", WARNINGS)
def test_every_warning_carries_a_code_that_the_documentation_names(cls):
    assert str(cls("reason")) == f"[{cls.code}] reason"
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", cls.code)


@pytest.mark.parametrize("cls", [*ERRORS, *WARNINGS])
def test_they_travel_between_processes(cls):
    copy = pickle.loads(pickle.dumps(cls("reason")))
    assert type(copy) is cls
    assert copy.args == ("reason",)


def test_a_missing_extra_says_what_to_install():
    with pytest.raises(MissingExtraError) as caught:
        _checks.require("drpu_has_no_such_module.part", extra="torch", for_="NetworkRatio")
    assert str(caught.value).startswith(
        "NetworkRatio needs 'drpu_has_no_such_module', which is not installed. Run"
    )
    assert caught.value.name == "drpu_has_no_such_module"


HERE = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("recorded", "command"),
    [
        (None, 'Run: pip install "drpu[cli]"'),
        ({"url": HERE.as_uri(), "dir_info": {"editable": True}}, f'Run: pip install "{HERE}[cli]"'),
        ({"url": "file:///gone", "dir_info": {}}, 'Run in a checkout of drpu: pip install ".[cli]"'),
        ({"url": "file:///a.whl", "archive_info": {}}, 'Run: pip install "drpu[cli] @ file:///a.whl"'),
        (
            {"url": "https://host/a", "vcs_info": {"vcs": "git", "commit_id": "12ab"}},
            'Run: pip install "drpu[cli] @ git+https://host/a@12ab"',
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(recorded, command, monkeypatch):
    record = None if recorded is None else json.dumps(recorded)
    monkeypatch.setattr(_checks, "distribution", lambda _: SimpleNamespace(read_text=lambda _: record))
    assert str(_checks.missing_extra("typer", extra="cli", for_="a command")).endswith(command)


def test_an_extra_of_a_checkout_on_the_path_is_installed_from_it(monkeypatch):
    def not_installed(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_checks, "distribution", not_installed)
    text = str(_checks.missing_extra("typer", extra="cli", for_="a command"))
    assert text.endswith(f'Run: pip install "{HERE}[cli]"')


def test_a_module_that_is_there_is_imported():
    assert _checks.require("json", extra="data", for_="a table").loads("1") == 1


def test_a_broken_dependency_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "drpu_broken_module.py").write_text("import drpu_inner_that_is_not_there\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ModuleNotFoundError, match="drpu_inner_that_is_not_there") as caught:
        _checks.require("drpu_broken_module", extra="data", for_="a table")
    assert not isinstance(caught.value, MissingExtraError)
