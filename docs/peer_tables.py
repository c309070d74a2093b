"""Tables of ``benchmarks/results/peers.json``, for :mod:`docs.results`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

Source = dict[str, Any]
Table = Callable[[list[str], list[list[str]], Source], str]

PRIOR_ERRORS = ("train_prior_error", "test_prior_error")
SAME_METHOD = {  # name in drpu: prefixes of the names in other libraries
    "NNPUClassifier": ("NNPU", "NonNegativePU"),
    "ElkanNotoClassifier": ("Elkan", "WeightedElkan"),
}


def tables(read: Callable[[str], Source], table: Table) -> dict[str, Callable[[], str]]:
    """The functions that write the tables, by the names of their marks."""

    def write(maker: Callable[[Source, Table], str]) -> str:
        source = read("peers")
        return maker(source | {"versions": source["versions"] | source["peers"]}, table)

    return {"peers": partial(write, peers), "peer_priors": partial(write, peer_priors)}


def peers(source: Source, table: Table) -> str:
    """Accuracy of drpu and of other libraries, and where one of them is more accurate."""
    digits, cancer = _peer_lines(source)
    lines = []
    for key in sorted(digits, key=lambda key: -digits[key].get("accuracy_mean", 0)):
        one, other = digits[key], cancer[key]
        if "accuracy" in one and "accuracy" in other:
            cells = [f"{s['accuracy'][1]:.1%}" for s in (one, other)], [_mean(s) for s in (one, other)]
            times = [_ratio(one["fit_ratio"]), _ratio(one["predict_ratio"])]
            lines.append([*_who(one), cells[0][0], cells[1][0], cells[0][1], cells[1][1], *times])
    head = [
        "library",
        "classifier",
        "given",
        "digits, no shift",
        "digits, mean of three",
        "breast cancer, no shift",
        "breast cancer, mean of three",
        "fit",
        "labels",
    ]
    names = ", ".join(source["again"])
    again = f"Run again later: {names}. Times are compared with the first line of the same run.\n\n"
    return f"{table(head, lines, source)}\n{again if source['again'] else ''}{_verdicts(source)}"


def peer_priors(source: Source, table: Table) -> str:
    """Errors of the priors that the libraries estimate."""
    digits, cancer = _peer_lines(source)
    lines = [
        [
            *_who(one),
            *(f"{s[kind]:.3f}" if kind in s else "" for s in (one, cancer[key]) for kind in PRIOR_ERRORS),
            _ratio(one["fit_ratio"]),
        ]
        for key, one in digits.items()
        if any(kind in one for kind in PRIOR_ERRORS)
    ]
    head = ["library", "estimator", "given"]
    head += [f"{name}, {kind}" for name in ("digits", "breast cancer") for kind in ("training", "test")]
    return table([*head, "fit"], lines, source)


def _peer_lines(source: Source) -> list[dict[tuple[str, str, str], Source]]:
    return [
        {(line["library"], line["name"], line["told"]): line for line in source["sets"][name]["summary"]}
        for name in ("digits", "breast_cancer")
    ]


def _who(line: Source) -> list[str]:
    few = f" ({line['seeds']} seed)" if line["seeds"] == 1 else ""
    return [line["library"], line["name"] + few, line["told"]]


def _mean(line: Source) -> str:
    error = line["accuracy_standard_error"]
    return f"{line['accuracy_mean']:.1%}" + (f" ± {error:.1%}" if error is not None else "")


def _ratio(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _verdicts(source: Source) -> str:
    """The best other library for each data set, methods where another one is better, and errors."""
    lines = []
    for name, part in source["sets"].items():
        title = name.replace("_", " ")
        peers = [s for s in part["summary"] if s["library"] in source["peers"]]
        done = [s for s in peers if "accuracy" in s]
        lines.append(_best(title, part["summary"][0], done))
        ours = {s["name"]: s for s in part["summary"] if s["library"] == "drpu"}
        for own, theirs in SAME_METHOD.items():
            lines += [
                f"- {title}: {_named(s)}, has an accuracy of {s['accuracy_mean']:.1%}, "
                f"drpu's {own} {ours[own]['accuracy_mean']:.1%}."
                for s in done
                if s["name"].startswith(theirs) and s["accuracy_mean"] > ours[own]["accuracy_mean"]
            ]
        lines += [
            f"- {title}: {s['name']} of {s['library']} raised a {s['error'].split(':')[0]} "
            f"in {s['failed']} of {s['seeds']} seeds."
            for s in peers
            if "error" in s
        ]
    return "\n".join(lines) + "\n"


def _best(title: str, first: Source, peers: list[Source]) -> str:
    best = max(peers, key=lambda s: s["accuracy_mean"])
    still = max(peers, key=lambda s: s["accuracy"][1])
    return (
        f"- **{title}**: mean over the three test samples {first['accuracy_mean']:.1%} ({first['name']}). "
        f"The best of the other libraries is {_named(best)}, with {best['accuracy_mean']:.1%}, which is "
        f"better in {best['ahead_of_first']} of {best['seeds']} seeds. Without shift: "
        f"{first['accuracy'][1]:.1%}, and {still['accuracy'][1]:.1%} for {_named(still)}."
    )


def _named(line: Source) -> str:
    return f"{line['name']} of {line['library']}, given {line['told']}"
