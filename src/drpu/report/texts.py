"""Numbers as text, and the sentences and tables of the page.

Only types are imported from modules that need NumPy, so the command line can use the texts at once.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drpu.priors.estimate import PriorEstimate
    from drpu.report.data import ReportData
    from drpu.state.history import Backtest

FIGURES = {
    "flagged": "rows that are flagged",
    "precision": "flagged rows that are positive",
    "recall": "positives that are flagged",
    "false_positive_rate": "negatives that are flagged",
    "accuracy": "rows labelled rightly",
    "cost": "mean cost of a row",
}


# What moved in new rows, as a sentence, and whether only the prior did.
SHIFTS = {
    "prior": "only the share of positives; labels follow it",
    "other": "more than the share of positives; labels move only as far as there is support for it",
    "answers": "labels follow the answers",
    "none": "nothing was adapted",
}
UNTESTED = "untested: too few rows to tell; labels move as far as the rows determine the share of positives"
ONLY_PRIOR = {
    "prior": "yes",
    "other": "no",
    "answers": "answers were used",
    "none": "was not asked",
}


def is_untested(adapted: Any) -> bool:
    """Whether there were too few rows to test what moved, so that nothing was rejected."""
    test = adapted.shift_test_
    return adapted.shift_ == "prior" and test is not None and test.degrees == 0


def shift_text(adapted: Any) -> str:
    """What moved, as a sentence."""
    if is_untested(adapted):
        return UNTESTED
    return SHIFTS[adapted.shift_]


def only_prior_text(adapted: Any) -> str:
    """Whether only the prior moved, in a word or two."""
    if is_untested(adapted):
        return "untested"
    return ONLY_PRIOR[adapted.shift_]


def share(value: float) -> str:
    """A share in percent with one decimal; below one percent, with two significant digits; NaN as words.

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


def figure_text(figure: Any, form: Any = share) -> str:
    """A figure with its limits in brackets."""
    return value_text(figure.value, figure.low, figure.high, form)


def value_text(value: float, low: float, high: float, form: Any = share) -> str:
    """A value with its limits in brackets, or words if it is NaN."""
    if math.isnan(value):
        return "cannot be computed"
    return f"{form(value)} ({form(low)} to {form(high)})"


def prior_text(prior: PriorEstimate) -> str:
    """A prior as text: its value and limits, and whether it is identified."""
    if prior.method == "given":
        return f"{share(prior.value)} (given)"
    text = f"{share(prior.value)} ({share_range(prior.low, prior.high)} at {prior.level:.0%})"
    return text if prior.identified else f"{text}, not identified{_at_most(prior)}"


def _at_most(prior: PriorEstimate) -> str:
    return "" if prior.upper is None else f": at most {share(prior.upper)} by the best-scored rows"


def scenario_text(fitted: Any) -> str:
    """Where labels come from, and what the other scenario would change."""
    from drpu.state.fitted import prior_in_other_scenario

    other = prior_in_other_scenario(fitted)
    stated = "case-control: labelled rows are a sample beside the others"
    name, rows = "single-sample", "of all rows, labelled ones included"
    if fitted.population.scenario == "single-sample":
        labelled = share(fitted.population.labelled_fraction)
        stated = f"single-sample: {labelled} of the rows of one sample are labelled"
        name, rows = "case-control", "of the unlabeled rows"
    return stated if other is None else f"{stated} ({name} would give {share(other.value)} {rows})"


def lead(data: ReportData) -> str:
    """The page in one sentence."""
    if data.new is None:
        return f"The share of positives in training was {prior_text(data.train)}."
    trained = share(data.train.value)
    found = f"About {_rows(data, data.prior.value)} of the {data.rows:,} new rows are positive"
    if data.other_shift:
        return f"{found}, by a rough reading: more than the share of positives ({trained}) has changed."
    if not data.prior.identified:
        return f"{found}, but the data do not determine this number{_at_most(data.prior)}."
    if data.prior.low <= data.train.high and data.prior.high >= data.train.low:
        return f"{found}. The share may be that of training ({trained}): the intervals overlap."
    change = "rose" if data.prior.low > data.train.high else "fell"
    return f"{found}. The share of positives {change} from {trained} in training."


def period_sentences(data: ReportData) -> list[str]:
    """What was found in each period, and what to do there."""
    said = []
    for period in data.periods:
        low, value, high = (
            f"{round(end * period.n):,}"
            for end in (period.prior.low, period.prior.value, period.prior.high)
        )
        found = f"{period.name}: about {value} of {period.n:,} rows are positive ({low} to {high})"
        if period.shift == "other":
            found += f", by a rough reading: {SHIFTS['other']}"
        elif not period.prior.identified:
            found += ", but the data do not determine the number"
        top = "" if data.budget is None else "the top "
        said.append(f"{found}. Check {top}{period.flagged:,} rows.")
    return said


def cards(data: ReportData) -> list[tuple[str, str, str]]:
    """How many, how sure, what to do: a question, the answer and a sentence."""
    found = share(data.prior.value)
    if data.new is None:
        many = found, "of the rows, at the prior that this classifier works at."
    else:
        rows = f"{found} of {data.rows:,} new rows; {share(data.train.value)} in training."
        many = f"about {_rows(data, data.prior.value)}", rows
    return [
        ("How many are positive?", *many),
        ("How sure is that?", *_how_sure(data)),
        ("What to do?", *_what_to_do(data)),
    ]


def _how_sure(data: ReportData) -> tuple[str, str]:
    prior = data.prior
    if prior.method == "given":
        return "given", "The share was stated by a person, not estimated."
    answer = share_range(prior.low, prior.high)
    if data.other_shift:
        return answer, "This is a rough reading. Answers for 50 rows help: see drpu audit."
    if not prior.identified:
        return answer, (
            f"Not identified{_at_most(prior)}. The data do not show how many of the rows with the highest "
            "scores are negative; true labels of about 50 rows show it: see drpu audit."
        )
    sentence = f"with {prior.level:.0%} confidence"
    if data.new is not None:
        sentence += f": {_rows(data, prior.low)} to {_rows(data, prior.high)} rows"
    return answer, f"{sentence}."


def _what_to_do(data: ReportData) -> tuple[str, str]:
    shifted = [group.shift == "other" for group in data.periods] or [data.other_shift]
    if all(shifted):
        sentence = (
            "More than the share of positives has changed. Find out why before the labels are used."
        )
        return "check the data", sentence
    if data.listed is not None and data.groups is not None:
        sentence = "Each period has its own share, decision and budget: see the sentences above."
        return f"check {data.listed.n:,} rows", sentence
    of = f" of {data.rows:,}" if data.new is None else ""
    if data.budget is not None:
        rows, found, lift = data.to_check, data.budget, data.budget.lift
        sentence = (
            f"They have the highest scores. Expected to be positive: {figure_text(found.precision)} of them. "
            f"Share of all positives among them: {figure_text(found.recall)}, which is {lift.value:.3g} "
            f"times that of as many random rows ({lift.low:.3g} to {lift.high:.3g})."
        )
        return f"check the top {f'{rows:,} rows' if rows > 1 else 'row'}{of}", sentence
    flagged = (
        _rows(data, data.figure("flagged").value) if data.flagged is None else f"{data.flagged:,}"
    )
    if flagged == "0":
        return "nothing to flag", (
            "No row is worth a false alarm at these costs. Change them, or check the rows with the highest "
            "scores."
        )
    sentence = (
        f"They are flagged. Expected to be positive: {figure_text(data.figure('precision'))} of them. "
        f"Share of all positives among them: {figure_text(data.figure('recall'))}."
    )
    return f"check {flagged} row{'' if flagged == '1' else 's'}{of}", sentence


def _rows(data: ReportData, part: float) -> str:
    return f"{round(part * data.rows):,}"


def cautions(data: ReportData) -> list[str]:
    """What the reader must know before the numbers are used."""
    kinds = {
        type(warning): warning for warning in reversed(data.caught)
    }  # the first one of each kind
    said = [
        " ".join(warning.for_command_line(share).removeprefix(f"[{warning.code}]").split())
        for warning in reversed(kinds.values())
    ]
    if data.few_positives:
        said.append(
            f"Only {data.fitted.tails.n_positive:.0f} positives were held out: shares and limits are rough. "
            "Label more, or give the training prior if you know it."
        )
    if not data.train.identified:
        said.append(
            f"The training share is {prior_text(data.train)}. Expected numbers depend on it."
        )
    if data.other_shift:
        said.append(
            "Expected numbers and their ranges hold only if nothing but the share of positives changed."
        )
    if data.train.value >= 0.995:
        said.append(
            "Nearly all training rows are estimated to be positive: check the labels first."
        )
    return said


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells of a table; a cell is a text, or a value and its range."""

    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    numbers: tuple[int, ...] = ()  # the columns on the right
    hidden: tuple[int, ...] = ()  # the columns that a narrow screen leaves out


def tables(data: ReportData, by: str) -> Iterator[tuple[str, str, TextTable]]:
    """Tables about the new rows with their headings and a sentence, as far as they apply."""
    from drpu.periods.moves import past_reading

    if data.fitted.columns.notes:
        found: list[Any] = [
            (note.column or "rows", note.text(command_line=True)) for note in data.fitted.columns.notes
        ]
        yield "The training table", "", TextTable(("column", "what was found"), found)
    if data.suspects is not None:
        cells = [[_cell(cell) for cell in column] for column in data.suspects.values()]
        listed: list[Any] = list(zip(*cells, strict=True))[:LISTED]
        note = "Labels that may be wrong, the most suspicious first, and copies of labelled rows."
        yield "Suspicious labels", note, TextTable(tuple(data.suspects), listed)
    moved = getattr(data.current, "moved_columns_", ())
    if moved:
        rows: list[Any] = [
            (shift.name, share(shift.misfit), f"{shift.p_value:.1g}") for shift in moved
        ]
        table = TextTable(("column", "rows that do not fit", "p-value"), rows, (1, 2))
        note = "Their distribution changed more than a new share of positives explains."
        yield "Columns that moved", note, table
    if data.periods:
        rows = [
            (
                str(period.name),
                f"{period.n:,}",
                (share(period.prior.value), share_range(period.prior.low, period.prior.high)),
                f"{period.flagged:,}",
                ONLY_PRIOR[period.shift],
                ", ".join(period.warnings),
            )
            for period in data.periods
        ]
        head = (
            by,
            "rows",
            "share of positives",
            "rows to check",
            "only the share changed?",
            "warnings",
        )
        note = (
            "The limits hold for all groups together. Values are shrunk towards the share of all rows "
            "(dashed line); the fewer rows a group has, the more."
        )
        yield f"Share of positives by {by}", note, TextTable(head, rows, (1, 2, 3), (4, 5))
    if data.past.periods:
        moves: list[Any] = [
            (
                past.name,
                f"{past.rows:,}",
                f"{past.labels:,}",
                _factor(past.seen),
                _factor(past_reading(data.past, past).move) + ("" if past.used else " (not used)"),
            )
            for past in data.past.periods
        ]
        names = ("period", "rows", "labels", "move by the labels", "move as read")
        note = f"Factors by which the odds of a positive moved. {backtest_text(data.past)}"
        table = TextTable(names, moves, (1, 2, 3, 4), (1, 2))
        yield "How well past periods would have been read", note, table
    before = getattr(data.current, "before_audit_", None)
    if before is not None:
        pairs = {"new rows": (before[1], data.prior), "training": (before[0], data.train)}
        rows = [
            (f"share of positives, {name}", *map(prior_text, pair)) for name, pair in pairs.items()
        ]
        yield (
            "What the audit changed",
            "",
            TextTable(("", "before the audit", "with the answers"), rows),
        )


def backtest_text(past: Backtest) -> str:
    """How far readings of past periods are believed."""
    return (
        "Each period was read by a fit to the rows before it. Where such a reading moves the log-odds by 1, "
        f"{past.slope:.2f} of it is believed; readings were wrong by a factor of "
        f"{math.exp(past.spread):.2f} (one standard deviation of the log-odds)."
    )


def _cell(value: Any) -> str:
    missing = value is None or value != value
    return "" if missing else f"{value:.3g}" if isinstance(value, float) else str(value)


def _factor(move: float) -> str:
    return f"{math.exp(move):.2f} times"


def expectations(data: ReportData) -> TextTable:
    """Expected performance: each figure with its range, adapted and as trained."""
    rows: list[Any] = []
    for name, meaning in FIGURES.items():
        form = number if name == "cost" else share
        cells = [
            (
                form(figure.value),
                "" if math.isnan(figure.value) else f"{form(figure.low)} to {form(figure.high)}",
            )
            for figure in (data.figure(name), data.figure(name, as_trained=True))
        ]
        rows.append((name.replace("_", " "), meaning, *cells))
    return TextTable(("figure", "meaning", "adapted", "as trained"), rows, (2, 3), (1,))


LISTED = 10  # rows on the page itself; the file to download has more of them


def rows_table(data: ReportData) -> TextTable | None:
    """The first rows to check, with their probabilities and reasons."""
    if data.listed is None:
        return None
    head, rows = _listed(data)
    shown = [(row[0], share(row[1]), *map(str, row[2:])) for row in rows[:LISTED]]
    return TextTable(
        head, shown, (1,), tuple(k for k, name in enumerate(head) if name == "against it")
    )


def rows_csv(data: ReportData) -> str:
    """The rows to check as CSV."""
    head, rows = _listed(data)
    text = io.StringIO()
    writer = csv.writer(text)  # lines end in CR LF, so that a CR in a text is quoted
    lines = [head, *((row[0], f"{row[1]:.6g}", *row[2:]) for row in rows)]
    writer.writerows([[_no_formula(cell) for cell in line] for line in lines])
    return text.getvalue()


def _no_formula(cell: Any) -> Any:
    """The cell; a text that a spreadsheet would run as a formula gets an apostrophe."""
    return (
        f"'{cell}"
        if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r"))
        else cell
    )


def _listed(data: ReportData) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Names of columns, and a line for each row: its number from 1 on, probability, reasons, and values."""
    assert data.listed is not None
    found = data.listed
    head: tuple[str, ...] = ("row", "probability")
    columns: list[Any] = [(found.position + 1).tolist(), found.probability.tolist()]
    if found.groups is not None:
        head, columns = (*head, "group"), [*columns, found.groups]
    if found.reasons is not None:
        head, columns = (
            (*head, "for it", "against it"),
            [*columns, *zip(*found.reasons, strict=True)],
        )
    return (*head, *found.columns), list(zip(*columns, *found.columns.values(), strict=True))


def lift_text(data: ReportData) -> str:
    """Positives found when as many rows are checked as there are positives."""
    depth = min(max(data.prior.value, 0.001), 1.0)
    found = data.found_at(depth)
    return (
        f"The {share(depth)} of the rows with the highest scores contain {share(found.recall.value)} of the "
        f"positives ({share_range(found.recall.low, found.recall.high)}), {found.lift.value:.3g} times as "
        "many as random rows."
    )


def facts(data: ReportData) -> TextTable:
    """Facts about the fit and the new rows."""
    fitted, classes = data.fitted, data.fitted.classes
    names = getattr(data.current, "feature_names_in_", None)
    shape = fitted.model.row_shape
    columns = (
        f"{data.current.n_features_in_} columns"
        if len(shape) == 1
        else f"none; rows of shape {shape}"
    )
    if names is not None:
        columns += ": " + ", ".join(map(str, names[:10])) + (", ..." if len(names) > 10 else "")
    rows: list[Any] = [
        (
            "Model",
            f"{type(fitted.model.functions[0]).__name__}, {len(fitted.model.functions)} fold models",
        ),
        ("Columns", columns),
        (
            "Training sample",
            f"{fitted.population.sizes[0]:,} labelled positives, "
            f"{fitted.population.sizes[1]:,} unlabeled rows",
        ),
        (
            "Held out for counts",
            f"{fitted.tails.n_positive:,.0f} positives, {fitted.tails.n:,.0f} unlabeled",
        ),
        ("Scenario", scenario_text(fitted)),
        ("Labels", f"{classes[1]} is positive, {classes[0]} is not"),
        ("Training prior", f"{prior_text(data.train)}, method {data.train.method}"),
        ("Area under the ROC curve", f"{data.roc.area:.3f}"),
        ("Doubt about the labels", f"{data.current.sensitivity(2)}"),
    ]
    if data.new is not None:
        rows += [
            ("New rows counted", f"{data.new.n:,.0f}"),
            ("New prior", f"{prior_text(data.prior)}, method {data.prior.method}"),
        ]
        test = data.current.shift_test_
        if test is not None:
            verdict = only_prior_text(data.current)
            rows.append(
                ("Did only the prior change?", f"{verdict} (p = {test.p_value:.2g} for the scores)")
            )
    return TextTable((), rows)
