"""Audits end to end: plans, both priors, performance, and the test of the labelled sample."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from drpu import Audit, DRPUClassifier, PriorMonitor, load, save
from drpu.exceptions import ContradictionWarning, LabelledSampleWarning, heard
from drpu.state.population import row_digest

# 5 % of fair labels are rejected.
pytestmark = pytest.mark.filterwarnings("ignore::drpu.exceptions.LabelledSampleWarning")


def holds(prior, truth):
    """Whether the truth is within about four standard deviations: one seed must not miss it."""
    half = (prior.high - prior.low) / 2
    return prior.low - half <= truth <= prior.high + half


# -- plans -------------------------------------------------------------------------------------


def test_a_narrower_interval_takes_more_rows(audit_clf, audit_data):
    wide, narrow = (
        audit_clf.plan_audit(audit_data.test, width=width, random_state=0) for width in (0.15, 0.08)
    )
    assert wide.n < narrow.n
    assert wide.expected_width <= 0.15
    assert narrow.expected_width <= 0.08


def test_training_rows_are_recognised(audit_clf, audit_data):
    assert audit_clf.plan_audit(audit_data.unlabeled, n=5).population == "unlabeled"
    assert audit_clf.plan_audit(audit_data.unlabeled[::-1], n=5).population == "unlabeled"
    assert audit_clf.plan_audit(audit_data.X_y()[0], n=5).population == "fitted"
    assert audit_clf.plan_audit(audit_data.unlabeled[:-1], n=5).population == "auto"
    assert audit_clf.plan_audit(audit_data.test, n=5).population == "auto"


def test_the_digest_knows_rows_and_not_their_order():
    X = np.random.default_rng(0).normal(size=(50, 3))
    assert row_digest(X) == row_digest(X[::-1].copy())
    assert row_digest(X) != row_digest(np.column_stack([X[:, 1], X[:, 0], X[:, 2]]))
    assert row_digest(X) != row_digest(np.vstack([X[:-1], X[:1]]))
    S = sparse.random(30, 8, 0.3, format="csr", random_state=0)
    assert row_digest(S) == row_digest(S[::-1])
    assert row_digest(S) != row_digest(S[:, ::-1])


def test_a_plan_shows_itself(plan):
    assert "n=120" in repr(plan)
    html = plan._repr_html_()
    assert "120 of 3,000" in html
    assert html.count("<tr>") == 1 + len(plan.strata.rows)


# -- priors -----------------------------------------------------------------------------------


def test_one_audit_gives_both_priors(june, audit_data):
    # 120 answers: a standard deviation of about .03 here, and the limits are 95 % ones.
    assert june.test_prior_.method == june.train_prior_.method == "audit"
    assert june.test_prior_.identified
    assert holds(june.test_prior_, 0.15)
    assert holds(june.train_prior_, 0.4)
    assert june.prior_ == june.test_prior_
    before = june.before_audit_
    assert before[0].method != "audit"
    assert before[1].high - before[1].low > june.test_prior_.high - june.test_prior_.low


def test_answers_about_training_rows_give_the_training_prior_directly(audit_clf, audit_data):
    truth = audit_data.unlabeled_labels
    plan = audit_clf.plan_audit(audit_data.unlabeled, n=120, random_state=1)
    trained = audit_clf.adapt(audit_data.unlabeled, audit=plan.answer(truth[plan.rows]))
    assert trained.train_prior_ == trained.test_prior_
    assert trained.fairness_test_ is None
    assert holds(trained.train_prior_, 0.4)


def test_later_months_use_the_audited_training_prior(audit_clf, june, audit_data, tmp_path):
    july = june.adapt(audit_data.test)
    assert july.train_prior_ == june.train_prior_
    assert abs(july.test_prior_.value - june.test_prior_.value) < 0.05  # the same rows, by counts alone
    assert june.at_prior(0.3).train_prior_ == june.train_prior_
    monitor = PriorMonitor(june)
    assert monitor.update(audit_data.test).prior == july.test_prior_
    save(june, tmp_path / "june.drpu")
    kept = load(tmp_path / "june.drpu", trusted=True)
    assert kept.train_prior_ == june.train_prior_
    assert kept.test_prior_ == june.test_prior_
    assert kept.adapt(audit_data.test).test_prior_ == july.test_prior_
    assert audit_clf.train_prior_.method != "audit"  # the classifier itself is not changed


def test_ratios_stay_below_the_ceiling_of_the_audited_prior(june, audit_data):
    assert june.ratio(audit_data.test).max() <= 1 / june.train_prior_.value + 1e-9


def test_audits_add_up(audit_clf, audit_data, audit, june):
    more = audit_clf.plan_audit(audit_data.test, n=120, random_state=7)
    both = audit_clf.adapt(audit_data.test, audit=audit + more.answer(audit_data.test_labels[more.rows]))
    assert (audit + more.answer(audit_data.test_labels[more.rows])).n > 230  # a row of both plans counts once
    width, single = (x.test_prior_.high - x.test_prior_.low for x in (both, june))
    assert width < 0.85 * single  # about 1 / sqrt(2)
    assert holds(both.train_prior_, 0.4)


def test_two_random_audits_of_the_same_rows_are_one(audit_clf, audit_data):
    X, at = audit_data.test, np.random.RandomState(0).choice(3000, 50, replace=False)
    parts = [Audit.random(rows, audit_data.test_labels[rows]) for rows in (at[:20], at[20:], at)]
    one, two = (audit_clf.adapt(X, audit=audit).test_prior_ for audit in (parts[2], parts[0] + parts[1]))
    assert_allclose([two.value, two.low, two.high], [one.value, one.low, one.high])


def test_another_month_counts_through_its_own_counts(audit_clf, audit_data, audit):
    may = audit_clf.plan_audit(audit_data.unlabeled, n=120, random_state=2)
    answers = may.answer(audit_data.unlabeled_labels[may.rows])
    both = audit_clf.adapt(audit_data.test, audit=audit + answers)
    assert holds(both.train_prior_, 0.4)
    assert holds(both.test_prior_, 0.15)


def test_simple_random_samples_can_be_positions_or_rows(audit_clf, audit_data):
    at = np.random.RandomState(0).choice(len(audit_data.test), 150, replace=False)
    labels = audit_data.test_labels[at]
    by_place = audit_clf.adapt(audit_data.test, audit=Audit.random(at, labels))
    by_value = audit_clf.adapt(audit_data.test, audit=Audit.random(audit_data.test[at], labels))
    assert by_place.test_prior_ == by_value.test_prior_
    # the map of the log-odds assists the plain mean, within its standard error of about .03
    assert_allclose(by_place.test_prior_.value, labels.mean(), atol=0.03)


def test_counts_are_as_good_as_rows(audit_clf, audit_data, audit, june):
    counted = audit_clf.adapt(audit_clf.count(audit_data.test), audit=audit).test_prior_
    # cells of the counts have one probability each
    assert_allclose(counted.value, june.test_prior_.value, atol=0.002)
    assert (counted.low, counted.high) == (june.test_prior_.low, june.test_prior_.high)


def test_single_samples_refer_to_the_population(audit_data):
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.4
    X = rng.normal(size=(3000, 2)) + 2.5 * y[:, None]
    labelled = y & (rng.random(3000) < 0.3)
    audit_clf = DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit(X, labelled)
    rest = X[~labelled]
    plan = audit_clf.plan_audit(rest, n=150, random_state=0)
    audited = audit_clf.adapt(rest, audit=plan.answer(y[~labelled][plan.rows]))
    assert holds(audited.train_prior_, 0.4)
    fraction = audit_clf.fitted_.population.labelled_fraction
    assert_allclose(
        audited.train_prior_.value, fraction + (1 - fraction) * audited.test_prior_.value, atol=1e-9
    )


# -- performance ------------------------------------------------------------------------------


def test_expected_performance_belongs_together_and_is_kept_in_files(june, audit, tmp_path):
    expected = june.expected_performance()
    assert june.evaluation_ == june.evaluate(audit)
    found = expected.precision.value * expected.flagged.value
    assert_allclose(found, june.prior_.value * expected.recall.value, rtol=1e-6)
    for name in ("accuracy", "precision", "recall", "cost"):
        figure = getattr(expected, name)
        assert figure.low <= figure.value <= figure.high
        measured = getattr(june.evaluation_, name)  # by the answers alone
        assert measured.low <= figure.high
        assert measured.high >= figure.low
    save(june, tmp_path / "june.drpu")
    back = load(tmp_path / "june.drpu", trusted=True)
    assert back.expected_performance() == expected


# -- fairness of the labels -----------------------------------------------------------------------


def test_labels_of_the_clearest_positives_are_reported():
    rng = np.random.default_rng(4)
    pool = rng.normal(size=(4000, 2)) + 1.2
    clear = pool[np.argsort(pool.sum(axis=1))[-1200:]]  # the top 30 % of the positives were labelled
    y = rng.random(6000) < 0.4
    X = rng.normal(size=(6000, 2)) + 1.2 * y[:, None]
    with heard():
        audit_clf = DRPUClassifier("classifier", random_state=0).fit_pu(clear[:500], X[:3000])
    plan = audit_clf.plan_audit(X[3000:], n=100, random_state=0)
    with pytest.warns(LabelledSampleWarning, match="score higher.*too low.*too high.*labelling_weights"):
        audited = audit_clf.adapt(X[3000:], audit=plan.answer(y[3000:][plan.rows]))
    assert holds(audited.test_prior_, 0.4)  # answers do not need fair labels


def test_weights_for_known_chances_repair_the_sample_and_keep_the_labelled_fraction():
    rng = np.random.default_rng(5)
    y = rng.random(6000) < 0.5
    X = rng.normal(size=(6000, 1)) + 3.0 * y[:, None]
    chance = np.where(X[:, 0] > 3.0, 0.4, 0.1)  # clear cases are labelled four times as often
    labelled = y & (rng.random(6000) < chance)
    with heard():
        plain, weighted = (
            DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit_pu(
                X[labelled], X[~labelled], positive_weight=weight
            )
            for weight in (None, 1 / chance[labelled])
        )
    assert_allclose(weighted.fitted_.population.labelled_fraction, plain.fitted_.population.labelled_fraction)
    assert abs(weighted.train_prior_.value - 0.5) < abs(plain.train_prior_.value - 0.5)


def test_a_later_reading_far_from_the_answers_is_told(audit_clf, audit_data, june):
    """Rows that look positive, without answers of their own: the audited share was 15 %."""
    high = audit_data.test[audit_data.test_labels == 1]
    with pytest.warns(ContradictionWarning, match="answers gave"):
        june.adapt(high)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ContradictionWarning)
        again = june.adapt(audit_data.test)  # the audited rows themselves
    assert again.prior_.low <= june.prior_.value <= again.prior_.high
