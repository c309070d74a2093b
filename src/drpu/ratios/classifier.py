"""Density ratios from the odds of any scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import has_fit_parameter

from drpu._checks import check_integer, check_real
from drpu._samples import SamplePair, n_rows, take_rows
from drpu._schema import Flag, Integer, List, Number, Schema
from drpu._state import ModelState
from drpu._typing import FloatArray, IntArray, Rows
from drpu.exceptions import DataError, DRPUError, ParameterError
from drpu.functions.saved.allowed import ENOUGH, kept_values, needs_rows
from drpu.functions.saved.read import read_estimators
from drpu.functions.saved.write import write_estimators
from drpu.ratios.base import LOG_LIMIT, RatioModel
from drpu.tables.frames import FrameRows, is_frame, native_rows, read_frame

__all__ = ["ClassifierRatio"]


class ClassifierRatio(RatioModel, kind="classifier", named=True):
    r"""Density ratio from a classifier of positive against unlabeled rows.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``, optional
        By default a logistic regression on standardised columns, with C = 0.1, because with
        many columns and few positives weaker regularisation gives extreme ratios. It is
        cloned before fitting. Its probabilities should be calibrated; class weights would
        change them.
    folds : int, default=1
        With two or more, one classifier is fitted without each fold, and the log-ratio is
        the mean of theirs, which reduces its variance.
    random_state : int, RandomState or None, default=None
        Seed of the folds, and of every part of the classifier without a seed.

    Attributes
    ----------
    classifiers_ : list of classifiers
        One per fold.
    smoothed_ : bool
        Whether probabilities are smoothed, see Notes.

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
    >>> model = ClassifierRatio().fit_ratio(positive, unlabeled)
    >>> low, high = model.ratio([[-1.0], [1.0]])
    >>> bool(low < 0.7 and high > 1.2)
    True
    """

    schema = Schema(
        "ClassifierRatio",
        config={
            "offsets": List(Number(-1e3, 1e3), low=1),
            "smoothed": Flag(),
            "n_seen": Integer(1),
            "n_features": Integer(1),
        },
        blobs=("classifiers",),
    )

    def __init__(self, classifier: Any = None, *, folds: int = 1, random_state: Any = None) -> None:
        self.classifier = classifier
        self.folds = folds
        self.random_state = random_state

    @property
    def accepts_frames(self) -> bool:  # type: ignore[override]
        """Whether the classifier is a pipeline, which gets data frames unchanged (as in training)."""
        return getattr(self, "frames_", takes_frames(self.classifier))

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts sparse rows."""
        return self.classifier is None or bool(get_tags(self.classifier).input_tags.sparse)

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts missing values."""
        return self.classifier is not None and bool(get_tags(self.classifier).input_tags.allow_nan)

    @property
    def keeps_rows(self) -> bool:
        """Whether some part of the classifier contains values of training rows."""
        return bool(self.kept_values)

    @property
    def kept_values(self) -> dict[str, str]:
        """Parts of the classifier that contain values of training rows, and what they contain."""
        parts = getattr(self, "classifiers_", [self.classifier])
        kept = kept_values(parts)
        if hasattr(self, "offsets_") and _fewest(self.n_seen_, self.offsets_) < ENOUGH:
            kept |= dict.fromkeys(needs_rows(parts), "means of very few rows")
        return kept

    def _rows(self, name: str, X: Any) -> Rows:
        if self.accepts_frames and is_frame(X):
            return FrameRows.of(read_frame(X))
        return super()._rows(name, X)

    def fit_ratio(self, positive: Rows, unlabeled: Rows, **options: Any) -> Self:  # noqa: D102
        _check_classifier(self.classifier)  # before its tags are read
        return super().fit_ratio(positive, unlabeled, **options)

    def _fit(self, pair: SamplePair, holdout: SamplePair | None) -> None:
        _check_classifier(self.classifier)
        folds = check_integer("folds", self.folds, low=1)
        n_p, n_u = len(pair.positive), len(pair.unlabeled)
        if folds > min(n_p, n_u):
            raise ParameterError(
                f"folds must be at most the number of positive and of unlabeled rows, "
                f"got {folds} for {n_p} and {n_u}."
            )
        self.frames_ = isinstance(pair.positive.rows, FrameRows)
        rows, label, weight = pair.stacked(), pair.flags().astype(np.int64), pair.weights()

        rng = check_random_state(self.random_state)
        base = _seeded(_default(rows) if self.classifier is None else clone(self.classifier), rng)
        self.classifiers_: list[Any] = []
        self.offsets_: list[float] = []
        self.smoothed_ = False
        for seen in _folds(label, folds, rng):
            part = None if weight is None else weight[seen]
            self._fit_one(clone(base), take_rows(rows, seen), label[seen], part)

    def _fit_one(self, classifier: Any, rows: Rows, label: IntArray, weight: FloatArray | None) -> None:
        try:
            classifier.fit(native_rows(rows), label, **_weight_argument(classifier, weight))
        except (TypeError, ValueError) as error:
            if not isinstance(rows, FrameRows) or isinstance(error, DRPUError):
                raise
            raise DataError(f"the pipeline cannot be fitted to these rows: {error}") from error
        _check_classifier(classifier)
        mass = np.bincount(label, weights=weight, minlength=2)
        if mass.min() <= 0:
            raise DataError("weights must not be zero for all rows of a kind in a fold: use fewer folds.")
        self.classifiers_.append(classifier)
        self.offsets_.append(float(np.log(mass[0] / mass[1])))
        self.smoothed_ = self.smoothed_ or not np.isfinite(_log_odds(classifier, native_rows(rows))).all()
        self.n_seen_ = n_rows(rows)

    def _log_ratio(self, X: Rows) -> FloatArray:
        smoothing = self.n_seen_ if self.smoothed_ else None
        try:
            scores = [
                _log_odds(classifier, native_rows(X), smoothing) + offset
                for classifier, offset in zip(self.classifiers_, self.offsets_, strict=True)
            ]
        except ValueError as error:  # a step of the user's pipeline that does not accept these rows
            raise DataError(f"X cannot be scored by the classifier: {error}") from error
        return np.asarray(np.mean(np.clip(scores, -LOG_LIMIT, LOG_LIMIT), axis=0))

    def state(self) -> ModelState:
        """The classifiers as an archive, and the offsets from odds to ratios."""
        return ModelState(
            kind=self.kind,
            config={
                "offsets": self.offsets_,
                "smoothed": bool(self.smoothed_),
                "n_seen": self.n_seen_,
                "n_features": self.n_features_in_,
                **({"frames": True} if self.frames_ else {}),
            },
            blobs={"classifiers": write_estimators(self.classifiers_)},
        )

    @classmethod
    def check_state(cls, state: ModelState) -> None:
        """Raise unless the classifiers of ``state`` are of known types and valid."""
        read_estimators(state.blobs["classifiers"])

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:
        """A fitted model from its state; types that are not on the list of safe types are refused."""
        config = state.config
        try:
            classifiers = read_estimators(state.blobs["classifiers"])
            model = cls(clone(classifiers[0]), folds=len(classifiers))
            model.classifiers_ = classifiers
            model.offsets_ = [
                check_real("offset", offset, low=-1e3, high=1e3) for offset in config["offsets"]
            ]
            model.smoothed_ = bool(config["smoothed"])
            model.n_seen_ = check_integer("n_seen", config["n_seen"], low=1)
            model.n_features_in_ = check_integer("n_features", config["n_features"], low=1)
            model.frames_ = bool(config.get("frames", False))
        except (KeyError, IndexError, TypeError, ParameterError) as error:
            raise DataError(f"state is not that of a ClassifierRatio: {error!r}.") from error
        for classifier in classifiers:
            classes = list(getattr(classifier, "classes_", ()))
            if not hasattr(classifier, "predict_proba") or classes != [0, 1]:
                raise DataError("state is not that of a ClassifierRatio: its classes must be 0 and 1.")
            if getattr(classifier, "n_features_in_", None) != model.n_features_in_:
                raise DataError("state is not that of a ClassifierRatio: its classifiers differ in columns.")
        if len(model.offsets_) != len(classifiers):
            raise DataError(
                "state is not that of a ClassifierRatio: it must have an offset for each classifier."
            )
        return model


def takes_frames(classifier: Any) -> bool:
    """Whether the classifier is a pipeline, or a search or calibration around one."""
    while classifier is not None and not isinstance(classifier, Pipeline):
        classifier = getattr(classifier, "estimator", None)
    return classifier is not None


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


def _default(rows: Rows) -> Pipeline:
    """Logistic regression on standardised columns; sparse ones are not centred."""
    scaler = StandardScaler(with_mean=not sparse.issparse(rows))
    return make_pipeline(scaler, LogisticRegression(C=0.1, max_iter=1000))


def _seeded(classifier: Any, rng: np.random.RandomState) -> Any:
    """The classifier with seeds in place of all random states that are None."""
    states = {
        name: int(rng.randint(2**31 - 1))
        for name, value in sorted(classifier.get_params(deep=True).items())
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    }
    return classifier.set_params(**states)


def _folds(label: IntArray, folds: int, rng: np.random.RandomState) -> Iterator[IntArray]:
    """Training rows of each classifier."""
    if folds == 1:
        yield np.arange(len(label))
        return
    split = StratifiedKFold(folds, shuffle=True, random_state=int(rng.randint(2**31 - 1)))
    for seen, _ in split.split(label, label):
        yield seen


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


def _log_odds(classifier: Any, X: Rows, smoothing: int | None = None) -> FloatArray:
    """Log-odds of a row being positive rather than unlabeled; infinite for probabilities of 0 or 1."""
    last = classifier.steps[-1][1] if isinstance(classifier, Pipeline) else classifier
    if isinstance(last, (LogisticRegression, LogisticRegressionCV)) and smoothing is None:
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    if smoothing is not None:
        p = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        return np.asarray(np.log(smoothing * p[:, 1] + 0.5) - np.log(smoothing * p[:, 0] + 0.5))
    with np.errstate(divide="ignore"):
        if hasattr(classifier, "predict_log_proba"):
            log_p = np.asarray(classifier.predict_log_proba(X), dtype=np.float64)
        else:
            log_p = np.log(np.asarray(classifier.predict_proba(X), dtype=np.float64))
    return np.asarray(log_p[:, 1] - log_p[:, 0])


def _fewest(n_seen: int, offsets: list[float]) -> float:
    """Effective number of training rows of the smaller sample."""
    return min(n_seen / (1 + float(np.exp(abs(offset)))) for offset in offsets)
