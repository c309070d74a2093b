"""Insert tables from the result files of ``benchmarks/``: a hook of mkdocs.

``<!-- results: NAME -->`` on a page is replaced by the table NAME.
"""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MARK = re.compile(r"<!-- results: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with tables in place of the marks."""
    return MARK.sub(lambda mark: TABLES[mark[1]](), markdown)


def _read(name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return record


def _table(head: list[str], lines: list[list[str]], source: dict[str, Any]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{text}\n\nWritten by `{source['command']}` with {versions}.\n"


def _neighbour(name: str) -> Any:
    """The module of a file beside this one; hooks are not part of a package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shift() -> str:
    """Accuracy under prior shift."""
    source = _read("shift")
    lines = []
    for name, part in source["sets"].items():
        s = part["summary"]
        lines.append(
            [
                name.replace("_", " "),
                f"{s['accuracy_as_trained']:.1%}",
                f"{s['accuracy']:.1%} ± {s['accuracy_standard_error']:.1%}",
                f"{s['accuracy_priors_known']:.1%}",
                f"{s['test_prior_error']:.3f}",
                f"{s['test_prior_coverage']:.0%}",
            ]
        )
    head = [
        "data",
        "as trained",
        "adapted",
        "both priors known",
        "error of the new prior",
        "coverage of its interval",
    ]
    return _table(head, lines, source)


def intervals() -> str:
    """Coverage of the limits of priors."""
    source = _read("intervals")
    lines = [
        [
            row["kind"],
            f"{row['level']:.0%}",
            str(row["cells"]),
            f"{row['high_covers_prior']:.1%}",
            f"{row['covers_visible']:.1%}",
            f"{row['covers_prior']:.1%}",
            f"{row['mean_width']:.2f}",
        ]
        for row in source["summary"]
    ]
    head = [
        "prior of",
        "level",
        "settings",
        "`high` is valid",
        "identified prior covered",
        "prior covered",
        "mean width",
    ]
    return _table(head, lines, source)


def network() -> str:
    """Seconds per epoch of the loop of drpu and of a simple one."""
    source = _read("network")
    names = {
        "plain_nnpu": "nnPU, simple loop",
        "nnpu": "nnPU, drpu",
        "plain_ratio": "density ratio, simple loop",
        "ratio": "density ratio, drpu",
        "products": "matrix products only",
    }
    lines = [
        [
            f"{case} ({part['rows']}, {part['n_unlabeled']} unlabeled)",
            label,
            f"{part['seconds'][name]:.3f}",
            f"{part['cpu_seconds'][name]:.3f}",
            f"{part['faster'][name]:.1f}" if name in part["faster"] else "",
        ]
        for case, part in source["cases"].items()
        for name, label in names.items()
    ]
    head = ["network", "loop", "seconds", "processor seconds", "speed relative to the simple loop"]
    run = f"Threads: {source['threads']}; load average at the start: {source['load']:.1f}."
    return f"{_table(head, lines, source)}\n{run}\n"


def predict() -> str:
    """Costs of a row beside LightGBM, at sizes with ten folds, five folds and one split."""
    source = _read("predict")
    lines = [
        [
            f"{one['rows']:,}",
            f"{one['positives']:,}",
            str(one["folds"]),
            f"{one['many_ratio_averaged']:.1f}",
            f"{one['many_ratio']:.1f}",
            f"{one['many_ratio_as_boosted']:.1f}",
            f"{one['costs']['predict']['alone_ms']:.2f} ms",
            f"{one['costs']['adapted predict_proba']['alone_ms']:.2f} ms",
            f"{one['costs']['lightgbm']['alone_ms']:.2f} ms",
            f"{one['auc_averaged']:.4f}",
            f"{one['auc']:.4f}",
        ]
        for one in source["sizes"]
    ]
    head = [
        "training rows",
        "positives",
        "folds",
        "average of the folds, times LightGBM",
        "default, times LightGBM",
        "times LightGBM with the rounds of `boosted`",
        "`predict`, a row alone",
        "`predict_proba` after `at_prior`",
        "LightGBM, a row alone",
        "AUC of the average",
        "AUC",
    ]
    return _table(head, lines, source)


def predict_jobs() -> str:
    """Time of a fit with two jobs over that with one."""
    source = _read("predict")
    names = {"auto": "default", "kernel": '`"kernel"`'}
    lines = [
        [names[one["model"]], f"{one['rows']:,}", f"{one['seconds']:.2f} s", f"{one['ratio']:.2f}"]
        for one in source["jobs"]
    ]
    return _table(["model", "rows", "fit with `n_jobs=1`", "`n_jobs=2`, times that"], lines, source)


def teaching() -> str:
    """Networks without and with teachers."""
    source = _read("teaching")
    lines = [
        [
            row["data"].replace("_", " "),
            str(row["labelled"]),
            f"{row['alone']:.4f}",
            f"{row['taught']:.4f}",
            f"{row['taught'] - row['alone']:+.4f} ± {row['gain_standard_error']:.4f}",
        ]
        for row in source["rows"]
    ]
    head = ["data", "labelled positives", "no teachers", f"{source['teachers']} teachers", "gain"]
    return _table(head, lines, source)


def audit() -> str:
    """Errors of priors on real tables with true labels of a few rows."""
    source = _read("audit")
    lines = [
        [
            row["place"],
            row["design"],
            f"{row['error']:.3f}",
            f"{row['covers']:.0%}",
            f"{row['width']:.3f}",
            f"{row['train_error']:.3f}",
            f"{row['train_covers']:.0%}",
            f"{row['later_error']:.3f}",
            f"{row['later_covers']:.0%}",
        ]
        for row in source["summary"]
    ]
    head = [
        "rows that were audited",
        "answers",
        "error of their prior",
        "covered",
        "width",
        "error of the training prior",
        "covered",
        "error of later priors",
        "covered",
    ]
    first = source["summary"][0]
    text = (
        f"Means over {first['cells']} combinations of tables and training priors, {source['runs']} audits "
        f"each. Without answers, the error of the training prior is {first['train_error_without']:.3f} and "
        f"that of later priors {first['later_error_without']:.3f}.\n\n"
    )
    return text + _table(head, lines, source)


def mixed() -> str:
    """Accuracy on tables with strings, without preprocessing and with indicator columns made by hand."""
    source = _read("mixed")
    lines = []
    for name, part in source["sets"].items():
        s = part["summary"]
        lines.append(
            [
                name,
                str(part["columns_of_strings"]),
                f"{s['accuracy_table']:.1%}",
                f"{s['accuracy_by_hand']:.1%}",
                f"{s['gain']:+.1%} ± {s['gain_standard_error']:.1%}",
                f"{s['fit_ratio']:.2f}",
            ]
        )
    head = ["table", "columns of strings", "as it is", "by hand", "gain", "fit, relative to by hand"]
    return _table(head, lines, source)


def choice() -> str:
    """Settings of boosted trees, compared with the default."""
    source = _read("choice")
    lines = [
        [
            f"{row['rows']:,}",
            row["setting"],
            f"{row['gain']:+.4f}",
            f"{row['least']:+.4f} to {row['most']:+.4f}",
            f"{row['cost']:.1f}",
        ]
        for row in source["summary"]
        if row["setting"] != "default"
    ]
    head = ["rows", "setting", "mean gain in AUC", "range over the laws", "seconds, relative to the default"]
    return _table(head, lines, source)


def hardening() -> str:
    """Hostile artifacts, killed writers and threads that count."""
    source = _read("hardening")
    edits = source["edits"]["total"]
    lines = [
        ["edited artifacts", f"{edits['edits']:,}", "crashes", str(edits["crashes"])],
        ["", "", "hangs above 5 s", str(edits["hangs"])],
        ["", "", "errors other than `ArtifactError`", str(edits["other_errors"])],
        ["", "", "allocations above 4 times the honest ones", str(edits["large_allocations"])],
    ]
    for name, found in source["kills"].items():
        faults = {key: n for key, n in found.items() if key not in ("kills", "interruptions", "in_mid_write")}
        first = found.get("kills", found.get("interruptions"))
        lines.append(
            [f"killed: {name}", f"{first:,}", ", ".join(faults).replace("_", " "), str(sum(faults.values()))]
        )
    for name, found in source["counts"].items():
        lines.append([f"8 threads: {name}", f"{found['expected']:,}", "rows lost", str(found["lost"])])
    return _table(["what", "how many", "what could go wrong", "found"], lines, source)


def months() -> str:
    """Priors and labels in real periods, means over tables."""
    source = _read("months")
    lines = []
    for protocol, rates in source["protocols"].items():
        for rate, kinds in rates.items():
            if rate == "all":
                continue
            for rule, found in kinds["estimated"].items():
                lines.append([protocol, rate, rule, *_month_figures(found["all"])])
    head = [
        "protocol",
        "labelled",
        "rule",
        "accuracy",
        "error of the prior",
        "limits hold",
        "lose more than .05",
    ]
    return _table(head, lines, source)


def months_by_table() -> str:
    """The same for each table, with 30 % of the positives labelled."""
    source = _read("months")
    found = source["protocols"]["next"]["30%"]["estimated"]
    names = [name for name in found["auto"] if name not in ("all", "left out")]
    rules = ["majority class", "as trained", "prior shift", "auto", "auto, periods", "auto, labels"]
    lines = [[name, *(f"{found[rule][name]['accuracy']:.3f}" for rule in rules)] for name in names]
    return _table(["accuracy", *rules], lines, source)


def _month_figures(found: dict[str, Any]) -> list[str]:
    error, holds = found["error"], found["cells_hold"]
    return [
        f"{found['accuracy']:.3f}",
        "" if error is None else f"{error:.3f}",
        "" if holds is None else f"{holds:.0%}",
        f"{found['losing']:.0%}",
    ]


def suspects() -> str:
    """Planted wrong labels among the first suspects."""
    source = _read("suspects")
    ways = {"drpu": "drpu"} | {
        f"cleanlab_{name}": f"cleanlab, {words}"
        for name, words in (
            ("logistic", "logistic regression"),
            ("boosting", "gradient boosting"),
            ("forest", "random forest"),
        )
    }
    found = {name: part["found"] for name, part in source["sets"].items()} | {"mean": source["mean"]}
    lines = [[name, *(f"{shares[way]:.0%}" for way in ways)] for name, shares in found.items()]
    return _table(["table", *ways.values()], lines, source)


TABLES = {
    "suspects": suspects,
    "choice": choice,
    "hardening": hardening,
    "audit": audit,
    "mixed": mixed,
    "months": months,
    "months_by_table": months_by_table,
    "shift": shift,
    "teaching": teaching,
    "intervals": intervals,
    "network": network,
    "predict": predict,
    "predict_jobs": predict_jobs,
}
for _file in ("peer_tables", "scale_tables"):
    TABLES |= _neighbour(_file).tables(_read, _table)
