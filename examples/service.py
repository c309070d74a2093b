"""A classifier as a web service, with the prior and the cost in the address.

python service.py fraud.drpu 8000
curl 'localhost:8000/predict?prior=0.02&cost=0.8' -d '[{"amount": 120, "land": "FR"}]'
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pandas as pd

from drpu import load


def make_server(classifier, port):
    """A server that labels rows sent as JSON; each row is treated alone."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            try:
                asked = {
                    name: float(value)
                    for name, value in parse_qsl(urlsplit(self.path).query)
                }
                at = classifier.at_prior(
                    asked.get("prior", classifier.prior_), cost=asked.get("cost")
                )
                rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                found = at.outputs(pd.DataFrame(rows))
                self.answer(
                    200,
                    {name: found[name].tolist() for name in ("label", "probability")},
                )
            except (
                TypeError,
                ValueError,
            ) as error:  # all errors of drpu about data are of these types
                self.answer(400, {"error": str(error)})

        def answer(self, status, content):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_):
            """Write no log, which would contain rows and addresses."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    make_server(load(sys.argv[1]), int(sys.argv[2])).serve_forever()
