"""Turns a SIGTERM into an exception where it would end the process at once.

Prefect does that for the process of a flow run. The children of a process pool have no such handler: without
ours a SIGTERM to a worker's process group kills them in the middle of an app's life.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, TypeAlias, final

from prefect.exceptions import TerminationSignal

__all__ = ["parent_has_died", "sigterm_bridge"]

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


@contextmanager
def sigterm_bridge() -> Iterator[bool]:
    """Raise TerminationSignal for a SIGTERM in the block, and let it have its way once the block is over.

    Only in the main thread, and only where nobody else handles the signal. Merely raising would not do: the
    pool whose child this is waits until the child has ended, which it does not do of an exception. Ctrl-C,
    which reaches the children of a pool, too, ends them in the same way. On an event loop many blocks may be
    open at once; the last of them ends the process.

    Yields:
        Whether it is our handler.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or not _bridge.opens():
        yield False
        return
    try:
        yield True
    finally:
        _bridge.close()


def parent_has_died() -> bool:
    """Return whether this is a process pool's child whose pool is no more; nobody else tells it so.

    It would follow its app for ever, and hold the output of the flow's process open: Prefect's runner takes
    that process for alive until it is closed.
    """
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


@final
class _Bridge:
    """The handlers of this process, and who needs them."""

    def __init__(self) -> None:
        self._users = 0
        self._came = False
        self._interrupt: Handler = None

    def opens(self) -> bool:
        """Take part, unless somebody else handles the signal."""
        if not self._users:
            if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
                return False
            self._came = False
            signal.signal(signal.SIGTERM, self._on_sigterm)
            if multiprocessing.parent_process() is not None:
                self._interrupt = signal.signal(signal.SIGINT, self._on_sigint)
        self._users += 1
        return True

    def close(self) -> None:
        """Take part no more; who does so last lets a signal that came have its way."""
        self._users -= 1
        if self._users:
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self._interrupt is not None:
            signal.signal(signal.SIGINT, self._interrupt)
            self._interrupt = None
        if self._came:
            os.kill(os.getpid(), signal.SIGTERM)

    # One signal is enough. The same may come from the terminal, from the worker and from the flow's process,
    # and a second exception would cut short what the first one made necessary.

    def _on_sigterm(self, signum: int, _frame: FrameType | None) -> None:
        if not self._came:
            self._came = True
            raise TerminationSignal(signal=signum)

    def _on_sigint(self, signum: int, frame: FrameType | None) -> None:
        if not self._came:
            self._came = True
            if callable(self._interrupt):  # an event loop's, or the one that raises KeyboardInterrupt
                self._interrupt(signum, frame)


_bridge: Final = _Bridge()
