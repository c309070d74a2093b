"""Tables, figures and the page of the paper, from artificial results."""

import json

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from paper.choice import how_chosen
from paper.compare import best_strategy
from paper.configs import DATASETS, N_POSITIVE, OURS, STRATEGY, TEST_PRIORS
from paper.figures import write_figures
from paper.page import page, summary
from paper.published import ACCURACY, AUC, PRIOR_ERROR
from paper.select import choose
from paper.store import RESULTS, Key, read_results, write_result
from paper.synthetic import boundary, oracle, run_synthetic
from paper.tables import Cells, Table, accuracy_table, all_tables, auc_table, prior_table, write_tables


def result(key, accuracy=0.9, seconds=1.0, priors=TEST_PRIORS, **more):
    tests = [
        {"test_prior": p, "accuracy": accuracy, "auc": accuracy, "estimated_prior": p + 0.01} for p in priors
    ]
    curve = [{"epoch": e, "errors": [1 - accuracy] * len(priors)} for e in (1, 5)]
    return key.fields() | {"seconds": seconds, "tests": tests, "curve": curve} | more


def trials(dataset, flavour, method, mean, n=10, experiment="benchmark", **more):
    labels = DATASETS[dataset].labels
    return [
        result(Key(experiment, dataset, flavour, method, i, labels, **more), mean + 0.001 * (i - (n - 1) / 2))
        for i in range(n)
    ]


def write_all(results, folder):
    for content in results:
        write_result(Key(**{name: content[name] for name in Key.__slots__}), content, folder)


def test_published_averages_are_those_of_the_paper():
    averages = {("mnist", "drpu"): 95.30, ("fashion_mnist", "vpu"): 90.46, ("kmnist", "nnpu"): 86.67}
    averages |= {("cifar10", "pua"): 86.16}
    for (dataset, method), average in averages.items():
        found = 100 * np.mean([ACCURACY[dataset, prior, method][0] for prior in TEST_PRIORS])
        assert found == pytest.approx(average, abs=0.006)
    assert AUC["cifar10", "drpu"] == (0.9577, 0.0028)
    assert PRIOR_ERROR["kmnist", 0.8, "km2"] == (0.4869, 0.0361)


def test_bold_is_whatever_the_best_does_not_beat():
    best, close, far = Cells(0.95, 0.01, 10), Cells(0.949, 0.01, 10), Cells(0.90, 0.01, 10)
    assert not close.worse_than(best)
    assert far.worse_than(best)
    table = accuracy_table(
        [*trials("mnist", "as-run", "drpu", 0.95), *trials("mnist", "as-run", "nnpu", 0.90)], "mnist"
    )
    columns = {name: i for i, name in enumerate(table.header)}
    assert columns["DRPU, as-run"] in table.bold[0]
    assert columns["nnPU, as-run"] not in table.bold[0]
    assert columns["VPU, paper"] in table.bold[0]  # as in the paper


def test_tables_hold_means_beside_the_published_ones():
    results = trials("mnist", "ours", "drpu", 0.96)
    row = accuracy_table(results, "mnist").rows[0]
    assert row[0] == "0.2"
    assert "95.78 ± 0.54" in row
    assert row[-1].startswith("96.00 ± 0.30 (")
    assert prior_table(results, "mnist").rows[0][-1].startswith("0.0100")
    assert auc_table(results).rows[0][-1].startswith("0.9600")


def test_tables_are_markdown_and_latex(tmp_path):
    write_all(trials("mnist", "as-run", "drpu", 0.95, n=3), tmp_path / "results")
    write_tables(tmp_path / "results", tmp_path / "tables")
    assert (tmp_path / "tables" / "accuracy-mnist.md").read_text().count("|") > 20
    assert r"\toprule" in (tmp_path / "tables" / "accuracy-mnist.tex").read_text()
    table = Table("t", ["a", "b"])
    table.add(["1 ± 2", "x_y"], [1])
    assert "| 1 ± 2 | **x_y** |" in table.markdown()
    assert r"1 $\pm$ 2 & \textbf{x\_y}" in table.latex()


def test_figures_come_as_svg_and_png(tmp_path):
    results = trials("mnist", "as-run", "drpu", 0.95, n=2)
    for n in N_POSITIVE:
        results += [
            result(Key("n_positive", "mnist", "as-run", m, 0, n_positive=n), priors=(0.5,))
            for m in ("drpu", "nnpu")
        ]
    results += [
        result(Key("synthetic", name, "ours", m, 0), priors=(0.6,), boundary=0.1, oracle=-0.2)
        for name in ("irreducible", "reducible")
        for m in ("drpu", "upu")
    ]
    write_all(results, tmp_path / "results")
    written = write_figures(tmp_path / "results", tmp_path / "figures")
    assert sorted(path.name for path in written) == [
        f"figure{i}.{kind}" for i in (1, 2, 3) for kind in ("png", "svg")
    ]


def test_oracle_and_boundaries_are_where_classes_meet():
    assert oracle("irreducible") == pytest.approx(np.log(0.4 / 0.6) / 2, abs=1e-3)

    class Line:
        def decision_function(self, X):
            return X[:, 0] - 0.25

    assert boundary(Line()) == pytest.approx(0.25, abs=2e-3)


def test_synthetic_results_say_where_the_line_is(tmp_path, monkeypatch):
    monkeypatch.setattr("paper.synthetic.SETTINGS", {"irreducible": 1})
    monkeypatch.setattr("paper.synthetic.EPOCHS", 100)
    run_synthetic(["as-written"], range(1), tmp_path)
    results = read_results(tmp_path)
    assert [(r["flavour"], r["method"]) for r in results] == [("as-written", "drpu"), ("as-written", "upu")]
    for r in results:
        assert r["boundary"] == pytest.approx(r["oracle"], abs=1.2)
        assert r["tests"][0]["accuracy"] > 0.75


@pytest.mark.checkout
def test_the_committed_page_is_that_of_the_committed_results(tmp_path):
    results = read_results(RESULTS)
    assert {"benchmark", "synthetic", "n_positive", "km2"} <= {r["experiment"] for r in results}
    for r in results:
        assert {"experiment", "labels", "flavour", "dataset", "method", "trial", "seconds", "tests"} <= set(r)
    figures = [f"paper-figure{i}.svg" for i in (1, 2, 3)]
    committed = RESULTS.parents[1] / "docs" / "paper.md"
    assert committed.read_text() == page(results, figures, choice=how_chosen(RESULTS))
    assert len(all_tables(results)) == 11


@pytest.mark.checkout
def test_ours_is_what_the_risks_chose():
    strategies = json.loads((RESULTS / "strategies.json").read_text())
    assert best_strategy(strategies) == STRATEGY
    name = choose(json.loads((RESULTS / "selection.json").read_text()))
    generator, *values = name.split()
    numbers = {key: float(value) for key, value in (part.split("=") for part in values)}
    assert generator == OURS["generator"]
    assert numbers == {
        "epochs": OURS["epochs"], "rate": OURS["learning_rate"], "decay": OURS["weight_decay"]
    }  # fmt: skip


@pytest.mark.checkout
def test_the_published_study_stays_small_and_beyond_is_the_last_column():
    assert sum(path.is_file() for path in RESULTS.rglob("*")) <= 25
    table = summary(read_results(RESULTS))
    assert table.header[-1] == "beyond (trials)"
    assert {row[1] for row in table.rows} == {"accuracy, average", "error of the test prior"}
    assert all(row[-1] for row in table.rows)
