"""The state of a trained network, and the network restored from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from drpu._optional import require
from drpu._schema import Field, Flag, Integer, List, Optional, Schema, Text
from drpu._state import ModelState
from drpu._typing import Rows
from drpu.exceptions import ArtifactError, DataError

if TYPE_CHECKING:
    from drpu.networks.learner import NetworkRatio
    from drpu.networks.score import NetworkScore

__all__ = ["check_row_shape", "network_from_state", "network_schema", "network_state"]

MOST_VALUES = 2**24  # largest number of values of a row


def network_schema(name: str, **more: Field) -> Schema:
    """The schema of the state of a network; ``more`` has rules for other fitted values."""
    return Schema(
        name,
        config={
            "default_module": Flag(),
            "network": Optional(Text(("module", "perceptron", "resnet9"))),
            "widths": Optional(List(Integer(1, 2**20), low=1, high=1000)),
            "members": Optional(Integer(1, 1000)),
            "input_shape": List(Integer(1, MOST_VALUES), low=1, high=4),
            "best_epoch": Integer(0),
            **more,
        },
        more_arrays=r"module\..+|mean|scale",
        also=_problem,
    )


def _problem(state: ModelState, _: dict[str, int]) -> str | None:
    shape = tuple(state.config["input_shape"])
    if math.prod(shape) > MOST_VALUES:
        return f"a row must have at most {MOST_VALUES} values"
    for key in ("params", "history"):
        if not isinstance(state.config.get(key), dict):
            return f"{key} must be a dictionary"
    for key, array in state.arrays.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            return f"the array {key[:100]} must hold finite numbers"
    for key in ("mean", "scale"):
        if key in state.arrays and not _fits(state.arrays[key].shape, shape):
            return f"{key} must fit the shape of a row, {shape}"
    if ("mean" in state.arrays) is not ("scale" in state.arrays):
        return "mean and scale must come together"
    if "scale" in state.arrays and not (state.arrays["scale"] > 0).all():
        return "scale must be positive"
    return None


def _fits(part: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(part, shape) == shape
    except ValueError:
        return False


Network = TypeVar("Network", "NetworkRatio", "NetworkScore")


def network_state(kind: str, model: NetworkRatio | NetworkScore, **learnt: Any) -> ModelState:
    """Parameters, weights and history of a fitted model, and other fitted values in ``learnt``.

    Weights and statistics of the network are stored as arrays. The code of a custom network is not stored.
    """
    from drpu.networks.modules import Ensemble
    from drpu.networks.tasks import hidden_widths, network_name

    arrays = {f"module.{k}": v.cpu().numpy() for k, v in model.module_.state_dict().items()}
    if model.scaling_ is not None:
        arrays |= {"mean": model.scaling_.shift, "scale": model.scaling_.scale}
    config = {
        "params": _plain_params(model),
        "default_module": model.module is None,
        "network": network_name(model, model.input_shape_),
        "widths": list(hidden_widths(model, model.input_shape_)),
        "members": len(model.module_.members) if isinstance(model.module_, Ensemble) else 1,
        "input_shape": list(model.input_shape_),
        "best_epoch": model.best_epoch_,
        "history": {k: v.tolist() for k, v in model.history_.items()},
    }
    return ModelState(kind, config | learnt, arrays)


def network_from_state(cls: type[Network], state: ModelState, module: Any) -> Network:
    """The model whose state :func:`network_state` returned; ``module`` makes a custom network."""
    torch = require("torch", extra="torch", for_="a network")
    from drpu.functions.features import Scaling
    from drpu.networks.device import pick_device, weight_dtype
    from drpu.networks.modules import Ensemble
    from drpu.networks.tasks import HIDDEN
    from drpu.networks.training import build_module

    config, arrays = state.config, state.arrays
    if config["default_module"]:
        module = None
    elif module is None:
        raise ArtifactError(
            f"module must be a function that returns the network: this {cls.__name__} was fitted with "
            "a custom network, of which only the weights were kept. Pass module=YourNetwork."
        )
    params: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in config["params"].items()}
    model = cls(module, **params)
    model.input_shape_ = tuple(config["input_shape"])
    model.scaling_ = Scaling(arrays["mean"], arrays["scale"]) if "mean" in arrays else None
    weights = {k.removeprefix("module."): v for k, v in arrays.items() if k.startswith("module.")}
    # files of earlier versions have perceptrons for rows of any shape
    name = config.get("network") or "perceptron"
    widths = config.get("widths") or params.get("hidden") or HIDDEN
    members = config.get("members") or 1
    if max(len(widths), members) > len(weights):
        raise ArtifactError("the weights of the network must be those of all its layers and members.")

    def make() -> Any:
        made = [build_module(module, name, model.input_shape_, widths, 0, "exp") for _ in range(members)]
        return made[0] if members == 1 else Ensemble(made)

    if module is None:  # a file can name a network of any size, so shapes are compared with the weights first
        with torch.device("meta"):
            shapes = {k: tuple(v.shape) or (1,) for k, v in make().state_dict().items()}
        if shapes != {k: v.shape or (1,) for k, v in weights.items()}:  # numbers have shape (1,) in files
            raise ArtifactError("the weights of the network must be those of the layers that the file names.")
    network = make().to(dtype=weight_dtype(model.dtype))
    try:
        network.load_state_dict({k: torch.as_tensor(np.array(v)) for k, v in weights.items()})
    except RuntimeError as error:
        raise ArtifactError(f"module must be the network that was fitted: {error}") from error
    model.module_ = network.to(pick_device(model.device)).eval()
    model.best_epoch_ = int(config["best_epoch"])
    model.history_ = {k: np.asarray(v) for k, v in config["history"].items()}
    return model


def check_row_shape(model: NetworkRatio | NetworkScore, X: Rows) -> None:
    """Refuse rows whose shape differs from that of the training rows."""
    if X.shape[1:] != model.input_shape_:
        raise DataError(f"X must have rows of shape {model.input_shape_}, as in training, got {X.shape[1:]}.")


def _plain_params(model: NetworkRatio | NetworkScore) -> dict[str, Any]:
    """Parameters that can be written as JSON and that are valid on other machines."""
    params = model.get_params(deep=False)
    del params["module"], params["device"]
    if not isinstance(params["random_state"], (int, type(None))):
        params["random_state"] = None
    if callable(params["augment"]):
        params["augment"] = None  # scores do not depend on it
    return {k: list(v) if isinstance(v, tuple) else v for k, v in params.items()}
