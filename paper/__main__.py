"""``python -m paper``: run, tables, figures, page."""

from __future__ import annotations

import argparse
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from drpu.exceptions import DRPUError
from paper.configs import AUGMENTED, DATASETS, FLAVOURS, METHODS
from paper.km2 import run_km2
from paper.run import Options, plan, run
from paper.store import RESULTS
from paper.strategies import STRATEGIES

EXPERIMENTS = ("synthetic", "benchmark", "n_positive", "no_shift")
OF_EXPERIMENT: dict[str, dict[str, Sequence[str]]] = {  # experiments without all methods
    "synthetic": {"flavours": FLAVOURS[:3]},
    "n_positive": {"datasets": ["mnist", "cifar10"], "methods": ["drpu", "nnpu"], "flavours": FLAVOURS[:3]},
    "no_shift": {"datasets": ["cifar10"], "methods": ["drpu"], "flavours": ["beyond"]},
}
OF_FIGURE = {1: "synthetic", 2: "benchmark", 3: "n_positive"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command in ``arguments``, or in ``sys.argv``."""
    chosen = _parser().parse_args(arguments)
    try:
        _do(chosen)
    except DRPUError as error:
        raise SystemExit(f"error: {error}") from error
    if getattr(chosen, "pack", None):
        _pack(chosen.out, chosen.pack)


def _do(chosen: argparse.Namespace) -> None:
    match chosen.command:
        case "run":
            _run(chosen)
        case "km2":
            _km2(chosen, chosen.dataset or list(DATASETS), chosen.jobs)
        case "select":
            from paper.select import select

            select(chosen.dataset or ["mnist", "fashion_mnist", "cifar10"], _options(chosen))
        case "compare":
            from paper.compare import compare

            compare(chosen.dataset or list(DATASETS), _options(chosen))
        case "choose":
            from paper.augmented import FIRST, compare_candidates

            first = FIRST + chosen.first  # no table has these trials
            trials = range(first, first + chosen.trials)
            for experiment in chosen.experiment or ["benchmark"]:
                own = OF_EXPERIMENT.get(experiment, {})
                flavours = chosen.flavour or own.get("flavours", AUGMENTED)
                datasets = chosen.dataset or own.get("datasets", list(DATASETS))
                compare_candidates(flavours, datasets, trials, _options(chosen), experiment)
        case "tables":
            from paper.tables import write_tables

            write_tables(chosen.out, chosen.to)
        case "figures":
            from paper.figures import write_figures

            write_figures(chosen.out, chosen.to)
        case _:
            from paper.page import write_page

            write_page(chosen.out, chosen.to)


def _run(chosen: argparse.Namespace) -> None:
    options = _options(chosen)
    experiments = _experiments(chosen)
    trials = range(chosen.first, chosen.first + chosen.trials)
    if "synthetic" in experiments:
        from paper.synthetic import run_synthetic

        flavours = chosen.flavour or OF_EXPERIMENT["synthetic"]["flavours"]
        run_synthetic(flavours, trials, options.out)
    deep = [experiment for experiment in experiments if experiment != "synthetic"]
    for experiment in deep:
        own = OF_EXPERIMENT.get(experiment, {})
        datasets = chosen.dataset or own.get("datasets", list(DATASETS))
        methods = chosen.method or own.get("methods", METHODS)
        flavours = chosen.flavour or own.get("flavours", FLAVOURS)
        published = set(flavours) & {"as-run", "as-written"}
        if experiment == "benchmark" and {"nnpu", "pua"} & set(methods) and published:
            _km2(chosen, datasets, os.cpu_count() or 1)
        run(plan([experiment], datasets, flavours, methods, trials, options, labels=chosen.labels), options)


def _km2(chosen: argparse.Namespace, datasets: Sequence[str], jobs: int) -> None:
    trials = range(chosen.first, chosen.first + chosen.trials)
    run_km2(datasets, trials, chosen.data, chosen.out, jobs, labels=chosen.labels)


def _experiments(chosen: argparse.Namespace) -> list[str]:
    asked = set(chosen.experiment or [])
    asked |= {"benchmark"} if chosen.table else set()
    asked |= {OF_FIGURE[figure] for figure in chosen.figure or []}
    return [experiment for experiment in EXPERIMENTS if experiment in asked or not asked]


def _options(chosen: argparse.Namespace) -> Options:
    return Options(
        data=chosen.data,
        out=chosen.out,
        device=chosen.device,
        stack=chosen.stack,
        epochs=chosen.epochs,
        strategy=chosen.strategy,
        candidates=chosen.candidates or (),
        verbose=chosen.verbose,
        shared=chosen.shared,
    )


def _count(text: str) -> int:
    """A whole number of at least 1."""
    return _number(text, least=1)


def _number(text: str, least: int = 0) -> int:
    """A whole number."""
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return int(text)


def _pack(folder: Path, target: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(folder.glob("*.json*")):
            archive.add(path, arcname=path.name)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("run", "select", "compare", "choose", "km2"):
        command = commands.add_parser(name)
        _add_run_options(command)
        if name == "km2":
            command.add_argument("--jobs", type=_count, default=1, help="processes")
    for name, place in (("tables", "tables"), ("figures", "figures"), ("page", "../docs/paper.md")):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, default=RESULTS, help="folder of the result files")
        command.add_argument("--to", type=Path, default=Path(__file__).parent / place)
    return parser


def _add_run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--experiment", nargs="+", choices=EXPERIMENTS)
    command.add_argument("--table", nargs="+", type=int, choices=(2, 3, 4))
    command.add_argument("--figure", nargs="+", type=int, choices=(1, 2, 3))
    command.add_argument("--dataset", nargs="+", choices=list(DATASETS))
    command.add_argument("--flavour", nargs="+", choices=FLAVOURS)
    command.add_argument("--method", nargs="+", choices=METHODS)
    command.add_argument("--labels", choices=("shirt", "bag"), default="shirt", help="of Fashion-MNIST")
    command.add_argument("--trials", type=_count, default=10)
    command.add_argument("--first", type=_number, default=0, help="first trial; choose counts from 100")
    command.add_argument("--device", default="auto")
    command.add_argument("--data", default=os.environ.get("DRPU_DATA"), help="folder with NAME.npz")
    command.add_argument("--out", type=Path, default=RESULTS, help="folder for the result files")
    command.add_argument("--stack", type=_count, default=10, help="trials trained together")
    command.add_argument("--epochs", type=_count, help="replaces the epochs of the recipe, for a trial run")
    command.add_argument("--strategy", choices=list(STRATEGIES), help="replaces the strategy of ours")
    command.add_argument("--candidates", nargs="+", help="of choose: only these, by name")
    command.add_argument("--pack", type=Path, help="a .tar.gz file to write all result files to")
    command.add_argument("--shared", action="store_true", help="other work uses the device: record no times")
    command.add_argument("--verbose", type=_number, default=1, help="0 hides the progress bars of epochs")


if __name__ == "__main__":
    main()
