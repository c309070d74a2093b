"""Laws of few answers: they never hurt, limits hold when answering stops, doubtful ones are questioned."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import betaincinv

from drpu import Audit, DRPUClassifier, PriorEstimate, make_gaussian_pu
from drpu.audits import combine
from drpu.audits.combine import audited_priors
from drpu.audits.evaluation import stopped_tails, with_reading
from drpu.exceptions import (
    ContradictionWarning,
    LabelledSampleWarning,
    UnusedNegativesWarning,
    heard,
)
from drpu.priors import Figure

COSTS = (0.2, 0.5, 0.8)


def drawn(seed: int, test_prior: float, separation: float = 3.0):
    """A classifier, and later rows with their classes."""
    data = make_gaussian_pu(
        200, 800, prior=0.3, test_prior=test_prior, separation=separation, n_test=1000, random_state=seed
    )
    clf = DRPUClassifier("classifier", random_state=0)
    with heard():
        clf.fit_pu(data.positive, data.unlabeled)
    return clf, data.test, data.test_labels == 1


def adapted(clf, X, audit=None):
    with heard():
        return clf.adapt(X, audit=audit)


def figures(clf, X, y) -> list[float]:
    """Accuracy, minus the mean cost at three costs, and recall."""
    p = clf.predict_proba(X)[:, 1]
    values = [float(np.mean((p > 0.5) == y))]
    for cost in COSTS:
        flagged = p > cost
        values.append(-float(np.mean((1 - cost) * (y & ~flagged) + cost * (~y & flagged))))
    return [*values, float((p > 0.5)[y].mean())]


@pytest.mark.parametrize("test_prior", [0.5, 0.1])
def test_few_answers_never_hurt(test_prior):
    changes: dict[int, list[np.ndarray]] = {1: [], 3: [], 10: []}
    for seed in range(12):
        clf, X, y = drawn(seed, test_prior)
        plan = clf.plan_audit(X, random_state=seed)
        before = np.array(figures(adapted(clf, X), X, y))
        for n, of_n in changes.items():
            answers = plan.answer(y[plan.rows[:n]])
            after = np.array(figures(adapted(clf, X, answers), X, y))
            of_n.append(after - before)
            assert after[0] > before[0] - 0.05
            assert after[4] > before[4] / 3
    for of_n in changes.values():
        assert np.mean(of_n, axis=0)[:4].min() > -0.005


@pytest.mark.parametrize("is_positive", [True, False])
def test_three_answers_of_one_kind_do_not_decide_about_all_rows(is_positive):
    for seed in range(4):
        clf, X, _ = drawn(seed, 0.5, separation=0.5)  # scores that tell little
        before = adapted(clf, X).predict(X)
        audit = clf.plan_audit(X, n=3, random_state=seed).answer([is_positive] * 3)
        assert np.mean(adapted(clf, X, audit).predict(X) != before) < 0.25


def test_an_interval_with_answers_is_not_wider_where_both_agree():
    share = Figure(0.3, 0.1, 0.6)
    for low, value, high in ((0.2, 0.3, 0.4), (0.05, 0.2, 0.35), (0.5, 0.55, 0.8)):
        reading = PriorEstimate(value, low, high, 0.95, "learned")
        both = with_reading(share, reading)
        assert both.high - both.low <= min(high - low, 0.5)
        assert both.low <= both.value <= both.high
        # limits of a reading that is not identified are a belief, which answers need not share
        assert with_reading(share, replace(reading, identified=False)) == share
    assert with_reading(share, PriorEstimate(0.8, 0.7, 0.9, 0.95, "learned")) == share  # they disagree


def stopped_coverage(width: float, priors: np.ndarray, most: int = 400) -> np.ndarray:
    """Exact probability that limits hold if answers at random stop as soon as they are narrow."""
    tail = stopped_tails(0.95)[0]
    alive = np.ones((len(priors), 1))
    held = np.zeros(len(priors))
    for n in range(1, most + 1):
        grown = np.zeros((len(priors), n + 1))
        grown[:, :n] += alive * (1 - priors)[:, None]
        grown[:, 1:] += alive * priors[:, None]
        hits = np.arange(n + 1)
        low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), n - hits + 1, tail), 0.0)
        high = np.where(hits < n, betaincinv(hits + 1, np.maximum(n - hits, 1), 1 - tail), 1.0)
        narrow = (high - low <= width) | (n == most)
        holds = (low <= priors[:, None]) & (priors[:, None] <= high)
        held += (grown * holds)[:, narrow].sum(axis=1)
        grown[:, narrow] = 0
        alive = grown
    return held


@pytest.mark.parametrize("width", [0.15, 0.3, 0.4])
def test_limits_hold_when_answering_stops_by_width(width):
    assert stopped_coverage(width, np.linspace(0.005, 0.5, 40)).min() > 0.949


def test_limits_hold_when_a_plan_stops_by_width(audit_clf):
    held, runs = 0, 60
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        y = rng.random(600) < 0.3
        scores = rng.normal(size=600) + 1.5 * y
        plan = audit_clf.plan_audit(scores[:, None], n=120, random_state=seed)
        for n in range(10, 121, 5):
            progress = plan.progress(y[plan.rows[:n]])
            if progress.width <= 0.25:
                break
        held += progress.prior.low <= 0.3 <= progress.prior.high
    # three standard errors of a share of 0.95 in 60 runs
    assert held / runs > 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)


# -- doubtful answers ------------------------------------------------------------------------------


def test_answers_of_one_kind_that_contradict_everything_are_questioned_and_move_no_label():
    clf, X, _ = drawn(0, 0.1)
    plan = clf.plan_audit(X, random_state=0)
    with pytest.warns(ContradictionWarning, match="yes and no were exchanged.*Labels stay"):
        june = clf.adapt(X, audit=plan.answer([True] * 20))
    without = adapted(clf, X)
    assert np.mean(june.predict(X) == without.predict(X)) > 0.98
    assert np.isfinite(june.threshold_)
    assert june.test_prior_.low > without.test_prior_.high  # the answers are accepted all the same


def test_reversed_answers_are_named():
    clf, X, y = drawn(1, 0.4)
    plan = clf.plan_audit(X, random_state=0)
    with pytest.warns(ContradictionWarning, match="yes and no were exchanged"):
        clf.adapt(X, audit=plan.answer(~y[plan.rows]))


def test_answers_at_another_share_than_the_labels_are_reversed_only_if_their_order_is():
    clf, X, _ = drawn(0, 0.5, 1.5)
    ranked = np.argsort(clf.decision_function(X))
    few_yes = Audit.random(ranked[610::20], np.arange(20) > 16)  # of rows that nearly all look positive
    in_reverse = Audit.random(ranked[::50], np.arange(20) < 10)
    for audit, is_exchanged in ((few_yes, False), (in_reverse, True)):
        with heard() as said:
            clf.adapt(X, audit=audit)
        assert any("yes and no were exchanged" in str(warning) for warning in said) == is_exchanged


def test_answers_that_are_all_no_are_accepted_where_positives_are_rare():
    clf, X, _ = drawn(2, 0.02)
    plan = clf.plan_audit(X, random_state=0)
    june = adapted(clf, X, plan.answer([False] * 20))
    assert june.test_prior_.low == 0 or june.test_prior_.low < 0.02
    assert june.test_prior_.high < 0.2
    assert np.isfinite(june.threshold_)
    assert (june.predict(X) == 1).any()


def test_answers_about_other_rows_unflag_nothing_wholesale():
    clf, X, _ = drawn(2, 0.3, 1.2)
    before = adapted(clf, X).predict(X) == 1
    others = np.flatnonzero(~before)[:30]
    june = adapted(clf, X, Audit.random(others, [False] * 30))
    assert june.test_prior_.high < adapted(clf, X).test_prior_.value  # the prior follows the answers
    assert june.predict(X)[before].mean() > 0.4


@pytest.mark.parametrize("train_prior", [0.01, 0.15, 0.6])
def test_a_training_prior_that_answers_set_moves_no_label(train_prior, monkeypatch):
    clf, X, y = drawn(4, 0.3, 2.0)
    plan = clf.plan_audit(X, random_state=0)
    audit = plan.answer(y[plan.rows])
    june = adapted(clf, X, audit)
    other = PriorEstimate(train_prior, 0.0, 1.0, 0.95, "audit")

    def with_other(*arguments, **options):
        return replace(audited_priors(*arguments, **options), train=other)

    monkeypatch.setattr(combine, "audited_priors", with_other)
    moved = adapted(clf, X, audit)
    assert moved.train_prior_ == other
    assert np.mean(moved.predict(X) == june.predict(X)) > 0.99


@pytest.mark.parametrize("is_positive", [True, False])
def test_one_answer_moves_the_training_prior_little(is_positive):
    clf, X, _ = drawn(4, 0.3)
    june = adapted(clf, X, clf.plan_audit(X, n=1, random_state=0).answer([is_positive]))
    print(clf.train_prior_, june.train_prior_, june.test_prior_)
    assert abs(june.train_prior_.value - clf.train_prior_.value) < 0.02


def test_answers_about_very_few_rows_do_not_move_the_training_prior():
    data = make_gaussian_pu(200, 1000, prior=0.3, test_prior=0.2, n_test=2, separation=2, random_state=0)
    clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    plan = clf.plan_audit(data.test, random_state=0)
    answered = clf.adapt(data.test, audit=plan.answer(data.test_labels[plan.rows]))
    assert answered.train_prior_ == clf.train_prior_


def test_a_stated_error_rate_lowers_a_prior_of_rare_positives():
    clf, X, y = drawn(3, 0.05, 2.0)
    plan = clf.plan_audit(X, n=200, random_state=0)
    wrong = np.random.default_rng(0).random(200) < 0.1
    answers = y[plan.rows] ^ wrong
    plain = plan.answer(answers).parts[0].answers
    stated = plan.answer(answers, error_rate=0.1).parts[0].answers
    tails = (0.025, 0.025)
    seen = plain.answered_share(plain.positive, tails)
    corrected = stated.answered_share(stated.positive, tails)
    assert corrected.value < seen.value - 0.05
    assert corrected.low <= y.mean() <= corrected.high
    # the same through adapt, and with_error_rate is the same as error_rate
    priors = [
        adapted(clf, X, audit).test_prior_
        for audit in (plan.answer(answers, error_rate=0.1), plan.answer(answers).with_error_rate(0.1))
    ]
    assert priors[0] == priors[1]


# -- known negatives -------------------------------------------------------------------------------


def test_answers_that_are_known_to_be_wrong_say_nothing_about_the_labelled_positives():
    data = make_gaussian_pu(400, 2000, prior=0.2, test_prior=0.04, n_test=4000, separation=3, random_state=0)
    clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    plan = clf.plan_audit(data.test, n=100, random_state=0)
    labels = data.test_labels[plan.rows]
    labels[::10] = 1 - labels[::10]
    with pytest.warns(LabelledSampleWarning):
        clf.adapt(data.test, audit=plan.answer(labels))
    stated = clf.adapt(data.test, audit=plan.answer(labels, error_rate=0.1))
    assert stated.fairness_test_ is None
    assert stated.test_prior_.low <= 0.04 <= stated.test_prior_.high


def test_known_negatives_that_change_nothing_are_said():
    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.4
    X = rng.normal(size=(1500, 2)) + 2.0 * y[:, None]
    label = np.where(y & (rng.random(1500) < 0.5), 1.0, np.nan)
    easy = np.flatnonzero(~y)[np.argsort(X[~y].sum(axis=1))[:200]]
    label[easy] = -1
    clf = DRPUClassifier("classifier", scenario="single-sample", negative_label=-1, random_state=0)
    with heard() as said:
        clf.fit(X, label)
    unused = [warning for warning in said if isinstance(warning, UnusedNegativesWarning)]
    used = "known negatives have" in repr(clf)
    assert len(unused) == (0 if used else 1)


def test_answers_that_set_the_prior_are_not_said_to_change_nothing():
    rng = np.random.default_rng(5)
    y = rng.random(3000) < 0.3
    X = rng.normal(size=(3000, 1)) + 2.5 * y[:, None]
    label = y & (rng.random(3000) < 0.4)
    checked = rng.permutation(np.flatnonzero(~label))[:150]
    clf = DRPUClassifier("boosted", random_state=0)
    clf.fit(X, label, audits=[Audit.random(checked, y[checked])])  # warnings are errors
    assert "known negatives" not in repr(clf)
