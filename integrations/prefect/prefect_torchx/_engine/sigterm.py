"""Turns a SIGTERM into an exception where it would end the process at once.

Prefect does that for the process of a flow run. The children of a process pool have no such handler: without
ours a SIGTERM to a worker's process group kills them in the middle of an app's life.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from prefect.exceptions import TerminationSignal

__all__ = ["parent_has_died", "sigterm_bridge"]


@contextmanager
def sigterm_bridge() -> Iterator[bool]:
    """Raise TerminationSignal for a SIGTERM in the block, and let it have its way once the block is over.

    Only in the main thread, and only where nobody handles the signal. Merely raising would not do: the pool
    whose child this is waits until the child has ended, which it does not do of an exception. Ctrl-C, which
    reaches the children of a pool, too, ends them in the same way.

    Yields:
        Whether it is our handler.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield False
        return
    came = False

    def note(signum: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise TerminationSignal(signal=signum)

    signal.signal(signal.SIGTERM, note)
    try:
        yield True
    except KeyboardInterrupt:
        came = came or multiprocessing.parent_process() is not None
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if came:
            os.kill(os.getpid(), signal.SIGTERM)


def parent_has_died() -> bool:
    """Return whether this is a process pool's child whose pool is no more; nobody else tells it so.

    It would follow its app for ever, and hold the output of the flow's process open: Prefect's runner takes
    that process for alive until it is closed.
    """
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()
