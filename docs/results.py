"""Insert tables from the result files of ``benchmarks/``: a hook of mkdocs.

``<!-- results: NAME -->`` on a page is replaced by the table NAME.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
MARK = re.compile(r"<!-- results: (\w+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with tables in place of the marks."""
    return MARK.sub(lambda mark: TABLES[mark[1]](), markdown)


def _read(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    record: dict[str, Any] = json.loads(path.read_text())
    commit = record.get("commit")
    if not commit or _changes_since(commit) is None:  # not recorded, or not in this history
        record |= {"commit": _last_commit(path), "commit_of_file": True}
    return record


def _last_commit(path: Path) -> str:
    """The last commit that changed a file or a folder; empty without the whole history."""
    if _git("rev-parse", "--is-shallow-repository") == "true":  # every file would seem to be new
        return ""
    return _git("log", "-1", "--format=%h", "--", str(path))


def _table(head: list[str], lines: list[list[str]], source: dict[str, Any]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{text}\n\n{_written(source)}\n"


def _written(source: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in source["versions"].items())
    return f"Written by `{source['command']}`{' with ' if versions else ''}{versions}{_age(source)}."


def _age(source: dict[str, Any]) -> str:
    """Commit and date of a result, and whether the library has changed since; empty without a checkout."""
    commit = source.get("commit")
    if not commit:
        return ""
    later = _changes_since(commit)
    if later is None:
        return f", at commit {commit}, which is not in this history"
    place = "in a file of commit" if source.get("commit_of_file") else "at commit"
    made = f", {place} {commit} of {_date(commit)}"
    if later == 0:
        return made
    commits = "1 commit" if later == 1 else f"{later} commits"
    return f"{made}; the library has changed since ({commits})"


def _date(commit: str) -> str:
    """The day of a commit."""
    return _git("log", "-1", "--format=%cs", commit.rstrip("+"))


def _changes_since(commit: str) -> int | None:
    """Number of later commits that changed the library; None if the history does not have the commit."""
    count = _git("rev-list", "--count", f"{commit.rstrip('+')}..HEAD", "--", "src/drpu")
    if not count:
        return None
    return int(count)


def _git(*arguments: str) -> str:
    """What git prints; empty if it fails or is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def result_files() -> str:
    """Every result file with its command, its commit and the number of later changes of the library."""
    lines = ["| result | command | commit | day | later commits to the library |", "|---|---|---|---|---|"]
    sources = {path.stem: _read(path.stem) for path in sorted(RESULTS.glob("*.json"))}
    for name, source in (sources | {"paper/results": _read_paper()}).items():
        commit = source["commit"]
        made = "not known | | "
        if commit:
            place = f"{commit} (of the file)" if source.get("commit_of_file") else commit
            made = f"{place} | {_date(commit)} | {_changes_since(commit)}"
        lines.append(f"| {name} | `{source['command']}` | {made} |")
    return "\n".join(lines) + "\n"


def _read_paper() -> dict[str, Any]:
    """What is known of the results of the paper as a whole: there are many, made one after the other."""
    commit = _last_commit(ROOT / "paper" / "results")
    return {"command": "python -m paper run", "versions": {}, "commit": commit, "commit_of_file": True}


def priors_made() -> str:
    """When the figures of the page on prior estimators were made; the page itself is a file."""
    return _written(_read("priors"))


def tables_made() -> str:
    """When the figures of the page on real tables were made."""
    return _written(_read("tables"))


def rivals_made() -> str:
    """When the figures of the page on the other methods were made."""
    return _written(_read("rivals"))


def paper_made() -> str:
    """When the last figures of the page on the paper were made."""
    return _written(_read_paper())


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
            f"{row['upper_holds']:.1%}",
            f"{row['covers_prior']:.1%}",
            f"{row['worst']:.0%}",
            f"{row['mean_width']:.2f}",
        ]
        for row in source["summary"]
    ]
    head = [
        "prior of",
        "level",
        "settings",
        "`upper` holds",
        "`low` to `high` hold",
        "in the worst setting",
        "mean width",
    ]
    return _table(head, lines, source)


def shift_test() -> str:
    """Shares of samples in which the test finds more than prior shift, by sizes of the samples."""
    source = _read("intervals")
    by_size: dict[str, dict[str, list[float]]] = {}
    for row in source["shift_test"]:
        change = "prior only" if row["kind"] == "size" else row["family"]
        sizes = f"{row['n_positive']} / {row['n']:,} / {row['n_test']:,}"
        by_size.setdefault(change, {}).setdefault(sizes, []).append(row["rejected"])
    lines = []
    for change, found in by_size.items():
        shares = [sum(rejected) / len(rejected) for rejected in found.values()]
        lines.append([change, *(f"{share:.0%}" for share in shares)])
    return _table(["what changed", *by_size["prior only"]], lines, source)


def predict() -> str:
    """Costs beside LightGBM, at sizes with ten folds, five folds and one split."""
    source = _read("predict")
    lines = [
        [
            f"{one['rows']:,}",
            f"{one['positives']:,}",
            str(one["folds"]),
            _figure(one.get("fit_ratio"), ".1f"),
            _figure(one.get("adapt_ratio"), ".1f"),
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
        "`fit`, times LightGBM",
        "`adapt`, times LightGBM's `predict`",
        "average of the folds, times LightGBM",
        "`predict`, times LightGBM",
        "times LightGBM with the rounds of `boosted`",
        "`predict`, a row alone",
        "`predict_proba` after `at_prior`",
        "LightGBM, a row alone",
        "AUC of the average",
        "AUC",
    ]
    return _table(head, lines, source)


def folds() -> str:
    """Accuracy, priors and limits with more and with fewer trees in the functions of folds."""
    source = _read("folds")
    figures = {
        "accuracy": "accuracy",
        "training_error": "error of the training prior",
        "later_error": "error of the prior of new rows",
        "training_held": "limits of the training prior hold",
        "later_held": "limits of the prior of new rows hold",
    }
    lines = []
    for group, compared in source["groups"].items():
        for name, words in figures.items():
            figure = compared[name]
            line = [group, str(compared["samples"]), words]
            line += [f"{figure['before']:.4f}", f"{figure['now']:.4f}"]
            line.append(f"{figure['difference']:+.4f} ± {figure['standard_error']:.4f}")
            lines.append(line)
    settings = []
    for when in ("before", "now"):
        trees, rounds, leaves = source["numbers"][when].values()
        settings.append(f"{when}: {trees} trees, {rounds} rounds, {leaves} leaves")
    return _table(["tables", "fits", "", *settings, "difference"], lines, source)


def predict_reasons() -> str:
    """Cost of explaining a row beside that of labelling it."""
    source = _read("predict")
    lines = []
    for one in source["sizes"]:
        cost = one["explained"]
        lines.append(
            [
                f"{one['rows']:,}",
                f"{one['positives']:,}",
                f"{one['costs']['predict']['many_us']:.0f} µs",
                f"{cost['reasons_us']:.0f} µs",
                f"{cost['shapley_us']:,.0f} µs",
                f"{cost['correlation']:.3f}",
            ]
        )
    head = ["training rows", "positives", "`predict`", "`reasons`", "Shapley values", "correlation"]
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


def text() -> str:
    """AUC on tables of free text, by how a text is encoded."""
    source = _read("text")
    ways = {
        "words": "a column for each word",
        "logistic": "the same, `LogisticRegression`",
        "directions_25": "25 directions",
        "text": "50 directions, the default",
        "directions_100": "100 directions",
    }
    lines = []
    for name, part in source["tables"].items():
        figures = [f"{part[way]['auc']:.3f} ({part[way]['seconds']:.1f} s)" for way in ways]
        lines.append([name.replace("_", " "), f"{part['rows']:,}", *figures])
    return _table(["texts", "rows", *ways.values()], lines, source)


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
        first = found.get("kills", found.get("interruptions"))
        faults = {key.replace("_", " "): n for key, n in found.items() if key in _FAULTS_OF_KILLS}
        lines.append([f"killed: {name}", f"{first:,}", ", ".join(faults), str(sum(faults.values()))])
    for name, found in source["counts"].items():
        lines.append([f"8 threads: {name}", f"{found['expected']:,}", "rows lost", str(found["lost"])])
    lines += _odd_uses(source["uses"])
    if "memory" in source:
        grown = source["memory"]
        faults = str(len(grown["faults"]))
        lines.append(["files with grown arrays", str(grown["files"]), "memory above the promise", faults])
    table = _table(["what", "how many", "what could go wrong", "found"], lines, source)
    made = [f"{part}: {run['commit']}" for part, run in source.get("made", {}).items()]
    return f"{table}\nParts were measured at these commits: {', '.join(made)}.\n" if made else table


# Other counts of killed writers are no faults: how many were killed in the middle of a write, and how many
# conversations had all their answers.
_FAULTS_OF_KILLS = ("lost", "half_written", "stale_after_next_run", "lost_answers", "counted_wrongly")


def _odd_uses(uses: dict[str, Any]) -> list[list[str]]:
    """Lines of the table about one core, odd audits and ONNX."""
    lines = []
    for name, found in uses["one_core"].items():
        what = f"`n_jobs=-1` on one core: {name}"
        lines.append([what, f"{found['rows']:,}", "other scores", str(found["different"])])
    audits = uses["audits"]
    what = "audits of equal rows and empty strata"
    lines.append([what, f"{audits['trials']:,}", "untyped errors", str(audits["faults"])])
    for name, found in uses["onnx"].items():
        wrong = found["other_label"] + found["probability_off"]
        wrong_text = "other labels or probabilities"
        lines.append([f"rows by ONNX: {name}", f"{found['rows']:,}", wrong_text, str(wrong)])
    return lines


def months(name: str = "months") -> str:
    """Priors and labels in real periods, means over tables."""
    source = _read(name)
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


def months_by_table(name: str = "months") -> str:
    """The same for each table, with 30 % of the positives labelled."""
    source = _read(name)
    found = source["protocols"]["next"]["30%"]["estimated"]
    names = [name for name in found["auto"] if name not in ("all", "left out")]
    rules = ["majority class", "as trained", "prior shift", "auto", "auto, periods", "auto, labels"]
    lines = [[name, *(f"{found[rule][name]['accuracy']:.3f}" for rule in rules)] for name in names]
    return _table(["accuracy", *rules], lines, source)


def more_months() -> str:
    """The same for the tables of other packages."""
    return months("more_months")


def more_months_by_table() -> str:
    """The same for each of them."""
    return months_by_table("more_months")


def weights() -> str:
    """Labels and probabilities by what may have moved, means over tables."""
    source = _read("months")
    found = source["weights"]
    names = {
        "next": "dated, next",
        "far": "dated, far",
        "A": "resampled, from .5",
        "B": "resampled, own prior",
    }
    rules = ("as trained", "full moves", "auto", "left out")
    figures = ("cost 0.5", "cost 0.2", "cost 0.8", "log loss", "brier", "losing")
    lines = []
    for protocol, name in names.items():
        for rule in rules:
            numbers = [f"{found[rule][protocol][figure]:.3f}" for figure in figures]
            lines.append([name, rule, *numbers])
    head = ["cells", "rule", "accuracy", "at cost .2", "at cost .8", "log loss", "Brier score", "lose .05"]
    table = _table(head, lines, source | {"commit": found.get("commit", source["commit"])})
    return f"{table}\nChosen: {found['chosen']['unseen']:g}; in use: {found['used']['unseen']:g}.\n"


def month_aims() -> str:
    """The aims for real periods and what was measured."""
    source = _read("months")
    words = {True: "reached", False: "missed", None: "not measured"}
    lines = [
        [
            aim["what"],
            "" if aim["value"] is None else f"{aim['value']:.3f}",
            _bound(aim),
            words[aim["reached"]],
        ]
        for aim in source["targets"]
    ]
    return _table(["", "measured", "aim", ""], lines, source)


def _bound(aim: dict[str, Any]) -> str:
    least, most = aim["least"], aim["most"]
    return f"at least {least:g}" if most is None else f"at most {most:g}"


def moving_months() -> str:
    """Accuracy in months whose priors differ widely, means over tables."""
    source = _read("months")
    rates = source.get("moving", {})
    rules = list(next(iter(rates.values()))["all"]) if rates else []
    lines = [[rate, *(f"{tables['all'][rule]:.3f}" for rule in rules)] for rate, tables in rates.items()]
    return _table(["labelled", *rules], lines, source)


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


def _periods(source: dict[str, Any], **wanted: Any) -> list[dict[str, Any]]:
    """The lines of the periods with these values; ``rate`` 0 is the mean over the rates."""
    lines = source["periods"]
    return [line for line in lines if all(line[name] == value for name, value in wanted.items())]


def answers() -> str:
    """Accuracy, error of the prior and limits in the next periods by number of answers."""
    source = _read("answers")
    methods = [("map", "strata"), ("map", "random"), ("sampling", "random"), ("alone", "random")]
    methods += [("ppi", "random"), ("ppi++", "random")]
    lines = []
    for n in (0, 1, 3, 10, 20, 30, 50, 100):
        wanted = methods
        if n == 0:
            wanted = [("trained", "none"), ("adapt", "none")]
        elif n not in (10, 20, 50, 100):
            wanted = methods[:1]
        for method, design in wanted:
            lines.append(_answers_line(source, n, method, design))
    for width in (0.4, 0.3, 0.2):
        lines.append(_answers_line(source, -1, f"stopped at {width:g}", "strata"))
    rates = [f"{100 * rate:.0f} %" for rate in _answers_rates(source)]
    head = ["answers", "method", *rates, "accuracy, mean", "error of the prior"]
    return _table([*head, "limits hold", "their width"], lines, source)


def _answers_rates(source: dict[str, Any]) -> list[float]:
    """The labelling rates of the periods."""
    return sorted({line["rate"] for line in source["periods"]} - {0.0})


def _answers_line(source: dict[str, Any], n: int, method: str, design: str) -> list[str]:
    """A line of the table of answers; ``n`` is -1 if answering stopped by width."""
    (found,) = _periods(source, protocol="next", rate=0.0, n=n, method=method, design=design)
    accuracies = []
    for rate in _answers_rates(source):
        (one,) = _periods(source, protocol="next", rate=rate, n=n, method=method, design=design)
        accuracies.append(f"{one['accuracy']:.3f}")
    accuracies.append(f"{found['accuracy']:.3f}")
    limits = [f"{found['error']:.3f}", f"{found['holds_cells']:.0%}", f"{found['width']:.2f}"]
    name = method if design == "none" else f"{method}, {design}"
    return [f"{found['answers']:.0f}", name, *accuracies, *limits]


def answers_ceilings() -> str:
    """What other labels of the same periods reach."""
    source = _read("answers")["ceilings"]
    accuracy = source["accuracy"]
    names = {
        "trained": "as trained",
        "10 answers": "10 answers",
        "20 answers": "20 answers",
        "50 answers": "50 answers",
        "true prior": "the prior of the period is known",
        "both priors": "both priors are known",
        "supervised": "trees trained with all true labels of training",
        "threshold": "the best threshold, by all true labels of the period",
    }
    lines = []
    for name, text in names.items():
        gain = accuracy[name] - accuracy["trained"]
        lines.append([text, f"{accuracy[name]:.3f}", f"{gain:+.3f}"])
    table = _table(["labels", "accuracy", "gain"], lines, source | {"versions": _read("answers")["versions"]})
    return f"{source['cells']} periods of {source['tables']} tables:\n\n{table}"


def answers_designs() -> str:
    """The three ways to choose rows."""
    source = _read("answers")
    lines = []
    for n in (20, 50, 100):
        for design in ("random", "strata", "near"):
            (found,) = _periods(source, protocol="next", rate=0.0, n=n, method="map", design=design)
            limits = [f"{found['error']:.3f}", f"{found['holds_cells']:.0%}", f"{found['width']:.3f}"]
            lines.append([str(n), design, f"{found['accuracy']:.3f}", *limits])
    head = ["answers", "rows", "accuracy", "error of the prior", "limits hold", "width of the limits"]
    return _table(head, lines, source)


def answers_harm() -> str:
    """What answers change in all rows of the next periods, compared with no answers."""
    source = _read("answers")
    lines = []
    for one in source["harm"]:
        costs = max(one[f"cost {cost}"] for cost in ("0.5", "0.2", "0.8"))
        lost_cost = max(one[f"lost cost {cost}"] for cost in ("0.5", "0.2", "0.8"))
        means = [f"{one['accuracy']:+.4f}", f"{one['worst']:+.3f}", f"{costs:+.4f}"]
        shares = [f"{one[name]:.1%}" for name in ("lost accuracy", "lost recall")]
        lines.append([str(one["n"]), str(one["runs"]), *means, shares[0], f"{lost_cost:.1%}", shares[1]])
    head = ["answers", "runs", "accuracy, mean", "worst run", "largest change of a mean cost"]
    return _table([*head, "lost .05", "a cost rose by .05", "lost two thirds of the recall"], lines, source)


def few_answers() -> str:
    """What few true answers change, compared with no answers."""
    source = _read("few_answers")
    lines = []
    for one in source["harm"]:
        costs = max(one["cost .5"], one["cost .2"], one["cost .8"])
        shares = [f"{one['lost .05']:.0%}", f"{one['lost recall']:.0%}", f"{one['holds']:.0%}"]
        accuracies = [f"{one['without']:.3f}", f"{one['with']:.3f}", f"{one['worst']:.3f}"]
        lines.append([one["case"], str(one["n"]), *accuracies, f"{costs:+.4f}", *shares])
    head = ["rows", "answers", "accuracy without", "with", "worst run", "largest change of a mean cost"]
    return _table([*head, "lost .05", "lost two thirds of the recall", "limits hold"], lines, source)


def species_ranking() -> str:
    """Area under the curve on places of a survey, by group of species."""
    source = _read("species")
    methods = ["drpu", "forest", "forest, leaves of 3", "LightGBM", "splines"]
    lines = []
    for one in source["figures"]:
        areas = [f"{one[name]:.3f}" for name in methods]
        lines.append([one["of"], str(one["species"]), *areas, str(one["lost .02"])])
    return _table(["presences or region", "species", *methods, "lost"], lines, source)


def species_priors() -> str:
    """Error of the prevalence and better probabilities, by number of answers."""
    source = _read("species")
    lines = []
    for one in source["figures"]:
        errors = [f"{one[f'error {n}']:.3f}" for n in (0, 20, 50)]
        better = [f"{one[f'better {n}']} of {one['skilled']}" for n in (0, 20, 50)]
        lines.append([one["of"], *errors, *better])
    head = ["error of the prevalence", "20 answers", "50 answers", "better than the share", "20", "50"]
    return _table(["presences or region", *head], lines, source)


def stopping() -> str:
    """Limits when answering stops as soon as the interval is narrow enough."""
    source = _read("few_answers")
    lines = []
    for one in source["stopping"]:
        lines.append([f"{one['width']:g}", f"{one['least']:.1%}", f"{one['answers']:.0f}"])
    return _table(["width", "limits hold at least in", "answers, mean over priors"], lines, source)


def wrong_answers() -> str:
    """The error of the prior with wrong answers."""
    source = _read("few_answers")
    lines = []
    for one in source["wrong"]:
        plain = [f"{one['plain bias']:+.3f}", f"{one['plain holds']:.0%}"]
        stated = [f"{one['stated bias']:+.3f}", f"{one['stated holds']:.0%}"]
        lines.append([f"{one['prior']:g}", f"{one['error_rate']:.0%}", *plain, *stated])
    head = ["prior", "wrong answers", "mean error", "limits hold", "mean error, `error_rate=`"]
    return _table([*head, "limits hold, `error_rate=`"], lines, source)


def answers_training() -> str:
    """Ranking with known rows and with rates of labelling."""
    source = _read("answers")
    training, rates = source["training"], source["rates"]
    names = {"fair": "300 fair answers", "easy": "300 easy negatives", "column": "300 negatives of one side"}
    lines = []
    for case, name in names.items():
        one = training[case]
        least = f"{one['least']:+.4f} ({one['worst']})"
        lines.append([name, f"{one['gain']:+.4f}", f"{one['won_back']:.0%}", least])
    for name, won in rates["won_back"].items():
        if name != "none":
            gain = rates["auc"]["column"][name] - rates["auc"]["column"]["none"]
            least = f"{rates['least_if_fair']:+.4f} if labels are fair" if name == "weighted" else ""
            lines.append([f"rates by column: {name}", f"{gain:+.4f}", f"{won:.0%}", least])
    head = ["what is known", "gain of AUC", "part of the loss won back", "least gain"]
    return _table(head, lines, source | {"commit": training["commit"]})


def answers_curve() -> str:
    """Accuracy in the next periods by number of answers, as a picture."""
    source = _read("answers")
    return f"{answers_picture(source)}\n\n{_written(source)}\n"


_CURVES = (  # method, design, words, colour, place of the words
    ("map", "strata", "drpu, planned rows", "#0f766e", -6),
    ("sampling", "random", "plain sampling", "#c2410c", 14),
    ("ppi++", "random", "PPI++", "#1d4ed8", 4),
)


def answers_picture(source: dict[str, Any]) -> str:
    """The picture of accuracy by number of answers, as SVG."""
    width, height = 620, 300
    curves = []
    for method, design, *_ in _CURVES:
        found = _periods(source, protocol="next", rate=0.0, method=method, design=design)
        curves.append(sorted((line["n"], line["accuracy"]) for line in found if line["n"] > 0))
    start = [
        _periods(source, protocol="next", rate=0.0, method=method, n=0)[0]["accuracy"]
        for method in ("trained", "adapt")
    ]
    curves[0].insert(0, (0, start[1]))
    values = [accuracy for curve in curves for _, accuracy in curve] + start
    low, high = math.floor(min(values) * 50) / 50, math.ceil(max(values) * 50) / 50

    def place(n: int, accuracy: float) -> tuple[float, float]:
        x = 50 + (width - 210) * (n / 100) ** 0.5
        return round(x, 1), round(height - 40 - (height - 60) * (accuracy - low) / (high - low), 1)

    def text(x: float, y: float, words: str, colour: str = "currentColor") -> str:
        return f'<text x="{x}" y="{y}" font-size="12" fill="{colour}">{words}</text>'

    parts = [text(width / 2 - 120, height - 4, "answers in the period")]
    for step in range(round((high - low) * 50) + 1):
        share = low + step / 50
        x, y = place(0, share)
        parts += [text(10, y + 4, f"{share:.0%}")]
        parts += [f'<path d="M{x} {y}H{width - 160}" stroke="currentColor" stroke-opacity=".15"/>']
    for n in (0, 3, 10, 20, 30, 50, 100):
        parts.append(text(place(n, low)[0] - 6, height - 22, str(n)))
    x, y = place(0, start[0])
    parts.append(f'<path d="M{x} {y}H{width - 160}" stroke="#666" stroke-dasharray="4 4"/>')
    parts.append(text(width - 154, y + 4, "as trained", "#666"))
    for (_, _, words, colour, nudge), curve in zip(_CURVES, curves, strict=True):
        points = [place(n, accuracy) for n, accuracy in curve]
        line = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(text(points[-1][0] + 6, points[-1][1] + nudge, words, colour))
    label = "Accuracy in the next period by number of answers: drpu, plain sampling and PPI++"
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return f"{head}{''.join(parts)}</svg>"


def central() -> str:
    """Errors, limits and identification of training priors, by protocol."""
    source = _read("central")
    lines = []
    for name, figures in source["groups"].items():
        line = [name, str(figures["fits"])]
        line += [_figure(figures["error"]), _figure(figures["bias"], "+.3f")]
        line.append(_figure(figures["width"], ".2f"))
        shares = ("holds", "holds_identified", "identified", "identified_and_off")
        line += [_figure(figures[key], ".0%") for key in (*shares, "off_and_not_identified")]
        lines.append([*line, _figure(figures["near_and_identified"], ".0%")])
    head = ["samples", "number", "error", "bias", "width of the interval", "interval holds"]
    head += ["interval holds where identified", "identified", "off by more than 0.10, of those identified"]
    head += ["not identified, of those off by more than 0.10", "identified, of those within 0.03"]
    return _table(head, lines, source)


def learn_groups() -> str:
    """Training priors of tables left out: the learned density beside the rules that it replaced."""
    source = _read("learn")
    lines = []
    for group in source["groups"]:
        line = [group["group"], f"{group['fits']:,}"]
        for name, form in (("score", ".3f"), ("error", ".3f"), ("width", ".2f"), ("holds", ".0%")):
            line += [_figure(group.get(f"{by}{name}"), form) for by in ("", "rules_")]
        for name in ("identified", "off"):
            line += [_figure(group.get(f"{by}{name}"), ".0%") for by in ("", "rules_")]
        lines.append(line)
    head = ["fits", "number"]
    for name in ("score", "error", "width", "limits hold", "identified", "of these off by 0.10"):
        head += [name, "by rules"]
    return _table(head, lines, source)


def learn_losses() -> str:
    """How much worse priors of tables left out are without some evidence."""
    source = _read("learn")
    score = source["groups"][0]["score"]
    lines = [["all evidence", f"{score:.4f}", "", ""]]
    for one in source["losses"]:
        loss = f"{one['loss']:+.4f} ± {one['error']:.4f}"
        command = f"`{source['command']} --without {one['without']}`"
        lines.append([f"without `{one['without']}`", f"{one['score']:.4f}", loss, command])
    return _table(["evidence", "score", "loss, mean over sources", "command"], lines, source)


def central_puicl() -> str:
    """Accuracy in the protocol of PUICL."""
    source = _read("central")
    lines = []
    for part in source["puicl"]:
        line = [f"{part['prior']:.0%}", str(part["labelled"]), str(part["samples"])]
        line += [_figure(part[key], ".1%") for key in ("accuracy", "majority")]
        lines.append([*line, _figure(part["error"])])
    head = ["positive unlabeled rows", "labelled", "samples", "accuracy", "majority class"]
    return _table([*head, "error of the prior"], lines, source)


def tcpu() -> str:
    """Errors of later priors in the protocol of TCPU."""
    source = _read("tcpu")
    lines = []
    for line in source["figures"]:
        first, last = line["labelled"]
        labelled = str(first) if first == last else f"{first} to {last}"
        errors = [line[method] for method in ("adapt", "prior", "tcpu", "km2")]
        least = min(errors)
        cells = [f"**{error:.3f}**" if error == least else f"{error:.3f}" for error in errors]
        lines.append([line["of"], str(line["samples"]), labelled, *cells, f"{line['nearer']:.0%}"])
    head = ["samples", "number", "labelled", "drpu, `adapt`", 'drpu, `adapt(shift="prior")`']
    return _table([*head, "TCPU", "KM2 of the new rows", "`adapt` nearer than TCPU"], lines, source)


def coverage() -> str:
    """Lines that the tests run, by package."""
    source = _read("coverage")
    lines = []
    for row in source["packages"]:
        share = row["run"] / row["lines"]
        below = ""
        if row["package"] != "all":
            below = ", ".join(f"`{name}` {part:.0%}" for name, part in row["below"].items())
        lines.append([row["package"], f"{row['lines']:,}", f"{share:.1%}", below])
    return _table(["package", "lines", "run", f"files below {source['least']:.0%}"], lines, source)


def few() -> str:
    """Pure prior shift with few positives: what the tests call it, priors and accuracy."""
    source = _read("few")
    scaled = {"plain": "as training", "self": "by themselves"}
    lines = []
    for line in source["figures"]:
        lines.append(
            [
                {"tables": "tables", "small": "small tables"}[line["protocol"]],
                scaled[line["kind"]],
                line["of"],
                str(line["cells"]),
                f"{line['other']:.0%}",
                f"{line['error_auto']:.3f}",
                f"{line['error_prior']:.3f}",
                f"{line['trained']:.1%}",
                f"{line['accuracy_auto']:.1%}",
                f"{line['accuracy_prior']:.1%}",
                f"{line['accuracy_known']:.1%}",
            ]
        )
    head = ["samples", "new rows scaled", "cells of", "cells", "called other", "error of the prior"]
    head += ['error, `shift="prior"`', "accuracy as trained", "adapted", 'adapted, `shift="prior"`']
    head += ["both priors given"]
    return _table(head, lines, source)


def expected() -> str:
    """Errors and limits of expected figures, over all cells."""
    source = _read("expected")
    lines = []
    for row in source["summary"]:
        lines.append(
            [
                row["priors"],
                row["figure"].replace("_", " "),
                f"{row['mean_error']:+.3f}",
                f"{row['largest']:.3f}",
                f"{row['too_large']} of {row['cells']}",
                f"{row['held']:.1%}",
                f"{row['least_held']:.0%}",
                f"{row['shown']:.0%}",
                f"{row['printed_too_large']} of {row['printed_cells']}",
            ]
        )
    head = ["priors", "figure", "mean error", "largest", "cells above the aim", "limits hold"]
    head += ["in the worst cell", "value printed", "printed values: cells above the aim"]
    return _table(head, lines, source)


def expected_precision() -> str:
    """Mean error of expected precision in each cell."""
    source = _read("expected")
    cells = source["cells"]
    priors = sorted({cell["test_prior"] for cell in cells})
    rows: dict[tuple[Any, ...], list[str]] = {}
    for cell in cells:
        what = (cell["priors"], cell["model"], cell["separation"], cell["n_positive"])
        precision = cell["precision"]
        text = "nothing flagged"
        if precision["runs"]:
            text = f"{precision['error']:+.3f}"
            if abs(precision["error"]) > 0.03:
                text = f"**{text}**"
            text = f"{text} ± {precision['standard_error']:.3f}"
        rows.setdefault(what, []).append(text)
    lines = [[*map(str, what), *texts] for what, texts in sorted(rows.items())]
    head = ["priors", "model", "separation", "positives", *(f"to {prior:g}" for prior in priors)]
    return _table(head, lines, source)


def expected_moves() -> str:
    """How often limits of priors hold after large moves."""
    source = _read("expected")
    lines = []
    for row in source["moves"]:
        kind = [row["move"], row["model"], str(row["separation"]), str(row["runs"])]
        lines.append([*kind, f"{row['held']:.1%}", f"{row['width']:.3f}", f"{row['mean_error']:+.3f}"])
    head = ["move", "model", "separation", "runs", "limits hold", "width", "mean error of the prior"]
    return _table(head, lines, source)


def rare() -> str:
    """Mean errors of expected figures at rare priors."""
    source = _read("rare")
    lines = []
    for c in source["cells"]:
        place = [
            c["model"],
            str(c["separation"]),
            str(c["n_positive"]),
            f"{c['test_prior']:g}",
            str(c["runs"]),
        ]
        figures = [_figure(c[name], ".2f") for name in ("precision", "recall")]
        errors = []
        for name, most in (("precision", 0.05), ("recall", 0.03)):
            error = c["error"][name]
            text = _figure(error, "+.3f")
            if error is not None and abs(error) > most:
                text = f"**{text}**"
            errors.append(text)
        lines.append([*place, *figures, *errors, _figure(1 - c["expected_flagged"], ".0%")])
    head = ["model", "separation", "positives", "prior", "runs", "precision", "recall"]
    head += ["error of expected precision", "error of expected recall", "cannot be computed"]
    return _table(head, lines, source)


def wrong() -> str:
    """Known failures: what was told beside what is true."""
    source = _read("wrong")
    lines = []
    for failure, settings in source["failures"].items():
        for row in settings:
            lines.append(
                [
                    failure,
                    row["setting"],
                    _figure(row["prior"]),
                    _figure(row["told"]),
                    f"{row['identified']:.0%}",
                    f"{row['holds']:.0%}",
                    _figure(row.get("accuracy", row.get("auc"))),
                ]
            )
    head = ["failure", "setting", "true prior", "told", "identified", "limits hold", "accuracy or AUC"]
    return _table(head, lines, source)


def _figure(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


TABLES = {
    "result_files": result_files,
    "priors_made": priors_made,
    "tables_made": tables_made,
    "rivals_made": rivals_made,
    "paper_made": paper_made,
    "wrong": wrong,
    "suspects": suspects,
    "central": central,
    "learn_groups": learn_groups,
    "learn_losses": learn_losses,
    "central_puicl": central_puicl,
    "tcpu": tcpu,
    "coverage": coverage,
    "few": few,
    "expected": expected,
    "expected_precision": expected_precision,
    "expected_moves": expected_moves,
    "rare": rare,
    "answers": answers,
    "answers_curve": answers_curve,
    "answers_ceilings": answers_ceilings,
    "answers_designs": answers_designs,
    "answers_harm": answers_harm,
    "answers_training": answers_training,
    "few_answers": few_answers,
    "species_ranking": species_ranking,
    "species_priors": species_priors,
    "stopping": stopping,
    "wrong_answers": wrong_answers,
    "choice": choice,
    "hardening": hardening,
    "audit": audit,
    "mixed": mixed,
    "text": text,
    "months": months,
    "more_months": more_months,
    "more_months_by_table": more_months_by_table,
    "weights": weights,
    "months_by_table": months_by_table,
    "month_aims": month_aims,
    "moving_months": moving_months,
    "shift": shift,
    "shift_test": shift_test,
    "intervals": intervals,
    "folds": folds,
    "predict": predict,
    "predict_jobs": predict_jobs,
    "predict_reasons": predict_reasons,
}
for _file in ("peer_tables", "scale_tables"):
    TABLES |= _neighbour(_file).tables(_read, _table)
