"""Laws of the samples on which rules of priors are measured."""

import numpy as np
import pandas as pd
import pytest

from benchmarks._fits import Sample, samples_of_dated_table, samples_of_table, training_rows, true_labels


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


def test_names_of_files_are_distinct():
    samples = [*samples_of_table(), *samples_of_dated_table()]
    assert len({sample.file_name for sample in samples}) == len(samples)


def test_a_table_that_is_too_small_has_no_sample(frame):
    sample = Sample("case-control", 0.8, sizes=(200, 500))
    assert training_rows("table", frame[:300], sample) is None
