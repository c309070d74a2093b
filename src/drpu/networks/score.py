"""Scores from neural networks, with the options that density-ratio networks have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from drpu._optional import require
from drpu._samples import SamplePair
from drpu._state import ModelState
from drpu._typing import FloatArray, Rows
from drpu.core.risks import PUObjective
from drpu.exceptions import ParameterError
from drpu.functions._bridge import OldNetwork
from drpu.functions.base import as_rows
from drpu.networks.learner import NetworkRatio
from drpu.networks.state import check_row_shape, network_from_state, network_schema, network_state
from drpu.ratios.base import ScoreLearner

if TYPE_CHECKING:
    from torch import Tensor, nn

    from drpu.networks.tasks import Task
    from drpu.networks.training import Fitted

__all__ = ["NetworkScore", "from_ratio"]

_RATIO_ONLY = ("alpha", "bound", "generator", "head", "teachers", "rounds", "students", "mixup")


class NetworkScore(ScoreLearner):
    """Score from a neural network, trained for an objective by paired batches.

    The classifiers of nnPU, PUa and VPU use it. With :func:`drpu.networks.many.fit_many` several of them can
    be trained together, for example each for its own :class:`drpu.core.risks.ShiftedRisk`. The
    parameters are those of :class:`drpu.NetworkRatio`, without those that only a density ratio has.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network. The default one expects scaled columns.
    best_epoch_ : int
        The epoch that was kept, counted from 1.
    history_ : dict of str to array
        ``risk`` and, if rows were held out, ``holdout_risk`` by epoch.
    """

    kind: ClassVar[str] = "network-score"
    schema = network_schema("NetworkScore")
    accepts_sparse: ClassVar[bool] = False
    accepts_nd: ClassVar[bool] = True

    def __init__(
        self,
        module: nn.Module | Callable[[], nn.Module] | None = None,
        *,
        network: str = "auto",
        augment: str | Callable[[Tensor], Tensor] | None = None,
        average_views: bool = False,
        hidden: Sequence[int] | None = None,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 3e-3,
        optimizer: str = "adamw",
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 1.0,
        decay: str = "cosine",
        ema: float | None = 0.99,
        early_stopping: bool = True,
        holdout: float = 0.2,
        accumulate_gradients: bool = False,
        device: Any = "auto",
        dtype: str = "float32",
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.module = module
        self.network = network
        self.augment = augment
        self.average_views = average_views
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.optimizer = optimizer
        self.betas = betas
        self.weight_decay = weight_decay
        self.decay = decay
        self.ema = ema
        self.early_stopping = early_stopping
        self.holdout = holdout
        self.accumulate_gradients = accumulate_gradients
        self.device = device
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose

    def fit_score(self, pair: SamplePair, objective: PUObjective) -> OldNetwork:  # noqa: D102
        require("torch", extra="torch", for_="a network")
        from drpu.networks.risk import fit_stack

        model = clone(self)
        (fitted,) = fit_stack([model._task(pair, None)], [objective])
        model._take(fitted, pair.positive.rows.shape[1:])
        return OldNetwork(model)

    def score(self, X: Rows) -> FloatArray:
        """Outputs of the network, one float64 per row."""
        from drpu.networks.training import outputs

        if not hasattr(self, "module_"):
            raise NotFittedError("this NetworkScore is not fitted yet: train it with fit_many first.")
        X = as_rows("X", X, sparse_ok=False, nd_ok=True)
        check_row_shape(self, X)
        return outputs(self.module_, X, self.scaling_, augment=self.augment if self.average_views else None)

    def state(self) -> ModelState:  # noqa: D102
        return network_state(self.kind, self)

    @classmethod
    def from_state(cls, state: ModelState, *, module: Any = None) -> Self:  # noqa: D102
        return network_from_state(cls, state, module)

    def _as_ratio(self) -> NetworkRatio:
        """A NetworkRatio with the same options, for their checks; options of ratios have their defaults."""
        return NetworkRatio(**self.get_params(deep=False), alpha=0.0, head="exp")

    def _task(self, pair: SamplePair, holdout: SamplePair | None) -> Task:
        from drpu.networks.tasks import make_task

        return make_task(self._as_ratio(), pair, holdout)

    def _take(self, fitted: Fitted, shape: tuple[int, ...]) -> None:
        self.input_shape_ = shape
        self.module_, self.scaling_ = fitted.module, fitted.scaling
        self.best_epoch_, self.history_ = fitted.best_epoch, fitted.history


def from_ratio(model: NetworkRatio) -> NetworkScore:
    """A score network with the options of ``model``; options of ratios only must have their defaults."""
    params, plain = model.get_params(deep=False), NetworkRatio().get_params(deep=False)
    for name in _RATIO_ONLY:
        if params.pop(name) != plain[name]:
            raise ParameterError(
                f"{name} must be left at its default in this model: it belongs to density ratios, "
                "and this network has another objective."
            )
    return NetworkScore(**params)
