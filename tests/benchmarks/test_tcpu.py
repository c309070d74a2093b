import numpy as np
import pytest

from benchmarks.tcpu import LABELLED, TARGET_PRIORS, draw, tcpu_prior


@pytest.mark.parametrize("target_prior", [0.1, 0.3, 0.7])
def test_the_formula_finds_the_prior_of_a_mixture(target_prior):
    rng = np.random.default_rng(0)

    def rows(n, prior):
        positive = rng.random(n) < prior
        return rng.normal(0, 1, (n, 3)) + 2 * positive[:, None]

    found = tcpu_prior(rows(1500, 1.0), rows(2000, 0.3), rows(2000, target_prior), source_prior=0.3)
    # The share of positives in 2,000 rows has a standard error of .01, the kernel means one as large.
    assert abs(found - target_prior) < 0.06


@pytest.mark.parametrize("prior", [0.1, 0.5])
def test_samples_have_the_stated_priors_and_labelled_share(prior):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [600, 400])
    sample = draw(rng.normal(y[:, None], 1, (1000, 2)), y, prior, seed=0)
    n_rows = len(sample.unlabeled) * (1 - LABELLED * (1 - prior)) / (1 - LABELLED)
    hidden = prior * len(sample.unlabeled)
    assert len(sample.positive) / (len(sample.positive) + hidden) == pytest.approx(LABELLED, abs=0.02)
    for target_prior in TARGET_PRIORS:
        rows, truth = sample.targets[target_prior]
        assert len(rows) == len(truth) <= n_rows + 2
        # a part of the rows at most, so their share varies as in a draw of so many rows
        assert abs(truth.mean() - target_prior) < 4 * np.sqrt(0.25 / len(truth))
