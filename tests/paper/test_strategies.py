"""Our own flavours of the experiments: strategies, augmented images, and how candidates are chosen."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tiny_images import KEYS, fake_images, job, small

from drpu import ScoreTails
from drpu.beliefs.methods import prior_from_tails
from drpu.exceptions import DataError
from paper import configs, strategies
from paper.configs import CANDIDATES, TEST_PRIORS, recipe
from paper.evaluate import by_ratio
from paper.run import Job, Options, run_job
from paper.splits import Images, in_folds, split
from paper.store import RESULTS, read_results
from paper.strategies import Strategy
from paper.timing import measured_seconds


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
    monkeypatch.setattr(strategies, "ALPHAS", (0.2, 0.4))
    monkeypatch.setitem(strategies.STRATEGIES, "a rate and none", Strategy((1e-3, 1e-9)))
    one = job("ours", trials=(0,))
    one = replace(one, recipe=replace(one.recipe, strategy="a rate and none"))
    run_job(one, fake_images(), Options(out=tmp_path, device="cpu"))
    (result,) = read_results(tmp_path)
    assert len(result["networks"]) == 2 * 2
    assert result["final"]["learning_rate"] == 1e-3
    assert result["final"]["holdout_risk"] == min(one["holdout_risk"] for one in result["networks"])


@pytest.mark.parametrize(("teacher", "weights"), [("best", "ratio"), ("mean", "calibrated")])
def test_students_approach_their_teachers(teacher, weights, tmp_path, monkeypatch):
    monkeypatch.setattr(strategies, "ALPHAS", (0.2, 0.4))
    monkeypatch.setitem(strategies.STRATEGIES, "taught", Strategy((1e-3,), teacher, weights))
    one = job("ours", trials=(0,), epochs=4, learning_rate=1e-3)
    one = replace(one, recipe=replace(one.recipe, strategy="taught"))
    run_job(one, fake_images(), Options(out=tmp_path, device="cpu"))
    for result in read_results(tmp_path):
        assert len(result["networks"]) == 2
        assert result["final"]["alpha"] == 0
        assert [point["epoch"] for point in result["curve"]] == [1, 4]
        assert min(line["auc"] for line in result["tests"]) > 0.9


def test_one_setting_serves_all_data_sets():
    from paper.select import choose

    assert choose({"a": {"x": -2.0, "y": -1.9, "z": -1.0}, "b": {"x": -1.0, "y": -1.9, "w": -2.0}}) == "y"


SMALLEST = {
    "hidden": (2,), "epochs": 1, "batch_size": 100, "teachers": 1, "students": 2, "refresh": 0,
    "dtype": "float32",
}  # fmt: skip


def byte_images(side: int = 16) -> Images:
    """Images as they are stored. They are small, because convolutions take the time of these tests."""
    images = fake_images(shape=(1, side, side))
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
    run_job(augmented(flavour), byte_images(28 if flavour == "ours-augmented" else 16), options)
    (result,) = read_results(tmp_path)
    assert measured_seconds([result], flavour) == {}  # it shared the device
    assert set(result) >= KEYS
    assert result["flavour"] == flavour
    assert result["settings"]["strategy"] in CANDIDATES[flavour]["mnist"]
    assert [line["test_prior"] for line in result["tests"]] == list(TEST_PRIORS)


def test_every_row_is_held_out_in_one_fold():
    data, images = small(), fake_images()
    part = split(data, images, 0)
    assert in_folds(part, 1, 0) == [part]
    folds = in_folds(part, 3, 0)
    for name in ("positive", "unlabeled"):
        rows = np.sort(np.concatenate(getattr(part, name)))
        pairs = [getattr(fold, name) for fold in folds]
        assert_array_equal(np.sort(np.concatenate([held for _, held in pairs])), rows)
        for pair in pairs:
            assert_array_equal(np.sort(np.concatenate(pair)), rows)
    for fold in folds:  # a labelled row is never trained on as an unlabeled one where it is held out
        assert np.isin(fold.positive[1], fold.unlabeled[1]).all()
        assert np.isin(fold.positive[0], fold.unlabeled[0]).all()


def test_every_held_out_row_is_scored_by_the_network_of_its_fold():
    from paper.augmented import fit

    images, made = byte_images(), augmented("beyond")
    folds = replace(made.recipe, options=made.recipe.options | {"folds": 3})
    model = fit(made.data, folds, images, made.split(images, 0), 0, Options(device="cpu"))
    assert len(model.functions) == 3
    assert [scores.shape for scores in model.held(images)] == [(80,), (700,)]
    assert model.scores(images.test).shape == (400, 3)


def test_all_folds_start_from_one_network_trained_without_labels(tmp_path, monkeypatch):
    from paper import augmented as module

    seen, starts, learner_of = [], [], module._learner

    def pretrained(network, rows, settings):
        seen.append((len(rows), settings.epochs))
        return network

    def learner(data, settings, unlabeled, start):
        starts.append(start)
        assert "pretrain" not in settings
        return learner_of(data, settings, unlabeled, start)

    monkeypatch.setattr(module, "pretrained", pretrained)
    monkeypatch.setattr(module, "_learner", learner)
    made = augmented("beyond")
    options = made.recipe.options | {"folds": 3, "pretrain": 7}
    made = replace(made, recipe=replace(made.recipe, options=options))
    run_job(made, byte_images(), Options(out=tmp_path, device="cpu"))
    assert seen == [(700, 7)]  # all unlabeled rows of the trial
    assert len(starts) == 3
    assert all(start is starts[0] is not None for start in starts)
    (result,) = read_results(tmp_path)
    assert result["settings"]["options"]["pretrain"] == 7


def test_few_labels_without_shift_are_tested_on_all_images(tmp_path):
    images = byte_images()
    made = augmented("beyond", "no_shift", 50)
    part = made.split(images, 0)
    assert [len(rows) for rows in part.positive] == [40, 10]
    assert len(part.tests[made.data.prior]) == len(images.test)
    run_job(made, images, Options(out=tmp_path, device="cpu"))
    (result,) = read_results(tmp_path)
    assert result["n_positive"] == 50
    assert all(0 <= line["accuracy_as_trained"] <= 1 for line in result["tests"])


@pytest.mark.parametrize("experiment", ["benchmark", pytest.param("no_shift", marks=pytest.mark.slow)])
def test_candidates_are_chosen_by_rows_that_they_have_not_seen(experiment, tmp_path, monkeypatch):
    from paper import augmented

    few = {"network": "resnet9", "alpha": 0.3} | SMALLEST
    named = {"a": few | {"learning_rate": 1e-9}, "b": few}
    candidates = {"beyond": {"mnist": named, "mnist-few": named}}
    monkeypatch.setattr(configs, "CANDIDATES", candidates)
    monkeypatch.setattr(augmented, "CANDIDATES", candidates)
    monkeypatch.setattr(augmented, "benchmark", lambda *_, **__: small())
    monkeypatch.setattr(augmented, "load_images", lambda *_, **__: byte_images())
    options = Options(out=tmp_path, device="cpu")
    monkeypatch.setattr(augmented, "FEW", 50)
    augmented.compare_candidates(["beyond"], ["mnist"], [augmented.FIRST], options, experiment)
    case = configs.case_of(experiment, "mnist")
    tried = augmented.read_choices(tmp_path)["beyond", case]
    best = augmented.choose_candidate(tried)
    assert augmented.mean_risk(tried[best]) == min(map(augmented.mean_risk, tried.values()))
    assert all(np.isfinite(line[augmented.WITH_LABELS]) for own in tried.values() for line in own)
    assert augmented.chosen_recipe("beyond", small(), tmp_path, experiment).strategy == best

    monkeypatch.setattr(augmented, "load_images", lambda *_, **__: pytest.fail("nothing is left to compare"))
    augmented.compare_candidates(["beyond"], ["mnist"], [augmented.FIRST], options, experiment)


def test_a_run_without_a_choice_stops_and_names_the_command(tmp_path, monkeypatch):
    from paper import augmented
    from paper.run import plan

    monkeypatch.setattr(augmented, "RESULTS", tmp_path)
    with pytest.raises(DataError, match="python -m paper choose --flavour beyond --dataset mnist"):
        plan(["benchmark"], ["mnist"], ["beyond"], ["drpu"], [0], Options(out=tmp_path))


def test_the_risk_without_labels_chooses_among_candidates_with_all_trials():
    from paper.augmented import choose_candidate

    def line(risk, with_labels):
        return {"risk": risk, "risk_with_labels": with_labels}

    tried = {"a": [line(-1, -3), line(-1, -3)], "b": [line(-2, -1), line(-1, -1)], "c": [line(-9, -9)]}
    assert choose_candidate(tried) == "b"
    assert choose_candidate({"a": [line(None, -3)], "b": [line(None, -1)]}) == "a"
    folds = {"d": [line(-0.5, -1) | {"options": {"folds": 3}}]}
    assert choose_candidate(tried | folds) == "d"  # its risk is that of models trained on fewer rows
    more = {
        "e": [line(-0.6, -1) | {"options": {"folds": 2}}],
        "f": [line(-0.4, -1) | {"options": {"folds": 5}}],
    }
    assert choose_candidate(tried | folds | more) == "e"  # among folds the risk decides, not their number


def test_test_priors_are_those_of_adapt():
    rng = np.random.default_rng(0)
    held = rng.normal(4, 1, 200), np.where(rng.random(2000) < 0.4, 4, 0) + rng.normal(0, 1, 2000)
    truth = rng.random(1500) < 0.2
    scores = np.where(truth, 4, 0) + rng.normal(0, 1, 1500)
    found = by_ratio(held, {0.2: (scores, truth)}, best=True)
    tails = ScoreTails(held[0]).update(held[1])
    prior = prior_from_tails(
        tails.empty().update(scores), reference=tails, train_prior=prior_from_tails(tails)
    )
    assert found.tests[0]["estimated_prior"] == prior.value
    assert prior.method == "learned"


@pytest.mark.checkout
def test_the_published_choices_are_those_of_the_tables():
    from paper.augmented import choose_candidate, read_choices

    used = {}
    for r in read_results(RESULTS):
        if r["flavour"] in configs.AUGMENTED:
            case = configs.case_of(r["experiment"], r["dataset"])
            used.setdefault((r["flavour"], case), set()).add(r["settings"]["strategy"])
    assert used == {key: {choose_candidate(tried)} for key, tried in read_choices(RESULTS).items()}
