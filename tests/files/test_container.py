"""Sizes, names and digests of a file are checked before its content is used."""

import io
import json
import os
import struct
import zipfile

import numpy as np
import pytest

from drpu import DRPUClassifier, KernelRatio, load, make_gaussian_pu, save
from drpu.exceptions import ArtifactError, ParameterError
from drpu.files.container import MOST_RATIO, open_container, write_container
from drpu.files.manifest import digest


@pytest.fixture(scope="module")
def artifact(tmp_path_factory):
    data = make_gaussian_pu(100, 300, prior=0.4, separation=3, random_state=0)
    clf = DRPUClassifier(KernelRatio(width=1.0, ridge=0.1, n_centres=10), holdout=2, random_state=0)
    path = tmp_path_factory.mktemp("artifact") / "a.drpu"
    save(clf.fit(*data.X_y()), path)
    return path.read_bytes()


@pytest.fixture
def path(artifact, tmp_path):
    (tmp_path / "a.drpu").write_bytes(artifact)
    return tmp_path / "a.drpu"


def parts_of(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(entries, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content, compression)
    return out.getvalue()


def changed(content, change):
    """The artifact after ``change(manifest, parts)``, with sizes and digests that are right."""
    parts = parts_of(content)
    manifest = json.loads(parts.pop("manifest.json"))
    change(manifest, parts)
    for name, entry in manifest["parts"].items():
        entry.update(sha256=digest(parts[name]), bytes=len(parts[name]))
    return packed([("manifest.json", json.dumps(manifest)), *parts.items()])


def test_parts_come_back_and_give_the_same_bytes(artifact):
    again = io.BytesIO()
    write_container(again, open_container(artifact))
    assert again.getvalue() == artifact


def test_parts_of_zeros_are_stored_and_not_refused():
    out, parts = io.BytesIO(), {"manifest.json": b"{}", "blobs/zeros": bytes(10_000_000)}
    write_container(out, parts)
    assert open_container(out.getvalue()) == parts


def test_a_part_that_grows_beyond_measure_is_refused():
    bomb = packed([("manifest.json", b"{}"), ("blobs/bomb", bytes(2 * MOST_RATIO * 100_000))])
    with pytest.raises(ArtifactError, match="would expand"):
        open_container(bomb)


def test_files_and_parts_larger_than_allowed_are_refused(path):
    size = path.stat().st_size
    with pytest.raises(ArtifactError, match="max_bytes"):
        load(path, max_bytes=size - 1)
    with pytest.raises(ArtifactError, match="parts of the artifact have more"):
        load(path, max_bytes=size)
    load(path, max_bytes=20 * size)
    with pytest.raises(ParameterError, match="max_bytes"):
        load(path, max_bytes=0)


def test_the_expected_digest_is_compared_with_the_whole_file(path):
    good = digest(path.read_bytes())
    load(path, expected_sha256=good)
    load(path, expected_sha256=good.upper())
    with pytest.raises(ArtifactError, match="not the file that was expected"):
        load(path, expected_sha256="0" * 64)


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", os.devnull):
        with pytest.raises(ArtifactError, match="regular file"):
            load(path)


def claimed_size(content, name, size):
    """The archive with another size of a part in its directory."""
    data = bytearray(content)
    at = data.rindex(name.encode()) - 46  # the entry in the directory, which comes last
    data[at + 24 : at + 28] = struct.pack("<I", size)
    return bytes(data)


def overlapping(content):
    """Two entries of the directory that share the bytes of one part."""
    data = bytearray(content)
    first, second = data.index(b"PK\x01\x02"), data.rindex(b"PK\x01\x02")
    data[second + 42 : second + 46] = data[first + 42 : first + 46]
    return bytes(data)


DAMAGES = {
    "a part that claims to be larger": lambda content: claimed_size(content, "arrays.safetensors", 10**6),
    "a part that claims to be smaller": lambda content: claimed_size(content, "arrays.safetensors", 10),
    "parts that overlap": overlapping,
    "bytes before the archive": lambda content: b"MZ" + content,
    "a comment behind it": lambda content: content[:-2] + struct.pack("<H", 4) + b"1234",
    "a part packed in another way": lambda content: packed(parts_of(content).items(), zipfile.ZIP_LZMA),
    "a name with a way out": lambda content: packed([*parts_of(content).items(), ("blobs/../x", b"")]),
    "a name with a drive": lambda content: packed([*parts_of(content).items(), ("C:\\x", b"")]),
    "a part that nobody names": lambda content: packed([*parts_of(content).items(), ("blobs/x", b"")]),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_archives_are_refused(name, artifact, path):
    path.write_bytes(DAMAGES[name](artifact))
    with pytest.raises(ArtifactError):
        load(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_doubled_parts_are_refused(artifact, path):
    path.write_bytes(packed([*parts_of(artifact).items(), *parts_of(artifact).items()]))
    with pytest.raises(ArtifactError, match="twice"):
        load(path)


def _manifest(**values):
    return lambda manifest, parts: manifest.update(values)


def tails(manifest):
    return manifest["state"]["parts"]["fitted"]["parts"]["tails"]


def unused_part(manifest, parts):
    parts["blobs/extra"] = b"x"
    manifest["parts"]["blobs/extra"] = {}


def unused_array(manifest, parts):
    tails(manifest)["arrays"].remove("counts")


def twice(manifest, parts):
    tails(manifest)["arrays"].append("counts")


CHANGES = {
    "no parts": _manifest(parts={}),
    "parts in a list": _manifest(parts=[]),
    "no state": _manifest(state=None),
    "a state in a list": _manifest(state=[1]),
    "a state without names": _manifest(state={"kind": "DRPUClassifier"}),
    "schema true": _manifest(schema=True),
    "a part that the state does not use": unused_part,
    "an array that the state does not use": unused_array,
    "an array that is used twice": twice,
}


@pytest.mark.parametrize("name", CHANGES)
def test_manifests_that_do_not_agree_with_the_parts_are_refused(name, artifact, path):
    def change(manifest, parts):
        CHANGES[name](manifest, parts)
        if not isinstance(manifest["parts"], dict):
            manifest["parts"] = {}

    path.write_bytes(changed(artifact, change))
    with pytest.raises(ArtifactError):
        load(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 500 + b"1" + b"}" * 500,
        b'{"format": "drpu", "format": "drpu"}',
        b'{"format": NaN}',
        b"\xff\xfe",
        b"9" * 10_000,
    ],
)
def test_manifests_that_are_no_plain_json_are_refused(text, artifact, path):
    parts = parts_of(artifact) | {"manifest.json": text}
    path.write_bytes(packed(parts.items()))
    with pytest.raises(ArtifactError):
        load(path)


@pytest.mark.parametrize("key", ["bytes", "sha256"])
def test_sizes_and_digests_in_the_manifest_are_compared(key, artifact, path):
    parts = parts_of(artifact)
    manifest = json.loads(parts["manifest.json"])
    for wrong in (0, "x", None, True, 10**30):
        manifest["parts"]["arrays.safetensors"][key] = wrong
        path.write_bytes(packed((parts | {"manifest.json": json.dumps(manifest)}).items()))
        with pytest.raises(ArtifactError):
            load(path)


def header(**tensors):
    text = json.dumps(tensors).encode()
    return struct.pack("<Q", len(text)) + text


def tensor(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    "part",
    [
        b"",
        struct.pack("<Q", 2**60),
        header(a=tensor("F64", [10**12], 0, 8 * 10**12)),
        header(a=tensor("F64", [1], 0, 8), b=tensor("F64", [1], 0, 8)) + bytes(8),
        header(a=tensor("F64", [2**62, 4], 0, 0)),
        header(a=tensor("BF16", [1], 0, 2)) + bytes(2),
        header(a=tensor("F64", [-1], 0, 8)) + bytes(8),
        header(a=tensor("F64", [1], 8, 0)) + bytes(8),
    ],
)
def test_arrays_that_do_not_agree_with_their_header_are_refused(part, artifact, path):
    path.write_bytes(changed(artifact, lambda manifest, parts: parts.update({"arrays.safetensors": part})))
    with pytest.raises(ArtifactError):
        load(path)


def test_a_newer_scikit_learn_is_named_where_reading_fails(artifact, path):
    def change(manifest, parts):
        manifest["versions"]["scikit-learn"] = "99.1"
        tails(manifest)["config"]["copies"] = 0

    path.write_bytes(changed(artifact, change))
    with pytest.raises(ArtifactError, match="scikit-learn 99"):
        load(path)


def test_arrays_of_other_types_are_refused(artifact, path):
    import safetensors.numpy

    def change(manifest, parts):
        arrays = dict(safetensors.numpy.load(parts["arrays.safetensors"]))
        arrays["fitted/tails/levels"] = arrays["fitted/tails/levels"].astype(np.complex64)
        try:
            parts["arrays.safetensors"] = safetensors.numpy.save(arrays)
        except Exception:  # of its own type in one version, KeyError in another
            pytest.skip("this version of safetensors has no complex numbers")

    path.write_bytes(changed(artifact, change))
    with pytest.raises(ArtifactError, match="must be numeric"):
        load(path)
