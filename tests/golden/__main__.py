"""``python -m tests.golden`` writes the values of all cases; ``--compare`` shows what differs from them."""

from __future__ import annotations

import argparse
import time

from tests.golden.cases import CASES
from tests.golden.golden_values import differences, read, this_platform, values_of, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--compare", action="store_true", help="compare with the file, write nothing")
    parser.add_argument(
        "--only", default="", help="cases whose name contains this text; others stay as they are"
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="relative difference that is no difference"
    )
    parser.add_argument("--times", action="store_true", help="print the processor time of each case")
    given = parser.parse_args()
    new = {}
    for name, golden in CASES.items():
        if given.only in name:
            start = time.process_time()
            new[name] = values_of(golden.results)
            if given.times:
                print(f"{time.process_time() - start:6.2f} s  {name}")
    if given.compare:
        return _compare(new, given.tolerance)
    old = read()["cases"] if given.only else {}
    write({name: new.get(name, old.get(name)) for name in CASES if name in new or name in old})
    return 0


def _compare(new: dict, tolerance: float) -> int:
    """Print the differences; the number of cases that have some."""
    written = read()
    if written["platform"] != this_platform():
        print(f"another platform: {written['platform']} then, {this_platform()} now")
    found = {
        name: differences(written["cases"].get(name, {}), values, tolerance=tolerance)
        for name, values in new.items()
    }
    for name, lines in found.items():
        for line in lines:
            print(f"{name}: {line}")
    differ = sum(bool(lines) for lines in found.values())
    print(f"{len(found) - differ} of {len(found)} cases are as in the file")
    return min(differ, 1)


if __name__ == "__main__":
    raise SystemExit(main())
