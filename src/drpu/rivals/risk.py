"""Classifiers that minimise a positive-unlabeled risk: uPU, nnPU and PUa."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if

from drpu._checks import check_random_state, check_real
from drpu._samples import Sample, SamplePair
from drpu._typing import FloatArray, Rows
from drpu.classifier.priors import Population, shifted_prior
from drpu.classifier.reading import check_rows
from drpu.exceptions import ParameterError
from drpu.models.learner import ScoreLearner
from drpu.models.registry import resolve_score
from drpu.models.risks import ShiftedRisk, get_loss
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.rivals.rival import ScoredRival, open_prior
from drpu.state.labels import Classes

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

    def _learn(self, pair: SamplePair, rng: np.random.RandomState) -> None:
        population = self._population(pair, rng)
        self._minimise(population, population.prior.value, pair, rng)

    def _minimise(
        self, population: Population, target: float, pair: SamplePair, rng: np.random.RandomState
    ) -> None:
        """Fit the score for rows whose prior is ``target``."""
        loss = get_loss(self.loss)
        cost = 0.5
        if loss.posterior is None:  # otherwise the cost is a threshold on the posterior
            cost = self.cost
        objective = ShiftedRisk(
            population.unlabeled_prior, target, loss, cost, **self._correction()
        )
        self.model_ = self._seeded(rng).fit_score(pair, objective)
        self.prior_ = population.prior

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
        pair, classes = self._read_table(X, y, sample_weight)
        return self._fit_for(X_test, pair, classes)

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
        samples = self._read_samples(positive, unlabeled, positive_weight, unlabeled_weight)
        return self._fit_for(X_test, *samples)

    def _fit_for(self, X_test: Rows | None, pair: SamplePair, classes: Classes) -> Self:
        """Fit to checked rows, for the prior of ``X_test`` or for ``test_prior``."""
        self._keep_parameters()
        rng = check_random_state(self.random_state)
        population = self._population(pair, rng)
        if X_test is not None:
            rows = check_rows(
                self, X_test, model=self._intake(), name="X_test", like=pair.unlabeled.rows
            )
            self.test_prior_ = shifted_prior(self.prior, population, pair, Sample(rows), rng)
        elif self.test_prior is not None:
            self.test_prior_ = as_prior("test_prior", self.test_prior)
        else:
            self.test_prior_ = population.prior
        self._minimise(population, self.test_prior_.value, pair, rng)
        self.classes_ = classes
        return self

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
