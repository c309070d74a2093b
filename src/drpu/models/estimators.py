"""Functions of scikit-learn classifiers, which files contain as archives of skops.

An archive can run any code when it is read: ``load`` reads files with archives only if their origin is
trusted, and an archive is opened on first use, after that decision.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.pipeline import Pipeline

from drpu._codec import NotKept, Number, Text, Whole, kept
from drpu._typing import FloatArray, Rows
from drpu.exceptions import ArtifactError, DataError
from drpu.models.function import Function
from drpu.tables.frames import native_rows


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
    smoothed: bool  # whether p is replaced by (n_seen p + 1/2) / (n_seen + 1), because some were 0 or 1
    columns: Annotated[int, Whole(1, 2**31)]
    accepts_sparse: bool = True
    accepts_nan: bool = False
    accepts_frames: bool = False
    row_values: dict[str, str] = field(default_factory=dict)  # parts with values of training rows, and which
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
        found = read_estimators(self.archive)
        classes = [list(getattr(one, "classes_", ())) for one in found if hasattr(one, "predict_proba")]
        if len(found) != 1 or classes != [[0, 1]]:
            raise ArtifactError("the artifact must have one classifier of the labels 0 and 1.")
        return found[0]

    def for_file(self) -> Self:
        """The same with an archive of the classifier."""
        return self if self.archive else replace(self, archive=write_estimators([self.live]))

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


# -- archives -------------------------------------------------------------------------------------

_SHARED = 2**24  # bytes by which an archive may expand where estimators share an array


def write_estimators(estimators: Sequence[Any]) -> bytes:
    """An archive of fitted estimators."""
    from skops import io as skops

    try:
        content: bytes = skops.dumps(list(estimators))
    except Exception as error:  # depends on the estimator
        names = ", ".join(sorted({type(estimator).__name__ for estimator in estimators}))
        raise ArtifactError(
            f"{names} cannot be written by skops ({error!s:.300}): choose another estimator, or keep this "
            "classifier in the process that fitted it."
        ) from error
    return content


def read_estimators(archive: bytes) -> list[Any]:
    """The estimators of an archive whose origin is trusted; each uses one thread or process."""
    from skops import io as skops

    try:
        _check_expanded(archive)
        found = skops.loads(archive, trusted=skops.get_untrusted_types(data=archive))
    except Exception as error:  # depends on the archive
        raise ArtifactError(f"the estimators of the artifact cannot be read: {error!s:.300}") from error
    if not isinstance(found, list):
        raise ArtifactError("the estimators of the artifact must be a list.")
    for part in _parts(found):
        if getattr(part, "n_jobs", None) is not None:
            part.n_jobs = None
    return found


def _check_expanded(archive: bytes) -> None:
    """Raise unless the archive holds what its bytes hold: nothing compressed, and each array used once."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        parts = opened.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise ArtifactError("an archive must not be compressed.")
        if sum(part.file_size for part in parts) > len(archive):
            raise ArtifactError("an archive must not have parts in common.")
        schema = opened.read("schema.json").decode()
    expanded = sum(schema.count(f'"{part.filename}"') * part.file_size for part in parts)
    if expanded > len(archive) + _SHARED:
        raise ArtifactError(f"an archive of {len(archive)} bytes must not expand to {expanded}.")


# -- values of rows -------------------------------------------------------------------------------

# Types of scikit-learn that keep coefficients, splits, and statistics over many rows. Others keep exact
# values: limits of bins (HistGradientBoostingClassifier), medians and frequent values (SimpleImputer,
# RobustScaler), thresholds at scores (IsotonicRegression), ranges (MinMaxScaler, VarianceThreshold).
_ROW_FREE = {
    "AdaBoostClassifier", "BaggingClassifier", "Binarizer", "CalibratedClassifierCV", "ColumnTransformer",
    "DecisionTreeClassifier", "DecisionTreeRegressor", "DummyClassifier", "ExtraTreeClassifier",
    "ExtraTreesClassifier", "FeatureUnion", "FunctionTransformer", "GradientBoostingClassifier",
    "LabelBinarizer", "LabelEncoder", "LinearSVC", "LogisticRegression", "LogisticRegressionCV",
    "MLPClassifier", "MissingIndicator", "Normalizer", "PCA", "Pipeline", "PolynomialFeatures",
    "PowerTransformer", "RBFSampler", "RandomForestClassifier", "RidgeClassifier", "SGDClassifier",
    "SelectFromModel", "SelectKBest", "StackingClassifier", "StandardScaler", "TruncatedSVD",
    "VotingClassifier", "_SigmoidCalibration",
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
    free = _ROW_FREE | _MEANS if fewest >= _ENOUGH else _ROW_FREE
    found = {}
    for part in _parts(list(estimators)):
        own = type(part).__module__.startswith("sklearn.")
        if not own or type(part).__name__ not in free:
            found[type(part).__name__] = "values of training rows" if own else "maybe values of training rows"
    return dict(sorted(found.items()))


def _parts(thing: Any) -> Iterator[BaseEstimator]:
    """Every estimator inside ``thing``, fitted or not, at any depth."""
    waiting, seen = [thing], dict[int, Any]()  # with the objects, so that no other gets the same id
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, np.ndarray):
            waiting.extend(part.ravel() if part.dtype == object else ())
        elif isinstance(part, (list, tuple, set)):
            waiting.extend(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            if isinstance(part, BaseEstimator):
                yield part
            waiting.extend(vars(part).values())
