"""Writing of files: a file appears complete or not at all.

Every output of the library and of the command line goes through :func:`output_file` (for
content that is written in pieces) or :func:`write_output` (for content in memory).
Both guarantee the following.

* The content is written to a temporary file in the folder of the target, flushed to the
  disk, and renamed over the target. A reader sees the old file or the new one. A full disk,
  an exception or a killed process leaves the old file as it was.
* Only regular files are written. A folder, device, pipe or socket is refused. A symbolic link
  is followed: the file that it points to is replaced, and the link stays.
* An existing target keeps its permissions, and its owner if the system allows this.
* Temporary files that killed writers left in the same folder are removed. A running writer
  holds a lock on its temporary file, so no writer removes the file of another.

Texts that are shown on a terminal or inside a self-contained page are made safe at the end of the
module. It imports no numerical library, so the command line can use it at once.

Commands give their inputs to :func:`check_output`, which refuses an output that is also an input,
under any name.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import html
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from drpu.exceptions import DataTypeError, OutputError

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be removed: no lock is needed
    fcntl = None  # type: ignore[assignment]

StrPath = str | os.PathLike[str]

# ".NAME.PID.RANDOM.drpu-part": hidden, named after its target, and not a name that users choose.
_TEMPORARY = re.compile(r"^\..+\.\d+\.[0-9a-f]{16}\.drpu-part$")
_KINDS = {
    "d": "a folder",
    "c": "a character device",
    "b": "a block device",
    "p": "a pipe",
    "s": "a socket",
    "l": "a symbolic link to a missing file",
}
# Characters of the name of the target; each has at most 4 bytes, and a file name at most 255.
_NAME_PART = 40


def path_of(path: StrPath) -> str:
    """The path as text; numbers, which would be open files of the process, are refused."""
    if not isinstance(path, (str, os.PathLike)):
        raise DataTypeError(f"a path must be a text or a Path, got {path!r:.100}.")
    return os.fspath(path)


def check_output(path: StrPath, *, inputs: Iterable[StrPath] = ()) -> Path:
    """The file that writing to ``path`` would create or replace, after symbolic links.

    Call this before a long computation, so that a target that cannot be written is reported at
    once. ``OutputError`` is raised if ``path`` is not a regular file, or is one of ``inputs``, the
    files that the output is made from (under the same name, through a symbolic link or as a hard
    link).
    """
    name = path_of(path)
    target = Path(os.path.realpath(name))
    try:
        existing = os.lstat(target)
    except FileNotFoundError:
        existing = None
    if existing is None and not target.parent.is_dir():
        raise FileNotFoundError(
            f"the output {name!r} cannot be written: there is no folder {str(target.parent)!r}, "
            "create it first."
        )
    if existing is not None and not stat.S_ISREG(existing.st_mode):
        letter = stat.filemode(existing.st_mode)[0]
        kind = _KINDS.get(letter, "of an unknown kind")
        raise OutputError(
            f"the output must be a regular file, got {name!r}, which is {kind}: "
            "choose another path."
        )
    for source in inputs:
        if _same_file(target, existing, source):
            raise OutputError(
                f"the output must not be one of the inputs, got {name!r}, which is the same file "
                f"as {os.fspath(source)!r}: choose another path."
            )
    if existing is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"the output {name!r} exists and may not be written.")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(
            f"the output {name!r} cannot be written: nothing may be written to the folder "
            f"{str(target.parent)!r}, choose another one."
        )
    return target


@contextmanager
def output_file(path: StrPath) -> Iterator[IO[bytes]]:
    """A binary file to write the content of ``path`` to; the target changes when the block ends.

    The file can also be read: what was written may be checked before the target is replaced. If the
    block raises, the target is left as it was.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.csv"
    >>> with output_file(target) as file:
    ...     _ = file.write(b"1,2,3")
    ...     target.exists()
    False
    >>> target.read_bytes()
    b'1,2,3'
    """
    target = check_output(path)
    _clear_stale(target.parent)
    temporary, file = _open_temporary(target)
    try:
        with file:
            yield file
            file.flush()
            _take_permissions(file.fileno(), target)
            os.fsync(file.fileno())
            if os.name == "nt":
                file.close()  # Windows renames closed files only
            os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    _sync_folder(target.parent)


def write_output(path: StrPath, content: bytes | str) -> None:
    """Write ``content`` to ``path`` as :func:`output_file` does; text is encoded as UTF-8."""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    with output_file(path) as file:
        file.write(content)


def _same_file(target: Path, existing: os.stat_result | None, source: StrPath) -> bool:
    if os.path.realpath(source) == os.fspath(target):
        return True
    if existing is None:
        return False
    try:
        return os.path.samestat(existing, os.stat(source))
    except OSError:  # an input that cannot be accessed is reported when it is read
        return False


def _open_temporary(target: Path) -> tuple[Path, IO[bytes]]:
    """A new file beside ``target``, locked for as long as it is open."""
    mode = 0o600 if target.exists() else 0o666  # the umask applies to the second
    while True:
        name = f".{target.name[:_NAME_PART]}.{os.getpid()}.{secrets.token_hex(8)}.drpu-part"
        temporary = target.with_name(name)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            descriptor = os.open(temporary, flags, mode)
        except OSError as error:
            error.filename = os.fspath(target)  # the name that the user knows
            raise
        file = os.fdopen(descriptor, "w+b")
        if fcntl is None:
            return temporary, file
        # Another writer may have seen the file before it was locked and removed it: then try again.
        # If the file system has no locks, no temporary file is ever removed.
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, file
        file.close()


def _clear_stale(folder: Path) -> None:
    """Remove the temporary files that no running writer has locked."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if _is_ours(entry)]
    except OSError:  # a folder that can be written but not listed
        return
    for name in names:
        with suppress(OSError):  # locked, or removed by another process in the meantime
            if fcntl is None:
                os.unlink(name)
                continue
            with open(name, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(name)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is a temporary file of this user."""
    if not _TEMPORARY.match(entry.name):
        return False
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    of_this_user = os.name == "nt" or status.st_uid == os.geteuid()
    return stat.S_ISREG(status.st_mode) and of_this_user


def _take_permissions(descriptor: int, target: Path) -> None:
    """Give the new file the owner and the permissions of the file that it replaces."""
    if os.name == "nt" or not target.exists():
        return
    old = os.stat(target)
    with suppress(PermissionError):  # only a privileged process may give files away
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Write the rename to the disk, so that it survives a loss of power."""
    if os.name == "nt":  # folders cannot be opened on Windows, where renames are written at once
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # a folder that can be written but not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some network file systems do not support it
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


# -- texts on a terminal, and inside a self-contained page ------------------------------------


def printable(text: str) -> str:
    """``text`` with control characters escaped, so that a file cannot control the terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


# Control characters but line feeds and tabs, marks of the direction of text, halves of pairs.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def visible(text: str) -> str:
    """``text`` with escapes for characters that turn or hide the text around them in a page."""
    return _HIDDEN.sub(_as_escape, text)


def _as_escape(letter: re.Match[str]) -> str:
    return letter[0].encode("unicode_escape").decode()


def escape(text: str) -> str:
    """``text`` inside a page: without markup, and :func:`visible`."""
    return html.escape(visible(text))


# The start of a text that a spreadsheet may run as a formula, also after blanks and characters
# without width, and with wide or small forms of the signs. Both re and Arrow read the pattern.
_BLANKS = (
    "\\x00-\\x20\\x7f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
)
FORMULA = (
    f"^[\\t\\r\\n]|^[{_BLANKS}]*[=+\\-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212]"
)


def json_for_script(values: Any) -> str:
    """The values as JSON that is safe inside a script element."""
    text = json.dumps(values, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def page_policy(css: str, js: str) -> str:
    """Content security policy: the style and the script of a page, and nothing else."""
    nothing = "default-src 'none'; base-uri 'none'; form-action 'none'"
    return f"{nothing}; style-src {_digest(css)}; script-src {_digest(js)}; img-src data:"


def _digest(text: str) -> str:
    sha256 = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(sha256).decode()}'"


def in_notebook() -> bool:
    """Whether the process is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")
