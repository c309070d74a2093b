"""Documented signatures: the type that a function returns is on a page of the reference, too."""

import ast
import inspect
import re
import sys
import typing
from functools import cached_property
from importlib import import_module
from pathlib import Path

import pytest

import drpu

yaml = pytest.importorskip("yaml", reason="options of the pages are YAML")

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "reference"
ENTRY = re.compile(r"^::: (\S+)\n((?:    .*\n)*)", re.MULTILINE)
PLUGINS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["plugins"]
(OPTIONS,) = (
    plugin["mkdocstrings"]["handlers"]["python"]["options"] for plugin in PLUGINS if "mkdocstrings" in plugin
)


def imported(path):
    """The object at a dotted path, or the module."""
    module, _, name = path.rpartition(".")
    if module == "drpu":
        return import_module(path)
    return getattr(import_module(module), name)


def entries():
    """The documented objects by path, each with the options of its entry; members for a module."""
    found = {}
    for page in sorted(PAGES.glob("*.md")):
        for path, block in ENTRY.findall(page.read_text()):
            options = OPTIONS | (yaml.safe_load(block) or {}).get("options", {})
            thing = imported(path)
            if not inspect.ismodule(thing):
                found[path] = (thing, options)
                continue
            for name, member in inspect.getmembers(thing, inspect.isclass):
                if member.__module__ == path:
                    found[f"{path}.{name}"] = (member, options)
    return found


ENTRIES = entries()
DOCUMENTED = [thing for thing, _ in ENTRIES.values()]


def shown(name, options):
    """Whether the page shows a member of this name."""
    if options.get("members") is False:
        return False
    return not any(re.search(pattern.removeprefix("!"), name) for pattern in options["filters"])


def function_of(member):
    """The function of a method or property of the package; None for anything else."""
    if isinstance(member, (classmethod, staticmethod)):
        member = member.__func__
    elif isinstance(member, property):
        member = member.fget
    elif isinstance(member, cached_property):
        member = member.func
    if not callable(member):
        return None
    member = inspect.unwrap(member)
    return member if inspect.isfunction(member) and member.__module__.startswith("drpu.") else None


def signatures():
    """The functions, methods and properties on the pages, by path."""
    for path, (thing, options) in ENTRIES.items():
        if inspect.isfunction(thing):
            yield path, thing
        elif inspect.isclass(thing):
            for name in dir(thing):
                function = function_of(inspect.getattr_static(thing, name))
                if function is not None and shown(name, options):
                    yield f"{path}.{name}", function


def namespace(module):
    """The names that annotations of a module use, also those imported for type checkers only."""
    names = dict(vars(module))
    for statement in ast.parse(inspect.getsource(module)).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            exec(ast.unparse(ast.Module(statement.body, [])), names)
    return names


def classes_in(hint):
    """The classes that an annotation names."""
    if isinstance(hint, type):
        yield hint
    for argument in typing.get_args(hint):
        yield from classes_in(argument)


SIGNATURES = dict(signatures())


def test_the_pages_show_the_methods_of_the_classifier():
    assert "drpu.classifier.drpu.DRPUClassifier.adapt" in SIGNATURES
    assert "drpu.classifier.drpu.AdaptedClassifier.budget_" in SIGNATURES
    assert "drpu.classifier.drpu.DRPUClassifier.record" not in SIGNATURES


def test_the_docs_say_where_every_returned_type_is_imported_from():
    undocumented = {}
    for path, function in SIGNATURES.items():
        names = namespace(sys.modules[function.__module__])
        returned = typing.get_type_hints(function, names)["return"]
        for cls in classes_in(returned):
            if cls.__module__.startswith("drpu") and cls not in DOCUMENTED:
                undocumented[path] = cls
    assert undocumented == {}


def test_documented_objects_are_at_the_paths_of_their_modules():
    paths = [f"{thing.__module__}.{thing.__qualname__}" for thing in DOCUMENTED]
    assert paths == list(ENTRIES)


def test_types_that_users_only_get_from_methods_are_no_public_names():
    returned_only = {"Suspects", "Budget", "Performance", "GroupPriors", "FittedRatio", "Backtest"}
    assert returned_only.isdisjoint(drpu.__all__)
    assert returned_only <= {thing.__name__ for thing in DOCUMENTED}
    assert len(drpu.__all__) <= 46
