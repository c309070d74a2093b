from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from codec_laws import round_trip
from drpu import make_gaussian_pu
from drpu.models import fourier
from drpu.models.fourier import FourierRatio, LinearRatio


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(200, 600, prior=0.4, separation=3, dimensions=4, random_state=0)


@pytest.fixture(scope="module")
def model(data):
    return FourierRatio(200, linear=True, random_state=0).fit_ratio(data.positive, data.unlabeled)


def test_a_ratio_that_no_line_can_draw_is_learnt():
    rng = np.random.default_rng(3)
    positive, unlabeled = rng.normal(0, 0.5, (800, 2)), rng.normal(0, 2, (3000, 2))  # a disc within a cloud
    model = FourierRatio(300, random_state=0).fit_ratio(positive, unlabeled)
    centre, ring = model.ratio([[0.0, 0.0]])[0], model.ratio([[2.5, 0.0], [0.0, -2.5], [-2.0, 2.0]])
    assert centre > 5 > 0.5 > ring.max()


def test_a_linear_trend_is_learnt_from_few_rows():
    rng = np.random.default_rng(4)
    direction = np.full(20, 0.4)
    positive, unlabeled = rng.normal(size=(100, 20)) + direction, rng.normal(size=(400, 20))
    new = rng.normal(size=(2000, 20))
    models = [FourierRatio(300, linear=yes, random_state=0).fit_ratio(positive, unlabeled) for yes in (1, 0)]
    assert models[0].linear.shape == (20,)
    with_columns, without = (np.corrcoef(model.log_ratio(new), new @ direction)[0, 1] for model in models)
    assert with_columns > 0.9 > without


def test_many_columns_have_no_linear_part():
    rng = np.random.default_rng(5)
    samples = rng.normal(size=(20, 301)), rng.normal(size=(40, 301))
    wide = FourierRatio(50, linear=True, random_state=0).fit_ratio(*samples)
    assert wide.linear is None
    assert_array_equal(round_trip(wide).log_ratio(samples[1]), wide.log_ratio(samples[1]))


def test_units_and_origins_of_columns_do_not_matter(data, model):
    scale, shift = np.array([1e-6, 1.0, 1e3, 1e6]), np.array([5.0, -1.0, 0.0, 1e7])
    moved = FourierRatio(200, linear=True, random_state=0).fit_ratio(
        data.positive * scale + shift, data.unlabeled * scale + shift
    )
    assert_allclose(
        moved.log_ratio(data.unlabeled * scale + shift), model.log_ratio(data.unlabeled), atol=1e-3
    )


def test_outliers_are_no_further_than_the_edge(model):
    assert_array_equal(model.log_ratio(np.full((1, 4), 1e3)), model.log_ratio(np.full((1, 4), 1e12)))


def test_fast_cosines_are_good_cosines(data, model):
    exact = model.cosines.features(data.positive, linear=True, dtype=np.float64)
    factor = np.sqrt(30 / 4)  # of the columns among the features
    exact = exact @ np.concatenate([model.coef, model.linear / factor]) + model.intercept
    assert_allclose(model.log_ratio(data.positive), exact, atol=1e-5)


def test_beyond_a_number_of_unlabeled_rows_a_sample_of_them_serves(data, monkeypatch):
    whole = FourierRatio(100, random_state=0).fit_ratio(data.positive, data.unlabeled)
    monkeypatch.setattr(fourier, "FOURIER", replace(fourier.FOURIER, most_rows=200))
    part = FourierRatio(100, random_state=0).fit_ratio(
        data.positive, data.unlabeled, unlabeled_weight=np.full(600, 3.0)
    )
    # With a third of the unlabeled rows the odds triple, but the ratio is the same.
    difference = part.log_ratio(data.unlabeled) - whole.log_ratio(data.unlabeled)
    assert not np.array_equal(part.coef, whole.coef)
    assert abs(np.median(difference)) < 0.5 < np.log(3)


def test_weights_act_like_repeated_rows_and_have_no_scale(data):
    weight = np.random.default_rng(5).integers(1, 4, 200)

    def fit(positive, **weights):
        return FourierRatio(50, C=1.0, random_state=0).fit_ratio(positive, data.unlabeled, **weights)

    once, twice = (
        fit(data.positive, positive_weight=k * weight, unlabeled_weight=np.full(600, k)).log_ratio(
            data.unlabeled
        )
        for k in (1.0, 2.0)
    )
    assert_allclose(twice, once, atol=0.02)
    # Repeated rows are more rows, which shrink a little less: the same ranking on another scale.
    repeated = fit(np.repeat(data.positive, weight, axis=0)).log_ratio(data.unlabeled)
    assert np.corrcoef(once, repeated)[0, 1] > 0.995


def test_constant_columns_say_nothing(data, model):
    def widen(X):
        return np.column_stack([X, np.full(len(X), 7.0)])

    wide = FourierRatio(200, random_state=0).fit_ratio(widen(data.positive), widen(data.unlabeled))
    assert np.isfinite(wide.log_ratio(widen(data.unlabeled))).all()
    same = np.ones((20, 2))
    assert_allclose(FourierRatio(20, random_state=0).fit_ratio(same, same).ratio(same), 1, atol=0.05)


# -- the linear fit of sparse rows ----------------------------------------------------------------


def thin(rows):
    return sparse.csr_array(np.where(np.abs(rows) < 0.7, 0, rows))


def test_the_linear_fit_is_a_logistic_regression_on_scaled_columns(data):
    positive, unlabeled = thin(data.positive), thin(data.unlabeled)
    function = LinearRatio().fit_ratio(positive, unlabeled)
    rows = sparse.vstack([positive, unlabeled])
    scaler = StandardScaler(with_mean=False).fit(rows)
    label = np.repeat([1, 0], [200, 600])
    plain = LogisticRegression(C=0.1, max_iter=1000).fit(scaler.transform(rows), label)
    odds = plain.decision_function(scaler.transform(unlabeled)) + np.log(3)
    assert_allclose(function.log_ratio(unlabeled), odds, atol=1e-3)
    assert_allclose(function.log_ratio(unlabeled.toarray()), function.log_ratio(unlabeled), atol=1e-12)
