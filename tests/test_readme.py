import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

# Modules of other packages are not found, as if they were not installed.
ONLY_CORE = """
import sys


class NotInstalled:
    names = {names!r}

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, NotInstalled())
"""


def example():
    """The Python code of README."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    return code


def install_lines():
    """README's own commands that install the package."""
    return re.findall(r'^pip install "?([^"# ]+)"?', README.read_text(), flags=re.MULTILINE)


def core_packages():
    """The package and everything that it requires without an extra."""
    waiting = ["drpu"]
    names = set()
    while waiting:
        name = waiting.pop()
        if name in names:
            continue
        names.add(name)
        for line in distribution(name).requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(canonicalize_name(requirement.name))
    return names


def test_every_extra_for_users_is_named():
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    paragraph = re.search(r"^Extras: .*?\n\n", README.read_text(), flags=re.MULTILINE | re.DOTALL)[0]
    assert set(re.findall(r"`([a-z]+)`", paragraph)) == extras


def test_the_example_needs_the_core_dependencies_only(tmp_path):
    core = core_packages()
    assert {"numpy", "scikit-learn"} <= core
    assert "pandas" not in core
    others = {
        module
        for module, packages in packages_distributions().items()
        if not core.intersection(map(canonicalize_name, packages))
    }
    code = ONLY_CORE.format(names=others) + example()
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "training prior" in run.stdout


@pytest.mark.slow
@pytest.mark.parametrize("place", install_lines())
def test_the_example_runs_after_the_install(place, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{ROOT}{place.removeprefix('.')}"], check=True)
    run = subprocess.run([python, "-c", example()], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
