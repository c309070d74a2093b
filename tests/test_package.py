"""Public names of ``drpu``, and the packages that ``import drpu`` does not import."""

import ast
import inspect
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.version import Version

import drpu

HEAVY = {
    "sklearn",
    "torch",
    "lightgbm",
    "matplotlib",
    "dask",
    "pyspark",
    "pandas",
    "polars",
    "pyarrow",
    "joblib",
}


LATER = {"torch", "matplotlib", "dask", "pyspark", "polars"}  # needed by no fit of the default

# What a program may do, one after the other in one process, and the packages that are then still absent.
STEPS = {
    "import drpu._codec": HEAVY,
    "import drpu": HEAVY,
    "drpu.exceptions.DRPUError": HEAVY,
    "dir(drpu); drpu.__version__; from drpu import exceptions": HEAVY,
    "from drpu import PriorEstimate, ScoreTails, estimate_prior, ratio_threshold, shift_posterior": HEAVY,
    "estimate_prior([3.0, 4.0, 5.0] * 20, [0.0] * 60 + [3.0, 4.0, 5.0] * 20)": HEAVY,
    "from drpu import BoostedRatio, KernelRatio, NetworkRatio": HEAVY,
    "NetworkRatio(hidden=(3,)).get_params()": HEAVY,
    "from drpu import load, save, verify; verify(sys.argv[1])": HEAVY,  # a file with trees
    "from drpu import AdaptedClassifier, DRPUClassifier": LATER | {"lightgbm"},
    "[DRPUClassifier(name).__sklearn_tags__() for name in ('kernel', 'auto')]": LATER,
    "from drpu import UPUClassifier, NNPUClassifier, PUaClassifier, PULDClassifier": LATER,
    "from drpu import ElkanNotoClassifier, VPUClassifier, GenPUClassifier": LATER,
    "X, y = drpu.make_gaussian_pu(100, 200, separation=4, random_state=0).X_y()": LATER,
    "DRPUClassifier(scenario='case-control', random_state=0).fit(X, y)": LATER,
}


@pytest.fixture(scope="module")
def brought_in(tmp_path_factory):
    """The heavy packages that a new process has imported after each step."""
    path = tmp_path_factory.mktemp("package") / "trees.drpu"
    X, y = drpu.make_gaussian_pu(200, 300, separation=4, random_state=0).X_y()
    drpu.save(drpu.DRPUClassifier(drpu.BoostedRatio(n_rounds=3), holdout=2, random_state=0).fit(X, y), path)
    tell = f"print(*[name for name in {sorted(HEAVY)!r} if name in sys.modules])"
    code = "\n".join(["import sys", *(f"{step}\n{tell}" for step in STEPS)])
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    return dict(zip(STEPS, map(str.split, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("step", STEPS)
def test_packages_are_imported_when_they_are_needed(step, brought_in):
    if "lightgbm" in brought_in[step] and Version(version("lightgbm")) < Version("4.7"):
        pytest.skip("earlier versions of LightGBM import what they may use")
    assert STEPS[step].isdisjoint(brought_in[step])


@pytest.mark.parametrize("name", drpu.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    thing = getattr(drpu, name)
    assert thing.__doc__
    assert thing.__doc__.strip()
    assert name in dir(drpu)


@pytest.mark.parametrize(
    "cls", sorted(name for name in drpu.__all__ if isinstance(getattr(drpu, name), type))
)
def test_public_methods_say_what_comes_out(cls):
    thing = getattr(drpu, cls)
    own = {name: value for name, value in vars(thing).items() if callable(value) and not name.startswith("_")}
    assert [name for name in own if not inspect.getdoc(getattr(thing, name))] == []


def test_names_are_sorted_and_told_once():
    assert list(drpu.__all__) == sorted(set(drpu.__all__))


@pytest.mark.parametrize("name", ["DRPUClasifier", "core_", "_hidden"])
def test_unknown_names_are_attribute_errors(name):
    with pytest.raises(AttributeError, match=f"module 'drpu' has no attribute '{name}'"):
        getattr(drpu, name)
    assert not hasattr(drpu, name)


def test_the_package_is_typed():
    assert (files("drpu") / "py.typed").is_file()


def test_the_version_is_that_of_the_metadata():
    assert drpu.__version__ == version("drpu")


def classes():
    """The names of all classes of the package, with the file of each."""
    source = Path(drpu.__file__).parent
    for path in source.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield node.name, path.relative_to(source).as_posix()


def test_no_two_classes_share_a_name():
    counts = Counter(name for name, _ in classes())
    assert [name for name, count in counts.items() if count > 1] == []


def test_groups_of_options_of_the_command_line_are_called_options():
    of_options = {name for name, path in classes() if path == "cli/options.py"}
    assert {name for name in of_options if not name.endswith("Options")} == set()
