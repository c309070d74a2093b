"""One Hypothesis profile and one order for all tests: the same in every run. A command line, pages."""

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings

from shared_fixtures import audit, audit_clf, audit_data, empty_figure, fitted, june, plan, toy  # noqa: F401

collect_ignore_glob = ["conftest.py", "*/conftest.py", "scale/warm_daemon.py"]  # they hold no doctests

settings.register_profile("drpu", max_examples=30, deadline=None, derandomize=True, database=None)
settings.load_profile("drpu")
IS_CHECKOUT = (Path(__file__).parents[1] / "benchmarks" / "results").is_dir()
PROCESSES = ("spark", "client", "browser")  # fixtures that start processes, which takes seconds


def pytest_collection(session):
    """Switch garbage collection off while modules and tests are made: it takes time and finds nothing."""
    gc.disable()


def pytest_collection_finish(session):
    """Search seldom, and only among what tests make: the imported modules stay until the end."""
    gc.freeze()
    gc.set_threshold(20_000)
    gc.enable()


def pytest_runtest_setup(item):
    """Skip the tests that need files of the repository, where the tests run from an sdist."""
    if item.get_closest_marker("checkout") and not IS_CHECKOUT:
        pytest.skip("needs files of the repository that an sdist leaves out")


def pytest_collection_modifyitems(items):
    """Put the tests that share such a fixture together and first, so that one worker starts it, once."""

    def place(item):
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        asked = {*getattr(item, "fixturenames", ()), *(name for name in given if isinstance(name, str))}
        return min((k for k, name in enumerate(PROCESSES) if name in asked), default=len(PROCESSES))

    items.sort(key=place)


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """Run a command in the test's ``folder``; return its exit code, output and errors."""
    from drpu.cli import main

    monkeypatch.chdir(folder)

    def run(*line):
        capsys.readouterr()
        code = main(line[0].split() if len(line) == 1 else list(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def scored_rows(monkeypatch):
    """The number of rows in each call that scores rows with the models of all folds."""
    from drpu.models import crossfit

    calls = []
    score = crossfit.Folds.fold_scores
    monkeypatch.setattr(crossfit.Folds, "fold_scores", lambda self, X: calls.append(len(X)) or score(self, X))
    return calls


@pytest.fixture
def undrawn(monkeypatch):
    """Pages with empty figures, whose drawing takes most of the time."""
    monkeypatch.setattr("drpu.report.page.as_svg", empty_figure)


@pytest.fixture
def text_only(monkeypatch):
    """Pages without figures and without the tables of the script, which take most of the time."""
    monkeypatch.setattr("drpu.report.page.FIGURES", ())
    monkeypatch.setattr("drpu.report.page.whatif_json", lambda *_: "{}")


@pytest.fixture
def few_trees(monkeypatch):
    """Boosted trees of few rounds, for tests of how rows are read and printed, not of what is learnt."""
    from drpu.models import boosted

    few = boosted.BOOSTED.fixed._replace(rounds=15, learning_rate=0.3)
    monkeypatch.setattr(boosted, "BOOSTED", replace(boosted.BOOSTED, fixed=few))
