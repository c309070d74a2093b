"""ONNX graphs under construction: operators are called like functions and return names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drpu._checks import require
from drpu.tables.encoder import Indicators

# Versions that are old enough for the runtimes in use.
OPSET = 17
OPSET_ML = 3
IR = 8


class Graph:
    """Nodes and constants in float64, in the order in which they were added."""

    def __init__(self) -> None:
        self.onnx = require("onnx", extra="onnx", for_="export_onnx")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """The name of a constant."""
        name = f"c{len(self._constants)}"
        array = np.asarray(values, dtype=dtype)
        self._constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """Add an operator and return the name of its result; numbers become constants.

        Attributes may be arrays. One after the other becomes a list, because the trees of a large
        file have many nodes.
        """
        domain = attributes.pop("domain", "")
        names = []
        for value in inputs:
            names.append(value if isinstance(value, str) else self.constant(value))
        name = output or f"n{len(self._nodes)}"
        node = self.onnx.helper.make_node(kind, names, [name], domain=domain)
        for key, value in sorted(attributes.items()):
            if isinstance(value, np.ndarray):
                value = value.tolist()
            node.attribute.append(self.onnx.helper.make_attribute(key, value))
        self._nodes.append(node)
        return name

    def total(self, x: str, *, axis: int = 1, keep: bool = True) -> str:
        """Sum along an axis."""
        return self.op("ReduceSum", x, self.constant([axis], np.int64), keepdims=int(keep))

    def mean(self, *parts: str, weights: Sequence[float] | None = None) -> str:
        """Mean of the parts; not all runtimes have the operator Mean in float64."""
        divisor = float(len(parts))
        if weights is not None:
            divisor = float(sum(weights))
            pairs = zip(parts, weights, strict=True)
            parts = tuple(self.op("Mul", part, weight) for part, weight in pairs)
        total = parts[0]
        for part in parts[1:]:
            total = self.op("Add", total, part)
        return self.op("Div", total, divisor)

    def double(self, x: str) -> str:
        """The same in float64."""
        return self.op("Cast", x, to=int(self.onnx.TensorProto.DOUBLE))

    def model(
        self,
        inputs: dict[str, list[Any]],
        outputs: dict[str, int],
        about: dict[str, str],
        texts: Sequence[str] = (),
    ) -> Any:
        """The checked model; inputs by name with their shapes, outputs by name with their types.

        The inputs among ``texts`` are strings, all others float64.
        """
        helper = self.onnx.helper
        types = self.onnx.TensorProto
        input_infos = []
        for name, shape in inputs.items():
            kind = types.STRING if name in texts else types.DOUBLE
            input_infos.append(helper.make_tensor_value_info(name, kind, shape))
        output_infos = []
        for name, kind in outputs.items():
            output_infos.append(helper.make_tensor_value_info(name, kind, ["rows"]))
        graph = helper.make_graph(self._nodes, "drpu", input_infos, output_infos, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", OPSET_ML)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="drpu")
        helper.set_model_props(model, about)
        self.onnx.checker.check_model(model)
        return model


def onnx_log_softplus(graph: Graph, x: str, low: float) -> str:
    """Logarithm of log(1 + exp x); below ``low`` the first terms of the series keep the order."""
    op = graph.op
    above = op("Max", x, [[low]])
    tail = op("Log", op("Add", op("Exp", op("Neg", op("Abs", above))), 1.0))
    upper = op("Log", op("Add", op("Max", above, [[0.0]]), tail))
    lower = op("Sub", x, op("Div", op("Exp", op("Min", x, [[0.0]])), 2.0))
    return op("Where", op("Less", x, low), lower, upper)


def onnx_indicators(graph: Graph, indicators: Indicators, X: str) -> str:
    """Numbers and indicators of rows whose categories are codes."""
    op = graph.op

    def columns(positions: list[int]) -> str:
        return op("Gather", X, graph.constant(positions, np.int64), axis=1)

    parts = []
    if indicators.numbers:
        parts.append(columns(indicators.numbers))
    for block in indicators.blocks:
        code_row = np.array([block.codes], dtype=np.float64)
        is_code = graph.double(op("Equal", columns([block.category]), code_row))
        parts.append(is_code)
        if block.rest:
            parts.append(op("Sub", 1.0, graph.total(is_code)))
    return op("Concat", *parts, axis=1)
