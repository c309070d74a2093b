"""Workflows, recipe, metadata and the release command agree with each other."""

import re
import tomllib
from pathlib import Path

import pytest

import drpu
from scripts import load_script

yaml = pytest.importorskip("yaml", reason="the workflows are YAML")

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WITHOUT_WHEELS = {"3.15"}  # of packages of some extras
DIGEST = re.compile(r"^\s+-? ?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


release = load_script(ROOT / "tools" / "release.py")
steps = load_script(ROOT / "tools" / "steps.py")
versions = load_script(ROOT / "tools" / "versions.py")


def jobs_of(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())["jobs"]


def classified_versions():
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    matches = map(pattern.fullmatch, PROJECT["classifiers"])
    return [match[1] for match in matches if match]


@pytest.mark.checkout
def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} == {"release", "test", "weekly"}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_what_linux_runs_is_a_target_of_the_makefile(workflow):
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", makefile, re.M).group(1).split())
    on_linux = {k: job for k, job in jobs_of(workflow.name).items() if job["runs-on"] == "ubuntu-latest"}
    assert on_linux
    for name, job in on_linux.items():
        for step in job["steps"]:
            if "run" in step:
                program, target = step["run"].split()
                assert program == "make", name
                assert target in targets, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_that_build_the_docs_have_the_whole_history(workflow):
    for name, job in jobs_of(workflow.name).items():
        if any(step.get("run", "").startswith("make docs") for step in job["steps"]):
            assert job["steps"][0]["with"]["fetch-depth"] == 0, name


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_digest_and_one_version_of_each_is_used(workflow):
    for line in workflow.read_text().splitlines():
        if "uses:" in line:
            assert DIGEST.match(line), line
    everywhere = "".join(path.read_text() for path in WORKFLOWS)
    pins = set(re.findall(r"uses: (.*)", everywhere))
    assert len({pin.partition("@")[0] for pin in pins}) == len(pins)


@pytest.mark.checkout
def test_the_workflow_tests_the_versions_of_python_that_the_classifiers_name():
    jobs = jobs_of("test.yml")
    assert jobs["linux"]["strategy"]["matrix"]["python"] == classified_versions()
    with_wheels = [version for version in classified_versions() if version not in WITHOUT_WHEELS]
    assert jobs["other-systems"]["strategy"]["matrix"]["python"] == with_wheels
    assert PROJECT["requires-python"] == f">={classified_versions()[0]}"


@pytest.mark.checkout
def test_a_workflow_installs_all_extras_but_spark():
    commands = "\n".join(step.get("run", "") for step in jobs_of("test.yml")["other-systems"]["steps"])
    (extras,) = re.findall(r'"\.\[(.*)\]"', commands)
    assert set(extras.split(",")) == set(PROJECT["optional-dependencies"]) - {"spark", "all"}


@pytest.mark.checkout
def test_the_steps_that_can_run_here_are_those_of_the_linux_jobs_each_once():
    commands = list(steps.linux_steps(["release", "test", "weekly"]))
    assert {"make test", "make test-all", "make speed", "make links"} <= set(commands)
    assert not any("pip install" in command for command in commands)


def test_expressions_of_github_do_not_reach_a_step(capfd):
    environment = {"BASE": "${{ github.event.pull_request.base.sha }}", "SEED": "3"}
    assert steps.succeeds('echo "base=$BASE seed=$SEED"', environment)
    assert not steps.succeeds("false", {})
    assert "base= seed=3" in capfd.readouterr().out


def test_the_floors_are_the_lower_bounds_of_dependencies_extras_and_groups():
    text = """
    project.dependencies = ["numpy>=1.26"]
    project.optional-dependencies.torch = ["torch>=2"]
    dependency-groups.dev = ["mkdocs<2", "glide-py>=0.11; python_version >= '3.12'"]
    """
    assert versions.floors(text) == {"glide-py": "0.11", "numpy": "1.26", "torch": "2.0"}


def test_versions_are_drawn_between_the_floor_and_the_newest():
    newest_first = ["2.10", "2.9.1", "2.0", "1.26.4", "1.25"]
    assert versions.between(newest_first, "1.26") == ["2.10", "2.9.1", "2.0", "1.26.4"]


@pytest.mark.checkout
def test_issue_forms_ask_for_what_inspect_prints():
    for name in ("bug", "question"):
        form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text())
        descriptions = [part["attributes"].get("description", "") for part in form["body"]]
        assert any("drpu inspect --json" in text for text in descriptions)


@pytest.mark.checkout
def test_the_conda_recipe_has_version_and_requirements_of_the_package():
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text())
    python, *packages = recipe["requirements"]["run"]
    assert recipe["context"]["version"] == drpu.__version__
    assert python == f"python {PROJECT['requires-python']}"
    assert [package.replace(" ", "") for package in packages] == PROJECT["dependencies"]
    (entry_point,) = recipe["build"]["python"]["entry_points"]
    assert entry_point == f"drpu = {PROJECT['scripts']['drpu']}"


def test_all_addresses_of_the_project_begin_with_that_of_the_repository():
    repository = PROJECT["urls"]["Repository"]
    assert all(address.startswith(repository) for address in PROJECT["urls"].values())


def test_the_release_command_reads_the_version_of_the_package():
    assert release.version_of(ROOT) == drpu.__version__


READY = {
    "pyproject.toml": 'Repository = "https://github.com/somebody/drpu"\n',
    ".github/CODEOWNERS": "* @somebody\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 — 2030-01-31\n",
    "CITATION.cff": "title: drpu\nversion: 1.2.0\ndate-released: 2030-01-31\n",
    "README.md": "pip install drpu\n",
}
UNREADY = {
    "pyproject.toml": 'Repository = "https://example.invalid/drpu"\n',
    ".github/CODEOWNERS": "* maintainers@example.invalid\n",
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 — unreleased\n",
    "CITATION.cff": "title: drpu\nversion: 1.1.0\ndate-released: 2030-01-31\n",
    "README.md": "The package is not on a package index yet.\n",
}


def write_files(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_release_that_lacks_nothing_is_accepted(tmp_path):
    write_files(tmp_path, READY)
    assert release.reasons_against(tmp_path, "1.2.0") == []
    assert release.reasons_against(tmp_path, "1.2.dev0") != []


@pytest.mark.parametrize("name", UNREADY)
def test_a_release_is_refused_for_each_thing_that_is_missing(name, tmp_path):
    write_files(tmp_path, READY | {name: UNREADY[name]})
    (reason,) = release.reasons_against(tmp_path, "1.2.0")
    assert name in reason


def test_a_release_without_its_date_in_the_citation_is_refused(tmp_path):
    write_files(tmp_path, READY | {"CITATION.cff": "title: drpu\nversion: 1.2.0\n"})
    (reason,) = release.reasons_against(tmp_path, "1.2.0")
    assert "date-released: 2030-01-31" in reason


def test_addresses_are_read_without_the_punctuation_around_them(tmp_path):
    text = "See <https://a.org/x>, [b](https://b.org/y?z=1) and https://c.org. Not https://example.org.\n"
    (tmp_path / "page.md").write_text(text)
    addresses = load_script(ROOT / "tools" / "links.py").all_addresses(tmp_path)
    assert sorted(addresses) == ["https://a.org/x", "https://b.org/y?z=1", "https://c.org"]
