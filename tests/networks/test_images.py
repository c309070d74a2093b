"""Laws of networks on images: augmentation, eight bits, the residual network, shared rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from image_data import pictures
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from torch import nn

from drpu import NetworkRatio
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError, ParameterError
from drpu.networks import modules
from drpu.networks.augment import fixed_views, make_augment
from drpu.networks.fit import Network, fit_networks
from drpu.networks.loop import Pool, TrainingBatch
from drpu.networks.options import check_options, with_effort

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


def test_scores_are_averaged_over_views():
    model = fitted(augment="shift-flip", average_views=True)
    views = fixed_views("shift-flip")
    assert len(views) == 10
    plain = replace(model, views=None)
    images = torch.as_tensor(TEST)
    outputs = [plain.log_ratio(view(images).numpy()) for view in views]
    averaged = model.log_ratio(TEST)
    assert (averaged > np.min(outputs, axis=0) - 1e-9).all()
    assert (averaged < np.max(outputs, axis=0) + 1e-9).all()
    assert not np.allclose(averaged, outputs[0])
    mirrored = model.log_ratio(np.ascontiguousarray(TEST[:, :, ::-1]))
    assert_allclose(mirrored, averaged, rtol=1e-9)
    with pytest.raises(ParameterError, match="average_views must be False"):
        fitted(average_views=True)


def test_shared_rows_fit_what_pairs_of_batches_fit():
    """With one batch an epoch the two are the same risk, up to the statistics of batch norm."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 3))
    sample = SamplePair(Sample(rows, rng.random(80)), Sample(rows))
    learner = NetworkRatio(
        lambda: nn.Linear(3, 1), alpha=0.0, epochs=5, batch_size=80, dtype="float64", early_stopping=False
    )
    options = check_options(learner, (3,), 80)
    pair, once = (
        fit_networks(options, sample, None, [Network(0, 0.0)], shared=shared)[0].log_ratio(rows)
        for shared in (False, True)
    )
    assert_allclose(pair, once, rtol=1e-9)


def test_mixed_rows_are_averages_with_averaged_weights():
    rows, positive, unlabeled = torch.rand(1, 9, 2, 2), torch.rand(1, 9), torch.ones(1, 9)
    mixed = TrainingBatch(rows, rows, positive, unlabeled).mixed()
    assert mixed.shared
    assert_allclose(mixed.unlabeled_weight, 1, rtol=1e-6)
    share = (mixed.positive_weight - positive.roll(1, 1)) / (positive - positive.roll(1, 1))
    assert ((share > -1e-5) & (share < 1 + 1e-5)).all()
    wide = share[..., None, None]
    assert_allclose(mixed.unlabeled, wide * rows + (1 - wide) * rows.roll(1, 1), atol=1e-5)


TINY = {"hidden": (2,), "epochs": 2, "device": "cpu", "random_state": 0}
EFFORTS = ("low", "medium", "high")
PLAIN = {
    "average_views": False, "learning_rate": 3e-3, "teachers": 0, "students": 1, "refresh": 0, "mixup": False,
    "dtype": "float32",
}  # fmt: skip


@pytest.mark.parametrize(
    ("effort", "members"), [("low", 1), pytest.param("medium", 2, marks=pytest.mark.slow), ("high", 2)]
)
def test_an_effort_sets_the_options_that_are_left_open(effort, members):
    learner = NetworkRatio(network="resnet9", effort=effort, augment="shift", **TINY)
    model = learner.fit_ratio(POSITIVE, UNLABELED)
    assert (model.members, model.widths, len(model.history["risk"])) == (members, (2,), 2)
    assert model.views == (None if effort == "low" else "shift")
    assert learner.effort == effort  # the learner itself is not changed
    same = with_effort(learner, (16, 16), 150).fit_ratio(POSITIVE, UNLABELED)
    assert_array_equal(same.log_ratio(TEST), model.log_ratio(TEST))


def test_an_option_that_is_set_is_kept_whatever_the_effort():
    given = PLAIN | {"hidden": (8,), "epochs": 7, "batch_size": 50}
    for name, value in given.items():
        for effort in EFFORTS:
            learner = NetworkRatio(effort=effort, augment="flip", device="cpu", **{name: value})
            made = with_effort(learner, (32, 32), 45_000)
            assert getattr(made, name) == value
    automatic = NetworkRatio(effort="low", device="cpu", epochs="auto")
    assert with_effort(automatic, (32, 32), 45_000).epochs == 12  # that of the effort
    alone = with_effort(NetworkRatio(effort="high", teachers=0, device="cpu"), (32, 32), 45_000)
    assert (alone.students, alone.refresh, alone.mixup) == (1, 0, False)
    plain = NetworkRatio(**TINY)
    assert clone(plain).get_params() == plain.get_params()
    same = NetworkRatio(**TINY, **PLAIN).fit_ratio(POSITIVE, UNLABELED)
    assert_array_equal(plain.fit_ratio(POSITIVE, UNLABELED).log_ratio(TEST), same.log_ratio(TEST))


def test_efforts_rise_in_cost_and_fit_into_memory():
    levels = [with_effort(NetworkRatio(effort=name, device="cpu"), (3, 32, 32), 45_000) for name in EFFORTS]
    costs = [one.hidden[0] ** 2 * one.epochs * (one.teachers + one.rounds * one.students) for one in levels]
    assert costs == sorted(costs)
    assert [one.batch_size for one in levels] == [500, 500, 500]
    large = with_effort(NetworkRatio(effort="high", device="cpu"), (3, 512, 512), 45_000)
    assert large.batch_size == 16


@pytest.mark.parametrize(
    ("changes", "rows", "message"),
    [
        ({"effort": "most"}, UNLABELED, "effort must be"),
        ({"effort": "low", "network": "perceptron"}, UNLABELED, "effort must be None except for"),
        ({"effort": "low"}, UNLABELED[..., :12], "a side is shorter than 16 pixels, set network='resnet9'"),
        ({"effort": "low"}, UNLABELED.reshape(150, -1), "effort must be None except for"),
        ({"effort": "low", "module": lambda: nn.Linear(1, 1)}, UNLABELED, "effort must be None except for"),
    ],
)
def test_efforts_are_for_the_residual_network(changes, rows, message):
    with pytest.raises(ParameterError, match=message):
        NetworkRatio(device="cpu", **changes).fit_ratio(rows[:60], rows)
