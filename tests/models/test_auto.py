from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from codec_laws import check_kept, round_trip
from drpu import BoostedRatio, make_gaussian_pu
from drpu.models import BoostedFunction
from drpu.models.auto import AutoRatio
from drpu.models.boosted import ForestFunction
from drpu.models.choices import AUTO
from drpu.models.fourier import FourierFunction, LinearFunction


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(150, 500, prior=0.4, separation=3, dimensions=4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled)


def with_gaps(X, seed=0):
    return np.where(np.random.default_rng(seed).random(X.shape) < 0.2, np.nan, X)


# -- what it is ----------------------------------------------------------------------------


def test_three_kinds_of_models_are_averaged(data, model):
    assert [type(member) for member in model.members] == [ForestFunction, BoostedFunction, FourierFunction]
    single = np.array([member.log_ratio(data.unlabeled) for member in model.members])
    mean = model.log_ratio(data.unlabeled)
    assert ((single.min(axis=0) - 1e-9 <= mean) & (mean <= single.max(axis=0) + 1e-9)).all()
    # Some fixed weights, positive and summing to 1, give every row its score.
    weights = np.linalg.lstsq(single.T, mean, rcond=None)[0]
    assert_allclose(weights @ single, mean, atol=1e-9)
    assert_allclose(weights.sum(), 1)
    assert (weights > 0.1).all()


@pytest.mark.parametrize("n", [1, 2, AUTO.few_positives - 1, AUTO.few_positives])
def test_below_ten_positives_the_smooth_fit_answers_alone(data, n):
    model = AutoRatio(random_state=0).fit_ratio(data.positive[:n], data.unlabeled)
    assert len(model.members) == (1 if n < AUTO.few_positives else 3)
    assert isinstance(model.members[-1], FourierFunction)
    assert np.isfinite(model.log_ratio(data.unlabeled)).all()


def test_weights_reach_every_member(data):
    heavy = np.where(data.unlabeled.sum(axis=1) > 0, 5.0, 1.0)
    plain, weighted = (
        AutoRatio(random_state=0).fit_ratio(data.positive, data.unlabeled, unlabeled_weight=w)
        for w in (None, heavy)
    )
    for before, after in zip(plain.members, weighted.members, strict=True):
        assert after.log_ratio(data.positive).mean() < before.log_ratio(data.positive).mean() - 0.1


# -- sparse rows and gaps ------------------------------------------------------------------


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_have_a_linear_smooth_member(data, kind):
    positive, unlabeled = (np.where(np.abs(X) < 0.8, 0, X) for X in (data.positive, data.unlabeled))
    model = AutoRatio(random_state=0).fit_ratio(kind(positive), kind(unlabeled))
    assert isinstance(model.members[-1], LinearFunction)
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


def test_a_column_of_gaps_alone_says_nothing(data):
    positive, unlabeled = data.positive.copy(), data.unlabeled.copy()
    positive[:, 1] = unlabeled[:, 1] = np.nan
    model = AutoRatio(random_state=0).fit_ratio(positive, unlabeled)
    assert model.filling.medians[1] == 0
    assert np.isfinite(model.log_ratio(unlabeled)).all()


def test_gaps_in_sparse_rows_are_zeros_for_the_smooth_member(data):
    gaps = sparse.csr_array(with_gaps(data.unlabeled))
    before = gaps.data.copy()
    model = AutoRatio(random_state=0).fit_ratio(sparse.csr_array(data.positive), gaps)
    assert np.isfinite(model.log_ratio(gaps)).all()
    assert_array_equal(gaps.data, before)  # the rows of the user are unchanged


# -- files --------------------------------------------------------------------------------


def test_no_edit_of_a_file_gives_another_error(data):
    model = AutoRatio(random_state=0).fit_ratio(data.positive[:5], data.unlabeled)
    few = BoostedRatio(n_rounds=2, leaves=3, random_state=0).fit_ratio(data.positive, data.unlabeled)
    check_kept(replace(model, members=(few, few), weights=np.array([0.5, 0.5])))
