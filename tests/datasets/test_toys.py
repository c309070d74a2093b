"""The stated ratio of the Gaussian classes is the ratio of their densities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import norm

from drpu import exceptions, make_gaussian_pu
from drpu.datasets import GaussianClasses

overlaps = st.floats(0, 0.49)


@given(prior=st.floats(0.01, 0.99), overlap=overlaps, separation=st.floats(0, 5))
def test_the_ratio_is_that_of_the_densities(prior, overlap, separation):
    x = np.linspace(-6, 6, 41)
    upper, lower = norm.pdf(x, separation / 2), norm.pdf(x, -separation / 2)
    positive = (1 - overlap) * upper + overlap * lower
    negative = overlap * upper + (1 - overlap) * lower
    ratio = GaussianClasses(separation, 1, overlap).ratio(x, prior)
    assert_allclose(ratio, positive / (prior * positive + (1 - prior) * negative), rtol=1e-9)


@given(prior=st.floats(0.01, 0.99), overlap=overlaps)
def test_posterior_and_largest_prior_follow_from_the_ratio(prior, overlap):
    classes, x = GaussianClasses(2.0, 1, overlap), np.linspace(-5, 5, 21)
    assert_allclose(classes.posterior(x, prior), prior * classes.ratio(x, prior), rtol=1e-9, atol=1e-300)
    assert_allclose(classes.largest_prior(prior), 1 / classes.ratio(np.array([40.0]), prior)[0], rtol=1e-9)
    far = GaussianClasses(separation=20.0).ratio(np.array([-1e3, 1e3]), min(max(prior, 0.1), 0.9))
    assert np.isfinite(far).all()


def test_the_distance_of_the_classes_does_not_depend_on_the_dimension():
    rng = np.random.default_rng(0)
    for dimensions in (1, 3, 50):
        classes = GaussianClasses(3.0, dimensions)
        gap = classes.draw(np.ones(4000), rng).mean(0) - classes.draw(np.zeros(4000), rng).mean(0)
        # Each of the d coordinates of the gap has variance 2/4000.
        assert abs(np.linalg.norm(gap) - 3.0) < 5 * np.sqrt(2 * dimensions / 4000)


def test_setting_1_is_that_of_the_paper():
    data = make_gaussian_pu(setting=1, random_state=0)
    assert (data.train_prior, data.test_prior) == (0.4, 0.6)
    assert data.classes == GaussianClasses(2.0, 1, 0.0)
    assert (len(data.positive), len(data.unlabeled), len(data.test)) == (300, 1500, 1000)
    boundary = -np.log(0.6 / 0.4) / 2  # where .6 N(x; 1) = .4 N(x; -1): the optimal boundary -.203
    assert_allclose(boundary, -0.2027, atol=1e-4)
    assert_allclose(data.classes.posterior([boundary], 0.6), 0.5)


def test_setting_2_is_reducible():
    data = make_gaussian_pu(20_000, 20_000, setting=2, random_state=0)
    assert (data.train_prior, data.test_prior) == (0.6, 0.4)
    assert_allclose(data.classes.largest_prior(0.6), 0.7)
    assert_allclose(data.classes.largest_prior(0.4), 0.55)
    # Each class has mean +-.6 and variance 1.64; there are at least 7,500 rows of either.
    margin = 5 * np.sqrt(1.64 / 7_500)
    assert_allclose(data.positive.mean(), 0.8 * 1 + 0.2 * -1, atol=margin)
    assert_allclose(data.unlabeled[data.unlabeled_labels == 0].mean(), 0.2 * 1 + 0.8 * -1, atol=margin)


def test_what_is_given_goes_before_the_setting():
    data = make_gaussian_pu(10, 20, setting=1, prior=0.7, test_prior=0.1, overlap=0.3, dimensions=2)
    assert (data.train_prior, data.test_prior, data.classes.overlap) == (0.7, 0.1, 0.3)
    assert data.positive.shape == (10, 2)


def test_no_test_rows_without_a_test_prior():
    data = make_gaussian_pu(5, 5)
    assert data.test is None
    assert data.test_labels is None
    assert "test=none" in repr(data)


@pytest.mark.parametrize("prior", [0.0, 1.0])
def test_priors_0_and_1_give_one_class(prior):
    data = make_gaussian_pu(5, 30, prior=prior, test_prior=1 - prior, random_state=0)
    assert set(data.unlabeled_labels) == {int(prior)}
    assert set(data.test_labels) == {int(1 - prior)}


def test_labels_follow_the_prior():
    data = make_gaussian_pu(5, 20_000, prior=0.3, test_prior=0.8, n_test=20_000, random_state=1)
    assert abs(data.unlabeled_labels.mean() - 0.3) < 5 * np.sqrt(0.21 / 20_000)
    assert abs(data.test_labels.mean() - 0.8) < 5 * np.sqrt(0.16 / 20_000)


def test_the_mean_of_the_ratio_over_the_population_is_one():
    data = make_gaussian_pu(5, 40_000, prior=0.4, random_state=2)
    ratio = data.ratio(data.unlabeled)
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(len(ratio))


def test_x_y_stacks_positives_on_unlabeled_rows():
    data = make_gaussian_pu(4, 6, dimensions=3, random_state=0)
    X, y = data.X_y()
    assert X.shape == (10, 3)
    assert np.array_equal(X[y == 1], data.positive)
    assert np.array_equal(X[y == 0], data.unlabeled)


@pytest.mark.parametrize("kind", [int, np.random.RandomState, np.random.default_rng])
def test_the_same_seed_of_any_kind_gives_the_same_rows(kind):
    one, two, other = (make_gaussian_pu(9, 9, test_prior=0.5, random_state=kind(s)) for s in (3, 3, 4))
    assert np.array_equal(one.unlabeled, two.unlabeled)
    assert np.array_equal(one.test, two.test)
    assert not np.array_equal(one.unlabeled, other.unlabeled)


# A value that breaks the rule of each argument; what the checks say is tested with them.
WRONG = {
    "n_positive": 0, "n_unlabeled": 2.5, "n_test": 0, "prior": 40, "test_prior": -0.1, "setting": 3,
    "overlap": 0.5, "separation": -1.0, "dimensions": 0, "random_state": "seven",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_arguments_that_break_their_rule_are_named(name):
    with pytest.raises(exceptions.ParameterError, match=rf"^{name} must .* got {WRONG[name]!r}"):
        make_gaussian_pu(**{name: WRONG[name]})


def test_rows_of_the_wrong_width_have_no_ratio():
    with pytest.raises(exceptions.DataError, match=r"X must have shape \(n, 2\), got \(3, 1\)"):
        make_gaussian_pu(2, 2, dimensions=2).ratio(np.zeros((3, 1)))
