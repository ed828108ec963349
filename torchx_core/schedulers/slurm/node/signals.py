"""Signals that ask a task to look, or to end."""

from __future__ import annotations

import os
import selectors
import signal
from types import FrameType

TICK_S = 1.0
"""How long the shared directory is left alone; SIGCONT, which programs ignore, makes it look at once."""
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

    def __init__(self) -> None:
        self.seen: list[int] = []
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

    def sleep(self) -> None:
        """Wait a tick, or for a signal."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            if selector.select(TICK_S):
                os.read(self.wake, CHUNK)
