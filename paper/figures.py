"""Figures 1 to 3, drawn from result files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drpu import make_gaussian_pu
from paper.configs import DATASETS, FLAVOURS, N_POSITIVE, TEST_PRIORS
from paper.store import RESULTS, read_results
from paper.synthetic import SETTINGS
from paper.tables import NAMES

__all__ = ["write_figures"]

COLOURS = {"nnpu": "tab:blue", "pua": "tab:green", "vpu": "tab:orange", "drpu": "tab:red", "upu": "tab:blue"}
STYLES = {"as-run": "-", "as-written": ":", "ours": "--", "ours-augmented": "-.", "beyond": "-."}


KINDS: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 150}}


def write_figures(
    folder: Path = RESULTS, to: Path | None = None, *, prefix: str = "", kinds: Sequence[str] = tuple(KINDS)
) -> list[Path]:
    """Draw the figures that the results allow; one without results is left out."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "drpu"  # the same results give the same file
    results = read_results(folder)
    target = to or folder.parent / "figures"
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, draw in (("figure1", _boundaries), ("figure2", _curves), ("figure3", _numbers)):
        figure = draw(results)
        if figure is None:
            continue
        for kind in kinds:
            path = target / f"{prefix}{name}.{kind}"
            figure.savefig(path, bbox_inches="tight", **KINDS[kind])
            written.append(path)
        plt.close(figure)
    return written


def _boundaries(results: Sequence[dict[str, Any]]) -> Any:
    """Lines of uPU and DRPU over the scaled class densities, with their standard deviations."""
    import matplotlib.pyplot as plt

    found = [r for r in results if r["experiment"] == "synthetic"]
    if not found:
        return None
    flavours = [f for f in FLAVOURS if any(r["flavour"] == f for r in found)]
    size = 9, 2.7 * len(flavours)
    figure, axes = plt.subplots(len(flavours), len(SETTINGS), figsize=size, squeeze=False, sharex=True)
    for row, flavour in zip(axes, flavours, strict=True):
        for axis, name in zip(row, SETTINGS, strict=True):
            own = [r for r in found if (r["dataset"], r["flavour"]) == (name, flavour)]
            if own:
                _boundary_panel(axis, name, flavour, own)
    figure.tight_layout()
    return figure


def _boundary_panel(axis: Any, name: str, flavour: str, own: Sequence[dict[str, Any]]) -> None:
    x = np.linspace(-4, 4, 400)
    prior = own[0]["tests"][0]["test_prior"]
    overlap = make_gaussian_pu(10, 10, setting=SETTINGS[name], random_state=0).classes.overlap
    normal = np.exp(-((x[:, None] - [1, -1]) ** 2) / 2) / np.sqrt(2 * np.pi)
    positive, negative = (normal @ [[1 - overlap, overlap], [overlap, 1 - overlap]]).T
    axis.plot(x, prior * positive, color="tab:red", lw=1, label="positive")
    axis.plot(x, (1 - prior) * negative, color="tab:blue", lw=1, label="negative")
    axis.axvline(own[0]["oracle"], color="black", lw=1, label="oracle")
    for method in ("upu", "drpu"):
        lines = [r["boundary"] for r in own if r["method"] == method and r["boundary"] is not None]
        if lines:
            mean, spread = np.mean(lines), np.std(lines)
            axis.axvline(mean, ls="--", color=COLOURS[method], label=NAMES[method])
            axis.axvspan(mean - spread, mean + spread, color=COLOURS[method], alpha=0.15)
    axis.set_title(f"{name}, test prior {prior:g}, {flavour}", fontsize=9)
    axis.legend(fontsize=6)


def _curves(results: Sequence[dict[str, Any]]) -> Any:
    """Classification error by epoch, one panel for each data set and test prior."""
    import matplotlib.pyplot as plt

    found = [r for r in results if r["experiment"] == "benchmark" and r.get("curve")]
    datasets = [d for d in DATASETS if any(r["dataset"] == d for r in found)]
    if not datasets:
        return None
    figure, axes = plt.subplots(
        len(datasets), len(TEST_PRIORS), figsize=(12, 2.4 * len(datasets)), squeeze=False, sharex="row"
    )
    for row, dataset in zip(axes, datasets, strict=True):
        groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for result in found:
            if result["dataset"] == dataset and result["labels"] == DATASETS[dataset].labels:
                groups.setdefault((result["method"], result["flavour"]), []).append(result)
        for i, (axis, prior) in enumerate(zip(row, TEST_PRIORS, strict=True)):
            for (method, flavour), trials in sorted(groups.items()):
                epochs = [point["epoch"] for point in trials[0]["curve"]]
                errors = np.array([[point["errors"][i] for point in r["curve"]] for r in trials])
                mean, spread = errors.mean(0), errors.std(0)
                style = {"color": COLOURS[method], "ls": STYLES[flavour]}
                axis.plot(epochs, mean, label=f"{NAMES[method]}, {flavour}", lw=1, **style)
                axis.fill_between(epochs, mean - spread, mean + spread, color=COLOURS[method], alpha=0.12)
            axis.set_title(f"{NAMES[dataset]}, test prior {prior:g}", fontsize=8)
            axis.tick_params(labelsize=7)
        row[0].set_ylabel("error")
        row[-1].legend(fontsize=6)
    figure.tight_layout()
    return figure


def _numbers(results: Sequence[dict[str, Any]]) -> Any:
    """Error against the number of labelled positives, with the prior known."""
    import matplotlib.pyplot as plt

    found = [r for r in results if r["experiment"] == "n_positive"]
    datasets = [d for d in DATASETS if any(r["dataset"] == d for r in found)]
    if not datasets:
        return None
    figure, axes = plt.subplots(1, len(datasets), figsize=(4.5 * len(datasets), 3), squeeze=False)
    for axis, dataset in zip(axes[0], datasets, strict=True):
        pairs = sorted({(r["method"], r["flavour"]) for r in found if r["dataset"] == dataset})
        for method, flavour in pairs:
            own = [
                r for r in found if (r["dataset"], r["method"], r["flavour"]) == (dataset, method, flavour)
            ]
            errors = [
                [1 - r["tests"][0]["accuracy"] for r in own if r["n_positive"] == n] for n in N_POSITIVE
            ]
            sizes = [n for n, values in zip(N_POSITIVE, errors, strict=True) if values]
            kept = [values for values in errors if values]
            axis.errorbar(
                sizes,
                [np.mean(v) for v in kept],
                [np.std(v) for v in kept],
                color=COLOURS[method],
                ls=STYLES[flavour],
                capsize=2,
                label=f"{NAMES[method]}, {flavour}",
            )
        axis.set_xlabel("labelled positives")
        axis.set_ylabel("error")
        axis.set_title(NAMES[dataset])
        axis.legend(fontsize=8)
    figure.tight_layout()
    return figure
