"""Laws of training: weights, batches and averages, seen in small networks of the user."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from drpu import NetworkRatio
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ParameterError
from drpu.models import Scaling
from drpu.models.risks import GENERATORS, bregman_risk, nonnegative_bregman_risk
from drpu.networks import modules
from drpu.networks.fit import fit_ratio
from drpu.networks.loop import rate_factors
from drpu.networks.options import check_options

RNG = np.random.default_rng(0)
POSITIVE, UNLABELED = RNG.normal(1, 1, (60, 3)), RNG.normal(0, 1, (200, 3))
PLAIN = {
    "alpha": 0.2, "epochs": 3, "batch_size": 32, "learning_rate": 0.01, "weight_decay": 0.1,
    "early_stopping": False, "dtype": "float64", "device": "cpu", "random_state": 0,
}  # fmt: skip
RUN = {"head": "exp", "decay": "constant", "ema": None, "optimizer": "adamw", "betas": (0.9, 0.999)}


def fit(module, positive=POSITIVE, unlabeled=UNLABELED, **changes):
    """The function of a network of the user, with options of a run that learners do not have."""
    run = {name: changes.pop(name, value) for name, value in RUN.items()}
    learner = NetworkRatio(module, **PLAIN | changes)
    options = replace(check_options(learner, positive.shape[1:], len(unlabeled)), **run)
    return fit_ratio(options, SamplePair(Sample(positive), Sample(unlabeled)), None)


def seeded(make):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return make().double()


def small_net() -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1)))


def conv_net() -> nn.Module:
    return seeded(
        lambda: nn.Sequential(nn.Unflatten(1, (1, 3)), nn.Conv1d(1, 2, 2), nn.Flatten(), nn.Linear(4, 1))
    )


def tied_net() -> nn.Module:
    """A network in which one layer is used under two names."""
    line = seeded(lambda: nn.Linear(3, 3))
    return nn.Sequential(line, nn.ReLU(), line, seeded(lambda: nn.Linear(3, 1)))


class Branch(nn.Module):
    """A network that cannot be evaluated together with others, and that has a layer without use."""

    def __init__(self):
        super().__init__()
        self.line, self.unused = nn.Linear(3, 1), nn.Linear(2, 2)

    def forward(self, rows):
        return self.line(rows) if float(rows.sum()) > 0 else -self.line(rows)


def branch_net() -> nn.Module:
    return seeded(Branch)


every_network = pytest.mark.parametrize("make", [small_net, conv_net, tied_net, branch_net])


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
@every_network
def test_a_network_moves_as_under_torch_adam(make, optimizer):
    """The weights after some steps with all rows are those of a plain loop."""
    module = make()
    model = fit(module, batch_size=1000, optimizer=optimizer, betas=(0.5, 0.99))
    rows = torch.as_tensor(np.concatenate([POSITIVE, UNLABELED]))
    plain = deepcopy(module).train()
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    adam = kind(plain.parameters(), lr=0.01, betas=(0.5, 0.99), weight_decay=0.1)
    for _ in range(3):
        adam.zero_grad()
        log_ratio = plain(rows)[:, 0]
        parts = log_ratio[:60], log_ratio[60:]
        risk = nonnegative_bregman_risk(*parts, alpha=0.2, generator=GENERATORS["bkl"], log=True)
        risk.objective.backward()
        adam.step()
    trained = dict(model.torch_module.named_parameters())
    for name, value in plain.named_parameters():
        if "unused" not in name:
            assert_allclose(trained[name].detach(), value.detach(), rtol=1e-7)


@pytest.mark.parametrize("ema", [None, 0.9])
@every_network
def test_networks_that_are_trained_together_are_those_trained_alone(make, ema):
    """Five values of alpha are tried, and the best network is that of a fit with its alpha."""
    options = {"ema": ema, "epochs": 4, "early_stopping": True}
    together = fit(make(), alpha="auto", **options)
    alone = fit(make(), alpha=together.alpha, **options)
    assert together.best_epoch == alone.best_epoch
    for name in ("risk", "holdout_risk"):
        assert_allclose(together.history[name], alone.history[name], rtol=1e-8)
    for name, value in together.weights.items():  # batch norm uses its own rows
        assert_allclose(value, alone.weights[name], rtol=1e-8, atol=1e-10)


class Noted(nn.Linear):
    """A network that notes the rows of each step."""

    steps: tuple = ()

    def forward(self, rows):
        if self.training:
            Noted.steps += (rows[:, 0].numpy().astype(int),)
        return super().forward(rows)


@given(n_positive=st.integers(1, 40), n_unlabeled=st.integers(2, 120), batch_size=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_an_epoch_sweeps_both_samples_exactly_once(n_positive, n_unlabeled, batch_size):
    numbers = np.arange(float(n_unlabeled + n_positive))[:, None]
    Noted.steps = ()
    parts = numbers[n_unlabeled:], numbers[:n_unlabeled]
    fit(seeded(lambda: Noted(1, 1)), *parts, epochs=2, batch_size=batch_size)
    n_steps = max(1, n_unlabeled // batch_size)
    assert len(Noted.steps) == 2 * n_steps
    for epoch in (Noted.steps[:n_steps], Noted.steps[n_steps:]):
        for start, n in ((n_unlabeled, n_positive), (0, n_unlabeled)):
            parts = [step[(step >= start) & (step < start + n)] - start for step in epoch]
            sizes = {part.size for part in parts}
            assert min(sizes) >= 1
            assert max(sizes) - min(sizes) <= 1
            seen = np.bincount(np.concatenate(parts), minlength=n)
            if n >= n_steps:
                assert_array_equal(seen, 1)
            else:  # fewer rows than steps: they are used in turn
                assert sizes == {1}
                assert seen.max() - seen.min() <= 1
    if n_unlabeled > 20:
        orders = np.concatenate(Noted.steps).reshape(2, -1)
        assert not np.array_equal(orders[0], orders[1])


def test_rates_follow_their_formulas():
    cosine = rate_factors("cosine", epochs=5, steps=4)
    assert_allclose(cosine, (1 + np.cos(np.pi * np.arange(20) / 20)) / 2)
    assert_array_equal(rate_factors("constant", epochs=2, steps=3), np.ones(6))
    halved = rate_factors("step", epochs=41, steps=3)
    assert_array_equal(np.flatnonzero(np.diff(halved)) + 1, [60, 120])
    assert_array_equal(np.unique(halved), [0.25, 0.5, 1.0])


def test_average_follows_its_recursion():
    module = small_net()
    names = ("0.weight", "1.running_mean")
    expected = [module.state_dict()[name].numpy() for name in names]
    for t in range(5):  # one step in each epoch
        weights = fit(module, batch_size=1000, epochs=t + 1).weights
        decay = min(0.4, (2 + t) / (11 + t))
        for k, name in enumerate(names):
            expected[k] = decay * expected[k] + (1 - decay) * weights[name]
    averaged = fit(module, batch_size=1000, epochs=5, ema=0.4).weights
    for name, value in zip(names, expected, strict=True):
        assert_allclose(averaged[name], value)
    assert averaged["1.num_batches_tracked"] == 5


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.ReLU(), "weights to train"),
        (nn.Linear(3, 2), r"map \d+ rows to shape \(\d+,\) or \(\d+, 1\), got \(\d+, 2\)"),
    ],
)
def test_networks_that_cannot_be_trained_are_refused(module, message):
    with pytest.raises(ParameterError, match=message):
        fit(module)


def test_frozen_weights_stay_as_they_are():
    module = small_net()
    module[0].requires_grad_(False)
    trained = fit(module).torch_module
    assert torch.equal(trained[0].weight, module[0].weight)
    assert not torch.equal(trained[3].weight, module[3].weight)


def test_types_of_gpus_change_nothing_on_a_cpu():
    scores = [fit(small_net(), dtype=dtype).log_ratio(UNLABELED) for dtype in ("float32", "tf32", "bfloat16")]
    assert_array_equal(scores[0], scores[1])
    assert_array_equal(scores[0], scores[2])


# -- from outputs to ratios ------------------------------------------------------------------------


@pytest.mark.parametrize("head", ["softplus", "exp"])
def test_heads_agree_on_ratio_and_logarithm(head):
    output = torch.linspace(-700, 30, 200, dtype=torch.float64)
    log_ratio = modules.log_ratio_of(head, output)
    assert_allclose(
        log_ratio.exp(), modules.ratio_of(head, output), rtol=1e-7
    )  # torch's softplus is linear from 20 on
    assert (log_ratio.diff() > 0)[output[1:] < 20].all()


def test_softplus_scores_keep_their_order_far_below():
    output = torch.tensor([-1e4, -500.0, -15.0 - 1e-9, -15.0 + 1e-9, 0.0], dtype=torch.float64)
    log_ratio = modules.log_ratio_of("softplus", output)
    assert_allclose(log_ratio[:2], output[:2])
    assert_allclose(log_ratio[2:4], output[2:4] - np.exp(-15.0) / 2, atol=1e-12)
    assert_allclose(log_ratio[4], np.log(np.log(2)))


@pytest.mark.parametrize("generator", ["lsif", "ukl", "bkl"])
@pytest.mark.parametrize("head", ["softplus", "exp"])
def test_gradients_stay_finite_at_extreme_outputs(generator, head):
    output = torch.tensor([-80.0, -20.0, 0.0, 20.0], requires_grad=True)
    log = generator != "lsif"
    linked = (modules.log_ratio_of if log else modules.ratio_of)(head, output)
    options = {"generator": GENERATORS[generator], "log": log}
    for risk in (
        nonnegative_bregman_risk(linked, linked, alpha=0.3, **options).objective,
        bregman_risk(linked, linked, **options),
    ):
        (gradient,) = torch.autograd.grad(risk, output, retain_graph=True)
        assert torch.isfinite(gradient).all()


def test_scaling_ignores_still_columns_and_tames_outliers():
    rows = np.array([[1e9, 5.0], [1e9 + 1, 5.0], [1e9 + 2, 5.0]])
    scaled = Scaling.of(rows, None).softly_clipped(np.vstack([rows, [[1e30, 5.0]]]))
    assert_allclose(scaled[:3, 0], np.array([-1, 0, 1]) * np.sqrt(1.5) / np.sqrt(1 + 1.5 / 9), rtol=1e-6)
    assert_allclose(scaled[3, 0], 3.0)
    assert_array_equal(scaled[:, 1], 0)
