"""Laws of the torch loop's parts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

from drpu.exceptions import ParameterError
from drpu.models import Scaling
from drpu.models.risks import GENERATORS
from drpu.networks.fit import RatioObjective, on_outputs
from drpu.networks.loop import (
    HALVE_EVERY,
    Aim,
    Pool,
    Settings,
    Stack,
    Training,
    TrainingRows,
    count_steps,
    precision,
    private_random,
    rate_factors,
)
from drpu.networks.modules import log_ratio_of, ratio_of

CPU = torch.device("cpu")


def generators(*seeds: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in seeds]


def seeded(make, seed):
    with private_random(seed, CPU):
        return make()


def small_net(seed: int = 0) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1)), seed)


def conv_net(seed: int = 0) -> nn.Module:
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1)
        ),
        seed,
    )


def tied_net(seed: int = 0) -> nn.Module:
    """A network in which one layer is used under two names."""
    line = seeded(lambda: nn.Linear(3, 3), seed)
    return nn.Sequential(line, nn.ReLU(), line, seeded(lambda: nn.Linear(3, 1), seed))


def pool(rows: np.ndarray) -> Pool:
    return Pool(torch.as_tensor(rows), dtype=torch.float64)


def objective_of(generator: str, head: str, alpha: float, n: int = 1) -> RatioObjective:
    strengths = torch.full((n,), alpha, dtype=torch.float64)
    return RatioObjective(GENERATORS[generator], head, strengths)


def training(stack: Stack, *, alpha=0.2, generator="bkl", head="exp", holdout=False, seeds=None, **changes):
    rng = np.random.default_rng(0)
    n = len(stack)
    objective = objective_of(generator, head, alpha, n)
    options = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01, "weight_decay": 0.1} | changes
    held = (pool(rng.normal(1, 1, (20, 3))), pool(rng.normal(0, 1, (40, 3)))) if holdout else None
    return Training(
        stack,
        TrainingRows(pool(rng.normal(1, 1, (17, 3))), pool(rng.normal(0, 1, (50, 3)))),
        Aim(on_outputs(objective.risk), objective.criterion),
        Settings(**options),
        seeds=list(range(n)) if seeds is None else seeds,
        holdout=held,
    )


def paired_positions(n_positive, n_unlabeled, steps, own):
    rows = TrainingRows(pool(np.zeros((n_positive, 1))), pool(np.zeros((n_unlabeled, 1))))
    return rows.epoch(steps, own)


@given(n_positive=st.integers(1, 40), n_unlabeled=st.integers(1, 120), batch_size=st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_an_epoch_sweeps_both_samples_exactly_once(n_positive, n_unlabeled, batch_size):
    steps = count_steps(n_unlabeled, batch_size)
    pairs = list(paired_positions(n_positive, n_unlabeled, steps, generators(1, 2)))
    assert len(pairs) == steps
    for kind, n in enumerate((n_positive, n_unlabeled)):
        for model in range(2):
            parts = [pair[kind][model].numpy() for pair in pairs]
            sizes = {part.size for part in parts}
            assert min(sizes) >= 1
            assert max(sizes) - min(sizes) <= 1
            seen = np.bincount(np.concatenate(parts), minlength=n)
            if n >= steps:
                assert_array_equal(seen, 1)
            else:  # fewer rows than steps: they are used in turn
                assert seen.max() - seen.min() <= 1


def test_batches_of_a_model_do_not_depend_on_the_stack_it_is_in():
    together = list(paired_positions(9, 30, 4, generators(3, 7)))
    alone = list(paired_positions(9, 30, 4, generators(7)))
    for (positive, unlabeled), (positive_alone, unlabeled_alone) in zip(together, alone, strict=True):
        assert torch.equal(positive[1:], positive_alone)
        assert torch.equal(unlabeled[1:], unlabeled_alone)


def test_orders_differ_between_epochs():
    generator = generators(0)
    first, second = (list(paired_positions(9, 30, 1, generator)) for _ in range(2))
    assert not torch.equal(first[0][1], second[0][1])


@pytest.mark.parametrize("optimizer", ["adamw", "adam"])
def test_each_network_moves_as_under_torch_adam(optimizer):
    """The weights after a run are those of a plain loop over the same batches."""
    modules = [small_net(seed).double() for seed in range(2)]
    run = training(
        Stack(modules, device=CPU, dtype=torch.float64),
        optimizer=optimizer,
        decay="constant",
        betas=(0.5, 0.99),
    )
    outcome = run.run()
    kind = torch.optim.AdamW if optimizer == "adamw" else torch.optim.Adam
    for i, module in enumerate(modules):
        rows, own = run.rows, generators(i)
        plain = kind(module.parameters(), lr=0.01, betas=(0.5, 0.99), weight_decay=0.1)
        loss = on_outputs(objective_of("bkl", "exp", 0.2).risk)
        for _ in range(3):
            for positions in rows.epoch(run.n_steps, own):
                plain.zero_grad()
                risk = loss(lambda x: module(x[0])[:, 0][None], rows.batch(*positions))  # noqa: B023
                risk.objective.sum().backward()
                plain.step()
        for name, value in outcome.module(i).named_parameters():
            assert_allclose(value.detach(), dict(module.named_parameters())[name].detach(), rtol=1e-7)


def test_rates_follow_their_formulas():
    cosine = rate_factors("cosine", epochs=5, steps=4)
    assert_allclose(cosine, (1 + np.cos(np.pi * np.arange(20) / 20)) / 2)
    assert_array_equal(rate_factors("constant", epochs=2, steps=3), np.ones(6))
    halved = rate_factors("step", epochs=2 * HALVE_EVERY + 1, steps=3)
    assert_array_equal(np.flatnonzero(np.diff(halved)) + 1, [3 * HALVE_EVERY, 6 * HALVE_EVERY])
    assert_array_equal(np.unique(halved), [0.25, 0.5, 1.0])


def test_average_follows_its_recursion():
    stack = Stack([small_net()], device=CPU, dtype=torch.float64)
    run = training(stack, ema=0.4, epochs=2)
    seen = [stack.weights.clone()]
    step, run.step = run.step, lambda *pair: (step(*pair), seen.append(stack.weights.clone()))
    outcome = run.run()
    expected = seen[0]
    for t, weights in enumerate(seen[1:]):
        decay = min(0.4, (2 + t) / (11 + t))
        expected = decay * expected + (1 - decay) * weights
    assert_allclose(outcome.weights, expected)
    assert int(outcome.fixed["1.num_batches_tracked"]) == 2 * run.n_steps == len(seen) - 1


@pytest.mark.parametrize("make", [small_net, conv_net, tied_net])
@pytest.mark.parametrize("train", [True, False])
def test_a_stack_gives_what_its_modules_give(make, train):
    modules = [make(seed).double().train(train) for seed in range(3)]
    stack = Stack(modules, device=CPU, dtype=torch.float64)
    stack.module.train(train)
    shape = (1, 4, 4) if make is conv_net else (3,)
    rows = torch.randn(3, 7, *shape, generator=generators(0)[0], dtype=torch.float64)

    batched = stack(rows)
    for i, module in enumerate(modules):
        assert_allclose(batched[i].detach(), module(rows[i])[:, 0].detach(), rtol=1e-10)
        after = stack.extract(i, stack.weights.detach(), stack.fixed).state_dict()
        for name, value in module.state_dict().items():  # batch norm uses its own rows
            assert_allclose(after[name], value, rtol=1e-10)


def test_modules_that_cannot_be_batched_are_called_in_turn():
    class Last(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(3, 1)

        def forward(self, rows):
            return self.line(rows) if float(rows.sum()) > 0 else -self.line(rows)

    stack = Stack([seeded(Last, seed) for seed in range(2)], device=CPU)
    rows = torch.ones(2, 4, 3)
    stack.probe(rows)
    assert not stack.batched
    assert stack(rows).shape == (2, 4)


def test_a_stack_refuses_what_it_cannot_train():
    with pytest.raises(ParameterError, match="one architecture"):
        Stack([nn.Linear(3, 1), nn.Linear(4, 1)], device=CPU)
    with pytest.raises(ParameterError, match="weights to train"):
        Stack([nn.ReLU()], device=CPU)
    with pytest.raises(ParameterError, match=r"map 5 rows to shape \(5,\) or \(5, 1\), got \(5, 2\)"):
        Stack([nn.Linear(3, 2)], device=CPU)(torch.zeros(1, 5, 3))


def test_gradient_of_a_stack_has_the_lines_of_its_weights():
    class Spare(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused, self.line = nn.Linear(2, 2), nn.Linear(3, 1)

        def forward(self, rows):
            return self.line(rows)

    stack = Stack([seeded(Spare, seed) for seed in range(2)], device=CPU, dtype=torch.float64)
    rows = torch.randn(2, 4, 3, generator=generators(0)[0], dtype=torch.float64)
    for batched in (True, False):
        stack.batched = batched
        stack.backward((stack(rows) * torch.tensor([[1.0], [5.0]])).sum())
        gradient = stack.slopes
        assert_array_equal(gradient[:, :6], 0)  # of the unused layer
        expected = torch.stack([rows[0].sum(0), 5 * rows[1].sum(0)])
        assert_allclose(gradient[:, 6:9], expected, rtol=1e-12)
        assert_allclose(gradient[:, 9], [4, 20])


def test_frozen_weights_stay_as_they_are():
    module = small_net()
    module[0].requires_grad_(False)
    stack = Stack([module], device=CPU, dtype=torch.float64)
    outcome = training(stack).run()
    assert torch.equal(outcome.module(0)[0].weight, module[0].weight.double())
    assert not torch.equal(outcome.module(0)[3].weight, module[3].weight.double())


@pytest.mark.parametrize("ema", [None, 0.9])
def test_a_stacked_run_equals_the_runs_alone(ema):
    modules = [small_net(seed) for seed in range(3)]
    options = {"ema": ema, "epochs": 4, "holdout": True}
    together = training(Stack(modules, device=CPU, dtype=torch.float64), **options).run()
    for i, module in enumerate(modules):
        alone = training(Stack([module], device=CPU, dtype=torch.float64), seeds=[i], **options).run()
        assert_allclose(together.weights[i], alone.weights[0], rtol=1e-8, atol=1e-10)
        assert_allclose(together.risk[:, i], alone.risk[:, 0], rtol=1e-8)
        assert_allclose(together.holdout_risk[:, i], alone.holdout_risk[:, 0], rtol=1e-8)
        assert together.best_epoch[i] == alone.best_epoch[0]


@pytest.mark.parametrize("head", ["softplus", "exp"])
def test_heads_agree_on_ratio_and_logarithm(head):
    output = torch.linspace(-700, 30, 200, dtype=torch.float64)
    log_ratio = log_ratio_of(head, output)
    assert_allclose(
        log_ratio.exp(), ratio_of(head, output), rtol=1e-7
    )  # torch's softplus is linear from 20 on
    assert (log_ratio.diff() > 0)[output[1:] < 20].all()


def test_softplus_scores_keep_their_order_far_below():
    output = torch.tensor([-1e4, -500.0, -15.0 - 1e-9, -15.0 + 1e-9, 0.0], dtype=torch.float64)
    log_ratio = log_ratio_of("softplus", output)
    assert_allclose(log_ratio[:2], output[:2])
    assert_allclose(log_ratio[2:4], output[2:4] - np.exp(-15.0) / 2, atol=1e-12)
    assert_allclose(log_ratio[4], np.log(np.log(2)))


@pytest.mark.parametrize("generator", ["lsif", "ukl", "bkl"])
@pytest.mark.parametrize("head", ["softplus", "exp"])
def test_gradients_stay_finite_at_extreme_outputs(generator, head):
    objective = objective_of(generator, head, 0.3)
    output = torch.tensor([[-80.0, -20.0, 0.0, 20.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(objective.risk(output, output, None, None).objective.sum(), output)
    assert torch.isfinite(gradient).all()


def test_scaling_ignores_still_columns_and_tames_outliers():
    rows = np.array([[1e9, 5.0], [1e9 + 1, 5.0], [1e9 + 2, 5.0]])
    scaled = Scaling.of(rows, None).softly_clipped(np.vstack([rows, [[1e30, 5.0]]]))
    assert_allclose(scaled[:3, 0], np.array([-1, 0, 1]) * np.sqrt(1.5) / np.sqrt(1 + 1.5 / 9), rtol=1e-6)
    assert_allclose(scaled[3, 0], 3.0)
    assert_array_equal(scaled[:, 1], 0)


def test_types_of_gpus_change_nothing_on_a_cpu():
    rows = torch.randn(64, 32, generator=torch.Generator().manual_seed(0))
    plain = rows @ rows.T
    for dtype in ("float32", "tf32", "bfloat16"):
        with precision(dtype, CPU):
            assert torch.equal(rows @ rows.T, plain)
