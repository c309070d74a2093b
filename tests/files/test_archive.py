"""An archive that drpu did not write is refused before anything is made of it."""

import hashlib
import io
import json
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drpu._codec import Encoded
from drpu.exceptions import ArtifactError, ParameterError
from drpu.files.archive import open_archive, read_bytes, write_archive

MOST_MANIFEST = 2**24  # bytes
MOST_ITEMS = 2_000_000  # of the manifest
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


def assembled(parts, named="small.skops", packed=None, extra=b"", **header):
    """An archive of any parts, written by zipfile; both headers of the part ``named`` can be changed."""
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # about a name that is used twice
        for name, part in parts if isinstance(parts, list) else parts.items():
            entry = zipfile.ZipInfo(name)
            if name == named:
                entry.extra = extra
            archive.writestr(entry, part, packed if name == named else None)
            if name == named and header:
                for key, value in header.items():
                    setattr(entry, key, value)
                archive.fp.seek(entry.header_offset)
                archive.fp.write(entry.FileHeader(zip64=False))
                archive.fp.seek(archive.start_dir)
    return out.getvalue()


def deflated(part, level=9):
    return zlib.compress(part, level, wbits=-15)


def with_stream(name, stream, part, stated=None):
    """The archive whose part ``name`` has these compressed bytes, with the headers of ``part``."""
    size = len(part) if stated is None else stated
    header = {"compress_type": zipfile.ZIP_DEFLATED, "CRC": zlib.crc32(part[:size]), "file_size": size}
    return assembled(parts_of() | {name: stream}, name, **header)


def with_manifest(change, parts=None):
    """The archive with a changed manifest, whose digests and sizes are right."""
    parts = parts_of() if parts is None else parts
    manifest = json.loads(parts.pop("manifest.json"))
    found = change(manifest)
    for name, part in parts.items():
        if name in manifest.get("parts", ()):
            manifest["parts"][name] = {"sha256": hashlib.sha256(part).hexdigest(), "bytes": len(part)}
    text = found if isinstance(found, bytes) else json.dumps(manifest, ensure_ascii=False).encode()
    return assembled({"manifest.json": text} | parts)


def ended(**values):
    """The archive with other numbers in its end record."""
    names = ("mark", "disk", "first_disk", "on_disk", "parts", "size", "start", "comment")
    numbers = dict(zip(names, struct.unpack("<4s4H2IH", CONTENT[-22:]), strict=True)) | values
    return CONTENT[:-22] + struct.pack("<4s4H2IH", *numbers.values())


def with_zip64():
    """The archive with an end record of zip64, which zipfile would prefer."""
    size, start = struct.unpack("<2I", CONTENT[-10:-2])
    record = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 4, 4, size, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(CONTENT) - 22, 1)
    content = CONTENT[:-22] + record + locator
    assert zipfile.ZipFile(io.BytesIO(content + CONTENT[-22:])).namelist()
    return content + struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 4, 4, size + len(record + locator), start, 0)


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
    "a comment of a part": assembled(parts_of(), comment=b"x"),
    "an extra field": assembled(parts_of(), extra=struct.pack("<HH4s", 0xCAFE, 4, b"1234")),
    "an encrypted part": assembled(parts_of(), flag_bits=1),
    "compressed estimators": assembled(parts_of(), packed=zipfile.ZIP_DEFLATED),
    "a part packed in another way": assembled(parts_of(), packed=zipfile.ZIP_LZMA),
    "a part twice": assembled([*parts_of().items(), ("small.skops", b"1234")]),
    "no manifest": assembled({name: part for name, part in parts_of().items() if name != "manifest.json"}),
    "no arrays": assembled({name: part for name, part in parts_of().items() if "arrays" not in name}),
    "a part that nobody names": assembled(parts_of() | {"x.skops": b""}),
    "too many parts": assembled(parts_of() | {f"x{i}.skops": b"" for i in range(1001)}),
    "a way out": assembled(parts_of() | {"../x.skops": b""}),
    "a hidden file": assembled(parts_of() | {".x.skops": b""}),
    "a drive": assembled(parts_of() | {"C:\\x.skops": b""}),
    "a folder inside": assembled(parts_of() | {"x/y.skops": b""}),
    "a name of other letters": assembled(parts_of() | {"x\n.skops": b""}),
    "a larger size": assembled(parts_of(), file_size=2**30),
    "a smaller size": assembled(parts_of(), file_size=1),
    "a larger part": assembled(parts_of(), file_size=2**30, compress_size=2**30),
    "another method": assembled(parts_of(), compress_type=99),
    "a stored part that claims to expand": assembled(parts_of(), file_size=70_000),
    "another checksum": assembled(parts_of(), "arrays.safetensors", CRC=1),
    "a part that is elsewhere": assembled(parts_of(), header_offset=0),
    "other names before the parts": CONTENT.replace(b"small.skops", b"SMALL.skops", 1),
    "a directory of another size": ended(size=10),
    "a directory elsewhere": ended(start=0),
    "several disks": ended(disk=1),
    "fewer parts than it has": ended(parts=0),
    "fewer parts than it has, by one": ended(parts=3, on_disk=3),
    "more parts than it has": ended(parts=5, on_disk=5),
    "another number of parts on its disk": ended(on_disk=3),
    "a second end record": with_zip64(),
    "arrays that are cut": with_manifest(lambda m: None, parts_of() | {"arrays.safetensors": b"\x08"}),
    "arrays without header": with_manifest(lambda m: None, parts_of() | {"arrays.safetensors": b"\xff" * 90}),
}


@pytest.mark.parametrize("name", OTHER)
def test_archives_in_another_form_are_refused(name):
    with pytest.raises(ArtifactError):
        open_archive(OTHER[name])


@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors"])
def test_a_compressed_part_that_is_cut_is_refused(name):
    part = parts_of()[name]
    open_archive(with_stream(name, deflated(part), part))
    with pytest.raises(ArtifactError, match="cannot be read"):
        open_archive(with_stream(name, deflated(part)[:-3], part))


@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors"])
def test_data_after_the_end_of_a_stream_are_refused(name):
    part = parts_of()[name]
    with pytest.raises(ArtifactError, match="stated length"):
        open_archive(with_stream(name, deflated(part) + b"hidden", part))


@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors"])
def test_data_after_the_stated_size_of_a_stream_are_refused(name):
    part = parts_of()[name]
    with pytest.raises(ArtifactError, match="stated length"):
        open_archive(with_stream(name, deflated(part + b"hidden"), part + b"hidden", stated=len(part)))


def with_header(change):
    """The archive whose arrays have another header, with the digest of the manifest corrected."""
    part = parts_of()["arrays.safetensors"]
    size = int.from_bytes(part[:8], "little")
    header = change(part[8 : 8 + size].decode().rstrip()).encode()
    changed = len(header).to_bytes(8, "little") + header + part[8 + size :]
    return with_manifest(lambda manifest: None, parts_of() | {"arrays.safetensors": changed})


HEADERS = {
    "metadata": lambda header: header.replace("{", '{"__metadata__":{"x":"hidden"},', 1),
    "empty metadata": lambda header: header.replace("{", '{"__metadata__":{},', 1),
    "a field": lambda header: header.replace('"dtype"', '"x":"hidden","dtype"', 1),
    "a name twice": lambda header: header[:-1] + ',"b":' + header.split('"b":')[1],
    "many items": lambda header: header.replace('"dtype"', '"x":[' + "[]," * 2_000_000 + '0],"dtype"', 1),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_arrays_with_other_content_is_refused(name):
    assert open_archive(with_header(lambda header: header)).tree == TREE
    with pytest.raises(ArtifactError, match="header of the arrays"):
        open_archive(with_header(HEADERS[name]))


def test_a_part_that_grows_more_than_twenty_times_is_refused():
    rng = np.random.default_rng(0)
    thirty_times = b"".join(rng.bytes(1000) + bytes(29_000) for _ in range(300))
    for part in (b" " * 10_000_000, thirty_times):
        with pytest.raises(ArtifactError, match="would expand"):
            open_archive(with_stream("manifest.json", deflated(part), part))


def test_a_part_is_expanded_to_its_stated_size_only():
    part = b" " * 100_000_000
    content = with_stream("manifest.json", deflated(part), part, stated=1000)
    tracemalloc.start()
    with pytest.raises(ArtifactError, match="manifest"):
        open_archive(content)
    assert tracemalloc.get_traced_memory()[1] < 10 * len(content)
    tracemalloc.stop()


def test_a_long_directory_is_not_listed():
    short = assembled({"x.skops": b""})
    line = short[short.index(b"PK\1\2") : -22]
    for stated in (1, 1000, 60_000):
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, stated, stated, 100_000 * len(line), 0, 0)
        content = 100_000 * line + end
        tracemalloc.start()
        with pytest.raises(ArtifactError, match="parts"):
            open_archive(content)
        assert tracemalloc.get_traced_memory()[1] < len(content)
        tracemalloc.stop()


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
    for content, message in ((assembled(parts), "has been changed"), (other, "cannot be read")):
        open_archive(content)
        with pytest.raises(ArtifactError, match=message):
            open_archive(content, trusted=True)


PLACES = st.integers(0, len(CONTENT) - 1) | st.integers(CONTENT.index(b"PK\1\2"), len(CONTENT) - 1)


@given(PLACES, st.integers(1, 255))
def test_a_flipped_byte_is_refused_or_changes_nothing_that_is_read(place, bits):
    changed = bytearray(CONTENT)
    changed[place] ^= bits
    try:
        found = open_archive(bytes(changed), trusted=True)
    except ArtifactError:
        return
    assert place >= CONTENT.index(b"PK\1\2")  # dates and modes in the list of the parts, which are not read
    assert (found.tree, found.blobs) == (TREE, BLOBS)
    assert {name: a.tolist() for name, a in found.arrays.items()} == {
        name: a.tolist() for name, a in ARRAYS.items()
    }


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
    """The most memory beside its text that reading a manifest takes; its items or format are refused."""
    content = assembled(parts_of() | {"manifest.json": text})
    tracemalloc.start()
    with pytest.raises(ArtifactError, match=r"items|not written by"):
        open_archive(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - len(text)


@pytest.mark.parametrize("item", [b"[],", b"{},", b"0,", b'{"a":0},', b'"",'])
def test_a_small_file_does_not_become_many_objects(item, monkeypatch):
    assert peak_of(b'{"format": [' + item * (MOST_MANIFEST // len(item) - 10) + b"0]}") < MOST_MANIFEST
    monkeypatch.setattr("drpu.files.archive.MOST_ITEMS", 15_000)
    peak = peak_of(b'{"format": [' + item * (15_000 // 3) + b"0]}")
    assert peak * MOST_ITEMS / 15_000 < 2**28  # of the largest number of items


@pytest.mark.parametrize(
    "versions",
    [[], {"x\n": "1"}, {"y": 1}, {"z": "\x1b[1m"}, {"w": "1" * 90}, {f"p{k}": "1" for k in range(21)}],
)
def test_versions_that_do_not_look_like_versions_are_refused(versions):
    assert open_archive(updated(versions={"drpu": "1.0"})).versions == {"drpu": "1.0"}
    with pytest.raises(ArtifactError, match="version"):
        open_archive(updated(versions=versions))


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("digest", ["ä" * 64, "", "0" * 63, "0" * 65, "g" * 64, 5])
def test_an_expected_digest_has_64_digits(digest, tmp_path):
    with pytest.raises(ParameterError, match="expected_sha256 must be 64 hexadecimal digits"):
        read_bytes(tmp_path / "x", expected_sha256=digest)


def test_a_name_that_archives_must_not_have_is_not_written():
    with pytest.raises(ArtifactError, match="cannot be written"):
        written(blobs={"../x": b""})
