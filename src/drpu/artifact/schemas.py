"""Conversion of states of older schemas to the present one.

A change of the layout of states needs the next number, a function here that converts the previous layout,
and files of the previous layout in ``tests/artifact/schemas``. New keys that have a default in
``from_state`` need no new number.

1. One flat state for each classifier: tails, calibration and grid among its own arrays.
2. Tails, calibration, grid and model are parts of a ``fitted`` part, each written by its class. The
   training prior is ``train_prior``, and the method for later priors ``adapt_method``.
3. The last part of a ``folds`` state may be a model of all rows; readers of the second schema would count
   its scores.
"""

from __future__ import annotations

from typing import Any

from drpu._state import ModelState

__all__ = ["SCHEMA", "upgrade"]

SCHEMA = 3


def upgrade(state: ModelState, schema: int) -> ModelState:
    """A classifier's state in the present layout, from the layout of ``schema``."""
    return _from_first(state) if schema == 1 else state


def _from_first(state: ModelState) -> ModelState:
    if state.kind not in ("DRPUClassifier", "AdaptedClassifier"):
        return state
    config, arrays = state.config, state.arrays
    tails = ModelState("tails", config["tails"], _under("tails", arrays))
    parts = {"model": state.parts["model"], "tails": tails}
    if "calibration" in config:
        parts["calibration"] = ModelState("calibration", config["calibration"], _under("calibration", arrays))
    if "grid.positive" in arrays:
        parts["grid"] = ModelState("grid", arrays=_under("grid", arrays))
    fitted = {
        "train_prior": config["prior"],
        "labelled_fraction": config["labelled_share"],
        "classes": config["classes"],
        "adapt_method": config["method"],
    }
    if "protection" in config:
        fitted["protection"] = config["protection"]
    own: dict[str, Any] = {name: config[name] for name in ("columns", "names") if name in config}
    if state.kind == "AdaptedClassifier":
        own |= {"test_prior": config["at"]["prior"], "cost": config["at"]["cost"]}
    else:
        own["parameters"] = config["parameters"] | {"adapt_method": config["method"]}
    return ModelState(state.kind, own, parts={"fitted": ModelState("fitted-ratio", fitted, parts=parts)})


def _under(part: str, arrays: dict[str, Any]) -> dict[str, Any]:
    start = f"{part}."
    return {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
