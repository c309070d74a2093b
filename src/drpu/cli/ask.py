"""``drpu ask``: one planned row after the other, in the terminal or on a page."""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drpu.cli.options import (
    Data,
    Formulas,
    Keep,
    OutputOptions,
    ReadingOptions,
    SavedOptions,
    option,
)
from drpu.cli.show import PIPE, Result, about, say, size
from drpu.exceptions import DataError, MissingAnswersWarning, silent
from drpu.priors.constants import FEW_ANSWERS
from drpu.report.texts import prior_text, share

if TYPE_CHECKING:
    from drpu.audits.ask import Conversation, Goal, ShownRows
    from drpu.audits.plan import AuditPlan

PLANNED = 100  # rows, so that a conversation can go on after its first answers


def ask(
    saved: SavedOptions,
    data: Data,
    out: Annotated[
        str | None,
        option("--out", "-o", help="The file of answers; june-answers.csv for june.csv."),
    ] = None,
    *,
    n: Annotated[
        int | None, option("--n", "-n", min=1, help="Stop after this many answers; 20 by default.")
    ] = None,
    width: Annotated[
        float | None,
        option(help="Stop when the interval of the share of positives is this narrow: 0.05."),
    ] = None,
    page: Annotated[
        Path | None, option(help="Write a page that asks in a browser, such as ask.html.")
    ] = None,
    show_reasons: Annotated[
        bool,
        typer.Option("--show-reasons", help="Show what the classifier thinks of each row."),
    ] = False,
    keep: Keep = None,
    formulas: Formulas = False,
    reading: ReadingOptions,
    output: OutputOptions,
) -> Result:
    """Ask about a few rows, one at a time, and write the answers to a file.

    Answer y or n, or skip a row that you cannot judge. Each answer is written at once: start again
    to go on. 20 answers are usually enough. The rows are chosen so that you may stop after any
    answer. All columns are shown, except those of --drop, or those of --keep only. drpu audit
    writes the rows to a file for somebody else to fill in.

    Examples
    --------
    drpu ask fraud.drpu june.csv
    drpu ask fraud.drpu june.csv --n 50 --keep id,amount,country
    drpu ask fraud.drpu june.csv --width 0.05
    drpu ask fraud.drpu june.csv --page ask.html
    """
    from drpu.cli.tables import check_out, ending_of, first_row

    if data == PIPE:
        raise typer.BadParameter(
            "DATA must be a file: the standard input is where answers come from."
        )
    path = out or f"{Path(data.removesuffix('.gz')).stem}-answers.csv"
    check_out(path, [saved.artifact, data], table=True)
    check_out(page, [saved.artifact, data, path])
    if page is not None and ending_of(path) != ".csv":
        raise typer.BadParameter(f"a page saves answers as .csv, got --out {path}.")
    reading.check(data)
    classifier = saved.load()
    loaded = reading.open(classifier, data)
    kept = loaded.kept(keep)
    if keep is None and kept is not None:
        kept = kept.select(reading.chosen(loaded))
    X = reading.scored(classifier, loaded, used=[] if kept is None else kept.column_names)
    answers = AnswersFile(path, formulas=formulas)
    questions = _Questions(classifier, X, n, width, page is not None, first_row(data))
    with about(data):
        plan, goal = questions.planned()
    with about(path if answers.exists else data):
        conversation = questions.start(plan, goal, answers, kept)
    rows = _shown(conversation, classifier, X, loaded, kept, show_reasons)
    next_words = ["drpu", "adapt", str(saved.artifact), data, *reading.words, "--audit", path]
    if page is not None:
        return _write_page(page, conversation, rows, answers, next_words)
    _talk(conversation, rows, answers, in_json=output.json)
    with about(data):
        return _what_changed(conversation, classifier, X, answers, next_words)


class AnswersFile:
    """The file of answers: a table of the planned rows, written after each answer."""

    def __init__(self, path: str, *, formulas: bool = False) -> None:
        self.path = path
        self.formulas = formulas
        self.table: Any = None

    @cached_property
    def exists(self) -> bool:
        """Whether the file existed when the command began."""
        return Path(self.path).exists()

    def read(self) -> dict[str, Any]:
        """The columns of the file; values stay as they were written."""
        from drpu.cli.tables import read_as_written

        loaded = read_as_written(self.path)
        if loaded.table is None:
            raise DataError("answers are a table, not a NumPy archive.")
        self.table = loaded.table
        return {name: loaded.column(name) for name in loaded.names}

    @property
    def first_number(self) -> int:
        """The smallest number of a row in the file, as it counts rows."""
        from drpu.cli.tables import audited_rows

        return min(audited_rows(self.table))

    def write(self, conversation: Conversation) -> None:
        """Write the answers so far; the file is replaced as a whole."""
        from drpu.cli.tables import with_labels, write_tables

        rows = self._numbers(conversation)
        words = dict(zip(rows, conversation.labels, strict=True))
        write_tables(self.path, [with_labels(self.table, words)], formulas=self.formulas)

    def lines(self, conversation: Conversation) -> tuple[str, list[str]]:
        """Header and lines of the file as CSV in the order of the plan, without the answers."""
        from drpu.cli.tables import csv_lines

        return csv_lines(self.table, self._numbers(conversation), formulas=self.formulas)

    @staticmethod
    def _numbers(conversation: Conversation) -> list[int]:
        numbers: list[int] = (conversation.plan.rows + conversation.first).tolist()
        return numbers


@dataclass(frozen=True)
class _Questions:
    """What is asked: rows of which data, and until when."""

    classifier: Any
    X: Any
    n: int | None
    width: float | None
    on_page: bool
    first: int  # number of the first row of the data

    def planned(self) -> tuple[AuditPlan, Goal]:
        """The rows of a new conversation, and when it ends."""
        from drpu.audits.ask import Goal

        n = self.n
        if n is None and self.width is None:
            n = FEW_ANSWERS
        goal = Goal(n, self.width)
        plan = self._plan(n or self._expected())
        if self.on_page and n is None:  # a page counts answers
            goal = Goal(self._expected())
        return plan, goal

    def start(self, plan: AuditPlan, goal: Goal, answers: AnswersFile, kept: Any) -> Conversation:
        """The conversation of the file, if there is one; otherwise a new one about ``plan``."""
        from drpu.audits.answers_file import read_plan
        from drpu.audits.ask import Conversation
        from drpu.audits.plan import ROW
        from drpu.cli.tables import numbered, with_columns

        if answers.exists:
            columns = answers.read()
            plan, labels = read_plan(plan, self.classifier.fitted_, self.X, columns)
            first = answers.first_number - int(plan.rows.min())
            return Conversation(plan, goal, labels, first=first)
        columns = numbered(plan.to_columns(), self.first, ROW)
        answers.table = with_columns(kept, columns, rows=plan.rows)
        return Conversation(plan, goal, first=self.first)

    def _expected(self) -> int:
        """Number of answers after which the interval is expected to be as narrow as asked for."""
        plan = self.classifier.plan_audit(self.X, width=self.width)
        return int(plan.n)

    def _plan(self, n: int) -> AuditPlan:
        """More rows than are asked about at first, so that a conversation can go on."""
        planned = min(max(PLANNED, 2 * n), len(self.X))
        plan: AuditPlan = self.classifier.plan_audit(self.X, n=planned, random_state=0)
        return plan


def _shown(
    conversation: Conversation, classifier: Any, X: Any, loaded: Any, kept: Any, reasons: bool
) -> ShownRows:
    """The planned rows as texts, with what the classifier thinks of them if that is wanted."""
    import numpy as np

    from drpu.audits.ask import ShownRows

    positions = conversation.plan.rows
    opinions = None
    if reasons:
        planned = X.take(positions)
        probabilities = classifier._outputs(planned)["probability"]
        opinions = []
        for probability, decisive in zip(
            probabilities, classifier.reasons(planned, 3), strict=True
        ):
            opinions.append(f"probability {share(probability)}; {decisive}")
    if kept is None:
        return ShownRows.of(loaded.array_rows(), positions, opinions=opinions)
    values = kept.take(positions)
    return ShownRows.of(values, np.arange(len(positions)), opinions=opinions)


# -- in the terminal -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Terminal:
    """The standard input and output, or the standard error if the output is JSON."""

    aside: bool

    @property
    def width(self) -> int:
        """Characters of a line."""
        return shutil.get_terminal_size((100, 24)).columns

    def say(self, text: str) -> None:
        """Show a line."""
        say(text, aside=self.aside)

    def reply(self, prompt: str) -> str | None:
        """The next line of the input; None at its end."""
        stream = sys.stderr if self.aside else sys.stdout
        print(prompt, end="", file=stream, flush=True)
        if sys.stdin is None:  # closed by the caller
            return None
        line = sys.stdin.readline()
        if not line or not sys.stdin.isatty():  # nobody typed the end of the line
            print(file=stream)
        return line or None


def _talk(
    conversation: Conversation, rows: ShownRows, answers: AnswersFile, *, in_json: bool
) -> None:
    """Ask in the terminal, and write each answer at once."""
    from drpu.audits.ask import HELP, converse

    terminal = _Terminal(aside=in_json)
    if conversation.answers:
        terminal.say(f"answers that {answers.path} has already: {conversation.n_answers}")
    if not conversation.is_finished:
        terminal.say(f"Is the row truly positive? {HELP}")
        terminal.say(f"Each answer is written to {answers.path}, with values of the row.")
    try:
        converse(conversation, rows, terminal, answers.write)
    except KeyboardInterrupt:
        terminal.say("")
        if conversation.answers:
            terminal.say(
                f"{conversation.n_answers} answers are in {answers.path}: start again to go on."
            )
        raise
    terminal.say("")


def _what_changed(
    conversation: Conversation, classifier: Any, X: Any, answers: AnswersFile, words: list[str]
) -> Result:
    """What the answers changed, what more of them would bring, and the command that uses them."""
    from drpu.audits.evaluation import few_of_a_kind

    values: dict[str, Any] = {
        "out": answers.path if Path(answers.path).exists() else None,
        "answers": conversation.n_answers,
        "skipped": len(conversation.skipped),
        "planned": conversation.plan.n,
    }
    if not conversation.answers:
        return Result(values, ["no answers: nothing changed."])
    with silent():
        before = classifier.adapt(X)
        audit = conversation.audit()
    after = classifier.adapt(X, audit=audit)
    flagged = [int((adapted._outputs(X)["score"] > 0).sum()) for adapted in (before, after)]
    _warn_of_skipped(conversation)
    values |= {
        "width": conversation.knowledge.width,
        "prior_before": before.prior_,
        "prior": after.prior_,
        "flagged_before": flagged[0],
        "flagged": flagged[1],
        "next": shlex.join(words),
    }
    n_rows = len(X)
    n_yes = sum(conversation.answers.values())
    few = few_of_a_kind(n_yes, conversation.n_answers)
    answered = f"{conversation.n_answers} in {answers.path}{few or f', {n_yes} of them yes'}"
    if conversation.skipped:
        answered += f"; skipped: {len(conversation.skipped)}"
    lines = {
        "answers": answered,
        "share of positives": f"{prior_text(after.prior_)}; before {prior_text(before.prior_)}",
        "rows flagged": f"{flagged[1]:,} of {n_rows:,}; before {flagged[0]:,}",
    }
    outlook = conversation.outlook()
    if outlook is not None:
        lines["more answers"] = outlook
    lines["use them"] = shlex.join(words)
    return Result(values, lines)


def _warn_of_skipped(conversation: Conversation) -> None:
    if conversation.many_skipped:
        asked = conversation.n_answers + len(conversation.skipped)
        MissingAnswersWarning.issue(
            f"{len(conversation.skipped)} of {asked} rows were skipped. The limits hold if these "
            "rows are like the others; they do not if the rows that are hard to judge were skipped."
        )


# -- on a page -------------------------------------------------------------------------------------


def _write_page(
    page: Path,
    conversation: Conversation,
    rows: ShownRows,
    answers: AnswersFile,
    words: list[str],
) -> Result:
    from drpu._output import write_output
    from drpu.audits.ask_page import PageTexts, ask_page

    texts = PageTexts(file=Path(answers.path).name, command=shlex.join(words))
    write_output(page, ask_page(conversation, rows, texts, table=answers.lines(conversation)))
    written = page.stat().st_size
    values = {"page": str(page), "bytes": written, "planned": conversation.plan.n}
    n_columns = len(rows.names)
    lines = [
        f"{page} ({size(written)}): open it in a browser, it needs no network and sends nothing",
        f"it holds values of {conversation.plan.n} rows ({n_columns} columns; --keep chooses them) "
        f"and saves {texts.file}, then run: {shlex.join(words)}",
    ]
    return Result(values | {"out": answers.path, "next": shlex.join(words)}, lines)
