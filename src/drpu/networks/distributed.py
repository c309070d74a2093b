"""DistributedNetwork: a network that several processes train together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from drpu._checks import check_integer, check_real, check_weights
from drpu._optional import require
from drpu._typing import BoolArray, FloatArray, IntArray
from drpu.core.tails import ScoreTails
from drpu.exceptions import ClusterError, DataError
from drpu.networks.learner import NetworkRatio
from drpu.ratios.base import as_rows
from drpu.ratios.clusters import FrameFit, FrameRatio, Part, PartCounts, settle_split, tails_and_grid
from drpu.ratios.folds import FoldedRatio

__all__ = ["DistributedNetwork"]

STOPPING = 10  # one of ten training rows is used to choose the epoch


class DistributedNetwork(FrameRatio):
    """Density ratio of a network that processes started by ``torchrun`` train together.

    Each process calls ``DRPUClassifier(model=DistributedNetwork()).fit(X, y)`` with its own
    rows; gradients are averaged by torch's DistributedDataParallel, and every process ends
    with the same classifier. The loss is the logistic loss of positive against unlabeled
    rows with equal totals, so that the output is the log-ratio. A process may have rows
    of one kind only, or fewer rows than others. Rows never leave their process. Gradients,
    scores of held-out positives and counts are exchanged.

    Parameters
    ----------
    hidden : sequence of int, default=(128, 64)
        Widths of the hidden layers.
    epochs : int, default=20
        Passes over the rows; the one with the lowest loss on a tenth of them is kept.
    batch_size : int, default=512
        Rows of a step, over all processes.
    learning_rate : float, default=0.003
        Initial learning rate of AdamW; it decreases to 0 along a cosine.
    weight_decay : float, default=0.01
        Weight decay of AdamW.
    backend : str, default="gloo"
        Backend of ``torch.distributed`` if no process group exists yet; use ``"nccl"`` for GPUs.
    most_levels : int, default=100000
        Maximum number of held-out positives whose scores are kept as levels of the counts.
    random_state : int, RandomState or None, default=None
        Seed of the folds and of the weights: an integer, the same in all processes.
    """

    engine = "torch.distributed"

    def __init__(
        self,
        *,
        hidden: Sequence[int] = (128, 64),
        epochs: int = 20,
        batch_size: int = 512,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.01,
        backend: str = "gloo",
        most_levels: int = 100_000,
        random_state: Any = None,
    ) -> None:
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.backend = backend
        self.most_levels = most_levels
        self.random_state = random_state

    def open(self, *_: Any) -> NoReturn:
        """Not supported: each process has its rows in memory."""
        self._only_frames()

    def fit_frame(
        self,
        frame: Any,
        label: Any,
        weight: Any,
        holdout: Any,
        read_labels: Callable[[Any], tuple[BoolArray, np.ndarray[Any, Any]]],
    ) -> FrameFit:
        """Fold models of the rows of all processes, and counts of the rows that each was not trained on."""
        self._check_parameters()
        self._join_group()
        from drpu.networks.processes import gather

        salt = int(gather(self.salt())[0])
        part, classes = self._part(frame, label, weight, read_labels, salt)
        counts = np.sum(gather(np.bincount(part.positive, minlength=2)), axis=0)
        split = settle_split(holdout, int(counts[1]), int(counts[0]))
        part = Part(part.rows, part.positive, _folds(part.rows, split, salt), part.weight)
        folds = 1 if isinstance(split, float) else int(split)
        models = [self._grow(part, fold, salt) for fold in range(folds)]
        tails, grid = tails_and_grid(_Counted(part, gather), models, self.most_levels)
        mass = np.sum(gather(np.bincount(part.positive, weights=part.weight, minlength=2)), axis=0)
        fraction = float(mass[1] / mass.sum())
        return FrameFit(
            FoldedRatio(models),
            tails,
            grid,
            classes,
            part.rows.shape[1],
            int(counts[1]),
            int(counts[0]),
            fraction,
        )

    def _part(
        self, frame: Any, label: Any, weight: Any, read_labels: Any, salt: int
    ) -> tuple[Part, np.ndarray[Any, Any]]:
        """The rows of this process, with the labels of all processes read together."""
        from drpu.networks.processes import gather

        rows = as_rows("X", frame, sparse_ok=False)
        labels = np.asarray(label)
        if labels.shape != (len(rows),):
            raise DataError(f"y must have one label for each of {len(rows)} rows, got shape {labels.shape}.")
        values = np.unique(np.concatenate([np.unique(part) for part in gather(labels)]))
        positive, classes = read_labels(values)
        weights = None if weight is None else check_weights("sample_weight", weight, len(rows))
        return Part(rows, np.isin(labels, values[positive]), np.zeros(len(rows), np.int64), weights), classes

    def _grow(self, part: Part, fold: int, salt: int) -> NetworkRatio:
        import torch

        from drpu.networks.modules import perceptron
        from drpu.networks.processes import Shard, gather, shared_scaling, train_together

        seen = part.take(part.fold != fold)
        stopping = _hashed(seen.rows, salt + 1) % np.uint64(STOPPING) == 0
        scaling = shared_scaling(seen.rows[~stopping])

        def shard(rows: Part) -> Shard:
            base = np.ones(len(rows.rows)) if rows.weight is None else rows.weight
            mass = np.sum(gather(np.bincount(rows.positive, weights=base, minlength=2)), axis=0)
            if (mass <= 0).any():
                raise DataError("every fold must have positive and unlabeled rows: use more rows.")
            n = float(sum(gather(len(base))))
            weight = base * np.where(rows.positive, n / (2 * mass[1]), n / (2 * mass[0]))
            return Shard(
                torch.as_tensor(scaling.softly_clipped(rows.rows)),
                torch.as_tensor(np.where(rows.positive, 1.0, -1.0), dtype=torch.float32),
                torch.as_tensor(weight, dtype=torch.float32),
            )

        torch.manual_seed(salt + fold)
        trained = train_together(
            perceptron(part.rows.shape[1:], self.hidden),
            shard(seen.take(~stopping)),
            shard(seen.take(stopping)),
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            seed=salt,
        )
        model = NetworkRatio(hidden=tuple(self.hidden), head="exp", alpha=0.0, device="cpu")
        model.n_features_in_, model.input_shape_ = part.rows.shape[1], part.rows.shape[1:]
        model.module_, model.scaling_ = trained.module, scaling
        model.alpha_, model.bound_ = 0.0, np.inf
        model.best_epoch_, model.history_ = trained.best_epoch, {"holdout_risk": trained.losses}
        return model

    def _join_group(self) -> None:
        require("torch", extra="torch", for_="DistributedNetwork")
        import torch.distributed as dist

        if not dist.is_available():
            raise ClusterError("this torch has no distributed package: install another build.")
        if dist.is_initialized():
            return
        if "RANK" not in os.environ:
            raise ClusterError(
                "DistributedNetwork needs a group of processes: start the script with torchrun, or call "
                "torch.distributed.init_process_group first."
            )
        dist.init_process_group(self.backend)

    def _check_parameters(self) -> None:
        for name in ("epochs", "batch_size", "most_levels"):
            check_integer(name, getattr(self, name), low=1)
        for width in self.hidden:
            check_integer("hidden", width, low=1)
        check_real("learning_rate", self.learning_rate, low=1e-9)
        check_real("weight_decay", self.weight_decay, low=0)


class _Counted:
    """Scores and counts of the rows of all processes."""

    def __init__(self, part: Part, gather: Callable[[Any], list[Any]]) -> None:
        self.part, self.gather = part, gather
        self.weighted = any(gather(part.weight is not None))

    def positive_scores(self, model: Any, fold: int, most: int) -> tuple[FloatArray, FloatArray]:
        found = self.gather(self._scored(model, fold, positive=True))
        scores, weight = (np.concatenate(parts) for parts in zip(*found, strict=True))
        order = np.argsort(scores, kind="stable")
        if len(scores) > most:  # quantiles instead, which are the same in every process
            order = order[np.linspace(0, len(scores) - 1, most).astype(np.int64)]
        return scores[order], weight[order]

    def count(self, model: Any, fold: int, empty: ScoreTails) -> PartCounts:
        scores, weight = self._scored(model, fold, positive=False)
        parts = self.gather(PartCounts.of(empty, scores, weight if self.weighted else None))
        total: PartCounts = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    def _scored(self, model: Any, fold: int, *, positive: bool) -> tuple[FloatArray, FloatArray]:
        held = self.part.take((self.part.fold == fold) & (self.part.positive == positive))
        weight = np.ones(len(held.rows)) if held.weight is None else held.weight
        return (model.score_checked(held.rows) if len(held.rows) else np.empty(0)), weight


def _folds(rows: FloatArray, split: int | float, salt: int) -> IntArray:
    """Fold of each row by a hash of its values; -1 for rows that are used for training only."""
    unit = (_hashed(rows, salt) >> np.uint64(11)).astype(np.float64) / 2**53
    if isinstance(split, float):
        return np.where(unit < split, 0, -1).astype(np.int64)
    return np.minimum((unit * split).astype(np.int64), split - 1)


def _hashed(rows: FloatArray, salt: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A hash of the values of each row, the same in every process."""
    values = np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64)
    found = np.full(len(rows), salt + 1, dtype=np.uint64)
    for column in values.T:
        found = (found ^ column) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    found *= np.uint64(0xBF58476D1CE4E5B9)
    return found ^ (found >> np.uint64(32))
