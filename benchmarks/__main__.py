"""Run every benchmark, then update the pages that show their results."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LAST = "readme"


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    for name in [*(name for name in names if name != LAST), LAST]:
        print(f"== {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)


if __name__ == "__main__":
    main()
