"""The archive of a file: a zip archive in one fixed form, with a manifest, arrays and estimators.

Any program for zip archives reads it. This reader accepts only what :func:`write_archive` writes: the headers
of the archive follow from the names, sizes and checksums of its parts, and are compared byte for byte with
those in the file. So there is no place for other bytes, comments, extra fields or other attributes.

No value in a file is used before it has been checked. The sizes of all parts are added up before a part is
read. The manifest and the arrays are compressed, by a factor that is bounded. The items of the manifest are
counted before it becomes objects. Estimators of other libraries are stored as they are, and neither read nor
hashed unless the caller trusts the file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import platform
import re
import stat
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import IO, Any, NamedTuple

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
MOST_PARTS = 10_000
MOST_RATIO = 100  # largest ratio of the sizes of a part after and before decompression
_LEVEL = 3  # of compression: four times as fast as zlib's default, and files are 2 % larger
_SLACK = 2**16  # bytes that a part may have beyond that ratio: short texts compress well

_NAME = re.compile(r"manifest\.json|arrays\.safetensors|(?!\.)[A-Za-z0-9_.\[\]]{1,500}\.skops")
_SURROGATE = re.compile(r"(?<!\\)(?:\\\\)*+\\u[dD][89a-fA-F]")  # an escape that UTF-8 does not need
_VERSION = re.compile(r"[0-9A-Za-z.+_-]{1,40}")
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_PACKAGES = ("drpu", "numpy", "scipy", "scikit-learn", "lightgbm", "torch", "skops", "safetensors")

# The headers of a zip archive. Parts have one date, no flags, and the attributes of a plain file.
_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_STORED, _DEFLATED = 0, 8
_NEEDS, _DATE, _MADE_BY, _PLAIN_FILE = 20, 0x21, 3 << 8 | 20, 0o100644 << 16


class _Entry(NamedTuple):
    """A part of the archive: where it is, and what its header says."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int

    def header(self) -> bytes:
        """The header before the part."""
        name = self.name.encode()
        numbers = (_NEEDS, 0, self.method, 0, _DATE, self.crc, self.packed, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\3\4", *numbers) + name

    @property
    def start(self) -> int:
        return self.offset + _LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        return self.start + self.packed


def _directory(entries: Iterable[_Entry], at: int) -> bytes:
    """The bytes after the parts, which list them."""
    lines = []
    for entry in entries:
        numbers = (_MADE_BY, _NEEDS, 0, entry.method, 0, _DATE, entry.crc, entry.packed, entry.size)
        rest = (len(entry.name), 0, 0, 0, 0, _PLAIN_FILE, entry.offset)
        lines.append(_CENTRAL.pack(b"PK\1\2", *numbers, *rest) + entry.name.encode())
    listing = b"".join(lines)
    return listing + _END.pack(b"PK\5\6", 0, 0, len(lines), len(lines), len(listing), at, 0)


def write_archive(file: IO[bytes], encoded: Encoded, facts: dict[str, Any]) -> None:
    """Write an encoded object and facts about it, for people; the same objects give the same bytes."""
    parts = {ARRAYS: safetensors.numpy.save(encoded.arrays)}
    parts |= {f"{place}.skops": blob for place, blob in encoded.blobs.items()}
    manifest = {
        "format": FORMAT,
        "schema": SCHEMA,
        "versions": _versions(),
        "facts": facts,
        "parts": {name: {"sha256": _digest(part), "bytes": len(part)} for name, part in parts.items()},
        "tree": encoded.tree,
    }
    text = json.dumps(manifest, indent=1, allow_nan=False, ensure_ascii=False)
    entries: list[_Entry] = []
    for name, part in ({MANIFEST: text.encode()} | parts).items():
        packed, method = _pack(name, part)
        at = entries[-1].end if entries else 0
        if not _NAME.fullmatch(name) or max(at, len(part)) >= 2**32 - 1:
            raise ArtifactError(f"the part {name!r:.100} cannot be written: its name or size is not allowed.")
        entries.append(_Entry(name, method, zlib.crc32(part), len(packed), len(part), at))
        file.write(entries[-1].header() + packed)
    file.write(_directory(entries, entries[-1].end))


def _pack(name: str, part: bytes) -> tuple[bytes, int]:
    """A part as it is written; parts with an extreme ratio are stored, so that valid files pass the limit."""
    if name not in (MANIFEST, ARRAYS):
        return part, _STORED
    packer = zlib.compressobj(_LEVEL, wbits=-zlib.MAX_WBITS)
    packed = packer.compress(part) + packer.flush()
    if len(part) > MOST_RATIO // 2 * len(packed) + _SLACK or len(packed) >= len(part):
        return part, _STORED
    return packed, _DEFLATED


def _digest(part: bytes) -> str:
    return hashlib.sha256(part).hexdigest()


@cache
def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def read_bytes(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, expected_sha256: str | None = None
) -> bytes:
    """The bytes of a regular file that is not too large and has the expected digest, if one is given."""
    if expected_sha256 is not None and not _DIGEST.fullmatch(str(expected_sha256)):
        raise ParameterError(f"expected_sha256 must be 64 hexadecimal digits, got {expected_sha256!r:.100}.")
    without_waiting = getattr(os, "O_NONBLOCK", 0)  # opening a pipe without a writer would wait
    name = path_of(path)
    with open(name, "rb", opener=lambda name, flags: os.open(name, flags | without_waiting)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(f"{name!r} cannot be read as a drpu artifact: it is not a regular file.")
        if found.st_size > max_bytes:
            raise ArtifactError(
                f"{name!r} has {found.st_size} bytes, more than max_bytes={max_bytes}: "
                "pass a larger max_bytes if you trust the file."
            )
        content = file.read(found.st_size)  # not max_bytes, because read allocates as much as it is given
    if expected_sha256 is not None and not hmac.compare_digest(_digest(content), expected_sha256.lower()):
        raise ArtifactError(
            f"{name!r} must have the SHA-256 digest {expected_sha256}, got {_digest(content)}: "
            "it is not the file that was expected."
        )
    return content


@dataclass(frozen=True)
class Archive:
    """The content of a file: the encoded object, in which the bytes of estimators are empty without trust."""

    versions: dict[str, str]  # versions of the packages that wrote the file, as stated in the file
    tree: Any
    arrays: dict[str, np.ndarray[Any, Any]]
    blobs: dict[str, bytes]


def open_archive(content: bytes, *, max_bytes: int = MAX_BYTES, trusted: bool = False) -> Archive:
    """The archive in ``content``; raises ``ArtifactError`` for other bytes."""
    entries = _entries(content)
    if sum(entry.size for entry in entries.values()) > max_bytes:
        raise ArtifactError(
            f"the parts of the artifact have more than max_bytes={max_bytes} bytes: "
            "pass a larger max_bytes if you trust the file."
        )
    manifest = _read_manifest(_part(content, entries.pop(MANIFEST)))
    digests = _digests(manifest["parts"], entries)
    part = _checked_part(content, entries.pop(ARRAYS), digests)
    if int.from_bytes(part[:8], "little") > MOST_MANIFEST:
        raise ArtifactError(f"the header of the arrays has more than {MOST_MANIFEST} bytes.")
    try:
        arrays: dict[str, np.ndarray[Any, Any]] = safetensors.numpy.load(part)
    except Exception as error:  # an error of safetensors, or of NumPy for a type that NumPy does not have
        raise ArtifactError(f"the arrays of the artifact cannot be read: {error!s:.200}") from error
    blobs = dict.fromkeys((name.removesuffix(".skops") for name in entries), b"")
    if trusted:
        blobs = {place: _checked_part(content, entries[f"{place}.skops"], digests) for place in blobs}
    return Archive(_read_versions(manifest), manifest["tree"], arrays, blobs)


def _entries(content: bytes) -> dict[str, _Entry]:
    """The parts by name, after all bytes that do not belong to a part have been compared."""
    entries: dict[str, _Entry] = {}
    at = 0
    while content.startswith(b"PK\3\4", at) and len(content) >= at + _LOCAL.size:
        entry = _entry(content, at)
        if entry.name in entries or len(entries) >= MOST_PARTS:
            raise ArtifactError("the artifact has a part twice, or too many parts.")
        entries[entry.name], at = entry, entry.end
    if list(entries)[:1] != [MANIFEST]:
        raise ArtifactError("this file was not written by drpu.save.")
    directory = _directory(entries.values(), at)
    if len(content) != at + len(directory) or not content.endswith(directory) or ARRAYS not in entries:
        raise ArtifactError("the artifact is not complete, or has bytes that belong to no part.")
    return entries


def _entry(content: bytes, at: int) -> _Entry:
    _, _, _, method, _, _, crc, packed, size, length, _ = _LOCAL.unpack_from(content, at)
    name = content[at + _LOCAL.size : at + _LOCAL.size + length].decode("ascii", "replace")
    if not _NAME.fullmatch(name):
        raise ArtifactError(f"the artifact has a part with the name {name[:100]!r}, which save does not use.")
    entry = _Entry(name, method, crc, packed, size, at)
    methods = (_STORED, _DEFLATED) if name in (MANIFEST, ARRAYS) else (_STORED,)
    if method not in methods or not content.startswith(entry.header(), at) or (not method and packed != size):
        raise ArtifactError(f"part {name!r} of the artifact is packed in a way that save does not use.")
    if size > MOST_RATIO * packed + _SLACK:
        raise ArtifactError(
            f"part {name!r} of the artifact would expand from {packed} to {size} bytes, "
            "which is not possible for a saved classifier."
        )
    return entry


def _checked_part(content: bytes, entry: _Entry, digests: Mapping[str, str]) -> bytes:
    part = _part(content, entry)
    if digests[entry.name] != _digest(part):
        raise ArtifactError(
            f"part {entry.name!r} of the artifact has been changed: its digest does not match."
        )
    return part


def _part(content: bytes, entry: _Entry) -> bytes:
    part = content[entry.start : entry.end]
    if entry.method == _DEFLATED:
        unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            part = unpacker.decompress(part, entry.size + 1)
        except zlib.error as error:
            raise ArtifactError(f"part {entry.name!r} of the artifact cannot be read: {error}.") from error
        if not unpacker.eof or unpacker.unused_data:
            raise ArtifactError(f"part {entry.name!r} of the artifact does not have the stated length.")
    if len(part) != entry.size or zlib.crc32(part) != entry.crc:
        raise ArtifactError(
            f"part {entry.name!r} of the artifact does not have the stated length or checksum."
        )
    return part


def _digests(stated: Any, entries: Mapping[str, _Entry]) -> dict[str, str]:
    """The digest of each part in the manifest, after names and sizes have been compared."""
    if not isinstance(stated, dict) or stated.keys() != entries.keys():
        raise ArtifactError("the parts of the artifact are not those that its manifest names.")
    for name, entry in stated.items():
        if not isinstance(entry, dict) or entry.keys() != {"sha256", "bytes"}:
            raise ArtifactError(f"the manifest must give the SHA-256 digest and the bytes of part {name!r}.")
        if type(entry["bytes"]) is not int or entry["bytes"] != entries[name].size:
            raise ArtifactError(f"part {name!r} of the artifact has another size than in the manifest.")
    return {name: entry["sha256"] for name, entry in stated.items()}


def _read_manifest(part: bytes) -> dict[str, Any]:
    """The manifest, after its size, items, depth, format and schema have been checked."""
    if len(part) > MOST_MANIFEST:
        raise ArtifactError(f"the manifest of the artifact has more than {MOST_MANIFEST} bytes.")
    if sum(map(part.count, (b",", b"[", b"{"))) > MOST_ITEMS:  # each item has one of them before it
        raise ArtifactError(f"the manifest of the artifact has more than {MOST_ITEMS} items.")
    try:
        text = part.decode()  # not by json, which also reads other encodings, in which items look different
        if _SURROGATE.search(text):
            raise ValueError("it has an escaped surrogate, which may be half of a pair")
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"the manifest of the artifact cannot be read: {error!s:.200}") from error
    _check_depth([found])
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ArtifactError("this file was not written by drpu.save.")
    if type(found.get("schema")) is not int or found["schema"] != SCHEMA:
        raise ArtifactError(
            f"the artifact has schema {found.get('schema')!r:.100}, and this drpu reads schema {SCHEMA}: it "
            f"was written by drpu {_read_versions(found).get('drpu', 'of an unknown version')}, use that one."
        )
    if found.keys() != {"format", "schema", "versions", "facts", "parts", "tree"}:
        raise ArtifactError("the manifest of the artifact has other fields than save writes.")
    return found


def _check_depth(manifest: list[Any]) -> None:
    """Raise if values are nested too deeply for code that follows them by calling itself."""
    level, depth = manifest, 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
            raise ArtifactError(f"the manifest of the artifact is nested deeper than {MOST_DEPTH} levels.")
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [value for item in inner for value in item if isinstance(value, (dict, list))]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _read_versions(manifest: dict[str, Any]) -> dict[str, str]:
    """Versions of packages that look like versions."""
    stated = manifest.get("versions")
    pairs = stated.items() if isinstance(stated, dict) else ()
    return {
        name: text
        for name, text in pairs
        if isinstance(text, str) and _VERSION.fullmatch(text) and _VERSION.fullmatch(name)
    }
