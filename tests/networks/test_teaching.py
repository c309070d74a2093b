"""Laws of networks with teachers."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from drpu import NetworkRatio, ScoreTails, make_gaussian_pu
from drpu._samples import Sample, SamplePair
from drpu.exceptions import FewPositivesWarning, ParameterError
from drpu.models.crossfit import hold_out
from drpu.networks import teaching
from drpu.networks.teaching import mean_log_ratio, student_weights, teaching_weights

DATA = make_gaussian_pu(
    200, 1000, prior=0.4, test_prior=0.4, n_test=1000, separation=2.5, dimensions=20, random_state=0
)
SMALL = {"hidden": (16,), "epochs": 5, "learning_rate": 1e-2, "device": "cpu"}


def taught(teachers=3, **options):
    return NetworkRatio(teachers=teachers, random_state=0, **(SMALL | options))


def scored(model, split):
    parts = split.train.unlabeled, split.held.positive, split.held.unlabeled
    return [model.log_ratio(part.rows) for part in parts]


@pytest.fixture
def fits(monkeypatch):
    """The sample and the networks of each training."""
    seen = []
    real = teaching.fit_networks

    def fit_networks(options, sample, held, networks, **how):
        seen.append((sample, networks))
        return real(options, sample, held, networks, **how)

    monkeypatch.setattr(teaching, "fit_networks", fit_networks)
    return seen


@pytest.fixture
def weightings(monkeypatch):
    """The scores of teachers that were turned into weights, and the weights."""
    seen = []
    real = teaching.student_weights

    def weights_of(split, *scores):
        weights = real(split, *scores)
        seen.append((scores[0], weights[1]))
        return weights

    monkeypatch.setattr(teaching, "student_weights", weights_of)
    return seen


@pytest.fixture(scope="module")
def student():
    return taught().fit_ratio(DATA.positive, DATA.unlabeled)


def test_a_student_is_one_network_without_a_correction(student):
    assert (student.alpha, student.members) == (0, 1)
    assert len(student.history["risk"]) >= 5
    assert np.isfinite(student.log_ratio(DATA.test)).all()


def test_students_rank_better_than_a_network_alone():
    """A few positives in twenty dimensions are overfitted; teachers help with each of three seeds."""
    gains = []
    for seed in range(3):
        scores = [
            NetworkRatio(teachers=n, random_state=seed, **SMALL)
            .fit_ratio(DATA.positive[:100], DATA.unlabeled)
            .log_ratio(DATA.test)
            for n in (0, 5)
        ]
        alone, taught_one = (roc_auc_score(DATA.test_labels, s) for s in scores)
        gains.append(taught_one - alone)
    assert min(gains) > 0


def test_equal_seeds_give_equal_students(student):
    again = taught().fit_ratio(DATA.positive, DATA.unlabeled)
    other = taught().set_params(random_state=1).fit_ratio(DATA.positive, DATA.unlabeled)
    assert_allclose(again.log_ratio(DATA.test), student.log_ratio(DATA.test), rtol=1e-6)
    assert not np.allclose(other.log_ratio(DATA.test), student.log_ratio(DATA.test))


def test_weights_are_calibrated_ratios_with_labelled_rows_at_the_ceiling():
    split = hold_out(
        SamplePair(Sample(DATA.positive), Sample(DATA.unlabeled)), None, 0.2, np.random.default_rng(0)
    )
    teacher = NetworkRatio(alpha=0.3, random_state=0, **SMALL).fit_ratio(DATA.positive, DATA.unlabeled)
    labelled, unlabeled = student_weights(split, *scored(teacher, split))
    assert len(labelled) == len(split.train.positive)
    assert len(np.unique(labelled)) == 1
    assert labelled[0] >= unlabeled.max()
    assert (unlabeled > 0).all()
    assert unlabeled.mean() == pytest.approx(1, abs=0.15)  # the mean ratio of unlabeled rows is 1
    order = np.argsort(teacher.log_ratio(split.train.unlabeled.rows))
    assert (np.diff(unlabeled[order]) >= -1e-12).all()


def test_too_few_held_out_positives_calibrate_nothing():
    split = hold_out(
        SamplePair(Sample(DATA.positive[:50]), Sample(DATA.unlabeled)), None, 0.2, np.random.default_rng(0)
    )
    teacher = NetworkRatio(alpha=0.3, random_state=0, **SMALL).fit_ratio(DATA.positive, DATA.unlabeled)
    _, unlabeled = student_weights(split, *scored(teacher, split))
    assert_allclose(unlabeled, teacher.ratio(split.train.unlabeled.rows), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "alphas"),
    [
        ({"teachers": 6}, [0.3, 0.45, 0.15, 0.6, 0.05, 0.3, 0.0]),
        ({"teachers": 2, "alpha": 0.2}, [0.2, 0.2, 0.0]),
    ],
)
def test_teachers_share_what_the_model_says_of_alpha(options, alphas, fits):
    taught(epochs=1, **options).fit_ratio(DATA.positive, DATA.unlabeled)
    assert [network.alpha for _, networks in fits for network in networks] == alphas


def test_teachers_that_are_trained_together_are_those_trained_alone(monkeypatch):
    """Their batches depend on their own seeds. The first is trained alone, and two after it."""
    real = teaching.fit_networks

    def compared(options, sample, held, networks, **how):
        together = real(options, sample, held, networks, **how)
        for network, one in zip(networks, together, strict=True):
            (alone,) = real(options, sample, held, [network], **how)
            scores = one.log_ratio(DATA.test)
            assert_allclose(scores, alone.log_ratio(DATA.test), rtol=1e-8, atol=1e-10)
        return together

    monkeypatch.setattr(teaching, "fit_networks", compared)
    taught(3, epochs=2, dtype="float64").fit_ratio(DATA.positive, DATA.unlabeled)


def test_rows_held_out_by_the_user_and_weights_are_used():
    held = DATA.positive[:50], DATA.unlabeled[:200]
    weight = np.where(np.arange(800) < 400, 2.0, 1.0)
    plain, weighted = (
        taught(2, epochs=2).fit_ratio(
            DATA.positive[50:], DATA.unlabeled[200:], holdout=held, unlabeled_weight=each
        )
        for each in (None, weight)
    )
    assert not np.allclose(plain.log_ratio(DATA.test), weighted.log_ratio(DATA.test))
    other = taught(2, epochs=2).fit_ratio(DATA.positive[50:], DATA.unlabeled[200:])
    assert not np.allclose(plain.log_ratio(DATA.test), other.log_ratio(DATA.test))


def test_the_students_of_a_round_teach_the_next_and_the_last_ones_score(weightings):
    student = taught(2, rounds=3, students=2, epochs=2).fit_ratio(DATA.positive, DATA.unlabeled)
    first, second, _ = (scores for scores, _ in weightings)
    assert not np.allclose(first, second)
    assert student.members == 2
    outputs = [_member(student, i).log_ratio(DATA.test) for i in range(2)]
    together = student.log_ratio(DATA.test)
    assert (together >= np.min(outputs, axis=0) - 1e-9).all()
    assert (together <= np.max(outputs, axis=0) + 1e-9).all()


def _member(function, i):
    start = f"members.{i}."
    own = {k.removeprefix(start): v for k, v in function.weights.items() if k.startswith(start)}
    return replace(function, members=1, weights=own)


def test_three_students_of_few_positives_share_their_holdout_rows():
    """Each student would hold out another number of rows, and they could not be trained together."""
    student = taught(2, students=3, epochs=1).fit_ratio(DATA.positive[:20], DATA.unlabeled[:300])
    assert student.members == 3


def test_refresh_weights_the_rows_by_the_students_in_training(weightings):
    """The weights change after the given epochs, and not after the last one."""
    fitted = taught(2, students=2, refresh=2, epochs=6).fit_ratio(DATA.positive, DATA.unlabeled)
    assert fitted.members == 2
    by_teachers, after_two, after_four = (weights for _, weights in weightings)
    for weights in (by_teachers, after_two, after_four):
        assert np.mean(weights) == pytest.approx(1, abs=0.2)
    assert not np.allclose(by_teachers, after_two)


def test_refreshed_weights_reach_the_next_steps():
    plain, refreshed = (
        taught(2, refresh=n, epochs=6, early_stopping=False).fit_ratio(DATA.positive, DATA.unlabeled)
        for n in (0, 2)
    )
    risks = [model.history["risk"] for model in (plain, refreshed)]
    assert_allclose(risks[0][:2], risks[1][:2], rtol=1e-6)
    assert not np.allclose(risks[0][2:], risks[1][2:], rtol=1e-6)


@pytest.mark.parametrize("options", [{"teachers": 0}, {}, {"refresh": 1}, {"refresh": 1, "mixup": True}])
def test_rows_of_weight_zero_are_left_out(options):
    """Half of the rows, so that the other weights are exactly those of a fit without these rows."""
    learner = taught(**{"teachers": 2, "epochs": 3, "batch_size": 100} | options)
    samples = DATA.positive, DATA.unlabeled
    weights = [np.arange(len(sample)) % 2.0 for sample in samples]
    whole = learner.fit_ratio(*samples, positive_weight=weights[0], unlabeled_weight=weights[1])
    samples, weights = ([values[1::2] for values in each] for each in (samples, weights))
    part = learner.fit_ratio(*samples, positive_weight=weights[0], unlabeled_weight=weights[1])
    assert_allclose(whole.log_ratio(DATA.test), part.log_ratio(DATA.test), rtol=1e-6)


def test_positives_without_weight_are_not_counted():
    weight = np.r_[np.ones(6), np.zeros(len(DATA.positive) - 6)]
    with pytest.warns(FewPositivesWarning, match="6 positives are too few to hold some out"):
        taught(1, refresh=1, epochs=3).fit_ratio(DATA.positive, DATA.unlabeled, positive_weight=weight)


def test_networks_before_the_last_round_train_for_fewer_epochs_with_refresh(monkeypatch):
    seen = []
    real = teaching.fit_networks

    def spy(options, sample, held, networks, **how):
        seen.append(options.epochs)
        return real(replace(options, epochs=1), sample, held, networks, **how)

    monkeypatch.setattr(teaching, "fit_networks", spy)
    monkeypatch.setattr(teaching, "TEACHING_STEPS", 100)
    for refresh, epochs in ((0, [40, 40, 40]), (4, [20, 20, 40])):
        seen.clear()
        taught(1, epochs=40, rounds=2, refresh=refresh).fit_ratio(DATA.positive, DATA.unlabeled)
        assert seen == epochs


def test_a_refresh_that_cannot_happen_is_told():
    with pytest.raises(ParameterError, match="refresh must be below the number of epochs, 3, got 3"):
        taught(1, refresh=3, epochs=3).fit_ratio(DATA.positive, DATA.unlabeled)
    # 8 steps an epoch: the automatic number of epochs is more than 20, so that there are 300 steps
    with pytest.raises(ParameterError, match="number of epochs, 38, got 38"):
        taught(1, refresh=38, epochs="auto", batch_size=120).fit_ratio(DATA.positive, DATA.unlabeled)
    with pytest.warns(FewPositivesWarning, match="6 positives are too few to hold some out"):
        taught(1, refresh=1, epochs=3).fit_ratio(DATA.positive[:6], DATA.unlabeled)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
def test_labelled_rows_have_at_least_their_share_of_the_positive_sample(share, fits):
    taught(1, epochs=1, labelled_share=share).fit_ratio(DATA.positive, DATA.unlabeled)
    sample, _ = fits[-1]  # of the student; labelled rows are not in its unlabeled sample
    weight, labelled = sample.positive.weight, sample.unlabeled.weight == 0
    found = weight[labelled].sum() / weight.sum()
    # 160 rows with the largest weight, about 1 / 0.4, and 800 rows with a mean weight of about 1
    assert found == pytest.approx(max(share, 1 / 3), abs=1e-12 if share == 0.5 else 0.1)
    assert found >= share - 1e-12


# -- weighted unlabeled rows in place of positives --------------------------------------------------


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
