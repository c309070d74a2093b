"""The output of a command of the command line."""

import json


def answer(result):
    """The JSON object that a command printed; it must have succeeded."""
    code, out, err = result
    assert code == 0, err
    return json.loads(out)
