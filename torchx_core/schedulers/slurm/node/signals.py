"""Signals that ask a task to look, or to end."""

from __future__ import annotations

import os
import selectors
import signal
from contextlib import suppress
from types import FrameType

TICK_S = 1.0
"""How long the shared directory is left alone; SIGCONT, which programs ignore, makes it look at once."""
SHORTLY_S = 0.01
CHUNK = 1 << 16
_FOR_PROGRAMS = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU)


def outlive_signals() -> None:
    """Have signals that are meant for a program not end us: Slurm sends them to every process of a job.

    The handlers do nothing, rather than ignore: a program would inherit that.
    """
    for number in (signal.SIGTERM, *_FOR_PROGRAMS):
        signal.signal(number, _nothing)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    pass


class Signals:
    """Signals that asked this task to look, or to end."""

    def __init__(self, sender: int) -> None:
        """Take signals from now on.

        Args:
            sender: The process that started this task, and sends it Slurm's signals: its slurmstepd.
        """
        self.seen: list[int] = []
        self._sender = sender
        ends = os.pipe()
        self.wake: int = ends[0]
        self._ring: int = ends[1]
        for fd in ends:
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self._ring)
        for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGCHLD):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self.seen.append(number)

    def sleep(self, timeout_s: float = TICK_S) -> None:
        """Wait so long, or for a signal."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            if selector.select(timeout_s):
                os.read(self.wake, CHUNK)

    def may_be_under_way(self) -> bool:
        """Return whether somebody else may have had a signal that is still to come to this task.

        The sender goes through the processes of a job without a pause. So it has done that if all of its
        threads are asleep; one that only waits for a processor is not.
        """
        threads = f"/proc/{self._sender}/task"
        with suppress(OSError):
            return any(_runs(os.path.join(threads, thread, "stat")) for thread in os.listdir(threads))
        return False


def _runs(stat: str) -> bool:
    """Return whether the thread of that file runs, or waits for a processor or a disk."""
    try:
        with open(stat, "rb") as file:
            return file.read().rpartition(b") ")[2][:1] in (b"R", b"D")
    except OSError:  # it has ended
        return False
