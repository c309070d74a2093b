"""Finite spaces, on which every expectation is a sum and theorems hold up to rounding."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from drpu.models.risks import GENERATORS, BregmanGenerator, bregman_risk

LSIF = GENERATORS["lsif"]

ROUNDING = 1e-12

priors = st.floats(0.01, 0.99)
costs = st.floats(0.01, 0.99)


def value(f, t):
    """The generator itself, f(t) = t f'(t) - f*(t), which is 0 at 0."""
    positive = np.where(t > 0, t, 1.0)
    return np.where(t > 0, positive * f.slope(positive) - f.conjugate(positive), 0.0)


@dataclass(frozen=True)
class World:
    """Distributions of the two classes on finitely many points, and a training prior."""

    positive: np.ndarray
    negative: np.ndarray
    prior: float

    def mixture(self, prior=None):
        pi = self.prior if prior is None else prior
        return pi * self.positive + (1 - pi) * self.negative

    @property
    def ratio(self):
        """The true r* = p+ / p."""
        return self.positive / self.mixture()

    @property
    def posterior(self):
        """eta = P(Y = +1 | x), at the training prior."""
        return self.prior * self.ratio

    def risk(self, calls, prior, cost):
        """Cost-sensitive risk of classifying points as positive where ``calls`` is true."""
        missed = (~calls * self.positive).sum(-1)
        alarmed = (calls * self.negative).sum(-1)
        return (1 - cost) * prior * missed + cost * (1 - prior) * alarmed

    def bayes_risk(self, prior, cost):
        return np.minimum((1 - cost) * prior * self.positive, cost * (1 - prior) * self.negative).sum()

    def divergence(self, f, ratio):
        """Expected Bregman divergence from the true ratio to ``ratio``."""
        gap = value(f, self.ratio) - value(f, ratio) - f.slope(ratio) * (self.ratio - ratio)
        return (gap * self.mixture()).sum(-1)

    def objective(self, f, ratio):
        """The risk L of ``ratio`` over the whole population."""
        return bregman_risk(
            ratio, ratio, generator=f, positive_weight=self.positive, unlabeled_weight=self.mixture()
        )

    def ranking_risk(self, scores, tie=0.5):
        """1 - AUC, where a tie costs ``tie``."""
        s, t = scores[..., :, None], scores[..., None, :]
        loss = (s < t) + tie * (s == t)
        return np.einsum("...ij,i,j->...", loss, self.positive, self.negative)

    def ratios(self, rng, n=40):
        """Ratios to try: near the true one, far from it, and hardly related to it."""
        size = (n, len(self.positive))
        near = self.ratio * rng.lognormal(0, rng.choice([0.01, 0.3, 2.0], (n, 1)), size)
        far = rng.gamma(0.5, 2 / self.prior, size)
        return np.maximum(np.where(rng.random((n, 1)) < 0.7, near, far), 1e-9)


@st.composite
def worlds(draw, *, irreducible=False):
    """Random spaces of 2 to 12 points; some points may belong to one class only."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m = draw(st.integers(2, 12))
    spread = draw(st.sampled_from([0.2, 1.0, 10.0]))
    laws = rng.dirichlet(np.full(m, spread), 2) + 1e-9  # no point has probability 0 in both classes
    if irreducible or draw(st.booleans()):
        laws[1, rng.integers(m)] = 0.0
    positive, negative = laws / laws.sum(1, keepdims=True)
    return World(positive, negative, draw(priors)), rng


def curved(mu):
    """f(t) = mu t^2 / 2 + t^3 / 6: strongly convex like LSIF, and not quadratic."""
    return BregmanGenerator(
        "curved",
        slope=lambda t: mu * t + t**2 / 2,
        conjugate=lambda t: mu * t**2 / 2 + t**3 / 3,
        slope_of_log=lambda z: mu * np.exp(z) + np.exp(2 * z) / 2,
        conjugate_of_log=lambda z: mu * np.exp(2 * z) / 2 + np.exp(3 * z) / 3,
    )


STRONG = {"lsif": (LSIF, 1.0), "curved 1": (curved(1.0), 1.0), "curved 0.2": (curved(0.2), 0.2)}
strongly_convex = pytest.mark.parametrize(("f", "mu"), STRONG.values(), ids=STRONG)


def equivalent_cost(pi, pi_test, cost):
    """c_0: the cost at the training prior that is equivalent to the test prior."""
    against = cost * pi * (1 - pi_test)
    return against / ((1 - cost) * (1 - pi) * pi_test + against)


def shift_constant(pi, pi_test, cost):
    """C of Theorem 2."""
    c0 = equivalent_cost(pi, pi_test, cost)
    return pi * (cost + pi_test - 2 * cost * pi_test) / (c0 + pi - 2 * c0 * pi)


def below(excess, bound):
    """``excess <= bound``, up to rounding."""
    return np.all(excess <= bound + ROUNDING * (1 + np.abs(bound)))
