"""Training of two generators against three discriminators on positive and unlabeled rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from drpu._progress import progress, progress_bar
from drpu._typing import FloatArray
from drpu.networks.device import private_random
from drpu.networks.generative import IMAGE, Game

SLOPE = 0.2
JUDGES = (0, 1, 1, 2)  # the discriminators of each generator: that of the mixture applies to both
BLUR = 0.5  # initial noise of rows, in standard deviations; it decreases to 0 over the first half
PENALTY = 1.0  # weight of the squared gradient of the discriminators at real rows
MEMORY = 0.995  # decay of the averaged generator weights, which are used for sampling


class _Game:
    """The five networks and their training step."""

    def __init__(
        self, positive: Tensor, unlabeled: Tensor, weights: Sequence[Tensor], s: Game, prior: float
    ) -> None:
        self.rows, self.weights, self.s = (positive, unlabeled), weights, s
        shape = tuple(positive.shape[1:])
        both = [make_generator(shape, s.noise, s.hidden) for _ in range(2)]
        self.generators = nn.ModuleList(both).to(s.device)
        critics = _Convolutions() if shape == IMAGE else _Perceptrons([math.prod(shape), *s.hidden])
        self.critics = critics.to(s.device)
        self.weights_now = [weight.detach() for weight in self.generators.parameters()]
        self.average = [weight.clone() for weight in self.weights_now]
        betas = (0.5, 0.99)
        self.players = list(self.generators.parameters()), list(self.critics.parameters())
        self.by_generators, self.by_critics = (
            torch.optim.Adam(player, lr=s.learning_rate, betas=betas, fused=True) for player in self.players
        )
        pi, (as_p, as_u, off_p) = prior, s.strengths
        # One number per discriminator: its loss for generated rows, and that of the generator.
        self.doubt = torch.tensor([1, pi, 1 - pi, 1], device=s.device)
        self.wish = torch.tensor([as_p * pi, as_u * pi, as_u * (1 - pi), off_p * (1 - pi)], device=s.device)
        # D_n and the negative generator have the same goal: samples unlike positives.
        self.side = torch.tensor([[-1.0], [-1.0], [-1.0], [1.0]], device=s.device)

    def step(self, blur: float) -> None:
        """One step of the discriminators, then of the generators; ``blur`` is the noise on all rows."""
        positive, unlabeled = (self._real(kind, blur) for kind in range(2))
        real = torch.stack([positive, unlabeled, positive])
        like_positive, like_negative = (self._fake(kind, blur) for kind in range(2))
        fakes = torch.stack([like_positive, like_positive, like_negative, like_negative])
        self._descend(self.by_critics, self._critics_loss(real, fakes.detach()), self.players[1])
        liked = self.wish @ F.softplus(self.side * self.critics(fakes)).mean(1)
        self._descend(self.by_generators, liked, self.players[0])
        torch._foreach_lerp_(self.average, self.weights_now, 1 - MEMORY)

    def _descend(self, optimizer: torch.optim.Optimizer, loss: Tensor, player: list[nn.Parameter]) -> None:
        optimizer.zero_grad()
        torch.autograd.backward(loss, inputs=player)
        optimizer.step()

    def _critics_loss(self, real: Tensor, fakes: Tensor) -> Tensor:
        real = real.requires_grad_()
        of_real, of_fakes = self.critics(real), self.critics(fakes)
        loss = F.softplus(-of_real).mean(1).sum() + self.doubt @ F.softplus(of_fakes).mean(1)
        # The gradient penalty at real rows prevents overfitting of few rows.
        (slope,) = torch.autograd.grad(of_real.sum(), real, create_graph=True)
        steep = slope.flatten(2).square().sum(2).mean(1).sum()
        return loss + PENALTY / 2 * steep

    def _real(self, kind: int, blur: float) -> Tensor:
        n = self.s.batch_size
        chosen = torch.multinomial(self.weights[kind], n, replacement=True)
        return _blurred(self.rows[kind][chosen], blur)

    def _fake(self, kind: int, blur: float) -> Tensor:
        noise = torch.randn(self.s.batch_size, self.s.noise, device=self.s.device)
        return _blurred(self.generators[kind](noise), blur)


def _blurred(rows: Tensor, blur: float) -> Tensor:
    return rows + blur * torch.randn_like(rows) if blur > 0 else rows


def play(
    positive: FloatArray,
    unlabeled: FloatArray,
    weights: tuple[FloatArray, FloatArray],
    settings: Game,
    *,
    prior: float,
    seed: int,
) -> tuple[nn.Module, nn.Module]:
    """Generators of positive and of negative rows, after all steps; ``settings.device`` is a torch device."""
    device = settings.device
    rows = [torch.as_tensor(part, dtype=torch.float32, device=device) for part in (positive, unlabeled)]
    draws = [torch.as_tensor(part, dtype=torch.float32, device=device) for part in weights]
    with private_random(seed, device), progress_bar("steps", show=settings.verbose):
        game = _Game(rows[0], rows[1], draws, settings, prior)
        for now in progress(range(settings.steps), total=settings.steps):
            blur = BLUR * max(0.0, 1 - 2 * now / settings.steps)
            game.step(blur)
        for weight, kept in zip(game.weights_now, game.average, strict=True):
            weight.copy_(kept)
    game.generators.eval()
    return game.generators[0], game.generators[1]


@torch.no_grad()
def generate(generator: nn.Module, n: int, noise: int, seed: int) -> FloatArray:
    """``n`` rows of a generator, on the scale of its training."""
    device = next(generator.parameters()).device
    with private_random(seed, device):
        parts = [
            generator(torch.randn(min(1000, n - start), noise, device=device)) for start in range(0, n, 1000)
        ]
    return np.asarray(torch.cat(parts).cpu().double().numpy())


def make_generator(shape: Sequence[int], noise: int, hidden: Sequence[int]) -> nn.Module:
    """A generator: convolutions for images of 28 by 28 pixels, a perceptron for other rows."""
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
    widths = [noise, *hidden]
    layers = [part for pair in pairwise(widths) for part in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], math.prod(shape)), nn.Unflatten(1, tuple(shape)))


class _Perceptrons(nn.Module):
    """Three discriminators of one shape, whose layers are computed together."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for pair in pairwise([*widths, 1]):
            trio = [nn.Linear(*pair) for _ in range(3)]
            self.weights.append(torch.stack([layer.weight.detach().T for layer in trio]))
            self.biases.append(torch.stack([layer.bias.detach()[None] for layer in trio]))

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of shape (lines, n) for three lines of real rows, or four generated lines with JUDGES."""
        out = rows.flatten(2)
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if len(rows) == len(JUDGES):  # slices, because the gradient of indexing is slow
                weight, bias = (torch.cat([part[:2], part[1:]]) for part in (weight, bias))
            out = torch.baddbmm(bias, F.leaky_relu(out, SLOPE) if i else out, weight)
        return out.squeeze(2)


class _Convolutions(nn.Module):
    """Three discriminators of images, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.critics = nn.ModuleList([self._one() for _ in range(3)])

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of shape (lines, n), as in :class:`_Perceptrons`."""
        judges = JUDGES if len(rows) == len(JUDGES) else range(3)
        judged = [self.critics[k](line) for k, line in zip(judges, rows, strict=True)]
        return torch.stack(judged).squeeze(2)

    @staticmethod
    def _one() -> nn.Module:
        return nn.Sequential(
            nn.Unflatten(1, (1, 28)),
            nn.Conv2d(1, 32, 4, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.LeakyReLU(SLOPE),
            nn.Flatten(),
            nn.Linear(64 * 49, 1),
        )
