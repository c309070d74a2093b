"""Public names of ``drpu``, and the packages that ``import drpu`` does not import."""

import inspect
import subprocess
import sys
from importlib.metadata import version
from importlib.resources import files

import pytest

import drpu

HEAVY = [
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
]


def brought_in(code):
    """The heavy packages that a new process has imported after ``code``."""
    tell = f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", tell], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import drpu",
        "import drpu; dir(drpu); drpu.__version__; from drpu import exceptions",
        "from drpu import PriorEstimate, ScoreTails, estimate_prior, ratio_threshold, shift_posterior",
    ],
)
def test_public_names_of_the_core_import_nothing_heavy(code):
    assert brought_in(code) == set()


def test_exceptions_are_an_attribute_in_a_new_process():
    code = "import drpu; drpu.exceptions.DRPUError"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 0


def test_a_prior_is_estimated_without_anything_heavy():
    code = "import drpu\ndrpu.estimate_prior([3.0, 4.0, 5.0] * 20, [0.0] * 60 + [3.0, 4.0, 5.0] * 20)"
    assert brought_in(code) == set()


def test_estimators_bring_in_no_torch_and_no_plots():
    code = "from drpu import AdaptedClassifier, DRPUClassifier, KernelRatio, load, save"
    assert brought_in(code).isdisjoint({"torch", "matplotlib", "dask", "pyspark", "polars"})


def test_a_fit_of_the_default_brings_in_no_torch():
    code = (
        "from drpu import DRPUClassifier, make_gaussian_pu\n"
        "DRPUClassifier(random_state=0).fit(*make_gaussian_pu(100, 200, separation=4, random_state=0).X_y())"
    )
    assert brought_in(code).isdisjoint({"torch", "matplotlib", "dask", "pyspark", "polars"})


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


def test_a_second_look_finds_the_same_thing():
    assert drpu.ScoreTails is drpu.ScoreTails
    from drpu import ScoreTails

    assert ScoreTails is drpu.ScoreTails


@pytest.mark.parametrize("name", ["DRPUClasifier", "core_", "_hidden"])
def test_unknown_names_are_attribute_errors(name):
    with pytest.raises(AttributeError, match=f"module 'drpu' has no attribute '{name}'"):
        getattr(drpu, name)
    assert not hasattr(drpu, name)


def test_the_package_is_typed():
    assert (files("drpu") / "py.typed").is_file()


def test_the_version_is_that_of_the_metadata():
    assert drpu.__version__ == version("drpu")
