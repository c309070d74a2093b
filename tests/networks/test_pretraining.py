"""Laws of networks that first learn from images without labels."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from drpu import DRPUClassifier, NetworkRatio, NNPUClassifier, suspects
from drpu.exceptions import FewPositivesWarning, ParameterError
from drpu.networks import fit, modules
from drpu.networks.fit import Pretraining, contrast, pretrained, view

SIDE = 12
SMALL = {"network": "resnet9", "hidden": (2,), "epochs": 2, "alpha": 0.3, "device": "cpu", "random_state": 0}


def blobs(n, seed):
    """Images of eight bits, each with some bright squares of its own."""
    coarse = np.random.default_rng(seed).integers(0, 2, (n, 4, 4))
    return (255 * coarse.repeat(3, axis=-2).repeat(3, axis=-1)).astype(np.uint8)


def stripes(n, seed, channels):
    """Images of stripes, in a direction of its own each."""
    rng = np.random.default_rng(seed)
    angle, phase = rng.uniform(0, np.pi, (n, 1, 1, 1)), rng.uniform(0, 6, (n, channels, 1, 1))
    y, x = np.mgrid[:16, :16]
    return (127 * (1 + np.sin(0.8 * (np.cos(angle) * x + np.sin(angle) * y) + phase))).astype(np.uint8)


def trained(rows, epochs, seed=0):
    torch.manual_seed(1)
    start = modules.ResNet9(rows.shape[1:], 4)
    start.standardise(rows)
    settings = Pretraining(epochs, batch_size=50, seed=seed, device="cpu")
    return start, pretrained(start, rows, settings)


def loss_on(rows, network):
    """The loss of features without the small network behind them, for views of new images."""
    images = torch.as_tensor(rows) / 255
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        both = torch.cat([view(images, None, (0, 1)) for _ in range(2)])
        return float(contrast(network.eval().features(both)))


def test_the_loss_is_the_cross_entropy_of_the_other_view():
    outputs = torch.as_tensor(np.random.default_rng(0).normal(size=(6, 3)))
    unit = (outputs / outputs.norm(dim=1, keepdim=True)).numpy()
    losses = []
    for i in range(6):
        likeness = np.exp(unit @ unit[i] / 0.2)  # the temperature
        losses.append(-np.log(likeness[(i + 3) % 6] / np.delete(likeness, i).sum()))
    assert float(contrast(outputs)) == pytest.approx(np.mean(losses))
    assert float(contrast(7 * outputs)) == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("shape", [(9, 12), (3, 9, 12)])
def test_a_view_keeps_shape_darkest_pixels_and_type(shape):
    images = torch.rand(40, *shape) - 3
    images[:20] = -3
    seen = view(images, lambda rows: rows.flip(-1), (-3.0, -2.0))
    assert seen.shape == images.shape
    assert seen.dtype == images.dtype
    assert_allclose(seen[:20].numpy(), -3, atol=1e-3)
    assert float(seen.min()) >= -3
    assert float(seen.max()) <= -3 + np.exp(0.5) + 1e-3  # the largest gain
    assert not torch.equal(seen[20:], images[20:].flip(-1))


@pytest.mark.parametrize("channels", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_new_images_are_found_again_by_a_pretrained_network(channels):
    rows, new = stripes(400, 0, channels), stripes(100, 1, channels)
    before, after = (loss_on(new, network) for network in trained(rows, 10))
    assert before == pytest.approx(np.log(199), abs=0.2)  # as by chance
    assert after < before - 0.4


def test_pretraining_leaves_its_argument_and_follows_its_seed():
    rows = blobs(60, 0)
    start, network = trained(rows, 1)
    kept = {name: value.clone() for name, value in start.state_dict().items()}
    again, other = (
        pretrained(start, rows, Pretraining(1, batch_size=50, seed=seed, device="cpu")) for seed in (0, 1)
    )
    first = [one.layers[0].weight.detach().numpy() for one in (network, again, other)]
    assert_array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])
    assert all(torch.equal(value, kept[name]) for name, value in start.state_dict().items())
    assert torch.equal(network.last.weight, start.last.weight)


@pytest.mark.parametrize("teachers", [0, 1])
def test_networks_start_from_what_was_learned_without_labels(teachers):
    positive, unlabeled = blobs(40, 0), blobs(120, 1)
    scores = [
        NetworkRatio(pretrain=n, teachers=teachers, **SMALL)
        .fit_ratio(positive, unlabeled)
        .log_ratio(unlabeled)
        for n in (0, 1, 1)
    ]
    assert_array_equal(scores[1], scores[2])
    assert not np.allclose(scores[0], scores[1])


def test_only_unlabeled_rows_in_training_are_used(monkeypatch):
    seen = []
    monkeypatch.setattr(fit, "pretrained", lambda first, rows, *_, **__: seen.append(rows) or first)
    positive, unlabeled = blobs(40, 0), blobs(120, 1)
    weight = np.ones(120)
    weight[:30] = 0
    for teachers in (0, 1):
        learner = NetworkRatio(pretrain=1, teachers=teachers, **SMALL)
        learner.fit_ratio(positive, unlabeled, unlabeled_weight=weight)
    used = {row.tobytes() for row in unlabeled[30:]}
    assert all(60 <= len(rows) < 90 and {row.tobytes() for row in rows} <= used for rows in seen)
    assert len(seen) == 2


def classifier(holdout, scenario="case-control", **options):
    network = NetworkRatio(pretrain=1, **options | SMALL)
    return DRPUClassifier(network, prior=0.5, holdout=holdout, scenario=scenario, random_state=0)


@pytest.fixture
def starts(monkeypatch):
    """The rows of each training without labels and its network, and the start of every network."""
    seen, started, start = [], [], fit.Options.start
    monkeypatch.setattr(fit, "pretrained", lambda first, rows, *_, **__: seen.append((rows, first)) or first)
    monkeypatch.setattr(
        fit.Options, "start", lambda self, *rest: started.append(self.first) or start(self, *rest)
    )
    return seen, started


def assert_shared(starts, rows, networks):
    """All networks start from one, which was trained without labels on ``rows``."""
    ((used, first),), started = starts
    assert_array_equal(used, rows)
    assert started[0] is None  # the one that is trained without labels
    assert len(started) == 1 + networks
    assert all(each is first for each in started[1:])


@pytest.mark.parametrize("teachers", [0, 1])
def test_folds_share_what_was_learned_without_labels(teachers, starts):
    X, y = blobs(400, 0), np.repeat([1, 0], [120, 280])
    classifier(3, teachers=teachers).fit(X, y)
    assert_shared(starts, X[120:], 3 * (1 + teachers))


@pytest.mark.parametrize("holdout", [3, 0.2])
@pytest.mark.parametrize("scenario", ["case-control", "single-sample"])
@pytest.mark.filterwarnings("ignore::drpu.exceptions.UnusedNegativesWarning")  # 30 rows of noise
def test_a_score_against_negatives_starts_from_the_unlabeled_rows(scenario, holdout, starts):
    positive, unlabeled, negative = blobs(120, 0), blobs(280, 1), blobs(30, 2)
    classifier(holdout, scenario).fit_pu(positive, unlabeled, negative)
    population = unlabeled if scenario == "case-control" else np.concatenate([unlabeled, negative])
    assert_shared(starts, population, 2 * (3 if holdout == 3 else 1))


def test_suspects_share_what_was_learned_without_labels(starts):
    X, y = blobs(160, 0), np.repeat([1, 0], [20, 140])
    clf = classifier(2)
    with pytest.warns(FewPositivesWarning):
        clf.fit(X, y)
    for of_the_fit in starts:
        of_the_fit.clear()
    suspects(clf, X, y, repeats=2)
    assert_shared(starts, X[20:], 2 * 10)


def test_pretraining_needs_the_residual_network_and_a_ratio():
    X, y = blobs(60, 0), np.repeat([1, 0], [20, 40])
    flat = np.random.default_rng(0).normal(size=(60, 3))
    for learner, rows in (
        (NetworkRatio(pretrain=1), flat),
        (NetworkRatio(modules.ResNet9((SIDE, SIDE), 2), pretrain=1), X),
    ):
        with pytest.raises(ParameterError, match="pretrain must be 0 except for network='resnet9', got 1"):
            learner.fit_ratio(rows[:20], rows[20:])
    with pytest.raises(ParameterError, match="pretrain must be left at its default in this model"):
        NNPUClassifier(prior=0.5, model=NetworkRatio(pretrain=1), scenario="case-control").fit(X, y)
