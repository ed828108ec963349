"""The files of one app: their names, and how a record gets onto the disk whole."""

from __future__ import annotations

import json
import os
from typing import TypeAlias

from torchx_core.supervisor.reading import DamagedFile, open_regular, read_object

VERSION = 1
"""Format of every record below; a reader refuses a newer one."""

SPEC = "spec.json"  # what was submitted; written once, before the app exists
LOCK = "lock"  # held (flock) by supervisor and guardian as long as either lives
ALIVE = "alive"  # FIFO: readers see a hang-up when both are gone
CTL = "ctl"  # FIFO: one byte wakes the supervisor
CANCEL = "cancel.json"  # the request that the app ends; only its grace period changes, to a shorter one
JOURNAL = "journal.jsonl"  # every event of the state machine
REPORTS = "reports.jsonl"  # progress and metrics
REPORT_PIPE = "report-{replica}-{attempt}"  # FIFO, from an attempt's start until all of its output is written
DROPPED = "dropped.json"  # what a limit of the log has cost: `timeline.Dropped`
TIMELINE = "timeline.bin"  # the order of log lines, events and reports
FINAL = "final.json"  # the terminal state; written once
SUPERVISOR_LOG = "supervisor.log"

LOOK = b"L"  # a byte for CTL: look at the directory
RENEW = b"R"  # a byte for CTL: the lease is renewed
STOP = b"S"  # a byte for CTL: cancel, by someone who found no room to write CANCEL; see `stop_order`

Json: TypeAlias = "dict[str, object]"


def stop_order(grace_s: float | None) -> bytes:
    """Return what to write into CTL for the app to end, by default within its own grace period."""
    return STOP if grace_s is None else STOP + f"{grace_s};".encode()


def ordered_grace_s(orders: bytes) -> float | None:
    """Return the grace period in seconds that the last STOP of the orders names, if it does."""
    text, end, _ = orders.rpartition(STOP)[2].partition(b";")
    try:
        return float(text) if end else None
    except ValueError:  # anybody may write into the pipe
        return None


def read_json(path: str) -> Json | None:
    """Return the record, or None when it is absent or damaged: for whoever can do without it."""
    try:
        return read_object(path)
    except DamagedFile:
        return None


def write_once(directory: str, name: str, record: Json, *, durable: bool = False) -> bool:
    """Create the record whole or not at all; false when it exists already: one of several callers wins.

    Args:
        directory: Where it will lie.
        name: Its file's.
        record: Its content.
        durable: Sync it; without that it is only for what means nothing after a reboot.
    """
    draft = _draft(directory, name, dumps(record), durable=durable)
    try:
        os.link(draft, os.path.join(directory, name))
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    if durable:
        sync_directory(directory)
    return True


def replace_whole(directory: str, name: str, record: Json, *, durable: bool = False) -> None:
    """Put the record in the place of the one that is there; a reader sees one of the two, whole.

    Raises:
        DamagedFile: A directory lies in its place.
    """
    replace_bytes(directory, name, dumps(record), durable=durable)


def replace_bytes(directory: str, name: str, content: bytes, *, durable: bool = False) -> None:
    """Put the content in the place of the file that is there; a reader sees one of the two, whole.

    Raises:
        DamagedFile: A directory lies in its place.
    """
    draft, path = _draft(directory, name, content, durable=durable), os.path.join(directory, name)
    try:
        os.replace(draft, path)
    except OSError as err:
        os.unlink(draft)
        if isinstance(err, IsADirectoryError):
            raise DamagedFile(path, "is no regular file") from err
        raise
    if durable:
        sync_directory(directory)


def _draft(directory: str, name: str, content: bytes, *, durable: bool) -> str:
    """Write the content under a hidden name, and return its path."""
    draft = os.path.join(directory, f".{name}.{os.getpid()}.{os.urandom(4).hex()}")
    fd = _create(draft)
    try:
        try:
            write_all(fd, content)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)  # before it has its name: a file server may say only now that there is no room
    except BaseException:
        os.unlink(draft)
        raise
    return draft


def open_or_create(path: str, *, dir_fd: int | None = None) -> int:
    """Return a descriptor by which the file, which may be there already, can be read and written.

    Raises:
        FileNotFoundError: There is no such directory.
        DamagedFile: Something else lies in its place.
        OSError: It can be neither opened nor created just now.
    """
    try:
        return _create(path, dir_fd=dir_fd)
    except OSError:  # it is there already, or this one says why it cannot be
        return open_regular(path, os.O_RDWR | os.O_CREAT, dir_fd=dir_fd)


def _create(path: str, *, dir_fd: int | None = None) -> int:
    """Create a file for the user whose directory it is in, and return its descriptor.

    Root may cancel or look at any user's app, whose own processes then have to read what root wrote.

    Raises:
        FileExistsError: There is something of that name, which is left alone: a user may have put it there.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=dir_fd)
    if os.geteuid() == 0:
        directory = os.stat(os.path.dirname(path) or ".", dir_fd=dir_fd)
        try:  # noqa: SIM105  # the supervisor starts faster without contextlib
            os.fchown(fd, directory.st_uid, directory.st_gid)
        except OSError:
            pass  # a root that may not: of a container, or on a file server
    return fd


def sync_directory(directory: str) -> None:
    """Make the directory's entries survive a power cut."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of it, however often the kernel takes only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def dumps(record: object) -> bytes:
    """Encode as one line of ASCII JSON; text of undecodable bytes (PEP 383) survives as escapes."""
    return json.dumps(record, separators=(",", ":")).encode("ascii")
