"""The paper's runner on tiny images: splits, result files, resuming."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

pytest.importorskip("torch")

from drpu.exceptions import DataError
from paper import configs, strategies
from paper.__main__ import main
from paper.configs import CANDIDATES, DATASETS, TEST_PRIORS, benchmark, recipe
from paper.run import Job, Options, run_job, train
from paper.splits import Images, load_images, split
from paper.store import Key, missing, read_results, write_result
from paper.strategies import Strategy
from paper.timing import measured_seconds

KEYS = {"experiment", "labels", "flavour", "dataset", "method", "trial", "seconds", "tests", "settings"}
KEYS |= {"seed", "versions"}


def fake_images(n_train=700, n_test=400, shape=(1, 28, 28), seed=0) -> Images:
    """Images whose class is the brightness of a corner."""
    rng = np.random.default_rng(seed)

    def draw(n):
        classes = np.arange(n) % 10
        rows = rng.random((n, *shape), dtype=np.float32) * 0.5
        rows[:, :, :4, :4] += (classes[:, None, None, None] % 2 == 0) * 0.5
        return rows, classes.astype(np.uint8)

    return Images(*draw(n_train), *draw(n_test))


def small(name="mnist"):
    return replace(
        DATASETS[name], n_unlabeled=(500, 200), n_positive=(50, 30), n_test=100, epochs=2, network="mlp"
    )


def job(flavour="as-run", trials=(0, 1), **changes) -> Job:
    data = small()
    made = recipe(flavour, "drpu", data)
    options = made.options | {"batch_size": 100, "epochs": 2}
    return Job("benchmark", data, replace(made, options=options | changes), trials)


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


def test_shirt_and_bag_are_different_labels():
    assert 6 in benchmark("fashion_mnist").positive
    assert 8 in benchmark("fashion_mnist", labels="bag").positive
    assert benchmark("fashion_mnist", labels="bag").labels == "bag"


@pytest.mark.parametrize("flavour", ["as-run", "as-written", "ours"])
def test_results_have_the_published_keys(flavour, tmp_path):
    run_job(job(flavour), fake_images(), Options(out=tmp_path, device="cpu"))
    results = read_results(tmp_path)
    assert [result["trial"] for result in results] == [0, 1]
    for result in results:
        assert set(result) >= KEYS
        assert result["flavour"] == flavour
        assert [line["test_prior"] for line in result["tests"]] == list(TEST_PRIORS)
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


def test_stacked_trials_equal_single_ones():
    images, options = fake_images(), Options(device="cpu")
    made = job(trials=(0, 1))
    splits = [made.split(images, trial) for trial in made.trials]
    together, _ = train(made, images, splits, options)
    alone, _ = train(replace(made, trials=(1,)), images, splits[1:], options)
    np.testing.assert_allclose(together[1].ratio(images.test), alone[0].ratio(images.test), atol=2e-4)


def test_curves_follow_the_run(tmp_path):
    run_job(job(trials=(0,)), fake_images(), Options(out=tmp_path, device="cpu"))
    (result,) = read_results(tmp_path)
    assert [point["epoch"] for point in result["curve"]] == [1, 2]
    last = [1 - line["accuracy"] for line in result["tests"]]
    np.testing.assert_allclose(result["curve"][-1]["errors"], last, atol=1e-4)


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


def test_a_line_that_was_cut_off_is_no_result(tmp_path):
    keys = [Key("benchmark", "mnist", "as-run", "drpu", trial) for trial in (0, 1)]
    write_result(keys[0], {"seconds": 1}, tmp_path)
    path = tmp_path / keys[0].file
    path.write_text(path.read_text() + '{"experiment": "bench')
    assert [result["trial"] for result in read_results(tmp_path)] == [0]
    assert missing(keys, tmp_path) == keys[1:]
    write_result(keys[1], {"seconds": 2}, tmp_path)
    assert [result["seconds"] for result in read_results(tmp_path)] == [1, 2]


def test_a_result_replaces_an_earlier_one(tmp_path):
    keys = [Key("benchmark", "mnist", "ours", "drpu", trial) for trial in (0, 1)]
    for seconds, key in enumerate([*keys, keys[0]]):
        write_result(key, {"seconds": seconds}, tmp_path)
    assert [result["seconds"] for result in read_results(tmp_path)] == [2, 1]
    assert len((tmp_path / keys[0].file).read_text().splitlines()) == 2


def test_settings_are_chosen_by_holdout_risk(tmp_path, monkeypatch):
    from paper import select

    stacks = [("bkl", 1, 1e-3, (1.0,)), ("lsif", 1, 1e-3, (1.0,))]
    monkeypatch.setattr(select, "STACKS", {"mlp": stacks})
    monkeypatch.setattr(select, "ALPHAS", {"mlp": (0.3,)})
    monkeypatch.setattr(select, "TRIALS", {"mlp": 1})
    monkeypatch.setattr(select, "benchmark", lambda *_, **__: small())
    monkeypatch.setattr(select, "load_images", lambda *_: fake_images())
    monkeypatch.setattr(select, "OURS", select.OURS | {"batch_size": 100})
    select.select(["mnist"], Options(out=tmp_path, device="cpu"))
    found = json.loads((tmp_path / "selection.json").read_text())
    assert len(found["mnist"]) == 2
    assert all(np.isfinite(risk) for risk in found["mnist"].values())

    monkeypatch.setattr(select, "fit_many", lambda *_, **__: pytest.fail("there is nothing left to try"))
    select.select(["mnist"], Options(out=tmp_path, device="cpu"))


def test_a_trial_keeps_the_network_with_the_lowest_holdout_risk(tmp_path, monkeypatch):
    monkeypatch.setitem(strategies.STRATEGIES, "a rate and none", Strategy((1e-3, 1e-9)))
    one = job("ours", trials=(0,))
    one = replace(one, recipe=replace(one.recipe, strategy="a rate and none"))
    run_job(one, fake_images(), Options(out=tmp_path, device="cpu", keep_scores=tmp_path))
    (result,) = read_results(tmp_path)
    assert len(result["networks"]) == 2 * len(strategies.ALPHAS)
    assert result["final"]["learning_rate"] == 1e-3
    assert result["final"]["holdout_risk"] == min(one["holdout_risk"] for one in result["networks"])
    with np.load(tmp_path / f"{one.key(0).name}.npz") as kept:
        assert kept["test"].shape == (400,)


@pytest.mark.parametrize("weights", ["ratio", "calibrated"])
@pytest.mark.parametrize("teacher", ["best", "mean"])
def test_students_approach_their_teachers(teacher, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "ALPHAS", (0.2, 0.4))
    monkeypatch.setitem(strategies.STRATEGIES, "taught", Strategy((1e-3,), teacher, weights))
    one = job("ours", trials=(0, 1), epochs=4, learning_rate=1e-3)
    one = replace(one, recipe=replace(one.recipe, strategy="taught"))
    run_job(one, fake_images(), Options(out=tmp_path, device="cpu"))
    for result in read_results(tmp_path):
        assert len(result["networks"]) == 2
        assert result["final"]["alpha"] == 0
        assert [point["epoch"] for point in result["curve"]] == [1, 4]
        assert min(line["auc"] for line in result["tests"]) > 0.9


def test_weights_of_unlabeled_rows_are_the_ratio_of_the_teacher():
    images, data = fake_images(), small()
    part = split(data, images, 0)
    options = recipe("ours", "drpu", data).options | {"batch_size": 100, "epochs": 2, "dtype": "float32"}
    group = strategies.TrialGroup("mlp", images, [part], [0], options | {"device": "cpu"})
    (first,) = group.first((1e-3,))
    (teacher, *_) = first[1e-3]
    rows, labelled = part.unlabeled[0], np.isin(part.unlabeled[0], part.positive[0])
    plain, calibrated = (group.row_weights(0, [teacher], weights) for weights in ("ratio", "calibrated"))
    for weights in (plain, calibrated):
        assert_array_equal(np.flatnonzero(weights), np.sort(rows))  # every unlabeled row, and no other one
    assert_allclose(plain[rows], teacher.ratio(images.train[rows]), rtol=1e-6)
    assert len(np.unique(calibrated[rows[labelled]])) == 1
    assert calibrated[rows[labelled]][0] >= calibrated[rows].max() * (1 - 1e-9)


def test_networks_of_a_trial_start_differently():
    images, data = fake_images(), small()
    options = recipe("ours", "drpu", data).options | {"batch_size": 100, "epochs": 1, "dtype": "float32"}
    group = strategies.TrialGroup("mlp", images, [split(data, images, t) for t in (0, 1)], [0, 1], options)
    models = [model for networks in group.first((1e-3, 2e-3)) for own in networks.values() for model in own]
    assert len({model.random_state for model in models}) == len(models) == 20


def test_strategies_are_judged_by_rows_of_their_own(tmp_path, monkeypatch):
    from paper import compare

    few = {name: strategies.STRATEGIES[name] for name in ("one rate", "student of the mean")}
    monkeypatch.setattr(strategies, "ALPHAS", (0.3,))
    monkeypatch.setattr(compare, "STRATEGIES", few)
    monkeypatch.setattr(compare, "TRIALS", {"mlp": 2})
    monkeypatch.setattr(compare, "benchmark", lambda *_, **__: small())
    monkeypatch.setattr(compare, "load_images", lambda *_: fake_images())
    compare.compare(["mnist"], Options(out=tmp_path, device="cpu", epochs=1))
    found = json.loads((tmp_path / "strategies.json").read_text())
    assert set(found["mnist"]) == set(few)
    assert all(len(risks) == 2 and np.isfinite(risks).all() for risks in found["mnist"].values())
    assert compare.best_strategy(found) in few

    monkeypatch.setattr(compare, "load_images", lambda *_: pytest.fail("there is nothing left to compare"))
    compare.compare(["mnist"], Options(out=tmp_path, device="cpu"))


def test_one_setting_serves_all_data_sets():
    from paper.select import choose

    assert choose({"a": {"x": -2.0, "y": -1.9, "z": -1.0}, "b": {"x": -1.0, "y": -1.9, "w": -2.0}}) == "y"


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


@pytest.mark.parametrize(
    "option", [["--trials", "0"], ["--stack", "two"], ["--first", "-1"], ["--epochs", "0"]]
)
def test_numbers_on_the_command_line_are_checked(option, capsys):
    with pytest.raises(SystemExit):
        main(["run", *option])
    assert f"{option[0]}: must be a whole number of at least" in capsys.readouterr().err


def test_results_say_what_was_run_instead_of_the_recipe(tmp_path):
    run_job(job(trials=(0,)), fake_images(), Options(out=tmp_path, device="cpu", epochs=1))
    (result,) = read_results(tmp_path)
    assert result["settings"]["options"]["epochs"] == 1
    assert result["settings"]["options"]["dtype"] == "float32"  # tf32 is for GPUs


def test_missing_images_end_with_advice(tmp_path):
    (tmp_path / "mnist.npz").write_bytes(b"nothing")
    command = "run --table 2 --dataset mnist --flavour ours --trials 1"
    with pytest.raises(SystemExit, match=r"error: .*mnist\.npz"):
        main([*command.split(), "--data", str(tmp_path), "--out", str(tmp_path / "out")])


SMALLEST = {"hidden": (2,), "epochs": 1, "batch_size": 100, "teachers": 1, "students": 2, "dtype": "float32"}


def bytes_of(images: Images) -> Images:
    train, test = ((rows * 255).astype(np.uint8) for rows in (images.train, images.test))
    return Images(train, images.train_classes, test, images.test_classes)


def augmented(flavour, experiment="benchmark", n_positive=None):
    made = recipe(flavour, "drpu", small())
    hidden = {"hidden": (2,)} if "network" in made.options else {}
    options = made.options | SMALLEST | {"students": 1, "average_views": False} | {"hidden": None} | hidden
    return Job(experiment, small(), replace(made, options=options), (0,), n_positive)


@pytest.mark.parametrize("flavour", ["ours-augmented", "beyond"])
def test_augmented_flavours_give_the_same_kind_of_result(flavour, tmp_path):
    options = Options(out=tmp_path, device="cpu", shared=True)
    run_job(augmented(flavour), bytes_of(fake_images()), options)
    (result,) = read_results(tmp_path)
    assert measured_seconds([result], flavour) == {}  # it shared the device
    assert set(result) >= KEYS
    assert result["flavour"] == flavour
    assert result["settings"]["strategy"] in CANDIDATES[flavour]["mnist"]
    assert [line["test_prior"] for line in result["tests"]] == list(TEST_PRIORS)


def test_few_labels_without_shift_are_tested_on_all_images(tmp_path):
    images = bytes_of(fake_images())
    made = augmented("beyond", "no_shift", 50)
    part = made.split(images, 0)
    assert [len(rows) for rows in part.positive] == [40, 10]
    assert len(part.tests[made.data.prior]) == len(images.test)
    run_job(made, images, Options(out=tmp_path, device="cpu"))
    (result,) = read_results(tmp_path)
    assert result["n_positive"] == 50
    assert all(0 <= line["accuracy_as_trained"] <= 1 for line in result["tests"])


@pytest.mark.parametrize("experiment", ["benchmark", "no_shift"])
def test_candidates_are_chosen_by_rows_that_they_have_not_seen(experiment, tmp_path, monkeypatch):
    from paper import augmented

    few = {"network": "resnet9", "alpha": 0.3} | SMALLEST
    named = {"a": few | {"learning_rate": 1e-9}, "b": few}
    candidates = {"beyond": {"mnist": named, "mnist-few": named}}
    monkeypatch.setattr(configs, "CANDIDATES", candidates)
    monkeypatch.setattr(augmented, "CANDIDATES", candidates)
    monkeypatch.setattr(augmented, "benchmark", lambda *_, **__: small())
    monkeypatch.setattr(augmented, "load_images", lambda *_, **__: bytes_of(fake_images()))
    options = Options(out=tmp_path, device="cpu")
    monkeypatch.setattr(augmented, "FEW", 50)
    augmented.compare_candidates(["beyond"], ["mnist"], 1, options, experiment)
    case = configs.case_of(experiment, "mnist")
    risks = json.loads((tmp_path / augmented.CHOICE).read_text())["beyond"][case]
    best = augmented.choose_candidate(risks)
    assert risks[best] == min(risks.values())
    assert augmented.chosen_recipe("beyond", small(), tmp_path, experiment).strategy == best

    monkeypatch.setattr(augmented, "load_images", lambda *_, **__: pytest.fail("nothing is left to compare"))
    augmented.compare_candidates(["beyond"], ["mnist"], 1, options, experiment)
