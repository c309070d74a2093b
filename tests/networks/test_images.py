"""Laws of networks on images: augmentation, eight bits, the residual network, shared rows."""

import numpy as np
import pytest
import torch
from image_data import pictures
from numpy.testing import assert_allclose
from torch import nn

from drpu import NetworkRatio
from drpu.exceptions import DataError, ParameterError
from drpu.networks import modules
from drpu.networks.augment import make_augment
from drpu.networks.loop import Pool

SMALL = {"hidden": (2,), "epochs": 2, "batch_size": 50, "alpha": 0.3, "device": "cpu", "random_state": 0}


POSITIVE, UNLABELED = pictures(40, True), pictures(150, np.arange(150) < 60, seed=1)
TEST, LABELS = pictures(60, np.arange(60) < 30, seed=2), np.arange(60) < 30


def fitted(**changes):
    return NetworkRatio(**SMALL | changes).fit_ratio(POSITIVE, UNLABELED)


@pytest.fixture(scope="module")
def residual():
    return fitted(epochs=6)


def test_images_get_a_residual_network_and_other_rows_a_perceptron(residual):
    assert isinstance(residual.torch_module, modules.ResNet9)
    assert residual.scaling is None
    small = NetworkRatio(**SMALL).fit_ratio(POSITIVE[:, :8, :8], UNLABELED[:, :8, :8])
    flat = NetworkRatio(**SMALL).fit_ratio(POSITIVE.reshape(40, -1), UNLABELED.reshape(150, -1))
    named = fitted(network="perceptron")
    assert all(isinstance(model.torch_module, nn.Sequential) for model in (small, flat, named))


def test_the_residual_network_ranks_images(residual):
    scores = residual.log_ratio(TEST)
    assert scores[LABELS].mean() > scores[~LABELS].mean() + 3 * scores.std() / np.sqrt(60)


@pytest.mark.parametrize("shape", [(16, 16), (1, 16, 16)])
def test_eight_bits_are_pixels_from_zero_to_one(shape):
    rows = [images.reshape(-1, *shape) for images in (POSITIVE, UNLABELED, TEST)]
    floats = [part.astype(np.float32) / np.float32(255) for part in rows]
    bits = NetworkRatio(**SMALL).fit_ratio(rows[0], rows[1])
    same = NetworkRatio(**SMALL).fit_ratio(floats[0], floats[1])
    assert_allclose(bits.log_ratio(rows[2]), same.log_ratio(floats[2]), rtol=1e-6)


def test_a_network_of_the_user_gets_images_as_they_come():
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = nn.Linear(256, 1)

        def forward(self, rows):
            seen.append((rows.shape[1:], rows.dtype, float(rows.max())))
            return self.last(rows.flatten(1))

    NetworkRatio(Spy, **SMALL | {"hidden": None}).fit_ratio(POSITIVE, UNLABELED).log_ratio(TEST)
    assert {(tuple(shape), dtype) for shape, dtype, _ in seen} == {((16, 16), torch.float32)}
    assert max(largest for *_, largest in seen) <= 1


def test_eight_bits_stay_so_until_a_batch_is_taken():
    pool = Pool(torch.as_tensor(UNLABELED), dtype=torch.float64)
    rows = pool.take(torch.tensor([[3, 5]]))
    assert pool.rows.dtype == torch.uint8
    assert rows.dtype == torch.float64
    assert_allclose(rows[0, 0], UNLABELED[3] / 255)


def test_a_row_has_one_score_in_any_batch(residual):
    alone = np.concatenate([residual.log_ratio(TEST[i : i + 1]) for i in range(10)])
    assert_allclose(alone, residual.log_ratio(TEST)[:10], rtol=1e-10)


@pytest.mark.parametrize("name", ["shift", "crop", "flip", "cutout", "affine"])
@pytest.mark.parametrize("shape", [(16, 16), (3, 16, 20)])
def test_augmentations_keep_shape_and_range_and_follow_the_seed(name, shape):
    images = torch.rand(30, *shape)
    before = images.clone()
    change = make_augment(name)
    results = []
    for seed in (0, 0, 1):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            results.append(change(images))
    assert torch.equal(images, before)
    assert torch.equal(results[0], results[1])
    assert not torch.equal(results[0], results[2])
    assert all(r.shape == images.shape and r.dtype == images.dtype for r in results)
    assert min(r.min() for r in results) >= images.min()
    assert max(r.max() for r in results) <= images.max()


def test_flips_mirror_half_of_the_images():
    images = torch.rand(400, 1, 8, 8)
    mirrored = (make_augment("flip")(images) == images.flip(-1)).all(3).all(2).flatten()
    kept = (make_augment("flip")(images) == images).all(3).all(2).flatten()
    assert 120 < mirrored.sum() < 280  # 200, give or take eight standard deviations of 10
    assert kept.any()


@pytest.mark.parametrize("name", ["shift", "crop"])
def test_moved_images_hold_their_own_pixels(name):
    images = torch.rand(20, 2, 14, 14)
    moved = make_augment(name)(images)
    for image, result in zip(images.flatten(0, 1), moved.flatten(0, 1), strict=True):
        assert torch.isin(result, image).all()


def test_all_channels_of_an_image_move_together():
    images = torch.rand(20, 1, 14, 14).expand(20, 3, 14, 14)
    moved = make_augment("crop-flip-cutout")(images)
    assert torch.equal(moved[:, :1].expand_as(moved), moved)


def test_cutouts_replace_a_square_by_the_mean():
    images = torch.rand(50, 16, 16)
    changed = (make_augment("cutout")(images) != images).sum((1, 2))
    assert changed.max() == 16  # four by four, less where it reaches over the border
    assert changed.min() >= 4


def test_names_are_joined_and_wrong_ones_refused():
    assert make_augment(None) is None
    for wrong in ("turn", "crop-turn", "", 3):
        with pytest.raises(ParameterError, match="augment must be None, a function"):
            fitted(augment=wrong)
    with pytest.raises(DataError, match="changes images"):
        NetworkRatio(**SMALL, augment="flip").fit_ratio(POSITIVE.reshape(40, -1), UNLABELED.reshape(150, -1))
    with pytest.raises(ParameterError, match="must return a tensor of the shape"):
        fitted(augment=lambda rows: rows[:, :4])


def test_augmentation_changes_training_rows_alone():
    seen = []

    def spy(rows):
        seen.append(len(rows))
        return rows.flip(-1)

    model = fitted(augment=spy)
    before = len(seen)
    assert before > 0
    model.log_ratio(TEST)
    assert len(seen) == before
    assert max(seen) < 100  # batches, not all rows
