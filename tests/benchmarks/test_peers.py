"""The comparison with other libraries, run on substitutes: none of the libraries is needed."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import _peer_methods, peers
from benchmarks._peer_methods import Contender, Outcome, Sample, classifier, mixture
from benchmarks.peers import compete, draw, summary
from benchmarks.shift import PRIORS
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


def test_negatives_may_have_any_name(sample):
    (row,) = compete([sign()], sample, 0)
    assert min(row["accuracy"]) > 0.99


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


def test_slow_ones_run_on_fewer_seeds(sample):
    slow = Contender("fake", "Slow", "nothing", sign().run, seeds=1)
    assert [len(compete([slow], sample, seed)) for seed in (0, 1)] == [1, 0]


def test_times_are_those_of_the_first_over_its_own(sample):
    two = [
        Contender("fake", name, "nothing", lambda s, seed, t=t: Outcome(t, t / 2, [1.0] * 3))
        for name, t in (("first", 6.0), ("second", 2.0))
    ]
    lines = summary([row for seed in range(3) for row in compete(two, sample, seed)])
    assert [line["fit_ratio"] for line in lines] == [1, 3]
    assert [line["predict_ratio"] for line in lines] == [1, 3]
    assert [line["ahead_of_first"] for line in lines] == [0, 0]


def test_without_peers_a_sentence_is_printed_and_no_file_is_written(monkeypatch, capsys):
    monkeypatch.setattr(peers, "find_spec", lambda module: None)
    monkeypatch.setattr(peers, "write_results", lambda *_, **__: pytest.fail("a file was written"))
    monkeypatch.setattr("sys.argv", ["peers"])
    peers.main()
    said = capsys.readouterr().out
    for library in peers.MODULES:
        assert f"{library} is not installed" in said


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
