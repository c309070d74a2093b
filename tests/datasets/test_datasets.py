"""PU samples have the stated priors, labelled fractions and row types, and no row twice."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.stats import norm

from drpu import exceptions, make_gaussian_pu, make_pu
from drpu.datasets import GaussianClasses, draw_at_prior

N = 600
X = np.arange(N, dtype=np.float64)[:, None] * [1.0, 10.0]
Y = (np.arange(N) % 3 == 0).astype(int)  # 200 positives, 400 negatives


@given(prior=st.floats(0.2, 0.9), share=st.floats(0.1, 1.0), n=st.integers(20, 200), seed=st.integers(0, 99))
def test_single_sample_labels_a_share_of_the_positives_of_one_sample(prior, share, n, seed):
    sample = make_pu(X, Y, prior=prior, labelled=share, n=n, random_state=seed)
    positives = round(prior * n)
    assert len(sample.y) == n
    assert sample.y_true.sum() == positives
    assert sample.y.sum() == max(1, round(share * positives))
    assert sample.prior == positives / n
    assert (sample.y_true[sample.y == 1] == 1).all()


@given(prior=st.floats(0, 1), count=st.integers(1, 80), n=st.integers(10, 120), seed=st.integers(0, 99))
def test_case_control_draws_the_labelled_rows_beside_the_population(prior, count, n, seed):
    sample = make_pu(X, Y, prior=prior, labelled=count, scenario="case-control", n=n, random_state=seed)
    population = sample.y == 0
    assert population.sum() == n
    assert sample.y_true[population].sum() == round(prior * n)
    assert sample.y.sum() == count
    assert (sample.y_true[~population] == 1).all()
    assert sample.prior == round(prior * n) / n


@pytest.mark.parametrize("scenario", ["single-sample", "case-control"])
@pytest.mark.parametrize("prior", [None, 0.2, 0.5, 0.8])
def test_no_row_is_drawn_twice_and_each_keeps_its_label(scenario, prior):
    X_pu, y, y_true = sample = make_pu(X, Y, prior=prior, scenario=scenario, random_state=0)
    assert len(np.unique(sample.index)) == len(sample.index) == len(y)
    assert np.array_equal(X_pu, X[sample.index])
    assert np.array_equal(y_true, Y[sample.index])


def test_case_control_keeps_the_prior_of_the_data_when_none_is_given():
    sample = make_pu(X, Y, labelled=0.5, scenario="case-control", random_state=0)
    assert sample.y.sum() == 100
    assert abs(sample.prior - 1 / 3) < 0.005
    assert (sample.y == 0).sum() >= 299  # 100 positives remain, a third of the sample


def test_the_sample_is_as_large_as_the_rows_allow():
    whole = make_pu(X, Y, random_state=0)
    assert sorted(whole.index) == list(range(N))
    assert whole.y.sum() == 60
    assert len(make_pu(X, Y, prior=0.5).y) == 400
    assert len(make_pu(X, Y, prior=1.0).y) == 200
    assert len(draw_at_prior(X, Y, 0.0)[1]) == 400


@pytest.mark.parametrize("prior", np.linspace(0, 1, 23))
def test_the_largest_draw_never_runs_out_of_rows(prior):
    rows, y = draw_at_prior(X, Y, prior, random_state=0)
    assert len(np.unique(rows[:, 0])) == len(rows)
    assert abs(y.mean() - prior) <= 0.5 / len(y) + 1e-12


def test_rows_come_in_random_order():
    y = make_pu(X, Y, prior=0.5, n=200, random_state=0).y_true
    half = y[:100].sum()  # hypergeometric: mean 50, standard deviation 3.5
    assert 30 < half < 70


def test_the_same_seed_gives_the_same_sample():
    one, two, other = (make_pu(X, Y, n=50, random_state=s).index for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_labelling_is_independent_of_the_row():
    counts = np.zeros(N)
    for seed in range(200):
        sample = make_pu(X, Y, random_state=seed)
        counts[sample.index] += sample.y
    drawn = counts[Y == 1]
    assert drawn.sum() == 200 * 60
    assert abs(drawn - 60).max() < 5 * np.sqrt(200 * 0.3 * 0.7)


KINDS = {
    "list": lambda x: x.tolist(),
    "numpy": lambda x: x,
    "images": lambda x: x.reshape(N, 1, 2),
    "pandas": lambda x: pd.DataFrame(x, columns=["a", "b"], index=np.arange(N)[::-1]),
    "polars": lambda x: pl.DataFrame(x, schema=["a", "b"]),
    "arrow": lambda x: pa.table({"a": x[:, 0], "b": x[:, 1]}),
    "csr": sparse.csr_matrix,
    "csr_array": sparse.csr_array,
    "torch": torch.from_numpy,
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_every_kind_come_back_as_their_kind(kind):
    rows = KINDS[kind](X)
    sample = make_pu(rows, Y, prior=0.4, n=50, random_state=0)
    assert type(sample.X) is type(rows)
    plain = sample.X.toarray() if sparse.issparse(sample.X) else sample.X
    plain = plain.to_pandas() if kind == "arrow" else plain
    assert np.array_equal(np.asarray(plain).reshape(50, 2), X[sample.index])


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        (Y, None),
        (Y, 1),
        (Y == 1, None),
        (2 * Y - 1, None),
        (np.where(Y, "sick", "healthy"), None),
        (np.where(Y, "a", "b"), "a"),
        (np.where(Y, 4, np.arange(N) % 2), 4),
        (np.where(Y, 4, np.arange(N) % 2), np.int64(4)),
        (np.where(Y, 7 + np.arange(N) % 2, 0), [7, 8]),
        (pd.Series(np.where(Y, "a", "b"), index=np.arange(N)[::-1], dtype="category"), "a"),
        (pd.array(Y, dtype="Int64"), None),
        (pl.Series(np.where(Y, "a", "b")), ("a",)),
        (torch.from_numpy(Y), None),
        (Y.tolist(), None),
    ],
)
def test_labels_of_every_coding_are_read(labels, pos_label):
    sample = make_pu(X, labels, pos_label=pos_label, random_state=0)
    assert np.array_equal(sample.y_true, Y[sample.index])
    assert sample.y.dtype == sample.y_true.dtype == np.int64


def test_drawing_more_rows_than_there_are_repeats_the_short_class_alone():
    rows, y = draw_at_prior(X, Y, 0.8, 500, random_state=0)
    assert y.sum() == 400
    assert len(np.unique(rows[y == 0, 0])) == 100
    assert len(np.unique(rows[y == 1, 0])) <= 200


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"prior": 1.2}, exceptions.PriorError, r"prior must lie between 0 and 1, got 1\.2"),
        ({"labelled": 0.0}, exceptions.ParameterError, r"labelled must be a fraction in \(0, 1\].*got 0\.0"),
        ({"labelled": 0}, exceptions.ParameterError, "labelled must be at least 1, got 0"),
        ({"labelled": True}, exceptions.ParameterError, "labelled must be a fraction.*got True"),
        ({"labelled": 201}, exceptions.DataError, "labelled asks for 201 positives.*only 200"),
        ({"scenario": "both"}, exceptions.ParameterError, "scenario must be one of.*got 'both'"),
        ({"n": 0}, exceptions.ParameterError, "n must be at least 1, got 0"),
        ({"n": 601}, exceptions.DataError, "601 rows.*at most 600 rows can be drawn"),
        ({"prior": 0.9, "n": 300}, exceptions.DataError, "needs 270 positives.*at most 222 rows"),
        ({"pos_label": 5}, exceptions.LabelError, "pos_label must be among the labels of y, got 5"),
        ({"prior": 0.0}, exceptions.DataError, "labelled asks for 1 positives.*only 0"),
        ({"labelled": 200, "scenario": "case-control"}, exceptions.DataError, "but there are 0 and 400"),
    ],
)
def test_errors_name_argument_rule_and_value(arguments, error, words):
    with pytest.raises(error, match=words):
        make_pu(X, Y, random_state=0, **arguments)


@pytest.mark.parametrize(
    ("rows", "labels", "error", "words"),
    [
        (X, Y[:-1], exceptions.DataError, r"y must hold one label per row, shape \(600,\), got \(599,\)"),
        (X, np.arange(N) % 3, exceptions.LabelError, "y must hold two labels, got 3"),
        (X, np.where(Y, 1.0, np.nan), exceptions.LabelError, "y must not hold NaN"),
        (X[:2], np.array([1, "a"], dtype=object), exceptions.LabelError, "cannot be sorted, so pass"),
        (X[:0], Y[:0], exceptions.DataError, "X must hold at least one row"),
        (3.0, Y, exceptions.DataTypeError, "X must hold rows"),
    ],
)
def test_data_that_cannot_be_used_are_refused(rows, labels, error, words):
    with pytest.raises(error, match=words):
        make_pu(rows, labels, random_state=0)


def test_a_class_that_is_not_there_cannot_be_drawn():
    with pytest.raises(exceptions.DataError, match="prior requires 5 rows of a class"):
        draw_at_prior(X, np.ones(N), 0.5, 10, pos_label=1)


# -- artificial data ---------------------------------------------------------------------------------


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
