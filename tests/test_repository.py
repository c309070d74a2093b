"""The files of the repository agree with each other."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import drpu
from benchmarks.readme import filled

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "drpu"


def test_every_folder_of_tests_belongs_to_a_package_or_is_explained():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    packages |= {path.stem for path in PACKAGE.glob("*.py")}
    explained = set(re.findall(r"`tests/([a-z]+)`", (ROOT / "CONTRIBUTING.md").read_text()))
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert folders <= packages | explained


def test_make_help_lists_every_target():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.M).group(1).split()
    assert sorted(targets) == sorted(re.findall(r"^([a-z-]+):.*##", makefile, re.M))


def test_the_version_is_the_same_everywhere():
    assert f"\nversion: {drpu.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {drpu.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_every_link_of_a_page_in_the_root_leads_somewhere():
    for page in (*ROOT.glob("*.md"), ROOT / "llms.txt"):
        for target in re.findall(r"[^!]\[[^\]]*\]\(([^)#:]+)[)#]", page.read_text()):
            assert (ROOT / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("tool", ["ruff", "typos"])
def test_pre_commit_and_the_constraints_have_one_version_of_a_tool(tool):
    pinned = re.search(rf"^{tool}==\S+$", (ROOT / "constraints.txt").read_text(), re.M).group()
    used = re.findall(rf"{tool}==[\d.]+", (ROOT / ".pre-commit-config.yaml").read_text())
    assert set(used) == {pinned}


@pytest.mark.checkout
def test_the_readme_quotes_its_result_files_and_has_its_picture():
    readme = (ROOT / "README.md").read_text()
    assert filled(readme) == readme
    assert (ROOT / "docs" / "images" / "shift.png").stat().st_size > 10_000


def test_benchmarks_that_tests_import_do_so_on_windows():
    names = set()
    for path in (ROOT / "tests").rglob("*.py"):
        names.update(re.findall(r"^(?:from|import) (benchmarks\.\w+)", path.read_text(), re.MULTILINE))
    absent = "import sys; sys.modules |= dict.fromkeys(['resource', 'fcntl', 'pwd', 'grp'])"
    imports = f"{absent}; import {', '.join(sorted(names))}"
    done = subprocess.run(
        [sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_test_that_security_names_exists():
    text = (ROOT / "SECURITY.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 15
    for path, name in named:
        assert f"def {name}" in (ROOT / path).read_text(), (path, name)
