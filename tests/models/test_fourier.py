import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from codec_laws import round_trip
from drpu import make_gaussian_pu
from drpu._samples import Sample, SamplePair
from learners import FourierRatio, LinearRatio


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
        moved.log_ratio(data.unlabeled * scale + shift), model.log_ratio(data.unlabeled), atol=0.02
    )


def test_outliers_are_no_further_than_the_edge(model):
    assert_array_equal(model.log_ratio(np.full((1, 4), 1e3)), model.log_ratio(np.full((1, 4), 1e12)))


def test_fast_cosines_are_good_cosines(data, model):
    cosines = model.cosines
    Z = cosines.standardised(data.positive)
    exact = cosines.amplitude * np.cos(cosines.angles(Z)) @ model.coef + Z @ model.linear + model.intercept
    assert_allclose(model.log_ratio(data.positive), exact, atol=1e-5)


def test_beyond_a_number_of_unlabeled_rows_a_sample_of_them_serves(data):
    rng = np.random.default_rng(0)
    unlabeled = np.tile(data.unlabeled, (100, 1)) + 0.1 * rng.normal(size=(60_000, 4))
    learner, weight = FourierRatio(20, random_state=0), np.full(60_000, 3.0)
    whole = learner.fit_ratio(data.positive, unlabeled[:20_000], unlabeled_weight=weight[:20_000])
    part = learner.fit_ratio(data.positive, unlabeled, unlabeled_weight=weight)
    # With a third of the unlabeled rows the odds triple, but the ratio is the same.
    difference = part.log_ratio(data.unlabeled) - whole.log_ratio(data.unlabeled)
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


# -- the linear fit of sparse rows ----------------------------------------------------------------


def thin(rows):
    return sparse.csr_array(np.where(np.abs(rows) < 0.7, 0, rows))


def test_the_linear_fit_is_a_logistic_regression_on_scaled_columns(data):
    positive, unlabeled = thin(data.positive), thin(data.unlabeled)
    function = LinearRatio().fit_ratio(positive, unlabeled)
    rows = sparse.vstack([positive, unlabeled])
    scale = function.features.scale
    label = np.repeat([1, 0], [200, 600])
    plain = LogisticRegression(C=0.1, max_iter=1000).fit(rows / scale, label)
    odds = plain.decision_function(unlabeled / scale) + np.log(3)
    assert_allclose(function.log_ratio(unlabeled), odds, atol=1e-3)
    assert ((rows / scale) ** 2).sum() / 800 == pytest.approx(5)  # the mean squared length of a row
    assert_allclose(function.log_ratio(unlabeled.toarray()), function.log_ratio(unlabeled), atol=1e-12)


def texts(seed):
    """Words of 600 texts, most of them rare; 20 frequent ones are more frequent in half of the texts."""
    rng = np.random.default_rng(seed)
    y = np.arange(600) % 2 == 0
    X = rng.random((600, 3000)) < np.repeat([0.1, 0.005], [20, 2980])
    X[y, :20] |= rng.random((300, 20)) < 0.07
    return sparse.csr_array(X.astype(float)), y


def auc_of_linear(X, y, new, truth):
    labelled = y & (np.arange(len(y)) % 4 == 0)
    return roc_auc_score(truth, LinearRatio().fit_ratio(X[labelled], X[~labelled]).log_ratio(new))


def test_rare_words_are_not_louder_than_frequent_ones():
    (X, y), (new, truth) = texts(0), texts(1)
    plain = LogisticRegression().fit(X, y & (np.arange(len(y)) % 4 == 0))
    auc_of_plain = roc_auc_score(truth, plain.decision_function(new))
    assert auc_of_linear(X, y, new, truth) > auc_of_plain > 0.58


def test_a_column_of_another_unit_does_not_hide_the_others():
    (X, y), (new, truth) = texts(0), texts(1)
    amount = 1e4 * np.random.default_rng(2).random((600, 1))
    more = sparse.hstack([X, amount], format="csr")
    more_new = sparse.hstack([new, amount], format="csr")
    assert auc_of_linear(more, y, more_new, truth) > auc_of_linear(X, y, new, truth) - 0.02


def test_the_scale_of_cosines_is_no_row():
    rng = np.random.default_rng(0)
    for n_positive in (1, 30):
        unlabeled = rng.random((1, 3))
        model = FourierRatio(20, random_state=0).fit_ratio(rng.random((n_positive, 3)), unlabeled)
        assert not np.isclose(model.cosines.scaling.shift, unlabeled[0]).any()


def test_shared_cosines_are_those_of_the_rows(data):
    pair = SamplePair(Sample(data.positive), Sample(data.unlabeled)).placed()
    learner = FourierRatio(50)
    shared = learner.share(pair, np.random.default_rng(0), fits=5)
    part = pair.take(np.arange(0, 200, 2), np.arange(300))
    known = Sample(data.positive[:7] + 1)
    part = SamplePair(part.positive.joined(known), part.unlabeled)
    assert_array_equal(
        shared.features(part, linear=False), shared.cosines.features(part.stacked(), linear=False)
    )
