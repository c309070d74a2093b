"""Networks that are trained together, each on its own rows of one array.

On a GPU ten small networks take hardly longer than one. Each result equals that of the network trained
alone, up to rounding and the random numbers of dropout and augmentation, because initial weights and batches
of a network depend on its own seed only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from drpu import NetworkRatio
from drpu.exceptions import ParameterError
from drpu.models.risks import PUObjective, ShiftedRisk
from drpu.networks.fit import Network, make_function, ratio_aim, score_aim
from drpu.networks.function import NetworkFunction
from drpu.networks.learner import NetworkScore
from drpu.networks.loop import Pool, Stack, Training, TrainingRows
from drpu.networks.modules import log_ratio_of
from drpu.networks.options import Options, check_options, network_seed, score_options
from paper.evaluate import Floats
from paper.splits import Split

__all__ = ["Places", "Scorer", "Watch", "fit_many"]

Index: TypeAlias = npt.NDArray[np.int64]
# Current scores of the networks, (networks, n), for an array, or for rows of each network in it.
Scorer: TypeAlias = Callable[..., Floats]
Watch: TypeAlias = Callable[[int, Scorer], None]


@dataclass(frozen=True, slots=True)
class Places:
    """The rows of one network, as positions in an array that all networks share.

    Attributes
    ----------
    positive, unlabeled : ndarray
        Rows to train on.
    held : pair of ndarray or None
        Positive and unlabeled rows to hold out.
    weight : ndarray or None
        Weights of the positive rows.
    """

    positive: Index
    unlabeled: Index
    held: tuple[Index, Index] | None = None
    weight: Floats | None = None

    @classmethod
    def of(cls, part: Split, *, hold_out: bool = True) -> Places:
        """The rows of a trial."""
        held = (part.positive[1], part.unlabeled[1]) if hold_out else None
        return cls(np.sort(part.positive[0]), np.sort(part.unlabeled[0]), held)

    def repeated(self) -> Places:
        """The same with positives repeated to the number of unlabeled rows."""
        return replace(self, positive=np.resize(self.positive, max(len(self.positive), len(self.unlabeled))))


class _AccumulatingStack(Stack):
    """Networks whose gradients are never set to zero, as in the published runs."""

    def backward(self, loss: Tensor) -> None:
        before = self.slopes.clone()
        super().backward(loss)
        self.slopes.add_(before)


def fit_many(
    learners: Sequence[NetworkRatio],
    rows: Any,
    places: Sequence[Places],
    *,
    objectives: Sequence[PUObjective] | None = None,
    run: Mapping[str, Any] | None = None,
    on_epoch: Watch | None = None,
    accumulate: bool = False,
) -> list[NetworkFunction]:
    """Train networks of the user together; those of one learning rate and weight decay at a time.

    Parameters
    ----------
    learners : sequence of NetworkRatio or of NetworkScore
        They may differ in ``alpha``, ``learning_rate``, ``weight_decay`` and ``random_state``.
    rows : ndarray
        Rows of all networks.
    places : sequence of Places
        The rows of each network, equally many of each kind.
    objectives : sequence of PUObjective, optional
        The objective of each NetworkScore. They have one type and may differ in their priors.
    run : mapping, optional
        Options of the run that learners do not have, see :data:`paper.configs.RUN`.
    on_epoch : callable, optional
        Called after every epoch as ``on_epoch(epoch, score)``, for networks of one learning rate;
        ``score(X)`` gives their current scores of the rows ``X``, and ``score(X, index)`` those of the rows
        ``index[i]`` by network i, shape (networks, n).
    accumulate : bool, default=False
        Whether gradients are never set to zero.
    """
    groups: dict[tuple[float, float], list[int]] = {}
    for i, learner in enumerate(learners):
        groups.setdefault((learner.learning_rate, learner.weight_decay), []).append(i)
    if on_epoch is not None and len(groups) > 1:
        raise ParameterError("learning_rate and weight_decay must be the same in networks that are watched.")
    found: dict[int, NetworkFunction] = {}
    for own in groups.values():
        aims = None if objectives is None else [objectives[i] for i in own]
        kind = _AccumulatingStack if accumulate else Stack
        chosen = [learners[i] for i in own]
        options = replace(_options(chosen[0], rows, len(places[own[0]].unlabeled)), **run or {})
        functions = _fit(options, chosen, rows, [places[i] for i in own], aims, on_epoch, kind)
        found |= dict(zip(own, functions, strict=True))
    return [found[i] for i in range(len(learners))]


def _fit(
    options: Options,
    learners: Sequence[NetworkRatio],
    rows: Any,
    places: Sequence[Places],
    objectives: Sequence[PUObjective] | None,
    on_epoch: Watch | None,
    kind: type[Stack],
) -> list[NetworkFunction]:
    device, dtype = options.place
    alphas = [0.0 if isinstance(learner, NetworkScore) else learner.alpha for learner in learners]
    networks = [
        Network(network_seed(learner.random_state), float(alpha))
        for learner, alpha in zip(learners, alphas, strict=True)
    ]
    stack = kind([options.start(one.seed, rows) for one in networks], device=device, dtype=dtype)
    aim = score_aim(_joined(objectives), device, dtype) if objectives else ratio_aim(options, networks)
    pools = _Pools(options)
    held = [place.held for place in places if place.held is not None]
    training = Training(
        stack,
        TrainingRows(
            pools.take(rows, [place.positive for place in places], [place.weight for place in places]),
            pools.take(rows, [place.unlabeled for place in places]),
        ),
        aim,
        options,
        seeds=[network.seed for network in networks],
        holdout=(pools.take(rows, [p for p, _ in held]), pools.take(rows, [u for _, u in held]))
        if held
        else None,
    )
    if on_epoch is not None:

        def score(X: Any, index: Sequence[Index] | None = None) -> Floats:
            chosen = [np.arange(len(X))] * len(networks) if index is None else index
            output = training.score(pools.take(X, chosen))
            return np.asarray(log_ratio_of(options.head, output).cpu().numpy(), dtype=np.float64)

        training.on_epoch = lambda epoch: on_epoch(epoch, score)
    outcome = training.run()
    return [make_function(options, outcome, i, network.alpha) for i, network in enumerate(networks)]


def _options(learner: NetworkRatio, rows: Any, n_unlabeled: int) -> Options:
    if isinstance(learner, NetworkScore):
        options = score_options(learner, rows.shape[1:], n_unlabeled)
    else:
        options = check_options(learner, rows.shape[1:], n_unlabeled)
    if options.module is None or len(options.alphas) > 1:
        raise ParameterError("networks that are trained together need a module and a number alpha.")
    return options


def _joined(objectives: Sequence[PUObjective]) -> PUObjective:
    """One objective for a stack, with a prior for each network."""
    first = objectives[0]
    if not isinstance(first, ShiftedRisk):
        return first
    shifted = [one for one in objectives if isinstance(one, ShiftedRisk)]
    priors: dict[str, Any] = {
        "unlabeled_prior": [one.unlabeled_prior for one in shifted],
        "prior": [one.prior for one in shifted],
    }
    return replace(first, **priors)


@dataclass(frozen=True)
class _Indexed(Pool):
    """A pool of which each network has its own rows: ``index`` and ``weight`` have one line per network."""

    index: Tensor = field(kw_only=True)

    def __len__(self) -> int:
        return self.index.shape[1]

    def take(self, positions: Tensor) -> Tensor:
        return super().take(self.index.gather(1, positions))

    def take_weight(self, positions: Tensor) -> Tensor | None:
        return None if self.weight is None else self.weight.gather(1, positions)


class _Pools:
    """Arrays on the device, each of them once, and parts of them."""

    def __init__(self, options: Options) -> None:
        self.device, self.dtype = options.place
        self.loaded: dict[int, tuple[Any, Tensor]] = {}

    def take(self, X: Any, index: Sequence[Index], weights: Sequence[Floats | None] = ()) -> Pool:
        """The rows ``index[i]`` of ``X`` for network i, with their weights, or without."""
        if len({len(own) for own in index}) > 1:
            raise ParameterError("networks that are trained together need equally many rows each.")
        given = [weight for weight in weights if weight is not None]
        weight = torch.as_tensor(np.stack(given), dtype=self.dtype, device=self.device) if given else None
        return _Indexed(
            self._load(X), weight, self.dtype, index=torch.as_tensor(np.stack(index), device=self.device)
        )

    def _load(self, X: Any) -> Tensor:
        if id(X) not in self.loaded:
            rows = torch.as_tensor(X)
            rows = rows.to(self.device) if X.dtype == np.uint8 else rows.to(self.device, self.dtype)
            self.loaded[id(X)] = X, rows  # the array is kept, so that its id stays unique
        return self.loaded[id(X)][1]
