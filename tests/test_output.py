"""Outputs appear complete or not at all, and never replace inputs or special files."""

import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from drpu import load, verify
from drpu._output import FORMULA, check_output, output_file, write_output
from drpu.exceptions import DataTypeError, OutputError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="files of other kinds, modes and signals of POSIX")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_content_is_written_as_given_and_nothing_is_left_beside_it(tmp_path):
    write_output(tmp_path / "a.txt", "größer")
    write_output(tmp_path / "b.bin", b"\x00\xff")
    assert (tmp_path / "a.txt").read_bytes() == "größer".encode()
    assert (tmp_path / "b.bin").read_bytes() == b"\x00\xff"
    assert names(tmp_path) == ["a.txt", "b.bin"]


def test_names_as_long_as_the_file_system_allows_are_written(tmp_path):
    for name in ("a" * 255, "ü" * 127):
        write_output(tmp_path / name, "x")
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("interruption", [OSError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_file(tmp_path, interruption):
    path = tmp_path / "a"
    path.write_text("old")

    def write():
        with output_file(path) as file:
            file.write(b"half")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a"]


def test_what_was_written_can_be_read_before_the_target_changes(tmp_path):
    with output_file(tmp_path / "a") as file:
        file.write(b"content")
        file.seek(0)
        assert file.read() == b"content"
        assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444 | 0o200, 0o755])
def test_an_existing_file_keeps_its_mode(tmp_path, mode):
    path = tmp_path / "a"
    path.touch()
    path.chmod(mode)
    write_output(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_output(tmp_path / "a", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_output(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert names(tmp_path / "folder") == ["target"]


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.fspath(path))


def make_loop(path):
    path.symlink_to(path)


@pytest.mark.parametrize("make", [Path.mkdir, make_pipe, make_socket, make_loop])
def test_only_regular_files_are_replaced(tmp_path, monkeypatch, make):
    monkeypatch.chdir(tmp_path)  # names of sockets must be short
    make(Path("a"))
    before = os.lstat("a")
    with pytest.raises(OutputError, match="must be a regular file"):
        write_output("a", "new")
    assert os.path.samestat(before, os.lstat("a"))
    assert names(tmp_path) == ["a"]


def test_devices_are_refused():
    with pytest.raises(OutputError, match="a character device"):
        write_output(os.devnull, "new")


def test_an_input_is_refused_by_whatever_name(tmp_path):
    source = tmp_path / "table.csv"
    source.write_text("rows")
    (tmp_path / "symbolic").symlink_to(source)
    os.link(source, tmp_path / "hard")
    (tmp_path / "folder").mkdir()
    for output in (
        source,
        tmp_path / "symbolic",
        tmp_path / "hard",
        tmp_path / "folder" / ".." / "table.csv",
    ):
        for given in (source, tmp_path / "symbolic", tmp_path / "hard"):
            with pytest.raises(OutputError, match="must not be one of the inputs"):
                check_output(output, inputs=[tmp_path / "missing", given])
    assert check_output(tmp_path / "other", inputs=[source]) == tmp_path / "other"


def test_an_input_that_is_not_there_yet_is_refused_as_well(tmp_path):
    with pytest.raises(OutputError):
        check_output(tmp_path / "a", inputs=[tmp_path / "a"])


KILLED = """
import os, signal, sys
from drpu._output import output_file
with output_file(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_the_old_file_and_the_next_one_clears_up(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")
    killed = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    assert len(names(tmp_path)) == 2  # the temporary file of the dead writer
    write_output(tmp_path / "another", "new")
    assert names(tmp_path) == ["a", "another"]


def test_the_temporary_file_of_a_living_writer_and_foreign_files_stay(tmp_path):
    foreign = [".a.1.0123456789abcdef.part", "a.1.0123456789abcdef.drpu-part", ".a.drpu-part"]
    for name in foreign:
        (tmp_path / name).touch()
    with output_file(tmp_path / "a") as file:
        file.write(b"first")
        write_output(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "first"  # the last to finish
    assert names(tmp_path) == sorted([*foreign, "a"])


@pytest.mark.parametrize("path", [0, 1, True, None, 1.5, b"a.drpu"])
def test_only_texts_and_paths_are_paths(path):
    """A number would be an open file of the process, which is closed after it was read."""
    before = os.fstat(1)
    for use in (check_output, load, verify):
        with pytest.raises(DataTypeError, match="a path must be"):
            use(path)
    assert os.fstat(1) == before


def test_a_folder_that_may_not_be_written_is_reported_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(PermissionError, match="nothing may be written to the folder"):
        check_output(tmp_path / "x.csv")


def test_a_file_that_cannot_be_made_is_named_as_the_user_did(tmp_path, monkeypatch):
    def full(path, flags, mode):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="No space left") as error:
        write_output(tmp_path / "x.csv", "1")
    assert error.value.filename == str(tmp_path / "x.csv")


SIGNS = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u2212"
BLANKS = [
    "",
    " ",
    "\n",
    "\r\n",
    "\t ",
    "\xa0",
    "\u200b",
    "\u3000",
    "\ufeff",
    "\u2060\u00ad",
    "\u202e",
    "\x00",
]


@pytest.mark.parametrize("blanks", BLANKS)
@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_after_blanks_looks_like_a_formula(sign, blanks):
    assert re.match(FORMULA, f"{blanks}{sign}1+1")


@pytest.mark.parametrize("text", ["", "a=1", "1-2", "x@y", "'=1", "(1+1)", "2026-01-01", "\xa0a", "\u200b"])
def test_other_texts_do_not(text):
    assert not re.match(FORMULA, text)
