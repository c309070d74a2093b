"""Answers of audits: their coding, missing answers, files to fill in, and errors."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from drpu import Audit, DRPUClassifier
from drpu.audits import true_labels
from drpu.classifier.groups import audit_from_columns
from drpu.exceptions import (
    DataError,
    DataTypeError,
    LabelError,
    MissingAnswersWarning,
    ParameterError,
    heard,
)
from drpu.state.labels import read_answers

ROW, DESIGN, LABEL = "drpu_row", "drpu_design", "drpu_label"

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
        (["yes", "No", " 1 ", "0", "TRUE", "f"], ["ok", "fraud"], [1, 0, 1, 0, 1, 0]),
        (["yes", "no"], ["", "yes"], [1, 0]),
        (["1", "0"], ["", "yes"], [1, 0]),
        (["fraud", "no"], ["ok", "fraud"], [1, 0]),
        (["2", "1.0"], [1, 2], [1, 0]),
        ([1, 0], ["0", "1"], [1, 0]),
        (["no"], ["yes", "no"], None),
        ([2**60 + 1, 2**60, str(2**60 + 1)], [2**60, 2**60 + 1], [1, 0, 1]),  # one number as floats
    ],
)
def test_answers_come_in_any_coding_that_has_one_meaning(labels, classes, expected):
    if expected is None:
        with pytest.raises(LabelError, match="True for positive"):
            read_answers(labels, np.array(classes, dtype=object))
        return
    answered, positive = read_answers(labels, np.array(classes, dtype=object))
    assert answered.all()
    assert_array_equal(positive, np.array(expected, bool))


@pytest.mark.parametrize("classes", [[0, 1], ["", "yes"], ["", "fraud"]])
def test_none_nan_and_blank_mean_no_answer(classes):
    answered, positive = read_answers([1, None, float("nan"), "", "  ", "NA", 0], np.array(classes, object))
    assert_array_equal(answered, [True, False, False, False, False, False, True])
    assert_array_equal(positive, [True, False])


def test_missing_answers_are_counted_and_told(plan, audit_data):
    labels = audit_data.test_labels[plan.rows].astype(float)
    labels[:20] = np.nan
    with pytest.warns(MissingAnswersWarning, match="20 of 120 rows have no answer"):
        audit = plan.answer(labels)
    assert audit.n == 100
    with pytest.warns(MissingAnswersWarning, match="20 of 120"):
        named = plan.answer(audit_data.test_labels[plan.rows[20:]], rows=plan.rows[20:])
    assert_array_equal(named.parts[0].answers.positive, audit.parts[0].answers.positive)


def test_answers_can_come_by_position(plan, audit_data, audit):
    named = plan.answer({int(row): bool(audit_data.test_labels[row]) for row in sorted(plan.rows)})
    assert named.n == audit.n
    by_row = np.argsort(plan.rows)
    assert_array_equal(named.parts[0].answers.positive, audit.parts[0].answers.positive[by_row])


# -- files --------------------------------------------------------------------------------------


@pytest.fixture
def columns(plan, audit_data):
    columns = plan.to_columns()
    columns[LABEL] = [str(int(label)) for label in audit_data.test_labels[columns[ROW]]]
    return columns


def shuffled(columns, order):
    return {name: [values[i] for i in order] for name, values in columns.items()}


def test_a_shuffled_file_gives_the_same_priors(audit_clf, audit_data, columns, june):
    order = np.random.RandomState(0).permutation(120)
    audit = audit_from_columns(audit_clf, audit_data.test, shuffled(columns, order))
    with heard():
        adapted = audit_clf.adapt(audit_data.test, audit=audit)
    for one, other in ((adapted.test_prior_, june.test_prior_), (adapted.train_prior_, june.train_prior_)):
        # sums in another order may differ in the last digits
        assert_allclose([one.value, one.low, one.high], [other.value, other.low, other.high], rtol=1e-9)


def test_a_partly_filled_file_uses_what_is_there(audit_clf, audit_data, columns):
    columns[LABEL][:30] = [""] * 30
    with pytest.warns(MissingAnswersWarning, match="30 of 120"):
        assert audit_from_columns(audit_clf, audit_data.test, columns).n == 90
    with pytest.warns(
        MissingAnswersWarning, match="70 of 120.*70 of them are not in the file"
    ):  # rows deleted from the file
        assert audit_from_columns(audit_clf, audit_data.test, shuffled(columns, range(70, 120))).n == 50


@pytest.mark.parametrize("first", [1, 2])
def test_rows_may_be_counted_as_the_lines_of_a_file(audit_clf, audit_data, columns, first):
    columns[LABEL] = audit_data.test_labels[columns[ROW]].tolist()
    expected = audit_from_columns(audit_clf, audit_data.test, columns)
    columns[ROW] = [row + first for row in columns[ROW]]
    found = audit_from_columns(audit_clf, audit_data.test, columns)
    assert found.parts[0].rows.tolist() == expected.parts[0].rows.tolist()


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda c: c[ROW].__setitem__(3, c[ROW][3] + 1), "was changed"),
        (lambda c: c[ROW].__setitem__(3, float("inf")), "was changed at drpu_row = inf"),
        (lambda c: c.__setitem__(ROW, [row + 3 for row in c[ROW]]), "and 119 more rows"),
        (lambda c: c[DESIGN].__setitem__(3, c[DESIGN][3].replace("of", "of9", 1)), "was changed"),
        (lambda c: c[DESIGN].__setitem__(3, ""), "without"),
        (lambda c: c[LABEL].__setitem__(3, "perhaps"), "must be yes and no"),
        (lambda c: c.pop(DESIGN), "must have a column"),
        (lambda c: [c[name].append(c[name][0]) for name in c], "twice"),
        (lambda c: c.__setitem__(LABEL, [""] * 120), "no answer"),
    ],
)
def test_an_edited_file_is_one_clear_error(audit_clf, audit_data, columns, edit, message):
    edit(columns)
    with pytest.raises(DataError, match=message):
        audit_from_columns(audit_clf, audit_data.test, columns)


@pytest.fixture(scope="module")
def other_clf(audit_data):
    with heard():
        return DRPUClassifier("classifier", scenario="case-control", random_state=1).fit(*audit_data.X_y())


def test_a_file_belongs_to_its_rows_and_its_classifier(audit_clf, audit_data, columns, other_clf):
    with pytest.raises(DataError, match="planned on 3000 rows, got 2999"):
        audit_from_columns(audit_clf, audit_data.test[:-1], columns)
    with pytest.raises(DataError, match="scores differ"):
        audit_from_columns(audit_clf, audit_data.test[::-1], columns)
    with pytest.raises(DataError, match="another classifier"):
        audit_from_columns(other_clf, audit_data.test, columns)


# -- one kind of answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [0, 1])
@pytest.mark.parametrize("rows", ["test", "unlabeled", "all"])
def test_answers_of_one_kind_give_limits_and_a_finite_threshold(audit_clf, audit_data, rows, answer):
    X = audit_data.X_y()[0] if rows == "all" else getattr(audit_data, rows)
    plan = audit_clf.plan_audit(X, n=20, random_state=0)
    with heard():
        adapted = audit_clf.adapt(X, audit=plan.answer([answer] * 20))
    assert 0 < adapted.prior_.value < 1
    assert adapted.prior_.high - adapted.prior_.low > 0.1  # 20 answers exclude no more than a ninth
    assert np.isfinite(adapted.threshold_)


# -- errors --------------------------------------------------------------------------------------


@pytest.fixture
def given(audit_clf, audit_data, plan, audit, other_clf):
    """What calls may be made of; ``one`` is a row that was not planned."""
    labels = audit_data.test_labels[plan.rows]
    one = int(np.setdiff1d(np.arange(3000), plan.rows)[0])
    known = {"clf": audit_clf, "X": audit_data.test, "plan": plan, "audit": audit, "labels": labels}
    return SimpleNamespace(**known, one=one, other=other_clf)


BAD_PLANS = [
    (lambda g: g.clf.plan_audit(g.X, n=10, width=0.1), ParameterError, "n or width"),
    (lambda g: g.clf.plan_audit(g.X[:50], n=51), ParameterError, "at most the number of rows, 50, got 51"),
    (lambda g: g.clf.plan_audit(g.X, n=0), ParameterError, "at least 1"),
    (lambda g: g.clf.plan_audit(g.X, width=0.001), ParameterError, "even the labels of all 3000 rows"),
    (lambda g: g.clf.plan_audit(g.X, n=10, population="june"), ParameterError, "population"),
    (lambda g: g.clf.plan_audit(g.clf.count(g.X), n=10), ParameterError, "rows cannot be chosen"),
]
BAD_ANSWERS = [
    (lambda g: g.plan.answer([*g.labels, 1]), DataError, "one answer for each of 120 planned rows, got 121"),
    (lambda g: g.plan.answer([1], rows=g.plan.rows[:2]), DataError, "one answer for each of 2 rows, got 1"),
    (lambda g: g.plan.answer(g.labels, error_rate=0.5), ParameterError, "error_rate must be below"),
    (lambda g: g.plan.answer(["perhaps"] * 120), LabelError, "got 'perhaps'"),
    (lambda g: g.plan.answer([2] + [0] * 119), LabelError, "got 2"),
    (lambda g: g.plan.answer([1], rows=[g.one]), DataError, "which was not planned"),
    (lambda g: g.plan.answer([1, 1], rows=[g.plan.rows[0]] * 2), DataError, "twice"),
    (lambda g: g.plan.answer([None] * 120), DataError, "at least one answer"),
    (lambda g: g.plan.answer(None), LabelError, "sequence"),
]
BAD_SAMPLES = [
    (lambda g: Audit.random([0, 1, 2], [1, 0]), DataError, "same length, got 3 and 2"),
    (lambda g: Audit.random([0, 1, 1], [1, 0, 0]), DataError, "twice"),
    (lambda g: Audit.random([-1, 1], [1, 0]), DataError, "from 0 to the last row, got -1"),
    (lambda g: g.clf.adapt(g.X, audit=Audit.random([3000, 1], [1, 0])), DataError, "to 2999, got 3000"),
    (lambda g: Audit.random([0.5, 1.5], [1, 0]), DataError, "integers"),
    (lambda g: g.clf.adapt(g.X, audit=Audit.random([0, 1], ["x", "y"])), LabelError, "got 'x'"),
    (lambda g: g.clf.evaluate(Audit.random([0, 1], [1, 0])), ParameterError, "positions of rows"),
]
BAD_AUDITS = [
    (lambda g: g.clf.adapt(g.X, audit=g.plan), DataTypeError, "answer"),
    (lambda g: g.clf.adapt(g.X, audit=[1, 0]), DataTypeError, "must be an Audit"),
    (lambda g: g.clf.adapt(g.X[:-1], audit=g.audit), DataError, "planned on other rows"),
    (lambda g: g.clf.adapt(g.X, audit=g.audit, sample_weight=np.ones(3000)), ParameterError, "sample_weight"),
    (lambda g: g.other.adapt(g.X, audit=g.audit), DataError, "another classifier"),
    (lambda g: g.audit + g.other.plan_audit(g.X, n=1).answer([1]), ParameterError, "different ones"),
    (lambda g: g.clf.evaluate(g.audit, [1]), ParameterError, "y must be None"),
    (lambda g: g.clf.evaluate(g.X), ParameterError, "y must be given"),
]


@pytest.mark.parametrize(("call", "error", "message"), [*BAD_PLANS, *BAD_ANSWERS, *BAD_SAMPLES, *BAD_AUDITS])
def test_bad_plans_answers_and_audits_are_refused(given, call, error, message):
    with pytest.raises(error, match=message):
        call(given)


def test_the_same_answers_are_not_counted_twice(audit_clf, audit_data):
    plan = audit_clf.plan_audit(audit_data.test, n=40, random_state=0)
    labels = audit_data.test_labels[plan.rows]
    once, again = plan.answer(labels), plan.answer(labels[::-1], rows=plan.rows[::-1])
    with pytest.raises(DataError, match="must not be given twice"):
        once + once
    joined = once + again
    assert joined.n == 40
    assert_array_equal(joined.parts[0].answers.positive, once.parts[0].answers.positive)


def test_parts_of_a_plan_join_to_the_plan(audit_clf, audit_data):
    plan = audit_clf.plan_audit(audit_data.test, n=40, random_state=0)
    labels = audit_data.test_labels[plan.rows]
    with heard():  # of the second half alone
        second = plan.answer(labels[25:], rows=plan.rows[25:])
    joined = plan.answer(labels[:25]) + second
    whole = plan.answer(labels)
    assert len(joined.parts) == 1
    assert_array_equal(joined.parts[0].rows, whole.parts[0].rows)
    assert_array_equal(joined.parts[0].answers.positive, whole.parts[0].answers.positive)


def test_two_answers_about_one_row_have_to_be_settled_first(audit_clf, audit_data):
    plan = audit_clf.plan_audit(audit_data.test, n=40, random_state=0)
    labels = audit_data.test_labels[plan.rows].astype(bool)
    other = labels.copy()
    other[3] = ~other[3]
    with pytest.raises(DataError, match=f"about 1 rows differ, first about row {plan.rows[3]}: settle it"):
        plan.answer(labels) + plan.answer(other)


@pytest.mark.parametrize("name", ["answer_2", "drpu_label_2"])
def test_a_column_of_second_answers_has_to_be_settled_first(audit_clf, audit_data, plan, name):
    columns = plan.to_columns() | {LABEL: ["yes"] * plan.n, name: [None] * plan.n}
    with pytest.raises(DataError, match=f"column '{name}': settle it first"):
        audit_from_columns(audit_clf, audit_data.test, columns)


def test_a_plan_without_a_number_has_twenty_rows(audit_clf, audit_data):
    assert audit_clf.plan_audit(audit_data.test).n == 20
    assert audit_clf.plan_audit(audit_data.test[:12]).n == 12


def test_every_beginning_of_a_plan_is_a_plan(audit_clf, audit_data, plan):
    longer = audit_clf.plan_audit(audit_data.test, n=200, random_state=0)
    assert_array_equal(longer.rows[:120], plan.rows)
    first = longer.first(30)
    labels = audit_data.test_labels[first.rows]
    audit = longer.answer(labels)  # without a warning: nothing was skipped
    assert_array_equal(audit.parts[0].rows, first.rows)
    assert_array_equal(first.strata.planned, audit.parts[0].answers.sizes)
    assert longer.expected_width < first.expected_width
    with pytest.raises(ParameterError, match="at most the number of planned rows, 200, got 201"):
        longer.first(201)


def test_progress_shows_the_width_so_far_and_later(audit_data, plan):
    labels = audit_data.test_labels[plan.rows].tolist()
    none = plan.progress([])
    assert none.n == 0
    assert none.prior == plan.without_answers
    early = plan.progress([*labels[:20], None, *labels[21:30]])
    assert (early.n, early.skipped) == (29, 1)
    assert early.width == early.prior.high - early.prior.low
    assert early.width_after(91) < early.width_after(20) < early.width
    late = plan.progress(labels)
    # The answers decide the rest: over 40 plans the logarithm of the ratio has mean .09 and standard
    # deviation .20, so that a factor of two is three of these from the mean.
    assert abs(np.log(late.width / early.width_after(91))) < np.log(2)


# -- labels of rows that are evaluated -------------------------------------------------------------


@pytest.mark.parametrize("labels", [["yes", None, "yes"], [0, np.nan, 0], ["no", "", "no"]])
def test_labels_of_one_class_beside_blanks_need_a_meaning(labels):
    classes = np.array([0, 1])
    with pytest.raises(LabelError, match="blank='negative'"):
        true_labels(labels, classes)
    read = true_labels(labels, classes, blank="negative")
    assert read == [label in ("yes", 1) for label in labels]


@pytest.mark.parametrize("labels", [["yes", None, "no"], [1, 1], ["no", "no"]])
def test_labels_of_two_classes_or_without_blanks_are_taken_as_they_are(labels):
    assert true_labels(labels, np.array([0, 1])) == labels


def test_a_blank_means_nothing_else():
    with pytest.raises(ParameterError, match="blank must be 'negative' or None"):
        true_labels([1, None], np.array([0, 1]), blank="no")


def test_blanks_that_are_negative_are_evaluated_as_negatives(audit_clf, audit_data):
    labels = audit_data.test_labels
    marked = np.where(labels == 1, 1.0, np.nan)
    with pytest.raises(LabelError, match="no answer"):
        audit_clf.evaluate(audit_data.test, marked)
    read = audit_clf.evaluate(audit_data.test, marked, blank="negative")
    assert read == audit_clf.evaluate(audit_data.test, labels)
