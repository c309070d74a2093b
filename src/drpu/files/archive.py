"""The archive of a file: a zip archive with a manifest, arrays and estimators.

Any program for zip archives reads it. The standard ``zipfile`` writes and reads it here, and this
module decides what may be read. A file may come from anybody, so nothing in it is used before it
has been checked, in this order:

1. The end of the archive, because ``zipfile`` lists as many parts as are stated there.
2. The names, sizes, ratios, methods and places of all parts, before one of them is expanded. The
   parts fill the file without gaps, and headers have no comments, extra fields or flags: every
   program then reads the same parts, and there is no place for other data. Dates and modes in
   headers are not read.
3. The sum of the sizes, which limits the memory that the parts take.
4. The manifest: its items are counted before they become objects.
5. The digest of each part, before it is decoded.

The manifest and the arrays are compressed, by a factor that is bounded. Estimators of other
libraries are stored as they are, and neither read nor hashed unless the caller trusts the file.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import os
import platform
import re
import stat
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, LargeZipFile, ZipFile, ZipInfo

import numpy as np
import safetensors.numpy

from drpu._codec import Encoded
from drpu._output import path_of
from drpu.exceptions import ArtifactError, ParameterError

FORMAT = "drpu"
SCHEMA = 1

MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"

MAX_BYTES = 2**30
MOST_MANIFEST = 2**24
MOST_ITEMS = 2_000_000  # items of the manifest
MOST_DEPTH = 250  # levels of the manifest; an object of the codec takes two
MOST_PARTS = 1_000
MOST_RATIO = 20  # largest ratio of the sizes of a part after and before decompression
# In memory, a file takes at most so many times the bytes of its content, and so many more. While it
# is exported, the graph exists in several forms.
MEMORY_FACTOR = 16
EXPORT_FACTOR = 48
MEMORY_MORE = 2**28
_LEVEL = 3  # of compression: four times as fast as zlib's default, and files are 2 % larger
_SLACK = 2**16  # bytes that a part may have beyond that ratio: short texts compress well

_NAME = re.compile(r"manifest\.json|arrays\.safetensors|(?!\.)[A-Za-z0-9_.\[\]]{1,500}\.skops")
# An escaped surrogate, which UTF-8 does not need. Half of a pair would become a text that nobody
# can print or write.
_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*+\\u[dD][89a-fA-F]")
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,80}")
_MOST_PACKAGES = 20
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_PACKAGES = ["drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch", "skops", "safetensors"]

_ARRAY_FIELDS = {"dtype", "shape", "data_offsets"}
_END = struct.Struct("<4s4H2IH")  # the end record: the last bytes of an archive
_LOCATOR = 20  # bytes of a locator of zip64 before it, which would replace its numbers
_MOST_ENTRY = 46 + 506  # bytes of a part in the directory: the fixed ones and the longest name


# -- writing --


def write_archive(file: IO[bytes], encoded: Encoded, facts: dict[str, Any]) -> None:
    """Write an encoded object and facts about it for people; equal parts give equal bytes."""
    parts = {ARRAYS: safetensors.numpy.save(encoded.arrays)}
    for place, blob in encoded.blobs.items():
        parts[f"{place}.skops"] = blob
    stated = {}
    for name, part in parts.items():
        if not _NAME.fullmatch(name):
            raise ArtifactError(
                f"the part {name!r:.100} cannot be written: its name is not allowed."
            )
        stated[name] = {"sha256": _digest(part), "bytes": len(part)}
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": _versions(),
        "facts": facts,
        "parts": stated,
        "tree": encoded.tree,
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
    write_parts(file, {MANIFEST: text.encode()} | parts)


def write_parts(file: IO[bytes], parts: Mapping[str, bytes]) -> None:
    """Write an archive of these parts, all with the same date."""
    try:
        with ZipFile(file, "w", allowZip64=False) as archive:
            for name, part in parts.items():
                archive.writestr(ZipInfo(name), part, _method(name, part), _LEVEL)
    except LargeZipFile as error:
        raise ArtifactError(
            "the classifier cannot be written: a file has at most 2 GiB."
        ) from error


def _method(name: str, part: bytes) -> int:
    """How a part is packed; an extreme ratio, which readers refuse, is avoided by storing it."""
    if name not in (MANIFEST, ARRAYS):
        return ZIP_STORED
    packed = zlib.compress(part, _LEVEL, wbits=-zlib.MAX_WBITS)
    if len(part) > MOST_RATIO * len(packed) + _SLACK:
        return ZIP_STORED
    return ZIP_DEFLATED


def _digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


@cache
def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


# -- reading --


def read_bytes(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, expected_sha256: str | None = None
) -> bytes:
    """The bytes of a regular file that is not too large and has the expected digest, if any."""
    if expected_sha256 is not None and not _DIGEST.fullmatch(str(expected_sha256)):
        raise ParameterError(
            f"expected_sha256 must be 64 hexadecimal digits, got {expected_sha256!r:.100}."
        )
    name = path_of(path)
    with open(name, "rb", opener=_open_without_waiting) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):  # a device or a pipe has no end
            raise ArtifactError(
                f"{name!r} cannot be read as a drpu artifact: it is not a regular file."
            )
        if status.st_size > max_bytes:
            raise ArtifactError(
                f"{name!r} has {status.st_size} bytes, more than max_bytes={max_bytes}: "
                "pass a larger max_bytes if you trust the file."
            )
        # not max_bytes, because read allocates as much as it is asked for
        content = file.read(status.st_size)
    if expected_sha256 is None:
        return content
    digest = _digest(content)
    if not hmac.compare_digest(digest, expected_sha256.lower()):
        raise ArtifactError(
            f"{name!r} must have the SHA-256 digest {expected_sha256}, got {digest}: "
            "it is not the file that was expected."
        )
    return content


def _open_without_waiting(name: str, flags: int) -> int:
    """A descriptor of the file; opening a pipe without a writer would wait for one."""
    return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))


@dataclass(frozen=True)
class Archive:
    """The encoded object in a file; without trust the bytes of estimators are empty."""

    versions: dict[str, str]  # versions of the packages that wrote the file, as stated there
    facts: Any  # about the object, for people; whoever decodes the tree compares them
    tree: Any
    arrays: dict[str, np.ndarray[Any, Any]]
    blobs: dict[str, bytes]


def open_archive(content: bytes, *, max_bytes: int = MAX_BYTES, trusted: bool = False) -> Archive:
    """The archive in ``content``; raises ``ArtifactError`` for other bytes."""
    _check_end(content)
    try:
        archive = ZipFile(io.BytesIO(content))
    except Exception as error:  # zipfile raises errors of many types
        raise ArtifactError(
            f"the parts of the artifact cannot be listed: {error!s:.200}"
        ) from error
    entries = _entries(content, archive)
    if sum(entry.file_size for entry in entries.values()) > max_bytes:
        raise ArtifactError(
            f"the parts of the artifact have more than max_bytes={max_bytes} bytes: "
            "pass a larger max_bytes if you trust the file."
        )
    manifest = _read_manifest(_part(content, entries.pop(MANIFEST)))
    digests = _digests(manifest["parts"], entries)
    arrays = _read_arrays(_checked_part(content, entries.pop(ARRAYS), digests))
    blobs = {}
    for name, entry in entries.items():
        blob = _checked_part(content, entry, digests) if trusted else b""
        blobs[name.removesuffix(".skops")] = blob
    versions = _read_versions(manifest)
    return Archive(versions, manifest["facts"], manifest["tree"], arrays, blobs)


def _check_end(content: bytes) -> None:
    """Raise unless the end record is the last of the content and fits it.

    ``zipfile`` accepts bytes before and after an archive. Two programs could then find two archives
    in one file.
    """
    directory_end = len(content) - _END.size
    if directory_end < 0 or not content.startswith(b"PK\5\6", directory_end):
        raise ArtifactError("this file was not written by drpu.save, or it is not complete.")
    end = _END.unpack_from(content, directory_end)
    _, disk, first_disk, on_disk, n_parts, size, start, comment = end
    several = disk or first_disk or on_disk != n_parts
    if several or comment or start + size != directory_end:
        raise ArtifactError("the artifact is not complete, or has bytes that belong to no part.")
    # zipfile makes an object of each part when it opens an archive, and it reads parts until the
    # size is used up, whatever their number is.
    if n_parts > MOST_PARTS or size > n_parts * _MOST_ENTRY:
        raise ArtifactError(
            f"the artifact has more than {MOST_PARTS} parts, or too long a list of them."
        )
    # zipfile would use the numbers of this record, not those that were just checked.
    if content.startswith(b"PK\6\7", max(0, directory_end - _LOCATOR)):
        raise ArtifactError("the artifact has a second end record, which save does not write.")


def _entries(content: bytes, archive: ZipFile) -> dict[str, ZipInfo]:
    """The parts by name, after each of them has been checked.

    They fill the archive up to the directory, one after the other: parts that overlap would expand
    the same bytes many times. The header before each part must say what the directory says, because
    other programs read that one.
    """
    entries: dict[str, ZipInfo] = {}
    position = 0
    for entry in archive.infolist():
        _check_entry(entry)
        header = entry.FileHeader()
        if entry.header_offset != position or not content.startswith(header, position):
            break
        position += len(header) + entry.compress_size
        entries[entry.filename] = entry
    if position != archive.start_dir or len(entries) != len(archive.infolist()):
        raise ArtifactError("the artifact has a part twice, or bytes that belong to no part.")
    stated_parts = _END.unpack_from(content, len(content) - _END.size)[4]
    if len(entries) != stated_parts:
        raise ArtifactError(
            f"the artifact must have the {stated_parts} parts that its end states, "
            f"got {len(entries)}."
        )
    if MANIFEST not in entries or ARRAYS not in entries:
        raise ArtifactError("this file was not written by drpu.save.")
    return entries


def _check_entry(entry: ZipInfo) -> None:
    """Raise unless a part has a name and a size that are possible, and is packed as by ``save``."""
    name = entry.orig_filename  # the name in the file; filename ends before a zero byte
    if not _NAME.fullmatch(name):
        raise ArtifactError(
            f"the artifact has a part with the name {name[:100]!r}, which save does not use."
        )
    compressed = name in (MANIFEST, ARRAYS) and entry.compress_type == ZIP_DEFLATED
    stored = entry.compress_type == ZIP_STORED and entry.compress_size == entry.file_size
    # Flags stand for encryption, other codings of names, and sizes that follow after the part.
    if not (compressed or stored) or entry.flag_bits or entry.extra or entry.comment:
        raise ArtifactError(
            f"part {name!r} of the artifact is packed in a way that save does not use."
        )
    # A small file must not fill the memory.
    if entry.file_size > MOST_RATIO * entry.compress_size + _SLACK:
        raise ArtifactError(
            f"part {name!r} of the artifact would expand from {entry.compress_size} to "
            f"{entry.file_size} bytes, which is not possible for a saved classifier."
        )


def _read_arrays(part: bytes) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays by name; their header, a JSON text after its length, must not be too long."""
    header_size = int.from_bytes(part[:8], "little")
    header = _parse_json(part[8 : 8 + header_size], "header of the arrays")
    try:
        arrays = safetensors.numpy.load(part)
    except Exception as error:  # of safetensors, or of NumPy for a type that NumPy does not have
        raise ArtifactError(f"the arrays of the artifact cannot be read: {error!s:.200}") from error
    other_fields = [entry for entry in header.values() if entry.keys() != _ARRAY_FIELDS]
    if header.keys() != arrays.keys() or other_fields:
        raise ArtifactError(
            "the header of the arrays must name each array once, with its type, shape and place, "
            "and nothing else."
        )
    return arrays


def _checked_part(content: bytes, entry: ZipInfo, digests: Mapping[str, str]) -> bytes:
    part = _part(content, entry)
    if digests[entry.filename] != _digest(part):
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact has been changed: its digest does not match."
        )
    return part


def _part(content: bytes, entry: ZipInfo) -> bytes:
    """The bytes of a part: the whole stream, of the stated length and checksum.

    ``zipfile`` does not look at what follows in a part after the end of its stream, and cuts a
    longer stream to the stated size.
    """
    start = entry.header_offset + len(entry.FileHeader())
    packed = content[start : start + entry.compress_size]
    if entry.compress_type == ZIP_STORED:
        part = packed
    else:
        part = _expanded(entry, packed)
    if zlib.crc32(part) != entry.CRC:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact cannot be read: its checksum does not match."
        )
    return part


def _expanded(entry: ZipInfo, packed: bytes) -> bytes:
    """The part whose stream fills ``packed``, without expanding more than its stated size."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        part = stream.decompress(packed, entry.file_size + 1)
    except zlib.error as error:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact cannot be read: {error!s:.200}"
        ) from error
    if len(part) <= entry.file_size and not stream.eof:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact cannot be read: it is not complete."
        )
    if len(part) != entry.file_size or stream.unused_data:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact does not have the stated length."
        )
    return part


def _digests(stated: Any, entries: Mapping[str, ZipInfo]) -> dict[str, str]:
    """The digest of each part in the manifest, after names and sizes have been compared."""
    if not isinstance(stated, dict) or stated.keys() != entries.keys():
        raise ArtifactError("the parts of the artifact are not those that its manifest names.")
    digests = {}
    for name, facts in stated.items():
        if not isinstance(facts, dict) or facts.keys() != {"sha256", "bytes"}:
            raise ArtifactError(
                f"the manifest must give the SHA-256 digest and the bytes of part {name!r}."
            )
        if type(facts["bytes"]) is not int or facts["bytes"] != entries[name].file_size:
            raise ArtifactError(
                f"part {name!r} of the artifact has another size than in the manifest."
            )
        digests[name] = facts["sha256"]
    return digests


def _read_manifest(part: bytes) -> dict[str, Any]:
    """The manifest, after its size, items, depth, format and schema have been checked."""
    manifest = _parse_json(part, "manifest")
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtifactError("this file was not written by drpu.save.")
    _check_depth(manifest)
    schema = manifest.get("schema")
    if type(schema) is not int or schema != SCHEMA:  # true equals 1 in Python
        raise ArtifactError(
            f"the artifact has schema {schema!r:.100}, and this drpu reads schema {SCHEMA}: it "
            f"was written by drpu {_writer(manifest)}, use that one."
        )
    if manifest.keys() != {"format", "schema", "versions", "facts", "parts", "tree"}:
        raise ArtifactError("the manifest of the artifact has other fields than save writes.")
    return manifest


def _writer(manifest: dict[str, Any]) -> str:
    """The version of drpu that a manifest of another schema states, if it looks like one."""
    versions = manifest.get("versions")
    stated = versions.get("drpu") if isinstance(versions, dict) else None
    if isinstance(stated, str) and _VERSION.fullmatch(stated):
        return stated
    return "of an unknown version"


def _parse_json(part: bytes, what: str) -> Any:
    """The value of a JSON text of the artifact.

    Objects take many times the bytes of their text, so the items are counted first: each has a
    comma or an opening bracket before it.
    """
    if len(part) > MOST_MANIFEST:
        raise ArtifactError(f"the {what} of the artifact has more than {MOST_MANIFEST} bytes.")
    if part.count(b",") + part.count(b"[") + part.count(b"{") > MOST_ITEMS:
        raise ArtifactError(f"the {what} of the artifact has more than {MOST_ITEMS} items.")
    try:
        # not by json, which also reads other encodings, in which items look different
        text = part.decode()
        if _SURROGATE.search(text):
            raise ValueError("it has an escaped surrogate, which may be half of a pair")
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the {what} of the artifact cannot be read: {error!s:.200}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs as an object; of two values with one name, programs would use different ones."""
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a name occurs twice")
    return unique


def _no_constant(name: str) -> Any:
    """Refuse NaN and infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{name} is not JSON")


def _check_depth(manifest: dict[str, Any]) -> None:
    """Raise if values are nested too deeply for code that follows them by calling itself."""
    level: list[Any] = [manifest]
    depth = 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise ArtifactError(
                f"the manifest of the artifact is nested deeper than {MOST_DEPTH} levels."
            )
        next_level = []
        for item in level:
            values = item.values() if isinstance(item, dict) else item
            next_level += [value for value in values if isinstance(value, (dict, list))]
        level = next_level


def _read_versions(manifest: dict[str, Any]) -> dict[str, str]:
    """Versions of packages, which people read; raises for texts that do not look like versions."""
    stated = manifest["versions"]
    if not isinstance(stated, dict) or len(stated) > _MOST_PACKAGES:
        raise ArtifactError("the manifest must give the versions of a few packages.")
    for package, text in stated.items():
        if not isinstance(text, str) or not _VERSION.fullmatch(package + text):
            raise ArtifactError(
                f"the manifest must give a version of the package {package!a:.60}, "
                f"got {text!a:.60}."
            )
    return stated
