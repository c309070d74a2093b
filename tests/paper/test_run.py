"""The paper's runner on tiny images: splits, result files, resuming."""

import ast
import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tiny_images import KEYS, fake_images, job, small

from drpu.exceptions import DataError
from paper.__main__ import main
from paper.configs import TEST_PRIORS, benchmark, recipe
from paper.run import Job, Options, run_job, train
from paper.splits import load_images, split
from paper.store import Key, missing, read_results, write_result


def test_splits_are_those_of_the_authors_code():
    data, images = small(), fake_images()
    part = split(data, images, 0)

    together = np.concatenate(part.unlabeled)
    assert len(np.unique(together)) == 700  # every image is unlabeled, once, in one of the two parts
    assert [len(rows) for rows in part.unlabeled] == [500, 200]
    assert [len(rows) for rows in part.positive] == [50, 30]
    for positive, unlabeled in zip(part.positive, part.unlabeled, strict=True):
        assert np.isin(positive, unlabeled).all()  # labelled rows are rows of U
        assert np.isin(images.train_classes[positive], data.positive).all()
    for prior, rows in part.tests.items():
        assert len(rows) == len(np.unique(rows)) == 100
        share = np.isin(images.test_classes[rows], data.positive).mean()
        assert share == pytest.approx(prior, abs=0.15)


def test_splits_depend_on_the_trial_alone():
    data, images = small(), fake_images()
    first, again, other = (split(data, images, trial) for trial in (3, 3, 4))
    assert_array_equal(first.positive[0], again.positive[0])
    assert_array_equal(first.tests[0.4], again.tests[0.4])
    assert not np.array_equal(first.unlabeled[0], other.unlabeled[0])


@pytest.mark.parametrize("flavour", ["as-run", "as-written", "ours"])
def test_results_have_the_published_keys(flavour, tmp_path, monkeypatch):
    monkeypatch.setattr("paper.strategies.ALPHAS", (0.3,))
    run_job(job(flavour), fake_images(), Options(out=tmp_path, device="cpu"))
    results = read_results(tmp_path)
    assert [result["trial"] for result in results] == [0, 1]
    for result in results:
        assert set(result) >= KEYS
        assert result["flavour"] == flavour
        assert [line["test_prior"] for line in result["tests"]] == list(TEST_PRIORS)
        if flavour == "as-run":  # the others keep their best epoch
            last = [1 - line["accuracy"] for line in result["tests"]]
            np.testing.assert_allclose(result["curve"][-1]["errors"], last, atol=1e-4)
        for line in result["tests"]:
            assert set(line) == {"test_prior", "accuracy", "auc", "estimated_prior"}
            assert 0 <= line["accuracy"] <= 1
            assert 0 <= line["estimated_prior"] <= 1


def test_only_as_run_accumulates_gradients():
    data = small()
    accumulates = {
        flavour: recipe(flavour, "drpu", data).options.get("accumulate_gradients", False)
        for flavour in ("as-run", "as-written", "ours")
    }
    assert accumulates == {"as-run": True, "as-written": False, "ours": False}
    images, options = fake_images(), Options(device="cpu")
    learnt = []
    for flavour in ("as-run", "as-written"):
        made = job(flavour, trials=(0,), learning_rate=1e-3)
        made = replace(made, recipe=replace(made.recipe, batch_norm=True))
        (model,), _ = train(made, images, [made.split(images, 0)], options)
        learnt.append(model.ratio(images.test))
    assert not np.allclose(*learnt)


@pytest.mark.parametrize("method", ["nnpu", "pua", "vpu"])
def test_rivals_give_the_same_kind_of_result(method, tmp_path):
    data, images, options = small(), fake_images(), Options(out=tmp_path, device="cpu")
    for trial in (0, 1):
        tests = [{"test_prior": prior, "estimated_prior": prior + 0.01} for prior in TEST_PRIORS]
        write_result(
            Key("km2", "mnist", "as-run", "km2", trial),
            {"estimated_train_prior": 0.5, "tests": tests},
            tmp_path,
        )
    made = recipe("as-run", method, data)
    made = replace(made, options=made.options | {"batch_size": 100, "epochs": 2, "learning_rate": 1e-3})
    run_job(Job("benchmark", data, made, (0, 1)), images, options)
    results = [result for result in read_results(tmp_path) if result["experiment"] == "benchmark"]
    assert [result["trial"] for result in results] == [0, 1]
    for result in results:
        assert set(result) >= KEYS
        assert len(result["curve"]) == 2
        assert [line["test_prior"] for line in result["tests"]] == list(TEST_PRIORS)
        known = [line["estimated_prior"] for line in result["tests"]]
        assert known == ([None] * 4 if method == "vpu" else [prior + 0.01 for prior in TEST_PRIORS])
        assert len(result["best_epoch"]) == (4 if method == "pua" else 1)
        assert np.mean([line["auc"] for line in result["tests"]]) > 0.5


def test_rivals_ask_for_the_priors_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr("paper.km2.RESULTS", tmp_path)
    job = Job("benchmark", small(), recipe("as-run", "nnpu", small()), (0,))
    with pytest.raises(DataError, match="python -m paper km2"):
        run_job(job, fake_images(), Options(out=tmp_path, device="cpu"))


@pytest.mark.parametrize("method", ["nnpu", "drpu"])
def test_numbers_of_positives_are_compared_at_the_known_prior(method, tmp_path):
    data = small()
    made = recipe("as-run", method, data)
    made = replace(made, options=made.options | {"batch_size": 100, "epochs": 1})
    run_job(Job("n_positive", data, made, (0,), 40), fake_images(), Options(out=tmp_path, device="cpu"))
    (result,) = read_results(tmp_path)
    assert result["n_positive"] == 40
    assert [line["test_prior"] for line in result["tests"]] == [data.prior]
    assert result["tests"][0]["estimated_prior"] == data.prior


@pytest.fixture
def folder(tmp_path):
    """A folder with 10,000 artificial test images."""
    images = fake_images(n_train=10, n_test=10_000)
    pixels = (images.test[:, 0] * 255).astype(np.uint8)
    np.savez(tmp_path / "kmnist-test.npz", x_test=pixels, y_test=images.test_classes)
    return tmp_path


def test_test_images_alone_give_a_reduced_protocol(folder):
    data = benchmark("kmnist", reduced=True)
    images = load_images(data, folder)
    part = split(data, images, 0)
    assert len(images.train) == 7000
    assert [len(rows) for rows in part.unlabeled] == [5600, 1400]


def test_a_second_run_skips_what_is_done(folder, monkeypatch):
    made = replace(benchmark("kmnist", reduced=True), network="mlp")
    monkeypatch.setattr("paper.run.benchmark", lambda *_, **__: made)
    out = folder / "results"
    command = "run --experiment benchmark --dataset kmnist --flavour as-run --method drpu --device cpu "
    command += f"--trials 1 --epochs 1 --data {folder} --out {out} --pack {folder / 'all.tar.gz'}"
    main(command.split())
    (path,) = out.iterdir()
    assert path.name == "benchmark-as-run.jsonl"
    content = json.loads(path.read_text())
    assert content["protocol"] == "reduced"
    assert (folder / "all.tar.gz").is_file()

    monkeypatch.setattr("paper.run.run_job", lambda *_: pytest.fail("there is nothing left to do"))
    main(command.split())


def test_a_line_that_was_cut_off_is_no_result_and_a_later_one_replaces_an_earlier_one(tmp_path):
    keys = [Key("benchmark", "mnist", "as-run", "drpu", trial) for trial in (0, 1)]
    write_result(keys[0], {"seconds": 1}, tmp_path)
    path = tmp_path / keys[0].file
    path.write_text(path.read_text() + '{"experiment": "bench')
    assert [result["trial"] for result in read_results(tmp_path)] == [0]
    assert missing(keys, tmp_path) == keys[1:]
    write_result(keys[1], {"seconds": 2}, tmp_path)
    write_result(keys[0], {"seconds": 3}, tmp_path)  # replaces the earlier one
    assert [result["seconds"] for result in read_results(tmp_path)] == [3, 2]
    assert len(path.read_text().splitlines()) == 2


def test_kernel_means_are_estimated_once(folder, monkeypatch):
    from paper import km2

    monkeypatch.setattr(km2, "ROWS", 60)
    monkeypatch.setattr(km2, "RESULTS", folder / "none")
    out = folder / "km2"
    km2.run_km2(["kmnist"], range(1), str(folder), out, 1)
    train, tests = km2.km2_priors(benchmark("kmnist", reduced=True), 0, out)
    assert 0 <= train <= 1
    assert list(tests) == list(TEST_PRIORS)

    monkeypatch.setattr(km2, "load_images", lambda *_: pytest.fail("there is nothing left to do"))
    km2.run_km2(["kmnist"], range(1), str(folder), out, 1)


def test_results_say_what_was_run_instead_of_the_recipe(tmp_path):
    run_job(job(trials=(0,)), fake_images(), Options(out=tmp_path, device="cpu", epochs=1))
    (result,) = read_results(tmp_path)
    assert result["settings"]["options"]["epochs"] == 1
    assert result["settings"]["options"]["dtype"] == "float32"  # tf32 is for GPUs


# -- nothing private ---------------------------------------------------------------------------------


FILES = sorted((Path(__file__).parents[2] / "paper").glob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_paper_uses_public_names_of_public_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert all(a.name == "drpu" or not a.name.startswith("drpu.") for a in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "drpu":
            assert not any(part.startswith("_") for part in node.module.split("."))
            assert not any(a.name.startswith("_") for a in node.names)
            assert all(hasattr(import_module(node.module), a.name) for a in node.names)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) != "self":
            assert not node.attr.startswith("_") or node.attr.endswith("__"), f"line {node.lineno}"
