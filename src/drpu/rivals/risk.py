"""Classifiers that minimise a positive-unlabeled risk: uPU, nnPU, PUa, PULD and VPU."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from drpu._arrays import FloatArray, Rows, softplus
from drpu._checks import check_integer, check_random_state, check_real
from drpu._samples import Sample
from drpu.classifier.fitting import KERNEL_MEANS, flat_sample, kernel_mean_prior
from drpu.classifier.reading import check_rows
from drpu.exceptions import ParameterError
from drpu.models.learner import ScoreLearner
from drpu.models.registry import resolve_score
from drpu.models.risks import ShiftedRisk, VariationalRisk, get_loss
from drpu.models.scores import LinearScore, fit_margin
from drpu.networks.learner import NetworkScore
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.priors.methods import prior_from_tails
from drpu.rivals.rival import (
    PosteriorRival,
    ScoredRival,
    off_the_edge,
    open_prior,
    score_tails,
)
from drpu.state.rows import TrainingSet

# Training options of the default network of nnPU and PUa. The correction already prevents the
# overfitting that early stopping is for, the unbiased risk on a few hundred held-out positives is
# too noisy to choose an epoch, and a strong weight decay works better.
NETWORK = {"early_stopping": False, "learning_rate": 1e-3, "weight_decay": 2.0}


def _has_posterior(classifier: _RiskClassifier) -> bool:
    loss = classifier.loss
    if classifier.__sklearn_is_fitted__():
        loss = classifier._used.loss
    if get_loss(loss).posterior is None:
        raise AttributeError(
            f"{type(classifier).__name__} has no predict_proba with loss={loss!r}, "
            "whose scores are not probabilities: use loss='logistic'."
        )
    return True


@dataclass(eq=False, repr=False)
class _RiskClassifier(ScoredRival):
    """Common base of uPU, nnPU and PUa: a risk with a prior and a margin loss."""

    _: KW_ONLY
    loss: str = "logistic"

    def decision_function(self, X: Rows) -> FloatArray:
        """Score of each row minus the threshold at the cost: above 0 for positive predictions."""
        scores = self._scores(X)  # raises unless it is fitted
        return scores - get_loss(self._used.loss).level(self._used.cost)

    @available_if(_has_posterior)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Rows) -> FloatArray:
        """Probability of each class, in the order of ``classes_``."""
        scores = self._scores(X)
        posterior_of = get_loss(self._used.loss).posterior
        assert posterior_of is not None
        posterior = posterior_of(scores)
        return np.column_stack([1 - posterior, posterior])

    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        self.prior_ = self._training_prior(training, rng)
        self._minimise(self.prior_.value, training, rng)

    def _minimise(self, target: float, training: TrainingSet, rng: np.random.RandomState) -> None:
        """Fit the score for rows whose prior is ``target``."""
        loss = get_loss(self.loss)
        cost = 0.5
        if loss.posterior is None:  # otherwise the cost is a threshold on the posterior
            cost = self.cost
        unlabeled_prior = training.population.unlabeled_prior(self.prior_).value
        objective = ShiftedRisk(unlabeled_prior, target, loss, cost, **self._correction())
        self.model_ = self._seeded(rng).fit_score(training.pair, objective)

    def _correction(self) -> dict[str, Any]:
        """Parameters of the non-negative correction."""
        return {"corrected": False}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        get_loss(self.loss)


class UPUClassifier(_RiskClassifier):
    """Classifier that minimises the unbiased risk (uPU), which is convex and not corrected.

    Parameters
    ----------
    model : {"kernel", "linear", "network"}, torch module or NetworkRatio, default="kernel"
        Form of the score: smooth (random features), linear in the columns, or a network.
        A :class:`drpu.NetworkRatio` supplies its network and training options.
    loss : {"logistic", "squared", "sigmoid"}, default="logistic"
        Loss of the margin. The squared loss has a closed form in the linear and kernel models;
        the sigmoid loss gives no probabilities.
    prior : str, float or PriorEstimate, default="km2"
        Prior of the training population: its value, or how to estimate it. ``"km2"`` and
        ``"km1"`` use the features; ``"auto"``, ``"combined"``, ``"best-bin"``, ``"plateau"`` and
        ``"paper"`` use cross-fitted scores, see :func:`drpu.estimate_prior`.
    cost : float, default=0.5
        False-positive cost in (0, 1); 0.5 maximises accuracy. It is the threshold on the
        posterior if the loss has one, and changes the risk otherwise.
    scenario : {"auto", "single-sample", "case-control"}, default="auto"
        How the labelled rows were collected, as in :class:`drpu.DRPUClassifier`: by default
        :meth:`fit` reads a single sample and :meth:`fit_pu` a case-control study. In a single
        sample the risk refers to labelled and unlabeled rows together.
    pos_label : label, optional
        The label of the positives; the default is the larger of the two.
    random_state : int, RandomState or None, default=None
        Seeds the model and the estimate of the prior.

    Attributes
    ----------
    prior_ : PriorEstimate
        Prior of the training population.
    model_ : Function
        The fitted score.
    classes_ : ndarray of shape (2,)
        The labels, the positive one last.
    scenario_ : str
        How the labelled rows were collected, as said or found.

    Notes
    -----
    With a flexible model the unbiased risk becomes negative, although a classification risk
    cannot: use :class:`NNPUClassifier` for networks. The ridge of the kernel and linear forms,
    which is chosen on held-out rows, limits this.

    After a change of the prior the fitted classifier is biased; it cannot be adapted.

    References
    ----------
    M. C. du Plessis, G. Niu and M. Sugiyama, "Convex formulation for learning from positive
    and unlabeled data", ICML 2015.

    Examples
    --------
    >>> from drpu import UPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=3, random_state=0)
    >>> clf = UPUClassifier("linear", prior=0.5, random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """


@dataclass(eq=False, repr=False)
class NNPUClassifier(_RiskClassifier):
    """Classifier that minimises the non-negative risk (nnPU), which prevents overfitting.

    Parameters
    ----------
    model : {"kernel", "linear", "network"}, torch module or NetworkRatio, default="kernel"
        Form of the score. Networks use the training steps of the published method; the other
        two minimise the corrected risk. The network is more accurate, needs torch and takes
        longer.
    loss : {"sigmoid", "logistic", "squared"}, default="sigmoid"
        Loss of the margin. Only the other two give probabilities.
    beta : float, default=0
        How far below zero the risk on negatives may go.
    gamma : float, default=1
        For networks: weight of the objective that increases it again.
    prior, cost, scenario, pos_label, random_state
        As in :class:`UPUClassifier`.

    Attributes
    ----------
    prior_, model_, classes_
        As in :class:`UPUClassifier`.

    Notes
    -----
    ``model="network"``, or a torch module, is trained on all rows and keeps the last epoch,
    because early stopping gains little after the correction. A :class:`drpu.NetworkRatio` has its
    own options, and keeps the epoch with the lowest unbiased risk on holdout rows unless
    ``early_stopping=False``.

    After a change of the prior the fitted classifier is biased; :class:`PUaClassifier` is trained
    for another prior.

    References
    ----------
    R. Kiryo, G. Niu, M. C. du Plessis and M. Sugiyama, "Positive-unlabeled learning with
    non-negative risk estimator", NeurIPS 2017.

    Examples
    --------
    >>> from drpu import NNPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=3, random_state=0)
    >>> clf = NNPUClassifier(prior=0.5, random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """

    _: KW_ONLY
    loss: str = "sigmoid"
    beta: float = 0.0
    gamma: float = 1.0

    def _correction(self) -> dict[str, Any]:
        return {"corrected": True, "beta": self.beta, "gamma": self.gamma}

    def _intake(self) -> ScoreLearner:
        return resolve_score(self.model, **NETWORK)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("beta", self.beta, low=0)
        check_real("gamma", self.gamma, low=0)


@dataclass(eq=False, repr=False)
class PUaClassifier(NNPUClassifier):
    """Classifier that minimises the non-negative risk at another test prior (PUa).

    The method needs the test prior for training: as ``test_prior``, or estimated from
    unlabeled test rows, ``fit(X, y, X_test=...)``. For another prior it has to be trained
    again.

    Parameters
    ----------
    model, loss, beta, gamma, prior, cost, scenario, pos_label, random_state
        As in :class:`NNPUClassifier`. With ``X_test``, ``prior="km2"`` or ``"km1"`` also estimates
        the test prior; with any other choice the scores of the test rows are matched with
        those of the training rows.
    test_prior : float or PriorEstimate, optional
        Prior of the rows to classify. Without it and without ``X_test`` it is the training
        prior, and the classifier equals :class:`NNPUClassifier`.

    Attributes
    ----------
    prior_ : PriorEstimate
        Prior of the training population.
    test_prior_ : PriorEstimate
        Prior that the classifier was trained for.
    model_, classes_
        As in :class:`UPUClassifier`.

    References
    ----------
    N. Charoenphakdee and M. Sugiyama, "Positive-unlabeled classification under class prior shift
    and asymmetric error", SDM 2019.

    Examples
    --------
    >>> from drpu import PUaClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.1, separation=5, random_state=0)
    >>> clf = PUaClassifier("linear", prior="auto", random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled, X_test=data.test)
    >>> bool(abs(clf.test_prior_.value - 0.1) < 0.07)
    True
    """

    _priors = ("test_prior_",)

    _: KW_ONLY
    test_prior: float | PriorEstimate | None = None

    def fit(
        self, X: Rows, y: Any, sample_weight: Any = None, *, X_test: Rows | None = None
    ) -> Self:
        """Fit the classifier for the prior of other rows.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`NNPUClassifier.fit`.
        X_test : rows of shape (n, d), optional
            Unlabeled rows with the prior of the rows to classify, instead of ``test_prior``.

        Returns
        -------
        self : PUaClassifier
        """
        self._check_one_prior(X_test)
        return self._fit_for(X_test, self._read_table(X, y, sample_weight))

    def fit_pu(
        self,
        positive: Rows,
        unlabeled: Rows,
        *,
        X_test: Rows | None = None,
        positive_weight: Any = None,
        unlabeled_weight: Any = None,
    ) -> Self:
        """Fit the classifier to a positive and an unlabeled sample, for the prior of other rows."""
        self._check_one_prior(X_test)
        weights = (positive_weight, unlabeled_weight)
        return self._fit_for(X_test, self._read_samples(positive, unlabeled, weights))

    def _fit_for(self, X_test: Rows | None, training: TrainingSet) -> Self:
        """Fit to checked rows, for the prior of ``X_test`` or for ``test_prior``."""
        self._keep_parameters()
        self.scenario_ = training.population.scenario
        rng = check_random_state(self.random_state)
        self.prior_ = self._training_prior(training, rng)
        if X_test is not None:
            rows = check_rows(
                self, X_test, model=self._intake(), name="X_test", like=training.pair.unlabeled.rows
            )
            self.test_prior_ = self._prior_of(Sample(rows), training, rng)
        elif self.test_prior is not None:
            self.test_prior_ = as_prior("test_prior", self.test_prior)
        else:
            self.test_prior_ = self.prior_
        self._minimise(self.test_prior_.value, training, rng)
        self.classes_ = training.labels.classes()
        return self

    def _prior_of(
        self, test: Sample, training: TrainingSet, rng: np.random.RandomState
    ) -> PriorEstimate:
        """Prior of unlabeled test rows, by kernel means or else by matching scores."""
        if isinstance(self.prior, str) and self.prior in KERNEL_MEANS:
            positive = training.pair.positive
            return off_the_edge(kernel_mean_prior(self.prior, positive, test, rng))
        model, tails = score_tails(training.pair, rng)
        scores = model.fold_scores(flat_sample(test).rows)
        counts = tails.empty(copies=scores.shape[1]).update(scores.ravel())
        train_prior = training.population.unlabeled_prior(self.prior_)
        return off_the_edge(prior_from_tails(counts, reference=tails, train_prior=train_prior))

    def _check_one_prior(self, X_test: Rows | None) -> None:
        if X_test is not None and self.test_prior is not None:
            raise ParameterError(
                "test_prior must be None with X_test, from which it is estimated: "
                "pass one of the two."
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.test_prior is not None:
            open_prior("test_prior", self.test_prior)


@dataclass(eq=False, repr=False)
class PULDClassifier(ScoredRival):
    r"""Large-margin classifier with unknown labels of the unlabeled rows (PULD).

    It optimises the labels of the unlabeled rows, with the fraction of positive ones fixed by the
    prior, together with a score that has a large margin for these labels.

    Parameters
    ----------
    model : {"kernel", "linear"}, LinearScore or KernelScore, default="kernel"
        Form of the score.
    positive_strength, unlabeled_strength : float, default=1000, 1000
        Weight of the labelled and of the unlabeled rows relative to the penalty: the
        constants C1 and C2 of the objective.
    rounds : int, default=10
        Rounds of annealing, in which the weight of the unlabeled rows increases from a
        thousandth of its value to all of it. Each round alternates between labels and score.
    prior, cost, scenario, pos_label, random_state
        As in :class:`drpu.UPUClassifier`.

    Attributes
    ----------
    prior_, model_, classes_
        As in :class:`drpu.UPUClassifier`.

    Notes
    -----
    The objective is

    .. math:: \tfrac12 |w|^2 + \tfrac{C_1}{n_P} \sum_P [1-g]_+ + \tfrac{C_2}{n_U} \sum_U [1-|g|]_+

    with the number of positive labels in U fixed by the prior. For a given score the best
    labels are exact: the rows with the largest scores are positive. For given labels the best
    score is a weighted large-margin fit; its hinge is smoothed within 0.1 of the corner, so that
    gradients exist. The weight of the unlabeled rows increases because early labels are poor.

    This is a re-derivation from the published description, not a port of the authors' code.

    The score is a margin and not a probability, so there is no ``predict_proba``. A cost other
    than 1/2 changes the weights of the two kinds of errors. After a change of the prior the
    classifier is biased.

    References
    ----------
    C. Zhang, D. Ren, T. Liu, J. Yang and C. Gong, "Positive and unlabeled learning with label
    disambiguation", IJCAI 2019.

    Examples
    --------
    >>> from drpu import PULDClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(300, 1000, prior=0.5, test_prior=0.5, separation=4, random_state=0)
    >>> clf = PULDClassifier("linear", prior=0.5, random_state=0)
    >>> clf = clf.fit_pu(data.positive, data.unlabeled)
    >>> bool(clf.score(data.test, data.test_labels) > 0.9)
    True
    """

    _: KW_ONLY
    positive_strength: float = 1000.0
    unlabeled_strength: float = 1000.0
    rounds: int = 10

    def decision_function(self, X: Rows) -> FloatArray:
        """Margin of each row: above 0 for positive predictions."""
        return self._scores(X)

    def _intake(self) -> LinearScore:
        model = super()._intake()
        if not isinstance(model, LinearScore):
            raise ParameterError(
                f"model must be 'kernel' or 'linear' for PULDClassifier, got {self.model!r}: "
                "the method is a large-margin fit."
            )
        return model

    def _learn(self, training: TrainingSet, rng: np.random.RandomState) -> None:
        self.prior_ = self._training_prior(training, rng)
        model = self._seeded(rng)
        assert isinstance(model, LinearScore)
        self.model_ = fit_margin(
            model,
            training.pair,
            prior=training.population.unlabeled_prior(self.prior_).value,
            strengths=(self.positive_strength, self.unlabeled_strength),
            rounds=self.rounds,
            cost=self.cost,
        )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("positive_strength", self.positive_strength, low=1e-9)
        check_real("unlabeled_strength", self.unlabeled_strength, low=1e-9)
        check_integer("rounds", self.rounds, low=1)


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
