"""Files that appear whole or not at all; a full disk is waited for."""

from __future__ import annotations

import errno
import json
import os
import time
from contextlib import suppress
from typing import Callable, Mapping, TypeVar  # noqa: UP035  (Python 3.7)

from torchx_core.supervisor.reading import DamagedFile, read_object

T = TypeVar("T")

ROOM_LOOK_S = 1.0
"""How often a full disk is looked at again."""
_MOST = 1e15
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def refresh(directory: str) -> None:
    """See what other hosts have put into the directory.

    An NFS client remembers for up to a minute that a file was not there. Opening the directory makes it ask
    the server ("close-to-open", see nfs(5)); elsewhere it costs next to nothing.
    """
    with suppress(OSError):
        os.close(os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def read_json(path: str, **kinds: type) -> dict[str, object] | None:
    """Return the JSON object in the file, or None; also where a field is not what it should be.

    Args:
        path: The file.
        kinds: What each field must be that the caller relies on; a whole number is a number as well.
    """
    try:
        record = read_object(path)
    except (OSError, DamagedFile):
        return None
    if record is None or not all(_is(record.get(name), kind) for name, kind in kinds.items()):
        return None
    return record


def number_in(record: Mapping[str, object], name: str) -> float | None:
    """Return the field if it is a number of seconds, or None."""
    value = record.get(name)
    return float(value) if isinstance(value, (int, float)) and _is(value, float) and value >= 0 else None


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    if isinstance(value, (int, float)) and not -_MOST < value < _MOST:
        return False  # no clock and no process has it
    return isinstance(value, (int, float) if kind is float else kind)


def write_once(path: str, value: Mapping[str, object], *, patient: bool = True, sync: bool = True) -> bool:
    """Create the file whole, unless it exists; return whether it is ours.

    Args:
        path: Where.
        value: Its content.
        patient: Wait for room on a full disk.
        sync: Have its content survive this node's crash; not needed where it is enough that it exists.

    Raises:
        OSError: It cannot be written; for want of room only if we are not patient.
    """
    data = json.dumps(value).encode("ascii")
    if not patient:
        return _write_once(path, data, sync=sync)
    return patiently(lambda: _write_once(path, data, sync=sync))


def _write_once(path: str, data: bytes, *, sync: bool) -> bool:
    temporary = f"{path}.{os.urandom(6).hex()}"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        return os.stat(temporary).st_nlink > 1  # an NFS server may do it and answer twice, see link(2)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    return True


def wait_for_room() -> None:
    """Leave a full disk alone for a while."""
    time.sleep(ROOM_LOOK_S)  # noqa: TID251  (nothing tells of room on a disk)


def patiently(act: Callable[[], T], wait: Callable[[], None] = wait_for_room) -> T:
    """Do it; on a full disk call `wait` and try again and again."""
    while True:
        try:
            return act()
        except OSError as err:
            if err.errno not in _NO_ROOM:
                raise
            wait()


def this_run() -> int:
    """Return how often Slurm has started this job before."""
    return int(os.environ.get("SLURM_RESTART_COUNT") or 0)


def done_name(run: int) -> str:
    """Return the file that says that in this run of the job every replica has succeeded."""
    return f"done.{run}"


def write_all(fd: int, data: bytes, wait: Callable[[], None]) -> None:
    """Write all of it; on a full disk call `wait` and try again, rather than lose a line."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except OSError as err:
            if err.errno not in _NO_ROOM:
                raise
            wait()
