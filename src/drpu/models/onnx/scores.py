"""Scores of models, as nodes of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu.models._links import _FLOOR
from drpu.models.onnx.graph import Graph
from drpu.models.onnx.networks import network_output
from drpu.models.onnx.trees import tree_sum
from drpu.tables.indicators import Indicators

__all__ = [
    "boosted_scores",
    "forest_scores",
    "fourier_scores",
    "indicator_columns",
    "kernel_scores",
    "network_scores",
]


# -- kernels ---------------------------------------------------------------------------------------


def kernel_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a KernelRatio."""
    basis, op = model.basis_, graph.op
    z = op("Div", op("Sub", X, basis.scaling.shift), basis.scaling.scale)
    inner = op("MatMul", z, basis.points.T)
    if basis.kind == "features":
        # The cosine is computed by the sine, which every runtime has in float64.
        wave = op("Sin", op("Add", op("Div", inner, model.width_), basis.phase + np.pi / 2))
        phi = op("Mul", wave, np.sqrt(2 / basis.size))
    else:
        norms = np.einsum("ij,ij->i", basis.points, basis.points)
        distance = op("Add", op("Sub", graph.total(op("Mul", z, z)), op("Mul", inner, 2.0)), norms)
        phi = op("Exp", op("Div", op("Max", distance, [[0.0]]), -2 * model.width_**2))
    ratio = op("Add", op("MatMul", phi, model.coef_[:, None]), model.intercept_)
    return _log_above_floor(graph, ratio)


def _log_above_floor(graph: Graph, ratio: str) -> str:
    below = graph.op("Min", graph.op("Sub", ratio, _FLOOR), [[0.0]])
    return graph.op(
        "Add", graph.op("Log", graph.op("Max", ratio, [[_FLOOR]])), graph.op("Div", below, _FLOOR)
    )


def _softplus(graph: Graph, x: str) -> str:
    """log(1 + exp x) without overflow."""
    tail = graph.op("Log", graph.op("Add", graph.op("Exp", graph.op("Neg", graph.op("Abs", x))), 1.0))
    return graph.op("Add", graph.op("Max", x, [[0.0]]), tail)


def _log_softplus(graph: Graph, x: str, low: float) -> str:
    """Its logarithm; below ``low`` the first terms of the series, which keep the order."""
    op = graph.op
    upper = op("Log", _softplus(graph, op("Max", x, [[low]])))
    lower = op("Sub", x, op("Div", op("Exp", op("Min", x, [[0.0]])), 2.0))
    return op("Where", op("Less", x, low), lower, upper)


# -- trees ------------------------------------------------------------------------------------------


def boosted_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a BoostedRatio."""
    g = graph.op("Add", tree_sum(graph, model.booster_, X), model.offset_)
    link = getattr(model.loss_, "link", "exp")
    if link == "exp":
        return g
    return _log_above_floor(graph, g) if link == "identity" else _log_softplus(graph, g, -30.0)


def forest_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a ForestRatio."""
    op, n = graph.op, model.booster_.current_iteration()
    least = 0.25 / n
    share = op("Div", tree_sum(graph, model.booster_, X), float(n))
    share = op("Min", op("Max", share, [[least]]), [[1 - least]])
    odds = op("Div", share, op("Sub", 1.0, share))
    return op("Sub", op("Log", odds), model.offset_)


# -- cosines ----------------------------------------------------------------------------------------


def fourier_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a FourierRatio."""
    op, single = graph.op, int(graph.onnx.TensorProto.FLOAT)
    z = op("Div", op("Sub", X, model.scaling_.shift), model.scaling_.scale)
    z = op("Min", op("Max", z, [[-model.far_]]), [[model.far_]])
    z = op("Mul", op("Round", op("Div", z, model.step_)), model.step_)
    waves = op("Add", op("MatMul", z, model.frequencies_), model.phase_)
    # Python also computes the cosines in float32. With the same rounding, rows near a step of the
    # calibration stay on the same side.
    cosines = graph.double(op("Cos", op("Cast", waves, to=single)))
    weights = (model.coefficients_ * model._amplitude())[:, None]
    total = op("Add", op("MatMul", cosines, weights), model.intercept_)
    return total if model.linear_ is None else op("Add", total, op("MatMul", z, model.linear_[:, None]))


def indicator_columns(graph: Graph, indicators: Indicators, X: str) -> str:
    """Numbers and indicators of rows whose categories are codes."""
    op = graph.op

    def columns(positions: list[int]) -> str:
        return op("Gather", X, graph.constant(positions, np.int64), axis=1)

    numbers = [j for j in range(indicators.n_columns) if j not in set(indicators.categories)]
    parts = [columns(numbers)] if numbers else []
    for j, codes, rest in zip(indicators.categories, indicators.codes, indicators.rest, strict=True):
        own = graph.double(op("Equal", columns([j]), np.array([codes], dtype=np.float64)))
        parts.append(own)
        if rest:
            parts.append(op("Sub", 1.0, graph.total(own)))
    return op("Concat", *parts, axis=1)


# -- networks -----------------------------------------------------------------------------------------


def network_scores(graph: Graph, model: Any, X: str) -> str:
    """Log-ratios of a NetworkRatio."""
    op, x = graph.op, network_output(graph, model, X)
    if model.head == "softplus":
        return _log_softplus(graph, x, -15.0)
    if model.head == "bounded":
        minus = _softplus(graph, op("Neg", x))
        return op("Sub", float(np.log(model.bound_)), minus)
    return op("Log", op("Max", x, [[0.0]])) if model.head == "relu" else x
