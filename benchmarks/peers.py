"""Accuracy, priors and time compared with other libraries.

    python -m benchmarks.peers [--seeds 10]

The protocol of ``benchmarks.shift`` with a single sample, on standardised rows. All classifiers are
fitted to the same rows and tested on the same rows, one after the other, so that times are
comparable. drpu does not require the other libraries; those not installed are left out and named:

    pip install pulearn==0.2.0 pu-toolbox==1.11.0 quapy==0.2.3
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import drpu
from benchmarks._results import read_results, write_results
from benchmarks.shift import PRIORS, load
from drpu.datasets.sampling import draw_at_prior

SINGLE = "single-sample"
MODULES = {"pulearn": "pulearn", "pu-toolbox": "pu_toolbox", "QuaPy": "quapy"}
DATA = ("digits", "breast_cancer")


@dataclass(frozen=True)
class Sample:
    """One training sample, and test samples of several priors with their labels."""

    X: Any
    y: Any
    y_true: Any
    tests: list[tuple[Any, Any]]

    @property
    def prior(self) -> float:
        """Prior of all training rows."""
        return float(np.mean(self.y_true))

    @property
    def labelled(self) -> int:
        """Number of labelled positives."""
        return int(np.sum(self.y))

    @property
    def unlabeled(self) -> int:
        """Number of all other rows."""
        return len(self.y) - self.labelled

    @property
    def rest(self) -> float:
        """Prior of the unlabeled rows."""
        return float(np.mean(self.y_true[self.y == 0]))


@dataclass(frozen=True)
class Outcome:
    """Results of one method on one sample; None where the method does not provide them."""

    fit_seconds: float
    predict_seconds: float | None = None
    accuracy: list[float] | None = None
    train_prior: float | None = None
    test_priors: list[float] | None = None


@dataclass(frozen=True)
class Contender:
    """A method of a library, the information it is given, and how to run it."""

    library: str
    name: str
    told: str
    run: Callable[[Sample, int], Outcome]
    seeds: int | None = field(default=None)  # at most; slow methods run on fewer seeds


def draw(X: Any, y: Any, seed: int) -> Sample:
    """Training rows of prior 0.5 with 30 % of the positives labelled, and three test samples."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    train = drpu.make_pu(X_train, y_train, prior=0.5, labelled=0.3, scenario=SINGLE, random_state=seed)
    scale = StandardScaler().fit(train.X).transform
    tests = [draw_at_prior(X_test, y_test, prior, random_state=seed) for prior in PRIORS]
    return Sample(scale(train.X), train.y, train.y_true, [(scale(rows), truth) for rows, truth in tests])


def classifier(
    make: Callable[[Sample, int], Any],
    *,
    fit: Callable[[Any, Sample], Any] = lambda clf, s: clf.fit(s.X, s.y),
    adapts: bool = False,
    reports_prior: bool = False,
) -> Callable[[Sample, int], Outcome]:
    """A run that fits and predicts every test sample, after adapting to it if ``adapts``."""

    def run(sample: Sample, seed: int) -> Outcome:
        start = time.perf_counter()
        clf = make(sample, seed)
        clf = fit(clf, sample) or clf
        fitted = time.perf_counter()
        ready = [clf.adapt(rows) if adapts else clf for rows, _ in sample.tests]
        labels = [c.predict(rows) for c, (rows, _) in zip(ready, sample.tests, strict=True)]
        seconds = time.perf_counter() - fitted
        return Outcome(
            fitted - start,
            seconds,
            # Some libraries use -1 for negatives, so labels are compared with 1.
            [
                float(np.mean((np.asarray(found) == 1) == truth))
                for found, (_, truth) in zip(labels, sample.tests, strict=True)
            ],
            clf.prior_.value if reports_prior else None,
            [c.prior_.value for c in ready] if adapts else None,
        )

    return run


def mixture(
    share: Callable[[Any, Any, int], float],
) -> Callable[[Sample, int], Outcome]:
    """A run of an estimator of the prior of unlabeled rows.

    For a test sample it gets the training positives again, and the test rows as unlabeled rows.
    """

    def run(sample: Sample, seed: int) -> Outcome:
        start = time.perf_counter()
        rest = share(sample.X, sample.y, seed)
        fitted = time.perf_counter()
        positives = sample.X[sample.y == 1]
        found = [
            share(np.vstack([positives, rows]), np.repeat([1, 0], [len(positives), len(rows)]), seed)
            for rows, _ in sample.tests
        ]
        population = (sample.labelled + sample.unlabeled * rest) / len(sample.y)
        seconds = time.perf_counter() - fitted
        return Outcome(fitted - start, seconds, train_prior=population, test_priors=found)

    return run


def quantifier(sample: Sample, seed: int) -> Outcome:
    """EM of QuaPy with its default kind of classifier, and the true labels of all training rows."""
    start = time.perf_counter()
    em = import_module("quapy.method.aggregative").EMQ(LogisticRegression(max_iter=2000))
    em.fit(sample.X, sample.y_true)
    fitted = time.perf_counter()
    found = [float(em.predict(rows)[1]) for rows, _ in sample.tests]
    return Outcome(fitted - start, time.perf_counter() - fitted, test_priors=found)


def forest(seed: int) -> Any:
    return RandomForestClassifier(100, random_state=seed)


def readme_machine(seed: int) -> Any:
    """The base classifier in the README of pulearn."""
    return SVC(C=10, kernel="rbf", gamma=0.4, probability=True, random_state=seed)


def _pulearn(name: str, *args: Any, **options: Any) -> Any:
    return getattr(import_module("pulearn"), name)(*args, **options)


def _toolbox(name: str, *args: Any, **options: Any) -> Any:
    return getattr(import_module("pu_toolbox"), name)(*args, **options)


def _pipeline(pipeline: Any, sample: Sample) -> Any:
    return pipeline.fit_evaluate(sample.X, sample.y).final_model


def _pulearn_share(name: str) -> Callable[[Any, Any, int], float]:
    def share(X: Any, y: Any, seed: int) -> float:
        return float(_pulearn(name).estimate(X, y).metadata["hidden_positive_fraction"])

    return share


def _toolbox_share(name: str, **options: Any) -> Callable[[Any, Any, int], float]:
    return lambda X, y, seed: float(_toolbox(name, **options).fit(X, y).estimate())


NOTHING, PRIOR, REST = "nothing", "training prior", "share in the unlabeled rows"
NOISE, LABELS = "share of positives without label", "every true label"


def ours() -> list[Contender]:
    """The classifiers of drpu with default settings; nnPU is given the training prior."""
    return [
        Contender(
            "drpu", "DRPUClassifier, adapted", NOTHING,
            classifier(
                lambda s, seed: drpu.DRPUClassifier(scenario=SINGLE, random_state=seed),
                adapts=True, reports_prior=True,
            ),
        ),
        Contender(
            "drpu", "DRPUClassifier, as trained", NOTHING,
            classifier(lambda s, seed: drpu.DRPUClassifier(scenario=SINGLE, random_state=seed)),
        ),
        Contender(
            "drpu", "NNPUClassifier", PRIOR,
            classifier(
                lambda s, seed: drpu.NNPUClassifier(prior=s.prior, scenario=SINGLE, random_state=seed)
            ),
        ),
        Contender(
            "drpu", "ElkanNotoClassifier", NOTHING,
            classifier(
                lambda s, seed: drpu.ElkanNotoClassifier(scenario=SINGLE, random_state=seed),
                reports_prior=True,
            ),
        ),
        Contender(
            "scikit-learn", "RandomForestClassifier", LABELS,
            classifier(lambda s, seed: forest(seed), fit=lambda clf, s: clf.fit(s.X, s.y_true)),
        ),
    ]  # fmt: skip


def pulearn() -> list[Contender]:
    """All classifiers of pulearn, and its two prior estimators that use the rows."""
    makers: list[tuple[str, str, Callable[[Sample, int], Any]]] = [
        ("ElkanotoPuClassifier, forest", NOTHING,
         lambda s, seed: _pulearn("ElkanotoPuClassifier", forest(seed), random_state=seed)),
        ("ElkanotoPuClassifier, SVC of its README", NOTHING,
         lambda s, seed: _pulearn(
             "ElkanotoPuClassifier", readme_machine(seed), hold_out_ratio=0.2, random_state=seed)),
        ("WeightedElkanotoPuClassifier, forest", "counts of the training rows",
         lambda s, seed: _pulearn(
             "WeightedElkanotoPuClassifier", forest(seed), s.labelled, s.unlabeled, random_state=seed)),
        ("BaggingPuClassifier, defaults", NOTHING,
         lambda s, seed: _pulearn("BaggingPuClassifier", random_state=seed)),
        ("BaggingPuClassifier, 15 forests, balanced bags", NOTHING,
         lambda s, seed: _pulearn(
             "BaggingPuClassifier", forest(seed), 15, max_samples=s.labelled, random_state=seed)),
        ("NNPUClassifier", REST,
         lambda s, seed: _pulearn("NNPUClassifier", s.rest, random_state=seed)),
        ("PositiveNaiveBayesClassifier", NOTHING,
         lambda s, seed: _pulearn("PositiveNaiveBayesClassifier")),
        ("WeightedNaiveBayesClassifier", NOTHING,
         lambda s, seed: _pulearn("WeightedNaiveBayesClassifier")),
        ("PositiveTANClassifier", NOTHING, lambda s, seed: _pulearn("PositiveTANClassifier")),
        ("WeightedTANClassifier", NOTHING, lambda s, seed: _pulearn("WeightedTANClassifier")),
    ]  # fmt: skip
    return [
        *(Contender("pulearn", name, told, classifier(make)) for name, told, make in makers),
        *(
            Contender("pulearn", name, NOTHING, mixture(_pulearn_share(name)))
            for name in ("HistogramMatchPriorEstimator", "ScarEMPriorEstimator")
        ),
    ]


def toolbox() -> list[Contender]:
    """The methods of pu-toolbox for numeric rows with labelled positives only."""
    told_prior = ("NonNegativePUClassifier", "DistPUClassifier", "SelfPUClassifier", "UPUClassifier",
                  "InfoMaxPUClassifier", "WeightedContrastivePUClassifier")  # fmt: skip
    told_noise = ("LDCEClassifier", "KLDCEClassifier")
    told_nothing = ("ElkanNotoClassifier", "LLSVMClassifier")

    def make(name: str, options: Callable[[Sample], dict[str, Any]]) -> Callable[[Sample, int], Outcome]:
        return classifier(lambda s, seed: _toolbox(name, random_state=seed, **options(s)))

    def contender(name: str, told: str, run: Callable[[Sample, int], Outcome]) -> Contender:
        slow = name in ("PUSBKernelClassifier", "WeightedContrastivePUClassifier")
        return Contender("pu-toolbox", name, told, run, seeds=1 if slow else None)

    pipeline = classifier(lambda s, seed: _toolbox("PUPipeline", random_state=seed), fit=_pipeline)
    kernel = classifier(
        lambda s, seed: _toolbox("PUSBKernelClassifier", random_state=seed),
        fit=lambda clf, s: clf.fit(s.X, s.y, class_prior=s.prior),
    )
    return [
        contender("PUPipeline, defaults", NOTHING, pipeline),
        *(contender(n, NOTHING, make(n, lambda s: {})) for n in told_nothing),
        *(
            contender(n, NOTHING, classifier(lambda s, seed, n=n: _toolbox(n)))  # type: ignore[misc]
            for n in ("LBEClassifier", "PUSBClassifier")
        ),
        *(contender(n, PRIOR, make(n, lambda s: {"class_prior": s.prior})) for n in told_prior),
        # Most of these methods assume two samples, where the unlabeled rows are the population.
        *(contender(n, REST, make(n, lambda s: {"class_prior": s.rest})) for n in told_prior[:-1]),
        *(
            contender(n, NOISE, make(n, lambda s: {"flip_probability": 1 - s.labelled / s.y_true.sum()}))
            for n in told_noise
        ),
        contender("PUSBKernelClassifier", PRIOR, kernel),
        contender("ClassPriorEstimator (penL1)", NOTHING, mixture(_toolbox_share("ClassPriorEstimator"))),
        contender(
            "KernelMeanPriorEstimator (KM2)", NOTHING,
            mixture(_toolbox_share("KernelMeanPriorEstimator", variant="km2", random_state=0)),
        ),
        contender("ReCPEEstimator", NOTHING, mixture(_toolbox_share("ReCPEEstimator"))),
    ]  # fmt: skip


PEERS: dict[str, Callable[[], list[Contender]]] = {
    "pulearn": pulearn,
    "pu-toolbox": toolbox,
    "QuaPy": lambda: [Contender("QuaPy", "EMQ, logistic regression", LABELS, quantifier)],
}


def installed() -> dict[str, str]:
    """Versions of the installed libraries; prints a line for every other one."""
    found = {}
    for library, module in MODULES.items():
        if find_spec(module) is None:
            print(f"{library} is not installed, so its rows are left out. Run: pip install {library.lower()}")
        else:
            found[library] = version(library)
    return found


def compete(contenders: list[Contender], sample: Sample, seed: int) -> list[dict[str, Any]]:
    """Results of all methods on one sample, with the times of the first; errors are kept as text."""
    rows: list[dict[str, Any]] = []
    for c in contenders:
        if c.seeds is not None and seed >= c.seeds:
            continue
        row: dict[str, Any] = {"library": c.library, "name": c.name, "told": c.told, "seed": seed}
        row["prior"] = sample.prior
        try:
            row |= asdict(c.run(sample, seed))
        except (ValueError, RuntimeError, TypeError) as error:
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"
        rows.append(row)
    for row in rows:
        row["first_seconds"] = [rows[0]["fit_seconds"], rows[0]["predict_seconds"]]
    return rows


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line per method, in order; times are compared with the first one."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["library"], row["name"], row["told"]), []).append(row)
    first = {row["seed"]: row for row in next(iter(groups.values()))}
    lines = []
    for (library, name, told), mine in groups.items():
        line = {"library": library, "name": name, "told": told, "seeds": len(mine)}
        errors = [row["error"] for row in mine if "error" in row]
        if errors:
            lines.append(line | {"failed": len(errors), "error": errors[0]})
        else:
            lines.append(line | _accuracies(mine, first) | _prior_errors(mine) | _times(mine))
    return lines


def _accuracies(mine: list[dict[str, Any]], first: dict[int, dict[str, Any]]) -> dict[str, Any]:
    if mine[0]["accuracy"] is None:
        return {}
    accuracy = np.array([row["accuracy"] for row in mine])
    means = accuracy.mean(axis=1)
    error = float(means.std(ddof=1) / np.sqrt(len(mine))) if len(mine) > 1 else None
    return {
        "accuracy": accuracy.mean(axis=0).tolist(),
        "accuracy_mean": float(means.mean()),
        "accuracy_standard_error": error,
        "ahead_of_first": int(np.sum(means > [np.mean(first[row["seed"]]["accuracy"]) for row in mine])),
    }


def _prior_errors(mine: list[dict[str, Any]]) -> dict[str, float]:
    errors = {}
    if mine[0]["train_prior"] is not None:
        errors["train_prior_error"] = np.mean([abs(row["train_prior"] - row["prior"]) for row in mine])
    if mine[0]["test_priors"] is not None:
        errors["test_prior_error"] = np.mean(np.abs(np.array([r["test_priors"] for r in mine]) - PRIORS))
    return {name: float(error) for name, error in errors.items()}


def _times(mine: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds of the first method divided by those of this one: the median over seeds."""
    first = np.array([row["first_seconds"] for row in mine])
    ratios = first / [[row["fit_seconds"], row["predict_seconds"]] for row in mine]
    return dict(zip(("fit_ratio", "predict_ratio"), np.median(ratios, axis=0).tolist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--again", nargs="+", default=[], help="libraries or classifiers to run again; other rows are kept"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # few positives are intended here, and other libraries warn often

    peers = installed()
    if not peers:
        print("None of the other libraries is installed; the result file is not changed.")
        return
    contenders = [*ours(), *(c for library in peers for c in PEERS[library]())]
    kept: dict[str, list[dict[str, Any]]] = {}
    if options.again:
        contenders = [contenders[0], *(c for c in contenders[1:] if {c.library, c.name} & {*options.again})]
        before = read_results("peers")
        peers = before["peers"] | peers
        kept = {
            name: [r for r in part["trials"] if not {r["library"], r["name"]} & {*options.again}]
            for name, part in before["sets"].items()
        }
    _import_all(peers)
    sets = {name: {"summary": summary(rows), "trials": rows} for name, rows in kept.items()}
    command = f"python -m benchmarks.peers --seeds {options.seeds}"
    for name in DATA:
        X, y = load(name)
        rows = kept.get(name, [])
        for seed in range(options.seeds):
            new = compete(contenders, draw(X, y, seed), seed)
            rows += new[1:] if options.again else new
            print(f"{name}, seed {seed} done", flush=True)
        sets[name] = {"summary": summary(rows), "trials": rows}
    again = sorted({*before.get("again", []), *options.again}) if options.again else []
    print("wrote", write_results("peers", command, again=again, peers=peers, priors=PRIORS, sets=sets))


def _import_all(peers: dict[str, str]) -> None:
    """Import everything now, so that import times are not part of fitting times."""
    for module in ("torch", "lightgbm", *(MODULES[library] for library in peers)):
        if find_spec(module) is not None:
            import_module(module)


if __name__ == "__main__":
    main()
