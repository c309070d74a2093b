"""A classifier as a web service: ``python service.py fraud.drpu 8000``."""

import json
from functools import partial
from sys import argv
from urllib.parse import parse_qsl
from wsgiref.simple_server import make_server

from drpu import load


def answer(classifier, rows, prior=None, cost=None):
    """Labels and probabilities at the prior and the cost that were asked for."""
    at = classifier if prior is None else classifier.at_prior(prior)
    at = at if cost is None else at.at_cost(cost)
    probability = at.predict_proba(rows)[:, 1]
    return {"label": at.predict(rows).tolist(), "probability": probability.tolist()}


def app(classifier, request, start):
    """Label a row or a list of rows that are sent as JSON: a WSGI application."""
    try:
        asked = {name: float(x) for name, x in parse_qsl(request["QUERY_STRING"])}
        rows = request["wsgi.input"].read(int(request["CONTENT_LENGTH"]))
        content = answer(classifier, json.loads(rows), **asked)
        status = "200 OK"
    except (TypeError, ValueError) as error:  # every error of drpu about data
        status, content = "400 Bad Request", {"error": str(error)}
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(content).encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(argv[2]), partial(app, load(argv[1]))).serve_forever()
