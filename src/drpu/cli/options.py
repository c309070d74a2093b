"""Options that several commands share, in groups, and what a command gets from them.

A parameter of a command that is annotated with one of the groups stands for all options of the group. An
option that more than one command needs is declared here once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drpu.cli.show import about
from drpu.exceptions import ArtifactError, DataError, ParameterError, silent

if TYPE_CHECKING:
    from drpu.cli.tables import Loaded

_INDEX = "__index_level_"  # start of the name of an index in Parquet files of pandas


def option(*flags: str, **settings: Any) -> Any:
    """An option whose default is not worth showing."""
    return typer.Option(*flags, show_default=False, **settings)


def refuse(given: Mapping[str, Any], reason: str) -> None:
    """Raise if one of these options was given, because it would have no effect."""
    for name in (name for name, value in given.items() if value):
        raise typer.BadParameter(f"{name} {reason}")


Data = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSON lines (each also .gz), Parquet, Arrow, npz; - is CSV on the standard input.",
        show_default=False,
    ),
]
By = Annotated[
    str | None, option(help="Column to group the rows by, such as month: each group by itself.")
]
Keep = Annotated[
    str | None, option(help="Input columns to keep in the output: id,date; default all.")
]
Level = Annotated[float, typer.Option(help="Confidence level of the interval.")]
LevelOfNew = Annotated[
    float | None,
    option(help="Confidence level of the interval of an estimated share, 0.95 if left out."),
]
Prior = Annotated[float | None, option(help="The share of positives, if you know it.")]
Seed = Annotated[
    int, typer.Option(help="Seed: the same rows give the same result.", min=0, max=2**32 - 1)
]


@dataclass(frozen=True, kw_only=True)
class Output:
    """What is printed; every command has these options."""

    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, also for errors.")
    ] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Show no warnings; JSON still has them.")
    ] = False
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Exit status 3 if an assumption seems violated (a warning says so)."
        ),
    ] = False


Formulas = Annotated[
    bool,
    typer.Option("--formulas", help="Leave texts in CSV that a spreadsheet would run as formulas."),
]


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A saved classifier."""

    artifact: Annotated[
        Path, typer.Argument(help="A classifier that drpu fit wrote.", show_default=False)
    ]
    sha256: Annotated[str | None, option(help="SHA-256 digest that the artifact must have.")] = None
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Read estimators of scikit-learn in it.")
    ] = False

    def load(self) -> Any:
        """The classifier, if it is one that can be moved to another prior."""
        from drpu import load

        # whether its prior is identified matters only to commands that label rows at it
        with about(self.artifact), silent():
            return self.check_kind(
                load(self.artifact, trusted=self.trusted, expected_sha256=self.sha256)
            )

    def check_kind(self, classifier: Any) -> Any:
        """The classifier, if it is one that can be moved to another prior."""
        from drpu import AdaptedClassifier, DRPUClassifier

        if not isinstance(classifier, (DRPUClassifier, AdaptedClassifier)):
            raise ArtifactError(
                f"it holds a {type(classifier).__name__}, which has no prior to move."
            )
        return classifier

    def check_digest(self, found: str) -> None:
        """Raise if a digest was given and the file has another one."""
        if self.sha256 is not None and self.sha256.lower() != found:
            raise ArtifactError(f"it must have the SHA-256 digest {self.sha256}, got {found}.")


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The cost of a false alarm and of a miss, as one number or as two amounts."""

    cost: Annotated[
        float | None, option(help="False-positive cost in (0, 1); k/(1+k) for k times a miss.")
    ] = None
    false_alarm: Annotated[
        float | None, option(help="Cost of a false alarm, as an amount; with --miss.")
    ] = None
    miss: Annotated[
        float | None, option(help="Cost of a miss, as an amount; with --false-alarm.")
    ] = None

    @property
    def stated(self) -> Any:
        """The cost as a number or as two amounts; None if no cost was given."""
        from drpu import Costs

        if self.false_alarm is None and self.miss is None:
            if self.cost is not None and 1 <= self.cost < math.inf:
                raise ParameterError(
                    f"--cost must lie between 0 and 1, got {self.cost:g}: if a false alarm costs "
                    f"{self.cost:g} and a miss 1, give --cost {self.cost / (1 + self.cost):.3g}, or "
                    f"--false-alarm {self.cost:g} --miss 1."
                )
            return self.cost
        if self.cost is not None:
            raise ParameterError("give --cost, or --false-alarm and --miss: not both.")
        if self.false_alarm is None or self.miss is None:
            raise ParameterError("--false-alarm and --miss belong together: give both amounts.")
        return Costs(self.false_alarm, self.miss)

    def check(self) -> None:
        """Raise if the options contradict each other, before work that takes a while."""
        _ = self.stated

    def at(self, classifier: Any, prior: float | None = None) -> Any:
        """The classifier at a known prior and at these costs, as far as they were given."""
        if prior is not None:
            classifier = classifier.at_prior(prior)
        return classifier if self.stated is None else classifier.at_cost(self.stated)


@dataclass(frozen=True, kw_only=True)
class Decision(Costs):
    """Costs, or a number of rows that can be checked."""

    budget: Annotated[
        str | None,
        option(
            help="Rows that can be checked: a number, or a share such as 2%; decides before a cost."
        ),
    ] = None

    @property
    def checked(self) -> Any:
        """The budget as in ``adapt_by``: rows if it is a whole number, a share below 1, or None."""
        if self.budget is None:
            return None
        number = number_or_text(self.budget.removesuffix("%"))
        if isinstance(number, str):
            raise ParameterError(
                f"--budget must be a number of rows, or a share such as 2%, got {self.budget!r}."
            )
        if self.budget.endswith("%"):
            return number / 100
        return int(number) if number.is_integer() else number

    def on(self, classifier: Any, X: Any) -> Any:
        """The classifier with the threshold of the budget for these rows, if there is one."""
        from drpu.decisions.budget import budget_depth

        budget = self.checked
        return classifier if budget is None else classifier.at_budget(**budget_depth(budget), of=X)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """True labels of some rows."""

    audit: Annotated[
        str | None,
        option(help="File that drpu audit wrote for these rows, filled in: yes or no, 1 or 0."),
    ] = None
    audit_label: Annotated[
        str | None, option(help="Column of that file with the answers, drpu_label if left out.")
    ] = None

    def __post_init__(self) -> None:
        if self.audit is None:
            refuse(
                {"--audit-label": self.audit_label},
                "is a column of a file with answers: give --audit.",
            )

    def read(self, classifier: Any, X: Any, by: Any = None, *, either: bool = False) -> Any:
        """The audit in the filled-in file, or that of each group, if a file was given.

        With ``either``, a file without groups is read as one audit.
        """
        from drpu.audits.plan import GROUP, LABEL
        from drpu.classifier.groups import audit_from_columns
        from drpu.cli.tables import read_own

        if self.audit is None:
            return None
        with about(self.audit):
            loaded = read_own(self.audit)
            if loaded.table is None:
                raise DataError("an audit is a table, not a NumPy archive.")
            columns = {name: loaded.column(name) for name in loaded.names}
            groups = None if either and GROUP not in columns else by
            return audit_from_columns(
                classifier, X, columns, by=groups, label=self.audit_label or LABEL
            )


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How files of rows are read, and which of their columns are used."""

    columns: Annotated[
        str | None, option("--columns", "-c", help="Use these columns only: a,b,c.")
    ] = None
    drop: Annotated[
        str | None, option("--drop", "-d", help="Leave these columns out: id,date.")
    ] = None
    sep: Annotated[
        str | None,
        option(help="Separator of text files: ';', '|', tab. A comma if left out; a tab for .tsv."),
    ] = None
    encoding: Annotated[
        str | None,
        option(help="Encoding of text files, such as latin-1 or utf-16. UTF-8 if left out."),
    ] = None
    decimal: Annotated[
        str | None, option(help="Decimal mark of text files: . or , A point if left out.")
    ] = None

    def check(self, *paths: str | None) -> None:
        """Raise if an option has no effect on any of the files that a command reads."""
        from drpu.cli.tables import TextFormat

        read = [path for path in paths if path is not None]
        if not read:
            form = {"--sep": self.sep, "--encoding": self.encoding, "--decimal": self.decimal}
            refuse(
                form | {"--columns": self.columns, "--drop": self.drop},
                "needs a file of rows: give one.",
            )
        TextFormat(self.sep, self.encoding, self.decimal).check(read)

    def read(self, path: str, classifier: Any = None, texts: Sequence[str] = ()) -> Loaded:
        """The content of a file; columns that ``classifier`` learnt as texts, or ``texts``, stay texts."""
        from drpu.cli.tables import TextFormat, read

        known = getattr(getattr(classifier, "table_", None), "text_columns", texts)
        return read(path, TextFormat(self.sep, self.encoding, self.decimal), known)

    @property
    def words(self) -> list[str]:
        """The options that say how text files are read, for another command."""
        form = {"--sep": self.sep, "--encoding": self.encoding, "--decimal": self.decimal}
        return [
            word for option, value in form.items() if value is not None for word in (option, value)
        ]

    def training_rows(
        self, loaded: Loaded, weight: str | None, *, without: str | None = None
    ) -> tuple[Any, Any]:
        """Rows and weights; the columns of labels and weights are not among the rows."""
        aside = [name for name in (without, weight) if name is not None]
        chosen = [name for name in names(self.columns) if name not in aside]
        X = loaded.rows(columns=chosen, drop=names(self.drop), aside=aside)
        return X, None if weight is None else loaded.numbers(weight, "weights")

    def rows(
        self,
        classifier: Any,
        loaded: Loaded,
        *,
        used: Sequence[str | None] = (),
        with_period: bool = False,
    ) -> Any:
        """The columns of training by name, or by position if training had no names.

        Other columns are ignored with a warning, except those that the command itself uses, the periods of
        training, and the index that pandas writes to Parquet.
        """
        from drpu.tables.frames import warn_of_extra

        columns, drop = names(self.columns), names(self.drop)
        loaded.check_names([*columns, *drop] if loaded.arrays is None else [])
        known = getattr(classifier, "feature_names_in_", None)
        if known is None or loaded.table is None:
            return loaded.rows(columns=columns, drop=drop)
        left = [name for name in (columns or loaded.names) if name not in drop]
        period = classifier.fitted_.columns.period
        if not columns:
            with about(loaded.path):
                mine = {*known, *used, period}
                warn_of_extra(
                    [name for name in left if name not in mine and not name.startswith(_INDEX)]
                )
        wanted = {*known, period} if with_period else {*known}
        return loaded.rows(columns=[name for name in left if name in wanted])

    def scored(
        self,
        classifier: Any,
        loaded: Loaded,
        *,
        used: Sequence[str | None] = (),
        mixed: bool = False,
    ) -> Any:
        """The rows with their scores; with ``mixed``, a warning if the priors of their periods differ."""
        from drpu.classifier.reading import read_batch

        rows = self.rows(classifier, loaded, used=used, with_period=mixed)
        with about(loaded.path):
            return read_batch(classifier, rows, warn_of_periods=mixed)

    def adapt(self, classifier: Any, path: str, **options: Any) -> Any:
        """The classifier adapted to the rows of a file, which is read in batches if possible.

        A Parquet file, or a folder of such files, is counted batch by batch if the classifier has the
        names of the columns.
        """
        from drpu import count_batches
        from drpu.cli.tables import PARQUET

        parquet = Path(path).is_dir() or Path(path).suffix.lower() in PARQUET
        batches = (
            parquet
            and hasattr(classifier, "feature_names_in_")
            and not self.columns
            and not self.drop
        )
        batches = batches and classifier.fitted_.columns.period is None  # its periods are compared
        X = None if batches else self.scored(classifier, self.read(path, classifier), mixed=True)
        with about(path):
            return classifier.adapt(count_batches(classifier, path) if X is None else X, **options)


def names(text: str | None) -> list[str]:
    """The parts of a comma-separated list."""
    return (
        []
        if text is None
        else [word for word in (part.strip() for part in text.split(",")) if word]
    )


def number_or_text(text: str) -> Any:
    """The text as a number if possible, otherwise the text."""
    try:
        return float(text)
    except ValueError:
        return text
