"""Sums that do not depend on the batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from drpu.models.boosted import BoostedRatio
from drpu.models.features import exact_product, rounded_factor, row_step
from drpu.models.forest import ForestRatio
from drpu.models.fourier import FourierRatio
from drpu.models.kernel import KernelRatio


def by_rounded_factor(A, B):
    step = row_step(A.shape[1], np.abs(A).max())
    return (np.rint(A / step) * step) @ rounded_factor(B)


@pytest.mark.parametrize(("product", "digits"), [(exact_product, 2.0**-40), (by_rounded_factor, 2.0**-19)])
@given(seed=st.integers(0, 2**32 - 1), d=st.integers(1, 300), scale=st.floats(-200, 200))
def test_products_do_not_depend_on_the_order_of_the_terms(product, digits, seed, d, scale):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_t(2, (5, d)) * 2.0**scale, rng.standard_t(2, (d, 4))
    order = rng.permutation(d)
    found = product(A, B)
    assert_array_equal(product(A[:, order], B[order]), found)
    largest = np.abs(A).max() * np.abs(B).max(axis=0)
    assert (np.abs(found - A @ B) <= d * largest * digits).all()


MODELS = {
    "centroids": KernelRatio("centroids", random_state=0),
    # with a given width and ridge, because choosing them takes longer than all the rest
    "features": KernelRatio("features", width=2.0, ridge=0.1, random_state=0),
    "rows": KernelRatio("rows", width=2.0, ridge=0.1, random_state=0),
    "fourier": FourierRatio(random_state=0),
    "boosted": BoostedRatio(random_state=0),
    "forest": ForestRatio(random_state=0),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_row_has_the_same_score_however_the_rows_are_divided(name, dtype):
    rng = np.random.default_rng(1)
    positive, unlabeled, new = (
        rng.normal(shift, 1, (n, 7)).astype(dtype) for shift, n in ((1, 100), (0.3, 400), (0.4, 3001))
    )
    model = MODELS[name].fit_ratio(positive, unlabeled)
    whole = model.log_ratio(new)
    for size in (1, 3, 64, 1000):
        starts = range(0, min(len(new), 40 * size), size)
        scores = np.concatenate([model.log_ratio(new[start : start + size]) for start in starts])
        assert_array_equal(scores, whole[: len(scores)])
    assert_array_equal(model.log_ratio(new[::-1])[::-1], whole)
    assert_array_equal(model.log_ratio(np.asfortranarray(new)), whole)  # as data frames store them
