"""Laws of networks with teachers, of shared rows, and of averaged views."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score
from torch import nn

from drpu import NetworkRatio, ScoreTails, make_gaussian_pu
from drpu.networks.fit import Network
from drpu.networks.loop import TrainingBatch
from drpu.networks.options import check_options
from paper import teaching
from paper.teaching import (
    Students,
    Taught,
    Teaching,
    WeightedRows,
    fit_taught,
    fixed_views,
    mean_log_ratio,
    mixed,
    student_weights,
    teaching_weights,
)

DATA = make_gaussian_pu(
    200, 1000, prior=0.4, test_prior=0.4, n_test=1000, separation=2.5, dimensions=20, random_state=0
)
TRAIN = DATA.positive[40:], DATA.unlabeled[200:]
HELD = DATA.positive[:40], DATA.unlabeled[:200]
SMALL = {"hidden": (16,), "epochs": 5, "learning_rate": 1e-2, "device": "cpu", "dtype": "float64"}


def taught(teachers=3, seed=0, learner=None, train=TRAIN, **how):
    learner = NetworkRatio(**SMALL | (learner or {}), random_state=seed)
    return fit_taught(learner, Teaching(teachers=teachers, **how), train, HELD)


@pytest.fixture
def weightings(monkeypatch):
    """The scores of teachers that were turned into weights, and the weights."""
    seen = []

    def weights_of(*scores):
        weights = student_weights(*scores)
        seen.append((scores[0], weights[0]))
        return weights

    monkeypatch.setattr(teaching, "student_weights", weights_of)
    return seen


@pytest.fixture
def trainings(monkeypatch):
    """The rows, options and networks of each training of students."""
    seen = []
    real = Students.fit

    def fit(students):
        seen.append(students)
        return real(students)

    monkeypatch.setattr(Students, "fit", fit)
    return seen


def test_a_student_is_one_network_without_a_correction():
    student = taught()
    assert (student.alpha, len(student.networks)) == (0, 1)
    assert np.isfinite(student.fast_score(DATA.test)).all()


def test_students_rank_better_than_a_network_alone():
    """A few positives in twenty dimensions are overfitted; teachers help with each of three seeds."""
    train = TRAIN[0][:80], TRAIN[1]
    gains = []
    for seed in range(3):
        alone = NetworkRatio(**SMALL, random_state=seed).fit_ratio(*train, holdout=HELD).log_ratio(DATA.test)
        scores = taught(5, seed, train=train).fast_score(DATA.test)
        gains.append(roc_auc_score(DATA.test_labels, scores) - roc_auc_score(DATA.test_labels, alone))
    assert min(gains) > 0


def test_equal_seeds_give_equal_students():
    first, again, other = (taught(2, seed).fast_score(DATA.test) for seed in (0, 0, 1))
    assert_allclose(first, again, rtol=1e-9)
    assert not np.allclose(first, other)


@pytest.mark.parametrize(
    ("n", "learner", "alphas"),
    [(6, {}, [0.3, 0.45, 0.15, 0.6, 0.05, 0.3]), (2, {"alpha": 0.2}, [0.2, 0.2])],
)
def test_teachers_share_what_the_learner_says_of_alpha(n, learner, alphas, monkeypatch):
    seen = []
    real = NetworkRatio.fit_ratio

    def fit_ratio(learner, *samples, **options):
        seen.append(learner.alpha)
        return real(learner, *samples, **options)

    monkeypatch.setattr(NetworkRatio, "fit_ratio", fit_ratio)
    taught(n, learner=learner | {"epochs": 1})
    assert seen == alphas


def test_the_students_of_a_round_teach_the_next_and_the_last_ones_score(weightings):
    student = taught(2, rounds=3, students=2, learner={"epochs": 2})
    first, second, _ = (scores for scores, _ in weightings)
    assert not np.allclose(first, second)
    outputs = [network.log_ratio(DATA.test) for network in student.networks]
    together = student.fast_score(DATA.test)
    assert len(outputs) == 2
    assert (together >= np.min(outputs, axis=0) - 1e-9).all()
    assert (together <= np.max(outputs, axis=0) + 1e-9).all()


def test_refresh_weights_the_rows_by_the_students_in_training(weightings):
    """The weights change after the given epochs, and not after the last one."""
    assert len(taught(2, students=2, refresh=2, learner={"epochs": 6}).networks) == 2
    by_teachers, after_two, after_four = (weights for _, weights in weightings)
    for weights in (by_teachers, after_two, after_four):
        assert np.mean(weights) == pytest.approx(1, abs=0.2)
    assert not np.allclose(by_teachers, after_two)


def test_refreshed_weights_reach_the_next_steps():
    plain, refreshed = (
        taught(2, refresh=n, learner={"epochs": 6, "early_stopping": False}).networks[0] for n in (0, 2)
    )
    assert_allclose(plain.history["risk"][:2], refreshed.history["risk"][:2], rtol=1e-6)
    assert not np.allclose(plain.history["risk"][2:], refreshed.history["risk"][2:], rtol=1e-6)


def test_networks_before_the_last_round_train_for_fewer_epochs_with_refresh(trainings, monkeypatch):
    monkeypatch.setattr(teaching, "TEACHING_STEPS", 10)
    monkeypatch.setattr(teaching, "TEACHING_EPOCHS", 2)
    taught(1, rounds=2, refresh=1, learner={"epochs": 4})
    assert [students.options.epochs for students in trainings] == [2, 4]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_labelled_rows_have_at_least_their_share_of_the_positive_sample(share, trainings):
    taught(1, labelled_share=share, learner={"epochs": 1})
    rows = trainings[-1].rows
    labelled = rows.unlabeled_weight == 0
    found = rows.positive_weight[labelled].sum() / rows.positive_weight.sum()
    # 160 rows with the largest weight, about 1 / 0.4, and 800 rows with a mean weight of about 1
    assert found == pytest.approx(max(share, 1 / 3), abs=1e-12 if share == 0.5 else 0.1)
    assert found >= share - 1e-12


# -- rows that belong to both samples --------------------------------------------------------------


def test_shared_rows_fit_what_pairs_of_batches_fit():
    """With one batch an epoch the two are the same risk, up to the statistics of batch norm."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    weight = rng.random(80)
    held = rows[:10], rows[10:30]
    learner = NetworkRatio(
        lambda: nn.Linear(3, 1), alpha=0.0, epochs=5, batch_size=80, dtype="float64", random_state=0
    )
    pair = learner.fit_ratio(rows, rows, positive_weight=weight, holdout=held)
    options = check_options(learner, (3,), 80)
    rounds = teaching._Rounds(learner, Teaching(), (rows[:1], rows[1:]), held)
    shared = WeightedRows(rows, weight, np.ones(80), held)
    (once,) = Students(options, shared, [Network(options.seed, 0.0)], rounds).fit()
    assert_allclose(pair.log_ratio(rows), once.log_ratio(rows), rtol=1e-9)


def test_mixed_rows_are_averages_with_averaged_weights():
    rows, positive, unlabeled = torch.rand(1, 9, 2, 2), torch.rand(1, 9), torch.ones(1, 9)
    batch = mixed(TrainingBatch(rows, rows, positive, unlabeled))
    assert batch.positive is batch.unlabeled
    assert_allclose(batch.unlabeled_weight, 1, rtol=1e-6)
    share = (batch.positive_weight - positive.roll(1, 1)) / (positive - positive.roll(1, 1))
    assert ((share > -1e-5) & (share < 1 + 1e-5)).all()
    wide = share[..., None, None]
    assert_allclose(batch.unlabeled, wide * rows + (1 - wide) * rows.roll(1, 1), atol=1e-5)


# -- views -----------------------------------------------------------------------------------------


def test_scores_are_averaged_over_views():
    rng = np.random.default_rng(0)
    positive, unlabeled, test = (rng.random((n, 16, 16)) for n in (40, 100, 20))
    learner = NetworkRatio(hidden=(2,), epochs=2, alpha=0.3, device="cpu", random_state=0)
    function = replace(learner.fit_ratio(positive, unlabeled), dtype="float64")
    views = fixed_views("shift-flip")
    assert len(views) == 10
    averaged = Taught([function], views).fast_score(test)
    outputs = [function.log_ratio(view(torch.as_tensor(test)).numpy()) for view in views]
    assert (averaged > np.min(outputs, axis=0) - 1e-9).all()
    assert (averaged < np.max(outputs, axis=0) + 1e-9).all()
    assert not np.allclose(averaged, outputs[0])
    mirrored = Taught([function], views).fast_score(np.ascontiguousarray(test[:, :, ::-1]))
    assert_allclose(mirrored, averaged, rtol=1e-9)


# -- weighted unlabeled rows in place of positives -------------------------------------------------


def test_weights_are_calibrated_ratios_with_labelled_rows_at_the_ceiling():
    teacher = NetworkRatio(**SMALL, alpha=0.3, random_state=0).fit_ratio(*TRAIN, holdout=HELD)
    unlabeled, labelled = student_weights(*(teacher.log_ratio(rows) for rows in (TRAIN[1], *HELD)))
    assert labelled >= unlabeled.max()
    assert (unlabeled > 0).all()
    assert unlabeled.mean() == pytest.approx(1, abs=0.15)  # the mean ratio of unlabeled rows is 1
    order = np.argsort(teacher.log_ratio(TRAIN[1]))
    assert (np.diff(unlabeled[order]) >= -1e-12).all()


def test_too_few_held_out_positives_calibrate_nothing():
    teacher = NetworkRatio(**SMALL, alpha=0.3, random_state=0).fit_ratio(*TRAIN, holdout=HELD)
    scores = [teacher.log_ratio(rows) for rows in (TRAIN[1], HELD[0][:20], HELD[1])]
    assert_allclose(student_weights(*scores)[0], teacher.ratio(TRAIN[1]), rtol=1e-6)


def test_weighted_unlabeled_rows_have_the_means_of_positives():
    """E_U[r f] = E_+[f], exactly, on five points."""
    positive, negative = np.array([0.4, 0.3, 0.2, 0.1, 0.0]), np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    mixture = 0.3 * positive + 0.7 * negative
    with np.errstate(divide="ignore"):
        weights, ceiling = teaching_weights(np.log(positive / mixture))
    for f in np.random.default_rng(0).normal(size=(5, 5)):
        assert mixture @ (weights * f) == pytest.approx(positive @ f, abs=1e-5)
    assert ceiling == pytest.approx(1 / 0.3)


def test_calibrated_weights_repair_the_scale_of_scores():
    """Scores that only rank become ratios: means of positives are recovered."""
    rng = np.random.default_rng(0)

    def draw(n, prior):
        return rng.normal(0, 1, n) + 3 * (rng.random(n) < prior)

    held, unlabeled = draw(4000, 1.0), draw(20_000, 0.4)
    tails = ScoreTails(5 * held + 1).update(5 * draw(20_000, 0.4) + 1)
    weights, ceiling = teaching_weights(5 * unlabeled + 1, tails)
    assert ceiling == pytest.approx(1 / 0.4, rel=0.05)
    assert 0 < weights.min() <= weights.max() <= ceiling
    assert (np.diff(weights[np.argsort(unlabeled)]) >= -1e-12).all()
    assert np.average(unlabeled, weights=weights) == pytest.approx(3, abs=0.1)
    assert np.average(unlabeled**2, weights=weights) == pytest.approx(10, abs=0.5)


def test_mean_ratios_are_means_of_ratios():
    assert_allclose(mean_log_ratio([np.log([1.0, 2.0]), np.log([3.0, 4.0])]), np.log([2.0, 3.0]))
