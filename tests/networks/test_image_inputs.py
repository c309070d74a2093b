"""Laws of images as input: shapes, scales of pixels, options that do not apply, and memory."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from numpy.testing import assert_array_equal

from drpu import DRPUClassifier, NetworkRatio
from drpu.networks.fit import BATCH_PIXELS, check_options, with_effort
from drpu.networks.loop import CPU_PIXELS, rows_at_once

SMALL = {"hidden": (2,), "epochs": 1, "batch_size": 50, "alpha": 0.3, "device": "cpu", "random_state": 0}
RNG = np.random.default_rng(0)
POSITIVE, UNLABELED = (RNG.integers(0, 256, (n, 3, 16, 18)).astype(np.uint8) for n in (40, 120))
TEST = RNG.integers(0, 256, (10, 3, 16, 18)).astype(np.uint8)


def fitted(scale=lambda images: images, **changes):
    clf = DRPUClassifier(NetworkRatio(**SMALL | changes), prior=0.4, holdout=0.3, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few and random rows
        return clf.fit_pu(scale(POSITIVE), scale(UNLABELED))


@pytest.fixture(scope="module")
def classifier():
    return fitted()


def as_unit(images):
    return (images / 255).astype(np.float32)


def as_floats(images):
    return images.astype(np.float32)


# -- memory --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(28, 28), (3, 32, 32), (3, 224, 224), (1024, 1024)])
def test_memory_of_a_batch_is_bounded(shape):
    pixels = shape[-2] * shape[-1]
    at_once = rows_at_once(shape, torch.device("cpu"))
    assert at_once == 1 or at_once * pixels <= CPU_PIXELS
    for learner in (NetworkRatio(), with_effort(NetworkRatio(effort="high", device="cpu"), shape, 50_000)):
        batch = check_options(learner, shape, 50_000).batch_size
        assert batch == 16 or batch * pixels <= BATCH_PIXELS


def test_read_only_images_are_used_without_a_warning(classifier):
    rows = [images.copy() for images in (POSITIVE, UNLABELED, TEST)]
    for images in rows:
        images.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NetworkRatio(**SMALL).fit_ratio(rows[0], rows[1])
        assert_array_equal(classifier.predict(rows[2]), classifier.predict(TEST))
