"""LightGBM's trees as an operator of a graph, exact to about 1e-11."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu.exceptions import ArtifactError
from drpu.models._onnx.graph import Graph

__all__ = ["tree_sum"]


def tree_sum(graph: Graph, booster: Any, X: str) -> str:
    """The sum of the trees for each row, of shape (rows, 1) in float64.

    The operator adds up in float64 and rounds the sum to float32. Each leaf is therefore split into a
    multiple of a power of two, whose sums float32 holds exactly, and a small rest, summed beside it.
    """
    rows: list[dict[str, Any]] = []
    trees = booster.dump_model()["tree_info"]
    for number, tree in enumerate(trees):
        _grow(tree["tree_structure"], number, [], rows)
    leaves = [row for row in rows if row["mode"] == "LEAF"]
    weights = np.array([row["weight"] for row in leaves])
    whole, rest = _split(weights, len(trees))

    def column(name: str) -> list[Any]:
        return [row[name] for row in rows]

    def tensor(values: Any, name: str) -> Any:
        return graph.onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64), name)

    sums = graph.op(
        "TreeEnsembleRegressor",
        X,
        domain="ai.onnx.ml",
        n_targets=2,
        nodes_treeids=column("tree"),
        nodes_nodeids=column("node"),
        nodes_featureids=column("feature"),
        nodes_modes=column("mode"),
        nodes_truenodeids=column("yes"),
        nodes_falsenodeids=column("no"),
        nodes_missing_value_tracks_true=column("missing"),
        nodes_values_as_tensor=tensor(column("value"), "values"),
        target_treeids=[row["tree"] for row in leaves] * 2,
        target_nodeids=[row["node"] for row in leaves] * 2,
        target_ids=[0] * len(leaves) + [1] * len(leaves),
        target_weights_as_tensor=tensor(np.concatenate([whole, rest]), "weights"),
    )
    return graph.total(graph.double(sums))


def _split(weights: Any, trees: int) -> tuple[Any, Any]:
    """Multiples of a power of two whose sum over all trees has at most 23 bits, and what is left."""
    most = max(float(np.abs(weights).max()) * trees, 1e-30)
    step = 2.0 ** (np.ceil(np.log2(most)) - 23)
    whole = np.round(weights / step) * step
    return whole, weights - whole


def _grow(part: dict[str, Any], tree: int, own: list[int], rows: list[dict[str, Any]]) -> int:
    """Add a part of a tree and return the number of its first node; ``own`` counts the nodes of the tree."""
    row = _node(tree, own, rows)
    if "split_feature" not in part:
        row["weight"] = float(part.get("leaf_value", 0.0))
        return int(row["node"])
    if part["decision_type"] == "==":
        return _grow_category(part, row, own, rows)
    if part["decision_type"] != "<=" or part["missing_type"] == "Zero":
        raise ArtifactError("these trees read zeros as gaps, which the export to ONNX does not know.")
    # Without missing values in training, LightGBM reads a later one as 0.
    left = part["default_left"] if part["missing_type"] == "NaN" else part["threshold"] >= 0
    row |= {"feature": part["split_feature"], "mode": "BRANCH_LEQ", "missing": int(left)}
    row["value"] = float(part["threshold"])
    row["yes"] = _grow(part["left_child"], tree, own, rows)
    row["no"] = _grow(part["right_child"], tree, own, rows)
    return int(row["node"])


def _grow_category(
    part: dict[str, Any], first: dict[str, Any], own: list[int], rows: list[dict[str, Any]]
) -> int:
    """A split on a set of codes: a chain of equalities whose true branches share the left part."""
    codes = [float(code) for code in str(part["threshold"]).split("||")]
    chain = [first, *(_node(first["tree"], own, rows) for _ in codes[1:])]
    left = _grow(part["left_child"], first["tree"], own, rows)
    right = _grow(part["right_child"], first["tree"], own, rows)
    following = [*(row["node"] for row in chain[1:]), right]
    for row, code, no in zip(chain, codes, following, strict=True):
        row |= {"feature": part["split_feature"], "mode": "BRANCH_EQ", "value": code, "yes": left, "no": no}
    return int(first["node"])


def _node(tree: int, own: list[int], rows: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"tree": tree, "node": len(own), "feature": 0, "mode": "LEAF", "yes": 0, "no": 0}
    row |= {"missing": 0, "value": 0.0, "weight": 0.0}
    own.append(row["node"])
    rows.append(row)
    return row
