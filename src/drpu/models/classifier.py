"""Density ratios from the odds of any scikit-learn classifier."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from drpu._checks import check_random_state
from drpu._samples import SamplePair, n_rows
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import DataError, DRPUError, ParameterError
from drpu.models.estimators import EstimatorFunction, kept_values, log_odds
from drpu.models.learner import RatioLearner, seeded
from drpu.tables.frames import FrameRows, native_rows


@dataclass(eq=False, repr=False)
class ClassifierRatio(RatioLearner):
    r"""Density ratio from a classifier of positive against unlabeled rows.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``, optional
        By default a logistic regression on standardised columns, with C = 0.1, because with
        many columns and few positives weaker regularisation gives extreme ratios. It is
        cloned before fitting. Its probabilities should be calibrated; class weights would
        change them.
    random_state : int, RandomState or None, default=None
        Seed of every part of the classifier without a seed.

    Notes
    -----
    With s = 1 for positive rows the ratio is the odds :math:`P(s=1|x)/P(s=0|x)` times
    :math:`n_U/n_P` (sums of weights where there are weights). Odds are differences of
    ``predict_log_proba``, or the decision function for logistic regression, because
    1 - p loses precision for p near 1.

    Some classifiers (forests, trees, neighbours) give probabilities of exactly 0 and 1, which
    correspond to infinite ratios. If this happens on the training rows, each probability p
    is replaced by :math:`(n p + 1/2)/(n + 1)`, where n is the number of those rows. This is
    finite and keeps the order.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> positive, unlabeled = rng.normal(1, 1, (200, 1)), rng.normal(0, 1.4, (1000, 1))
    >>> function = ClassifierRatio().fit_ratio(positive, unlabeled)
    >>> low, high = function.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.7 and high > 1.2)
    True
    """

    classifier: Any = None
    _: KW_ONLY
    random_state: Any = None

    @property
    def accepts_frames(self) -> bool:  # type: ignore[override]
        """Whether the classifier is a pipeline, or a search or calibration around one, which reads frames."""
        inner = self.classifier
        while inner is not None and not isinstance(inner, Pipeline):
            inner = getattr(inner, "estimator", None)
        return inner is not None

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts sparse rows."""
        return self.classifier is None or bool(get_tags(self.classifier).input_tags.sparse)

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts missing values."""
        return self.classifier is not None and bool(get_tags(self.classifier).input_tags.allow_nan)

    def fit_ratio(self, positive: Rows, unlabeled: Rows, **options: Any) -> EstimatorFunction:  # noqa: D102
        _check_classifier(self.classifier)  # before its tags are read
        function = super().fit_ratio(positive, unlabeled, **options)
        assert isinstance(function, EstimatorFunction)
        return function

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> EstimatorFunction:
        """The odds of checked samples."""
        _check_classifier(self.classifier)
        rows, label, weight = pair.stacked(), pair.flags().astype(np.int64), pair.weights()
        base = self.classifier
        if base is None:  # sparse columns are not centred
            scaler = StandardScaler(with_mean=not sparse.issparse(rows))
            base = make_pipeline(scaler, LogisticRegression(C=0.1, max_iter=1000))
        base = seeded(base, check_random_state(self.random_state))
        classifier = _fit(clone(base), rows, label, weight)
        mass = np.bincount(label, weights=weight, minlength=2)
        if mass.min() <= 0:
            raise DataError("weights must not be zero for all rows of a kind in a fold: use fewer folds.")
        offset = float(np.log(mass[0] / mass[1]))
        fewest = n_rows(rows) / (1 + float(np.exp(abs(offset))))
        return EstimatorFunction(
            name=_name(base),
            offset=offset,
            n_seen=n_rows(rows),
            # whether some of its probabilities of the training rows are 0 or 1
            smoothed=not np.isfinite(log_odds(classifier, native_rows(rows))).all(),
            columns=rows.shape[1],
            accepts_sparse=self.accepts_sparse,
            accepts_nan=self.accepts_nan,
            accepts_frames=isinstance(rows, FrameRows),
            row_values=kept_values([classifier], fewest),
            live=classifier,
        )


def _fit(classifier: Any, rows: Rows, label: IntArray, weight: FloatArray | None) -> Any:
    try:
        classifier.fit(native_rows(rows), label, **_weight_argument(classifier, weight))
    except (TypeError, ValueError) as error:
        if not isinstance(rows, FrameRows) or isinstance(error, DRPUError):
            raise
        raise DataError(f"the pipeline cannot be fitted to these rows: {error}") from error
    _check_classifier(classifier)
    return classifier


def _check_classifier(classifier: Any) -> None:
    if classifier is None:
        return
    if isinstance(classifier, type) or not hasattr(classifier, "fit"):
        raise ParameterError(
            f"classifier must be an instance of a scikit-learn classifier, got {classifier!r}."
        )
    stacked = hasattr(classifier, "final_estimator") and not hasattr(classifier, "classes_")
    if not hasattr(classifier, "predict_proba") and not stacked:  # a stack has its tags only after fitting
        raise ParameterError(
            f"classifier must have predict_proba, which {classifier!r} does not have: "
            f"calibrate it, CalibratedClassifierCV({classifier!r})."
        )


def _name(classifier: Any) -> str:
    steps = [step for _, step in classifier.steps] if isinstance(classifier, Pipeline) else [classifier]
    return " after ".join(type(step).__name__ for step in reversed(steps))


def _weight_argument(classifier: Any, weight: FloatArray | None) -> dict[str, FloatArray]:
    if weight is None:
        return {}
    path, last = [], classifier
    while isinstance(last, Pipeline):
        step, last = last.steps[-1]
        path.append(step)
    if not has_fit_parameter(last, "sample_weight"):
        raise ParameterError(
            f"weights must be None with {type(last).__name__}, whose fit has no sample_weight: "
            "use another classifier, or resample the rows by their weights."
        )
    return {"__".join([*path, "sample_weight"]): weight}
