"""A process beside the one that runs a replica: it notes the replica's end when that one cannot."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import time
from contextlib import suppress
from typing import Callable  # noqa: UP035  (Python 3.7)

CRASHED = 70
"""Exit code of a process that met an error which nobody has thought of."""
LAG_S = 2.0
"""Slurm, ending a job, kills the one process right after the other: then there is nothing to note."""
_STATE = struct.Struct("<qB")
"""The program's process id or 0, and whether the work has come to its end."""
_AT_WORK, _DONE = 0, 1


class Guard:
    """Knows which program is to die with the process that runs it."""

    def __init__(self) -> None:
        self._state: mmap.mmap = mmap.mmap(-1, _STATE.size)  # both processes have it

    def mind(self, pid: int) -> None:
        """Kill this program, and all of its process group, should we die."""
        self._state[:] = _STATE.pack(pid, _AT_WORK)

    def forget(self) -> None:
        """Kill nothing: the program has ended."""
        self.mind(0)

    def run(self, work: Callable[[], int], note_death: Callable[[int], None]) -> int:
        """Do the work in a process of its own and return its exit code, having noted how it died if it did.

        Args:
            work: Returns an exit code.
            note_death: Called with the exit code that a shell would show, after the program was killed.
        """
        worker = os.fork()
        if not worker:
            os._exit(self._worked(work))
        status = os.waitpid(worker, 0)[1]
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)
        program, stage = _STATE.unpack(self._state[:])
        if stage != _DONE:
            if program:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(program, signal.SIGKILL)
            time.sleep(LAG_S)  # noqa: TID251  (nothing tells that we are not killed)
            note_death(code)
        return code

    def _worked(self, work: Callable[[], int]) -> int:
        code = CRASHED
        try:
            code = work()
            self._state[:] = _STATE.pack(0, _DONE)
        except Exception:  # noqa: BLE001  (whatever it was, the other replicas must hear of it)
            import traceback  # here: it takes a twentieth of a task's start

            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        return code
