"""Networks that are trained together in the experiments of the paper."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

from drpu import NetworkRatio
from drpu.exceptions import ParameterError
from drpu.models.risks import ShiftedRisk, VariationalRisk
from drpu.networks.learner import NetworkScore
from paper.networks import residual_network
from paper.pooling import MaxPool2
from paper.stacks import Places, fit_many

RNG = np.random.default_rng(0)
POSITIVE = RNG.normal(1.5, 1, (60, 2))
UNLABELED = np.concatenate([RNG.normal(1.5, 1, (120, 2)), RNG.normal(-1.5, 1, (180, 2))])
ROWS = np.concatenate([POSITIVE, UNLABELED])
X = RNG.normal(0, 2, (50, 2))
PLACES = Places(np.arange(60), np.arange(60, 360))
HELD = Places(np.arange(40), np.arange(60, 260), (np.arange(40, 60), np.arange(260, 360)))
OPTIONS = {"epochs": 3, "batch_size": 50, "learning_rate": 1e-2, "early_stopping": False, "device": "cpu"}
OPTIONS |= {"dtype": "float64"}


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))


def ratios(*changes, **common):
    return [NetworkRatio(net, **OPTIONS | {"alpha": 0.3} | common | change) for change in changes]


def scores(n, **common):
    return [NetworkScore(net, **OPTIONS | common, random_state=seed) for seed in range(n)]


def test_a_stack_fits_what_its_networks_fit_alone():
    changes = [
        {"random_state": 0, "alpha": 0.1},
        {"random_state": 1, "learning_rate": 3e-3},
        {"random_state": 2, "weight_decay": 0.1},
        {"random_state": 1},
    ]
    learners = ratios(*changes, early_stopping=True)
    places = [HELD, HELD, HELD, HELD]
    for learner, together in zip(learners, fit_many(learners, ROWS, places), strict=True):
        alone = learner.fit_ratio(
            ROWS[HELD.positive], ROWS[HELD.unlabeled], holdout=(ROWS[HELD.held[0]], ROWS[HELD.held[1]])
        )
        assert together.alpha == alone.alpha
        assert together.best_epoch == alone.best_epoch
        assert_allclose(together.history["holdout_risk"], alone.history["holdout_risk"], rtol=1e-7)
        assert_allclose(together.log_ratio(X), alone.log_ratio(X), rtol=1e-6)


def test_each_network_has_rows_and_weights_of_its_own():
    first = Places(np.arange(0, 40), np.arange(60, 200), weight=np.arange(1.0, 41))
    second = Places(np.arange(20, 60), np.arange(220, 360), weight=np.ones(40))
    learners = ratios({"random_state": 0}, {"random_state": 0})
    for place, learner, together in zip(
        (first, second), learners, fit_many(learners, ROWS, [first, second]), strict=True
    ):
        alone = learner.fit_ratio(ROWS[place.positive], ROWS[place.unlabeled], positive_weight=place.weight)
        assert_allclose(together.log_ratio(X), alone.log_ratio(X), rtol=1e-6)


def test_each_network_has_its_own_priors():
    objectives = [ShiftedRisk(*priors, corrected=True) for priors in ((0.4, 0.4), (0.4, 0.8), (0.3, 0.2))]
    together = fit_many(scores(3), ROWS, [PLACES] * 3, objectives=objectives)
    for i, objective in enumerate(objectives):
        (alone,) = fit_many(scores(3)[i : i + 1], ROWS, [PLACES], objectives=[objective])
        assert_allclose(together[i].score(X), alone.score(X), rtol=1e-6, atol=1e-9)


def test_variational_networks_keep_their_best_epoch_on_repeated_positives():
    place = HELD.repeated()
    assert len(place.positive) == len(place.unlabeled)
    objectives = [VariationalRisk(mixup=1.0)] * 2
    for score in fit_many(scores(2, early_stopping=True), ROWS, [place] * 2, objectives=objectives):
        assert score.best_epoch == 1 + np.argmin(score.history["holdout_risk"])
        assert np.isfinite(score.score(X)).all()


def test_watched_epochs_see_the_networks_as_they_are():
    seen = []
    learners = ratios({"random_state": 0}, {"random_state": 1})
    index = [np.arange(10), np.arange(10, 20)]

    def watch(epoch, score):
        seen.append((epoch, score(X), score(X, index)))

    functions = fit_many(learners, ROWS, [PLACES, PLACES], run={"ema": None}, on_epoch=watch)
    assert [epoch for epoch, *_ in seen] == [1, 2, 3]
    _, last, parts = seen[-1]
    assert not np.allclose(seen[0][1], last)
    assert_allclose(last, np.stack([function.log_ratio(X) for function in functions]), rtol=1e-6)
    assert_allclose(parts, [last[0, :10], last[1, 10:20]], rtol=1e-6)


def test_stacks_refuse_what_they_cannot_train():
    with pytest.raises(ParameterError, match="equally many rows"):
        fit_many(ratios({}, {}), ROWS, [PLACES, HELD])
    with pytest.raises(ParameterError, match="same in networks that are watched"):
        fit_many(ratios({}, {"learning_rate": 0.1}), ROWS, [PLACES] * 2, on_epoch=lambda *_: None)
    with pytest.raises(ParameterError, match="a number alpha"):
        fit_many(ratios({"alpha": "auto"}), ROWS, [PLACES])


def test_the_residual_network_of_the_paper_is_that_of_the_library():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (60, 16, 16), dtype=np.uint8)
    options = {"alpha": 0.3, "epochs": 1, "random_state": 0, "device": "cpu"}
    ours = NetworkRatio(network="resnet9", hidden=(2,), **options).fit_ratio(images[:20], images)
    theirs = NetworkRatio(residual_network(images, 2), **options).fit_ratio(images[:20], images)
    assert any(isinstance(layer, MaxPool2) for layer in theirs.torch_module.layers)
    assert_allclose(theirs.log_ratio(images), ours.log_ratio(images), rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the kernels need a GPU")
@pytest.mark.parametrize("sides", [(6, 4), (7, 5)])
def test_pooling_has_the_gradient_of_torch(sides):
    images = torch.rand(2, 3, *sides, device="cuda", requires_grad=True)
    expected = torch.nn.functional.max_pool2d(images, 2)
    weight = torch.rand_like(expected)
    (slope,) = torch.autograd.grad((expected * weight).sum(), images)
    found = MaxPool2()(images)
    (own,) = torch.autograd.grad((found * weight).sum(), images)
    assert torch.equal(found, expected)
    assert torch.equal(own, slope)
