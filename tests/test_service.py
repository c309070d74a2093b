"""The service of the examples answers over the loopback as Python does."""

import json
import runpy
import threading
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
from numpy.testing import assert_allclose

from drpu import load, save
from fraud_data import fraud_classifier, payments

SOURCE = Path(__file__).parents[1] / "examples" / "service.py"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    path = tmp_path_factory.mktemp("service") / "fraud.drpu"
    save(fraud_classifier(), path)
    return load(path)


class Quiet(WSGIRequestHandler):
    def log_message(self, *_):
        """Tests print nothing."""


@pytest.fixture(scope="module")
def address(classifier):
    module = runpy.run_path(str(SOURCE))
    server = make_server("127.0.0.1", 0, partial(module["app"], classifier), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/predict"
    server.shutdown()
    thread.join()
    server.server_close()


def ask(address, content):
    with urllib.request.urlopen(address, json.dumps(content).encode(), timeout=30) as answer:
        return json.loads(answer.read())


def test_answers_are_those_of_the_classifier_at_the_prior_and_cost_asked_for(classifier, address):
    new = payments(20, 0.2, 2)
    at = classifier.at_prior(0.05).at_cost(0.8)
    found = ask(f"{address}?prior=0.05&cost=0.8", new.to_dict(orient="records"))
    assert_allclose(found["probability"], at.predict_proba(new)[:, 1])
    assert found["label"] == at.predict(new).tolist()
    alone = ask(address, new.iloc[:1].to_dict(orient="records"))
    assert_allclose(alone["probability"], classifier.predict_proba(new.iloc[:1])[:, 1])


@pytest.mark.parametrize(
    ("query", "content", "message"),
    [
        ("?prior=7", [{"amount": 1, "country": "FR"}], "prior must lie between 0 and 1"),
        ("?prior=x", [{"amount": 1, "country": "FR"}], "could not convert"),
        ("?share=0.1", [{"amount": 1, "country": "FR"}], "share"),
        ("", [{"amount": 1}], "'country'"),
        ("", [{"amount": "much", "country": "FR"}], "'amount' had numbers"),
    ],
)
def test_bad_requests_are_answered_with_the_reason(address, query, content, message):
    with pytest.raises(urllib.error.HTTPError) as caught:
        ask(address + query, content)
    with caught.value as answer:
        assert answer.code == 400
        assert message in json.loads(answer.read())["error"]


def test_the_example_is_short():
    assert len(SOURCE.read_text().splitlines()) < 40
