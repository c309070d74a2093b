"""One Hypothesis profile for all tests: the same examples in every run. A command line in a folder."""

import pytest
from hypothesis import settings

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # they hold no doctests

settings.register_profile("drpu", max_examples=50, deadline=None, derandomize=True, database=None)
settings.load_profile("drpu")


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
