import numpy as np
import pytest

from drpu.priors.readings import dedpul
from drpu.priors.tails import ScoreTails


def sample(prior, n_positive=500, n=5000, apart=2.5, seed=0):
    rng = np.random.default_rng(seed)
    positives = rng.binomial(n, prior)
    unlabeled = np.concatenate([rng.normal(apart, 1, positives), rng.normal(0, 1, n - positives)])
    return rng.normal(apart, 1, n_positive), unlabeled


def error(prior, seeds=10, **sizes):
    """Root mean square error over seeds."""
    values = np.array(
        [dedpul(ScoreTails(P).update(U)) for P, U in (sample(prior, seed=s, **sizes) for s in range(seeds))]
    )
    return np.sqrt(np.mean((values - prior) ** 2))


def test_weights_count_as_copies_do():
    P, U = sample(0.4, n_positive=200, n=800)
    weight = np.random.default_rng(1).integers(1, 4, len(U))
    weighted = ScoreTails(P).update(U, weight=weight)
    assert dedpul(weighted) == pytest.approx(dedpul(ScoreTails(P).update(np.repeat(U, weight))), abs=1e-12)


def test_unlabeled_rows_above_all_positives_mean_a_prior_of_one():
    assert dedpul(ScoreTails([1.0, 2.0, 3.0]).update([9.0, 9.0])) == 1.0


def test_binary_scores_give_the_ratio_of_hits():
    assert dedpul(ScoreTails(np.ones(50)).update(np.repeat([0.0, 1.0], [70, 30]))) == pytest.approx(
        0.3, abs=0.02
    )


# Errors over 30 seeds were .005, .008, .014, .031, .058, .045.
@pytest.mark.parametrize(
    ("prior", "most"), [(0.0, 0.03), (0.05, 0.025), (0.3, 0.04), (0.7, 0.07), (0.95, 0.11), (1.0, 0.11)]
)
def test_error_is_small_at_every_prior(prior, most):
    assert error(prior) < most
