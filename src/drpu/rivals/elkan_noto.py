"""ElkanNotoClassifier: the method of Elkan and Noto (2008)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier

from drpu._arrays import FloatArray, Rows
from drpu._samples import SamplePair
from drpu.models.crossfit import cross_fit, resolve_holdout
from drpu.models.estimators import ClassifierRatio
from drpu.models.registry import refuse_learnt
from drpu.priors.estimate import PriorEstimate
from drpu.rivals.rival import PosteriorRival, off_the_edge
from drpu.state.rows import TrainingSet

FOLDS = 5  # largest number of folds


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
