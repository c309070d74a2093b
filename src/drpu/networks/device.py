"""Device, precision and random numbers of a training run."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from drpu._checks import check_choice
from drpu.exceptions import ParameterError

PRECISIONS = ("float32", "tf32", "bfloat16", "float64")
WARM_UP = 3  # ordinary steps before recording, in which libraries choose their kernels

Step = Callable[[Tensor, Tensor], None]


def pick_device(device: Any) -> torch.device:
    """The device; ``auto`` is the GPU if torch finds one."""
    if isinstance(device, str) and device == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        return torch.device(name)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ParameterError(
            f"device must be 'auto' or a device that torch can use here, got {device!r}: {error}"
        ) from error


def weight_dtype(dtype: str) -> torch.dtype:
    """The type of the weights; the fast types only apply to products."""
    if check_choice("dtype", dtype, PRECISIONS) == "float64":
        return torch.float64
    return torch.float32


_SETTINGS = threading.RLock()  # for what torch has once for all threads


@contextmanager
def precision(dtype: str, device: torch.device) -> Iterator[None]:
    """Context in which matrix products and convolutions have the precision ``dtype`` on a GPU.

    On a CPU they have that of the weights: some processors report instructions for other types that
    end the process when they are used.
    """
    if device.type != "cuda":
        yield
        return
    as_bfloat16 = torch.autocast(
        "cuda", torch.bfloat16, enabled=dtype == "bfloat16", cache_enabled=False
    )
    with _SETTINGS, as_bfloat16:
        cudnn = torch.backends.cudnn
        products_before = torch.get_float32_matmul_precision()
        tf32_before = cudnn.allow_tf32
        benchmark_before = cudnn.benchmark
        if dtype == "tf32":
            torch.set_float32_matmul_precision("high")
        cudnn.allow_tf32 = dtype == "tf32"
        # shapes do not change within a run, so benchmarking all algorithms once is worthwhile
        cudnn.benchmark = True
        try:
            yield
        finally:
            cudnn.allow_tf32 = tf32_before
            cudnn.benchmark = benchmark_before
            torch.set_float32_matmul_precision(products_before)


@contextmanager
def private_random(seed: int, device: torch.device) -> Iterator[None]:
    """Context in which the global generators of torch are seeded; they are restored afterwards.

    One thread at a time is inside: fits in other threads would draw from the same generators.
    """
    gpus = [device] if device.type == "cuda" else []
    with _SETTINGS, torch.random.fork_rng(devices=gpus):
        torch.manual_seed(seed)
        yield


class Recorded:
    """A training step, recorded as a CUDA graph for each batch shape and replayed.

    The first few calls of a shape are ordinary steps. The recorded step reads positions from
    its own tensors and changes tensors in place. Without a GPU, or if a module cannot be
    recorded, all steps are ordinary.
    """

    def __init__(self, step: Step, device: torch.device) -> None:
        self.step = step
        self.device = device
        self.enabled = device.type == "cuda"
        self.calls: Counter[tuple[int, int]] = Counter()
        self.graphs: dict[tuple[int, int], tuple[Any, Tensor, Tensor]] = {}
        self.side: torch.cuda.Stream | None = None
        if self.enabled:
            self.side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, positive: Tensor, unlabeled: Tensor) -> None:
        """Make one step on the batch at these positions."""
        shape = (positive.shape[1], unlabeled.shape[1])
        self.calls[shape] += 1
        if self.enabled and self.calls[shape] == WARM_UP + 1:
            self._record(shape, positive, unlabeled)
        if shape not in self.graphs:
            self._plain(positive, unlabeled)
            return
        graph, static_positive, static_unlabeled = self.graphs[shape]
        static_positive.copy_(positive)
        static_unlabeled.copy_(unlabeled)
        graph.replay()

    def _plain(self, positive: Tensor, unlabeled: Tensor) -> None:
        if self.side is None:
            self.step(positive, unlabeled)
            return
        # libraries must be initialised outside the main stream before recording
        self.side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.side):
            self.step(positive, unlabeled)
        torch.cuda.current_stream(self.device).wait_stream(self.side)

    def _record(self, shape: tuple[int, int], positive: Tensor, unlabeled: Tensor) -> None:
        static_positive = positive.clone()
        static_unlabeled = unlabeled.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self.step(static_positive, static_unlabeled)
        except RuntimeError:
            # a module that synchronises with the host can be trained, but not recorded
            torch.cuda.synchronize(self.device)
            self.enabled = False
            self.graphs.clear()
        else:
            self.graphs[shape] = (graph, static_positive, static_unlabeled)
