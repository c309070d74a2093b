"""The columns of a mixed table as inputs of a graph."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from drpu._codec import kind_of
from drpu._output import write_output
from drpu.decisions.budget import AtBudget
from drpu.exceptions import ArtifactError, DataTypeError, ParameterError
from drpu.models.graphs import Graph, onnx_indicators
from drpu.models.learner import LOG_LIMIT, exported
from drpu.priors.calibration import Calibration
from drpu.state.fitted import FittedRatio, label_offsets
from drpu.state.log_odds import FARTHEST, LogOddsMap
from drpu.state.reference import NEAREST
from drpu.tables.encoder import TableEncoder


def row_inputs(graph: Graph, classifier: Any) -> tuple[str, dict[str, list[Any]], list[str]]:
    """The name of the rows in the graph, its inputs with their shapes, and the inputs that are strings."""
    table: TableEncoder | None = classifier.table_
    if table is None or table.plain:
        return "X", {"X": ["rows", *classifier.fitted_.model.row_shape]}, []
    inputs = {f"X.{plan.name}": ["rows", 1] for plan in table.used}
    parts = [plan.onnx(graph, column) for plan, column in zip(table.used, inputs, strict=True)]
    texts = [column for column, (_, is_text) in zip(inputs, parts, strict=True) if is_text]
    rows = graph.op("Concat", *(part for part, _ in parts), axis=1)
    if table.indicators is not None:
        rows = onnx_indicators(graph, table.indicators, rows)
    return rows, inputs, texts


# Scores this close below a level count as equal to it. Networks are computed in float32; of the default
# model only the cosines are.
_NEAR = {"network": 1e-6, "average": 2e-7, "fourier": 2e-7, "blend": 1e-6}
_NEAR_OTHERS = 1e-9


def export_onnx(classifier: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted classifier as an ONNX graph with the prior and the cost among its inputs.

    Parameters
    ----------
    classifier : DRPUClassifier or AdaptedClassifier
        Fitted with the default or with a kernel, boosted or network model, without a budget.
    path : path-like
        The file to write.

    Notes
    -----
    Inputs, all float64: ``X`` of shape (rows, columns), or of the shape of the images that a network was
    trained on, ``prior`` and ``cost`` of shape (1,). For a residual network, 8-bit images have to be
    divided by 255; the Python classifier does this itself. Outputs, one per row: ``ratio``,
    ``probability`` and ``label``. Labels are those of the user if they are integers, otherwise 0 and 1.
    The metadata contain the prior at which the classifier makes labels, its cost, the training prior and the
    classes. After an audit, probabilities and labels come from its map, which moves with ``prior``.
    Rows must be dense.

    For a mixed table there is an input of shape (rows, 1) for each column instead of ``X``: ``X.ward``
    for the column ``ward``. Categories are strings; an empty string is a missing value. Numbers are float64,
    and dates are days since 1970-01-01. The graph contains the levels of the categories.

    The graph agrees with Python to about 1e-7 in the score (1e-6 for networks, whose convolutions are
    computed in float32, 1e-9 for trees and kernels). Calibration has steps, so a row whose score is that
    close to one may fall on its other side.

    Examples
    --------
    >>> import os, tempfile
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.4, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> path = os.path.join(tempfile.mkdtemp(), "toy.onnx")
    >>> export_onnx(clf, path)
    >>> os.path.getsize(path) > 1000
    True
    """
    if not isinstance(getattr(classifier, "fitted_", None), FittedRatio):
        given = type(classifier).__name__
        raise DataTypeError(
            f"classifier must be a fitted DRPUClassifier or AdaptedClassifier, got {given}."
        )
    if isinstance(classifier.point_, AtBudget):
        raise ParameterError(
            "classifier must have no budget, which a graph cannot keep: its labels come from prior and cost. "
            "Export the classifier that at_budget was called on, and check the rows with the highest ratio."
        )
    try:
        write_output(path, _model(classifier).SerializeToString())
    except UnicodeEncodeError as error:  # a name or a level of the user
        raise ArtifactError(
            f"a graph has texts in UTF-8, which {error.object[:100]!r} is not."
        ) from error


def _model(classifier: Any) -> Any:
    """The graph with its inputs, outputs and metadata."""
    core: FittedRatio = classifier.fitted_
    graph = Graph()
    rows, inputs, texts = row_inputs(graph, classifier)
    raw = (exported(function, graph, rows) for function in core.model.label_functions)
    scores = [graph.op("Min", graph.op("Max", own, [[-LOG_LIMIT]]), [[LOG_LIMIT]]) for own in raw]
    parts = [
        _ratio(graph, core, graph.op("Add", part, o)) for part in scores for o in label_offsets(core)
    ]
    mean = graph.op("Squeeze", graph.mean(*parts), graph.constant([1], np.int64))
    ratio = graph.op("Min", mean, [1 / max(core.prior.value, 1e-12)], output="ratio")
    even_map = classifier.reference_.map_at(0.5)
    if even_map is None:
        threshold = _by_prior(graph, core, ratio)
    else:
        threshold = _by_map(graph, core, ratio, even_map)
    flagged = graph.op("Greater", mean, threshold)
    labels = core.classes.tolist() if core.classes.dtype.kind in "iu" else (0, 1)
    own, rest = (graph.constant([label], np.int64) for label in (labels[1], labels[0]))
    graph.op("Where", flagged, own, rest, output="label")

    double, whole = graph.onnx.TensorProto.DOUBLE, graph.onnx.TensorProto.INT64
    return graph.model(
        inputs | {"prior": [1], "cost": [1]},
        {"ratio": double, "probability": double, "label": whole},
        {
            "drpu.prior": repr(classifier.point_.labels_at),
            "drpu.cost": repr(float(classifier.cost_)),
            "drpu.train_prior": repr(core.prior.value),
            "drpu.classes": json.dumps(core.classes.tolist()),
        },
        texts,
    )


def _by_prior(graph: Graph, core: FittedRatio, ratio: str) -> str:
    """Add the probability at the prior; returns the threshold of the ratio."""
    op, pi = graph.op, core.prior.value
    others = op("Sub", 1.0, "prior")
    positive = op("Mul", op("Mul", "prior", 1 - pi), ratio)
    negative = op("Mul", others, op("Max", op("Sub", 1.0, op("Mul", ratio, pi)), [0.0]))
    mass = op("Add", positive, negative)
    some = op("Greater", mass, 0.0)
    share = op("Div", positive, op("Where", some, mass, 1.0))
    op("Where", some, share, "prior", output="probability")

    against = op("Mul", "cost", others)
    evidence = op("Mul", op("Mul", op("Sub", 1.0, "cost"), "prior"), 1 - pi)
    threshold = op("Div", against, op("Add", evidence, op("Mul", against, pi)))
    # Only one class: the ratio does not matter.
    threshold = op("Where", op("LessOrEqual", "prior", 0.0), np.inf, threshold)
    return op("Where", op("GreaterOrEqual", "prior", 1.0), -1.0, threshold)


def _by_map(graph: Graph, core: FittedRatio, ratio: str, current: LogOddsMap) -> str:
    """The same with the map of an audit, whose intercept moves with the log-odds of the prior."""
    op, pi = graph.op, core.prior.value

    def log_odds(p: str) -> str:
        return op("Sub", op("Log", p), op("Log", op("Sub", 1.0, p)))

    least = 1 / (1 + float(np.exp(FARTHEST)))
    p = op("Max", op("Min", op("Mul", ratio, pi), [1 - least]), [least])
    prior = op("Max", op("Min", "prior", [1 - NEAREST]), [NEAREST])
    intercept = op("Add", log_odds(prior), current.intercept)
    op("Sigmoid", op("Add", op("Mul", log_odds(p), current.slope), intercept), output="probability")
    level = op("Div", op("Sub", log_odds("cost"), intercept), current.slope)
    threshold = op("Div", op("Sigmoid", level), max(pi, 1e-12))
    # Log-odds are clipped: beyond that all rows have one label.
    threshold = op("Where", op("GreaterOrEqual", level, FARTHEST), np.inf, threshold)
    return op("Where", op("Less", level, -FARTHEST), -1.0, threshold)


def _ratio(graph: Graph, core: FittedRatio, scores: str) -> str:
    """Ratios against the population, of shape (rows, 1), from scores of the same shape."""
    if core.calibration is None:
        return _against_population(graph, graph.op("Exp", scores), core.population.labelled_fraction)
    near = _NEAR.get(kind_of(type(core.model.functions[0])) or "network", _NEAR_OTHERS)
    return _calibrated(graph, core.calibration, scores, near)


def _calibrated(graph: Graph, calibration: Calibration, scores: str, tolerance: float) -> str:
    """The mean of a step function and of a piecewise linear one."""
    op, levels = graph.op, calibration.levels
    at_levels = (calibration.curve[:-1] + calibration.curve[1:]) / 2
    near = levels - tolerance * np.maximum(1, np.abs(levels))
    reached = graph.double(op("GreaterOrEqual", scores, near[None, :]))
    cell = op("Cast", graph.total(reached), to=int(graph.onnx.TensorProto.INT64))
    steps = op("Gather", graph.constant(calibration.steps), cell)

    if len(levels) > 1:
        last = graph.constant([[len(levels) - 2]], np.int64)
        one, zero = graph.constant([[1]], np.int64), graph.constant([[0]], np.int64)
        left = op("Min", op("Max", op("Sub", cell, one), zero), last)
        x0 = op("Gather", graph.constant(levels[:-1]), left)
        y0 = op("Gather", graph.constant(at_levels[:-1]), left)
        slope = op("Gather", graph.constant(np.diff(at_levels) / np.diff(levels)), left)
        beyond = op(
            "Max", op("Sub", scores, x0), [[0.0]]
        )  # 0 for scores that count as equal to the level
        line = op("Add", y0, op("Mul", beyond, slope))
    else:
        line = op("Add", op("Mul", scores, 0.0), at_levels[0])
    line = op("Where", op("Less", scores, near[0]), calibration.curve[0], line)
    top = levels[-1] + (levels[-1] - near[-1])
    line = op("Where", op("Greater", scores, top), calibration.curve[-1], line)

    parts = [
        _against_population(
            graph, op("Min", part, [[calibration.ceiling]]), calibration.labelled_share
        )
        for part in (steps, line)
    ]
    return graph.mean(*parts)


def _against_population(graph: Graph, ratio: str, labelled_share: float) -> str:
    if labelled_share == 0:
        return ratio
    below = graph.op("Add", graph.op("Mul", ratio, labelled_share), 1 - labelled_share)
    return graph.op("Div", ratio, below)
