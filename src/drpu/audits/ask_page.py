"""One page that asks about planned rows in a browser, and saves the file of answers.

The page needs no network and sends nothing: its content security policy allows its own script and
style only. It holds values of rows, which the script shows as texts, never as HTML.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from drpu import __version__
from drpu._colours import page_colours
from drpu._output import escape, json_for_script, page_policy
from drpu.audits.ask import LONGEST_VALUE, Conversation, Goal, ShownRows, answer_words, cut
from drpu.audits.plan import DESIGN, LABEL, ROW, AuditPlan

ANSWERS_FILE = "answers.csv"


@dataclass(frozen=True, slots=True)
class PageTexts:
    """What a page says besides the rows: its heading, and what to do with the saved file."""

    title: str = "Which rows are positive?"
    file: str = ANSWERS_FILE  # name of the file that the page saves
    command: str | None = None  # the command that uses the file


def ask_page(
    conversation: Conversation,
    rows: ShownRows,
    texts: PageTexts | None = None,
    *,
    table: tuple[str, Sequence[str]] | None = None,
) -> str:
    """One self-contained HTML page that asks about the rows of the conversation's plan.

    Parameters
    ----------
    conversation : Conversation
        The plan, the answers so far, and the number of answers to ask for.
    rows : ShownRows
        Values of the planned rows.
    texts : PageTexts, optional
        Heading, name of the file, and the command that uses it.
    table : tuple of str and list of str, optional
        Header and lines of the file, as CSV, whose last column is that of the answers and is left
        out of the lines; only the columns that are needed if left out.

    Returns
    -------
    page : str
        HTML with its style and its script inside.
    """
    texts = texts or PageTexts()
    css = page_colours() + _text("ask.css")
    js = _text("ask.js")
    command = ""
    if texts.command is not None:
        command = f"<code>{escape(texts.command)}</code>"
    parts = {
        "policy": escape(page_policy(css, js)),
        "version": __version__,
        "title": escape(texts.title),
        "about": escape(_about(conversation)),
        "usage": escape(_usage(texts)),
        "command": command,
        "privacy": escape(_privacy(conversation, rows)),
        "css": css,
        "js": js,
        "plan": json_for_script(_plan(conversation, rows, texts, table)),
    }

    def part(name: re.Match[str]) -> str:
        return parts[name[1]]

    return re.sub(r"\{(\w+)\}", part, _text("ask.html"))  # values are not searched for names


def _text(name: str) -> str:
    return files("drpu.audits").joinpath(name).read_text(encoding="utf-8")


def _about(conversation: Conversation) -> str:
    return (
        "Say for each row whether it is truly positive. Skip a row that you cannot judge. "
        f"{_goal(conversation)} answers are enough to start, and you may stop at any time."
    )


def _usage(texts: PageTexts) -> str:
    if texts.command is None:
        return f"The answers are saved as {texts.file}."
    return f"The answers are saved as {texts.file}. Then run:"


def _privacy(conversation: Conversation, rows: ShownRows) -> str:
    n_columns = len(rows.names)
    return (
        f"This page holds values of {conversation.plan.n} rows ({n_columns} columns): treat it "
        "like the data. It sends nothing anywhere. Answers stay in this browser until you save "
        "them."
    )


def _goal(conversation: Conversation) -> int:
    """Number of answers to ask for."""
    n = conversation.goal.answers
    return min(n or conversation.plan.n, conversation.plan.n)


def _plan(
    conversation: Conversation,
    rows: ShownRows,
    texts: PageTexts,
    table: tuple[str, Sequence[str]] | None,
) -> dict[str, Any]:
    """What the script needs."""
    plan = conversation.plan
    head, lines = table or _needed_columns(conversation)
    values = []
    for cells in rows.values:
        values.append([cut(cell, LONGEST_VALUE) for cell in cells])
    positive, negative = answer_words(plan.classes)
    digest = hashlib.sha256("\n".join(plan.to_columns()[DESIGN]).encode()).hexdigest()
    opinions = rows.opinions
    return {
        "key": f"drpu-ask-{digest[:32]}",
        "goal": _goal(conversation),
        "file": texts.file,
        "words": {"yes": positive, "no": negative},
        "names": list(rows.names),
        "values": values,
        "opinions": None if opinions is None else list(opinions),
        "rows": (plan.rows + conversation.first).tolist(),
        "answers": [conversation.answers.get(place) for place in range(plan.n)],
        "head": head,
        "lines": list(lines),
    }


def _needed_columns(conversation: Conversation) -> tuple[str, list[str]]:
    """Header and lines of a file with the columns of the plan only."""
    columns = conversation.plan.to_columns()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([ROW, DESIGN, LABEL])
    for row, design in zip(columns[ROW], columns[DESIGN], strict=True):
        writer.writerow([row, design])
    head, *lines = text.getvalue().splitlines()
    return head, [f"{line}," for line in lines]


def page_in_notebook(
    plan: AuditPlan, X: Any, *, n: int | None = None, keep: Iterable[str] | None = None
) -> ShownPage:
    """The page about the planned rows of ``X``; see ``AuditPlan.ask``."""
    conversation = Conversation(plan, Goal(n))
    rows = ShownRows.of(X, plan.rows, keep=keep)
    command = f'clf.adapt(X, audit=pandas.read_csv("{ANSWERS_FILE}"))'
    return ShownPage(ask_page(conversation, rows, PageTexts(command=command)))


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page in a notebook; ``str(page)`` is its HTML, to be written to a file."""

    html: str

    def __str__(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"ShownPage({len(self.html):,} characters of HTML: shown by a notebook)"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" title="Rows to label" '
            'style="width:100%;height:640px;border:0"></iframe>'
        )
