"""The scikit-learn types that an artifact may contain, and what each keeps of the training rows.

The list is closed. A type on the list satisfies three conditions: no content of a file can make its
``predict_proba`` or ``transform`` unsafe (see :mod:`drpu.functions.saved.checks`), it can be built from plain
data, and it is known what it keeps of the training rows. All other types are refused when a classifier is
saved and when a file is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

__all__ = [
    "ENOUGH",
    "MEANS",
    "ROW_FREE",
    "TYPES",
    "VALUES",
    "kept_values",
    "needs_rows",
    "parts_of",
    "type_name",
]

# Types that keep coefficients, splits, and statistics over many rows.
ROW_FREE = frozenset(
    {
        "sklearn.calibration.CalibratedClassifierCV",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.compose._column_transformer.ColumnTransformer",
        "sklearn.decomposition._pca.PCA",
        "sklearn.decomposition._truncated_svd.TruncatedSVD",
        "sklearn.dummy.DummyClassifier",
        "sklearn.ensemble._bagging.BaggingClassifier",
        "sklearn.ensemble._forest.ExtraTreesClassifier",
        "sklearn.ensemble._forest.RandomForestClassifier",
        "sklearn.ensemble._gb.GradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.ensemble._stacking.StackingClassifier",
        "sklearn.ensemble._voting.VotingClassifier",
        "sklearn.ensemble._weight_boosting.AdaBoostClassifier",
        "sklearn.feature_selection._from_model.SelectFromModel",
        "sklearn.feature_selection._univariate_selection.SelectKBest",
        "sklearn.feature_selection._variance_threshold.VarianceThreshold",
        "sklearn.impute._base.MissingIndicator",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.isotonic.IsotonicRegression",  # maps scores, in a CalibratedClassifierCV
        "sklearn.kernel_approximation.RBFSampler",
        "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.linear_model._logistic.LogisticRegressionCV",
        "sklearn.linear_model._ridge.RidgeClassifier",
        "sklearn.linear_model._stochastic_gradient.SGDClassifier",
        "sklearn.model_selection._split.StratifiedKFold",
        "sklearn.neural_network._multilayer_perceptron.MLPClassifier",
        "sklearn.pipeline.FeatureUnion",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.Binarizer",
        "sklearn.preprocessing._data.Normalizer",
        "sklearn.preprocessing._data.PowerTransformer",
        "sklearn.preprocessing._data.RobustScaler",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._function_transformer.FunctionTransformer",
        "sklearn.preprocessing._label.LabelBinarizer",  # maps the labels 0 and 1
        "sklearn.preprocessing._label.LabelEncoder",
        "sklearn.preprocessing._polynomial.PolynomialFeatures",
        "sklearn.svm._classes.LinearSVC",
        "sklearn.tree._classes.DecisionTreeClassifier",
        "sklearn.tree._classes.DecisionTreeRegressor",
        "sklearn.tree._classes.ExtraTreeClassifier",
    }
)

# Types that keep a mean for each class, which reveals no row if the class has several.
MEANS = frozenset(
    {
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
        "sklearn.discriminant_analysis.QuadraticDiscriminantAnalysis",
        "sklearn.naive_bayes.BernoulliNB",
        "sklearn.naive_bayes.ComplementNB",
        "sklearn.naive_bayes.GaussianNB",
        "sklearn.naive_bayes.MultinomialNB",
    }
)
ENOUGH = 5  # a mean of fewer rows would reveal too much about them

# Types that keep values of the training rows, and these values. Written with ``keep_rows=True`` only.
VALUES = {
    "sklearn.cluster._kmeans.KMeans": "cluster centres, which are rows if a cluster has only one",
    "sklearn.gaussian_process._gpc.GaussianProcessClassifier": "training rows",
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace": "training rows",
    "sklearn.impute._knn.KNNImputer": "training rows",
    "sklearn.kernel_approximation.Nystroem": "training rows",
    "sklearn.neighbors._classification.KNeighborsClassifier": "training rows",
    "sklearn.preprocessing._data.MaxAbsScaler": "the largest value of each column",
    "sklearn.preprocessing._data.MinMaxScaler": "the range of each column",
    "sklearn.preprocessing._data.QuantileTransformer": "values of each column",
    "sklearn.preprocessing._discretization.KBinsDiscretizer": "values of each column",
    "sklearn.preprocessing._encoders.OneHotEncoder": "the distinct values of each column",
    "sklearn.preprocessing._encoders.OrdinalEncoder": "the distinct values of each column",
    "sklearn.preprocessing._polynomial.SplineTransformer": "the range of each column",
    "sklearn.svm._classes.SVC": "training rows",
}

# Parts of the above that are not estimators.
_PARTS = frozenset(
    {
        "sklearn.gaussian_process.kernels.ConstantKernel",
        "sklearn.gaussian_process.kernels.Product",
        "sklearn.gaussian_process.kernels.RBF",
        "sklearn.gaussian_process.kernels.Sum",
        "sklearn.gaussian_process.kernels.WhiteKernel",
    }
)

TYPES = ROW_FREE | MEANS | VALUES.keys() | _PARTS


def type_name(thing: Any) -> str:
    """The name of a type as in a file."""
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def parts_of(thing: Any) -> Iterator[BaseEstimator]:
    """Every estimator inside ``thing``, fitted or not, at any depth."""
    waiting, seen = [thing], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, (list, tuple, set)) or (isinstance(part, np.ndarray) and part.dtype == object):
            waiting.extend(part)
        elif hasattr(part, "__dict__") and not isinstance(part, type):
            if isinstance(part, BaseEstimator):
                yield part
            waiting.extend(vars(part).values())


def kept_values(thing: Any) -> dict[str, str]:
    """Name of each part of ``thing`` that keeps values of the training rows, and what it keeps."""
    return {
        type(part).__name__: VALUES.get(type_name(part), "what it keeps is not known")
        for part in parts_of(thing)
        if type_name(part) not in ROW_FREE | MEANS | _PARTS
    }


def needs_rows(thing: Any) -> list[str]:
    """Names of the parts of ``thing`` that keep a mean for each class."""
    return sorted({type(part).__name__ for part in parts_of(thing) if type_name(part) in MEANS})
