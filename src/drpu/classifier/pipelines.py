"""Classifiers at the end of a scikit-learn pipeline, adapted and saved with their preprocessing."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import Pipeline

from drpu._state import ModelState, class_of
from drpu._typing import Rows
from drpu.classifier.adapted import Adaptable
from drpu.classifier.kept import KeptClassifier
from drpu.core.diagnostics import Performance
from drpu.core.prior.estimate import PriorEstimate
from drpu.exceptions import DataError, DataTypeError
from drpu.functions.estimators import kept_values, read_estimators, write_estimators

__all__ = [
    "PIPELINE",
    "adapt",
    "at_prior",
    "classifier_from_state",
    "classifier_state",
    "expected_performance",
    "last_step",
    "pipeline_from_state",
    "pipeline_state",
]

PIPELINE = "Pipeline"  # the kind of the state of a pipeline


class AdaptedPipeline(Pipeline):  # type: ignore[misc]
    """A fitted pipeline that ends in an adapted classifier, which has no ``fit``."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


def adapt(estimator: Any, X: Rows, **options: Any) -> Any:
    """Estimate the prior of the batch ``X`` and return the estimator adapted to it.

    Parameters
    ----------
    estimator : DRPUClassifier, AdaptedClassifier, or a pipeline or search that ends in one
        Fitted. ``X`` goes through the steps before the classifier.
    X : rows
        Unlabeled rows with the prior of the rows to classify, in the form that the whole estimator accepts.
    **options
        Options of :meth:`drpu.DRPUClassifier.adapt`: ``cost``, ``sample_weight``, ``level``, ``audit``.

    Returns
    -------
    adapted : AdaptedClassifier, or Pipeline
        A pipeline with the same fitted steps and an adapted classifier at its end.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import drpu
    >>> data = drpu.make_gaussian_pu(200, 600, prior=0.4, test_prior=0.1, separation=3, random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), drpu.DRPUClassifier("kernel", random_state=0))
    >>> june = drpu.adapt(pipe.fit(*data.X_y()), data.test)
    >>> june[-1].prior_.value < pipe[-1].prior_.value
    True
    >>> june.predict(data.test).shape == (len(data.test),)
    True
    """
    pipeline, classifier = last_step(estimator)
    if pipeline is None:
        return classifier.adapt(X, **options)
    return _with_last(pipeline, classifier.adapt(pipeline[:-1].transform(X), **options))


def at_prior(estimator: Any, prior: float | PriorEstimate, *, cost: Any = None) -> Any:
    """The estimator for rows whose prior is known; see :meth:`drpu.DRPUClassifier.at_prior`.

    ``estimator`` may be a pipeline or a search that ends in a classifier; then a pipeline is returned.
    """
    pipeline, classifier = last_step(estimator)
    moved = classifier.at_prior(prior, cost=cost)
    return moved if pipeline is None else _with_last(pipeline, moved)


def expected_performance(estimator: Any) -> Performance:
    """Expected accuracy, precision, recall and cost at the current prior, without labels.

    ``estimator`` may be a pipeline or a search that ends in a classifier.
    """
    return last_step(estimator)[1].expected_performance()


def last_step(estimator: Any) -> tuple[Pipeline | None, Adaptable]:
    """The pipeline, or None if there is none, and the classifier at its end."""
    found = getattr(estimator, "best_estimator_", estimator)
    pipeline = found if isinstance(found, Pipeline) else None
    classifier = found if pipeline is None else pipeline[-1]
    if not isinstance(classifier, Adaptable):
        raise DataTypeError(
            f"estimator must be a DRPUClassifier or an AdaptedClassifier, or a pipeline that ends in one, "
            f"got {type(classifier).__name__}."
        )
    return pipeline, classifier


def pipeline_state(pipeline: Pipeline, classifier: ModelState) -> ModelState:
    """The state of a pipeline around the state of its classifier; steps of unknown types are refused."""
    steps = pipeline.steps[:-1]
    fitted = [step for _, step in steps if not _passes(step)]
    config = {
        "names": [name for name, _ in pipeline.steps],
        "passes": [_passes(step) for _, step in steps],
        "kept": kept_values(fitted),
    }
    blobs = {"steps": write_estimators(fitted)} if fitted else {}
    return ModelState(PIPELINE, config, blobs=blobs, parts={"classifier": classifier})


def pipeline_from_state(state: ModelState, classifier: Any) -> Pipeline:
    """The pipeline that gave ``state``, with its classifier."""
    names, passes = state.config["names"], state.config["passes"]
    if not all(isinstance(name, str) for name in names) or len(names) != len(passes) + 1:
        raise DataError("the steps of the pipeline have a wrong form.")
    fitted = iter(read_estimators(state.blobs["steps"]) if "steps" in state.blobs else [])
    steps = ["passthrough" if passed else next(fitted, None) for passed in passes]
    if any(not _passes(step) and not hasattr(step, "transform") for step in steps):
        raise DataError("a step of the pipeline cannot transform rows.")
    return AdaptedPipeline(list(zip(names, [*steps, classifier], strict=True)))


def _passes(step: Any) -> bool:
    return step is None or step == "passthrough"


def _with_last(pipeline: Pipeline, classifier: Any) -> Pipeline:
    return AdaptedPipeline(
        [*pipeline.steps[:-1], (pipeline.steps[-1][0], classifier)], memory=pipeline.memory
    )


def classifier_state(classifier: Any) -> ModelState:
    """The state from which :func:`from_state` restores the fitted classifier."""
    if not isinstance(classifier, KeptClassifier):
        raise DataTypeError(f"classifier must be a classifier of drpu, got {type(classifier).__name__}.")
    return classifier.state()


def classifier_from_state(state: ModelState, *, module: Any = None) -> Any:
    """The classifier restored from ``state``."""
    if state.kind == PIPELINE:
        return pipeline_from_state(state, classifier_from_state(state.parts["classifier"], module=module))
    return class_of("drpu.classifier", state, KeptClassifier).from_state(state, module=module)
