"""Numbers as text, and the sentences and tables of the page.

Only types are imported from modules that need NumPy, so the command line can use the texts at once.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from drpu._output import FORMULA
from drpu.priors.constants import FEW_ANSWERS, WIDE_RANGE

if TYPE_CHECKING:
    from drpu.decisions.budget import Budget
    from drpu.periods.groups import GroupPrior
    from drpu.priors.estimate import PriorEstimate
    from drpu.priors.figures import Figure
    from drpu.report.data import ReportData, RowList
    from drpu.state.population import Backtest

MEANINGS = {
    "flagged": "rows that are flagged",
    "precision": "flagged rows that are positive",
    "recall": "positives that are flagged",
    "false_positive_rate": "negatives that are flagged",
    "accuracy": "rows labelled rightly",
    "cost": "mean cost of a row",
}
LONG_WORD = 24  # characters; longer words of a table may be broken
ASK = f"Answers for {FEW_ANSWERS} rows are the surest help: run drpu ask."
MOST_SENTENCES = 4  # about single periods, and names in a sentence
ROWS_ON_PAGE = 10  # of a list of rows; the file to download has more of them

# What moved in new rows, as a sentence, and whether only the prior did.
SHIFTS = {
    "prior": "only the share of positives; labels follow it",
    "other": "more than the share of positives; labels move only as far as there is support for it",
    "answers": "answers were used; labels move as far as they support it",
    "none": "nothing was adapted",
}
UNTESTED = (
    "untested: too few rows to tell; labels move as far as the rows determine the share of "
    "positives"
)
ONLY_PRIOR = {
    "prior": "yes",
    "other": "no",
    "answers": "answers were used",
    "none": "was not asked",
}


def shift_text(adapted: Any) -> str:
    """What moved, as a sentence."""
    if adapted.untested_:
        return UNTESTED
    return SHIFTS[adapted.shift_]


def only_prior_text(adapted: Any) -> str:
    """Whether only the prior moved, in a word or two."""
    if adapted.untested_:
        return "untested"
    return ONLY_PRIOR[adapted.shift_]


def share(value: float) -> str:
    """A share in percent: one decimal, or two significant digits below one percent; NaN as words.

    Examples
    --------
    >>> [share(value) for value in (0.0, 0.5, 0.0307, 0.003, 0.00042, 1.0)]
    ['0.0%', '50.0%', '3.1%', '0.30%', '0.042%', '100.0%']
    """
    if math.isnan(value):
        return "cannot be computed"
    if not 0 < value < 0.01:
        return f"{100 * value:.1f}%"
    decimals = min(1 - math.floor(math.log10(100 * value)), 6)
    return f"{100 * value:.{decimals}f}%"


def share_range(low: float, high: float) -> str:
    """Two shares as a range."""
    return f"{share(low)} to {share(high)}"


def number(value: float) -> str:
    """A number with three digits; an infinite threshold flags no row, or all of them."""
    if math.isinf(value):
        return "none" if value > 0 else "all"
    return f"{value:.3g}"


def figure_text(figure: Figure, form: Callable[[float], str] = share) -> str:
    """A figure with its limits in brackets, or words if it is NaN."""
    if math.isnan(figure.value):
        return "cannot be computed"
    return f"{form(figure.value)} ({form(figure.low)} to {form(figure.high)})"


def expected_text(figure: Figure) -> str:
    """An expected share with its limits in brackets, or the range alone if it is wide."""
    if figure.is_wide and not math.isnan(figure.value):
        return share_range(figure.low, figure.high)
    return figure_text(figure)


def prior_text(prior: PriorEstimate) -> str:
    """A prior as text: its value and limits, and whether it is identified."""
    if prior.method == "given":
        return f"{share(prior.value)} (given)"
    text = f"{share(prior.value)} ({share_range(prior.low, prior.high)} at {prior.level:.0%})"
    if prior.identified:
        return text
    return f"{text}, not identified{_upper_bound(prior)}"


def _upper_bound(prior: PriorEstimate) -> str:
    """The end of a sentence about a prior that is not identified."""
    if prior.upper is None or prior.upper > 1 - 1e-9:
        return ""
    return f": at most {share(prior.upper)} by the counts alone"


def scenario_text(fitted: Any) -> str:
    """Where labels come from."""
    if fitted.population.scenario == "single-sample":
        labelled = share(fitted.population.labelled_fraction)
        text = f"single-sample: {labelled} of the rows of one sample are labelled"
    else:
        text = "case-control: labelled rows are a sample beside the others"
    return text


def backtest_text(past: Backtest) -> str:
    """How far readings of past periods are believed."""
    return (
        "Each period was read by a fit to the rows before it. Where such a reading moves the "
        f"log-odds by 1, {past.slope:.2f} of it is believed; readings were wrong by a factor of "
        f"{math.exp(past.spread):.2f} (one standard deviation of the log-odds)."
    )


def lead(data: ReportData) -> str:
    """The page in one sentence."""
    if data.new is None:
        return f"The share of positives in training was {prior_text(data.train)}."
    prior = data.prior
    train = data.train
    in_training = share(train.value)
    count = _count(prior, data.rows)
    text = f"{count[0].upper()}{count[1:]} of the {data.rows:,} new rows are positive"
    if data.other_shift:
        reason = f"more than the share of positives ({in_training}) has changed"
        return f"{text}, by a rough reading: {reason}."
    if not prior.identified:
        return f"{text}, but the data do not determine this number{_upper_bound(prior)}."
    if prior.low <= train.high and prior.high >= train.low:
        reason = f"The share may be that of training ({in_training}): the intervals overlap."
        return f"{text}. {reason}"
    change = "rose" if prior.low > train.high else "fell"
    return f"{text}. The share of positives {change} from {in_training} in training."


def period_sentences(data: ReportData) -> list[str]:
    """The estimates of the periods and what to do there; of many periods, a summary."""
    if len(data.periods) > MOST_SENTENCES:
        return _summary_of_periods(data)
    return [_period_sentence(data, period) for period in data.periods]


def _period_sentence(data: ReportData, period: GroupPrior) -> str:
    prior = period.prior
    text = f"{period.name}: {_count(prior, period.n)} of {period.n:,} rows are positive"
    if not _is_wide(prior):
        text += f" ({_count_range(prior, period.n)})"
    if period.shift == "other":
        text += f", by a rough reading: {SHIFTS['other']}"
    elif not prior.identified:
        text += ", but the data do not determine the number"
    top = "" if data.budget is None else "the top "
    return f"{text}. Check {top}{_rows_to_check(period):,} rows."


def _rows_to_check(period: GroupPrior) -> int:
    """The rows of the budget, of which ties may flag more, or the flagged rows."""
    budget = getattr(period.classifier, "budget_", None)
    if budget is None or budget.n is None:
        return period.flagged or 0
    return int(budget.n)


def _summary_of_periods(data: ReportData) -> list[str]:
    """The range of the estimates, and the periods that must be read with care."""
    to_check = 0
    estimates = []
    shifted = []
    undetermined = []
    for period in data.periods:
        to_check += _rows_to_check(period)
        estimates.append((period.prior.value, str(period.name)))
        if period.shift == "other":
            shifted.append(str(period.name))
        elif not period.prior.identified:
            undetermined.append(str(period.name))
    least, name_of_least = min(estimates)
    most, name_of_most = max(estimates)
    shares = f"between {share(least)} ({name_of_least}) and {share(most)} ({name_of_most})"
    if share(least) == share(most):
        shares = f"about {share(most)} in each"
    sentences = [f"Share of positives by {data.by_name}: {shares}. Check {to_check:,} rows."]
    if shifted:
        sentences.append(f"{_some_names(shifted)}: {SHIFTS['other']}.")
    if undetermined:
        sentences.append(f"{_some_names(undetermined)}: the data do not determine the number.")
    return sentences


def _some_names(names: list[str]) -> str:
    text = ", ".join(names[:MOST_SENTENCES])
    if len(names) <= MOST_SENTENCES:
        return text
    return f"{text} and {len(names) - MOST_SENTENCES:,} more"


def cards(data: ReportData) -> list[tuple[str, str, str]]:
    """How many, how sure, what to do: a question, the answer and a sentence."""
    return [
        ("How many are positive?", *_how_many(data)),
        ("How sure is that?", *_how_sure(data)),
        ("What to do?", *_what_to_do(data)),
    ]


def _how_many(data: ReportData) -> tuple[str, str]:
    prior = data.prior
    positives = share(prior.value)
    if _is_wide(prior):
        positives = share_range(prior.low, prior.high)
    if data.new is None:
        return positives, "of the rows, at the prior that this classifier works at."
    sentence = f"{positives} of {data.rows:,} new rows; {share(data.train.value)} in training."
    return _count(prior, data.rows), sentence


def _how_sure(data: ReportData) -> tuple[str, str]:
    prior = data.prior
    if prior.method == "given":
        return "given", "The share was stated by a person, not estimated."
    answer = share_range(prior.low, prior.high)
    if data.other_shift:
        return answer, f"This is a rough reading. {ASK}"
    if not prior.identified:
        return answer, (
            f"Not identified{_upper_bound(prior)}. The data do not show how many of the rows with "
            f"the highest scores are negative. {ASK}"
        )
    sentence = f"with {prior.level:.0%} confidence"
    if data.new is not None:
        sentence += f": {_count_range(prior, data.rows)} rows"
    return answer, f"{sentence}."


def _what_to_do(data: ReportData) -> tuple[str, str]:
    if _all_shifted(data):
        reason = "More than the share of positives has changed."
        return "check the data", f"{reason} Find out why before the labels are used."
    if data.row_list is not None and data.groups is not None:
        sentence = "Each period has its own share, decision and budget: see the table of them."
        return f"check {data.row_list.n:,} rows", sentence
    if data.budget is not None:
        return _check_budget(data, data.budget)
    return _check_flagged(data)


def _all_shifted(data: ReportData) -> bool:
    """Whether more than the prior has changed in every period, or in all rows together."""
    if data.periods:
        return all(period.shift == "other" for period in data.periods)
    return data.other_shift


def _check_budget(data: ReportData, budget: Budget) -> tuple[str, str]:
    rows = "row" if data.to_check <= 1 else f"{data.to_check:,} rows"
    lift = budget.lift
    sentence = (
        f"They have the highest scores. Expected to be positive: {expected_text(budget.precision)} "
        f"of them. Share of all positives among them: {expected_text(budget.recall)}, which is "
        f"{lift.value:.3g} times that of as many random rows ({lift.low:.3g} to {lift.high:.3g})."
    )
    return f"check the top {rows}{_of_all_rows(data)}", sentence


def _check_flagged(data: ReportData) -> tuple[str, str]:
    flagged = data.expected_flagged
    if flagged == 0:
        return "nothing to flag", (
            "No row is worth a false alarm at these costs. Change them, or check the rows with the "
            "highest scores."
        )
    rows = "1 row" if flagged == 1 else f"{flagged:,} rows"
    sentence = (
        f"They are flagged. Expected to be positive: {expected_text(data.figure('precision'))} of "
        f"them. Share of all positives among them: {expected_text(data.figure('recall'))}."
    )
    return f"check {rows}{_of_all_rows(data)}", sentence


def _of_all_rows(data: ReportData) -> str:
    """The end of "check 300 rows", where the page is not about counted rows."""
    if data.new is not None:
        return ""
    return f" of {data.rows:,}"


def _is_wide(prior: PriorEstimate) -> bool:
    return prior.high - prior.low > WIDE_RANGE


def _count(prior: PriorEstimate, rows: int) -> str:
    """How many of the rows are positive, as a range where that is wide."""
    if _is_wide(prior):
        return _count_range(prior, rows)
    return f"about {round(prior.value * rows):,}"


def _count_range(prior: PriorEstimate, rows: int) -> str:
    return f"{round(prior.low * rows):,} to {round(prior.high * rows):,}"


def cautions(data: ReportData) -> list[str]:
    """What the reader must know before the numbers are used."""
    sentences = _warning_texts(data)
    if data.few_positives:
        held_out = f"Only {data.fitted.tails.n_positive:.0f} positives were held out"
        advice = "Label more, or give the training prior if you know it."
        sentences.append(f"{held_out}: shares and limits are rough. {advice}")
    if not data.train.identified:
        training = f"The training share is {prior_text(data.train)}."
        sentences.append(f"{training} Expected numbers depend on it.")
    if data.other_shift:
        sentences.append(
            "Expected numbers and their ranges hold only if nothing but the share of positives "
            "changed."
        )
    if data.train.value >= 0.995:
        sentences.append(
            "Nearly all training rows are estimated to be positive: check the labels first."
        )
    return sentences


def _warning_texts(data: ReportData) -> list[str]:
    """The first warning of each kind, without its code."""
    sentences: dict[type, str] = {}
    for warning in data.warnings:
        text = warning.for_command_line(share).removeprefix(f"[{warning.code}]")
        sentences.setdefault(type(warning), " ".join(text.split()))
    return list(sentences.values())


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells of a table; a cell is a text, or a value and its range."""

    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    numbers: tuple[int, ...] = ()  # the columns on the right
    hidden: tuple[int, ...] = ()  # the columns that a narrow screen leaves out
    stacked: bool = False  # whether a narrow screen shows the cells of a row below each other


def wrapping(cell: Any) -> str:
    """The class of a cell in the style sheet: ``whole`` stays on a line, ``long`` breaks anywhere.

    Other cells break between words only, so that no number and no name is cut.
    """
    text = str(cell)
    if len(text) <= 16 or (len(text) <= LONG_WORD and " " not in text):
        return "whole"
    if max([len(word) for word in text.split()], default=0) > LONG_WORD:
        return "long"
    return ""


@dataclass(frozen=True, slots=True)
class Section:
    """A table of the page with its heading, a sentence, and the name of the figure above it."""

    title: str
    table: TextTable
    note: str = ""
    figure: str = ""


def sections(data: ReportData) -> list[Section]:
    """The sections about training and the new rows, as far as they apply."""
    possible = [
        _training_table(data),
        _suspicious_labels(data),
        _moved_columns(data),
        _shares_by_group(data),
        _past_periods(data),
        _audit_changes(data),
    ]
    return [section for section in possible if section is not None]


def _training_table(data: ReportData) -> Section | None:
    if not data.fitted.columns.notes:
        return None
    rows: list[Any] = []
    for note in data.fitted.columns.notes:
        rows.append((note.column or "rows", note.text(command_line=True)))
    return Section("The training table", TextTable(("column", "what was found"), rows))


def _suspicious_labels(data: ReportData) -> Section | None:
    if data.suspects is None:
        return None
    lines = zip(*data.suspects.values(), strict=True)
    rows: list[Any] = [tuple(map(_cell, line)) for line in islice(lines, ROWS_ON_PAGE)]
    note = "Labels that may be wrong, the most suspicious first, and copies of labelled rows."
    table = TextTable(tuple(data.suspects), rows, stacked=True)
    return Section("Suspicious labels", table, note)


def _moved_columns(data: ReportData) -> Section | None:
    moved = getattr(data.current, "moved_columns_", ())
    if not moved:
        return None
    rows: list[Any] = []
    for column in moved:
        rows.append((column.name, share(column.misfit), f"{column.p_value:.1g}"))
    table = TextTable(("column", "rows that do not fit", "p-value"), rows, (1, 2))
    note = "Their distribution changed more than a new share of positives explains."
    return Section("Columns that moved", table, note)


def _shares_by_group(data: ReportData) -> Section | None:
    if not data.periods:
        return None
    rows: list[Any] = []
    for period in data.periods:
        prior = period.prior
        rows.append(
            (
                str(period.name),
                f"{period.n:,}",
                (share(prior.value), share_range(prior.low, prior.high)),
                f"{_rows_to_check(period):,}",
                ONLY_PRIOR[period.shift],
                ", ".join(period.warnings),
            )
        )
    figures = ("rows", "share of positives", "rows to check", "only the share changed?", "warnings")
    table = TextTable((data.by_name, *figures), rows, (1, 2, 3), (4, 5))
    note = (
        "The limits hold for all groups together. Values are shrunk towards the share of all rows "
        "(dashed line); the fewer rows a group has, the more."
    )
    return Section(f"Share of positives by {data.by_name}", table, note, figure="groups")


def _past_periods(data: ReportData) -> Section | None:
    if not data.past.periods:
        return None
    rows: list[Any] = []
    for past in data.past.periods:
        move = _factor(data.past.read_move(past.guarded, past.matched))
        if not past.used:
            move += " (not used)"
        rows.append((past.name, f"{past.rows:,}", f"{past.labels:,}", _factor(past.seen), move))
    head = ("period", "rows", "labels", "move by the labels", "move as read")
    table = TextTable(head, rows, (1, 2, 3, 4), (1, 2))
    note = f"Factors by which the odds of a positive moved. {backtest_text(data.past)}"
    title = "How well past periods would have been read"
    return Section(title, table, note, figure="backtest")


def _audit_changes(data: ReportData) -> Section | None:
    before = getattr(data.current, "before_audit_", None)
    if before is None:
        return None
    train_before, prior_before = before
    rows: list[Any] = [
        ("share of positives, new rows", prior_text(prior_before), prior_text(data.prior)),
        ("share of positives, training", prior_text(train_before), prior_text(data.train)),
    ]
    table = TextTable(("", "before the audit", "with the answers"), rows)
    return Section("What the audit changed", table)


def _cell(value: Any) -> str:
    if value is None or value != value:  # missing, or not a number
        return ""
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)


def _factor(move: float) -> str:
    return f"{math.exp(move):.2f} times"


def expectations(data: ReportData) -> TextTable:
    """Expected performance: each figure with its range, adapted and as trained."""
    rows: list[Any] = []
    for name, meaning in MEANINGS.items():
        adapted = _figure_cell(name, data.figure(name))
        as_trained = _figure_cell(name, data.figure_as_trained(name))
        rows.append((name.replace("_", " "), meaning, adapted, as_trained))
    return TextTable(("figure", "meaning", "adapted", "as trained"), rows, (2, 3), (1,))


def _figure_cell(name: str, figure: Figure) -> tuple[str, str]:
    """A value and its range; the range alone if it is wide."""
    if math.isnan(figure.value):
        return share(figure.value), ""
    if name == "cost":
        return number(figure.value), f"{number(figure.low)} to {number(figure.high)}"
    limits = share_range(figure.low, figure.high)
    if figure.is_wide:
        return limits, ""
    return share(figure.value), limits


def rows_table(row_list: RowList) -> TextTable:
    """The first rows to check, with their probabilities and reasons."""
    head, rows = _row_lines(row_list)
    lines: list[Any] = []
    for position, probability, *cells in rows[:ROWS_ON_PAGE]:
        lines.append((position, share(probability), *[str(cell) for cell in cells]))
    hidden: tuple[int, ...] = ()
    if row_list.reasons is not None:
        hidden = (head.index("against it"),)
    return TextTable(tuple(head), lines, (1,), hidden, stacked=True)


def rows_csv(row_list: RowList) -> str:
    """The rows to check as CSV."""
    head, rows = _row_lines(row_list)
    text = io.StringIO()
    writer = csv.writer(text)  # lines end in CR LF, so that a CR in a text is quoted
    writer.writerow([_no_formula(name) for name in head])
    for position, probability, *cells in rows:
        writer.writerow([position, f"{probability:.6g}", *[_no_formula(cell) for cell in cells]])
    return text.getvalue()


def _no_formula(cell: Any) -> Any:
    """The cell; a text that a spreadsheet would run as a formula gets an apostrophe."""
    if isinstance(cell, str) and re.match(FORMULA, cell):
        return f"'{cell}"
    return cell


def _row_lines(row_list: RowList) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of columns, and a line per row: its number, probability, reasons, values."""
    head = ["row", "probability"]
    columns: list[Any] = [
        (row_list.position + row_list.first).tolist(),
        row_list.probability.tolist(),
    ]
    if row_list.groups is not None:
        head.append("group")
        columns.append(row_list.groups)
    if row_list.reasons is not None:
        head += ["for it", "against it"]
        columns += zip(*row_list.reasons, strict=True)
    head += row_list.columns
    columns += row_list.columns.values()
    return head, list(zip(*columns, strict=True))


def lift_text(data: ReportData) -> str:
    """Positives found when as many rows are checked as there are positives."""
    depth = min(max(data.prior.value, 0.001), 1.0)
    checked = data.checking(depth)
    return (
        f"The {share(depth)} of the rows with the highest scores contain "
        f"{expected_text(checked.recall)} of the positives, "
        f"{figure_text(checked.lift, number)} times as many as random rows."
    )


def labels_text(classes: Any) -> str:
    """Which label means what."""
    negative_label, positive_label = classes.tolist()
    if negative_label == f"not {positive_label}":
        return f"{positive_label} is positive; other rows are written as {negative_label!r}"
    return f"{positive_label!s} is positive, {negative_label!s} is not"


def facts(data: ReportData) -> TextTable:
    """Facts about the fit and the new rows."""
    fitted = data.fitted
    functions = fitted.model.functions
    n_positive, n_unlabeled = fitted.population.sizes
    sample = f"{n_positive:,} labelled positives, {n_unlabeled:,} unlabeled rows"
    held_out = f"{fitted.tails.n_positive:,.0f} positives, {fitted.tails.n:,.0f} unlabeled"
    rows: list[Any] = [
        ("Model", f"{type(functions[0]).__name__}, {len(functions)} fold models"),
        ("Columns", _columns_text(data)),
        ("Training sample", sample),
        ("Held out for counts", held_out),
        ("Scenario", scenario_text(fitted)),
        ("Labels", labels_text(fitted.classes)),
        ("Training prior", f"{prior_text(data.train)}, method {data.train.method}"),
        ("Area under the ROC curve", f"{data.roc.area:.3f}"),
        ("Doubt about the labels", f"{data.current.sensitivity(2)}"),
    ]
    if data.new is None:
        return TextTable((), rows)
    rows.append(("New rows counted", f"{data.new.n:,.0f}"))
    rows.append(("New prior", f"{prior_text(data.prior)}, method {data.prior.method}"))
    test = data.current.shift_test_
    if test is not None:
        answer = f"{only_prior_text(data.current)} (p = {test.p_value:.2g} for the scores)"
        rows.append(("Did only the prior change?", answer))
    return TextTable((), rows)


def _columns_text(data: ReportData) -> str:
    """How many columns the model reads, and the names of the first."""
    shape = data.fitted.model.row_shape
    if len(shape) == 1:
        text = f"{data.current.n_features_in_} columns"
    else:
        text = f"none; rows of shape {shape}"
    names = getattr(data.current, "feature_names_in_", None)
    if names is None:
        return text
    more = ", ..." if len(names) > 10 else ""
    return f"{text}: {', '.join(map(str, names[:10]))}{more}"
