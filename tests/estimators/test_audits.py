"""Audits end to end: plans, answers, both priors, performance, files and their errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from drpu import Audit, AuditPlan, DRPUClassifier, PriorMonitor, load, make_gaussian_pu, save
from drpu.estimators.audit_file import DESIGN, LABEL, ROW, audit_from_columns
from drpu.estimators.audit_labels import read_answers
from drpu.estimators.audit_rows import row_digest
from drpu.exceptions import (
    DataError,
    DataTypeError,
    DRPUWarning,
    LabelError,
    LabelledSampleWarning,
    MissingAnswersWarning,
    ParameterError,
)

OVERLAP = 1.6  # separation at which positives and unlabeled rows do not identify the prior


@pytest.fixture(scope="module")
def data():
    return make_gaussian_pu(
        400, 2000, prior=0.4, test_prior=0.15, n_test=3000, separation=OVERLAP, random_state=0
    )


@pytest.fixture(scope="module")
def clf(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        return DRPUClassifier("classifier", random_state=0).fit(*data.X_y())


@pytest.fixture(scope="module")
def plan(clf, data):
    return clf.plan_audit(data.test, n=120, random_state=0)


@pytest.fixture(scope="module")
def audit(plan, data):
    return plan.answer(data.test_labels[plan.rows])


@pytest.fixture(scope="module")
def june(clf, data, audit):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)  # 5 % of fair labels are rejected
        return clf.adapt(data.test, audit=audit)


def holds(prior, truth):
    """Whether the truth is within about four standard deviations: one seed must not miss it."""
    half = (prior.high - prior.low) / 2
    return prior.low - half <= truth <= prior.high + half


# -- plans -------------------------------------------------------------------------------------


def test_a_plan_is_the_same_for_the_same_seed(clf, data, plan):
    again = clf.plan_audit(data.test, n=120, random_state=0)
    assert_array_equal(again.rows, plan.rows)
    assert not np.array_equal(clf.plan_audit(data.test, n=120, random_state=1).rows, plan.rows)


def test_chances_add_up_to_the_number_of_rows_to_look_at(plan, data):
    assert plan.n == len(set(plan.rows.tolist())) == 120
    assert ((plan.chance > 0) & (plan.chance <= 1)).all()
    assert_allclose((plan.strata.rows * (plan.strata.planned / plan.strata.rows)).sum(), 120)
    assert plan.strata.rows.sum() == len(data.test)


def test_a_narrower_interval_takes_more_rows(clf, data):
    wide, narrow = (clf.plan_audit(data.test, width=width, random_state=0) for width in (0.15, 0.08))
    assert wide.n < narrow.n
    assert wide.expected_width <= 0.15
    assert narrow.expected_width <= 0.08


def test_a_plan_for_a_width_gives_about_that_width(clf, data):
    plan = clf.plan_audit(data.test, width=0.1, random_state=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        prior = clf.adapt(data.test, audit=plan.answer(data.test_labels[plan.rows])).test_prior_
    assert_allclose(prior.high - prior.low, 0.1, rtol=0.4)  # the answers decide the rest


def test_training_rows_are_recognised(clf, data):
    assert clf.plan_audit(data.unlabeled, n=5).population == "unlabeled"
    assert clf.plan_audit(data.unlabeled[::-1], n=5).population == "unlabeled"
    assert clf.plan_audit(data.X_y()[0], n=5).population == "fitted"
    assert clf.plan_audit(data.unlabeled[:-1], n=5).population == "auto"
    assert clf.plan_audit(data.test, n=5).population == "auto"


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


def test_one_audit_gives_both_priors(june, data):
    # 120 answers: a standard deviation of about .03 here, and the limits are 95 % ones.
    assert june.test_prior_.method == june.train_prior_.method == "audit"
    assert june.test_prior_.identified
    assert holds(june.test_prior_, 0.15)
    assert holds(june.train_prior_, 0.4)
    assert june.prior_ == june.test_prior_
    before = june.before_audit_
    assert before[0].method != "audit"
    assert before[1].high - before[1].low > june.test_prior_.high - june.test_prior_.low


def test_answers_about_training_rows_give_the_training_prior_directly(clf, data):
    truth = data.unlabeled_labels
    plan = clf.plan_audit(data.unlabeled, n=120, random_state=1)
    trained = clf.adapt(data.unlabeled, audit=plan.answer(truth[plan.rows]))
    assert trained.train_prior_ == trained.test_prior_
    assert trained.fairness_test_ is None
    assert holds(trained.train_prior_, 0.4)


def test_later_months_use_the_audited_training_prior(clf, june, data, tmp_path):
    july = june.adapt(data.test)
    assert july.train_prior_ == june.train_prior_
    assert abs(july.test_prior_.value - june.test_prior_.value) < 0.05  # the same rows, by counts alone
    assert june.at_prior(0.3).train_prior_ == june.train_prior_
    monitor = PriorMonitor(june)
    assert monitor.update(data.test).prior == july.test_prior_
    save(june, tmp_path / "june.drpu")
    kept = load(tmp_path / "june.drpu")
    assert kept.train_prior_ == june.train_prior_
    assert kept.test_prior_ == june.test_prior_
    assert kept.adapt(data.test).test_prior_ == july.test_prior_
    assert clf.train_prior_.method != "audit"  # the classifier itself is not changed


def test_ratios_stay_below_the_ceiling_of_the_audited_prior(june, data):
    assert june.ratio(data.test).max() <= 1 / june.train_prior_.value + 1e-9


def test_audits_add_up(clf, data, audit, june):
    more = clf.plan_audit(data.test, n=120, random_state=7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        both = clf.adapt(data.test, audit=audit + more.answer(data.test_labels[more.rows]))
    assert (audit + more.answer(data.test_labels[more.rows])).n == 240
    width, single = (x.test_prior_.high - x.test_prior_.low for x in (both, june))
    assert width < 0.85 * single  # about 1 / sqrt(2)
    assert holds(both.train_prior_, 0.4)


def test_another_month_counts_through_its_own_counts(clf, data, audit):
    may = clf.plan_audit(data.unlabeled, n=120, random_state=2)
    answers = may.answer(data.unlabeled_labels[may.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        both = clf.adapt(data.test, audit=audit + answers)
    assert holds(both.train_prior_, 0.4)
    assert holds(both.test_prior_, 0.15)


def test_simple_random_samples_can_be_positions_or_rows(clf, data):
    at = np.random.RandomState(0).choice(len(data.test), 150, replace=False)
    labels = data.test_labels[at]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        by_place = clf.adapt(data.test, audit=Audit.random(at, labels))
        by_value = clf.adapt(data.test, audit=Audit.random(data.test[at], labels))
    assert by_place.test_prior_ == by_value.test_prior_
    assert_allclose(by_place.test_prior_.value, labels.mean())


def test_counts_are_as_good_as_rows(clf, data, audit, june):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        assert clf.adapt(clf.count(data.test), audit=audit).test_prior_ == june.test_prior_


def test_single_samples_refer_to_the_population(data):
    rng = np.random.default_rng(0)
    y = rng.random(3000) < 0.4
    X = rng.normal(size=(3000, 2)) + 2.5 * y[:, None]
    labelled = y & (rng.random(3000) < 0.3)
    clf = DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit(X, labelled)
    rest = X[~labelled]
    plan = clf.plan_audit(rest, n=150, random_state=0)
    audited = clf.adapt(rest, audit=plan.answer(y[~labelled][plan.rows]))
    assert holds(audited.train_prior_, 0.4)
    fraction = clf.fitted_.labelled_fraction
    assert_allclose(
        audited.train_prior_.value, fraction + (1 - fraction) * audited.test_prior_.value, atol=1e-9
    )


# -- performance ------------------------------------------------------------------------------


def test_performance_from_answers_holds_the_truth(june, audit, data):
    truth, called = data.test_labels == 1, june.predict(data.test) == 1
    for found in (june.evaluate(audit), june.evaluate(data.test[:400], data.test_labels[:400])):
        for name, value in {
            "accuracy": (truth == called).mean(),
            "precision": truth[called].mean(),
            "recall": called[truth].mean(),
        }.items():
            figure = getattr(found, name)
            assert figure.low - 0.03 <= value <= figure.high + 0.03, name  # eight intervals of 95 % each
    assert june.evaluation_ == june.evaluate(audit)


def test_expected_performance_uses_what_is_known_best(june):
    low, high = june.expected_range()
    expected = june.expected_performance()
    for name in ("accuracy", "precision", "recall", "cost"):
        figure = getattr(june.evaluation_, name)
        assert getattr(high, name) - getattr(low, name) <= figure.high - figure.low + 1e-12
        assert getattr(low, name) - 1e-12 <= getattr(expected, name) <= getattr(high, name) + 1e-12


# -- fairness of the labels -----------------------------------------------------------------------


def test_labels_of_the_clearest_positives_are_reported():
    rng = np.random.default_rng(4)
    pool = rng.normal(size=(4000, 2)) + 1.2
    clear = pool[np.argsort(pool.sum(axis=1))[-1200:]]  # the top 30 % of the positives were labelled
    y = rng.random(6000) < 0.4
    X = rng.normal(size=(6000, 2)) + 1.2 * y[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        clf = DRPUClassifier("classifier", random_state=0).fit_pu(clear[:500], X[:3000])
    plan = clf.plan_audit(X[3000:], n=100, random_state=0)
    with pytest.warns(LabelledSampleWarning, match="score higher.*too low.*recall is too high"):
        audited = clf.adapt(X[3000:], audit=plan.answer(y[3000:][plan.rows]))
    assert holds(audited.test_prior_, 0.4)  # answers do not need fair labels


def test_weights_for_known_chances_repair_the_sample_and_keep_the_labelled_fraction():
    rng = np.random.default_rng(5)
    y = rng.random(6000) < 0.5
    X = rng.normal(size=(6000, 1)) + 3.0 * y[:, None]
    chance = np.where(X[:, 0] > 3.0, 0.4, 0.1)  # clear cases are labelled four times as often
    labelled = y & (rng.random(6000) < chance)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        plain, weighted = (
            DRPUClassifier("classifier", scenario="single-sample", random_state=0).fit_pu(
                X[labelled], X[~labelled], positive_weight=weight
            )
            for weight in (None, 1 / chance[labelled])
        )
    assert_allclose(weighted.fitted_.labelled_fraction, plain.fitted_.labelled_fraction)
    assert abs(weighted.train_prior_.value - 0.5) < abs(plain.train_prior_.value - 0.5)


# -- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        ([True, False], [0, 1], [1, 0]),
        ([1, 0, 1], [0, 1], [1, 0, 1]),
        (np.array([1.0, 0.0]), [0, 1], [1, 0]),
        (["fraud", "ok"], ["ok", "fraud"], [1, 0]),
        ([1, 0], ["ok", "fraud"], [1, 0]),
        ([2, 1, 2], [1, 2], [1, 0, 1]),
        ([0, 1], [1, 2], [0, 1]),
        ([0, 1], [1, 0], None),  # the positive class is called 0: ambiguous beside 1 and 0
        ([True, False], [1, 0], [1, 0]),
        ([1], [1, 2], None),
    ],
)
def test_answers_come_in_any_coding_that_has_one_meaning(labels, classes, expected):
    if expected is None:
        with pytest.raises(LabelError, match="True for positive"):
            read_answers(labels, np.array(classes))
        return
    answered, positive = read_answers(labels, np.array(classes))
    assert answered.all()
    assert_array_equal(positive, np.array(expected, bool))


def test_none_and_nan_mean_no_answer():
    answered, positive = read_answers([1, None, float("nan"), 0], np.array([0, 1]))
    assert_array_equal(answered, [True, False, False, True])
    assert_array_equal(positive, [True, False])


def test_missing_answers_are_counted_and_told(plan, data):
    labels = data.test_labels[plan.rows].astype(float)
    labels[:20] = np.nan
    with pytest.warns(MissingAnswersWarning, match="20 of 120 rows have no answer"):
        audit = plan.answer(labels)
    assert audit.n == 100
    with pytest.warns(MissingAnswersWarning, match="20 of 120"):
        named = plan.answer(data.test_labels[plan.rows[20:]], rows=plan.rows[20:])
    assert_array_equal(named.parts[0].answers.positive, audit.parts[0].answers.positive)


def test_answers_can_come_by_position(plan, data, audit):
    named = plan.answer({int(row): bool(data.test_labels[row]) for row in sorted(plan.rows)})
    assert named.n == audit.n
    by_row = np.argsort(plan.rows)
    assert_array_equal(named.parts[0].answers.positive, audit.parts[0].answers.positive[by_row])


# -- files --------------------------------------------------------------------------------------


@pytest.fixture
def columns(plan, data):
    columns = plan.to_columns()
    columns[LABEL] = [str(int(label)) for label in data.test_labels[columns[ROW]]]
    return columns


def shuffled(columns, order):
    return {name: [values[i] for i in order] for name, values in columns.items()}


def test_a_shuffled_file_gives_the_same_priors(clf, data, columns, june):
    order = np.random.RandomState(0).permutation(120)
    audit = audit_from_columns(clf, data.test, shuffled(columns, order))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelledSampleWarning)
        adapted = clf.adapt(data.test, audit=audit)
    assert adapted.test_prior_ == june.test_prior_
    assert adapted.train_prior_ == june.train_prior_


def test_a_partly_filled_file_uses_what_is_there(clf, data, columns):
    columns[LABEL][:30] = [""] * 30
    with pytest.warns(MissingAnswersWarning, match="30 of 120"):
        assert audit_from_columns(clf, data.test, columns).n == 90
    with pytest.warns(MissingAnswersWarning, match="70 of 120"):  # rows deleted from the file
        assert audit_from_columns(clf, data.test, shuffled(columns, range(70, 120))).n == 50


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c[ROW].__setitem__(3, c[ROW][3] + 1), "was changed"),
        (lambda c: c[DESIGN].__setitem__(3, c[DESIGN][3].replace("of", "of9", 1)), "was changed"),
        (lambda c: c[DESIGN].__setitem__(3, ""), "without"),
        (lambda c: c[LABEL].__setitem__(3, "perhaps"), "must be True and False"),
        (lambda c: c.pop(DESIGN), "must have a column"),
        (lambda c: [c[name].append(c[name][0]) for name in c], "twice"),
        (lambda c: c.__setitem__(LABEL, [""] * 120), "no answer"),
    ],
)
def test_an_edited_file_is_one_clear_error(clf, data, columns, edit, message):
    edit(columns)
    with pytest.raises(DataError, match=message):
        audit_from_columns(clf, data.test, columns)


def test_a_file_belongs_to_its_rows_and_its_classifier(clf, data, columns):
    with pytest.raises(DataError, match="planned on 3000 rows, got 2999"):
        audit_from_columns(clf, data.test[:-1], columns)
    with pytest.raises(DataError, match="scores differ"):
        audit_from_columns(clf, data.test[::-1], columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        other = DRPUClassifier("classifier", random_state=1).fit(*data.X_y())
    with pytest.raises(DataError, match="another classifier"):
        audit_from_columns(other, data.test, columns)


# -- errors --------------------------------------------------------------------------------------


def test_bad_plans_are_refused(clf, data):
    for bad in ({}, {"n": 10, "width": 0.1}):
        with pytest.raises(ParameterError, match="n or width"):
            clf.plan_audit(data.test, **bad)
    with pytest.raises(ParameterError, match="at most the number of rows, 50, got 51"):
        clf.plan_audit(data.test[:50], n=51)
    with pytest.raises(ParameterError, match="at least 1"):
        clf.plan_audit(data.test, n=0)
    with pytest.raises(ParameterError, match="even the labels of all 3000 rows"):
        clf.plan_audit(data.test, width=0.001)
    with pytest.raises(ParameterError, match="population"):
        clf.plan_audit(data.test, n=10, population="june")
    with pytest.raises(ParameterError, match="rows cannot be chosen"):
        clf.plan_audit(clf.count(data.test), n=10)


def test_bad_answers_are_refused(plan, data):
    labels = data.test_labels[plan.rows]
    other = int(np.setdiff1d(np.arange(3000), plan.rows)[0])
    with pytest.raises(DataError, match="one answer for each of 120 rows, got 119"):
        plan.answer(labels[:-1])
    with pytest.raises(LabelError, match="got 'yes'"):
        plan.answer(["yes"] * 120)
    with pytest.raises(LabelError, match="got 2"):
        plan.answer([2] + [0] * 119)
    with pytest.raises(DataError, match="which was not planned"):
        plan.answer([1], rows=[other])
    with pytest.raises(DataError, match="twice"):
        plan.answer([1, 1], rows=[plan.rows[0], plan.rows[0]])
    with pytest.raises(DataError, match="at least one answer"):
        plan.answer([None] * 120)
    with pytest.raises(LabelError, match="sequence"):
        plan.answer(None)


def test_bad_random_samples_are_refused(clf, data):
    with pytest.raises(DataError, match="same length, got 3 and 2"):
        Audit.random([0, 1, 2], [1, 0])
    with pytest.raises(DataError, match="twice"):
        Audit.random([0, 1, 1], [1, 0, 0])
    with pytest.raises(DataError, match="from 0 to the last row, got -1"):
        Audit.random([-1, 1], [1, 0])
    with pytest.raises(DataError, match="from 0 to 2999, got 3000"):
        clf.adapt(data.test, audit=Audit.random([3000, 1], [1, 0]))
    with pytest.raises(DataError, match="integers"):
        Audit.random([0.5, 1.5], [1, 0])
    with pytest.raises(LabelError, match="got 'x'"):
        clf.adapt(data.test, audit=Audit.random([0, 1], ["x", "y"]))
    with pytest.raises(ParameterError, match="positions of rows"):
        clf.evaluate(Audit.random([0, 1], [1, 0]))


def test_bad_audits_are_refused(clf, data, plan, audit):
    with pytest.raises(DataTypeError, match="answer"):
        clf.adapt(data.test, audit=plan)
    with pytest.raises(DataTypeError, match="must be an Audit"):
        clf.adapt(data.test, audit=[1, 0])
    with pytest.raises(DataError, match="planned on other rows"):
        clf.adapt(data.test[:-1], audit=audit)
    with pytest.raises(ParameterError, match="sample_weight"):
        clf.adapt(data.test, audit=audit, sample_weight=np.ones(len(data.test)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DRPUWarning)
        other = DRPUClassifier("classifier", random_state=1).fit(*data.X_y())
    with pytest.raises(DataError, match="another classifier"):
        other.adapt(data.test, audit=audit)
    foreign = other.plan_audit(data.test, n=10, random_state=0)
    with pytest.raises(ParameterError, match="different ones"):
        audit + foreign.answer(data.test_labels[foreign.rows])
    with pytest.raises(ParameterError, match="y must be None"):
        clf.evaluate(audit, [1])
    with pytest.raises(ParameterError, match="y must be given"):
        clf.evaluate(data.test)
    assert isinstance(plan, AuditPlan)
