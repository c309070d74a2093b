"""Facts about a saved classifier, from its record."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drpu.classifier.adapted import AdaptedRecord
from drpu.classifier.base import RatioRecord
from drpu.classifier.pipelines import PipelineRecord
from drpu.classifier.record import Amounts
from drpu.core.decision import ratio_threshold
from drpu.core.prior.estimate import PriorEstimate, as_prior
from drpu.exceptions import ArtifactError
from drpu.files.store import inspect_file

__all__ = ["peek"]


def peek(path: Path) -> dict[str, Any]:
    """Facts about the classifier in a file; nothing in it needs to be trusted."""
    try:
        verified, record = inspect_file(path)
    except ArtifactError as error:
        raise error if str(path) in str(error) else ArtifactError(f"{path}: {error}") from error
    last = record.last if isinstance(record, PipelineRecord) else record
    if not isinstance(last, RatioRecord):
        raise ArtifactError(f"{path}: it holds a {record.title}, which has no prior to move.")
    return {
        "artifact": str(path),
        "bytes": verified.bytes,
        "versions": verified.versions,
        "contents": verified.contents,
        "kind": record.title,
    } | _facts(last)


def _facts(record: RatioRecord) -> dict[str, Any]:
    fitted = record.fitted
    tails, train = fitted.tails.tails(), fitted.train_prior
    prior, cost, cut = train, 0.5, None
    if isinstance(record, AdaptedRecord):
        prior, given, cut = record.prior, record.cost, record.budget
    else:
        parameters = record.parameters  # type: ignore[attr-defined]
        given = parameters["cost"]
        if parameters["test_prior"] is not None:
            prior = as_prior("test_prior", parameters["test_prior"])
    cost = float(given.costs() if isinstance(given, Amounts) else given)
    threshold = ratio_threshold(train.value, prior.value, cost=cost) if cut is None else math.exp(cut[0])
    return {
        "model": fitted.model.describe(),
        "n_columns": record.columns.n,
        "columns": None if record.columns.names is None else list(record.columns.names),
        "classes": list(fitted.labels.values),
        "positives": tails.n_positive,
        "unlabeled": tails.n,
        "labelled_share": fitted.labelled_fraction,
        "train_prior": _plain(train),
        "prior": _plain(prior),
        "cost": cost,
        "threshold": threshold,
    }


def _plain(prior: PriorEstimate) -> dict[str, Any]:
    return asdict(prior)
