"""The runner of the scale benchmark: nothing is measured twice, references follow their cases."""

import json

import pytest

from benchmarks._scale_run import Runner, key
from benchmarks.scale import exponents, gathered, reference

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
