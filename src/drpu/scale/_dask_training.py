"""One run of LightGBM on the workers of a Dask cluster."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from drpu._optional import require
from drpu.exceptions import ClusterError

__all__ = ["TreeTraining", "one_at_a_time", "worker_addresses"]

LOCK = "drpu-lightgbm"  # concurrent fits would wait for each other's sockets forever
WATCH = 0.5  # seconds between two checks of the workers during training
STOP = 10  # seconds in which LightGBM's interface ends after its tasks were cancelled
PRIORITY = 10  # before the other tasks of a worker: LightGBM waits two minutes for all workers to start


@contextmanager
def one_at_a_time(client: Any) -> Iterator[None]:
    """Wait until no other fit, of any client, runs on the cluster; the turn of a lost client expires."""
    distributed = require("distributed", extra="dask", for_="DaskBoosted")
    turn = distributed.Semaphore(max_leases=1, name=LOCK, scheduler_rpc=client.scheduler, loop=client.loop)
    try:
        with turn:
            yield
    finally:
        turn.refresh_leases = False  # a turn that is granted after an interrupted wait expires


def worker_addresses(client: Any) -> set[str]:
    """Addresses of the workers that the scheduler knows now."""
    return set(client.scheduler_info(n_workers=-1)["workers"])


class TreeTraining:
    """One attempt to train trees, in a thread that can be given up when a worker is lost.

    ``places`` has the worker of each block of rows. Blocks are not moved, and their order is that of
    LightGBM's machines, so that equal blocks give equal trees.
    """

    def __init__(
        self, client: Any, places: list[str], settings: dict[str, Any], categories: list[int]
    ) -> None:
        self.client, self.started = client, _StartedTasks(client, places)
        self.settings, self.categories = settings, categories
        self.outcome: dict[str, Any] = {}

    def run(self, rows: Any, flags: Any, weight: Any) -> str | None:
        """Trees in LightGBM's text format, or None if a worker was lost."""
        before, lost = set(self.started.places), False
        thread = threading.Thread(target=self._grow, args=(rows, flags, weight), daemon=True)
        try:
            thread.start()
            while thread.is_alive() and not lost:
                thread.join(WATCH)
                lost = not before <= worker_addresses(self.client)
        finally:  # also after an interrupt: the tasks must not outlive the turn of this fit
            if "trees" not in self.outcome:
                self.started.cancel()
                thread.join(STOP)
        if "trees" in self.outcome:
            text: str = self.outcome["trees"].model_to_string()
            return text
        error = self.outcome.get("error")
        # The other workers see the broken connection before the scheduler notices the lost worker.
        if lost or "ocket" in str(error):
            return None
        raise ClusterError(f"LightGBM failed on the Dask cluster: {error}") from error

    def _grow(self, rows: Any, flags: Any, weight: Any) -> None:
        client: Any = self.started
        try:
            from lightgbm.dask import DaskLGBMRegressor

            # A regressor, because the classifier requires both labels on each worker.
            grower = DaskLGBMRegressor(client=client, time_out=2, **self.settings)
            with self.client.as_current(), warnings.catch_warnings():
                # LightGBM warns about parameters that it sets itself.
                warnings.filterwarnings("ignore", "Parameter .* will be ignored")
                warnings.filterwarnings("ignore", "categorical_feature in param dict")
                grower.fit(rows, flags, sample_weight=weight, categorical_feature=self.categories or "auto")
                self.outcome["trees"] = grower.booster_
        except BaseException as error:  # the caller finds out whether a worker was lost
            self.outcome["error"] = error


class _StartedTasks:
    """The client that LightGBM uses: its tasks can be cancelled without those of others."""

    def __init__(self, client: Any, places: list[str]) -> None:
        self.client, self.places = client, places
        self.futures: list[Any] = []
        self.stopped = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def compute(self, blocks: list[Any]) -> list[Any]:
        """Blocks of rows, each on its worker."""
        placed = zip(blocks, self.places, strict=True)
        return self._keep([self.client.compute(block, workers=[worker]) for block, worker in placed])

    def submit(self, *args: Any, **options: Any) -> Any:
        return self._keep([self.client.submit(*args, priority=PRIORITY, **options)])[0]

    def who_has(self, futures: list[Any]) -> dict[str, Any]:
        """Workers of the futures, in the order of the futures, in which LightGBM numbers its machines."""
        found = self.client.who_has(futures)
        return {future.key: found[future.key] for future in futures}

    def cancel(self) -> None:
        """Cancel the tasks started so far, and those that are started later."""
        self.stopped = True
        self.client.cancel(self.futures)

    def _keep(self, futures: list[Any]) -> list[Any]:
        self.futures += futures
        if self.stopped:
            self.cancel()
        return futures
