"""Facts about the nodes in archives of skops that the writer and the reader share."""

from __future__ import annotations

from typing import Any

__all__ = ["NONE", "SCHEMA", "Node", "is_dropped"]

Node = dict[str, Any]

SCHEMA = "schema.json"
# Values that predictions do not need. They are replaced by None in writing, and in reading older files.
_DROPPED = ("LossNode", "RandomStateNode", "RandomGeneratorNode")
_DROPPED_MODULES = (
    "scipy._lib.array_api_compat.numpy._aliases",
    "sklearn._loss.link",
    "sklearn._loss._loss",
    "sklearn.linear_model._sgd_fast",
    "sklearn.metrics._dist_metrics",
    "sklearn.metrics._scorer",
    "sklearn.neighbors._ball_tree",
    "sklearn.neighbors._kd_tree",
    "sklearn.neural_network._stochastic_optimizers",
)
NONE: Node = {
    "__class__": "str",
    "__module__": "builtins",
    "__loader__": "JsonNode",
    "content": "null",
    "is_json": True,
}


def is_dropped(node: Node) -> bool:
    """Whether the node describes something that predictions do not need."""
    if "__loader__" not in node or "__module__" not in node:
        return False
    return node["__loader__"] in _DROPPED or (
        node["__module__"] in _DROPPED_MODULES and node["__loader__"] != "TypeNode"
    )
