from __future__ import annotations

import fcntl
import os
from pathlib import Path

from torchx_core.schedulers.locks import locked, locked_session


def _is_free(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def test_what_is_forked_meanwhile_keeps_no_lock(tmp_path: Path) -> None:
    """A worker of a pool has its parent's files open, for hours; nobody else's call may wait for its end."""
    path = tmp_path / "owner.lock"
    asleep, awake = os.pipe()
    with locked(str(path)), locked_session(str(tmp_path)):
        assert not _is_free(path)
        child = os.fork()
        if not child:
            os.close(awake)
            os.read(asleep, 1)
            os._exit(0)
    os.close(asleep)
    try:
        assert _is_free(path)
        assert _is_free(tmp_path)
        assert _is_free(tmp_path / ".lock")
    finally:
        os.close(awake)
        os.waitpid(child, 0)
