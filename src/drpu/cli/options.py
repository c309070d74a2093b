"""Options that several commands share, in groups, and what a command gets from them.

A parameter of a command that is annotated with one of the groups stands for all options of the
group. An option that more than one command needs is declared here once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import drpu
from drpu._progress import part, progress_bar, rest
from drpu.cli.show import PIPE, about, listed
from drpu.exceptions import ArtifactError, DataError, EmptyColumnsWarning, ParameterError, silent

if TYPE_CHECKING:
    from drpu.cli.large import LargeFile, LargeRows
    from drpu.cli.tables import Loaded, TextFormat

FIRST_PASS = 0.1  # share of the time of a command that finding the types of columns takes
JUDGED_ROWS = 20  # in fewer rows, all values of a column may be missing by chance


def option(*flags: str, **settings: Any) -> Any:
    """An option whose default is not worth showing."""
    return typer.Option(*flags, show_default=False, **settings)


def refuse(options: Mapping[str, Any], reason: str) -> None:
    """Raise if one of these options was given, because it would have no effect."""
    for name, value in options.items():
        if value:
            raise typer.BadParameter(f"{name} {reason}")


Data = Annotated[
    str,
    typer.Argument(
        help="CSV, TSV, JSON lines (each also .gz), Parquet, Arrow, Excel, npz; "
        "- is CSV on the standard input.",
        show_default=False,
    ),
]
By = Annotated[
    str | None, option(help="Column to group the rows by, such as month: each group by itself.")
]
Keep = Annotated[
    str | None, option(help="Input columns to keep in the output: id,date; default all.")
]
Prior = Annotated[float | None, option(help="The share of positives, if you know it.")]


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
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
class SavedOptions:
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
        # whether its prior is identified matters only to commands that label rows at it
        with about(self.artifact), silent():
            classifier = drpu.load(self.artifact, trusted=self.trusted, expected_sha256=self.sha256)
            return self.check_kind(classifier)

    def check_kind(self, classifier: Any) -> Any:
        """The same for a classifier that was read in another way."""
        if not isinstance(classifier, (drpu.DRPUClassifier, drpu.AdaptedClassifier)):
            kind = type(classifier).__name__
            raise ArtifactError(f"it holds a {kind}, which has no prior to move.")
        return classifier

    def check_digest(self, digest: str) -> None:
        """Raise if a digest was asked for and the file has another one."""
        if self.sha256 is not None and self.sha256.lower() != digest:
            raise ArtifactError(f"it must have the SHA-256 digest {self.sha256}, got {digest}.")


@dataclass(frozen=True, kw_only=True)
class CostOptions:
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

    def __post_init__(self) -> None:
        _ = self.stated  # raises if the options contradict each other

    @property
    def stated(self) -> Any:
        """The cost as a number or as two amounts; None if no cost was stated."""
        if self.false_alarm is None and self.miss is None:
            if self.cost is not None and 1 <= self.cost < math.inf:
                raise ParameterError(
                    f"--cost must lie between 0 and 1, got {self.cost:g}: if a false alarm costs "
                    f"{self.cost:g} and a miss 1, give --cost {self.cost / (1 + self.cost):.3g}, "
                    f"or --false-alarm {self.cost:g} --miss 1."
                )
            return self.cost
        if self.cost is not None:
            raise ParameterError("give --cost, or --false-alarm and --miss: not both.")
        if self.false_alarm is None or self.miss is None:
            raise ParameterError("--false-alarm and --miss belong together: give both amounts.")
        return drpu.Costs(self.false_alarm, self.miss)

    def applied_to(self, classifier: Any, prior: float | None = None) -> Any:
        """The classifier at a known prior and at these costs, as far as they were stated."""
        if prior is not None:
            classifier = classifier.at_prior(prior)
        if self.stated is not None:
            classifier = classifier.at_cost(self.stated)
        return classifier


@dataclass(frozen=True, kw_only=True)
class DecisionOptions(CostOptions):
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
        if number <= 0:
            raise ParameterError(f"--budget must be at least one row, got {self.budget!r}.")
        if self.budget.endswith("%"):
            if number > 100:
                raise ParameterError(f"--budget must be at most 100%, got {self.budget!r}.")
            return number / 100
        if number.is_integer():
            return int(number)
        if not 0 < number < 1:
            raise ParameterError(
                "--budget must be a whole number of rows, or a share such as 2%, "
                f"got {self.budget!r}."
            )
        return number

    def with_budget(self, classifier: Any, X: Any) -> Any:
        """The classifier with the threshold of the budget for these rows, if there is one."""
        from drpu.decisions.budget import budget_depth

        budget = self.checked
        if budget is None:
            return classifier
        return classifier.at_budget(**budget_depth(budget), of=X)


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """True labels of some rows."""

    audit: Annotated[
        list[str] | None,
        option(
            help="File that drpu ask wrote for these rows, or one of drpu audit, filled in. "
            "Give --audit again for another part of the same plan."
        ),
    ] = None

    @property
    def files(self) -> list[str]:
        """The files with answers."""
        return self.audit or []

    def read(self, classifier: Any, X: Any) -> Any:
        """The audit in the filled-in files, if files were given."""
        from drpu.classifier.groups import audit_from_columns
        from drpu.cli.tables import read_written

        joined: Any = None
        for path in self.files:
            with about(path):
                loaded = read_written(path)
                if loaded.table is None:
                    raise DataError("an audit is a table, not a NumPy archive.")
                columns = {name: loaded.column(name) for name in loaded.names}
                audit = audit_from_columns(classifier, X, columns)
                joined = audit if joined is None else joined + audit
        return joined


@dataclass(frozen=True, kw_only=True)
class FormOptions:
    """The form of the text file that is written; that of the input if left out."""

    out_sep: Annotated[
        str | None, option(help="Separator of the output; that of the input if left out.")
    ] = None
    out_decimal: Annotated[
        str | None, option(help="Decimal mark of the output; that of the input if left out.")
    ] = None
    out_encoding: Annotated[
        str | None, option(help="Encoding of the output; that of the input if left out.")
    ] = None

    def form(self, out: str, data: str, reading: ReadingOptions) -> TextFormat:
        """How the file ``out`` is written about the rows of ``data``."""
        from drpu.cli.tables import SEPARATED, TextFormat, ending_of

        if ending_of(out) not in SEPARATED:
            options = {
                "--out-sep": self.out_sep,
                "--out-decimal": self.out_decimal,
                "--out-encoding": self.out_encoding,
            }
            refuse(options, f"is about files that end in {', '.join(SEPARATED)}, not {out}.")
            return TextFormat()
        sep = decimal = encoding = None
        if ending_of(data) in SEPARATED:
            sep, decimal, encoding = reading.sep, reading.decimal, reading.encoding
            if ".tsv" in (ending_of(out), ending_of(data)):  # the ending says the separator
                sep = None
        return TextFormat(
            self.out_sep or sep,
            self.out_encoding or encoding,
            self.out_decimal or decimal,
            option="--out-",
        )


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
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

    @property
    def _options(self) -> dict[str, str | None]:
        texts = {"--sep": self.sep, "--encoding": self.encoding, "--decimal": self.decimal}
        return texts | {"--columns": self.columns, "--drop": self.drop}

    @property
    def _form(self) -> TextFormat:
        from drpu.cli.tables import TextFormat

        return TextFormat(self.sep, self.encoding, self.decimal)

    @property
    def words(self) -> list[str]:
        """The options that say how the same file is read, for another command."""
        words = []
        for name, value in self._options.items():
            if value is not None:
                words += [name, value]
        return words

    def check(self, *paths: str | None) -> None:
        """Raise if an option has no effect on any of the files that a command reads."""
        files = [path for path in paths if path is not None]
        if not files:
            refuse(self._options, "needs a file of rows: give one.")
        self._form.check(files)

    def read(self, path: str, classifier: Any = None, texts: Sequence[str] = ()) -> Loaded:
        """The content of a file.

        Columns that ``classifier`` learnt as texts stay texts, as do those in ``texts``.
        """
        from drpu.cli.tables import read

        table = getattr(classifier, "table_", None)
        if table is not None:
            texts = table.text_columns
        return read(path, self._form, texts)

    def with_texts(self, loaded: Loaded, texts: set[str]) -> Loaded:
        """The content of a file, read again if some of the columns are no texts in it."""
        if loaded.path == PIPE or not loaded.texts < texts:
            return loaded
        return self.read(loaded.path, texts=[*texts])

    def training_rows(
        self, loaded: Loaded, weight: str | None, *, label: str | None = None
    ) -> tuple[Any, Any]:
        """Rows and weights; the columns of labels and weights are not among the rows."""
        aside = [loaded.name_of(word) for word in (label, weight) if word is not None]
        if loaded.arrays is None:
            X = loaded.rows(except_for(aside, self.chosen(loaded)))
        else:
            self._refuse_columns(loaded)
            X = loaded.array_rows(aside)
        if weight is None:
            return X, None
        return X, loaded.numbers(weight, "weights")

    def left_out(self, loaded: Loaded, label: str | None = None) -> list[str]:
        """The columns that the options leave out of a table."""
        chosen = self.chosen(loaded)
        if label is not None:
            chosen.append(loaded.name_of(label))
        return except_for(chosen, loaded.names)

    def chosen(self, loaded: Loaded) -> list[str]:
        """The columns of a table that the options leave; an index of pandas only if it is named."""
        from drpu.cli.tables import INDEX

        names = loaded.names_of(self.columns)
        if not names:
            names = [name for name in loaded.names if not name.startswith(INDEX)]
        return except_for(loaded.names_of(self.drop), names)

    def _refuse_columns(self, loaded: Loaded) -> None:
        for option, text in (("--columns", self.columns), ("--drop", self.drop)):
            if text:
                raise DataError(
                    f"{loaded.path}: {option} works on tables; "
                    "a NumPy archive holds its rows in 'X'."
                )

    def rows(
        self,
        classifier: Any,
        loaded: Loaded,
        *,
        used: Sequence[str | None] = (),
        with_period: bool = False,
    ) -> Any:
        """The columns of training by name, or by position if training had no names.

        Other columns are ignored. A warning names them, except those that the command itself uses,
        those that training left out, its periods, and the index that pandas writes to Parquet.
        """
        if loaded.arrays is not None:
            self._refuse_columns(loaded)
            return loaded.array_rows()
        if not hasattr(classifier, "feature_names_in_"):
            return loaded.rows(self.chosen(loaded))
        loaded = loaded.named_like(_names_of_training(classifier))
        return loaded.rows(self._features(classifier, loaded, used, with_period=with_period))

    def _features(
        self,
        classifier: Any,
        loaded: Loaded,
        used: Sequence[str | None] = (),
        *,
        with_period: bool = False,
    ) -> list[str]:
        """The columns to score, after checks of all columns; see :meth:`rows`."""
        chosen = self.chosen(loaded)
        _check_columns(loaded, chosen, classifier)
        extra = except_for(_names_of_training(classifier), chosen)
        if not self.columns:
            _warn_of_extra(loaded, extra, used, classifier)
        wanted = except_for(extra, chosen)
        if not with_period:
            wanted = except_for([classifier.fitted_.columns.period], wanted)
        _warn_of_empty(loaded, wanted, classifier)
        return wanted

    def scored(
        self,
        classifier: Any,
        loaded: Loaded,
        *,
        used: Sequence[str | None] = (),
        mixed: bool = False,
        by: Any = None,
    ) -> Any:
        """The rows with their scores; with ``mixed``, and with their periods.

        Of a large file, as from :meth:`open`, only the scores are kept in memory, and the counts
        of all rows and of their groups ``by``.
        """
        from drpu.classifier.reading import read_batch
        from drpu.cli.large import LargeTable
        from drpu.periods.groups import Groups

        if isinstance(loaded.table, LargeTable):
            with about(loaded.path):
                groups = None if by is None else Groups.of(by)
                with progress_bar("score", show=1):
                    return self._large_rows(classifier, loaded.table.file, used).batch(groups)
        rows = self.rows(classifier, loaded, used=used, with_period=mixed)
        with about(loaded.path):
            return read_batch(classifier, rows, with_periods=mixed)

    def open(self, classifier: Any, path: str, *, mixed: bool = False) -> Loaded:
        """The content of a file; of a large one, columns of which rows can be taken.

        With ``mixed``, the periods of rows are needed, which are not read in batches.
        """
        from drpu.cli.large import LargeTable
        from drpu.cli.tables import Loaded

        with progress_bar("read", show=1):
            file = self._large_file(classifier, path, mixed=mixed)
        if file is None:
            return self.read(path, classifier)
        return Loaded(path, table=LargeTable(file, file.head.names))

    def large(self, classifier: Any, path: str, *, mixed: bool = False) -> LargeRows | None:
        """The rows of a large file, which are read in batches; None if they are not large."""
        with part(FIRST_PASS):
            file = self._large_file(classifier, path, mixed=mixed)
        return None if file is None else self._large_rows(classifier, file)

    def _large_file(self, classifier: Any, path: str, *, mixed: bool) -> LargeFile | None:
        from drpu.cli.large import open_large

        if not hasattr(classifier, "feature_names_in_"):
            return None
        if mixed and classifier.fitted_.columns.period is not None:
            return None
        table = classifier.table_
        texts = () if table is None else table.text_columns
        return open_large(path, self._form, texts)

    def _large_rows(
        self, classifier: Any, file: LargeFile, used: Sequence[str | None] = ()
    ) -> LargeRows:
        from drpu.cli.large import LargeRows

        known = _names_of_training(classifier)
        features = self._features(classifier, file.head.named_like(known), used)
        return LargeRows(file, classifier, known, features)

    def adapt(self, classifier: Any, path: str) -> Any:
        """The classifier adapted to the rows of a file, which is read in batches if possible."""
        from drpu.cli.tables import start_of_parquet

        if self._reads_batches(classifier, path):
            loaded = start_of_parquet(path)
            _check_columns(loaded, loaded.names, classifier)
            _warn_of_empty(loaded, classifier.feature_names_in_, classifier)
            with about(path):
                return classifier.adapt(drpu.count_batches(classifier, path))
        with progress_bar("count", show=1):
            rows = self.large(classifier, path, mixed=True)
            if rows is not None:
                with about(path), rest():
                    return rows.adapted()
        X = self.scored(classifier, self.read(path, classifier), mixed=True)
        with about(path):
            return classifier.adapt(X)

    def _reads_batches(self, classifier: Any, path: str) -> bool:
        """Whether a file is Parquet, whose columns of training are counted batch by batch."""
        from drpu.cli.tables import PARQUET

        if self.columns or self.drop or not hasattr(classifier, "feature_names_in_"):
            return False
        if classifier.fitted_.columns.period is not None:  # the periods of the rows are compared
            return False
        return Path(path).is_dir() or Path(path).suffix.lower() in PARQUET


def _names_of_training(classifier: Any) -> list[str]:
    """The columns of training, and that of its periods."""
    names = [str(name) for name in classifier.feature_names_in_]
    period = classifier.fitted_.columns.period
    return names if period is None else [*names, period]


def except_for(left_out: Iterable[str | None], names: Iterable[str]) -> list[str]:
    """The names that are not left out."""
    unwanted = set(left_out)
    return [name for name in names if name not in unwanted]


def _check_columns(loaded: Loaded, chosen: list[str], classifier: Any) -> None:
    """Raise unless the columns that training used are among the chosen ones."""
    from drpu.cli.tables import did_you_mean

    known = classifier.feature_names_in_
    absent = except_for(chosen, known)
    if classifier.table_ is not None:  # columns that it does not use may be absent
        absent = except_for(classifier.table_.left_out, absent)
    if not absent:
        return
    name = absent[0]
    if name in loaded.names:
        raise DataError(
            f"{loaded.path}: training had the column {name!r}: do not leave it out with --columns "
            "or --drop."
        )
    which = "which training had"
    if len(absent) > 1:
        which += f" (and {len(absent) - 1} more of its columns)"
    raise DataError(
        f"{loaded.path}: no column {name!r}, {which}. The file has "
        f"{listed(map(repr, loaded.names))}."
        f"{did_you_mean(name, except_for(known, chosen))}"
    )


def _warn_of_empty(loaded: Loaded, names: Iterable[str], classifier: Any) -> None:
    """Warn of columns without any value in new rows, unless they had none in training either."""
    if loaded.table.num_rows < JUDGED_ROWS:
        return
    constant = [note.column for note in classifier.fitted_.columns.notes if note.code == "constant"]
    empty = loaded.empty_columns(except_for(constant, names))
    if empty:
        with about(loaded.path):
            EmptyColumnsWarning.issue(
                f"{listed(map(repr, empty))}: no row has a value, as if the column had not been "
                "filled in. Every row is scored with a missing value there.",
                advice="Check where the file comes from.",
            )


def _warn_of_extra(
    loaded: Loaded, extra: list[str], used: Iterable[str | None], classifier: Any
) -> None:
    """Warn of columns that are ignored.

    The command may use them itself, the user may have left them out of training, and pandas writes
    its index as a column.
    """
    from drpu.cli.tables import INDEX
    from drpu.tables.frames import warn_of_extra

    extra = except_for(map(loaded.find_name, used), extra)
    if classifier.table_ is not None:
        extra = except_for(classifier.table_.ignored, extra)
    with about(loaded.path):
        warn_of_extra([name for name in extra if not name.startswith(INDEX)])


def number_or_text(text: str) -> Any:
    """The text as a number if possible, otherwise the text."""
    try:
        return float(text)
    except ValueError:
        return text
