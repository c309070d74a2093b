"""Models that accept category codes: trees split on codes, the smooth member uses indicators."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from codec_laws import round_trip
from drpu import BoostedRatio, DRPUClassifier, export_onnx
from drpu.exceptions import DataError, ParameterError
from drpu.models.auto import AutoRatio
from drpu.models.boosted import ForestRatio

MODELS = [AutoRatio, BoostedRatio, ForestRatio]


@pytest.fixture(scope="module")
def samples():
    """Nine of ten positives have odd codes; unlabeled rows have all codes with equal frequency."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, 1500)
    odd = rng.permutation(codes[:500] // 2 * 2 + (rng.random(500) < 0.9))
    positive = np.column_stack([rng.normal(size=500), odd]).astype(float)
    unlabeled = np.column_stack([rng.normal(size=1000), codes[500:]]).astype(float)
    return positive, unlabeled


def shuffled(rows, order):
    """The same rows with other codes for the same levels."""
    return np.column_stack([rows[:, 0], np.asarray(order)[rows[:, 1].astype(int)]]).astype(float)


@pytest.mark.parametrize("kind", MODELS)
def test_the_ratio_of_a_level_is_learnt_whatever_its_code(kind, samples):
    order = np.random.default_rng(1).permutation(10)
    positive, unlabeled = (shuffled(rows, order) for rows in samples)
    model = kind(categories=[1], random_state=0).fit_ratio(positive, unlabeled)
    grid = np.column_stack([np.zeros(10), order]).astype(float)
    ratio = model.ratio(grid)  # in truth 0.9 and 0.1 over a half; 90 and 10 positives a level
    assert ratio[1::2].min() > 1
    assert ratio[::2].max() < 0.8


@pytest.mark.parametrize("kind", MODELS)
def test_functions_of_categories_come_back_from_files(kind, samples):
    model = kind(categories=(1,), random_state=0).fit_ratio(*samples)
    new = np.array([[0.1, 3.0], [0.2, 99.0], [-1.0, 0.0]])  # 99 is a code that training did not have
    again = round_trip(model)
    assert_array_equal(again.log_ratio(new), model.log_ratio(new))
    assert np.isfinite(model.log_ratio(new)).all()


@pytest.mark.parametrize("kind", MODELS)
def test_positions_outside_the_columns_are_refused(kind, samples):
    for wrong in ([2], [-1], [0.5]):
        with pytest.raises(ParameterError, match="categories"):
            kind(categories=wrong).fit_ratio(*samples)


@pytest.mark.parametrize("kind", MODELS)
def test_codes_that_need_too_many_bits_are_refused(kind, samples):
    positive, unlabeled = (rows.copy() for rows in samples)
    unlabeled[0, 1] = 2**16
    if kind is not AutoRatio:  # whose smooth member says how it fills gaps
        unlabeled[1, 1] = np.nan
    with pytest.raises(DataError, match=r"column 1 has the category code 65536.*below 65536"):
        kind(categories=[1]).fit_ratio(positive, unlabeled)


@pytest.mark.parametrize("model", [AutoRatio(categories=[1]), BoostedRatio(categories=[1], n_rounds=20)])
def test_splits_on_categories_are_exported(model, samples, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="part of the onnx extra")
    clf = DRPUClassifier(model, holdout=2, random_state=0).fit_pu(*samples)
    export_onnx(clf, tmp_path / "graph.onnx")
    session = runtime.InferenceSession(tmp_path / "graph.onnx", providers=["CPUExecutionProvider"])
    new = np.column_stack([np.linspace(-2, 2, 120), np.arange(120) % 12]).astype(float)
    new[:4, 1] = -1, 31, 32, 1e12  # no code of training
    if isinstance(model, BoostedRatio):
        new[4, 1] = np.nan
    feed = {"X": new, "prior": np.array([0.3]), "cost": np.array([0.5])}
    (probability,) = session.run(["probability"], feed)
    assert_allclose(probability, clf.at_prior(0.3).predict_proba(new)[:, 1], atol=1e-5)
