"""A conversation about planned rows: one question at a time, which may stop after any answer.

:class:`Conversation` knows the next row, the answers and when enough is known, and nothing about
where questions are shown. :func:`converse` asks in a terminal; :mod:`drpu.audits.ask_page` makes a
page that asks in a browser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from drpu._arrays import IntArray, as_numpy
from drpu._checks import check_integer, check_real
from drpu._output import printable
from drpu._results import frame_of
from drpu.audits.plan import Audit, AuditPlan, AuditProgress
from drpu.exceptions import DataError
from drpu.priors.constants import FEW_ANSWERS
from drpu.state.labels import Classes, read_answers
from drpu.tables.frames import as_records, collected, is_frame, read_frame, take_frame
from drpu.tables.values import is_missing_cell

LEAST = 10  # answers before a narrow interval ends a conversation
FURTHER = 30  # answers whose effect is foretold at the end
PROMPT = "positive? [y/n/skip/back/quit] "
HELP = "Answer y (yes) or n (no), s to skip the row, b to go back, q to quit."
MOST_COLUMNS = 40  # of a row, in a terminal
LONGEST_VALUE = 500  # characters of a value on a page
_HARDLY = 0.95  # of the width is left
_MANY_SKIPPED = 0.2  # of the rows that were asked about
_COMMANDS = {
    **dict.fromkeys(("y", "yes"), "yes"),
    **dict.fromkeys(("n", "no"), "no"),
    **dict.fromkeys(("s", "skip"), "skip"),
    **dict.fromkeys(("b", "back"), "back"),
    **dict.fromkeys(("q", "quit"), "quit"),
}


@dataclass(frozen=True, slots=True)
class Goal:
    """When enough is known: after so many answers, or when the interval is this narrow."""

    answers: int | None = FEW_ANSWERS
    width: float | None = None

    def __post_init__(self) -> None:
        if self.answers is not None:
            check_integer("n", self.answers, low=1)
        if self.width is not None:
            check_real("width", self.width, low=0.0, high=1.0)


@dataclass
class Conversation:
    """Answers about the rows of a plan, and the place of the next question.

    Places are positions in ``plan.rows``. ``answers`` are those of an earlier conversation, if any:
    it goes on after the last of them, and rows before it without an answer were skipped.

    Examples
    --------
    >>> from drpu import DRPUClassifier, make_gaussian_pu
    >>> data = make_gaussian_pu(200, 500, prior=0.4, test_prior=0.2, separation=3, random_state=0)
    >>> clf = DRPUClassifier("kernel", random_state=0).fit_pu(data.positive, data.unlabeled)
    >>> plan = clf.plan_audit(data.test, n=30, random_state=0)
    >>> conversation = Conversation(plan, goal=Goal(answers=3))
    >>> while not conversation.is_finished:
    ...     conversation.record(data.test_labels[conversation.row] == 1)
    >>> conversation.n_answers
    3
    """

    plan: AuditPlan
    goal: Goal = field(default_factory=Goal)
    answers: dict[int, bool] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    place: int = 0
    first: int = 0  # number of the first row: 0 in Python, otherwise its line in the file

    def __post_init__(self) -> None:
        if self.answers:
            asked = max(self.answers) + 1
            self.skipped = set(range(asked)) - set(self.answers)
            self.place = asked

    # -- the next question -------------------------------------------------------------------------

    @property
    def row(self) -> int:
        """Position of the row to ask about, among the rows that the plan was made for."""
        return int(self.plan.rows[self.place])

    @property
    def is_finished(self) -> bool:
        """Whether enough is known, or no planned row is left to ask about."""
        return self.place >= self.plan.n or self.has_enough

    @property
    def has_enough(self) -> bool:
        """Whether the goal is reached; rows that were gone back to are asked about first."""
        if self.place <= self._last_place:
            return False
        n = self.goal.answers
        if n is not None and self.n_answers >= n:
            return True
        if self.goal.width is None or self.n_answers < LEAST:
            return False
        return self.knowledge.width <= self.goal.width

    # -- replies -----------------------------------------------------------------------------------

    def record(self, is_positive: bool) -> None:
        """Keep the answer about this row, and go to the next one."""
        self.answers[self.place] = bool(is_positive)
        self.skipped.discard(self.place)
        self._advance()

    def skip(self) -> None:
        """Leave this row without an answer, and go to the next one."""
        self.answers.pop(self.place, None)
        self.skipped.add(self.place)
        self._advance()

    def back(self) -> None:
        """Go back to the row before this one; its answer stays until another one is given."""
        self.place = max(self.place - 1, 0)

    def _advance(self) -> None:
        """Go to the first row after this one that was not asked about."""
        self.place += 1
        while self.place in self.answers or self.place in self.skipped:
            self.place += 1

    @property
    def _last_place(self) -> int:
        """The last place that was asked about; -1 if there is none."""
        return max(*self.answers, *self.skipped, -1, -1)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.answers)

    @property
    def many_skipped(self) -> bool:
        """Whether so many rows were skipped that the others may not stand for all."""
        asked = self.n_answers + len(self.skipped)
        return len(self.skipped) > max(2, _MANY_SKIPPED * asked)

    @property
    def knowledge(self) -> AuditProgress:
        """What the answers so far tell about the prior."""
        return self.plan.progress(self.labels[: self._last_place + 1])

    @property
    def labels(self) -> list[str | None]:
        """The answer about each planned row as a word, None where there is none."""
        positive, negative = answer_words(self.plan.classes)
        words = {True: positive, False: negative, None: None}
        return [words[self.answers.get(place)] for place in range(self.plan.n)]

    def audit(self) -> Audit:
        """The answers, for ``adapt(X, audit=...)``."""
        return self.plan.answer(self.labels)

    def progress(self) -> str:
        """One line: answers, skipped rows and the width of the interval, but not where it is."""
        counted = "1 answer" if self.n_answers == 1 else f"{self.n_answers} answers"
        if self.goal.answers is not None:
            counted = f"{self.n_answers} of {self.goal.answers} answers"
        if self.skipped:
            counted += f", {len(self.skipped)} skipped"
        if not self.answers:
            return counted
        width = self.knowledge.width
        line = f"{counted}; the interval of the share of positives is {width:.2f} wide"
        if self.goal.width is not None:
            line += f" (aim: {self.goal.width:g})"
        return line

    def outlook(self) -> str | None:
        """What further answers would bring; None if no planned row is left, or without answers."""
        left = self.plan.n - self._last_place - 1
        further = min(FURTHER, left)
        if not self.answers or further < 1:
            return None
        now = self.knowledge.width
        later = self.knowledge.width_after(further)
        if later > _HARDLY * now:
            return f"{further} more would hardly narrow the interval, which is {now:.2f} wide"
        return f"{further} more would narrow the interval from {now:.2f} to about {later:.2f}"


def answer_words(classes: Classes) -> tuple[str, str]:
    """The words for a positive and a negative answer that a file of answers has.

    They are yes and no, unless training had these words as labels with another meaning.
    """
    for positive, negative in (("yes", "no"), ("true", "false"), ("1", "0")):
        if _mean_these(positive, negative, classes):
            return positive, negative
    negative, positive = classes.tolist()
    return str(positive), str(negative)


def _mean_these(positive: str, negative: str, classes: Classes) -> bool:
    try:
        _, meanings = read_answers([positive, negative], classes)
    except DataError:
        return False
    return bool(meanings[0]) and not meanings[1]


# -- rows as texts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownRows:
    """Values of planned rows as texts, in the order of the columns and of the plan."""

    names: Sequence[str]
    values: Sequence[Sequence[str]]  # of each planned row
    opinions: Sequence[str] | None = None  # what the classifier says about each row, if wanted

    @classmethod
    def of(
        cls,
        X: Any,
        rows: IntArray,
        *,
        keep: Iterable[str] | None = None,
        opinions: Sequence[str] | None = None,
    ) -> ShownRows:
        """The values of the rows of ``X`` at these positions; of the columns ``keep`` only."""
        columns = planned_columns(X, rows, keep)
        values = [list(map(value_text, cells)) for cells in zip(*columns.values(), strict=True)]
        return cls(list(columns), values, opinions)

    def lines(self, place: int, width: int = 100) -> list[str]:
        """The row as lines of a terminal: a name and a value that is cut to the width."""
        shown = list(zip(self.names, self.values[place], strict=True))[:MOST_COLUMNS]
        longest = max((len(name) for name, _ in shown), default=0)
        indent = min(longest, 30)
        lines = []
        for name, value in shown:
            head = f"  {cut(name, 30):<{indent}}  "
            lines.append(head + cut(value, max(width - len(head), 20)))
        left = len(self.names) - len(shown)
        if left:
            lines.append(f"  and {left} more columns")
        if self.opinions is not None:
            lines.append(f"  drpu: {self.opinions[place]}")
        return lines


def planned_columns(
    X: Any, rows: IntArray, keep: Iterable[str] | None = None
) -> dict[str, list[Any]]:
    """The columns of the rows of ``X`` at these positions, by name."""
    if isinstance(X, (list, tuple)) and isinstance(X[0], Mapping):
        columns = _frame_columns(as_records([X[row] for row in rows]))
    elif is_frame(X):
        columns = _frame_columns(take_frame(collected(X), np.asarray(rows)))
    else:
        columns = _array_columns(X, rows)
    if keep is None:
        return columns
    names = list(keep)
    for name in names:
        if name not in columns:
            raise DataError(f"keep must name columns of the rows, got {name!r}.")
    return {name: columns[name] for name in names}


def _frame_columns(rows: Any) -> dict[str, list[Any]]:
    """The columns of a data frame, or of dicts."""
    frame = read_frame(rows)
    columns = {}
    for position, name in enumerate(frame.names):
        columns[name] = frame.column(position).to_list()
    return columns


def _array_columns(X: Any, rows: IntArray) -> dict[str, list[Any]]:
    """The same for an array; rows that are images and the like have their shape as value."""
    array = as_numpy(X)
    if hasattr(array, "tocsr"):
        values = array.tocsr()[rows].toarray()
    else:
        values = np.asarray(array)[rows]
    if values.ndim != 2:
        return {"row": [f"position {row}, shape {values.shape[1:]}" for row in rows]}
    return {f"column {k}": values[:, k].tolist() for k in range(values.shape[1])}


def value_text(value: Any) -> str:
    """A value on one line."""
    if is_missing_cell(value):
        return "(missing)"
    if isinstance(value, float):
        return f"{value:.6g}"
    return printable(" ".join(str(value).split()))


def cut(text: str, longest: int) -> str:
    """The text, or its beginning with dots if it is too long."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 3]}..."


# -- in Python ------------------------------------------------------------------------------------


def table_to_fill_in(plan: AuditPlan, X: Any) -> Any:
    """The planned rows of ``X`` as a data frame, with the columns of the plan; see ``to_frame``."""
    _check_rows(plan, X)
    return frame_of(planned_columns(X, plan.rows) | plan.to_columns())


def ask_in_text(
    plan: AuditPlan, X: Any, *, n: int | None = None, keep: Iterable[str] | None = None
) -> Audit:
    """The answers that somebody types; see ``AuditPlan.ask``."""
    _check_rows(plan, X)
    if n is None:
        n = plan.n
    conversation = Conversation(plan, Goal(n))
    rows = ShownRows.of(X, plan.rows, keep=keep)
    converse(conversation, rows, _Prompt(), save=_save_nothing)
    return conversation.audit()


def _save_nothing(conversation: Conversation) -> None:
    """Save nothing after a reply: a conversation in Python has no file."""


def _check_rows(plan: AuditPlan, X: Any) -> None:
    """Raise unless ``X`` has as many rows as the plan was made for."""
    shape = getattr(X, "shape", None)
    n_rows = len(X) if shape is None else int(shape[0])
    planned = int(plan.strata.rows.sum())
    if n_rows != planned:
        raise DataError(
            f"X must be the {planned} rows that the audit was planned on, got {n_rows} rows."
        )


class _Prompt:
    """The prompt of Python."""

    width = 100

    def say(self, text: str) -> None:
        print(text)

    def reply(self, prompt: str) -> str | None:
        try:
            return input(prompt)
        except EOFError:
            return None


# -- in a terminal ---------------------------------------------------------------------------------


class Console(Protocol):
    """Where questions are shown, and replies come from."""

    @property
    def width(self) -> int:
        """Characters of a line."""

    def say(self, text: str) -> None:
        """Show a line."""

    def reply(self, prompt: str) -> str | None:
        """The line that somebody typed; None at the end of the input."""


def converse(
    conversation: Conversation,
    rows: ShownRows,
    console: Console,
    save: Callable[[Conversation], None],
) -> None:
    """Ask until enough is known, or until the user quits; ``save`` is called after every reply."""
    while not conversation.is_finished:
        _show_question(conversation, rows, console)
        reply = console.reply(PROMPT)
        if reply is None:
            return
        command = _COMMANDS.get(reply.strip().lower())
        if command == "quit":
            return
        if command is None:
            console.say(HELP)
        elif command == "back":
            conversation.back()
        else:
            _keep_reply(conversation, command)
            save(conversation)


def _show_question(conversation: Conversation, rows: ShownRows, console: Console) -> None:
    console.say("")
    console.say(f"row {conversation.row + conversation.first}: {conversation.progress()}")
    for line in rows.lines(conversation.place, console.width):
        console.say(line)
    earlier = conversation.answers.get(conversation.place)
    if earlier is not None:
        console.say(f"  your answer was {'yes' if earlier else 'no'}")


def _keep_reply(conversation: Conversation, command: str) -> None:
    if command == "skip":
        conversation.skip()
    else:
        conversation.record(command == "yes")
