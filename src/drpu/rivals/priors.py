"""The prior in a risk: given, or estimated before the risk is minimised."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from drpu._samples import Sample, SamplePair
from drpu.classifier.fitting import KERNEL_MEANS, flat_sample, kernel_mean_prior
from drpu.exceptions import PriorBoundaryWarning, PriorError
from drpu.models.crossfit import Folds, cross_fit, resolve_holdout, tails_of
from drpu.models.fourier import FourierRatio
from drpu.models.kernel import KernelRatio
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.priors.methods import prior_from_tails
from drpu.priors.tails import ScoreTails
from drpu.state.population import with_labelled, without_labelled

LEAST_WEIGHT = 0.01  # an estimate closer to 0 or 1 would give one class almost none


@dataclass(frozen=True, slots=True)
class RiskPriors:
    """The priors in a risk: of the training population, and of its unlabeled rows."""

    prior: PriorEstimate  # prior of the population
    labelled_share: float  # fraction of the population that is labelled; 0 in case-control

    @property
    def unlabeled_prior(self) -> float:
        """Prior of the unlabeled rows."""
        return without_labelled(self.prior, self.labelled_share).value


def estimate_priors(
    prior: Any, pair: SamplePair, labelled_share: float, rng: np.random.RandomState
) -> RiskPriors:
    """Priors of the training data, given or estimated according to ``prior``."""
    if not isinstance(prior, str):
        known = as_prior("prior", prior)
        if not labelled_share < known.value < 1:
            raise PriorError(
                f"prior must lie strictly between {labelled_share:.4g} and 1, got {known.value!r}: "
                "the lower limit is the fraction of labelled positives, and both classes must be "
                "present."
            )
        return RiskPriors(known, labelled_share)
    if prior in KERNEL_MEANS:
        estimate = kernel_mean_prior(prior, pair.positive, pair.unlabeled, rng)
    else:
        _, tails = _score_tails(pair, rng)
        estimate = prior_from_tails(tails, method=prior, labelled_share=labelled_share or None)
    return RiskPriors(with_labelled(off_the_edge(estimate), labelled_share), labelled_share)


def shifted_prior(
    method: Any, trained: RiskPriors, pair: SamplePair, test: Sample, rng: np.random.RandomState
) -> PriorEstimate:
    """Prior of unlabeled test rows, by kernel means or, for another method, by matching scores."""
    if isinstance(method, str) and method in KERNEL_MEANS:
        return off_the_edge(kernel_mean_prior(method, pair.positive, test, rng))
    model, tails = _score_tails(pair, rng)
    scores = model.fold_scores(flat_sample(test).rows)
    copies = scores.shape[1]
    weight = test.weight
    if weight is not None:
        weight = np.repeat(weight, copies)
    counts = tails.empty(copies=copies).update(scores.ravel(), weight)
    train_prior = without_labelled(trained.prior, trained.labelled_share)
    return off_the_edge(prior_from_tails(counts, reference=tails, train_prior=train_prior))


def _score_tails(pair: SamplePair, rng: np.random.RandomState) -> tuple[Folds, ScoreTails]:
    """A cross-fitted smooth density ratio, and the tails of its held-out scores."""
    pair = SamplePair(flat_sample(pair.positive), flat_sample(pair.unlabeled))
    kind = KernelRatio if sparse.issparse(pair.positive.rows) else FourierRatio
    model, held = cross_fit(
        kind(random_state=int(rng.randint(2**31 - 1))),
        pair,
        holdout=resolve_holdout("auto", len(pair.positive), len(pair.unlabeled)),
        random_state=rng,
    )
    return model, tails_of(held)


def off_the_edge(prior: PriorEstimate) -> PriorEstimate:
    """The estimate, moved off 0 and 1 with a warning if a class would get almost no weight."""
    if LEAST_WEIGHT <= prior.value <= 1 - LEAST_WEIGHT:
        return prior
    value = min(max(prior.value, LEAST_WEIGHT), 1 - LEAST_WEIGHT)
    PriorBoundaryWarning.issue(
        f"the prior is estimated as {prior.value:.3f}, which gives one class no weight: {value:g} "
        "is used. Check the labels, or pass the prior if you know it."
    )
    return replace(prior, value=value, low=min(prior.low, value), high=max(prior.high, value))
