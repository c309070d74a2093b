"""A command line in a folder."""

import pytest

from drpu.cli import main


@pytest.fixture
def run(folder, capsys, monkeypatch):
    """Run a command in the test's ``folder``; return its exit code, output and errors."""
    monkeypatch.chdir(folder)

    def run(*line):
        capsys.readouterr()
        code = main(line[0].split() if len(line) == 1 else list(line))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
