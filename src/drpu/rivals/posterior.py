"""Classifiers that estimate the posterior: of Elkan and Noto, and with a variational risk."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from drpu._arrays import FloatArray, Rows, softplus
from drpu._checks import check_real
from drpu._samples import Sample, SamplePair
from drpu.exceptions import ParameterError
from drpu.models.crossfit import cross_fit, resolve_holdout
from drpu.models.estimators import ClassifierRatio
from drpu.models.registry import refuse_learnt, resolve_score
from drpu.models.risks import VariationalRisk
from drpu.networks.learner import NetworkScore
from drpu.priors.estimate import PriorEstimate
from drpu.rivals.rival import PURival, ScoredRival, off_the_edge
from drpu.state.rows import TrainingSet

FOLDS = 5  # largest number of folds


class PosteriorRival(PURival):
    """A method that estimates the log of the posterior, which may exceed 0."""

    @abstractmethod
    def _log_posterior(self, X: Rows) -> FloatArray:
        """Log of the estimated probability of the positive class."""

    def decision_function(self, X: Rows) -> FloatArray:
        """Logarithm of the unclipped posterior divided by the cost.

        It is above 0 for positive predictions.
        """
        return np.asarray(self._log_posterior(X) - np.log(self._used.cost))

    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class, in the order of ``classes_``, clipped to [0, 1]."""
        posterior = np.exp(np.minimum(self._log_posterior(X), 0))
        return np.column_stack([1 - posterior, posterior])


@dataclass(eq=False, repr=False)
class ElkanNotoClassifier(PosteriorRival):
    r"""Probability of being labelled, divided by the labelled fraction of the positives.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Distinguishes labelled from unlabeled rows; by default 100 extremely randomised
        trees. It is cloned before fitting. Its probabilities should be calibrated.
    prior : "elkan-noto", str, float or PriorEstimate, default="elkan-noto"
        How the constant is determined: by the mean probability of held-out positives, or by
        a prior, given or estimated by a method of :class:`drpu.UPUClassifier`.
    cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`. The original method assumes a single sample.

    Attributes
    ----------
    constant_ : float
        Labelled fraction of the positives among all rows.
    prior_ : PriorEstimate
        Prior of the training population that follows from the constant, without limits.
    model_ : Function
        Log-odds of the fitted classifier.
    classes_
        As in :class:`drpu.UPUClassifier`.

    Notes
    -----
    Let :math:`s` be the label and :math:`c` the constant. The posterior is
    :math:`P(s=1|x)/c` in a single sample, and
    :math:`\frac{1-c}{c} \frac{P(s=1|x)}{P(s=0|x)}` in a case-control study, whose population is
    that of the unlabeled rows. The constant is the mean of :math:`P(s=1|x)` over held-out
    positives (five folds). This is correct if the classes do not overlap. Otherwise it is
    too low, and the prior is overestimated.

    The result may exceed 1, where the probability of the classifier exceeds the constant.
    ``predict_proba`` clips it to [0, 1]. ``decision_function`` does not, which keeps the
    ranking.

    References
    ----------
    C. Elkan and K. Noto, "Learning classifiers from only positive and unlabeled data", KDD 2008.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from drpu import ElkanNotoClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=4, random_state=0)
    >>> clf = ElkanNotoClassifier(LogisticRegression(), random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """

    _special_prior = "elkan-noto"
    _numbers = {"constant_": (1e-300, 1.0), "_log_odds": (-1e3, 1e3)}  # noqa: RUF012

    classifier: Any = None
    _: KW_ONLY
    prior: Any = "elkan-noto"

    def _log_posterior(self, X: Rows) -> FloatArray:
        log_odds = self._scores(X) + self._log_odds
        if self.scenario_ == "single-sample":
            return np.asarray(-np.logaddexp(0, -log_odds) - np.log(self.constant_))
        return np.asarray(log_odds + np.log1p(-self.constant_) - np.log(self.constant_))

    def _intake(self) -> ClassifierRatio:
        refuse_learnt(self.classifier)
        if self.classifier is not None:
            return ClassifierRatio(self.classifier)
        return ClassifierRatio(ExtraTreesClassifier(n_estimators=100, min_samples_leaf=2))

    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        pair = training.pair
        model = self._intake().set_params(random_state=int(rng.randint(2**31 - 1)))
        self._log_odds = pair.log_odds()
        if self._is_special_prior():
            self.prior_ = self._prior_of_mean(model, pair, rng)
        else:
            self.prior_ = self._training_prior(training, rng)
        share = pair.labelled_fraction
        prior = self.prior_.value
        if self.scenario_ == "single-sample":
            self.constant_ = min(share / prior, 1.0)
        else:
            self.constant_ = share / (share + prior * (1 - share))
        self.model_ = clone(model).fit_checked(pair)

    def _prior_of_mean(
        self, model: ClassifierRatio, pair: SamplePair, rng: np.random.RandomState
    ) -> PriorEstimate:
        """The prior that follows from the mean probability of held-out positives."""
        # A single mean needs fewer folds than the whole score distribution.
        holdout = min(resolve_holdout("auto", len(pair.positive), len(pair.unlabeled)), FOLDS)
        _, held = cross_fit(model, pair, holdout=holdout, random_state=rng)
        probability = np.exp(-np.logaddexp(0, -(held.positive.rows + self._log_odds)))
        constant = float(np.average(probability, weights=held.positive.weight))
        share = pair.labelled_fraction
        prior = share / constant
        if self.scenario_ != "single-sample":
            prior *= (1 - constant) / (1 - share)
        return off_the_edge(PriorEstimate(min(prior, 1.0), 0.0, 1.0, 0.95, "elkan-noto"))


# Training options of the default network: the betas of the published method, a low learning rate.
VARIATIONAL_NETWORK = {"learning_rate": 3e-4, "betas": (0.5, 0.99)}


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
        model = resolve_score(self.model, **VARIATIONAL_NETWORK)
        if not isinstance(model, NetworkScore):
            raise ParameterError(
                f"model must be a network for VPUClassifier, got {self.model!r}: "
                "the method needs MixUp, which only networks support."
            )
        return model

    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        pair = training.pair
        share = training.population.labelled_fraction
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
            self.prior_ = self._training_prior(training, rng)
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
