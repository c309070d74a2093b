"""The output of a command of the command line."""

import json


def answer(result):
    """The JSON object that a command printed; it must have succeeded."""
    code, out, err = result
    assert code == 0, err
    return json.loads(out)


def refused(result, words):
    """The error of a command, one line with these words; nothing else was printed."""
    code, out, err = result
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    return err
