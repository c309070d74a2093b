"""A file of claims with strings, dates, missing values, identifiers and string labels."""

import json

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from cli_answers import answer, refused
from cli_folder import run_in

from drpu import load, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("claims")
    rng = np.random.default_rng(0)
    n = 1200
    fraud = rng.random(n) < 0.35
    amount = np.exp(rng.normal(5 + 2 * fraud, 0.7))
    claims = {
        "claim": [f"C{k:07d}" for k in range(n)],
        "amount": amount,
        "channel": np.where(rng.random(n) < 0.2 + 0.6 * fraud, "web", rng.choice(["desk", "post"], n)),
        "opened": np.datetime64("2026-01-01") + rng.integers(0, 300, n),
        "lawyer": rng.random(n) < 0.2,
        "status": np.where(fraud & (rng.random(n) < 0.5), "fraud", "unknown"),
    }
    table = pa.table({name: pa.array(values) for name, values in claims.items()})
    gaps = rng.random(n) < 0.1
    table = table.set_column(1, "amount", pa.array(amount, mask=gaps))
    pa.csv.write_csv(table, folder / "claims.csv")

    pa.csv.write_csv(table.drop_columns(["claim", "status"]).slice(0, 500), folder / "june.csv")

    fit = "fit claims.csv --label status --pos-label fraud --scenario single-sample --model boosted"
    run_in(folder, f"{fit} --out claims.drpu")
    return folder


def test_strings_dates_gaps_and_ids_go_straight_in(run):
    result = answer(run("inspect claims.drpu --json"))
    assert result["columns"] == ["claim", "amount", "channel", "opened", "lawyer"]
    assert result["classes"] == ["unknown", "fraud"]
    assert result["train_prior"]["low"] <= 0.35 <= result["train_prior"]["high"]


def test_a_column_that_was_left_out_as_an_id_may_be_absent(run):
    result = answer(run("predict claims.drpu june.csv --adapt --out scored.csv --json"))
    assert result["rows"] == 500
    assert 0 < result["flagged"] < 500


def test_a_file_is_verified_without_making_a_classifier(run, folder):
    result = answer(run("verify claims.drpu --json"))
    assert result["verified"] is True
    assert result["kind"] == "DRPUClassifier"
    again = answer(run(f"verify claims.drpu --sha256 {result['sha256']} --json"))
    assert again["sha256"] == result["sha256"]
    code, out, _ = run(f"verify claims.drpu --sha256 {'0' * 64} --json")
    assert code == 1
    assert json.loads(out)["error"]["type"] == "ArtifactError"
    damaged = bytearray((folder / "claims.drpu").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.drpu").write_bytes(damaged)
    for command in ("verify", "inspect"):
        code, _, err = run(f"{command} damaged.drpu")
        assert code == 1
        assert err.startswith("error: damaged.drpu")
    save(load(folder / "claims.drpu"), folder / "again.drpu")
    _, out, _ = run("verify again.drpu")
    assert "sha256" in out


def test_a_file_says_that_it_names_levels(run):
    levels = answer(run("inspect claims.drpu --json"))["contents"]["category_levels"]
    _, out, _ = run("inspect claims.drpu")
    (line,) = (line for line in out.splitlines() if line.startswith("names levels"))
    assert all(f"{n} of {name}" in line for name, n in levels.items())
    assert "at least five training rows" in line


@pytest.mark.usefixtures("few_trees")
def test_advice_names_options_of_the_command(run):
    words = "fit claims.csv --label status --pos-label fraud"
    code, out, err = run(f"{words} --model kernel --out x.drpu")
    assert (code, out) == (1, "")
    assert "Columns with such values: 'amount'. On the command line: use --model auto or boosted" in err
    code, _, err = run(f"{words} --model boosted --out x.drpu")
    assert code == 0
    assert "name it in --drop" in err
    code, _, err = run(f"{words} --model boosted --drop claim --prior 0.3 --out x.drpu")
    assert (code, err) == (0, "")


@pytest.mark.usefixtures("text_only")
def test_the_column_to_group_by_is_not_called_ignored(run, folder):
    table = pa.csv.read_csv(folder / "june.csv")
    branch = pa.array(["north", "south"] * 250)
    pa.csv.write_csv(table.append_column("branch", branch), folder / "branches.csv")
    for line in ("prior claims.drpu branches.csv", "report claims.drpu branches.csv --out branches.html"):
        code, _, err = run(f"{line} --by branch")
        assert code == 0
        assert "ignored" not in err


def test_weights_in_words_are_refused(run):
    words = "fit claims.csv --label status --pos-label fraud --weight channel --out x.drpu"
    refused(run(words), "claims.csv: the column 'channel' of weights must hold numbers.\n")


def test_months_are_those_of_a_column_of_dates(run):
    found = run("prior claims.drpu june.csv --by month")
    refused(found, "june.csv: no column 'month'. Dates are grouped by month: --by opened.\n")
    found = answer(run("prior claims.drpu june.csv --by opened --json"))["found"]
    assert [item["data"] for item in found][:2] == ["opened=2026-01", "opened=2026-02"]


def test_words_for_missing_labels_are_no_labels(run, folder):
    text = "a,y\n" + "".join(
        f"{k % 7},{'yes' if k % 3 == 0 else 'NA' if k % 2 else ''}\n" for k in range(200)
    )
    (folder / "gaps.csv").write_text(text)
    fitted = answer(run("fit gaps.csv --label y --model kernel --prior 0.4 --out gaps.drpu --json"))
    assert (fitted["positives"], fitted["unlabeled"]) == (67, 133)


@pytest.mark.usefixtures("few_trees")
def test_times_and_categories_mean_the_same_in_every_format(run, folder):
    rng = np.random.default_rng(1)
    labelled = rng.random(200) < 0.3
    shift = np.where(rng.random(200) < 0.2 + 0.6 * labelled, "night", "day")
    times = [f"{6 + 12 * late + k % 5:02d}:30" for k, late in enumerate(labelled)]
    frame = pl.DataFrame({"at": times, "shift": shift, "x": rng.normal(size=200), "y": labelled.astype(int)})
    frame.write_csv(folder / "times.csv")
    frame.write_parquet(folder / "times.parquet")
    typed = frame.with_columns(pl.col("shift").cast(pl.Categorical))
    typed.write_ipc(folder / "times.arrow")  # texts are views there
    found = []
    for fitted in ("csv", "parquet", "arrow"):
        run(f"fit times.{fitted} --label y --model boosted --out times.drpu")
        for ending in ("csv", "parquet", "arrow"):
            code, out, err = run(f"predict times.drpu times.{ending} --keep x")
            assert code == 0, err
            found.append(out)
    assert len(set(found)) == 1


@pytest.mark.parametrize(
    ("labelled", "others"),
    [("NA", "NA,US"), ("1,NA", "1,x"), ("1.10,2.0", "1.10,1.1,x"), ("12:30", "12:30,late"), ("7,8", "007,8")],
)
@pytest.mark.usefixtures("few_trees")
def test_two_files_are_read_as_one_would_be(run, folder, labelled, others):
    rng = np.random.default_rng(2)
    words = [*rng.choice(labelled.split(","), 60), *rng.choice(others.split(","), 200)]
    rows = zip(words, rng.normal(size=260), strict=True)
    lines = [f"{word},{x:.6f},{int(k < 60)}\n" for k, (word, x) in enumerate(rows)]
    for name, part in (("one", lines), ("labelled", lines[:60]), ("others", lines[60:])):
        (folder / f"{name}.csv").write_text("word,x,y\n" + "".join(part))
    run("fit one.csv --label y --scenario case-control --model boosted --out one.drpu")
    run("fit labelled.csv --unlabeled others.csv --drop y --model boosted --out two.drpu")
    one, two = (run(f"predict {name}.drpu one.csv")[1] for name in ("one", "two"))
    assert one == two != ""
