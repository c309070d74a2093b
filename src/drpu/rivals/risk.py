"""Classifiers that minimise a positive-unlabeled risk: uPU, nnPU, PUa and PULD."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.utils.metaestimators import available_if

from drpu._arrays import BoolArray, FloatArray, Rows
from drpu._checks import check_integer, check_real
from drpu._samples import Sample
from drpu.beliefs.methods import prior_from_tails
from drpu.classifier.fitting import KERNEL_MEANS, flat_sample, kernel_mean_prior
from drpu.classifier.reading import check_rows
from drpu.exceptions import ParameterError
from drpu.models.fourier import Designs, LinearFunction, LinearScore
from drpu.models.learner import ScoreLearner
from drpu.models.registry import resolve_score
from drpu.models.risks import ShiftedRisk, get_loss, weight_shares
from drpu.priors.estimate import PriorEstimate, as_prior
from drpu.rivals.rival import (
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
        ``"km1"`` use the features; ``"auto"``, ``"best-bin"``, ``"plateau"`` and
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
        return self._fit(self._read_table(X, y, sample_weight), X_test=X_test)

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
        return self._fit(self._read_samples(positive, unlabeled, weights), X_test=X_test)

    def _learn(
        self, training: TrainingSet, rng: np.random.RandomState, X_test: Rows | None = None
    ) -> None:
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


FAINTEST = 1e-3  # weight of the unlabeled rows in the first round, relative to the last
MOST_TURNS = 10  # alternations between labels and score in one round
MARGIN_STEPS = 200
ROUNDING = 0.1  # half width of the smoothed corner of the hinge


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
        unlabeled_prior = training.population.unlabeled_prior(self.prior_).value
        features, designs = model.designs(training.pair)
        share_p = weight_shares(designs.positive, designs.positive.weight)
        share_u = weight_shares(designs.unlabeled, designs.unlabeled.weight)
        pull_p = 2 * (1 - self.cost) * self.positive_strength * share_p
        w = np.zeros(designs.positive.width + 1)
        labels = np.zeros(len(designs.unlabeled), dtype=bool)
        schedule = np.geomspace(FAINTEST, 1.0, self.rounds) if self.rounds > 1 else np.ones(1)
        for strength in schedule:
            for turn in range(MOST_TURNS):
                new_labels = labels
                if turn > 0 or w.any():
                    scores = designs.unlabeled.times(w[:-1])
                    new_labels = label_by_rank(scores, share_u, unlabeled_prior)
                if turn > 0 and np.array_equal(new_labels, labels):
                    break
                labels = new_labels
                cost_of_label = np.where(labels, 2 * (1 - self.cost), 2 * self.cost)
                pull_u = self.unlabeled_strength * strength * cost_of_label * share_u
                w = _margin(designs, labels, pull_p, pull_u, w)
        self.model_ = LinearFunction(features, w[:-1], float(w[-1]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_real("positive_strength", self.positive_strength, low=1e-9)
        check_real("unlabeled_strength", self.unlabeled_strength, low=1e-9)
        check_integer("rounds", self.rounds, low=1)


def label_by_rank(scores: FloatArray, weight: FloatArray, prior: float) -> BoolArray:
    """The optimal labels of scores: the largest, a weighted fraction ``prior``, are positive."""
    order = np.argsort(-scores, kind="stable")
    before = np.cumsum(weight[order]) - weight[order] / 2
    labels = np.zeros(len(scores), dtype=bool)
    labels[order] = before < prior
    return labels


def _margin(
    designs: Designs, labels: BoolArray, pull_p: FloatArray, pull_u: FloatArray, start: FloatArray
) -> FloatArray:
    """Coefficients of the large-margin fit to these labels, the intercept last."""
    sign = np.where(labels, 1.0, -1.0)

    def value(w: FloatArray) -> tuple[float, FloatArray]:
        scores_p, scores_u = designs.scores(w)
        loss_p, slope_p = _hinge(scores_p)
        loss_u, slope_u = _hinge(sign * scores_u)
        slope = designs.gradient(pull_p * slope_p, pull_u * slope_u * sign)
        slope[:-1] += w[:-1]
        total = float(pull_p @ loss_p + pull_u @ loss_u + w[:-1] @ w[:-1] / 2)
        return total, slope

    options: Any = {"maxiter": MARGIN_STEPS, "ftol": 1e-7}
    solution = minimize(value, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(solution.x, dtype=np.float64)


def _hinge(margin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """[1 - z]_+ with a smoothed corner, and its derivative."""
    lack = 1 - margin
    round_part = np.clip(lack + ROUNDING, 0, 2 * ROUNDING)
    value = round_part**2 / (4 * ROUNDING) + np.maximum(lack - ROUNDING, 0)
    return value, -round_part / (2 * ROUNDING)
