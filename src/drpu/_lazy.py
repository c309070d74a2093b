"""Names of other libraries, imported when they are first used.

What files keep is declared in modules that also learn. With these names a file is inspected
without importing scikit-learn, which takes longer than everything else.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "ThreadpoolController": "threadpoolctl",
    "BaseEstimator": "sklearn.base",
    "KMeans": "sklearn.cluster",
    "LogisticRegression": "sklearn.linear_model",
    "LogisticRegressionCV": "sklearn.linear_model",
    "Parallel": "joblib",
    "Pipeline": "sklearn.pipeline",
    "StandardScaler": "sklearn.preprocessing",
    "check_array": "sklearn.utils",
    "check_classification_targets": "sklearn.utils.multiclass",
    "clone": "sklearn.base",
    "column_or_1d": "sklearn.utils.validation",
    "config_context": "sklearn",
    "cpu_count": "joblib",
    "delayed": "joblib",
    "effective_n_jobs": "joblib",
    "get_tags": "sklearn.utils",
    "has_fit_parameter": "sklearn.utils.validation",
    "make_pipeline": "sklearn.pipeline",
    "mean_variance_axis": "sklearn.utils.sparsefuncs",
    "pairwise_distances": "sklearn.metrics",
    "randomized_svd": "sklearn.utils.extmath",
    "roc_auc_score": "sklearn.metrics",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
