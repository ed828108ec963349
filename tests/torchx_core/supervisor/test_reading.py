"""Reading a record: whatever lies in its place comes out as one named error, at once."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from torchx_core.supervisor.journal import encode_event, read_journal
from torchx_core.supervisor.machine import Began
from torchx_core.supervisor.reading import (
    MAX_RECORD_BYTES,
    DamagedFile,
    read_bytes,
    read_error_file,
    read_object,
    read_part,
)
from torchx_core.supervisor.records import read_json

pytestmark = pytest.mark.usefixtures("no_collection")


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, MAX_RECORD_BYTES + 1)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


NO_RECORDS: dict[str, Callable[[Path], None]] = {
    "empty": Path.touch,
    "torn": lambda path: _write(path, b'{"version": 1'),
    "not an object": lambda path: _write(path, b"[1]"),
    "not text": lambda path: _write(path, b"\xff\xfe{}"),
    "nested deeply": lambda path: _write(path, b'{"a":' * 200_000),
    "huge": _huge,
    "directory": Path.mkdir,
    "FIFO": os.mkfifo,
    "socket": _socket,
    "link in a circle": lambda path: path.symlink_to(path),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


@pytest.mark.parametrize("damage", NO_RECORDS)
def test_whatever_is_no_record_is_one_named_error(tmp_path: Path, damage: str) -> None:
    """A file that is no record is refused by one error that names it, without waiting for anybody."""
    path = tmp_path / "record.json"
    NO_RECORDS[damage](path)
    with pytest.raises(DamagedFile) as caught:
        read_object(str(path))
    assert caught.value.path == str(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert read_json(str(path)) is None


def test_an_absent_record_is_none(tmp_path: Path) -> None:
    """A record that nobody wrote, or whose directory is a file, is absent and no error."""
    (tmp_path / "file").touch()
    assert read_object(str(tmp_path / "record.json")) is None
    assert read_object(str(tmp_path / "file" / "record.json")) is None


def test_a_part_of_a_log_takes_no_more_memory_than_the_log(tmp_path: Path) -> None:
    """A damaged place or size yields what is there, and does not ask for memory that it names."""
    log = tmp_path / "combined.log"
    log.write_bytes(b"one\ntwo\n")
    assert read_part(str(log), 4, 2**62) == b"two\n"
    assert read_part(str(log), 2**64, 4) == b""
    assert read_part(str(log), 4, -4) == b""


@pytest.mark.parametrize("damage", [name for name in NO_RECORDS if name != "not an object"])
def test_an_error_file_of_any_kind_is_no_error_text(tmp_path: Path, damage: str) -> None:
    """A program may leave anything in place of its error file; what is no JSON of a sane size is left out."""
    path = tmp_path / "error.json"
    NO_RECORDS[damage](path)
    assert read_error_file(str(path)) == ""


def test_torchrun_s_own_error_counts_where_no_rank_has_left_one(tmp_path: Path) -> None:
    """`dist.torchrun` has it written beside: that of a rank is the cause."""
    _write(tmp_path / "agent.error.json", b'{"message": "no quorum"}')
    assert read_error_file(str(tmp_path / "error.json")) == '{"message": "no quorum"}'
    _write(tmp_path / "error.json", b'{"message": "bad batch"}')
    assert read_error_file(str(tmp_path / "error.json")) == '{"message": "bad batch"}'


def test_a_damaged_line_of_a_journal_is_left_out(tmp_path: Path) -> None:
    """One line that cannot be read, however deep it nests, does not hide the events around it."""
    journal = tmp_path / "journal.jsonl"
    began = Began(1.0, 7)
    journal.write_bytes(encode_event(began) + b"[" * 100_000 + b"\n\xff\n" + encode_event(began))
    assert list(read_journal(str(journal))) == [began, began]


def test_the_limit_holds_for_a_file_that_says_it_is_empty() -> None:
    """A file of the kernel has size 0 and content; reading it is bounded all the same."""
    with pytest.raises(DamagedFile, match="more than 3 bytes"):
        read_bytes("/proc/self/status", 3)
