"""Density ratios from the odds of any scikit-learn classifier, and archives of such classifiers.

Files contain fitted classifiers as archives of skops. An archive can run any code when it is read:
``load`` reads files with archives only if their origin is trusted, and an archive is opened on
first use, after that decision.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import scipy

from drpu import _lazy
from drpu._arrays import FloatArray, IntArray, Rows
from drpu._checks import check_random_state
from drpu._codec import NotKept, Number, Text, Whole, kept
from drpu._samples import SamplePair, n_rows
from drpu.exceptions import ArtifactError, DataError, DRPUError, ParameterError
from drpu.models.learner import Function, RatioLearner, seeded
from drpu.tables.frames import FrameRows, native_rows

# -- the function ---------------------------------------------------------------------------------


@kept("estimators")
@dataclass(frozen=True, eq=False)
class EstimatorFunction(Function):
    """Log-odds of a classifier plus an offset."""

    statistics: ClassVar[tuple[str, ...]] = (
        "coefficients, splits and statistics of scikit-learn estimators",
    )

    name: Annotated[str, Text(most=1000)]  # the type of the classifier
    offset: Annotated[float, Number(-1e3, 1e3)]  # from log-odds to log-ratios
    n_seen: Annotated[int, Whole(1)]  # number of training rows
    # Whether p is replaced by (n_seen p + 1/2) / (n_seen + 1), because some were 0 or 1.
    smoothed: bool
    columns: Annotated[int, Whole(1, 2**31)]
    accepts_sparse: bool = True
    accepts_nan: bool = False
    accepts_frames: bool = False
    # Parts with values of training rows, and which values.
    row_values: dict[str, str] = field(default_factory=dict)
    archive: bytes = b""  # the classifier, empty if it was fitted in this process
    live: Annotated[Any, NotKept] = None  # the classifier, if it was fitted in this process

    @property
    def n_columns(self) -> int:  # noqa: D102
        return self.columns

    @property
    def keeps(self) -> dict[str, str]:
        """Parts of the classifier that contain values of training rows."""
        return self.row_values

    @cached_property
    def estimator(self) -> Any:
        """The fitted classifier."""
        if self.live is not None:
            return self.live
        estimators = read_estimators(self.archive)
        classes = [list(getattr(estimator, "classes_", ())) for estimator in estimators]
        if classes != [[0, 1]] or not hasattr(estimators[0], "predict_proba"):
            raise ArtifactError("the artifact must have one classifier of the labels 0 and 1.")
        return estimators[0]

    def for_file(self) -> Self:
        """The same with an archive of the classifier."""
        if self.archive:
            return self
        return replace(self, archive=write_estimators([self.live]))

    def describe(self) -> str:
        """The type of the classifier."""
        return f"the odds of {self.name}"

    def _score(self, X: Rows) -> FloatArray:
        smoothing = self.n_seen if self.smoothed else None
        try:
            scores = log_odds(self.estimator, native_rows(X), smoothing) + self.offset
        except ArtifactError:
            raise
        except ValueError as error:  # a step of the user's pipeline that does not accept these rows
            raise DataError(f"X cannot be scored by the classifier: {error}") from error
        return np.asarray(scores)


def log_odds(classifier: Any, X: Rows, smoothing: int | None = None) -> FloatArray:
    """Log-odds of positive against unlabeled rows; infinite for probabilities of 0 or 1."""
    if smoothing is not None:
        p = np.asarray(classifier.predict_proba(X), dtype=np.float64)
        positive = np.log(smoothing * p[:, 1] + 0.5)
        return np.asarray(positive - np.log(smoothing * p[:, 0] + 0.5))
    last_step = classifier.steps[-1][1] if isinstance(classifier, _lazy.Pipeline) else classifier
    if isinstance(last_step, (_lazy.LogisticRegression, _lazy.LogisticRegressionCV)):
        return np.asarray(classifier.decision_function(X), dtype=np.float64)
    with np.errstate(divide="ignore"):
        if hasattr(classifier, "predict_log_proba"):
            log_p = np.asarray(classifier.predict_log_proba(X), dtype=np.float64)
        else:
            log_p = np.log(np.asarray(classifier.predict_proba(X), dtype=np.float64))
    return np.asarray(log_p[:, 1] - log_p[:, 0])


# -- the learner ----------------------------------------------------------------------------------


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
        """Whether the classifier is a pipeline, or a search or calibration around one."""
        inner = self.classifier
        while inner is not None and not isinstance(inner, _lazy.Pipeline):
            inner = getattr(inner, "estimator", None)
        return inner is not None

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts sparse rows."""
        return self.classifier is None or bool(_lazy.get_tags(self.classifier).input_tags.sparse)

    @property
    def accepts_nan(self) -> bool:  # type: ignore[override]
        """Whether the classifier accepts missing values."""
        if self.classifier is None:
            return False
        return bool(_lazy.get_tags(self.classifier).input_tags.allow_nan)

    def fit_ratio(self, positive: Rows, unlabeled: Rows, **options: Any) -> EstimatorFunction:
        """The odds of a positive and an unlabeled sample."""
        _check_classifier(self.classifier)  # before its tags are read
        function = super().fit_ratio(positive, unlabeled, **options)
        assert isinstance(function, EstimatorFunction)
        return function

    def fit_checked(self, pair: SamplePair, holdout: SamplePair | None = None) -> EstimatorFunction:
        """The odds of checked samples."""
        _check_classifier(self.classifier)
        rows = pair.stacked()
        label = pair.flags().astype(np.int64)
        weight = pair.weights()
        unfitted = self.classifier
        if unfitted is None:
            scaler = _lazy.StandardScaler(with_mean=not scipy.sparse.issparse(rows))
            regression = _lazy.LogisticRegression(C=0.1, max_iter=1000)
            unfitted = _lazy.make_pipeline(scaler, regression)
        unfitted = seeded(unfitted, check_random_state(self.random_state))
        classifier = _fit(_lazy.clone(unfitted), rows, label, weight)
        unlabeled_mass, positive_mass = np.bincount(label, weights=weight, minlength=2)
        if min(unlabeled_mass, positive_mass) <= 0:
            raise DataError(
                "weights must not be zero for all rows of a kind in a fold: use fewer folds."
            )
        offset = float(np.log(unlabeled_mass / positive_mass))
        training_odds = log_odds(classifier, native_rows(rows))
        rows_of_smaller_class = n_rows(rows) / (1 + float(np.exp(abs(offset))))
        return EstimatorFunction(
            name=_name(unfitted),
            offset=offset,
            n_seen=n_rows(rows),
            smoothed=not np.isfinite(training_odds).all(),
            columns=rows.shape[1],
            accepts_sparse=self.accepts_sparse,
            accepts_nan=self.accepts_nan,
            accepts_frames=isinstance(rows, FrameRows),
            row_values=kept_values([classifier], rows_of_smaller_class),
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
    # A stack has its attributes only after fitting.
    is_unfitted_stack = hasattr(classifier, "final_estimator") and not hasattr(
        classifier, "classes_"
    )
    if not hasattr(classifier, "predict_proba") and not is_unfitted_stack:
        raise ParameterError(
            f"classifier must have predict_proba, which {classifier!r} does not have: "
            f"calibrate it, CalibratedClassifierCV({classifier!r})."
        )


def _name(classifier: Any) -> str:
    if not isinstance(classifier, _lazy.Pipeline):
        return type(classifier).__name__
    names = [type(step).__name__ for _, step in classifier.steps]
    return " after ".join(reversed(names))


def _weight_argument(classifier: Any, weight: FloatArray | None) -> dict[str, FloatArray]:
    if weight is None:
        return {}
    path = []
    last = classifier
    while isinstance(last, _lazy.Pipeline):
        step, last = last.steps[-1]
        path.append(step)
    if not _lazy.has_fit_parameter(last, "sample_weight"):
        raise ParameterError(
            f"weights must be None with {type(last).__name__}, whose fit has no sample_weight: "
            "use another classifier, or resample the rows by their weights."
        )
    return {"__".join([*path, "sample_weight"]): weight}


# -- archives -------------------------------------------------------------------------------------

_SHARED = 2**24  # bytes by which an archive may expand where estimators share an array


def write_estimators(estimators: Sequence[Any]) -> bytes:
    """An archive of fitted estimators."""
    from skops import io as skops

    try:
        content: bytes = skops.dumps(list(estimators))
    except Exception as error:  # depends on the estimator
        names = sorted({type(estimator).__name__ for estimator in estimators})
        raise ArtifactError(
            f"{', '.join(names)} cannot be written by skops ({error!s:.300}): choose another "
            "estimator, or keep this classifier in the process that fitted it."
        ) from error
    return content


def read_estimators(archive: bytes) -> list[Any]:
    """The estimators of an archive whose origin is trusted; each uses one thread or process."""
    from skops import io as skops

    try:
        _check_expanded(archive)
        estimators = skops.loads(archive, trusted=skops.get_untrusted_types(data=archive))
    except Exception as error:  # depends on the archive
        raise ArtifactError(
            f"the estimators of the artifact cannot be read: {error!s:.300}"
        ) from error
    if not isinstance(estimators, list):
        raise ArtifactError("the estimators of the artifact must be a list.")
    for part in _parts(estimators):
        if getattr(part, "n_jobs", None) is not None:
            part.n_jobs = None
    return estimators


def _check_expanded(archive: bytes) -> None:
    """Raise unless an archive holds what its bytes hold.

    Nothing is compressed, and each array is used once.
    """
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        parts = opened.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ArtifactError("an archive must not be compressed.")
        if sum(part.file_size for part in parts) > len(archive):
            raise ArtifactError("an archive must not have parts in common.")
        schema = opened.read("schema.json").decode()
    expanded = 0
    for part in parts:
        times_used = schema.count(f'"{part.filename}"')
        expanded += times_used * part.file_size
    if expanded > len(archive) + _SHARED:
        raise ArtifactError(f"an archive of {len(archive)} bytes must not expand to {expanded}.")


# -- values of rows -------------------------------------------------------------------------------

# Types of scikit-learn that keep coefficients, splits, and statistics over many rows. Others keep
# exact values: limits of bins (HistGradientBoostingClassifier), medians and frequent values
# (SimpleImputer, RobustScaler), thresholds at scores (IsotonicRegression), ranges (MinMaxScaler,
# VarianceThreshold).
_ROW_FREE = {
    "AdaBoostClassifier", "BaggingClassifier", "Binarizer", "CalibratedClassifierCV",
    "ColumnTransformer", "DecisionTreeClassifier", "DecisionTreeRegressor", "DummyClassifier",
    "ExtraTreeClassifier", "ExtraTreesClassifier", "FeatureUnion", "FunctionTransformer",
    "GradientBoostingClassifier", "LabelBinarizer", "LabelEncoder", "LinearSVC",
    "LogisticRegression", "LogisticRegressionCV", "MLPClassifier", "MissingIndicator",
    "Normalizer", "PCA", "Pipeline", "PolynomialFeatures", "PowerTransformer", "RBFSampler",
    "RandomForestClassifier", "RidgeClassifier", "SGDClassifier", "SelectFromModel", "SelectKBest",
    "StackingClassifier", "StandardScaler", "TruncatedSVD", "VotingClassifier",
    "_SigmoidCalibration",
}  # fmt: skip
# Types that keep a mean for each class, which reveals no row if the class has several.
_MEANS = {
    "BernoulliNB", "ComplementNB", "GaussianNB", "LinearDiscriminantAnalysis", "MultinomialNB",
    "QuadraticDiscriminantAnalysis",
}  # fmt: skip
_ENOUGH = 5  # a mean of fewer rows would reveal too much about them


def kept_values(estimators: Sequence[Any], fewest: float = np.inf) -> dict[str, str]:
    """Parts that contain values of training rows, or may contain them, and what they contain.

    ``fewest`` is the number of training rows in the smaller class.
    """
    free = _ROW_FREE
    if fewest >= _ENOUGH:
        free = _ROW_FREE | _MEANS
    values = {}
    for part in _parts(list(estimators)):
        name = type(part).__name__
        if not type(part).__module__.startswith("sklearn."):
            values[name] = "maybe values of training rows"
        elif name not in free:
            values[name] = "values of training rows"
    return dict(sorted(values.items()))


def _parts(root: Any) -> Iterator[Any]:
    """Every estimator inside an object, fitted or not, at any depth."""
    waiting = [root]
    seen: dict[int, Any] = {}  # with the objects, so that no other gets the same id
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, np.ndarray):
            if part.dtype == object:
                waiting.extend(part.ravel())
        elif isinstance(part, (list, tuple, set)):
            waiting.extend(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            if isinstance(part, _lazy.BaseEstimator):
                yield part
            waiting.extend(vars(part).values())
