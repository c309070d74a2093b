"""Share of the library's lines that the tests of ``make test`` run.

The report is that of ``make coverage``::

    python -m benchmarks.coverage --report coverage.xml
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks._results import command_line, write_results

LEAST = 0.9


def lines_by_file(report: Path) -> dict[str, tuple[int, int]]:
    """Number of lines of each file, and of those that were run."""
    found = {}
    for part in ElementTree.parse(report).iter("class"):
        hits = [int(line.attrib["hits"]) for line in part.iter("line")]
        name = part.attrib["filename"].removeprefix("src/drpu/")
        found[name] = len(hits), sum(count > 0 for count in hits)
    return found


def by_package(files: dict[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """Lines and lines that were run of each package and of all, and its files below the aim."""
    groups: dict[str, list[str]] = {}
    for name in files:
        package = name.split("/")[0] if "/" in name else "modules outside packages"
        groups.setdefault(package, []).append(name)
    rows = []
    for package, names in [*sorted(groups.items()), ("all", list(files))]:
        lines = sum(files[name][0] for name in names)
        run = sum(files[name][1] for name in names)
        row: dict[str, Any] = {"package": package, "lines": lines, "run": run}
        row["below"] = {}
        for name in names:
            in_file, run_in_file = files[name]
            if run_in_file < LEAST * in_file:
                row["below"][name] = run_in_file / in_file
        rows.append(row)
    return rows


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--report", type=Path, required=True, help="coverage.xml")
    options = parser.parse_args()
    rows = by_package(lines_by_file(options.report))
    command = "python -m benchmarks.coverage --report coverage.xml"
    print("wrote", write_results("coverage", command, least=LEAST, packages=rows))


if __name__ == "__main__":
    main()
