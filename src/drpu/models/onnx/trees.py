"""LightGBM's trees as an operator of a graph, exact to about 1e-11."""

from __future__ import annotations

from typing import Any

import numpy as np

from drpu.exceptions import ArtifactError
from drpu.models.onnx.graph import Graph

__all__ = ["tree_sum"]


def tree_sum(graph: Graph, booster: Any, X: str) -> str:
    """The sum of the trees for each row, of shape (rows, 1) in float64.

    The operator sums in float64 and rounds the sum to float32. Each leaf value is therefore split into a
    multiple of a power of two, whose sums are exact in float32, and a small remainder, summed separately.
    """
    trees = booster.dump_model()["tree_info"]
    sets = _category_sets(trees)
    rows: list[dict[str, Any]] = []
    for number, tree in enumerate(trees):
        _grow(tree["tree_structure"], number, [], rows, _places(sets, booster))
    X = _with_members(graph, X, sets)
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
    """Multiples of a power of two whose sum over all trees has at most 23 bits, and the remainders."""
    most = max(float(np.abs(weights).max()) * trees, 1e-30)
    step = 2.0 ** (np.ceil(np.log2(most)) - 23)
    whole = np.round(weights / step) * step
    return whole, weights - whole


Sets = dict[tuple[int, str], None]  # a column and the codes that a split sends to the left


def _category_sets(trees: list[dict[str, Any]]) -> Sets:
    """The splits on categories, without repeated sets of codes."""
    found: Sets = {}
    waiting = [tree["tree_structure"] for tree in trees]
    while waiting:
        part = waiting.pop()
        if "split_feature" in part:
            waiting += [part["right_child"], part["left_child"]]
            if part["decision_type"] == "==":
                found[part["split_feature"], str(part["threshold"])] = None
    return found


def _places(sets: Sets, booster: Any) -> dict[tuple[int, str], int]:
    """Positions of the columns that :func:`_with_members` adds."""
    first = int(booster.num_feature())
    return {split: first + position for position, split in enumerate(sets)}


def _with_members(graph: Graph, X: str, sets: Sets) -> str:
    """The rows with a column for each set of codes, which is 1 if the code is in the set.

    The operator has a mode for equality, but runtimes merge such nodes, and not always correctly.
    """
    if not sets:
        return X
    columns = []
    for feature, threshold in sets:
        codes = np.array([[float(code) for code in threshold.split("||")]])
        column = graph.op("Gather", X, graph.constant([feature], np.int64), axis=1)
        columns.append(graph.total(graph.double(graph.op("Equal", column, codes))))
    return graph.op("Concat", X, *columns, axis=1)


def _grow(
    part: dict[str, Any],
    tree: int,
    own: list[int],
    rows: list[dict[str, Any]],
    places: dict[tuple[int, str], int],
) -> int:
    """Add a part of a tree and return the number of its first node; ``own`` counts the nodes of the tree."""
    row = _node(tree, own, rows)
    if "split_feature" not in part:
        row["weight"] = float(part.get("leaf_value", 0.0))
        return int(row["node"])
    row["mode"] = "BRANCH_LEQ"
    below, above = part["left_child"], part["right_child"]
    if part["decision_type"] == "==":
        row |= {"feature": places[part["split_feature"], str(part["threshold"])], "value": 0.5}
        below, above = above, below
    else:
        if part["decision_type"] != "<=" or part["missing_type"] == "Zero":
            raise ArtifactError("these trees treat zeros as missing values, which ONNX export cannot do.")
        # If training had no missing values, LightGBM treats a later one as 0.
        left = part["default_left"] if part["missing_type"] == "NaN" else part["threshold"] >= 0
        row |= {"feature": part["split_feature"], "missing": int(left), "value": float(part["threshold"])}
    row["yes"] = _grow(below, tree, own, rows, places)
    row["no"] = _grow(above, tree, own, rows, places)
    return int(row["node"])


def _node(tree: int, own: list[int], rows: list[dict[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {"tree": tree, "node": len(own), "feature": 0, "mode": "LEAF", "yes": 0, "no": 0}
    row |= {"missing": 0, "value": 0.0, "weight": 0.0}
    own.append(row["node"])
    rows.append(row)
    return row
