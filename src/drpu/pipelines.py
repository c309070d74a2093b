"""Pipelines that end in a classifier: what files keep of them, and adapting them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

from sklearn.pipeline import Pipeline

from drpu._arrays import FloatArray, Rows
from drpu._checks import refuse_frame
from drpu._codec import Items, NotKept, kept
from drpu._process import default_errors
from drpu.audits.plan import Audit, AuditPart, RandomPart
from drpu.classifier.drpu import RatioClassifier
from drpu.classifier.records import RatioRecord
from drpu.exceptions import DataError, DataTypeError
from drpu.models.estimators import kept_values, read_estimators, write_estimators
from drpu.state.record import Record, record_of


class AdaptedPipeline(Pipeline):  # type: ignore[misc]
    """A fitted pipeline that ends in an adapted classifier, which has no ``fit``."""

    def __sklearn_is_fitted__(self) -> bool:
        return True


@default_errors
def adapt(estimator: Any, X: Rows, **options: Any) -> Any:
    """Estimate the prior of the batch ``X`` and return the estimator adapted to it.

    Parameters
    ----------
    estimator : DRPUClassifier, AdaptedClassifier, or a pipeline or search that ends in one
        Fitted. ``X`` goes through the steps before the classifier.
    X : rows
        Unlabeled rows with the prior of the rows to classify, in the form that the whole estimator
        accepts.
    **options
        Options of :meth:`drpu.DRPUClassifier.adapt`: ``y``, ``audit``, ``sample_weight``,
        ``shift``, ``level``.

    Returns
    -------
    adapted : AdaptedClassifier, or Pipeline
        A pipeline with the same fitted steps and an adapted classifier at its end, ``adapted[-1]``,
        which has the other methods, such as ``at_cost`` and ``expected_performance``.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> import drpu
    >>> data = drpu.make_gaussian_pu(
    ...     200, 600, prior=0.4, test_prior=0.1, separation=3, random_state=0
    ... )
    >>> clf = drpu.DRPUClassifier("kernel", scenario="case-control", random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), clf)
    >>> june = drpu.adapt(pipe.fit(*data.X_y()), data.test)
    >>> june[-1].prior_.value < pipe[-1].prior_.value
    True
    >>> june.predict(data.test).shape == (len(data.test),)
    True
    """
    pipeline, classifier = last_step(estimator)
    if pipeline is None:
        return classifier.adapt(X, **options)
    refuse_frame(X)
    steps = pipeline[:-1]
    audit = options.get("audit")
    if isinstance(audit, Audit):  # rows in it are those of the whole estimator, too
        options["audit"] = Audit(tuple(_transformed(part, steps) for part in audit.parts))
    adapted = classifier.adapt(steps.transform(X), **options)
    name, _ = pipeline.steps[-1]
    return AdaptedPipeline([*pipeline.steps[:-1], (name, adapted)], memory=pipeline.memory)


def _transformed(part: AuditPart | RandomPart, steps: Pipeline) -> AuditPart | RandomPart:
    """The answers, with rows as the classifier at the end of the pipeline reads them."""
    if isinstance(part, AuditPart) or part.positions:
        return part
    return replace(part, rows=steps.transform(part.rows))


def last_step(estimator: Any) -> tuple[Pipeline | None, RatioClassifier]:
    """The pipeline, or None if there is none, and the classifier at its end."""
    estimator = getattr(estimator, "best_estimator_", estimator)
    pipeline = None
    classifier = estimator
    if isinstance(estimator, Pipeline):
        pipeline = estimator
        classifier = estimator[-1]
    if not isinstance(classifier, RatioClassifier):
        raise DataTypeError(
            "estimator must be a DRPUClassifier or an AdaptedClassifier, or a pipeline that ends "
            f"in one, got {type(classifier).__name__}."
        )
    return pipeline, classifier


@kept("Pipeline")
@dataclass(frozen=True)
class PipelineRecord(Record):
    """What a file keeps of a pipeline: the record of its classifier, and its other steps."""

    last: RatioRecord
    names: Annotated[tuple[str, ...], Items(1)]
    passes: tuple[bool, ...]  # for each step before the last, whether it passes rows on unchanged
    row_values: dict[str, str]  # parts of the other steps that contain values of training rows
    archive: bytes | None = None  # the other steps
    live: Annotated[tuple[Any, ...], NotKept] = ()  # the other steps, fitted in this process

    def __post_init__(self) -> None:
        if len(self.names) != len(self.passes) + 1 or len(set(self.names)) != len(self.names):
            raise DataError("the steps of the pipeline must have one name each.")

    def for_file(self) -> PipelineRecord:
        """The same with an archive of the steps."""
        return replace(self, archive=write_estimators(self.live)) if self.live else self

    def classifier(self, module: Any = None) -> Pipeline:  # noqa: D102
        fitted = self.live if self.archive is None else read_estimators(self.archive)
        transform_rows = all(hasattr(step, "transform") for step in fitted)
        if len(fitted) != self.passes.count(False) or not transform_rows:
            raise DataError("the pipeline must have the steps that it names, which transform rows.")
        unused = iter(fitted)
        steps: list[Any] = []
        for passes in self.passes:
            steps.append("passthrough" if passes else next(unused))
        steps.append(self.last.classifier(module))
        return AdaptedPipeline(list(zip(self.names, steps, strict=True)))

    def facts(self) -> dict[str, Any]:  # noqa: D102
        facts = self.last.facts()
        return facts | {"values_of_rows": facts["values_of_rows"] | self.row_values}

    def module(self) -> Any:  # noqa: D102
        return self.last.module()

    def trial(self, classifier: Any) -> FloatArray | None:
        """Scores of two artificial rows by the last step."""
        return self.last.trial(classifier[-1])

    def warn_of_prior(self, classifier: Any) -> None:  # noqa: D102
        self.last.warn_of_prior(classifier[-1])


@record_of.register
def _(pipeline: Pipeline) -> PipelineRecord:
    last = record_of(pipeline[-1])
    if not isinstance(last, RatioRecord):
        raise DataTypeError(
            "the last step of a pipeline must be a DRPUClassifier or an AdaptedClassifier to be "
            f"saved, got {type(pipeline[-1]).__name__}."
        )
    names, steps = zip(*pipeline.steps, strict=True)
    passes = tuple(step is None or step == "passthrough" for step in steps[:-1])
    fitted = []
    for step, passes_rows_on in zip(steps, passes, strict=False):
        if not passes_rows_on:
            fitted.append(step)
    return PipelineRecord(last, names, passes, kept_values(fitted), live=tuple(fitted))
