"""Training of two generators against three discriminators on positive and unlabeled rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu._arrays import FloatArray
from drpu._progress import progress, progress_bar
from drpu._samples import Sample, SamplePair
from drpu.networks.function import IMAGE, ClassGenerators, Game, Weights
from drpu.networks.loop import own_defaults, pick_device, private_random
from drpu.networks.modules import load_weights

SLOPE = 0.2
JUDGES = (0, 1, 1, 2)  # the discriminators of each generator: that of the mixture applies to both
BLUR = 0.5  # initial noise of rows, in standard deviations; it decreases to 0 over the first half
PENALTY = 1.0  # weight of the squared gradient of the discriminators at real rows
MEMORY = 0.995  # decay of the averaged generator weights, which are used for sampling
SAMPLED_AT_ONCE = 1000


class RowGenerator(nn.Sequential):
    """Maps noise to standardised rows of one class.

    It has convolutions for images of 28 by 28 pixels, and is a perceptron for other rows.
    """

    def __init__(self, shape: Sequence[int], noise: int, hidden: Sequence[int]) -> None:
        super().__init__(*_generator_layers(tuple(shape), noise, hidden))
        self.noise = noise

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @own_defaults()
    @torch.no_grad()
    def sample(self, n: int, seed: int) -> FloatArray:
        """``n`` rows, on the scale of the training."""
        device = self.device
        parts = []
        with private_random(seed, device):
            for start in range(0, n, SAMPLED_AT_ONCE):
                size = min(SAMPLED_AT_ONCE, n - start)
                parts.append(self(torch.randn(size, self.noise, device=device)))
        return np.asarray(torch.cat(parts).cpu().double().numpy())


@own_defaults()
def load_generator(generators: ClassGenerators, weights: Weights) -> RowGenerator:
    """One of the two networks with its weights, on their device and in evaluation mode."""
    with torch.device("meta"):  # the weights follow
        empty = RowGenerator(generators.mean.shape, generators.noise, generators.hidden)
    generator = empty.to_empty(device=pick_device(generators.device))
    load_weights(generator, weights)
    return generator.eval()


def _generator_layers(
    shape: tuple[int, ...], noise: int, hidden: Sequence[int]
) -> Iterator[nn.Module]:
    if shape == IMAGE:
        yield nn.Linear(noise, 64 * 49)
        yield nn.ReLU()
        yield nn.Unflatten(1, (64, 7, 7))
        yield nn.ConvTranspose2d(64, 32, 4, 2, 1)
        yield nn.ReLU()
        yield nn.ConvTranspose2d(32, 1, 4, 2, 1)
        yield nn.Flatten(1, 2)
        return
    widths = [noise, *hidden]
    for width, following in pairwise(widths):
        yield nn.Linear(width, following)
        yield nn.ReLU()
    yield nn.Linear(widths[-1], math.prod(shape))
    yield nn.Unflatten(1, shape)


@own_defaults()
def train_generators(
    standardised: SamplePair, settings: Game, *, prior: float, seed: int
) -> tuple[RowGenerator, RowGenerator]:
    """Generators of positive and of negative rows, after all steps."""
    device = pick_device(settings.device)
    with private_random(seed, device), progress_bar("steps", show=settings.verbose):
        training = _Training(standardised, settings, prior, device)
        for step in progress(range(settings.steps), total=settings.steps):
            blur = BLUR * max(0.0, 1 - 2 * step / settings.steps)
            training.step(blur)
    return training.averaged()


class _Training:
    """The five networks and their training step."""

    def __init__(
        self, samples: SamplePair, settings: Game, prior: float, device: torch.device
    ) -> None:
        self.settings = settings
        self.device = device
        self.positive = _Drawn(samples.positive, device)
        self.unlabeled = _Drawn(samples.unlabeled, device)

        shape = samples.positive.rows.shape[1:]
        self.of_positives = RowGenerator(shape, settings.noise, settings.hidden).to(device)
        self.of_negatives = RowGenerator(shape, settings.noise, settings.hidden).to(device)
        if shape == IMAGE:
            self.critics: nn.Module = _Convolutions().to(device)
        else:
            self.critics = _Perceptrons([math.prod(shape), *settings.hidden]).to(device)

        self.generator_weights = [*self.of_positives.parameters(), *self.of_negatives.parameters()]
        self.critic_weights = list(self.critics.parameters())
        self.current = [weight.detach() for weight in self.generator_weights]
        self.average = [weight.clone() for weight in self.current]
        self.generator_steps = self._optimizer(self.generator_weights)
        self.critic_steps = self._optimizer(self.critic_weights)

        pi = prior
        as_positive, as_unlabeled, unlike_positive = settings.strengths
        # One number per discriminator: its loss for generated rows, and that of the generator.
        self.critic_share = torch.tensor([1, pi, 1 - pi, 1], device=device)
        self.generator_share = torch.tensor(
            [
                as_positive * pi,
                as_unlabeled * pi,
                as_unlabeled * (1 - pi),
                unlike_positive * (1 - pi),
            ],
            device=device,
        )
        # D_n and the negative generator have the same goal: samples unlike positives.
        self.sign = torch.tensor([[-1.0], [-1.0], [-1.0], [1.0]], device=device)

    def step(self, blur: float) -> None:
        """One step of the discriminators, then of the generators.

        ``blur`` is the noise on all rows.
        """
        n = self.settings.batch_size
        positive = _blurred(self.positive.batch(n), blur)
        unlabeled = _blurred(self.unlabeled.batch(n), blur)
        real = torch.stack([positive, unlabeled, positive])
        like_positive = self._generated(self.of_positives, blur)
        like_negative = self._generated(self.of_negatives, blur)
        fakes = torch.stack([like_positive, like_positive, like_negative, like_negative])

        critics_loss = self._critics_loss(real, fakes.detach())
        _descend(self.critic_steps, critics_loss, self.critic_weights)
        judged = F.softplus(self.sign * self.critics(fakes)).mean(1)
        _descend(self.generator_steps, self.generator_share @ judged, self.generator_weights)
        torch._foreach_lerp_(self.average, self.current, 1 - MEMORY)

    def averaged(self) -> tuple[RowGenerator, RowGenerator]:
        """The generators of positives and of negatives, with their averaged weights."""
        for weight, average in zip(self.current, self.average, strict=True):
            weight.copy_(average)
        return self.of_positives.eval(), self.of_negatives.eval()

    def _optimizer(self, weights: list[nn.Parameter]) -> torch.optim.Optimizer:
        rate = self.settings.learning_rate
        return torch.optim.Adam(weights, lr=rate, betas=(0.5, 0.99), fused=True)

    def _critics_loss(self, real: Tensor, fakes: Tensor) -> Tensor:
        real = real.requires_grad_()
        of_real = self.critics(real)
        of_fakes = self.critics(fakes)
        loss_of_real = F.softplus(-of_real).mean(1).sum()
        loss_of_fakes = self.critic_share @ F.softplus(of_fakes).mean(1)
        # The gradient penalty at real rows prevents overfitting of few rows.
        (slope,) = torch.autograd.grad(of_real.sum(), real, create_graph=True)
        steepness = slope.flatten(2).square().sum(2).mean(1).sum()
        return loss_of_real + loss_of_fakes + PENALTY / 2 * steepness

    def _generated(self, generator: RowGenerator, blur: float) -> Tensor:
        size = (self.settings.batch_size, self.settings.noise)
        noise = torch.randn(*size, device=self.device)
        return _blurred(generator(noise), blur)


class _Drawn:
    """A sample on the device, from which batches are drawn by weight."""

    def __init__(self, sample: Sample, device: torch.device) -> None:
        self.rows = torch.as_tensor(sample.rows, dtype=torch.float32, device=device)
        self.weight = torch.as_tensor(sample.weights(), dtype=torch.float32, device=device)

    def batch(self, n: int) -> Tensor:
        """``n`` rows, with replacement."""
        return self.rows[torch.multinomial(self.weight, n, replacement=True)]


def _blurred(rows: Tensor, blur: float) -> Tensor:
    if blur == 0:
        return rows
    return rows + blur * torch.randn_like(rows)


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor, weights: list[nn.Parameter]) -> None:
    optimizer.zero_grad()
    torch.autograd.backward(loss, inputs=weights)
    optimizer.step()


class _Perceptrons(nn.Module):
    """Three discriminators of one shape, whose layers are computed together."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for width, following in pairwise([*widths, 1]):
            weights = []
            biases = []
            for _ in range(3):
                layer = nn.Linear(width, following)
                weights.append(layer.weight.detach().T)
                biases.append(layer.bias.detach()[None])
            self.weights.append(torch.stack(weights))
            self.biases.append(torch.stack(biases))

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of shape (lines, n).

        ``rows`` are three lines of real rows, or four lines of generated rows, with JUDGES.
        """
        out = rows.flatten(2)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if i > 0:
                out = F.leaky_relu(out, SLOPE)
            if len(rows) == len(JUDGES):  # slices, because the gradient of indexing is slow
                weight = torch.cat([weight[:2], weight[1:]])
                bias = torch.cat([bias[:2], bias[1:]])
            out = torch.baddbmm(bias, out, weight)
        return out.squeeze(2)


class _Convolutions(nn.Module):
    """Three discriminators of images of 28 by 28 pixels, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.critics = nn.ModuleList()
        for _ in range(3):
            critic = nn.Sequential(
                nn.Unflatten(1, (1, 28)),
                nn.Conv2d(1, 32, 4, 2, 1),
                nn.LeakyReLU(SLOPE),
                nn.Conv2d(32, 64, 4, 2, 1),
                nn.LeakyReLU(SLOPE),
                nn.Flatten(),
                nn.Linear(64 * 49, 1),
            )
            self.critics.append(critic)

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of shape (lines, n), as in :class:`_Perceptrons`."""
        judges = JUDGES if len(rows) == len(JUDGES) else range(3)
        judged = [self.critics[k](line) for k, line in zip(judges, rows, strict=True)]
        return torch.stack(judged).squeeze(2)
