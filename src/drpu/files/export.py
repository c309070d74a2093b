"""export_onnx: a fitted classifier as an ONNX graph with the prior and the cost as inputs."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from drpu._codec import kind_of
from drpu._output import write_output
from drpu._process import default_errors
from drpu.decisions.budget import AtBudget
from drpu.decisions.point import AtPrior
from drpu.exceptions import ArtifactError, DataTypeError, ParameterError
from drpu.models.graphs import Graph, onnx_indicators
from drpu.models.learner import LOG_LIMIT, exported
from drpu.priors.calibration import Calibration
from drpu.state.fitted import FittedRatio, label_offsets
from drpu.state.reference import FARTHEST, NEAREST, LogOddsMap
from drpu.tables.encoder import TableEncoder

# Scores this close below a level count as equal to it. Networks are computed in float32; of the
# default model only the cosines are.
_NEAR = {"network": 1e-6, "average": 2e-7, "fourier": 2e-7, "blend": 1e-6}
_NEAR_OTHERS = 1e-9


@default_errors
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
    Inputs, all float64: ``X`` of shape (rows, columns), or of the shape of the images that a
    network was trained on, ``prior`` and ``cost`` of shape (1,). For a residual network, 8-bit
    images have to be divided by 255; the Python classifier does this itself. Outputs, one per row:
    ``ratio``, ``probability`` and ``label``. Labels are those of the user if they are integers,
    otherwise 0 and 1. The metadata contain the prior of the classifier, its cost, the training
    prior and the classes. With that prior, the graph gives the probabilities and labels of the
    classifier; with any other one, those of ``at_prior``. After an audit, probabilities and labels
    come from its map, which moves with ``prior``. Rows must be dense.

    For a mixed table there is an input of shape (rows, 1) for each column instead of ``X``:
    ``X.ward`` for the column ``ward``. Categories are strings in the form NFC of Unicode; an
    empty string is a missing value. Numbers are float64, and dates are days since 1970-01-01, of
    which the graph computes the parts. The graph contains the levels of the categories.

    The graph agrees with Python to about 1e-7 in the score (1e-6 for networks, whose convolutions
    are computed in float32, 1e-9 for trees and kernels). Calibration has steps, so a row whose
    score is that close to one may fall on its other side.

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
        raise DataTypeError(
            "classifier must be a fitted DRPUClassifier or AdaptedClassifier, "
            f"got {type(classifier).__name__}."
        )
    if isinstance(classifier.point_, AtBudget):
        raise ParameterError(
            "classifier must have no budget, which a graph cannot keep: its labels come from prior "
            "and cost. Export the classifier that at_budget was called on, and check the rows with "
            "the highest ratio."
        )
    try:
        write_output(path, _model(classifier).SerializeToString())
    except UnicodeEncodeError as error:  # a name or a level of the user
        raise ArtifactError(
            f"a graph has texts in UTF-8, which {error.object[:100]!r} is not."
        ) from error


def _model(classifier: Any) -> Any:
    """The graph with its inputs, outputs and metadata."""
    fitted: FittedRatio = classifier.fitted_
    graph = Graph()
    rows, inputs, texts = _row_inputs(graph, classifier)
    unclipped = _mean_ratio(graph, fitted, rows)
    highest = 1 / max(fitted.prior.value, 1e-12)
    ratio = graph.op("Min", unclipped, [highest], output="ratio")
    point = classifier.point_
    even_map = classifier.reference_.map_at(0.5)
    if even_map is None:
        prior = point.prior.value
        flagged = _by_prior(graph, point, ratio)
    else:
        prior = point.labels_at
        flagged = _by_map(graph, fitted.prior.value, ratio, unclipped, even_map)
    negative_label, positive_label = 0, 1
    if fitted.classes.dtype.kind in "iu":
        negative_label, positive_label = fitted.classes.tolist()
    graph.op(
        "Where",
        flagged,
        graph.constant([positive_label], np.int64),
        graph.constant([negative_label], np.int64),
        output="label",
    )
    types = graph.onnx.TensorProto
    metadata = {
        "drpu.prior": repr(prior),
        "drpu.cost": repr(float(classifier.cost_)),
        "drpu.train_prior": repr(fitted.prior.value),
        "drpu.classes": json.dumps(fitted.classes.tolist()),
    }
    return graph.model(
        inputs | {"prior": [1], "cost": [1]},
        {"ratio": types.DOUBLE, "probability": types.DOUBLE, "label": types.INT64},
        metadata,
        texts,
    )


def _row_inputs(graph: Graph, classifier: Any) -> tuple[str, dict[str, list[Any]], list[str]]:
    """The name of the rows in the graph, its inputs with shapes, and those that are strings."""
    table: TableEncoder | None = classifier.table_
    if table is None or table.plain:
        return "X", {"X": ["rows", *classifier.fitted_.model.row_shape]}, []
    names = {column.name: f"X.{column.name}" for column in table.read}
    inputs = {name: ["rows", 1] for name in names.values()}
    texts = []
    encoded = []
    for column in table.used:
        values, is_text = column.onnx(graph, names)
        encoded.append(values)
        if is_text:
            texts.append(names[column.name])
    rows = graph.op("Concat", *encoded, axis=1)
    if table.indicators is not None:
        rows = onnx_indicators(graph, table.indicators, rows)
    return rows, inputs, texts


def _mean_ratio(graph: Graph, fitted: FittedRatio, rows: str) -> str:
    """The mean of the ratios of all functions at all offsets, of shape (rows,)."""
    ratios = []
    for function in fitted.model.label_functions:
        scores = exported(function, graph, rows)
        scores = graph.op("Min", graph.op("Max", scores, [[-LOG_LIMIT]]), [[LOG_LIMIT]])
        for offset in label_offsets(fitted):
            ratios.append(_ratio(graph, fitted, graph.op("Add", scores, offset)))
    return graph.op("Squeeze", graph.mean(*ratios), graph.constant([1], np.int64))


def _by_prior(graph: Graph, point: AtPrior, ratio: str) -> str:
    """Add the mean probability over the nodes of the point; returns whether it exceeds the cost.

    At the prior of the point the test priors are those of its nodes, and at any other prior they
    are that prior.
    """
    op = graph.op
    weight, pi, pi_test = np.array(
        [(node.weight, node.train_prior, node.test_prior) for node in point.nodes]
    ).T
    as_adapted = op("Equal", "prior", [point.prior.value])
    test_prior = op("Where", as_adapted, pi_test, op("Add", "prior", np.zeros(len(pi))))
    r = op("Unsqueeze", ratio, graph.constant([1], np.int64))
    positive = op("Mul", op("Mul", test_prior, 1 - pi), op("Min", r, 1 / np.maximum(pi, 1e-300)))
    negative_in_training = op("Max", op("Sub", 1.0, op("Mul", r, pi)), [0.0])
    mass = op("Add", positive, op("Mul", op("Sub", 1.0, test_prior), negative_in_training))
    has_mass = op("Greater", mass, 0.0)
    share = op("Div", positive, op("Where", has_mass, mass, 1.0))
    posterior = op("Where", has_mass, share, test_prior)
    probability = op(
        "ReduceSum",
        op("Mul", posterior, weight),
        graph.constant([1], np.int64),
        keepdims=0,
        output="probability",
    )
    return op("Greater", probability, "cost")


def _by_map(
    graph: Graph, train_prior: float, ratio: str, unclipped: str, even_map: LogOddsMap
) -> str:
    """Add the probability by the map of answers; returns whether rows are flagged.

    The intercept of the map moves with the log-odds of the prior.
    """
    op = graph.op

    def log_odds(p: str) -> str:
        return op("Sub", op("Log", p), op("Log", op("Sub", 1.0, p)))

    least = 1 / (1 + float(np.exp(FARTHEST)))
    p = op("Max", op("Min", op("Mul", ratio, train_prior), [1 - least]), [least])
    prior = op("Max", op("Min", "prior", [1 - NEAREST]), [NEAREST])
    intercept = op("Add", log_odds(prior), even_map.intercept)
    slope = even_map.slope
    op("Sigmoid", op("Add", op("Mul", log_odds(p), slope), intercept), output="probability")
    level = op("Div", op("Sub", log_odds("cost"), intercept), slope)
    threshold = op("Div", op("Sigmoid", level), max(train_prior, 1e-12))
    # Log-odds are clipped: beyond that all rows have one label.
    threshold = op("Where", op("GreaterOrEqual", level, FARTHEST), np.inf, threshold)
    threshold = op("Where", op("Less", level, -FARTHEST), -1.0, threshold)
    return op("Greater", unclipped, threshold)


def _ratio(graph: Graph, fitted: FittedRatio, scores: str) -> str:
    """Ratios against the population, of shape (rows, 1), from scores of the same shape."""
    if fitted.calibration is None:
        return _against_population(
            graph, graph.op("Exp", scores), fitted.population.labelled_fraction
        )
    kind = kind_of(type(fitted.model.functions[0])) or "network"
    tolerance = _NEAR.get(kind, _NEAR_OTHERS)
    return _calibrated(graph, fitted.calibration, scores, tolerance)


def _calibrated(graph: Graph, calibration: Calibration, scores: str, tolerance: float) -> str:
    """The mean of a step function and of a piecewise linear one."""
    op = graph.op
    levels = calibration.levels
    lowered = levels - tolerance * np.maximum(1, np.abs(levels))  # scores from here count as equal
    reached = graph.double(op("GreaterOrEqual", scores, lowered[None, :]))
    cell = op("Cast", graph.total(reached), to=int(graph.onnx.TensorProto.INT64))
    steps = op("Gather", graph.constant(calibration.steps), cell)

    line = _line(graph, calibration, scores, cell)
    line = op("Where", op("Less", scores, lowered[0]), calibration.curve[0], line)
    raised = levels[-1] + (levels[-1] - lowered[-1])
    line = op("Where", op("Greater", scores, raised), calibration.curve[-1], line)

    ratios = []
    for curve in (steps, line):
        clipped = op("Min", curve, [[calibration.ceiling]])
        ratios.append(_against_population(graph, clipped, calibration.labelled_share))
    return graph.mean(*ratios)


def _line(graph: Graph, calibration: Calibration, scores: str, cell: str) -> str:
    """Linear interpolation between the levels, for scores between the first and the last one."""
    op = graph.op
    levels = calibration.levels
    at_levels = (calibration.curve[:-1] + calibration.curve[1:]) / 2
    if len(levels) == 1:
        return op("Add", op("Mul", scores, 0.0), at_levels[0])
    last = graph.constant([[len(levels) - 2]], np.int64)
    first = graph.constant([[0]], np.int64)
    below = op("Sub", cell, graph.constant([[1]], np.int64))
    left = op("Min", op("Max", below, first), last)
    x0 = op("Gather", graph.constant(levels[:-1]), left)
    y0 = op("Gather", graph.constant(at_levels[:-1]), left)
    slope = op("Gather", graph.constant(np.diff(at_levels) / np.diff(levels)), left)
    beyond = op("Max", op("Sub", scores, x0), [[0.0]])  # 0 for scores that count as equal
    return op("Add", y0, op("Mul", beyond, slope))


def _against_population(graph: Graph, ratio: str, labelled_share: float) -> str:
    if labelled_share == 0:
        return ratio
    below = graph.op("Add", graph.op("Mul", ratio, labelled_share), 1 - labelled_share)
    return graph.op("Div", ratio, below)
