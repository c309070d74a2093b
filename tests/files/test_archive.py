"""The archive of a file has one form, and every other byte is refused before anything is made of it."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpu._codec import Encoded
from drpu.exceptions import ArtifactError, ParameterError
from drpu.files import archive as module
from drpu.files.archive import MOST_ITEMS, MOST_MANIFEST, open_archive, read_bytes, write_archive

TREE = {"kind": "x", "fields": {"text": "ä\\ud800 \U0001f600", "number": 0.1}}
ARRAYS = {"a.0": np.arange(6.0).reshape(2, 3), "b": np.zeros(0, dtype="int8")}
BLOBS = {"small": b"1234", "fitted.model": bytes(200_000)}


def written(tree=TREE, arrays=ARRAYS, blobs=BLOBS, facts=None):
    out = io.BytesIO()
    write_archive(out, Encoded(tree, arrays, blobs), facts or {"rows": {}})
    return out.getvalue()


CONTENT = written()


def test_what_is_written_is_read():
    found = open_archive(CONTENT, trusted=True)
    assert found.tree == TREE
    assert {name: (a.dtype, a.tolist()) for name, a in found.arrays.items()} == {
        name: (a.dtype, a.tolist()) for name, a in ARRAYS.items()
    }
    assert found.blobs == BLOBS
    assert open_archive(CONTENT).blobs == dict.fromkeys(BLOBS, b"")
    assert found.versions["drpu"]
    assert written() == CONTENT


def test_other_programs_read_the_archive():
    with zipfile.ZipFile(io.BytesIO(CONTENT)) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[:2] == ["manifest.json", "arrays.safetensors"]
        assert archive.read("small.skops") == b"1234"
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["schema"] == 1
    assert manifest["parts"]["small.skops"]["bytes"] == 4


def test_estimators_are_never_compressed_and_zeros_are_not_refused():
    assert len(CONTENT) > 200_000
    zeros = written(arrays={"z": np.zeros(10_000_000 // 8)})
    assert (open_archive(zeros).arrays["z"] == 0).all()


# -- other archives ----------------------------------------------------------------------------


def parts_of(content=CONTENT):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assembled(parts, pack=module._pack, **header):
    """An archive in the form of drpu, of any parts, or packed in another way."""
    out, entries = bytearray(), []
    for name, part in parts if isinstance(parts, list) else parts.items():
        data, method = pack(name, part)
        entry = module._Entry(name, method, zlib.crc32(part), len(data), len(part), len(out))
        entry = entry._replace(**header) if name != "manifest.json" else entry
        out += entry.header() + data
        entries.append(entry)
    return bytes(out + module._directory(entries, len(out)))


def with_manifest(change, parts=None):
    """The archive with a changed manifest, whose digests and sizes are right."""
    parts = parts_of() if parts is None else parts
    manifest = json.loads(parts.pop("manifest.json"))
    found = change(manifest)
    for name, part in parts.items():
        if name in manifest.get("parts", ()):
            manifest["parts"][name] = {"sha256": module._digest(part), "bytes": len(part)}
    text = found if isinstance(found, bytes) else json.dumps(manifest, ensure_ascii=False).encode()
    return assembled({"manifest.json": text} | parts)


def by_zipfile(**attributes):
    """The same parts, written by zipfile with one attribute of an entry that save does not write."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, part in parts_of().items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system, entry.external_attr = 3, 0o100644 << 16
            entry.compress_type = 0
            if name == "small.skops":
                for key, value in attributes.items():
                    setattr(entry, key, value)
            archive.writestr(entry, part)
    return out.getvalue()


def test_the_form_is_the_one_that_zipfile_writes():
    open_archive(by_zipfile())
    assert assembled(parts_of()) == CONTENT


OTHER = {
    "nothing": b"",
    "a few bytes": b"PK\3\4",
    "a text": b"hello" * 100,
    "an empty archive": b"PK\5\6" + bytes(18),
    "bytes before the archive": b"MZ" + CONTENT,
    "bytes after its end": CONTENT + b"\0",
    "a comment": CONTENT[:-2] + struct.pack("<H", 4) + b"1234",
    "a second directory": CONTENT + CONTENT[CONTENT.index(b"PK\1\2") :],
    "bytes between parts": CONTENT.replace(b"PK\3\4", b"xPK\3\4").removeprefix(b"x"),
    "a comment of a part": by_zipfile(comment=b"x"),
    "an extra field": by_zipfile(extra=struct.pack("<HH4s", 0xCAFE, 4, b"1234")),
    "a symbolic link": by_zipfile(external_attr=0o120777 << 16),
    "another mode": by_zipfile(external_attr=0o100755 << 16),
    "a folder": by_zipfile(external_attr=0x10),
    "another system": by_zipfile(create_system=0),
    "another date": by_zipfile(date_time=(2020, 1, 1, 0, 0, 0)),
    "internal attributes": by_zipfile(internal_attr=1),
    "compressed estimators": by_zipfile(compress_type=zipfile.ZIP_DEFLATED),
    "a part packed in another way": by_zipfile(compress_type=zipfile.ZIP_LZMA),
    "a part twice": assembled([*parts_of().items(), ("small.skops", b"1234")]),
    "no manifest": assembled({name: part for name, part in parts_of().items() if name != "manifest.json"}),
    "no arrays": assembled({name: part for name, part in parts_of().items() if "arrays" not in name}),
    "another order": assembled(list(reversed(parts_of().items()))),
    "a part that nobody names": assembled(parts_of() | {"x.skops": b""}),
    "too many parts": assembled(parts_of() | {f"x{i}.skops": b"" for i in range(10_001)}),
    "a way out": assembled(parts_of() | {"../x.skops": b""}),
    "a hidden file": assembled(parts_of() | {".x.skops": b""}),
    "a drive": assembled(parts_of() | {"C:\\x.skops": b""}),
    "a folder inside": assembled(parts_of() | {"x/y.skops": b""}),
    "a name of other letters": assembled(parts_of() | {"x\n.skops": b""}),
    "a larger size": assembled(parts_of(), size=2**31),
    "a smaller size": assembled(parts_of(), size=1),
    "a larger part": assembled(parts_of(), packed=2**31),
    "another checksum": assembled(parts_of(), crc=1),
    "another method": assembled(parts_of(), method=99),
    "a stored part that claims to expand": assembled(parts_of(), size=70_000),
    "arrays that are cut": with_manifest(lambda m: None, parts_of() | {"arrays.safetensors": b"\x08"}),
    "arrays without header": with_manifest(lambda m: None, parts_of() | {"arrays.safetensors": b"\xff" * 90}),
}


@pytest.mark.parametrize("name", OTHER)
def test_archives_in_another_form_are_refused(name):
    with pytest.raises(ArtifactError):
        open_archive(OTHER[name])


def bad_stream(name, part):
    data, method = module._pack(name, part)
    return (data[:-3] if method else data), method


def longer_stream(name, part):
    data, method = module._pack(name, part)
    return (data + b"more" if method else data), method


@pytest.mark.parametrize("packed", [bad_stream, longer_stream])
def test_a_compressed_part_ends_where_its_data_end(packed):
    with pytest.raises(ArtifactError, match=r"length|cannot be read"):
        open_archive(assembled(parts_of(), packed))


def test_a_part_that_grows_beyond_measure_is_refused():
    def squeezed(name, part):
        packer = zlib.compressobj(9, wbits=-15)
        return packer.compress(part) + packer.flush(), 8

    parts = {"manifest.json": b" " * 10_000_000, "arrays.safetensors": b""}
    with pytest.raises(ArtifactError, match="would expand"):
        open_archive(assembled(parts, squeezed))


def test_every_part_counts_against_max_bytes_before_it_is_read():
    size = sum(map(len, parts_of().values()))
    open_archive(CONTENT, max_bytes=size)
    with pytest.raises(ArtifactError, match="max_bytes"):
        open_archive(CONTENT, max_bytes=size - 1)


def test_estimators_are_read_and_hashed_with_trust_only():
    at = CONTENT.index(bytes(1000)) + 500
    parts = parts_of()
    parts["fitted.model.skops"] = b"changed".ljust(200_000)
    other = CONTENT[:at] + b"\1" + CONTENT[at + 1 :]
    for content, message in ((assembled(parts), "has been changed"), (other, "checksum")):
        open_archive(content)
        with pytest.raises(ArtifactError, match=message):
            open_archive(content, trusted=True)


def test_changed_arrays_are_noticed():
    parts = parts_of()
    parts["arrays.safetensors"] = parts["arrays.safetensors"][:-1] + b"\7"
    with pytest.raises(ArtifactError, match="has been changed"):
        open_archive(assembled(parts))


@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_refused(at, bits):
    changed = bytearray(CONTENT)
    changed[at] ^= bits
    with pytest.raises(ArtifactError):
        open_archive(bytes(changed), trusted=True)


@given(st.integers(0, len(CONTENT) - 1))
def test_a_part_of_an_archive_is_refused(length):
    with pytest.raises(ArtifactError):
        open_archive(CONTENT[:length])


@given(st.binary(max_size=300))
def test_other_bytes_are_refused(content):
    for start in (b"", CONTENT[:300], CONTENT[:30]):
        with pytest.raises(ArtifactError):
            open_archive(start + content)


# -- manifests ---------------------------------------------------------------------------------


def updated(**values):
    return with_manifest(lambda manifest: manifest.update(values))


def part_entry(entry, name="small.skops"):
    parts = parts_of()
    manifest = json.loads(parts.pop("manifest.json"))
    manifest["parts"][name] = entry
    return assembled({"manifest.json": json.dumps(manifest, ensure_ascii=False).encode()} | parts)


MANIFESTS = {
    "another format": updated(format="skops"),
    "a newer schema": updated(schema=2),
    "an older schema": updated(schema=0),
    "a schema that is no integer": updated(schema=True),
    "a schema that is long": updated(schema=["x" * 1000] * 1000),
    "another field": updated(more=1),
    "no facts": with_manifest(lambda manifest: manifest.pop("facts") and None),
    "no parts": with_manifest(lambda manifest: manifest.update(parts={})),
    "parts that are a list": with_manifest(lambda manifest: manifest.update(parts=[])),
    "an entry that is a text": part_entry("x"),
    "an entry without digest": part_entry({"bytes": 4}),
    "an entry with more": part_entry({"bytes": 4, "sha256": "x", "more": 1}),
    "a size that is true": part_entry({"bytes": True, "sha256": "x"}),
    "another size": part_entry({"bytes": 5, "sha256": "x"}),
    "a list": with_manifest(lambda _: b"[]"),
    "no JSON": with_manifest(lambda _: b"{"),
    "a constant": with_manifest(lambda _: b'{"format": NaN}'),
    "a name twice": with_manifest(lambda _: b'{"format": "drpu", "format": "drpu"}'),
    "a long number": with_manifest(lambda _: b'{"format": ' + b"1" * 5000 + b"}"),
    "UTF-16": with_manifest(lambda m: json.dumps(m).encode("utf-16")),
    "UTF-16 without mark": with_manifest(lambda m: json.dumps(m).encode("utf-16-le")),
    "Latin 1": with_manifest(lambda _: '{"ä": 1}'.encode("latin-1")),
    "a mark before it": with_manifest(lambda m: json.dumps(m).encode("utf-8-sig")),
    "half of a pair": with_manifest(
        lambda m: json.dumps(m, ensure_ascii=False).replace('"rows"', '"\\ud800"').encode()
    ),
    "half of a pair after a backslash": with_manifest(
        lambda m: json.dumps(m, ensure_ascii=False).replace('"rows"', '"\\\\\\uDFFF"').encode()
    ),
    "deep lists": with_manifest(lambda _: b"[" * 100_000 + b"]" * 100_000),
    "deep objects": with_manifest(lambda _: b'{"a":' * 300 + b"1" + b"}" * 300),
    "too large": with_manifest(lambda _: b'"' + bytes(range(97, 123)) * (MOST_MANIFEST // 26 + 1) + b'"'),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_other_manifests_are_refused(name):
    with pytest.raises(ArtifactError) as caught:
        open_archive(MANIFESTS[name])
    assert len(str(caught.value)) < 500


def test_texts_may_have_brackets_quotes_and_backslashes():
    text = '[{,"\\' * 1000 + "\\ud800"
    assert open_archive(written(tree=text)).tree == text


def peak_of(text):
    """The most memory that reading a manifest takes, which is refused for its items or its format."""
    tracemalloc.start()
    with pytest.raises(ArtifactError, match=r"items|not written by"):
        module._read_manifest(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize("item", [b"[],", b"{},", b"0,", b'{"a":0},', b'"",'])
def test_a_small_file_does_not_become_many_objects(item, monkeypatch):
    assert peak_of(b'{"format": [' + item * (MOST_MANIFEST // len(item) - 10) + b"0]}") < MOST_MANIFEST
    monkeypatch.setattr(module, "MOST_ITEMS", 15_000)
    peak = peak_of(b'{"format": [' + item * (15_000 // 3) + b"0]}")
    assert peak * MOST_ITEMS / 15_000 < 2**28  # of the largest number of items


def test_versions_that_do_not_look_like_versions_are_left_out():
    found = open_archive(updated(versions={"drpu": "1.0", "x\n": "1", "y": 1, "z": "\x1b[1m", "w": "1" * 50}))
    assert found.versions == {"drpu": "1.0"}
    assert open_archive(updated(versions=[])).versions == {}


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["ä" * 64, "", "0" * 63, "0" * 65, "g" * 64, 5])
def test_an_expected_digest_has_64_digits(digest, tmp_path):
    with pytest.raises(ParameterError, match="expected_sha256 must be 64 hexadecimal digits"):
        read_bytes(tmp_path / "x", expected_sha256=digest)


def test_a_name_that_archives_must_not_have_is_not_written():
    with pytest.raises(ArtifactError, match="cannot be written"):
        written(blobs={"../x": b""})
