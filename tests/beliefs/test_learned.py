"""The coefficients in the package are those that the command writes, and they say where they are from."""

import json
from importlib.resources import files

import numpy as np
import pytest
from numpy.testing import assert_allclose

from drpu.beliefs.density import learned_density

MOST_BYTES = 50_000
README_SETS = ("breast_cancer", "digits", "optdigits")


@pytest.fixture(scope="module")
def text():
    return files("drpu.beliefs").joinpath("learned.json").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def record(text):
    return json.loads(text)["training_prior"]


def test_the_file_is_small(text):
    assert len(text.encode()) < MOST_BYTES


def test_every_evidence_has_a_name_a_unit_and_a_range(record):
    for line in record["evidence"]:
        assert line["name"]
        assert line["unit"]
        assert line["low"] <= line["centre"] <= line["high"]
        assert line["low"] <= line["missing"] <= line["high"]
        assert line["scale"] > 0
        assert line["is_count"] in (0, 1)


def test_the_file_says_what_it_was_learned_from_and_how(record):
    assert record["command"] == "python -m benchmarks.learn"
    assert record["commit"]
    assert record["tables"] == sorted(set(record["tables"]))
    assert record["fits"] > len(record["tables"]) > 100
    assert record["simulated"] > 0
    assert 0 < record["score_of_tables_left_out"] < 0.25


def test_sets_of_the_readme_are_not_among_the_tables(record):
    assert not set(README_SETS) & set(record["tables"])


def test_coefficients_are_finite_and_fit_the_evidence(record):
    density = learned_density("training_prior")
    columns = density.columns(density.centre[None])
    assert density.coefficients.shape == (6, columns.shape[1])
    assert np.isfinite(density.coefficients).all()
    assert {record["base"], *record["factors"]} < set(density.names)


@pytest.mark.checkout
def test_the_command_writes_the_coefficients_of_the_package():
    from benchmarks.learn import evidence_names, learn, read_evidence

    pool = read_evidence()
    names = evidence_names(pool)
    again = learn(pool, names)
    package = learned_density("training_prior")
    assert package.names == again.names
    # the file has five digits after the point
    assert_allclose(package.coefficients, again.coefficients, atol=1e-3)
    for field in ("low", "high", "centre", "scale", "missing", "counts"):
        assert_allclose(getattr(package, field), getattr(again, field), atol=1e-5)


@pytest.mark.checkout
def test_the_committed_evidence_is_that_of_the_tables(record):
    from benchmarks.learn import read_evidence

    pool = read_evidence()
    real = pool[pool["learner"] != "simulated"]
    assert sorted(real["table"].unique()) == record["tables"]
    assert (len(real), len(pool) - len(real)) == (record["fits"], record["simulated"])
    assert not set(README_SETS) & set(pool["table"])


@pytest.mark.checkout
def test_no_source_is_on_both_sides_of_a_fold():
    from benchmarks.learn import folds_of, read_evidence

    pool = read_evidence()
    pool["fold"] = folds_of(pool)
    assert (pool.groupby("source")["fold"].nunique() == 1).all()
    assert pool["fold"].nunique() > 1
