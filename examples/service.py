"""A classifier as a web service: ``python service.py fraud.drpu 8000``."""

import json
from functools import partial
from sys import argv
from urllib.parse import parse_qsl
from wsgiref.simple_server import make_server

import pandas as pd

from drpu import load


def app(classifier, request, start):
    """Label rows that are sent as JSON: a WSGI application, each row treated alone."""
    try:
        asked = {name: float(x) for name, x in parse_qsl(request["QUERY_STRING"])}
        at = classifier.at_prior(asked.pop("prior", classifier.prior_), **asked)
        rows = request["wsgi.input"].read(int(request["CONTENT_LENGTH"]))
        found = at.outputs(pd.DataFrame(json.loads(rows)))
        status, names = "200 OK", ("label", "probability")
        content = {name: found[name].tolist() for name in names}
    except (TypeError, ValueError) as error:  # every error of drpu about data
        status, content = "400 Bad Request", {"error": str(error)}
    start(status, [("Content-Type", "application/json")])
    return [json.dumps(content).encode()]


if __name__ == "__main__":
    make_server("127.0.0.1", int(argv[2]), partial(app, load(argv[1]))).serve_forever()
