from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
from forks import forking

from torchx_core.schedulers.locks import is_locked, locked, locked_session
from torchx_core.supervisor.reading import DamagedFile


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
    with forking() as fork:
        with locked(str(path)), locked_session(str(tmp_path)):
            assert not _is_free(path)
            fork()
        assert _is_free(path)
        assert _is_free(tmp_path)
        assert _is_free(tmp_path / ".lock")


def test_a_lock_is_seen_by_those_who_may_only_read_it(tmp_path: Path) -> None:
    """To ask takes nothing from whoever holds it, and two who ask at once do not see each other."""
    path = tmp_path / "lock"
    with locked(str(path)):
        path.chmod(0o400)
        assert is_locked(str(path))
    assert not is_locked(str(path))
    asking = os.open(path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert not is_locked(str(path))
    os.close(asking)


def test_what_is_no_lock_is_said(tmp_path: Path) -> None:
    """A pipe in its place would keep whoever opens it waiting."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DamagedFile, match="is no regular file"):
        is_locked(str(tmp_path / "pipe"))
    with pytest.raises(FileNotFoundError):
        is_locked(str(tmp_path / "none"))
