"""A seeded part of the fuzzer: edited artifacts are refused by one type of error, or work.

A crash of the process ends the test run, which is a failure as well. ``make fuzz`` runs any number of
edits in separate processes, which may crash.
"""

import pytest

from benchmarks._fuzz import artifacts, edited, outcome, unpacked
from benchmarks._memory import fields_that_grow, grown_fields
from drpu._codec import KINDS as KINDS_OF_OBJECTS

EDITS = 8
KINDS = [
    "adapted", "audited", "auto", "boosted", "budget", "centroids", "counts", "elkan-noto", "features",
    "forest", "forest of others", "fourier", "generators", "groups", "indicators", "kernel score",
    "linear score", "logistic", "monitor", "negatives", "network", "network score", "periods", "pipeline",
    "plan", "table", "weighted",
]  # fmt: skip


@pytest.fixture(scope="module")
def honest():
    pytest.importorskip("torch", reason="networks are among the kinds")
    return artifacts()


def kinds_in(tree):
    if isinstance(tree, dict) and tree.keys() == {"kind", "fields"}:
        yield tree["kind"]
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    for value in inner:
        yield from kinds_in(value)


def test_every_kind_is_fuzzed(honest):
    assert sorted(honest) == KINDS
    files = [unpacked(content) for kind, content in honest.items() if kind != "plan"]
    found = {kind for manifest, _ in files for kind in kinds_in(manifest["tree"])}
    assert {kind for kind, cls in KINDS_OF_OBJECTS.items() if cls.__module__.startswith("drpu.")} <= found


def test_the_memory_of_every_field_that_may_be_long_is_measured(honest):
    assert fields_that_grow() <= grown_fields(honest)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kind", KINDS)
def test_edited_artifacts_are_refused_or_work(kind, honest, tmp_path):
    assert outcome(kind, honest[kind], tmp_path) == "works"
    edits = 3 if kind == "auto" else EDITS  # the default has ten times the parts of the others
    found = {seed: outcome(kind, edited(honest[kind], seed), tmp_path) for seed in range(edits)}
    assert {seed: what for seed, what in found.items() if what not in ("refused", "works")} == {}
    assert "refused" in found.values()


def test_an_edit_depends_on_its_seed_alone(honest):
    content = honest["logistic"]
    assert edited(content, 7) == edited(content, 7)
    assert edited(content, 7) != edited(content, 8)
