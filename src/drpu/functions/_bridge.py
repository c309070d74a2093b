"""States of functions for files of the old layout; deleted when files are written from records."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

from drpu._codec import decode, encode
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.functions.base import Function
from drpu.functions.folds import Folds

__all__ = ["OldNetwork", "function_of", "state_of"]

_MODULES = [f"drpu.functions.{name}" for name in ("average", "estimators", "features", "folds", "trees")]
_OLD = {"network": "drpu.networks.learner:NetworkRatio", "network-score": "drpu.networks.score:NetworkScore"}


@dataclass(frozen=True, eq=False)
class OldNetwork(Function):
    """A fitted network of the old kind."""

    accepts_sparse: ClassVar[bool] = False
    accepts_nd: ClassVar[bool] = True

    model: Any

    @property
    def n_columns(self) -> int:
        """First dimension of a row."""
        return int(self.model.input_shape_[0])

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of a row."""
        return tuple(self.model.input_shape_)

    @property
    def alpha(self) -> float:
        """Strength of the correction."""
        return float(getattr(self.model, "alpha_", 0.0))

    def _score(self, X: Rows) -> FloatArray:
        score = getattr(self.model, "_log_ratio", None) or self.model.score
        found: FloatArray = score(X)
        return found

    def onnx(self, graph: Any, X: str) -> str:
        """Add the scores of the rows to the graph."""
        found: str = import_module("drpu.networks.onnx").network_scores(graph, self.model, X)
        return found


def state_of(function: Any) -> ModelState:
    """The state from which :func:`function_of` makes an equal function."""
    if isinstance(function, OldNetwork):
        state: ModelState = function.model.state()
        return state
    if isinstance(function, Folds) and isinstance(function.functions[0], OldNetwork):
        parts = {str(i): state_of(part) for i, part in enumerate(function.all_functions)}
        return ModelState("folds", parts=parts)
    tree, arrays, blobs = encode(function)
    return ModelState("function", {"tree": tree}, arrays, blobs)


def function_of(state: ModelState, cls: Any = Function, *, module: Any = None) -> Any:
    """The function whose state this is."""
    if state.kind in _OLD:
        place, _, name = _OLD[state.kind].partition(":")
        return OldNetwork(getattr(import_module(place), name).from_state(state, module=module))
    if state.kind == "folds":
        return Folds(tuple(function_of(state.parts[str(i)], module=module) for i in range(len(state.parts))))
    for place in _MODULES:
        import_module(place)
    return decode(state.config["tree"], state.arrays, state.blobs, cls)
