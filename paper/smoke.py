"""Check that the torch loop is correct on this device, and measure its speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from drpu import NetworkRatio
from drpu.networks.function import NetworkFunction
from paper.networks import make_network
from paper.pooling import MaxPool2
from paper.stacks import Places, fit_many

__all__ = ["smoke"]

SHAPES = {"mlp": (1, 28, 28), "lenet": (1, 28, 28), "cifar": (3, 32, 32)}
AS_RUN: dict[str, Any] = {
    "generator": "lsif", "head": "relu", "optimizer": "adam", "weight_decay": 5e-3, "decay": "step",
    "ema": None, "early_stopping": False, "accumulate_gradients": True, "learning_rate": 2e-5, "alpha": 0.4,
}  # fmt: skip
PLAIN: dict[str, Any] = {
    "generator": "bkl",
    "early_stopping": False,
    "learning_rate": 1e-3,
    "alpha": 0.4,
    "weight_decay": 0.1,
}


def smoke(device: str, profile: bool = False) -> None:
    """Check the loop and print milliseconds per step."""
    torch.zeros(1, device="cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    for name in SHAPES:
        _check(name, device)
    _attempt("pooling", lambda: _pooling(device))
    cases = [("mlp", 10, "tf32"), ("lenet", 10, "tf32"), ("cifar", 1, "bfloat16"), ("cifar", 5, "bfloat16")]
    for name, models, dtype in cases:
        _attempt(f"time {name} x{models} {dtype}", lambda: _time(name, models, dtype, device))  # noqa: B023
    if profile:
        for name, models in (("mlp", 1), ("cifar", 1)):
            _attempt(f"profile {name}", lambda: _profile(name, models, device))  # noqa: B023


def _attempt(label: str, task: Callable[[], str]) -> None:
    try:
        print(f"{label}: {task()}", flush=True)
    except Exception as error:  # continue with the other measurements
        print(f"{label}: FAILED {type(error).__name__}: {error}", flush=True)


def _rows(name: str, n: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.random((n, *SHAPES[name]), dtype=np.float32)


def _fit_stack(
    name: str, seeds: Sequence[int], device: str, positive: Any, unlabeled: Any, **options: Any
) -> list[NetworkFunction]:
    """Networks with these seeds, trained together."""
    accumulate = options.pop("accumulate_gradients", False)
    learners = [NetworkRatio(make_network(name), random_state=i, device=device, **options) for i in seeds]
    rows = np.concatenate([positive, unlabeled])
    n = len(positive)
    places = [Places(np.arange(n), np.arange(n, len(rows)))] * len(learners)
    return fit_many(learners, rows, places, accumulate=accumulate)


def _check(name: str, device: str) -> None:
    """Compare stacked with single runs, recorded with plain runs, and reduced with full precision."""
    positive, unlabeled = _rows(name, 60, 1) * 0.8 + 0.1, _rows(name, 1200)
    x = _rows(name, 300, 2)
    small: dict[str, Any] = {"epochs": 3, "batch_size": 100}

    def fit(*seeds: int, where: str = device, **options: Any) -> Any:
        models = _fit_stack(name, seeds, where, positive, unlabeled, **(small | options))
        return np.stack([np.clip(model.ratio(x), 1e-3, None) for model in models])

    def compare(label: str, a: Any, b: Any) -> str:
        return f"{label} {np.linalg.norm(a - b) / np.linalg.norm(b):.1e}"

    def check() -> str:
        found = []
        for what, options in (("plain", PLAIN), ("as-run", AS_RUN)):
            stacked = fit(0, 1, 2, dtype="float32", **options)
            single = np.concatenate([fit(seed, dtype="float32", **options) for seed in range(3)])
            found.append(compare(f"{what}: stacked/single", stacked, single))
            started = fit(0, epochs=1, **options), fit(0, where="cpu", epochs=1, **options)
            found.append(compare("gpu/cpu start", *started))
            for dtype in ("tf32", "bfloat16"):
                found.append(compare(dtype, fit(0, 1, 2, dtype=dtype, **options), stacked))
        return ", ".join(found)

    _attempt(f"check {name}", check)


def _time(name: str, models: int, dtype: str, device: str) -> str:
    """Milliseconds per step, from the difference between a longer and a shorter run."""
    n_unlabeled, n_positive = (45_000, 2500) if name == "cifar" else (50_000, 2500)
    steps = n_unlabeled // 500
    positive, unlabeled = _rows(name, n_positive, 1), _rows(name, n_unlabeled)
    options = AS_RUN | {"dtype": dtype, "batch_size": 500}

    def seconds(epochs: int) -> float:
        start = time.perf_counter()
        _fit_stack(name, range(models), device, positive, unlabeled, epochs=epochs, **options)
        return time.perf_counter() - start

    few, many = 1, 1 + max(2, 600 // steps // models)
    seconds(1)  # the first run loads kernels
    first, second = seconds(few), seconds(many)
    recorded = (
        "" if not torch.cuda.is_available() else f", peak {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
    )
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    per_step = 1000 * (second - first) / ((many - few) * steps)
    return f"{per_step:.3f} ms a step, {per_step / models:.3f} a model, start {first:.2f} s{recorded}"


def _pooling(device: str) -> str:
    """Whether our pooling and torch's have the same outputs and gradients."""
    where = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
    x = torch.randn(7, 10, 9, 6, device=where).contiguous(memory_format=torch.channels_last)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    a, b = MaxPool2()(ours), torch.nn.functional.max_pool2d(theirs, 2)
    weight = torch.randn_like(a)
    for pooled in (a, b):
        torch.autograd.backward((pooled * weight).sum())
    assert ours.grad is not None
    assert theirs.grad is not None
    return f"equal {bool(torch.equal(a, b))}, gradients equal {bool(torch.equal(ours.grad, theirs.grad))}"


def _profile(name: str, models: int, device: str) -> str:
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    positive, unlabeled = _rows(name, 2500, 1), _rows(name, 45_000)
    dtype = "bfloat16" if name == "cifar" else "tf32"
    options = AS_RUN | {"dtype": dtype, "batch_size": 500, "epochs": 1}
    with record(activities=[ProfilerActivity.CUDA]) as seen:
        _fit_stack(name, range(models), device, positive, unlabeled, **options)
    totals = sorted(seen.key_averages(), key=lambda event: -event.self_device_time_total)[:24]
    return "\n" + "\n".join(
        f"{event.self_device_time_total / 1000:9.2f} ms {event.count:6d} x {event.key[:80]}"
        for event in totals
    )
