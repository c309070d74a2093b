"""The benchmarks: peers, fits in processes, rules for priors, and the runs of scale."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from benchmarks import _peer_methods, peers
from benchmarks._fits import samples_of_dated_table, samples_of_table, training_rows, true_labels
from benchmarks._peer_methods import Contender, Outcome, Sample, classifier, mixture
from benchmarks._rules import em, scott
from benchmarks._scale_run import Runner, key
from benchmarks.peers import compete, draw, summary
from benchmarks.scale import exponents, gathered, reference
from benchmarks.shift import PRIORS
from drpu import ScoreTails
from drpu.priors.calibration import calibrate
from scripts import load_script


class Sign:
    """A substitute that predicts by the first column and labels negatives with -1."""

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture(scope="module")
def sample() -> Sample:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 300)
    return draw(rng.normal(np.where(y == 1, 3.0, -3.0)[:, None], 1, (600, 2)), y, 0)


def sign() -> Contender:
    return Contender("fake", "Sign", "nothing", classifier(lambda s, seed: Sign()))


def raising() -> Contender:
    def run(sample, seed):
        raise ValueError("no such luck")

    return Contender("fake", "Raising", "nothing", run)


def test_a_sample_has_three_tests_of_the_stated_priors_beside_its_training_rows(sample):
    assert sample.prior == pytest.approx(0.5, abs=0.01)
    assert sample.labelled == pytest.approx(0.3 * sample.y_true.sum(), abs=1)
    assert sample.rest == pytest.approx((0.5 - 0.15) / 0.85, abs=0.01)
    assert [truth.mean() for _, truth in sample.tests] == pytest.approx(list(PRIORS), abs=0.01)
    assert np.all(sample.y <= sample.y_true)


def test_an_exact_share_of_the_unlabeled_rows_gives_exact_priors(sample):
    outcome = mixture(lambda X, y, seed: float(np.mean(X[y == 0, 0] > 0)))(sample, 0)
    assert outcome.train_prior == pytest.approx(sample.prior, abs=0.01)
    assert outcome.test_priors == pytest.approx(list(PRIORS), abs=0.02)


def test_an_error_of_one_library_is_recorded_and_the_others_run(sample):
    rows = [*compete([sign(), raising()], sample, 0), *compete([sign(), raising()], sample, 1)]
    first, failed = summary(rows)
    assert failed["error"] == "ValueError: no such luck"
    assert failed["failed"] == failed["seeds"] == 2
    assert first["accuracy_mean"] > 0.99


def test_times_are_those_of_the_first_over_its_own(sample):
    two = [
        Contender("fake", name, "nothing", lambda s, seed, t=t: Outcome(t, t / 2, [1.0] * 3))
        for name, t in (("first", 6.0), ("second", 2.0))
    ]
    lines = summary([row for seed in range(3) for row in compete(two, sample, seed)])
    assert [line["fit_ratio"] for line in lines] == [1, 3]
    assert [line["predict_ratio"] for line in lines] == [1, 3]
    assert [line["ahead_of_first"] for line in lines] == [0, 0]


@pytest.mark.parametrize("library", peers.MODULES)
def test_naming_the_contenders_of_a_peer_imports_nothing(library, monkeypatch):
    monkeypatch.setattr(_peer_methods, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    assert all(c.library == library for c in peers.PEERS[library]())


@pytest.mark.checkout
def test_the_page_names_every_contender_of_the_file():
    results = load_script(Path(__file__).parents[2] / "docs" / "results.py")
    page = results.TABLES["peers"]() + results.TABLES["peer_priors"]()
    for part in results._read("peers")["sets"].values():
        for line in part["summary"]:
            assert line["name"] in page


# -- fits in processes -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    periods = np.sort(rng.integers(0, 12, 12_000))
    return pd.DataFrame({"a": rng.normal(size=12_000), "y": rng.random(12_000) < 0.4, "period": periods})


@pytest.mark.parametrize("samples", [samples_of_table, samples_of_dated_table])
def test_labelled_rows_are_positive_and_not_among_the_unlabeled_ones(frame, samples):
    for sample in samples():
        labelled, unlabeled = training_rows("table", frame, sample)
        assert true_labels(frame, sample)[labelled].all()
        assert not np.isin(labelled, unlabeled).any()


def test_samples_have_the_stated_priors(frame):
    for sample in samples_of_table():
        if sample.prior is None:
            continue
        labelled, unlabeled = training_rows("table", frame, sample)
        truth = true_labels(frame, sample)
        population = unlabeled if sample.protocol == "case-control" else np.r_[labelled, unlabeled]
        assert truth[population].mean() == pytest.approx(sample.prior, abs=0.002)


# -- rules for priors --------------------------------------------------------------------------------


scores = st.lists(st.integers(-5, 5), min_size=1, max_size=30)


def sample_of_rules(prior, n_positive=500, n=5000, apart=3.0, seed=0):
    rng = np.random.default_rng(seed)
    positives = rng.binomial(n, prior)
    unlabeled = np.concatenate([rng.normal(apart, 1, positives), rng.normal(0, 1, n - positives)])
    return ScoreTails(rng.normal(apart, 1, n_positive)).update(unlabeled)


def by_the_book(tails, level):
    """The smallest ratio over all thresholds, with limits from the binomial test of scipy."""
    n, m = int(tails.n), int(tails.n_positive)
    best = 1.0
    for a, b in zip(tails.survival, tails.positive_survival, strict=True):
        # A two-sided interval at this level leaves (1 - level)/2 beyond each end.
        upper = binomtest(round(a * n), n).proportion_ci(level).high
        lower = binomtest(round(b * m), m).proportion_ci(level).low
        best = min(best, upper / lower)
    return best


@settings(max_examples=25, deadline=None)
@given(positive=scores, unlabeled=scores, level=st.sampled_from([0.5, 0.9, 0.99]))
def test_prior_is_the_least_ratio_of_exact_limits(positive, unlabeled, level):
    tails = ScoreTails(positive).update(unlabeled)
    assert scott(tails, level) == pytest.approx(by_the_book(tails, level), rel=1e-9)


@pytest.mark.parametrize(("prior", "low", "high"), [(0.0, 0.0, 0.02), (0.3, 0.27, 0.4), (1.0, 0.9, 1.0)])
def test_mean_prior_is_near_the_truth_and_not_below(prior, low, high):
    mean = np.mean([scott(sample_of_rules(prior, seed=seed)) for seed in range(20)])
    assert low <= mean <= high


def later(n_positive, n, before, now, seed=0):
    """Counts of later rows, and of training rows."""
    reference = sample_of_rules(before, n_positive, n, 2.0, seed)
    return reference.empty().update(
        np.random.default_rng(seed + 1).normal(2 * (np.arange(n) < now * n), 1)
    ), reference


def test_em_is_where_expectation_maximisation_ends():
    tails, reference = later(300, 1500, 0.5, 0.2)
    posterior = np.clip(0.5 * calibrate(reference, 0.5).steps, 0, 1)
    share, q = tails.counts / tails.counts.sum(), 0.5
    for _ in range(5000):
        up, down = posterior * q / 0.5, (1 - posterior) * (1 - q) / 0.5
        q = share @ (up / (up + down))
    assert_allclose(em(tails, reference, 0.5), q, atol=1e-5)


@pytest.mark.parametrize("now", [0.0, 0.3, 1.0])
def test_em_finds_the_later_prior(now):
    assert abs(em(*later(2000, 10_000, 0.4, now), 0.4) - now) < 0.04


# -- runs of scale -----------------------------------------------------------------------------------


CASE = {"kind": "dense", "law": "steps", "rows": 100, "draw": 0}


class Counting(Runner):
    """A runner whose tasks take no time."""

    def __init__(self, **options):
        super().__init__(2, **options)
        self.ran = []

    def _run(self, task):
        if key(task) in self.known:
            return self.known[key(task)]
        self.ran.append(task["model"])
        result = {
            "auc": 0.8,
            "rounds": task.get("rounds", 7 if task["model"] == "auto" else 9),
            "seconds": 2.0,
        }
        return result | {"predict_microseconds": 1.0}


def test_a_run_goes_on_where_the_last_one_ended(tmp_path):
    records = tmp_path / "records.jsonl"
    tasks = [CASE | {"model": model} for model in ("auto", "boosted")]
    first = Counting(records=records)
    first.all(tasks[:1], reference)
    assert first.ran == ["auto"]  # the reference waits for the other
    second = Counting(records=records)
    second.all(tasks, reference)
    assert second.ran == ["boosted", "lightgbm"]
    third = Counting(records=records)
    found = gathered(tasks, third.all(tasks, reference))
    assert third.ran == []
    assert [json.loads(line)["task"]["model"] for line in records.read_text().splitlines()] == [
        "auto",
        "boosted",
        "lightgbm",
    ]
    assert found[0]["fit_ratio"] == 1
    assert found[0]["fits"][-1]["rounds"] == 9  # as many as the longer of the two


def test_nothing_starts_after_the_time_is_over():
    assert Runner(seconds=-1)(CASE | {"model": "auto"}) is None


def test_exponents_are_those_of_the_largest_sizes_of_the_first_law():
    def case(name, rows, seconds):
        return {"name": name, "rows": rows, "fits": [{"model": "auto", "seconds": seconds}]}

    cases = [case("steps", 1000, 30.0), case("waves", 10**6, 1.0)]
    cases += [case("steps", 10, 5.0), case("steps", 100, 3.0)]
    assert exponents(cases) == {"auto": pytest.approx(1.0)}
