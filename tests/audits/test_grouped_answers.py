"""Answers about rows that come in groups, such as patients: limits know it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import stdtrit

from drpu import Audit
from drpu.audits.answers_file import read_audit
from drpu.audits.evaluation import Answers, both_tails, independent_rows_of, stratified_share
from drpu.classifier import read_batch
from drpu.exceptions import DataError, ParameterError

TAILS = both_tails(0.95)


def labels_of_groups(rng, groups, share, correlation):
    """Labels of which those of one group are correlated."""
    spread = (1 - correlation) / correlation
    share_of_group = rng.beta(share * spread, (1 - share) * spread, groups.max() + 1)
    return rng.random(len(groups)) < share_of_group[groups]


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_limits_hold_for_a_sample_of_groups_and_those_of_rows_do_not(share):
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(30), 5)
    runs = 200
    covered = {"grouped": 0, "rows": 0}
    for _ in range(runs):
        positive = labels_of_groups(rng, groups, share, correlation=0.5)
        for name, codes in {"grouped": groups, "rows": None}.items():
            figure = Answers.random(positive, groups=codes).share(positive, TAILS)
            covered[name] += figure.low <= share <= figure.high
    # 95 % less three standard errors of 200 runs, and the limits of 150 independent rows
    assert covered["grouped"] / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)
    assert covered["rows"] / runs < 0.85


def test_groups_of_one_row_change_nothing(audit_clf, audit_data):
    rows, labels = audit_data.test[:60], audit_data.test_labels[:60]
    assert audit_clf.evaluate(rows, labels, groups=np.arange(60)) == audit_clf.evaluate(rows, labels)


def test_one_group_tells_as_much_as_one_answer():
    positive = np.array([True, True, False, True])
    figure = Answers.random(positive, groups=np.zeros(4, dtype=np.int64)).share(positive, TAILS)
    alone = stratified_share(np.ones(1), np.array([0.75]), np.array([1]), tails=TAILS, rows=1)
    assert_allclose([figure.low, figure.high], [alone.low, alone.high], atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_groups_never_make_limits_narrower_and_keep_the_value(audit_clf, audit_data, seed):
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(audit_data.test), 80, replace=False)
    rows, labels = audit_data.test[chosen], audit_data.test_labels[chosen]
    alone = audit_clf.evaluate(rows, labels).prior
    grouped = audit_clf.evaluate(rows, labels, groups=rng.integers(0, 12, 80)).prior
    assert_allclose(grouped.value, alone.value)
    assert grouped.low <= alone.low + 1e-3  # the limits of several strata are found on a grid
    assert grouped.high >= alone.high - 1e-3


def test_answers_that_all_agree_count_once_for_each_group():
    groups = np.repeat(np.arange(10), 4)
    nothing = np.zeros(40, dtype=bool)
    grouped = Answers.random(nothing, groups=groups)
    wider = stdtrit(9, 0.975) / stdtrit(39, 0.975)
    # 40 answers for 4 a group, times 10/9 and 39/40 of the two variances
    expected = 4 * (10 / 9) / (40 / 39) * wider**2
    assert_allclose(grouped.design_effect(nothing, 0.025), expected)
    assert grouped.share(nothing, TAILS).high > 3 * Answers.random(nothing).share(nothing, TAILS).high


def test_a_plan_has_the_rows_that_it_has_without_groups(audit_clf, audit_data):
    groups = np.repeat(np.arange(300), 10)
    plan = audit_clf.plan_audit(audit_data.test, n=60, random_state=0)
    grouped = audit_clf.plan_audit(audit_data.test, n=60, groups=groups, random_state=0)
    assert_array_equal(grouped.rows, plan.rows)
    assert_array_equal(grouped.groups, groups[plan.rows])
    assert grouped.independent_rows == independent_rows_of(groups) == 300
    assert_array_equal(grouped.first(20).groups, grouped.groups[:20])


@pytest.fixture(scope="module")
def patients(audit_clf, audit_data):
    """A plan of rows of 40 patients, whose labels the order of the rows correlates, and answers."""
    order = np.argsort(audit_data.test_labels, kind="stable")
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.arange(len(order)) * 40 // len(order)
    plan = audit_clf.plan_audit(audit_data.test, n=80, groups=groups, random_state=0)
    return plan, audit_data.test_labels[plan.rows]


def test_priors_by_answers_have_wider_limits(audit_clf, audit_data, patients):
    plan, labels = patients
    alone = audit_clf.plan_audit(audit_data.test, n=80, random_state=0)
    width = plan.progress(labels).width
    assert width > alone.progress(labels).width
    assert plan.progress(labels).width_after(40) < width
    evaluated = audit_clf.evaluate(plan.answer(labels)).prior
    of_rows = audit_clf.evaluate(alone.answer(labels)).prior
    assert evaluated.high - evaluated.low > of_rows.high - of_rows.low


def test_a_file_of_answers_knows_the_groups(audit_clf, audit_data, patients):
    plan, labels = patients
    columns = plan.to_columns()
    columns["drpu_label"] = [None, *labels[1:].tolist()]
    batch = read_batch(audit_clf, audit_data.test)
    with pytest.warns(match="no answer"):
        from_file = read_audit(audit_clf.fitted_, batch, columns)
    with pytest.warns(match="no answer"):
        answered = plan.answer(columns["drpu_label"])
    assert_array_equal(from_file.parts[0].answers.groups, plan.groups[1:])
    assert audit_clf.evaluate(from_file) == audit_clf.evaluate(answered)


def test_two_parts_of_a_plan_keep_their_groups(patients):
    plan, labels = patients
    first = plan.answer(labels[:40])
    with pytest.warns(match="no answer"):  # those of the first part
        second = plan.answer(labels[40:], rows=plan.rows[40:])
    assert_array_equal((first + second).parts[0].answers.groups, plan.groups)


def test_groups_belong_to_rows(audit_clf, audit_data, audit):
    with pytest.raises(ParameterError, match="groups must be None with an audit"):
        audit_clf.evaluate(audit, groups=[1, 2])
    with pytest.raises(DataError, match="groups must have one value per row, 3, got 2"):
        Audit.random(audit_data.test[:3], [1, 0, 1], groups=["a", "b"])
    with pytest.raises(DataError, match="groups must have one value per row"):
        audit_clf.plan_audit(audit_data.test, groups=["a", "b"])
