"""A conversation about planned rows: its order, its end, and what it shows."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from drpu import DRPUClassifier, make_gaussian_pu
from drpu.audits.ask import Conversation, Goal, ShownRows, converse
from drpu.exceptions import DataError, LabelError, MissingAnswersWarning, ParameterError

REPLIES = st.lists(st.sampled_from(["y", "n", "s", "b"]), max_size=60)


@pytest.fixture(scope="module")
def rows():
    return make_gaussian_pu(200, 500, prior=0.4, test_prior=0.2, n_test=400, separation=3, random_state=0)


@pytest.fixture(scope="module")
def short(rows):
    """A plan of 25 rows."""
    clf = DRPUClassifier("kernel", random_state=0).fit_pu(rows.positive, rows.unlabeled)
    return clf.plan_audit(rows.test, n=25, random_state=0)


class Script:
    """A console with prepared replies."""

    width = 80

    def __init__(self, *replies):
        self.replies = list(replies)
        self.said = []

    def say(self, text):
        self.said.append(text)

    def reply(self, prompt):
        return self.replies.pop(0) if self.replies else None


def talk(conversation, *replies, save=lambda conversation: None):
    script = Script(*replies)
    values = [[str(row)] for row in conversation.plan.rows]
    converse(conversation, ShownRows(["id"], values), script, save)
    return script


@given(replies=REPLIES)
def test_every_row_is_asked_about_in_the_order_of_the_plan(short, replies):
    conversation = Conversation(short, Goal(short.n))
    talk(conversation, *replies)
    asked = sorted({*conversation.answers, *conversation.skipped})
    assert asked == list(range(len(asked)))
    assert not set(conversation.answers) & conversation.skipped
    if not conversation.is_finished:
        assert conversation.place <= len(asked)


@given(replies=REPLIES)
def test_a_conversation_that_is_started_again_goes_on(short, replies):
    before = Conversation(short, Goal(short.n))
    talk(before, *replies)
    after = Conversation(short, Goal(short.n), dict(before.answers))
    assert after.answers == before.answers
    last = max(before.answers, default=-1)
    assert after.place == last + 1
    assert after.skipped == {place for place in before.skipped if place < last}


def test_it_stops_after_the_answers_that_were_asked_for(short):
    conversation = Conversation(short, Goal(5))
    script = talk(conversation, *"yynsnyyyy")
    assert conversation.n_answers == 5
    assert len(script.replies) == 3  # y y n skip n y were read
    assert conversation.skipped == {3}


def test_it_stops_when_the_interval_is_narrow_but_not_before_some_answers(short):
    for width in (1.0, 0.5):
        conversation = Conversation(short, Goal(None, width))
        talk(conversation, *"n" * 25)
        assert conversation.n_answers >= 10
        assert conversation.knowledge.width <= width
    conversation = Conversation(short, Goal(None, 1e-6))
    talk(conversation, *"n" * 99)
    assert conversation.n_answers == short.n  # no planned row is left


@pytest.mark.parametrize(
    ("replies", "answers", "skipped"),
    [
        (["y", "n", "y", "back", "back", "yes", "n"], {0: True, 1: True, 2: True, 3: False}, set()),
        (["b", "b", "y"], {0: True}, set()),  # back from the first row stays there
        (["y", "n", "b", "s"], {0: True}, {1}),
    ],
)
def test_back_changes_an_answer_or_takes_it_back_and_then_goes_on(short, replies, answers, skipped):
    conversation = Conversation(short, Goal(4))
    script = talk(conversation, *replies)
    assert (conversation.answers, conversation.skipped) == (answers, skipped)
    assert ("  your answer was no" in script.said) == ("n" in replies[:2])


def test_every_reply_is_saved_before_the_next_question(short):
    saved = []
    talk(
        Conversation(short), "y", "s", "n", "maybe", "q", "y", save=lambda told: saved.append(told.n_answers)
    )
    assert saved == [1, 1, 2]


@pytest.mark.parametrize("word", ["maybe", "", "yess", "2"])
def test_unknown_words_are_explained_and_asked_again(short, word):
    conversation = Conversation(short)
    script = talk(conversation, word, " YES ")
    assert conversation.answers == {0: True}
    assert any("s to skip the row" in line for line in script.said)


def test_progress_shows_the_width_and_not_where_the_interval_is(short):
    conversation = Conversation(short, Goal(20, 0.1))
    talk(conversation, "y", "n", "n", "s", "n")
    width = conversation.knowledge.width
    line = conversation.progress()
    assert line.startswith("4 of 20 answers, 1 skipped; ")
    assert line.endswith(f"{width:.2f} wide (aim: 0.1)")
    prior = conversation.knowledge.prior
    without_width = line.removesuffix(f"{width:.2f} wide (aim: 0.1)")
    for hidden in (prior.value, prior.low, prior.high):
        assert f"{hidden:.2f}" not in without_width


def test_the_outlook_is_that_of_the_plan_and_ends_with_it(short):
    conversation = Conversation(short, Goal(5))
    assert conversation.outlook() is None
    talk(conversation, *"nnnny")
    after = conversation.knowledge.width_after(20)
    assert conversation.outlook().startswith("20 more would narrow")
    assert conversation.outlook().endswith(f"to about {after:.2f}")
    everything = Conversation(short, Goal(short.n))
    talk(everything, *"n" * short.n)
    assert everything.outlook() is None


def test_many_skipped_rows_are_noticed(short):
    few = Conversation(short, Goal(20))
    talk(few, *"yynnsnnnsnnn")
    assert not few.many_skipped
    many = Conversation(short, Goal(20))
    talk(many, *"ysnsnsn")
    assert many.many_skipped


def test_the_audit_is_that_of_the_answers(short, rows):
    conversation = Conversation(short, Goal(12))
    talk(conversation, *["ny"[int(rows.test_labels[row])] for row in short.rows])
    audit = conversation.audit()
    assert audit.n == 12
    (part,) = audit.parts
    assert part.rows.tolist() == short.rows[:12].tolist()
    assert part.answers.positive.tolist() == rows.test_labels[short.rows[:12]].astype(bool).tolist()


@pytest.mark.parametrize("goal", [(0, None), (20, 1.5), (20, -0.1)])
def test_impossible_goals_are_refused(goal):
    with pytest.raises(ParameterError):
        Goal(*goal)


@pytest.mark.parametrize(
    "classes",
    [[0, 1], [1, 2], ["no", "yes"], ["yes", "no"], ["true", "false"], [False, True], [True, False], [1, 0],
     ["", "fraud"], ["n", "y"], ["y", "n"]],
)  # fmt: skip
def test_the_words_of_a_file_mean_what_was_answered(short, classes):
    plan = replace(short, classes=np.array(classes, dtype=object))
    conversation = Conversation(plan, Goal(2), {0: True, 1: False})
    assert conversation.audit().parts[0].answers.positive.tolist() == [True, False]


# -- rows as texts -------------------------------------------------------------------------------


def test_columns_are_shown_in_their_order_and_long_values_are_cut():
    frame = pd.DataFrame({"z": [1.23456789, 2.0], "a": ["x" * 300, None], "m": ["a\tb\n c", "\x1b[31mred"]})
    shown = ShownRows.of(frame, np.array([1, 0]))
    assert shown.names == ["z", "a", "m"]
    assert shown.values[0] == ["2", "(missing)", "\\x1b[31mred"]
    assert shown.values[1][2] == "a b c"
    lines = shown.lines(1, width=40)
    assert all(len(line) <= 40 for line in lines)
    assert lines[1].endswith("...")
    assert ShownRows.of(frame, np.array([0]), keep=["m", "z"]).names == ["m", "z"]
    with pytest.raises(DataError, match="'other'"):
        ShownRows.of(frame, np.array([0]), keep=["other"])


def test_rows_of_every_kind_are_shown():
    names = {"a": [1, 2, 3], "b": ["x", "y", "z"]}
    dicts = [dict(zip(names, values, strict=True)) for values in zip(*names.values(), strict=True)]
    for X in (pd.DataFrame(names), pl.DataFrame(names), pa.table(names), dicts):
        shown = ShownRows.of(X, np.array([2, 0]))
        assert shown.names == ["a", "b"]
        assert shown.values == [["3", "z"], ["1", "x"]]
    for X in (np.eye(3), sparse.csr_matrix(np.eye(3))):
        assert ShownRows.of(X, np.array([1])).values == [["0", "1", "0"]]
    images = ShownRows.of(np.zeros((3, 1, 8, 8)), np.array([2]))
    assert images.values == [["position 2, shape (1, 8, 8)"]]


def test_a_wide_row_says_how_many_columns_are_left_out():
    shown = ShownRows.of(np.zeros((3, 100)), np.array([0]))
    assert len(shown.lines(0)) == 40 + 1
    assert shown.lines(0)[-1] == "  and 60 more columns"


def test_opinions_are_shown_only_if_they_are_asked_for():
    with_opinion = ShownRows(["a"], [["1"]], ["probability 3.1%"])
    assert with_opinion.lines(0) == ["  a  1", "  drpu: probability 3.1%"]
    assert ShownRows(["a"], [["1"]]).lines(0) == ["  a  1"]


# -- in Python -----------------------------------------------------------------------------------


def test_a_plan_asks_in_text(short, rows, monkeypatch, capsys):
    replies = iter(["y", "n", "n"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(replies))
    audit = short.ask(rows.test, n=3)
    assert audit.n == 3
    assert "row " in capsys.readouterr().out


def test_a_plan_shows_a_page_in_a_notebook(short, rows, monkeypatch):
    monkeypatch.setattr("drpu.audits.plan.in_notebook", lambda: True)
    page = short.ask(rows.test)
    assert page._repr_html_().startswith("<iframe srcdoc=")
    assert str(page).startswith("<!doctype html>")
    assert "shown by a notebook" in repr(page)


def test_the_end_of_the_input_ends_the_questions(short, rows, monkeypatch):
    def end(prompt):
        raise EOFError

    monkeypatch.setattr("builtins.input", end)
    with pytest.raises(LabelError, match="at least one answer"):
        short.ask(rows.test)


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
def test_the_table_to_fill_in_is_read_when_it_is_filled_in(short, rows, library):
    X = rows.test
    if library != "numpy":
        X = pytest.importorskip(library).DataFrame({"score": rows.test[:, 0]})
    frame = short.to_frame(X)
    assert frame["drpu_row"].tolist() == short.rows.tolist()
    filled = frame.assign(drpu_label=["ny"[int(rows.test_labels[row])] for row in short.rows])
    audit = short.answer(filled.sample(frac=1, random_state=0))
    assert sorted(audit.parts[0].rows) == sorted(short.rows)
    with pytest.warns(MissingAnswersWarning):
        assert short.answer(filled.iloc[1:]).n == short.n - 1


def test_a_table_of_answers_is_read_without_its_plan(rows):
    clf = DRPUClassifier("kernel", random_state=0).fit_pu(rows.positive, rows.unlabeled)
    plan = clf.plan_audit(rows.test)
    filled = plan.to_frame(rows.test).assign(drpu_label=rows.test_labels[plan.rows])
    by_plan = clf.adapt(rows.test, audit=plan.answer(filled))
    for table in (filled, pl.from_pandas(filled), pa.Table.from_pandas(filled)):
        assert clf.adapt(rows.test, audit=table).test_prior_ == by_plan.test_prior_
    with pytest.raises(ParameterError, match="not counts"):
        clf.adapt(clf.count(rows.test), audit=filled)
    with pytest.raises(DataError, match="planned on 400 rows"):
        clf.adapt(rows.test[:300], audit=filled)


def test_a_table_of_another_plan_is_refused(short, rows):
    frame = short.to_frame(rows.test).assign(drpu_label="yes")
    with pytest.raises(DataError, match="another plan"):
        short.first(10).answer(frame)
    for row in (np.nan, np.inf, "first", None):
        with pytest.raises(DataError, match="was changed"):
            short.answer(frame.assign(drpu_row=row))
    with pytest.raises(DataError, match="drpu_design"):
        short.answer(frame.drop(columns="drpu_design"))
    with pytest.raises(DataError, match="the 400 rows"):
        short.to_frame(rows.test[:30])
