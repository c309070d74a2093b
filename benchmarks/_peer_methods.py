"""Methods of drpu and of other libraries for ``benchmarks.peers``, and how one of them is run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

import drpu

SINGLE = "single-sample"
NOTHING, PRIOR, REST = "nothing", "training prior", "share in the unlabeled rows"
NOISE, LABELS = "share of positives without label", "every true label"


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
