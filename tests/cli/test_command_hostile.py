"""Names, levels and groups from files harm no page, terminal, spreadsheet or plot."""

import csv
import html
import io
import json
import re
import unicodedata
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from cli_answers import answer
from matplotlib import pyplot

from drpu import export_onnx, load, plots
from drpu.report import render_report
from drpu.state.population import Backtest, PastPeriod
from hostile_texts import FORMULAS, HOSTILE

# Characters that control a terminal, or the direction of the text around them.
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows whose columns, levels, groups and notes are called by these texts."""
    folder = tmp_path_factory.mktemp("hostile")
    rng = np.random.default_rng(0)
    n = 40 * len(HOSTILE)
    y = (np.arange(n) % 3 == 0).astype(int)
    rows = {name: rng.normal(y, 1.0) for name in HOSTILE if name.strip() == name}
    rows |= {"level": rng.permutation(np.resize(HOSTILE, n)), "label": y}
    rows |= {"group": np.resize(HOSTILE, n)}
    pa.parquet.write_table(pa.table(rows), folder / "all.parquet")
    return folder


class Tags(HTMLParser):
    """The tags of a page, and attributes that run something."""

    def __init__(self):
        super().__init__()
        self.tags, self.running = [], []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.running += [name for name, _ in attributes if name.startswith("on")]


@pytest.mark.usefixtures("few_trees")
def test_hostile_texts_harm_no_output(run, folder):
    words = "all.parquet --label label --drop group --model boosted --prior 0.5"
    shown = [run(f"fit {words} --out h.drpu"), run("inspect h.drpu")]
    shown += [run(f"{command} h.drpu all.parquet --by group --quiet") for command in ("prior", "adapt")]
    for code, out, err in shown:
        assert code == 0, err
        text = re.sub(r"[\n\t]", "", f"{out}{err}")
        assert text.isprintable()
    assert run("predict h.drpu all.parquet --by group --quiet --out all.csv")[0] == 0
    _check_csv((folder / "all.csv").read_text())
    assert run("predict h.drpu all.parquet --quiet --out all.jsonl")[0] == 0
    first = json.loads((folder / "all.jsonl").read_text().splitlines()[1])
    assert first["group"] == HOSTILE[1]

    code, _, err = run("report h.drpu all.parquet --by group --beside level,group --out h.html --quiet")
    assert code == 0, err
    page = (folder / "h.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.running == []
    assert tags.tags.count("script") == 2  # the tables and the script of the page itself
    assert "img" not in tags.tags
    link = re.search(r'href="data:text/csv;charset=utf-8,([^"]*)"', page).group(1)
    _check_csv(unquote(html.unescape(link)))


@pytest.mark.usefixtures("few_trees")
@pytest.mark.filterwarnings("ignore:Glyph")  # which the font does not have
def test_hostile_texts_harm_no_page_notebook_or_graph(run, folder):
    onnx = pytest.importorskip("onnx")
    answer(run("fit all.parquet --label label --drop group --model boosted --prior 0.5 --out n.drpu --json"))
    clf = load(folder / "n.drpu")
    rows = pa.parquet.read_table(folder / "all.parquet").drop_columns(["label"])
    groups = clf.adapt_by(rows, by=rows["group"])
    june = clf.adapt(rows)
    plan = june.plan_audit(rows, n=10, random_state=0)
    assert run("ask n.drpu all.parquet --n 10 --page ask.html --quiet")[0] == 0
    shown = [(folder / "ask.html").read_text(), render_report(june, rows, by=rows["group"])]
    shown += [each._repr_html_() for each in (clf, june, groups, plan, june.at_budget(5, of=rows).budget_)]
    for page in shown:
        tags = Tags()
        tags.feed(page)
        assert "img" not in tags.tags
        assert "<script>alert" not in page
        assert "onerror" not in tags.running
        assert not CONTROLS.search(page)
    for text in (repr(clf), repr(june), repr(groups), repr(plan), str(june.prior_)):
        assert text.replace("\n", "").isprintable()

    export_onnx(clf, folder / "n.onnx")
    graph = onnx.load(folder / "n.onnx")
    for entry in graph.metadata_props:
        assert entry.value.isprintable()


def _check_csv(text):
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert sum(cell in {f"'{formula}" for formula in FORMULAS} for cell in cells) > len(FORMULAS)
    risky = [cell for cell in cells if _starts_like_a_formula(cell)]
    assert all(re.fullmatch(r"[+-][\d.]+(e-?\d+)?", cell) for cell in risky)


def _starts_like_a_formula(cell):
    if cell.startswith(("\t", "\r", "\n")):
        return True
    for letter in unicodedata.normalize("NFKC", cell):
        if unicodedata.category(letter)[0] not in "ZC":
            return letter in "=+-@\u2212"
    return False


@pytest.mark.usefixtures("few_trees")
@pytest.mark.filterwarnings("ignore:Glyph")  # which the font does not have
def test_hostile_names_are_drawn_as_they_are(run, folder):
    answer(run("fit all.parquet --label label --drop group --model boosted --prior 0.5 --out d.drpu --json"))
    prior = load(folder / "d.drpu").prior_
    past = tuple(PastPeriod(text, 500, 40, 0.1, 0.01, 0.1, 0.1) for text in HOSTILE)
    backtest = plots.BacktestDisplay(Backtest(past, "guarded", 1.0, 0.1))
    for display in (plots.PriorDisplay(dict.fromkeys(HOSTILE, prior)), backtest):
        text = io.StringIO()
        with pyplot.rc_context({"svg.fonttype": "none"}):
            display.plot().figure_.savefig(text, format="svg")
        ElementTree.fromstring(text.getvalue())  # raises if a name is not escaped
