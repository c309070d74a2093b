"""VPUClassifier: the variational risk, which needs no prior."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np

from drpu._arrays import softplus
from drpu._checks import check_real
from drpu._samples import Sample, SamplePair
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ParameterError
from drpu.models.registry import resolve_score
from drpu.models.risks import VariationalRisk
from drpu.networks.learner import NetworkScore
from drpu.priors.estimate import PriorEstimate
from drpu.rivals.rival import PosteriorRival, ScoredRival

# Training options of the default network: the betas of the published method, a low learning rate.
NETWORK = {"learning_rate": 3e-4, "betas": (0.5, 0.99)}


@dataclass(eq=False, repr=False)
class VPUClassifier(PosteriorRival, ScoredRival):
    r"""Classifier by the variational risk (VPU), which needs no prior.

    The sigmoid :math:`\Phi` of a network is trained to be proportional to the posterior. Its
    maximum over the training rows is taken as a posterior of 1. A row is predicted positive
    if :math:`\Phi` divided by this maximum exceeds the cost.

    Parameters
    ----------
    model : "network", torch module or NetworkRatio, default="network"
        The network. There is no linear or kernel form, because the method needs MixUp between
        rows in the training loop to keep :math:`\Phi` on the scale of a probability.
    mixup : float, default=2.0
        Weight of the MixUp penalty, at least 0.
    concentration : float, default=0.3
        The weights of MixUp are drawn from Beta(concentration, concentration).
    prior : float, PriorEstimate or str, optional
        Not needed. If it is given, or estimated by a named method, :math:`\Phi` is scaled such
        that the mean posterior equals the prior, instead of scaling by its maximum.
    cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`.

    Attributes
    ----------
    log_scale_ : float
        Logarithm of the :math:`\Phi` that corresponds to a posterior of 1: by default the
        maximum over the unlabeled training rows.
    prior_ : PriorEstimate
        Mean posterior of the training population, without limits, or the given prior.
    model_, classes_
        As in :class:`drpu.UPUClassifier`.

    Notes
    -----
    The epoch with the lowest variational risk on holdout rows is kept. Without this the network
    learns to separate labelled from unlabeled rows, and the classifier fails, as
    ``model=NetworkRatio(early_stopping=False)`` shows. For the same reason an epoch uses each row
    of either sample once, in batches of different sizes. The published method draws as many
    positives as unlabeled rows in each step, and networks overfit them within an epoch.

    ``predict_proba`` is correct if the largest posterior of the training rows is 1.

    References
    ----------
    H. Chen, F. Liu, Y. Wang, L. Zhao and H. Wu, "A variational approach for learning from
    positive and unlabeled data", NeurIPS 2020.

    Examples
    --------
    >>> from drpu import NetworkRatio, VPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=4, random_state=0)
    >>> network = NetworkRatio(hidden=(32,), learning_rate=1e-2, epochs=20)
    >>> clf = VPUClassifier(network, random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.85)
    True
    """

    _special_prior = None
    _numbers = {"log_scale_": (-1e6, 1e6)}  # noqa: RUF012

    model: Any = "network"
    _: KW_ONLY
    mixup: float = 2.0
    concentration: float = 0.3
    prior: Any = None

    def _log_posterior(self, X: Rows) -> FloatArray:
        return np.asarray(-softplus(-self._scores(X)) - self.log_scale_)

    def _intake(self) -> NetworkScore:
        model = resolve_score(self.model, **NETWORK)
        if not isinstance(model, NetworkScore):
            raise ParameterError(
                f"model must be a network for VPUClassifier, got {self.model!r}: "
                "the method needs MixUp, which only networks support."
            )
        return model

    def _learn(self, pair: SamplePair, rng: np.random.RandomState) -> None:
        share = self._labelled_fraction(pair)
        objective = VariationalRisk(share, self.mixup, self.concentration)
        self.model_ = self._seeded(rng).fit_score(pair, objective)
        positive = self._values(pair.positive, share)
        unlabeled = self._values(pair.unlabeled, 1 - share)
        population = (positive, unlabeled)
        if self.prior is None:
            self.log_scale_ = float(unlabeled.log_phi.max())
            mean = min(_mean_posterior(population, self.log_scale_), 1.0)
            self.prior_ = PriorEstimate(mean, 0.0, 1.0, 0.95, "vpu")
        else:
            self.prior_ = self._population(pair, rng).prior
            self.log_scale_ = _scale_at(self.prior_.value, population)

    def _values(self, sample: Sample, share: float) -> _Values:
        """Values of a sample that makes up ``share`` of the population."""
        log_phi = -softplus(-self.model_.score(sample.rows))
        return _Values(log_phi, share * sample.weights() / sample.total)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("mixup", self.mixup, low=0)
        check_real("concentration", self.concentration, low=1e-3)


class _Values(NamedTuple):
    """Logarithm of Phi for the rows of a sample, and their mass in the population."""

    log_phi: FloatArray
    mass: FloatArray


def _mean_posterior(population: tuple[_Values, _Values], scale: float) -> float:
    mean = 0.0
    for values in population:
        mean += float(values.mass @ np.exp(np.minimum(values.log_phi - scale, 0)))
    return mean


def _scale_at(prior: float, population: tuple[_Values, _Values]) -> float:
    """The scale at which the mean posterior equals the prior, by bisection."""
    positive, unlabeled = population
    low = min(positive.log_phi.min(), unlabeled.log_phi.min())
    high = max(positive.log_phi.max(), unlabeled.log_phi.max()) - np.log(prior)
    for _ in range(100):
        middle = (low + high) / 2
        if min(_mean_posterior(population, middle), 1.0) > prior:
            low = middle
        else:
            high = middle
    return float(high)
