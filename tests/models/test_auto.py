"""The default: an average of three models, whose weights follow held-out evidence if there is enough."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from codec_laws import round_trip
from drpu import make_gaussian_pu
from drpu._codec import decode, encode
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ArtifactError
from drpu.models import BoostedFunction, auto, fourier
from drpu.models.auto import HeldOutScores, stack
from drpu.models.crossfit import cross_fit
from learners import AutoRatio, FourierRatio, LinearRatio


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(150, 500, prior=0.4, separation=3, dimensions=4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)


def kinds(model):
    return [type(member).__name__ for member in model.members]


def with_gaps(X, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)


# -- what it is ----------------------------------------------------------------------------


def test_forests_and_two_other_kinds_of_models_are_averaged(data, model):
    assert kinds(model) == ["ForestFunction", "ForestFunction", "BoostedFunction", "FourierFunction"]
    single = np.array([member.log_ratio(data.unlabeled) for member in model.members])
    mean = model.log_ratio(data.unlabeled)
    assert ((single.min(axis=0) - 1e-9 <= mean) & (mean <= single.max(axis=0) + 1e-9)).all()
    # Some fixed weights, positive and summing to 1, give every row its score.
    weights = np.linalg.lstsq(single.T, mean, rcond=None)[0]
    assert_allclose(weights @ single, mean, atol=1e-9)
    assert_allclose(weights.sum(), 1)
    assert (weights > 0.1).all()


@pytest.mark.parametrize("n", [1, 2, 9, 10])
def test_below_ten_positives_the_smooth_fit_answers_alone(data, n):
    model = AutoRatio(random_state=0).fit_ratio(data.positive[:n], data.unlabeled)
    assert len(model.members) == (1 if n < 10 else 4)
    assert kinds(model)[-1] == "FourierFunction"
    assert np.isfinite(model.log_ratio(data.unlabeled)).all()


def test_weights_reach_every_member(data):
    heavy = np.where(data.unlabeled.sum(axis=1) > 0, 5.0, 1.0)
    plain, weighted = (
        AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled, unlabeled_weight=w)
        for w in (None, heavy)
    )
    for before, after in zip(plain.members, weighted.members, strict=True):
        assert after.log_ratio(data.positive).mean() < before.log_ratio(data.positive).mean() - 0.1
        # Ratios refer to the weighted rows, over which their mean is 1.
        assert abs(np.average(after.ratio(data.unlabeled), weights=heavy) - 1) < 0.15


@pytest.mark.parametrize("value", [np.nan, 0.0, 7.0])
def test_a_column_without_two_values_changes_nothing(data, model, value):
    positive, unlabeled = (np.insert(X, 1, value, axis=1) for X in (data.positive, data.unlabeled))
    wider = AutoRatio(random_state=0).fit_ratio(positive, unlabeled)
    assert_allclose(wider.log_ratio(unlabeled), model.log_ratio(data.unlabeled), atol=1e-6)


def test_few_positives_are_divided_several_times_and_averaged(data):
    pair = SamplePair(Sample(data.positive[:40]), Sample(data.unlabeled))
    learners = AutoRatio(random_state=0).for_divisions(pair)
    folds, scores = cross_fit(AutoRatio(random_state=0), pair, holdout=5, random_state=0)
    assert len(folds.functions) == 5
    assert len(folds.whole.members) == 4 * len(learners) > 4
    assert_allclose(folds.whole.weights.sum(), 1)
    assert len(scores) == len(pair)
    assert np.corrcoef(scores.unlabeled.rows, folds.log_ratio(data.unlabeled))[0, 1] > 0.9


# -- sparse rows and gaps ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_have_a_linear_smooth_member(data, kind):
    positive, unlabeled = (np.where(np.abs(X) < 0.8, 0, X) for X in (data.positive, data.unlabeled))
    model = AutoRatio(random_state=0).fit_ratio(kind(positive), kind(unlabeled))
    assert kinds(model)[-1] == "LinearFunction"
    scores = model.log_ratio(kind(unlabeled))
    assert np.isfinite(scores).all()
    assert_array_equal(round_trip(model).log_ratio(kind(unlabeled)), scores)
    assert model.log_ratio(kind(positive)).mean() > scores.mean() + 0.5


@pytest.mark.parametrize("where", ["positive", "unlabeled"])
def test_missing_training_values_are_filled_for_the_smooth_member(data, where):
    rows = {"positive": data.positive, "unlabeled": data.unlabeled}
    rows[where] = with_gaps(rows[where])
    model = AutoRatio(random_state=0).fit_ratio(rows["positive"], rows["unlabeled"])
    scores = model.log_ratio(rows[where])
    assert np.isfinite(scores).all()
    assert_array_equal(round_trip(model).log_ratio(rows[where]), scores)


def test_missing_values_in_new_rows_change_no_other_row(data, model):
    gaps = with_gaps(data.unlabeled)
    scores = model.log_ratio(gaps)
    whole = ~np.isnan(gaps).any(axis=1)
    assert np.isfinite(scores).all()
    assert_allclose(scores[whole], model.log_ratio(data.unlabeled)[whole], rtol=1e-9)


def test_gaps_are_filled_with_the_mean_of_the_six_middle_values(data):
    gaps = with_gaps(data.unlabeled)
    model = AutoRatio(random_state=0).fit_ratio(data.positive, gaps)
    for filled, column in zip(model.filling.medians, np.vstack([data.positive, gaps]).T, strict=True):
        there = np.sort(column[~np.isnan(column)])
        middle = int(np.ceil((len(there) - 1) / 2))
        assert_allclose(filled, there[middle - 3 : middle + 3].mean())


def test_gaps_in_sparse_rows_are_zeros_for_the_smooth_member(data):
    gaps = sparse.csr_array(with_gaps(data.unlabeled))
    before = gaps.data.copy()
    model = AutoRatio(random_state=0).fit_ratio(sparse.csr_array(data.positive), gaps)
    assert np.isfinite(model.log_ratio(gaps)).all()
    assert_array_equal(gaps.data, before)  # the rows of the user are unchanged


# -- weights that follow held-out evidence -----------------------------------------------------------


START = np.array([2.0, 1.0])


def evidence(n_positive, n_unlabeled, *noise, seed=0, scale=1.0):
    """Log-ratios of a Gaussian problem, one column for each amount of noise that is added."""
    rng = np.random.default_rng(seed)
    positive = rng.normal(1, 1, n_positive)
    unlabeled = rng.normal(np.where(rng.random(n_unlabeled) < 0.4, 1, -1), 1)

    def scores(x):  # of positives against the mixture
        exact = -np.log(0.4 + 0.6 * np.exp(-2 * x))
        return np.column_stack([scale * exact + sd * rng.normal(size=len(x)) for sd in noise])

    sizes = (np.full(n, 1 / n) for n in (n_positive, n_unlabeled))
    return HeldOutScores(scores(positive), scores(unlabeled), *sizes)


def test_an_exact_member_gets_weight_one_and_the_noise_none():
    found = stack(evidence(20_000, 40_000, 5.0, 0.0), START)
    # The weight of one feature in a logistic fit at 20,000 positives has a standard error of about 0.02.
    assert_allclose(found.members, [0, 1], atol=0.08)
    assert abs(found.constant) < 0.08


def test_ratios_that_are_too_flat_are_stretched():
    found = stack(evidence(20_000, 40_000, 0.0, scale=0.5), np.ones(1))
    assert_allclose(found.members, [2], atol=0.16)


def test_few_positives_keep_the_proportions_of_the_average():
    found = stack(evidence(6, 100, 0.3, 0.3), START)
    assert_allclose(found.members[0], 2 * found.members[1], rtol=0.2)


def test_members_that_know_nothing_are_averaged():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(300, 2)) - 3.0, rng.normal(size=(600, 2)) + 3.0  # worse than chance
    found = stack(HeldOutScores(*scores, np.full(300, 1 / 300), np.full(600, 1 / 600)), START)
    assert_allclose(found.members, START / 3)
    assert found.constant == 0


def test_weights_of_rows_are_repeated_rows():
    held = evidence(200, 400, 0.3, 1.0)
    times = np.random.default_rng(1).integers(1, 4, 200)
    rows = np.repeat(np.arange(200), times)
    repeated = HeldOutScores(
        held.positive[rows], held.unlabeled, np.full(len(rows), 1 / len(rows)), held.unlabeled_weight
    )
    weighted = HeldOutScores(held.positive, held.unlabeled, times / times.sum(), held.unlabeled_weight)
    point = np.array([0.5, 0.5])
    assert_allclose(weighted.loss(point, 0.1)[0], repeated.loss(point, 0.1)[0])


# -- the default ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def weighted():
    data = make_gaussian_pu(1000, 2000, prior=0.4, separation=3, dimensions=3, random_state=0)
    return data, AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)


def test_scores_are_the_weighted_sum_of_the_members(weighted):
    data, model = weighted
    single = np.column_stack([member.log_ratio(data.unlabeled) for member in model.members])
    assert_allclose(model.log_ratio(data.unlabeled), single @ model.weights + model.constant)
    assert (model.weights > 0).all()
    assert "x a smooth fit" in model.describe() or "alone" in model.describe()


def test_a_file_keeps_the_weights(weighted):
    data, model = weighted
    again = round_trip(model)
    assert_array_equal(again.weights, model.weights)
    assert_array_equal(again.log_ratio(data.unlabeled), model.log_ratio(data.unlabeled))
    tree, arrays, blobs = encode(model)
    with pytest.raises(ArtifactError, match="weights: must be of length"):
        decode(tree, arrays | {"weights": np.ones(7)}, blobs, type(model))


def test_the_fewer_the_rows_the_more_members_see_all_of_them_again(weighted, monkeypatch):
    data, refitted = weighted
    fits = [refitted]
    for regrown in (10_000, 0):  # where rows are many, boosting alone is fitted again, or nothing
        choices = replace(auto.AUTO, refit_rows=0, regrow_rows=regrown)
        monkeypatch.setattr(auto, "AUTO", choices)
        fits.append(AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled))
    for fit in fits[1:]:
        assert_allclose(fit.weights, refitted.weights)
    for members in zip(*(fit.members for fit in fits), strict=True):
        all_rows, boosting_alone, once = (member.log_ratio(data.unlabeled) for member in members)
        assert not np.array_equal(all_rows, once)
        assert np.array_equal(boosting_alone, once) != isinstance(members[0], BoostedFunction)


def test_a_smooth_fit_of_several_samples_is_nearer_to_the_truth(monkeypatch):
    monkeypatch.setattr(fourier, "FOURIER", replace(fourier.FOURIER, most_rows=300))
    rng = np.random.default_rng(0)
    positive, unlabeled = rng.normal(0.7, 1, (400, 4)), rng.normal(0, 1, (3000, 4))
    unlabeled[:1200] += 0.7
    new = rng.normal(0.3, 1, (2000, 4))
    shift = 0.7 * (new.sum(axis=1) - 1.4)  # log-ratio of positives against the other unlabeled rows
    truth = -np.log(0.4 + 0.6 * np.exp(-shift))
    errors = []
    for most in (1, 8):
        monkeypatch.setattr(fourier, "FOURIER", replace(fourier.FOURIER, most_fits=most))
        model = FourierRatio(200, random_state=0).fit_ratio(positive, unlabeled)
        errors.append(np.mean((model.log_ratio(new) - truth) ** 2))
    # The unlabeled part of the variance is divided by eight.
    assert errors[1] < 0.8 * errors[0]


def test_the_smooth_member_is_also_linear_with_many_rows(weighted, monkeypatch):
    data, model = weighted
    assert model.members[-1].linear is None
    monkeypatch.setattr(auto, "AUTO", replace(auto.AUTO, linear_rows=2000))
    large = AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)
    assert large.members[-1].linear.shape == (3,)
    assert_array_equal(round_trip(large).log_ratio(data.unlabeled), large.log_ratio(data.unlabeled))


def test_a_member_that_learns_nothing_is_dropped():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 6))
    positive = (X[:, 0] > 0) ^ (X[:, 1] > 0.5) ^ (X[:, 2] > -0.3)  # a smooth fit cannot represent this
    model = AutoRatio(random_state=0).fit_ratio(X[:3000][positive[:3000]], X[3000:])
    assert "BoostedFunction" in kinds(model)
    assert "FourierFunction" not in kinds(model)


def test_wide_sparse_rows_have_a_linear_model_alone():
    rng = np.random.default_rng(0)
    rows = sparse.random(600, auto.AUTO.wide + 1, density=0.01, random_state=rng, format="csr")
    model = AutoRatio(random_state=0).fit_ratio(rows[:200], rows[200:])
    assert kinds(model) == ["LinearFunction"]
    alone = LinearRatio().fit_ratio(rows[:200], rows[200:])
    assert_array_equal(model.log_ratio(rows), alone.log_ratio(rows))
