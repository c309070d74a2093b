"""Laws of images as input: shapes, scales of pixels, options that do not apply, and memory."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from drpu import DRPUClassifier, NetworkRatio, NNPUClassifier, PUaClassifier, labelling_weights, load, save
from drpu.exceptions import DataError, FewPositivesWarning, ParameterError, PixelScaleWarning, heard
from drpu.networks.loop import rows_at_once
from drpu.networks.options import check_options

SMALL = {"hidden": (2,), "epochs": 1, "batch_size": 50, "alpha": 0.3, "device": "cpu", "random_state": 0}
RNG = np.random.default_rng(0)
POSITIVE, UNLABELED = (RNG.integers(0, 256, (n, 3, 16, 18)).astype(np.uint8) for n in (40, 120))
TEST = RNG.integers(0, 256, (10, 3, 16, 18)).astype(np.uint8)


def fitted(scale=lambda images: images, **changes):
    clf = DRPUClassifier(NetworkRatio(**SMALL | changes), prior=0.4, holdout=0.3, random_state=0)
    with heard():  # few and random rows
        return clf.fit_pu(scale(POSITIVE), scale(UNLABELED))


def ratio(positive=POSITIVE, unlabeled=UNLABELED, holdout=None, **changes):
    return NetworkRatio(**SMALL | changes).fit_ratio(positive, unlabeled, holdout=holdout)


@pytest.fixture(scope="module")
def classifier():
    return fitted()


def as_unit(images):
    return (images / 255).astype(np.float32)


def as_floats(images):
    return images.astype(np.float32)


# -- shapes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "way_out"),
    [
        (lambda X: X[:, :, :, :16], r"got \(3, 16, 16\)\.$"),
        (lambda X: X[:, :, :12], r"got \(3, 12, 18\)\.$"),
        (lambda X: list(X[:, :, :, :16]), r"got \(3, 16, 16\)\.$"),
        (lambda X: np.moveaxis(X, 1, -1), r"pass numpy\.moveaxis\(X, -1, 1\)"),
        (lambda X: X.reshape(len(X), -1), r"pass X\.reshape\(-1, 3, 16, 18\)"),
        (lambda X: X[0], r"pass X\[None\]"),
        (lambda X: X.transpose(0, 1, 3, 2), r"got \(3, 18, 16\)\.$"),
    ],
)
def test_images_of_another_shape_are_refused_with_a_way_out(classifier, change, way_out):
    for use in (classifier.predict, classifier.adapt, classifier.at_prior(0.2).predict_proba):
        with pytest.raises(DataError, match=rf"X must have rows of shape \(3, 16, 18\).*{way_out}"):
            use(change(TEST))


def test_other_methods_refuse_them_as_well():
    options = {name: value for name, value in SMALL.items() if name != "alpha"}
    clf = NNPUClassifier(NetworkRatio(**options), prior=0.4).fit_pu(POSITIVE, UNLABELED)
    with pytest.raises(DataError, match=r"rows of shape \(3, 16, 18\)"):
        clf.predict(TEST[:, :, :, :16])
    with pytest.raises(DataError, match="X_test must have rows of shape"):
        PUaClassifier(NetworkRatio(**options), prior=0.4).fit_pu(POSITIVE, UNLABELED, X_test=TEST[:, :, :12])


@pytest.mark.parametrize("name", ["unlabeled", "negative"])
def test_samples_must_have_one_shape_and_one_type_of_pixels(name):
    clf = DRPUClassifier(NetworkRatio(**SMALL), holdout=0.3)
    samples = {"positive": POSITIVE, "unlabeled": UNLABELED, "negative": UNLABELED[:30]}
    with pytest.raises(DataError, match=rf"{name} must have rows of shape \(3, 16, 18\)"):
        clf.fit_pu(**samples | {name: samples[name][:, :, :, :16]})
    with pytest.raises(DataError, match=f"{name} must have pixels of the type of the other images, uint8"):
        clf.fit_pu(**samples | {name: as_unit(samples[name])})
    with pytest.raises(DataError, match="unlabeled must have pixels of the type"):
        ratio(unlabeled=as_unit(UNLABELED))
    for held in ((TEST, as_unit(TEST)), (as_unit(TEST), TEST)):
        with pytest.raises(DataError, match=r"holdout must have pixels .* of the other images, uint8"):
            ratio(holdout=held)


@pytest.mark.parametrize("model", ["auto", "kernel", "boosted"])
def test_models_of_tables_name_the_network_for_images(model):
    with pytest.raises(DataError, match=r"got shape \(40, 3, 16, 18\): for images use DRPUClassifier"):
        DRPUClassifier(model).fit_pu(POSITIVE, UNLABELED)


@pytest.mark.parametrize("collection", [list, lambda rows: np.array([*rows, None], dtype=object)[:-1]])
def test_arrays_of_arrays_are_to_be_stacked(collection):
    ragged = [*POSITIVE[:-1], POSITIVE[-1, :, :12]]
    with pytest.raises(DataError, match=r"positive must be one array.*numpy\.stack"):
        DRPUClassifier(NetworkRatio(**SMALL)).fit_pu(collection(ragged), UNLABELED)


def test_a_list_of_images_is_an_array_of_them(classifier):
    assert_array_equal(classifier.ratio(list(TEST)), classifier.ratio(TEST))
    assert ratio(list(POSITIVE), tuple(UNLABELED)).pixels == (0, 1)


@pytest.mark.parametrize("dtype", [np.uint16, np.int16, np.float16, np.bool_])
def test_images_of_two_bytes_become_float32(dtype):
    positive, unlabeled, test = (images.astype(dtype) for images in (POSITIVE, UNLABELED, TEST))
    same = ratio(as_floats(positive), as_floats(unlabeled))
    assert_array_equal(ratio(positive, unlabeled).log_ratio(test), same.log_ratio(as_floats(test)))


def test_columns_of_images_have_no_labelling_rates():
    with pytest.raises(DataError, match="by needs rows with columns"):
        labelling_weights(UNLABELED, np.arange(120) < 40, by=0, rates={})


# -- scales of pixels ----------------------------------------------------------------------------------


def test_eight_bits_and_unit_floats_are_one_scale(classifier):
    assert_allclose(classifier.ratio(as_unit(TEST)), classifier.ratio(TEST), rtol=1e-5)
    other = fitted(as_unit)
    assert_allclose(other.ratio(as_unit(TEST)), other.ratio(TEST), rtol=1e-5)


@pytest.mark.parametrize(
    ("scale", "new"), [(lambda images: images, as_floats), (as_unit, as_floats), (as_floats, as_unit)]
)
def test_pixels_on_another_scale_cause_a_warning(scale, new, tmp_path):
    clf = fitted(scale)
    save(clf, tmp_path / "images.drpu")
    for one in (clf, load(tmp_path / "images.drpu"), clf.at_prior(0.2)):
        with pytest.warns(PixelScaleWarning, match="X has values of up to"):
            one.predict(new(TEST))
        one.predict(scale(TEST))
        one.predict(0 * scale(TEST))  # black images are on every scale


@pytest.mark.parametrize("scale", [as_floats, lambda images: images / 127.5 - 1])
def test_eight_bits_are_refused_by_a_network_of_other_floats(scale):
    with pytest.raises(DataError, match="X must be floats on the scale of the training images"):
        fitted(scale).predict(TEST)


def test_a_perceptron_sees_the_scale_of_images_too():
    clf = fitted(network="perceptron")
    with pytest.warns(PixelScaleWarning):
        clf.predict(as_unit(TEST))
    assert_array_equal(clf.predict(as_floats(TEST)), clf.predict(TEST))


# -- options -------------------------------------------------------------------------------------------


def test_channels_that_come_last_are_not_taken_for_other_rows():
    images = [np.moveaxis(rows, 1, -1) for rows in (POSITIVE, UNLABELED)]
    with pytest.raises(DataError, match=r"channels come last: pass numpy\.moveaxis\(X, -1, 1\)"):
        ratio(*images)
    assert ratio(*images, network="perceptron").network == "perceptron"


def test_pixels_in_columns_and_tiny_images_are_refused():
    flat = [rows.reshape(len(rows), -1) for rows in (POSITIVE, UNLABELED)]
    with pytest.raises(DataError, match=r"needs images.*pass X\.reshape\(-1, height, width\)"):
        ratio(*flat, network="resnet9")
    tiny = [rows[:, 0, :4, :4] for rows in (POSITIVE, UNLABELED)]
    with pytest.raises(DataError, match="at least 8"):
        ratio(*tiny, network="resnet9")
    with pytest.raises(ParameterError, match="one number"):
        ratio(hidden=(3, 3))


def test_a_network_of_the_user_that_does_not_fit_is_named():
    grey = {"positive": POSITIVE[:, 0], "unlabeled": UNLABELED[:, 0], "hidden": None}
    with pytest.raises(ParameterError, match=r"rows of shape \(16, 18\).*pass X\[:, None\]"):
        ratio(module=nn.Sequential(nn.Conv2d(1, 1, 16), nn.Flatten(), nn.Linear(3, 1)), **grey)
    with pytest.raises(ParameterError, match="module must accept a batch of rows"):
        ratio(module=nn.Sequential(nn.Flatten(), nn.Linear(5, 1)), **grey)


def test_a_fitted_model_prints_a_line(classifier):
    assert repr(classifier.model_) == "Folds('resnet9 2', row_shape=(3, 16, 18))"


def test_a_report_about_images_names_their_shape(classifier):
    pytest.importorskip("matplotlib")
    from drpu.report import render_report

    assert "rows of shape (3, 16, 18)" in render_report(classifier)


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(28, 28), (3, 32, 32), (3, 224, 224), (1024, 1024)])
def test_memory_of_a_batch_is_bounded(shape):
    pixels = shape[-2] * shape[-1]
    for device, least, most in (("cpu", 1, 2**16), ("cuda", 16, 2**22)):
        at_once = rows_at_once(shape, torch.device(device))
        assert at_once == least or at_once * pixels <= most
    for learner in (NetworkRatio(), NetworkRatio(network="resnet9")):
        batch = check_options(learner, shape, 50_000).batch_size
        assert batch == 16 or batch * pixels <= 2**21


@pytest.mark.parametrize("change", [lambda X: X[::-1], lambda X: X[:, :, :, ::-1], lambda X: X[:, ::-1]])
def test_reversed_views_are_used_like_copies(classifier, change):
    positive, unlabeled, test = (change(as_unit(images)) for images in (POSITIVE, UNLABELED, TEST))
    assert_array_equal(classifier.ratio(test), classifier.ratio(test.copy()))
    copied = ratio(positive.copy(), unlabeled.copy())
    assert_array_equal(ratio(positive, unlabeled).log_ratio(test), copied.log_ratio(test))


@pytest.mark.parametrize("network", ["resnet9", "perceptron"])
def test_one_image_alone_is_refused_with_a_way_out(network):
    """A square image has as many columns as each row of training has lines."""
    square = [images[:, 0, :, :16].astype(np.float64) for images in (POSITIVE, UNLABELED)]
    clf = DRPUClassifier(NetworkRatio(**SMALL, network=network), prior=0.4, holdout=0.3, random_state=0)
    with pytest.warns(FewPositivesWarning):
        clf.fit_pu(*square)
    with pytest.raises(DataError, match=r"rows of shape \(16, 16\), as in training, got \(16,\).*X\[None\]"):
        clf.predict(square[0][0])
