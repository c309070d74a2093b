"""Two generators against three discriminators: samples of both classes from positive and unlabeled rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu._optional import progress
from drpu._typing import FloatArray
from drpu.models._training.device import private_random

__all__ = ["IMAGE", "GameSettings", "generate", "make_generator", "play"]

IMAGE = (28, 28)  # rows of this shape get convolutions
SLOPE = 0.2
MEMORY = 0.995  # of the average of the generators' weights, which is what samples


@dataclass(frozen=True, slots=True)
class GameSettings:
    """How the game goes."""

    prior: float
    steps: int
    batch_size: int
    learning_rate: float
    noise: int
    hidden: tuple[int, ...]
    strengths: tuple[float, float, float]
    blur: float
    penalty: float
    device: torch.device
    seed: int
    verbose: int = 0


class _Game:
    """Five networks and one step of each."""

    def __init__(
        self, positive: Tensor, unlabeled: Tensor, weights: Sequence[Tensor], s: GameSettings
    ) -> None:
        self.rows, self.weights, self.s = (positive, unlabeled), weights, s
        shape = tuple(positive.shape[1:])
        self.generators = nn.ModuleList([make_generator(shape, s.noise, s.hidden) for _ in range(2)]).to(
            s.device
        )
        self.critics = nn.ModuleList([_discriminator(shape, s.hidden) for _ in range(3)]).to(s.device)
        self.weights_now = [weight.detach() for weight in self.generators.parameters()]
        self.average = [weight.clone() for weight in self.weights_now]
        betas = (0.5, 0.99)
        self.by_generators = torch.optim.Adam(
            self.generators.parameters(), lr=s.learning_rate, betas=betas, fused=True
        )
        self.by_critics = torch.optim.Adam(
            self.critics.parameters(), lr=s.learning_rate, betas=betas, fused=True
        )

    def step(self, blur: float) -> None:
        """Discriminators first, generators after; ``blur`` is the noise on everything they see."""
        positive, unlabeled = (self._real(kind, blur) for kind in range(2))
        fakes = [self._fake(kind, blur) for kind in range(2)]
        self.by_critics.zero_grad()
        torch.autograd.backward(self._critics_loss(positive, unlabeled, [fake.detach() for fake in fakes]))
        self.by_critics.step()

        self.by_generators.zero_grad()
        torch.autograd.backward(self._generators_loss(fakes))
        self.by_generators.step()
        torch._foreach_lerp_(self.average, self.weights_now, 1 - MEMORY)

    def _critics_loss(self, positive: Tensor, unlabeled: Tensor, fakes: Sequence[Tensor]) -> Tensor:
        pi = self.s.prior
        of_p, of_u, of_n = self.critics
        positive, unlabeled = positive.requires_grad_(), unlabeled.requires_grad_()
        real = of_p(positive), of_u(unlabeled), of_n(positive)
        loss = sum((F.softplus(-r).mean() for r in real), start=torch.zeros((), device=self.s.device))
        loss = loss + F.softplus(of_p(fakes[0])).mean() + F.softplus(of_n(fakes[1])).mean()
        loss = loss + pi * F.softplus(of_u(fakes[0])).mean() + (1 - pi) * F.softplus(of_u(fakes[1])).mean()
        # A bound on the slope at real rows: without it few rows are soon known by heart.
        slopes = torch.autograd.grad([r.sum() for r in real], [positive, unlabeled], create_graph=True)
        steep = sum((g.flatten(1).square().sum(1).mean() for g in slopes), start=torch.zeros_like(loss))
        return loss + self.s.penalty / 2 * steep

    def _generators_loss(self, fakes: Sequence[Tensor]) -> Tensor:
        pi, (as_p, as_u, off_p) = self.s.prior, self.s.strengths
        of_p, of_u, of_n = self.critics
        to_u = pi * F.softplus(-of_u(fakes[0])).mean() + (1 - pi) * F.softplus(-of_u(fakes[1])).mean()
        loss: Tensor = as_u * to_u + as_p * pi * F.softplus(-of_p(fakes[0])).mean()
        # D_n and the negative generator want the same: samples that no one takes for a positive.
        return loss + off_p * (1 - pi) * F.softplus(of_n(fakes[1])).mean()

    def _real(self, kind: int, blur: float) -> Tensor:
        n = self.s.batch_size
        chosen = torch.multinomial(self.weights[kind], n, replacement=True)
        rows = self.rows[kind][chosen]
        return rows + blur * torch.randn_like(rows)

    def _fake(self, kind: int, blur: float) -> Tensor:
        noise = torch.randn(self.s.batch_size, self.s.noise, device=self.s.device)
        rows: Tensor = self.generators[kind](noise)
        return rows + blur * torch.randn_like(rows)


def play(
    positive: FloatArray,
    unlabeled: FloatArray,
    weights: tuple[FloatArray, FloatArray],
    settings: GameSettings,
) -> tuple[nn.Module, nn.Module]:
    """Generators of positive and of negative rows, after all steps."""
    device = settings.device
    rows = [torch.as_tensor(part, dtype=torch.float32, device=device) for part in (positive, unlabeled)]
    draws = [torch.as_tensor(part, dtype=torch.float32, device=device) for part in weights]
    with private_random(settings.seed, device):
        game = _Game(rows[0], rows[1], draws, settings)
        bar = progress(range(settings.steps), total=settings.steps, label="steps", show=settings.verbose > 0)
        for now in bar:
            blur = settings.blur * max(0.0, 1 - 2 * now / settings.steps)
            game.step(blur)
        for weight, kept in zip(game.weights_now, game.average, strict=True):
            weight.copy_(kept)
    game.generators.eval()
    return game.generators[0], game.generators[1]


@torch.no_grad()
def generate(generator: nn.Module, n: int, noise: int, seed: int) -> FloatArray:
    """``n`` rows of a generator, on the scale that it was trained on."""
    device = next(generator.parameters()).device
    with private_random(seed, device):
        parts = [
            generator(torch.randn(min(1000, n - start), noise, device=device)) for start in range(0, n, 1000)
        ]
    return np.asarray(torch.cat(parts).cpu().double().numpy())


def make_generator(shape: Sequence[int], noise: int, hidden: Sequence[int]) -> nn.Module:
    """From noise to rows: convolutions for images of 28 by 28, a perceptron for everything else."""
    if tuple(shape) == IMAGE:
        return nn.Sequential(
            nn.Linear(noise, 64 * 49),
            nn.ReLU(),
            nn.Unflatten(1, (64, 7, 7)),
            nn.ConvTranspose2d(64, 32, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 1, 4, 2, 1),
            nn.Flatten(1, 2),
        )
    layers = _layers([noise, *hidden], nn.ReLU())
    return nn.Sequential(
        *layers, nn.Linear(([noise, *hidden])[-1], math.prod(shape)), nn.Unflatten(1, tuple(shape))
    )


def _discriminator(shape: Sequence[int], hidden: Sequence[int]) -> nn.Module:
    if tuple(shape) == IMAGE:
        return nn.Sequential(
            nn.Unflatten(1, (1, 28)),
            nn.Conv2d(1, 32, 4, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Flatten(),
            nn.Linear(64 * 49, 1),
        )
    widths = [math.prod(shape), *hidden]
    return nn.Sequential(nn.Flatten(), *_layers(widths, nn.LeakyReLU(SLOPE)), nn.Linear(widths[-1], 1))


def _layers(widths: Sequence[int], activation: nn.Module) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for width, following in pairwise(widths):
        layers += [nn.Linear(width, following), activation]
    return layers
