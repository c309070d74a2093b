"""The container of an artifact: a zip archive whose sizes are checked before it is read.

No value in a file is used before it has been checked. The sizes that
the archive declares are added up before a part is decompressed, and a part that grows beyond
its declared size is not read to its end. So a file cannot make the process take more
memory than a small multiple of ``max_bytes``.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable
from typing import IO

from drpu.exceptions import ArtifactError

__all__ = ["ARRAYS", "BLOBS", "MANIFEST", "MAX_BYTES", "open_container", "read_bytes", "write_container"]

MANIFEST = "manifest.json"
ARRAYS = "arrays.safetensors"
BLOBS = "blobs/"

MAX_BYTES = 2**30
MOST_MANIFEST = 2**24
MOST_PARTS = 10_000
MOST_RATIO = 100  # largest ratio of the sizes of a part after and before decompression
_SLACK = 2**16  # bytes that a part may have beyond that ratio: short texts compress well
_NAME = re.compile(r"^(manifest\.json|arrays\.safetensors|blobs/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*)$")
_LOCAL_HEADER = 30
_STRANGE = 0x1 | 0x8 | 0x20 | 0x40 | 0x2000  # encrypted, sizes given afterwards, patched, masked


def read_bytes(
    path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES, expected_sha256: str | None = None
) -> bytes:
    """The bytes of a regular file that is not too large and has the expected digest, if one is given."""
    with open(path, "rb", opener=_open_without_waiting) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ArtifactError(
                f"{os.fspath(path)!r} cannot be read as a drpu artifact: it is not a regular file."
            )
        if found.st_size > max_bytes:
            raise ArtifactError(
                f"{os.fspath(path)!r} has {found.st_size} bytes, more than max_bytes={max_bytes}: "
                "pass a larger max_bytes if you trust the file."
            )
        content = file.read(found.st_size)  # not max_bytes, because read allocates as much as it is given
    if expected_sha256 is not None:
        digest = hashlib.sha256(content).hexdigest()
        if not hmac.compare_digest(digest, expected_sha256.lower()):
            raise ArtifactError(
                f"{os.fspath(path)!r} must have the SHA-256 digest {expected_sha256}, got {digest}: "
                "it is not the file that was expected."
            )
    return content


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a path without waiting, as opening a pipe without a writer would."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def open_container(content: bytes, *, max_bytes: int = MAX_BYTES) -> dict[str, bytes]:
    """The parts of an archive, including the manifest; raises ``ArtifactError`` for other bytes."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = _checked_entries(archive, content, max_bytes)
            return {entry.filename: _read_part(archive, entry) for entry in entries}
    except ArtifactError:
        raise
    except Exception as error:  # all errors that zipfile or zlib raise for damaged archives
        raise ArtifactError(f"the file is not a complete artifact: {error}") from error


def _checked_entries(archive: zipfile.ZipFile, content: bytes, max_bytes: int) -> list[zipfile.ZipInfo]:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if MANIFEST not in names:
        raise ArtifactError("this file was not written by drpu.save.")
    if len(entries) > MOST_PARTS or len(set(names)) != len(names):
        raise ArtifactError("the artifact has a part twice, or too many parts.")
    strange = [name for name in names if not _NAME.match(name) or ".." in name]
    if strange:
        raise ArtifactError(
            f"the parts of the artifact are not those that its manifest names: {strange[0][:100]!r}."
        )
    for entry in entries:
        _check_entry(entry)
    if sum(entry.file_size for entry in entries) > max_bytes:
        raise ArtifactError(
            f"the parts of the artifact have more than max_bytes={max_bytes} bytes: "
            "pass a larger max_bytes if you trust the file."
        )
    _check_layout(archive, entries, content)
    return entries


def _check_entry(entry: zipfile.ZipInfo) -> None:
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & _STRANGE:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact is packed in a way that save does not use."
        )
    if entry.file_size > MOST_RATIO * entry.compress_size + _SLACK:
        raise ArtifactError(
            f"part {entry.filename!r} of the artifact would expand from {entry.compress_size} "
            f"to {entry.file_size} bytes, which is not possible for a saved classifier."
        )
    if entry.filename == MANIFEST and entry.file_size > MOST_MANIFEST:
        raise ArtifactError(f"the manifest of the artifact has more than {MOST_MANIFEST} bytes.")


def _check_layout(archive: zipfile.ZipFile, entries: Iterable[zipfile.ZipInfo], content: bytes) -> None:
    """Check that parts are contiguous, with nothing before, between or after them."""
    end = 0
    for entry in sorted(entries, key=lambda entry: entry.header_offset):
        if entry.header_offset != end:
            raise ArtifactError("the parts of the artifact overlap, or there are other bytes between them.")
        lengths = content[end + 26 : end + _LOCAL_HEADER]
        extra = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
        end += _LOCAL_HEADER + extra + entry.compress_size
    if end != archive.start_dir or archive.comment:
        raise ArtifactError("the artifact has bytes that belong to no part.")


def _read_part(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        part = file.read(entry.file_size + 1)
    if len(part) != entry.file_size:
        raise ArtifactError(f"part {entry.filename!r} of the artifact does not have the stated length.")
    return part


def write_container(file: IO[bytes], parts: dict[str, bytes]) -> None:
    """Write an archive of ``parts``; the same parts give the same bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3  # the same on every system
            archive.writestr(entry, content, _method(content))


def _method(content: bytes) -> int:
    """Whether to compress; parts with an extreme ratio are stored, so that valid files pass the limit."""
    packed = len(zlib.compress(content, 1)) if len(content) > _SLACK else len(content)
    return zipfile.ZIP_DEFLATED if len(content) <= MOST_RATIO // 2 * packed else zipfile.ZIP_STORED
