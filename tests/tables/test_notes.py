"""What a person should know about a training table is said, and nothing else."""

import numpy as np
import pandas as pd
import pytest
from tables_data import claims

from codec_laws import check_kept
from drpu import DRPUClassifier, load, save
from drpu.exceptions import DRPUWarning, IdColumnWarning, TrainingTableWarning
from drpu.tables.encoder import TableEncoder
from drpu.tables.frames import read_frame
from drpu.tables.notes import Note, list_of_notes, table_notes

N = 600
LABELLED = np.arange(N) % 4 == 0


def table(seed=0):
    """An honest table: numbers, levels and gaps that differ between the labelled and the other rows."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "amount": rng.normal(1.2 * LABELLED, 1.0),
            "rooms": np.where(rng.random(N) < 0.1, np.nan, rng.integers(1, 6, N)),
            "ward": rng.choice(["north", "south", "east"], N),
            "urgent": rng.random(N) < 0.3,
            "postcode": rng.integers(10_000, 99_999, N),
            "year": rng.integers(1990, 2025, N),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 90, N), unit="D"),
        }
    )


def notes(frame, expand=False, labelled=LABELLED):
    encoder, rows = TableEncoder.fit([read_frame(frame)], expand=expand)
    return table_notes(rows[labelled], rows[~labelled], encoder)


# What is said of the honest table: its day is not used as time, and hardly two rows share a postcode.
USUAL = {("dates", "day"), ("different-numbers", "postcode")}


def codes(found):
    """What is said besides the usual."""
    return {(note.code, note.column) for note in found} - USUAL


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_an_honest_table_has_no_doubtful_notes(seed, expand):
    found = notes(table(seed), expand)
    assert {(note.code, note.column) for note in found} == USUAL
    assert not any(note.doubtful for note in found)


def test_coarse_tables_repeat_rows_without_a_note():
    rng = np.random.default_rng(0)
    for seed in range(10):
        frame = table(seed)[["rooms", "ward", "urgent"]]
        assert notes(frame) == ()
        labelled = rng.random(N) < 0.3
        frame = pd.DataFrame({"a": np.where(labelled, 1, rng.integers(0, 9, N)), "b": rng.integers(0, 3, N)})
        assert notes(frame, labelled=labelled) == ()


QUARTERS = np.repeat(["2026Q1", "2026Q2", "2026Q3"], N // 3)


@pytest.mark.parametrize("expand", [False, True])
@pytest.mark.parametrize(
    ("code", "column"),
    [
        ("time", np.random.default_rng(1).permutation(QUARTERS)),
        ("time", np.random.default_rng(1).permutation([202511.0, 202512.0, 202601.0] * (N // 3))),
        ("time", np.repeat([2023.0, 2024.0, 2025.0], N // 3)),
        ("sorted", np.sort(np.random.default_rng(1).normal(size=N))),  # an amount, say
        ("sorted", np.repeat(["a", "b", "c", "d"], [100, 100, 200, 200])),
        ("time", np.repeat(["2026Q1", "2026Q2"], N // 2)),
        ("constant", np.zeros(N)),
        ("constant", np.full(N, np.nan)),
        ("constant", ["same"] * N),
        ("rare", [f"{k // 2},5" for k in range(N)]),  # numbers with decimal commas
        (
            "other-dates",
            np.random.default_rng(1).permutation([f"{1 + k % 9:02d}/06/2026" for k in range(N)]),
        ),
        ("other-dates", np.random.default_rng(1).permutation(["6/30/2026", "30.6.26"] * (N // 2))),
        ("gives-away", LABELLED + np.random.default_rng(1).normal(0, 0.1, N)),
        ("gives-away", np.where(LABELLED, "checked", "open")),
        ("missing-by-label", np.where(LABELLED, "checked", None)),
        ("missing-by-label", np.where(LABELLED, np.random.default_rng(1).normal(size=N), np.nan)),
        ("identifier", np.random.default_rng(1).permutation(N).astype(float)),
    ],
)
def test_a_column_that_harms_is_named(code, column, expand):
    found = notes(table().assign(odd=column), expand)
    assert codes(found) == {(code, "odd")}


def test_a_table_that_is_sorted_by_an_amount_is_no_reason_to_drop_it():
    found = notes(table().assign(amount=np.sort(np.random.default_rng(1).normal(size=N))))
    (note,) = [note for note in found if note.column == "amount"]
    assert not note.doubtful
    for text in (note.text(), note.text(command_line=True)):
        assert text == "the table is sorted by 'amount', which is used"


def test_identifiers_and_texts_are_named_though_nothing_is_wrong():
    rng = np.random.default_rng(0)
    words = [" ".join(rng.choice(["late", "lost", "found", "again"], 5)) + f" {k}" for k in range(N)]
    with pytest.warns(IdColumnWarning):
        found = notes(table().assign(claim=[f"C{k:05d}" for k in range(N)], story=words))
    assert codes(found) == {("left-out", "claim"), ("text", "story")}
    with pytest.warns(IdColumnWarning):
        assert codes(notes(claims(300), labelled=np.arange(300) % 3 == 0)) == {("left-out", "claim")}


@pytest.mark.parametrize("column", [1 * LABELLED, np.where(LABELLED, 1, np.nan)])
def test_dates_that_tell_the_label_are_named_though_time_is_not_used(column):
    monday = pd.Timestamp("2026-01-05")
    weeks = pd.to_timedelta(7 * np.random.default_rng(1).integers(0, 12, N), unit="D")
    day = monday + weeks + pd.to_timedelta(column, unit="D")  # labelled rows are of a Tuesday
    found = codes(notes(table().assign(odd=day)))
    assert found & {("gives-away", "odd"), ("missing-by-label", "odd")}


def test_copies_of_rows_are_counted():
    frame = table()
    twice = pd.concat([frame, frame[~LABELLED].iloc[:60]], ignore_index=True)
    found = notes(twice, labelled=np.append(LABELLED, np.zeros(60, dtype=bool)))
    (note,) = [note for note in found if not note.column]
    assert (note.code, note.number) == ("copies", pytest.approx(60 / 660))


def test_positives_that_are_copies_of_unlabeled_rows_tell_the_scenario():
    frame = table()
    both = pd.concat([frame, frame[LABELLED]], ignore_index=True)
    found = notes(both, labelled=np.arange(len(both)) >= N)
    (note,) = [note for note in found if not note.column]
    assert (note.code, note.number) == ("case-control", 1.0)


def test_small_samples_sparse_rows_and_images_have_no_notes():
    rows = np.zeros((19, 3))
    assert table_notes(rows, rows) == ()
    assert table_notes(np.zeros((30, 4, 4)), np.zeros((30, 4, 4))) == ()


def test_notes_are_kept_and_have_words_for_both_kinds_of_users():
    note = Note("time", "month", 12.0)
    check_kept(note)
    assert "periods" in note.text()
    assert "--period month" in note.text(command_line=True)
    many = [note, *[Note("constant", f"c{k}", 1.0) for k in range(9)]]
    assert list_of_notes(many).count("(") >= 6
    assert list_of_notes(many).endswith("and 4 more")
    assert "--drop c0" in list_of_notes(many, command_line=True)
    spaced = Note("constant", "customer no.", 1.0)
    assert spaced.text(command_line=True).endswith("--drop 'customer no.'")  # one word of a shell


def test_a_fit_warns_once_and_keeps_its_notes(tmp_path):
    frame = table().assign(quarter=QUARTERS, branch="north")
    with pytest.warns(TrainingTableWarning) as caught:
        clf = DRPUClassifier("boosted", prior=0.1, scenario="case-control", random_state=0).fit(
            frame, LABELLED
        )
    (warning,) = (w.message for w in caught if isinstance(w.message, DRPUWarning))
    for text, ways in (
        (str(warning), ("periods", "drop it")),
        (warning.command, ("--period quarter", "--drop branch")),
    ):
        assert all(word in text for word in ("'quarter'", "'branch'", *ways))
    assert codes(clf.fitted_.columns.notes) == {("time", "quarter"), ("constant", "branch"), ("gaps", "")}
    save(clf, tmp_path / "a.drpu")
    assert load(tmp_path / "a.drpu").fitted_.columns.notes == clf.fitted_.columns.notes


def test_labelled_rows_among_the_unlabeled_ones_contradict_a_single_sample():
    both = pd.concat([table(), table()[LABELLED]], ignore_index=True)
    labelled = np.arange(len(both)) >= N
    clf = DRPUClassifier("boosted", prior=0.3, scenario="case-control", random_state=0)
    assert codes(clf.fit(both, labelled).fitted_.columns.notes) == {
        ("case-control", ""),
        ("gaps", ""),
    }  # no warning
    with pytest.warns(TrainingTableWarning, match="use scenario='case-control'"):
        clf.set_params(scenario="single-sample").fit(both, labelled)
