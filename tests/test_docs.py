"""Code blocks run, every page is in the navigation, and pages agree with the code."""

import ast
import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import priors, rivals, tables
from drpu import exceptions
from scripts import load_script

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery.md"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def load_file(name):
    return load_script(ROOT / "docs" / f"{name}.py")


runner = load_file("run_blocks")
WITH_CODE = [page for page in PAGES if runner.BLOCK.search(page.read_text())]


@pytest.mark.checkout
@pytest.mark.parametrize("benchmark", [priors, rivals, tables], ids=lambda benchmark: benchmark.DOCS.stem)
def test_a_page_that_a_benchmark_writes_is_that_of_its_results(benchmark):
    assert benchmark.DOCS.read_text() == benchmark.docs()


@pytest.mark.parametrize("name", ["README.md", "llms.txt"])
def test_the_code_of_the_first_pages_runs(name):
    page = ROOT / name
    runner.run_page(page.read_text(), str(page))


@pytest.mark.slow  # "make docs" runs them, too
@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_code_of_every_page_runs(page):
    runner.run_page(page.read_text(), str(page))


def test_printed_text_is_put_below_the_code_that_printed_it():
    code = "```python\nx = 6\n```\n\nthen\n\n```python\nprint(7 * x)\n```"
    output = '\n\n```text title="Output"\n42\n```\n'
    assert runner.run_page(code + "\n", "page.md") == code + output


def test_code_that_fails_fails_the_page():
    pytest.importorskip("typer", reason="part of the cli extra")  # the oldest warns when it is imported
    with pytest.raises(ZeroDivisionError):
        runner.run_page("```python\n1 / 0\n```\n", "page.md")
    with pytest.raises(RuntimeError, match="exit code 1"):
        runner.run_page("```console\n$ drpu inspect absent.drpu\n```\n", "page.md")


@pytest.mark.parametrize("search", ["GridSearchCV(clf, {}, cv=3)", "cross_val_score(clf, X, y)"])
def test_a_search_without_scoring_fails_the_page(search):
    with pytest.raises(RuntimeError, match=r"page\.md, line 3: .* has no scoring"):
        runner.run_page(f"```python\n\nfound = {search}\n```\n", "page.md")


def test_every_option_of_the_command_line_is_shown():
    pytest.importorskip("typer", reason="part of the cli extra")
    from drpu.cli.app import command

    texts = [page.read_text() for page in PAGES if page.name != "migration.md"]
    shown = set(re.findall(r"--[a-z0-9-]+", "".join(texts)))
    for name, one in command.commands.items():
        options = {flag for parameter in one.params for flag in parameter.opts if flag.startswith("--")}
        assert options <= shown, name


def test_no_page_shows_a_result_that_was_typed_in():
    for page in (*PAGES, ROOT / "README.md"):
        assert 'title="Output"' not in page.read_text(), page


def headings(page):
    """The anchors of the headings of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles]
    return {re.sub(r"[\s-]+", "-", title) for title in words}


def test_every_page_is_in_the_navigation_and_its_links_lead_somewhere():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in PAGES:
        assert f": {page.relative_to(ROOT / 'docs').as_posix()}\n" in navigation, page
        for target, anchor in re.findall(r"\]\(([^)#]+\.md)(?:#([^)]+))?\)", page.read_text()):
            linked = page.parent / target
            assert linked.exists(), f"{page.name} links to {target}"
            if anchor and "reference" not in target:  # pages of the reference are made of docstrings
                assert anchor in headings(linked), f"{page.name} links to {target}#{anchor}"


def test_every_page_is_reached_from_the_first_in_three_clicks():
    docs = ROOT / "docs"
    reached = {docs / "index.md"}
    for _ in range(3):
        for page in tuple(reached):
            for target in re.findall(r"\]\(([^)#]+\.md)", page.read_text()):
                reached.add((page.parent / target).resolve())
    assert {page.resolve() for page in PAGES} <= reached


def test_every_public_name_is_on_one_page_of_the_reference():
    import drpu

    pages = "".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    for name in drpu.__all__:
        thing = getattr(drpu, name)
        if not inspect.ismodule(thing):
            assert pages.count(f"::: {thing.__module__}.{name}\n") == 1, name


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_how_to_begins_with_what_you_need_and_ends_with_what_you_have(page):
    paragraphs = page.read_text().strip().split("\n\n")
    assert paragraphs[1].startswith("**You need** ")
    assert paragraphs[-1].startswith("**You have now** ")


def test_the_gallery_shows_every_example_in_the_colour_of_the_page():
    shown = runner.EXAMPLE.findall(GALLERY.read_text())
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "examples").glob("plot_*.py"))
    one = runner.run_page(f"<!-- example: {shown[0]} -->\n", "page.md")
    assert one.startswith("## ")
    assert one.count("<svg ") == 1
    picture = one[one.index("<svg ") :]
    assert "currentColor" in picture
    assert "#000000" not in picture
    assert "fill: #ffffff" not in picture


def test_every_example_becomes_a_notebook_with_all_of_its_code():
    notebooks = load_file("notebooks")
    for path in (ROOT / "examples").glob("plot_*.py"):
        notebook = notebooks.notebook(path.read_text())
        assert notebook["nbformat"] == 4
        first, *code = notebook["cells"]
        assert first["cell_type"] == "markdown"
        assert first["source"][0].startswith("# ")
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        ours = ast.parse("\n".join("".join(cell["source"]) for cell in code))
        assert [ast.dump(node) for node in ours.body] == [
            ast.dump(node) for node in ast.parse(path.read_text()).body[1:]
        ]


def test_formulas_become_mathml():
    pytest.importorskip("latex2mathml", reason="part of the docs extra")
    mathml = load_file("mathml")
    page = mathml.on_page_content(r'<p><span class="arithmatex">\(a &lt; \pi\)</span></p>')
    assert page.startswith("<p><math ")
    assert "arithmatex" not in page
    assert 'display="block"' in mathml.on_page_content(r'<div class="arithmatex">\[a\]</div>')


def test_a_page_that_needs_the_network_fails_the_build():
    offline = load_file("offline")
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))
    linked = '<a href="https://example.org">text</a>'
    assert offline.on_post_page(linked, page=page) == linked
    with pytest.raises(RuntimeError, match=r"page\.md loads .*example"):
        offline.on_post_page('<script src="https://example.org/x.js"></script>', page=page)


def test_every_module_is_listed_with_what_it_holds():
    listed = load_file("modules").summaries()
    assert [name for name, summary in listed.items() if not summary] == []
    page = load_file("modules").on_page_markdown("<!-- modules -->")
    assert all(f"| `{name}` |" in page for name in listed)


def test_every_warning_is_listed_with_the_modules_that_issue_it():
    listed = load_file("modules")
    page = listed.on_page_markdown((ROOT / "docs" / "reference" / "exceptions.md").read_text())
    issuers = listed.issuers()
    for name, one in vars(exceptions).items():
        if name.endswith("Warning") and name != "DRPUWarning":
            # a class that nothing issues raises a KeyError here
            modules = ", ".join(f"`{module}`" for module in issuers[name])
            assert f"| `{one.code}` | `{name}` | {modules} |" in page


def test_the_design_names_every_package_and_numbers_its_decisions():
    design = (ROOT / "DESIGN.md").read_text()
    public = {path.stem for path in (ROOT / "src" / "drpu").iterdir() if path.name[0].isalpha()} - {"py"}
    assert [name for name in sorted(public) if f"`{name}`" not in design] == []
    records = design.split("\n### ")[1:]
    assert [int(record.split(".")[0]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        assert all(f"*{part}.*" in record for part in ("Context", "Choice", "Consequence")), record


def test_the_search_of_the_site_works_in_pages_that_are_opened_as_files():
    settings = (ROOT / "mkdocs.yml").read_text()
    assert re.search(r"^  - offline\b", settings, re.M)  # the index is a script, too
    (script,) = re.findall(r"polyfills: \[(.*)\]", settings)
    assert "iframe-worker" in script  # otherwise the plugin loads a script of this name over the network
    assert "window.Worker = " in (ROOT / "docs" / script).read_text()


@pytest.mark.checkout
def test_result_tables_come_from_result_files():
    results = load_file("results")
    texts = [path.read_text() for path in sorted((ROOT / "docs").rglob("*.md"))]
    pages = [text for text in texts if results.MARK.search(text)]
    page = "\n".join(pages)
    by_hand = "\n".join(text for text in pages if "_made -->" not in text)  # commands write the others
    assert {*results.MARK.findall(page)} == {*results.TABLES}
    filled = results.on_page_markdown(page)
    assert not results.MARK.search(filled)
    assert not re.search(r"\d\.\d+%", by_hand)  # the numbers are in the result files only
    written = re.findall(r"Written by `python -m (?:benchmarks|paper)", filled)
    assert len(written) == len(results.MARK.findall(page)) - 1  # the list of all files


@pytest.mark.checkout
def test_a_table_says_that_the_library_has_changed_since_it_was_made(monkeypatch):
    results = load_file("results")
    source = {"command": "python -m benchmarks.shift", "versions": {}, "commit": "abc"}
    monkeypatch.setattr(results, "_date", lambda commit: "2030-01-31")
    monkeypatch.setattr(results, "_changes_since", lambda commit: 0)
    assert "changed since" not in results._written(source)
    monkeypatch.setattr(results, "_changes_since", lambda commit: 3)
    assert "at commit abc of 2030-01-31; the library has changed since (3 commits)" in results._written(
        source
    )


@pytest.mark.checkout
def test_nothing_is_said_of_commits_where_the_history_is_cut_off(monkeypatch):
    results = load_file("results")
    answers = {"rev-parse": "true", "rev-list": ""}  # a shallow clone, in which older commits are unknown
    monkeypatch.setattr(results, "_git", lambda *arguments: answers.get(arguments[0], "of the last commit"))
    assert "of the last commit" not in results.result_files()


def test_roles_and_formulas_of_docstrings_become_markdown():
    pytest.importorskip("griffe", reason="part of the docs extra")
    to_markdown = load_file("griffe_rst").to_markdown
    assert to_markdown("see :func:`~drpu.core.x` and :math:`a\n b`") == "see `x` and $a b$"
    assert to_markdown(".. math:: a = b,\n   c\n\nrest").split() == ["$$", "a", "=", "b,", "c", "$$", "rest"]
