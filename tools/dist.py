"""Build sdist and wheel twice, compare, check, install and use them: ``make dist``.

The first wheel is built from the sdist and the second one from the checkout. They are equal only if
the sdist is complete and the build does not depend on time, paths or the order of files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
MAX_SDIST_BYTES = 2_000_000
NOT_IN_SDIST = ("benchmarks/results/", "paper/results/", "docs/images/", ".github/")
IN_WHEEL = {"drpu/__init__.py", "drpu/__init__.pyi", "drpu/py.typed"}
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)[^)]*\)")

USE = """
import drpu

data = drpu.make_gaussian_pu(200, 600, prior=0.4, test_prior=0.1, separation=3, random_state=0)
clf = drpu.DRPUClassifier(scenario="case-control", random_state=0).fit(*data.X_y())
drpu.save(clf, "toy.drpu")
adapted = drpu.load("toy.drpu").adapt(data.test)
print("drpu", drpu.__version__, "estimates a prior of", adapted.prior_)
assert "site-packages" in drpu.__file__
assert adapted.predict(data.test).shape == (len(data.test),)
"""


def main() -> None:
    """Build and check; ``dist/`` is written at the end."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder / "first")
        check_equal(build(folder / "second", "--sdist", "--wheel"), (sdist, wheel))
        check_sdist(sdist)
        check_wheel(wheel)
        twine = [sys.executable, "-m", "twine", "check", "--strict"]
        subprocess.run([*twine, sdist, wheel], check=True)
        install_and_use(sdist, folder / "from_sdist")
        install_and_use(wheel, folder / "from_wheel")

        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(folder / "first", ROOT / "dist")
    for path in sorted((ROOT / "dist").iterdir()):
        print(f"dist/{path.name}: {path.stat().st_size:,} bytes, sha256 {sha256(path)}")


def build(folder: Path, *options: str) -> tuple[Path, Path]:
    """The sdist and the wheel, built into ``folder`` with the time of the last commit."""
    environment = os.environ | {"SOURCE_DATE_EPOCH": source_date()}
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), *options]
    subprocess.run([*command, str(ROOT)], check=True, env=environment, stdout=subprocess.DEVNULL)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def source_date() -> str:
    """Seconds since 1970 of the last commit, or what ``SOURCE_DATE_EPOCH`` says."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return os.environ["SOURCE_DATE_EPOCH"]
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_equal(first: tuple[Path, Path], second: tuple[Path, Path]) -> None:
    """Stop if two builds differ in any byte."""
    for package, same_package in zip(first, second, strict=True):
        if sha256(package) != sha256(same_package):
            raise SystemExit(f"two builds of {package.name} differ")


def check_sdist(sdist: Path) -> None:
    """Stop if the sdist is too large or contains results, images or workflows."""
    size = sdist.stat().st_size
    if size > MAX_SDIST_BYTES:
        raise SystemExit(f"{sdist.name} has {size:,} bytes, more than {MAX_SDIST_BYTES:,}")
    with tarfile.open(sdist) as archive:
        for name in archive.getnames():
            inside = name.partition("/")[2]
            if inside.startswith(NOT_IN_SDIST):
                raise SystemExit(f"{sdist.name} contains {inside}")


def check_wheel(wheel: Path) -> None:
    """Stop if the wheel lacks types or license, or has other files or relative links."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata_name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(metadata_name).decode()
    information = metadata_name.removesuffix("METADATA")
    required = IN_WHEEL | {f"{information}licenses/LICENSE"}
    missing = required - names
    if missing:
        raise SystemExit(f"{wheel.name} lacks {sorted(missing)}")
    others = [name for name in names if not name.startswith(("drpu/", information))]
    if others:
        raise SystemExit(f"{wheel.name} contains {sorted(others)} beside the package")
    relative = RELATIVE_LINK.search(metadata)
    if relative:
        raise SystemExit(f"README of {wheel.name} has a relative link: {relative[0]}")


def install_and_use(package: Path, folder: Path) -> None:
    """Install the pinned versions into an empty environment, and fit, save, load and adapt."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pinned = ["--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([*install, *pinned, str(package)], check=True)
    print(f"{package.name}: installed, {installed_sizes(folder)}")
    subprocess.run([python, "-I", "-W", "error", "-c", USE], check=True, cwd=folder)


def installed_sizes(environment: Path) -> str:
    """Megabytes of all packages of an environment, and of the largest ones; pip is not counted."""
    (packages,) = environment.glob("lib/python*/site-packages")
    megabytes: dict[str, float] = {}
    for path in packages.rglob("*"):
        name = path.relative_to(packages).parts[0].removesuffix(".libs")
        if path.is_file() and name not in ("pip", "setuptools"):
            megabytes[name] = megabytes.get(name, 0.0) + path.stat().st_size / 1e6
    largest = sorted(megabytes, key=megabytes.__getitem__, reverse=True)[:8]
    listed = ", ".join(f"{name} {megabytes[name]:.0f}" for name in largest)
    return f"{sum(megabytes.values()):.0f} MB: {listed}"


if __name__ == "__main__":
    main()
