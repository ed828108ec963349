"""The state that an app's journal tells, for whoever asks again and again: only what is new is read."""

from __future__ import annotations

import os
from typing import final

from torchx_core.supervisor import machine
from torchx_core.supervisor.journal import MAX_JOURNAL_BYTES, decode_events
from torchx_core.supervisor.plan import Plan, fresh_state
from torchx_core.supervisor.reading import DamagedFile, open_regular
from torchx_core.supervisor.records import JOURNAL

__all__ = ["Replay"]


@final
class Replay:
    """Goes on from where it was: a journal is only appended to.

    If no line ends there any more, somebody else wrote to it: it is read from its beginning again.
    """

    def __init__(self, app_dir: str, plan: Plan) -> None:
        """Read nothing yet."""
        self._path = os.path.join(app_dir, JOURNAL)
        self._fresh = fresh_state(plan)
        self._seen = (0, 0, self._fresh)  # the file's number, bytes read, state; put in one go, for threads

    def state(self) -> machine.State:
        """Return the state that the journal tells now.

        Raises:
            DamagedFile: It is no journal at all.
            OSError: It cannot be read just now.
        """
        try:
            fd = open_regular(self._path)
        except FileNotFoundError:
            return self._fresh
        try:
            return self._read_on(fd)
        finally:
            os.close(fd)

    def _read_on(self, fd: int) -> machine.State:
        inode, start, state = self._seen
        found = os.fstat(fd)
        is_another = found.st_ino != inode or found.st_size < start
        if is_another or (start and os.pread(fd, 1, start - 1) != b"\n"):
            start, state = 0, self._fresh
        if found.st_size == start:
            return state
        if found.st_size - start > MAX_JOURNAL_BYTES:
            raise DamagedFile(self._path, f"has more than {MAX_JOURNAL_BYTES} bytes")
        data = os.pread(fd, found.st_size - start, start)
        whole = data[: data.rfind(b"\n") + 1]  # the rest is still being written
        state = machine.replay(state, decode_events(whole))
        self._seen = (found.st_ino, start + len(whole), state)
        return state
