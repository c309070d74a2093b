"""DaskBoosted: boosted trees fitted on the workers of a Dask cluster."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from drpu._checks import check_integer
from drpu._optional import require
from drpu._typing import FloatArray, IntArray
from drpu.exceptions import ClusterError, DataTypeError
from drpu.models.boosted import BoostedFunction
from drpu.models.clusters import Counts, FrameLearner, Plan, feature_columns
from drpu.models.trees import Trees, category_settings
from drpu.priors.tails import ScoreTails
from drpu.scale import dask_tasks as tasks
from drpu.scale.dask_tasks import TreeTraining, one_at_a_time, worker_addresses
from drpu.tables.cells import Cells
from drpu.tables.encoder import TableEncoder
from drpu.tables.summaries import ColumnSummary
from drpu.tables.values import DATE, NUMBER

ATTEMPTS = 3  # to train trees, after a worker was lost


@dataclass(eq=False, repr=False)
class DaskBoosted(FrameLearner):
    """Density ratio of boosted trees (LightGBM), fitted on the workers that hold a Dask data frame.

    Use it as the model of a classifier: ``DRPUClassifier(model=DaskBoosted()).fit(frame, y="label")``.
    Strings, categories, dates and identifiers are read by the same rules as in memory, which are applied to
    summaries of the partitions; the trees split on categories. The rows are shuffled among the workers
    first, because distributed boosting fails on partitions that are sorted by label. LightGBM's Dask
    interface then trains the trees. If a worker is lost, its rows are read again and training is repeated.
    Fits on the same cluster, of any client, run one after the other. The fitted classifier needs neither
    Dask nor a cluster.

    Parameters
    ----------
    n_rounds, learning_rate, leaves, l2, key, random_state
        As in :class:`drpu.SparkBoosted`.
    min_leaf : int, default=20
        Minimum number of rows of a leaf.
    client : distributed.Client, optional
        The Dask client; by default the current one.
    """

    engine = "Dask"

    _: KW_ONLY
    min_leaf: int = 20
    client: Any = None

    def __sklearn_clone__(self) -> DaskBoosted:
        return type(self)(**self.get_params(deep=False))  # a client is shared, never copied

    def survey(self, frame: Any, label: str, weight: str | None) -> tuple[Counts, TableEncoder]:  # noqa: D102
        client = self._client()
        if not hasattr(frame, "columns") or not hasattr(frame, "to_delayed"):
            raise DataTypeError(f"X must be a Dask data frame, got {type(frame).__name__}.")
        columns = feature_columns(list(frame.columns), label, weight, self.key)
        delayed = require("dask", extra="dask", for_="DaskBoosted").delayed
        # Columns whose type determines their kind are not read; the others and the label, in one pass.
        plain = {name: NUMBER for name in columns if frame.dtypes[name].kind in "fb"}
        plain |= {name: DATE for name in columns if frame.dtypes[name].kind in "mM"}
        open_ = [name for name in columns if name not in plain]
        parts = frame[[*open_, label]].to_delayed()
        found = [delayed(tasks.survey)(part, k, open_, label) for k, part in enumerate(parts)]
        labels, table = client.compute(tasks.in_tree(found, delayed(tasks.add_surveys))).result()
        summaries = {name: table.columns[name] if name in open_ else ColumnSummary.of_kind(plain[name])
                     for name in columns}  # fmt: skip
        return labels, TableEncoder.of_summaries(summaries)

    @contextmanager
    def rows(self, frame: Any, plan: Plan) -> Iterator[_DaskRows]:  # noqa: D102
        rows = _DaskRows(self._client(), frame, plan, self)
        with one_at_a_time(rows.client):
            try:
                rows.load()
                yield rows
            finally:
                rows.parts.clear()  # futures without a reference are released

    def _client(self) -> Any:
        distributed = require("distributed", extra="dask", for_="DaskBoosted")
        try:
            return distributed.get_client() if self.client is None else self.client
        except ValueError as error:
            raise ClusterError(
                "DaskBoosted needs a Dask client: write client = dask.distributed.Client(...) first."
            ) from error

    def settings(self, seed: int) -> dict[str, Any]:
        """Settings of LightGBM."""
        return {
            "objective": "binary",
            "boost_from_average": False,
            "n_estimators": self.n_rounds,
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_child_samples": self.min_leaf,
            "reg_lambda": self.l2,
            "max_bin": 63,
            "random_state": seed,
            "verbosity": -1,
        }

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer("min_leaf", self.min_leaf, low=1)


class _DaskRows:
    """Shuffled rows in the memory of the workers, one part on each."""

    def __init__(self, client: Any, frame: Any, plan: Plan, model: DaskBoosted) -> None:
        self.client, self.frame, self.plan, self.model = client, frame, plan, model
        self.table, self.weighted = plan.table, plan.weight is not None
        self.parts: list[Any] = []

    def load(self) -> None:
        workers = sorted(worker_addresses(self.client))
        if not workers:
            raise ClusterError("the Dask cluster has no workers: start some first.")
        plan, submit = self.plan, self.client.submit
        wanted = dict.fromkeys([*plan.columns, plan.label, plan.key, plan.weight])
        frame = self.frame[[name for name in wanted if name is not None]]
        partitions = self.client.compute(frame.to_delayed())
        pieces = [submit(tasks.pieces, plan, part, len(workers), pure=False) for part in partitions]
        for k, worker in enumerate(workers):
            own = [submit(operator.getitem, piece, k, pure=False) for piece in pieces]
            place = {"workers": [worker], "allow_other_workers": True}
            self.parts.append(submit(tasks.join, own, pure=False, **place))

    def totals(self, folds: int) -> tuple[IntArray, FloatArray]:
        found = self.client.gather(
            [self.client.submit(tasks.totals, part, folds) for part in self.parts]
        )
        self.sizes = np.array([counts for counts, _ in found])
        return self.sizes.sum(axis=0), np.sum([mass for _, mass in found], axis=0)

    def train(self, without: int, mass: tuple[float, float]) -> Trees:
        require("lightgbm", extra="dask", for_="DaskBoosted")
        categories = self.table.categories
        settings = self.model.settings(self.plan.salt) | category_settings(categories)
        error = None
        for _ in range(ATTEMPTS):
            places, arrays = self._train_blocks(without, mass)
            if all(places):
                attempt = TreeTraining(self.client, places, settings, list(categories))
                text = attempt.run(*arrays)
                if text is not None:
                    return Trees.from_lightgbm(text, self.table.width)
                error = attempt.outcome.get("error")
        raise ClusterError(
            f"LightGBM failed in each of {ATTEMPTS} attempts on the Dask cluster: "
            f"{error or 'workers were lost'}. Check the memory limits of the workers."
        ) from error

    def _train_blocks(self, without: int, mass: tuple[float, float]) -> tuple[list[str], list[Any]]:
        """Workers of all parts that have rows to train on; their rows, flags and weights as Dask arrays."""
        array = require("dask.array", extra="dask", for_="DaskBoosted")
        delayed = require("dask", extra="dask", for_="DaskBoosted").delayed
        seen = np.delete(self.sizes, without, axis=1).sum(axis=(1, 2))
        used = [(part, int(n)) for part, n in zip(self.parts, seen, strict=True) if n]
        # The parts of a lost worker are made again before the dtypes of all parts are known.
        dtype_of = operator.attrgetter("rows.dtype")
        dtypes = self.client.gather(
            [self.client.submit(dtype_of, part, pure=False) for part, _ in used]
        )
        held = self.client.who_has([part for part, _ in used])
        makers: list[tuple[Any, tuple[int, ...], Any]] = [
            (tasks.train_rows, (self.table.width,), dtypes[0]),
            (tasks.train_flags, (), np.float64),
            (tasks.train_weights, (), np.float64),
        ]
        return [next(iter(held[part.key]), "") for part, _ in used], [
            array.concatenate(
                [
                    array.from_delayed(delayed(make)(part, without, mass), (n, *tail), dtype=dtype)
                    for part, n in used
                ]
            )
            for make, tail, dtype in makers
        ]

    def positive_scores(
        self, function: BoostedFunction, fold: int, most: int
    ) -> tuple[FloatArray, FloatArray]:
        shared = self.client.scatter(function, broadcast=True, hash=False)
        held = max(1, int(self.sizes[:, fold, 1].sum()))
        found = self.client.gather(
            [
                self.client.submit(
                    tasks.positive_scores, part, shared, fold, most / held, self.plan.salt + k
                )
                for k, part in enumerate(self.parts)
            ]
        )
        return np.concatenate([s for s, _ in found]), np.concatenate([w for _, w in found])

    def count(self, function: BoostedFunction, fold: int, empty: ScoreTails) -> ScoreTails:
        shared, levels = (
            self.client.scatter(one, broadcast=True, hash=False) for one in (function, empty)
        )
        counts = [
            self.client.submit(tasks.count, part, shared, fold, levels) for part in self.parts
        ]
        total: ScoreTails = tasks.in_tree(counts, partial(self.client.submit, tasks.add)).result()
        return total

    def quantiles(self) -> tuple[FloatArray, FloatArray]:
        found = self.client.gather(
            [self.client.submit(tasks.quantiles, part) for part in self.parts]
        )
        unlabeled, positive = (_mean_quantiles([part[kind] for part in found]) for kind in (0, 1))
        return unlabeled, positive

    def ranges(self, cells: list[Cells]) -> tuple[IntArray, IntArray]:
        found = self.client.gather(
            [self.client.submit(tasks.ranges, part, cells) for part in self.parts]
        )
        unlabeled, positive = (np.sum([part[kind] for part in found], axis=0) for kind in (0, 1))
        return unlabeled, positive


def _mean_quantiles(parts: list[tuple[int, FloatArray]]) -> FloatArray:
    """Mean of the quantiles of shuffled parts, weighted by their rows; parts without values are ignored."""
    values = np.array([found for _, found in parts])
    weight = np.where(np.isnan(values), 0.0, np.array([n for n, _ in parts])[:, None, None])
    with np.errstate(invalid="ignore"):
        return np.asarray((weight * np.nan_to_num(values)).sum(axis=0) / weight.sum(axis=0))
