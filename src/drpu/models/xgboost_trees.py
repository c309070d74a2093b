"""Trees of XGBoost, converted to trees that drpu can save and score."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from drpu._typing import FloatArray
from drpu.exceptions import ClusterError
from drpu.models._trees import Tree, Trees

__all__ = ["trees_from_xgboost"]

_NAN, _LEFT = 8, 2  # bits of a decision: missing values are NaN; they go left


def trees_from_xgboost(model: bytes | bytearray, columns: int) -> Trees:
    """Trees of a binary classifier in XGBoost's JSON.

    XGBoost compares in float32 and sends a value left if it is below the condition. LightGBM
    sends it left if it is at most the threshold, so the threshold lies between the
    condition and the float32 before it.
    """
    learner = json.loads(bytes(model).decode())["learner"]
    base = float(str(learner["learner_model_param"]["base_score"]).strip("[]"))
    if base != 0.5:
        raise ClusterError(f"XGBoost trees must start at a base_score of 0.5, got {base}.")
    trees = learner["gradient_booster"]["model"]["trees"]
    return Trees(tuple(_tree(tree) for tree in trees), columns, averaged=False)


def _tree(tree: dict[str, Any]) -> Tree:
    left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
    condition = np.array(tree["split_conditions"], dtype=np.float64)
    leaf = left < 0
    # splits and leaves are numbered separately, in the order of the nodes
    number = np.where(leaf, ~(np.cumsum(leaf) - 1), np.cumsum(~leaf) - 1)
    split = ~leaf
    default_left = np.array(tree["default_left"]).astype(bool)
    return Tree(
        feature=np.array(tree["split_indices"], dtype=np.int64)[split],
        threshold=_below(condition[split]),
        decision=(_NAN + _LEFT * default_left[split]).astype(np.int64),
        left=number[left[split]].astype(np.int64),
        right=number[right[split]].astype(np.int64),
        value=condition[leaf],
        count=np.ones(int(leaf.sum()), dtype=np.int64),  # XGBoost does not store it
        bounds=np.zeros(1, dtype=np.int64),  # no split on categories
        bits=np.empty(0, dtype=np.int64),
    )


def _below(condition: FloatArray) -> FloatArray:
    """A threshold that float64 values rounding to a float32 below the condition do not exceed."""
    single = condition.astype(np.float32)
    before = np.nextafter(single, np.float32(-np.inf)).astype(np.float64)
    return np.asarray((before + single.astype(np.float64)) / 2)
