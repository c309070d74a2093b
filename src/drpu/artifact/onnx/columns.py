"""The columns of a mixed table as inputs of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu.exceptions import ArtifactError
from drpu.models.onnx.graph import Graph
from drpu.models.onnx.scores import indicator_columns
from drpu.tables.columns import CATEGORY
from drpu.tables.encoder import FIRST, MISSING, OTHER, TableEncoder

__all__ = ["row_inputs"]


def row_inputs(graph: Graph, classifier: Any) -> tuple[str, dict[str, list[Any]], list[str]]:
    """The name of the rows in the graph, its inputs with their shapes, and the inputs that are strings."""
    table: TableEncoder | None = classifier.table_
    if table is None or table.plain:
        return "X", {"X": ["rows", *_row_shape(classifier)]}, []
    if table.salt is not None:
        raise ArtifactError(
            "the levels of the categories are digests, which a graph cannot compare with strings: export "
            "the classifier before it is saved with column_values='hash'."
        )
    inputs = {f"X.{plan.name}": ["rows", 1] for plan in table.used}
    texts = [f"X.{plan.name}" for plan in table.used if plan.kind == CATEGORY]
    parts = [
        _codes(graph, f"X.{plan.name}", plan.levels) if plan.kind == CATEGORY else f"X.{plan.name}"
        for plan in table.used
    ]
    rows = graph.op("Concat", *parts, axis=1)
    return (
        rows if table.indicators is None else indicator_columns(graph, table.indicators, rows),
        inputs,
        texts,
    )


def _row_shape(classifier: Any) -> list[int]:
    """The shape of one row: of an image for networks of images, otherwise the number of columns."""
    model = classifier.fitted_.model.models[0]
    return [int(side) for side in getattr(model, "input_shape_", (classifier.n_features_in_,))]


def _codes(graph: Graph, name: str, levels: tuple[str, ...]) -> str:
    """Codes of a column of strings; the empty string is a missing value."""
    codes = graph.op(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=["", *levels],
        values_floats=[float(MISSING), *np.arange(FIRST, FIRST + len(levels), dtype=float)],
        default_float=float(OTHER),
    )
    return graph.double(codes)
