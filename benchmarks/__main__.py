"""Run every benchmark that needs no folder, then update the pages that show their results.

A benchmark of tables or of fits that are kept has required options; it is named at the end.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LAST = "readme"
NEEDS_OPTIONS = 2  # exit status of argparse


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    left_out = []
    for name in [*(name for name in names if name != LAST), LAST]:
        print(f"== {name}", flush=True)
        done = subprocess.run([sys.executable, "-m", f"benchmarks.{name}"])
        if done.returncode == NEEDS_OPTIONS:
            left_out.append(name)
        else:
            done.check_returncode()
    print("left out, because they need options (--help names them):", ", ".join(left_out))


if __name__ == "__main__":
    main()
