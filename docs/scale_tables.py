"""Tables of ``benchmarks/results/scale.json``, for :mod:`docs.results`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

Source = dict[str, Any]
Table = Callable[[list[str], list[list[str]], Source], str]

NAMES = {
    "auto": "default",
    "boosted": "`boosted`",
    "before": "plain average",
    "lightgbm": "LightGBM",
    "classifier": '`"classifier"`',
}
WAYS = {"whole": "`adapt(read_table(...))`", "batches": "`adapt(count_batches(...))`"}

ENGINES = {"files": "Parquet files in batches", "dask": "Dask", "spark": "Spark"}


def tables(read: Callable[[str], Source], table: Table) -> dict[str, Callable[[], str]]:
    """The functions that write the tables, by the names of their marks."""
    makers = {
        "scale": ("files", files),
        "scale_auc": ("dense", auc),
        "scale_cost": ("engines", cost),
        "scale_fits": ("dense", fits),
        "scale_growth": ("dense", growth),
        "scale_largest": ("largest", largest),
        "scale_prior": ("dense", prior),
        "scale_sparse": ("sparse", sparse),
        "scale_text": ("text", text),
    }

    def write(part: str, maker: Callable[[Source], tuple[list[str], list[list[str]]]]) -> str:
        source = read("scale")
        run = source["runs"][part]
        text = table(*maker(source), source | run).rstrip()
        real = source["runs"].get("tables", run)  # may have been measured elsewhere
        others = (
            f" Real tables: {real['machine']}."
            if part == "dense" and real["machine"] != run["machine"]
            else ""
        )
        return f"{text} Machine: {run['machine']}.{others} {run.get('note', '')}".rstrip() + "\n"

    return {name: partial(write, *how) for name, how in makers.items()}


def files(source: Source) -> tuple[list[str], list[list[str]]]:
    """A file read completely and in batches."""
    lines = [
        [
            WAYS[one["way"]],
            f"{one['seconds']:.1f} s",
            f"{one['above_empty_mebibytes']:.0f} MiB",
            f"{one['prior']:.4f}",
        ]
        for one in source["ways"]
    ]
    return ["", "time", "memory", "estimated prior"], lines


def text(source: Source) -> tuple[list[str], list[list[str]]]:
    """Commands that read a CSV file in batches."""
    lines = []
    for one in source["text_ways"]:
        memory = one["above_few_mebibytes"]
        of_row = f"{memory * 2**20 / source['text_rows']:.0f} bytes"
        lines.append([f"`{one['way']}`", f"{one['seconds']:.0f} s", f"{memory:,.0f} MiB", of_row])
    size = f"{source['text_rows']:,} rows, {source['text_mebibytes']:,.0f} MiB of CSV"
    return [size, "processor time", "memory above that for 1,000 rows", "of a row"], lines


def _by_model(case: Source) -> dict[str, Source]:
    return {fit["model"]: fit for fit in case["fits"]}


def auc(source: Source) -> tuple[list[str], list[list[str]]]:
    """Mean AUC of the default, of the best of its members, and of other fits of the same rows."""
    lines = []
    for case in [*source["dense"], *source.get("tables", [])]:
        fits = _by_model(case)
        members: list[dict[str, float]] = fits["auto"].get("members", [])
        best = [max(one.values()) for one in members if one]
        row = [case["name"].replace("_", " "), f"{case['rows']:,.0f}", f"{fits['auto']['auc']:.4f}"]
        row.append(f"{sum(best) / len(best):.4f}" if len(best) == fits["auto"]["draws"] else "")
        row += [f"{fits[m]['auc']:.4f}" if m in fits else "" for m in ("boosted", "before", "lightgbm")]
        lines.append([*row, str(fits["auto"]["draws"])])
    head = [
        "rows from",
        "rows",
        "default",
        "its best member",
        "`boosted`",
        "plain average",
        "LightGBM",
        "draws",
    ]
    return head, lines


def prior(source: Source) -> tuple[list[str], list[list[str]]]:
    """Mean error of the training prior, which includes its bias."""
    models = ("auto", "boosted")
    lines = []
    for case in [*source["dense"], *source.get("tables", [])]:
        found = _by_model(case)
        errors = [found[model]["prior_errors"] if model in found else [] for model in models]
        means = [f"{sum(some) / len(some):+.3f}" if some else "" for some in errors]
        lines.append([case["name"].replace("_", " "), f"{case['rows']:,.0f}", *means])
    return ["rows from", "rows", *(NAMES[model] for model in models)], lines


def fits(source: Source) -> tuple[list[str], list[list[str]]]:
    """Cost of fits and of predictions, beside one LightGBM fit with as many rounds."""
    lines = []
    for case in [*source["dense"], *source.get("tables", [])]:
        found = _by_model(case)
        if "lightgbm" not in found:
            continue
        default, reference = found["auto"], found["lightgbm"]
        lines.append(
            [
                case["name"].replace("_", " "),
                f"{case['rows']:,.0f}",
                f"{default['seconds']:.1f} s",
                *(
                    f"{found[m]['seconds'] / reference['seconds']:.1f}" if m in found else ""
                    for m in ("auto", "boosted", "before")
                ),
                f"{default['copies']:.1f}",
                f"{default['predict_microseconds'] / reference['predict_microseconds']:.1f}",
                f"{default['single_row_milliseconds']:.2f} ms",
            ]
        )
    head = [
        "rows from",
        "rows",
        "fit of the default",
        "times LightGBM",
        "`boosted`, times LightGBM",
        "plain average, times LightGBM",
        "memory, copies of the rows",
        "a row of many, times LightGBM",
        "a row alone",
    ]
    return head, lines


def growth(source: Source) -> tuple[list[str], list[list[str]]]:
    """Growth exponents of the seconds of a fit, and of the seconds of a round."""
    cases = [case for case in source["dense"] if case["name"] == source["dense"][0]["name"]]
    ends = [_by_model(case) for case in sorted(cases, key=lambda case: case["rows"])[-2:]]
    sizes = [case["rows"] for case in sorted(cases, key=lambda case: case["rows"])[-2:]]
    lines = []
    for name, value in source["exponents"].items():
        row = [NAMES[name], f"{value:.2f}", ""]
        if name in ("boosted", "lightgbm"):
            first, last = (end[name]["seconds"] / end[name]["rounds"] for end in ends)
            row[-1] = f"{math.log(last / first) / math.log(sizes[1] / sizes[0]):.2f}"
        lines.append(row)
    return ["model", f"fit, from {sizes[0]:,} to {sizes[1]:,} rows", "one round"], lines


def largest(source: Source) -> tuple[list[str], list[list[str]]]:
    """The largest fit in memory, and a fit with two threads."""
    lines = []
    for case in source["largest"]:
        fit = case["fits"][0]
        gibibytes = case["rows"] * source["columns"] * 4 / 2**30
        lines = [
            ["rows and columns, float32", f"{case['rows']:,.0f} x {source['columns']}"],
            ["their size", f"{gibibytes:.1f} GiB"],
            ["peak memory of the process", f"{fit['peak_mebibytes'] / 1024:.1f} GiB"],
            ["processor time", f"{fit['seconds'] / 60:.0f} minutes"],
            ["AUC", f"{fit['auc']:.4f}"],
        ]
    jobs = source["jobs"]
    lines.append(
        [f"`n_jobs=2` over `n_jobs=1`, time of {jobs['rows']:,} rows", f"{jobs['two'] / jobs['one']:.2f}"]
    )
    return ["", ""], lines


def sparse(source: Source) -> tuple[list[str], list[list[str]]]:
    """Fits of sparse text."""
    lines = [
        [
            NAMES[fit["model"]],
            f"{fit['rows']:,}",
            f"{fit['columns']:,}",
            f"{fit['seconds']:.1f} s",
            f"{fit['auc']:.4f}",
        ]
        for fit in source["sparse"]
    ]
    return ["model", "rows", "columns", "fit", "AUC"], lines


ROUNDS, LEAVES, BINS = 200, 31, 63  # the defaults of DaskBoosted


def cost(source: Source) -> tuple[list[str], list[list[str]]]:
    """Seconds of a worker for a million rows by the slope between the fewest and the most rows, and bytes."""
    lines = []
    for engine, name in ENGINES.items():
        runs = [run for run in source["engines"] if run["engine"] == engine]
        runs.sort(key=lambda run: run["rows"])
        if len(runs) < 2:
            continue
        fitted = [run for run in runs if run["rows"] <= source["engine_fit_rows"]]
        last = runs[-1]
        row = [name, f"{runs[0]['rows']:.0e} to {last['rows']:.0e}"]
        if engine == "files":  # the fit reads a sample, whose size does not depend on the rows
            row += [f"{last['fit_seconds']:.0f} s for any number", f"{source['engine_sample']:.0e}", ""]
        else:
            row += [f"{_slope(fitted, 'fit_seconds'):.1f} s", f"{fitted[-1]['rows']:.0e}"]
            row.append(f"{1e9 * last['row_bytes'] / 2**30:.0f} GiB" if "row_bytes" in last else "")
        seconds = [_slope(runs, "count_seconds"), _slope(runs, "score_seconds")]
        row += [f"{each:.1f} s" for each in seconds]
        row += [f"{1000 * each / 3600:.1f} h" for each in seconds]
        row += [f"{last['state_bytes'] / 2**20:.1f} MiB", f"{last['count_bytes'] / 2**10:.0f} KiB"]
        lines.append([*row, f"{last['peak_mebibytes']:,.0f} MiB"])
    head = [
        "",
        "rows measured",
        "fit, 10^6 rows",
        "largest fit",
        "moved by a fit, 10^9 rows",
        "count, 10^6 rows",
        "score, 10^6 rows",
        "count, 10^9 rows",
        "score, 10^9 rows",
        "sent to a worker",
        "counts of a part",
        "peak of the driver",
    ]
    return head, lines


def _slope(runs: list[Source], step: str) -> float:
    """Seconds for a million more rows."""
    more = runs[-1]["rows"] - runs[0]["rows"]
    return float(1e6 * (runs[-1][step] - runs[0][step]) / more)
