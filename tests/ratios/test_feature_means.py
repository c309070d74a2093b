"""Priors by matching means of random features."""

from dataclasses import replace

import numpy as np
import pytest

from codec_laws import check_edits, round_trip
from drpu import DRPUClassifier, make_gaussian_pu
from drpu._samples import Sample, SamplePair
from drpu.exceptions import DataError, ParameterError
from drpu.ratios.feature_means import FeatureMeans

quiet = pytest.mark.filterwarnings("ignore::drpu.exceptions.SeparationWarning")


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(
        400, 2000, prior=0.4, test_prior=0.15, n_test=2000, separation=3, random_state=0
    )  # fmt: skip


@pytest.fixture(scope="module")
def means(data):
    return FeatureMeans.of(SamplePair(Sample(data.positive), Sample(data.unlabeled)))


def test_means_of_the_training_rows_have_the_training_prior(data, means):
    assert means.prior(Sample(data.unlabeled), 0.4) == pytest.approx(0.4, abs=1e-9)
    assert means.prior(Sample(data.positive), 0.4) == pytest.approx(1.0, abs=1e-9)


def test_the_prior_of_new_rows_is_matched(data, means):
    # A row says about as much as a label here; three standard errors of 400, 2000 and 2000 rows.
    assert abs(means.prior(Sample(data.test), 0.4) - 0.15) < 0.05


def test_weights_count_as_repeated_rows(data, means):
    rows, weight = data.test[:30], np.arange(30) % 3 + 1
    priors = [means.prior(sample, 0.4) for sample in (
        Sample(rows, weight.astype(float)), Sample(np.repeat(rows, weight, axis=0)))]  # fmt: skip
    assert priors[0] == pytest.approx(priors[1])


def test_means_come_back_from_a_file(data, means):
    assert round_trip(means).prior(Sample(data.test), 0.4) == means.prior(Sample(data.test), 0.4)
    check_edits(means)
    with pytest.raises(DataError, match="random features"):
        replace(means, positive=np.zeros(3))


@quiet
def test_classifiers_adapt_by_kernel_matching(data):
    clf = DRPUClassifier("kernel", adapt_method="kernel-matching", random_state=0)
    clf.fit_pu(data.positive, data.unlabeled)
    june = clf.adapt(data.test)
    assert june.prior_.method == "kernel-matching"
    assert abs(june.prior_.value - 0.15) < 0.08
    with pytest.raises(ParameterError, match="needs rows, not counts"):
        clf.adapt(clf.count(data.test))


@quiet
def test_rows_with_gaps_are_refused(data):
    rows = data.unlabeled.copy()
    rows[0, 0] = np.nan
    with pytest.raises(ParameterError, match="without missing values"):
        FeatureMeans.of(SamplePair(Sample(data.positive), Sample(rows)))
