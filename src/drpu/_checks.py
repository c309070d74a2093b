"""Checks of arguments and of optional packages; a message says what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import scipy

from drpu._arrays import FloatArray, as_numpy
from drpu.exceptions import DataError, DataTypeError, MissingExtraError, ParameterError, PriorError


def require(module: str, *, extra: str, for_: str) -> Any:
    """The module ``module``, or an error that says which extra ``for_`` needs."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name is not None and error.name.partition(".")[0] != package:
            raise
        raise missing_extra(package, extra=extra, for_=for_) from error


def missing_extra(package: str, *, extra: str, for_: str) -> MissingExtraError:
    """The error that ``for_`` needs a package of an extra, which says how to install it."""
    return MissingExtraError(
        f"{for_} needs {package!r}, which is not installed. {_how_to_install(extra)}", name=package
    )


def _how_to_install(extra: str) -> str:
    """How to install an extra from the place that this package came from.

    pip records the place, unless it is a package index.
    """
    try:
        recorded = distribution("drpu").read_text("direct_url.json")
    except PackageNotFoundError:  # a checkout on the path
        return _from_checkout(Path(__file__).parents[2], extra)
    if recorded is None:
        return f'Run: pip install "drpu[{extra}]"'
    source = json.loads(recorded)
    url = source["url"]
    if "vcs_info" in source:
        vcs = source["vcs_info"]
        return f'Run: pip install "drpu[{extra}] @ {vcs["vcs"]}+{url}@{vcs["commit_id"]}"'
    if "dir_info" in source:
        from urllib.request import url2pathname  # which imports http and ssl

        return _from_checkout(Path(url2pathname(urlsplit(url).path)), extra)
    return f'Run: pip install "drpu[{extra}] @ {url}"'


def _from_checkout(folder: Path, extra: str) -> str:
    if (folder / "pyproject.toml").is_file():
        return f'Run: pip install "{folder}[{extra}]"'
    return f'Run in a checkout of drpu: pip install ".[{extra}]"'


# largest absolute value of data, so that sums and products of a few numbers are finite
LARGEST = 1e100


def check_real(name: str, value: Any, *, low: float = -np.inf, high: float = np.inf) -> float:
    """``value`` as a float in [low, high], which is finite if ``low`` is."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise ParameterError(f"{name} must be a number, got {value!r:.100}.")
    number = _as_float(value)
    if not low <= number <= high or (np.isinf(number) and np.isfinite(low)):
        rule = "be a number"
        if np.isfinite(high):
            rule = f"lie between {low:g} and {high:g}"
        elif np.isfinite(low):
            rule = f"be finite and at least {low:g}"
        raise ParameterError(f"{name} must {rule}, got {value!r}.")
    return number


def check_prior(name: str, value: Any) -> float:
    """``value`` as a class prior: a number in [0, 1]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise PriorError(f"{name} must be a number between 0 and 1, got {value!r:.100}.")
    number = _as_float(value)
    if not 0 <= number <= 1:
        raise PriorError(
            f"{name} must lie between 0 and 1, got {value!r}: "
            "a prior is the share of positives, not a percentage."
        )
    return number


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer with hundreds of digits, which lies in no range
        return np.nan


def check_fraction(name: str, value: Any) -> float:
    """``value`` as a number strictly between 0 and 1."""
    number = check_real(name, value)
    if not 0 < number < 1:
        hint = f": write {number / 100:g} for {number:g}%" if 1 < number < 100 else ""
        raise ParameterError(f"{name} must lie strictly between 0 and 1, got {value!r}{hint}.")
    return number


def check_integer(name: str, value: Any, *, low: int, high: int = 2**63 - 1) -> int:
    """``value`` as an integer from ``low`` to ``high``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral):
        raise ParameterError(f"{name} must be an integer, got {value!r}.")
    number = int(value)
    if not low <= number <= high:
        rule = f"at least {low}" if number < low else f"at most {high}"
        raise ParameterError(f"{name} must be {rule}, got {value!r:.100}.")
    return number


def check_jobs(value: Any) -> None:
    """Raise unless ``value`` is a number of processes as in scikit-learn."""
    if value is None:
        return
    if not isinstance(value, Integral) or value == 0:
        raise ParameterError(
            f"n_jobs must be None, a number of processes or -1, got {value!r:.100}."
        )


def check_flag(name: str, value: Any) -> bool:
    """``value`` as a bool; text is refused, because ``"no"`` would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise ParameterError(f"{name} must be True or False, got {value!r:.100}.")
    return bool(value)


def check_rate(value: Any) -> float:
    """``value`` as the learning rate of a network."""
    rate = check_real("learning_rate", value)
    if not 1e-9 <= rate <= 1e9:  # a smaller step is lost in the rounding of 32 bits
        reason = "training cannot converge"
        if 0 <= rate < 1:
            reason = "no weight would change in training"
        raise ParameterError(
            f"learning_rate must lie between 1e-09 and 1e+09, got {value!r}: {reason}."
        )
    return rate


def check_widths(value: Any) -> tuple[int, ...]:
    """``value`` as the widths of the layers of a network."""
    if isinstance(value, str) or not hasattr(value, "__len__"):
        raise ParameterError(f"hidden must be a tuple of integers, as in (8,), got {value!r}.")
    return tuple(check_integer("hidden", width, low=1) for width in value)


def check_random_state(random_state: Any) -> Any:
    """The generator that ``random_state`` names; None is the one that NumPy shares.

    The rule is scikit-learn's, which modules below the learners do not import.
    """
    if random_state is None:
        return np.random.mtrand._rand
    if isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**32:
        return np.random.RandomState(int(random_state))
    if isinstance(random_state, np.random.RandomState):
        return random_state
    rule = "None, an integer from 0 to 2**32 - 1 or a RandomState"
    raise ParameterError(f"random_state must be {rule}, got {random_state!r}.")


SCENARIOS = ("case-control", "single-sample")  # how labelled rows were sampled
SCENARIO_CHOICES = ("auto", *SCENARIOS)  # the parameter of classifiers


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """``value``, which must be one of the strings in ``choices``."""
    words = list(choices)
    if not isinstance(value, str) or value not in words:
        listing = ", ".join(map(repr, words))
        raise ParameterError(f"{name} must be one of {listing}, got {value!r}.")
    return value


def is_auto(name: str, value: Any) -> bool:
    """Whether ``value`` is "auto"; raises for other strings."""
    return isinstance(value, str) and check_choice(name, value, ["auto"]) == "auto"


def check_scores(name: str, values: Any, *, allow_empty: bool = False) -> FloatArray:
    """``values`` as a one-dimensional float64 array without NaN; infinite scores are allowed."""
    scores = check_numbers(name, values)
    if scores.ndim != 1:
        raise DataError(
            f"{name} must have one dimension, got shape {scores.shape}: pass one score per row."
        )
    if not allow_empty and scores.size == 0:
        raise DataError(f"{name} must hold at least one score, got none.")
    if np.isnan(scores).any():
        raise DataError(f"{name} must not hold NaN: a row without a score cannot be ranked.")
    return scores


def check_weights(name: str, values: Any, n: int, *, allow_zero: bool = False) -> FloatArray:
    """``values`` as ``n`` finite non-negative weights that are, unless allowed, not all zero."""
    weight = check_numbers(name, values)
    if weight.shape != (n,):
        raise DataError(f"{name} must have shape ({n},), one weight per row, got {weight.shape}.")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise DataError(f"{name} must be finite and not negative, got {weight[wrong][0].item()!r}.")
    check_size(name, weight)
    if n and not allow_zero and weight.sum() <= 0:
        raise DataError(f"{name} must not be zero for every row.")
    if 0 < weight.max(initial=0.0) < 1 / LARGEST:
        raise DataError(
            f"{name} must have values of at least {1 / LARGEST:g}: multiply it by a constant."
        )
    return weight


def check_numbers(name: str, values: Any) -> FloatArray:
    """``values`` as an array of float64."""
    check_readable(name, values)
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", "f") in "cmM":  # of which NumPy would make floats
        raise DataTypeError(f"{name} must hold numbers, got {values.dtype} values.")
    try:
        return np.asarray(as_numpy(values), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataTypeError(f"{name} must hold numbers: {error}") from error


def check_size(name: str, values: Any) -> None:
    """Raise if a number in an array or sparse matrix is extreme; missing values are none."""
    numbers: Any = values.data if scipy.sparse.issparse(values) else values  # type: ignore[attr-defined]
    if numbers.dtype.kind != "f" or not numbers.size:
        return
    lowest = float(np.fmin.reduce(numbers, axis=None))
    highest = float(np.fmax.reduce(numbers, axis=None))
    largest = max(-lowest, highest)
    if largest > LARGEST:
        raise DataError(
            f"{name} must have values of at most {LARGEST:g}, got {largest:.3g}: their squares "
            "cannot be computed. Divide such a column by a constant, or leave it out."
        )


@dataclass(frozen=True, slots=True)
class Engine:
    """A kind of cluster: the module that counts, scores and fits its frames, and its learner.

    Both are named and not imported: the module imports the classifiers, and is needed for such
    frames only.
    """

    name: str  # of the module
    learner: str  # name of the class of the module that is fitted to such frames

    @property
    def module(self) -> Any:
        """The module, with ``count`` and ``score``: the workers compute both."""
        return import_module(self.name)

    def count(self, classifier: Any, frame: Any, weight: str | None) -> Any:
        """The counts of the rows of a frame."""
        return import_module("drpu.scale.batches").count_batches(classifier, frame, weight=weight)


# by the package of a frame
ENGINES = {
    "dask": Engine("drpu.scale.dask", "DaskBoosted"),
    "dask_expr": Engine("drpu.scale.dask", "DaskBoosted"),
    "pyspark": Engine("drpu.scale.spark", "SparkBoosted"),
}


def engine_of(X: Any) -> Engine | None:
    """The engine of a frame on a cluster, or None if the rows of ``X`` are in memory."""
    return ENGINES.get(type(X).__module__.partition(".")[0])


def refuse_frame(X: Any, name: str = "X") -> None:
    """Raise for a frame on a cluster, which is never loaded into memory implicitly."""
    engine = engine_of(X)
    if engine is None:
        return
    package = type(X).__module__.partition(".")[0]
    raise DataTypeError(
        f"{name} is a {package} {type(X).__name__}, whose rows are not in memory and are never "
        f"collected: fit with DRPUClassifier({engine.learner}(...)).fit(frame, y='label'), and "
        "use adapt, at_budget, count_batches and score_batches. For anything else, such as "
        "plan_audit, load a random sample of the rows into memory."
    )


def check_readable(name: str, values: Any) -> None:
    """Raise if ``values`` are on a cluster, or have masked entries, which would lose their mask."""
    refuse_frame(values, name)
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(
            f"{name} has masked values, whose mask would be lost: pass {name}.filled(np.nan), "
            "which marks them as missing."
        )


def unit_weights(weight: FloatArray) -> FloatArray:
    """Weights with mean 1 over rows of non-zero weight, so that a constant factor has no effect."""
    mantissa, exponent = np.frexp(weight / weight.max())
    # Rounded to 30 bits: a constant factor changes the last bits, which could decide a tie in a
    # tree.
    relative = np.ldexp(np.round(mantissa * 2.0**30), exponent - 30)
    return np.asarray(relative / relative[relative > 0].mean())


def one_line(error: Exception) -> str:
    """The message of an error of another library, without line breaks and long lists of values."""
    text = " ".join(str(error).split())
    if len(text) <= 500:
        return text
    return f"{text[:120]} ... {text[-200:]}"
