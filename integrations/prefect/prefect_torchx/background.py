"""Threads of this process that end, or are waited for, before the interpreter goes.

A daemon thread that is inside an extension written in Rust, as Prefect's settings and pydantic's models
are, when the interpreter goes aborts the whole process on Python 3.11. A thread that is no daemon would
hold up the end of the process until it is over; Prefect kills a process that takes 30 s. Knows no
Prefect.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from time import monotonic
from typing import Final

__all__ = ["start"]

END_S = 3.0
"""How long a process that ends waits for its threads, in all: for requests that are on their way."""

_running: Final[dict[threading.Thread, Callable[[], object]]] = {}


def start(name: str, work: Callable[[], object], stop: Callable[[], object] = int) -> threading.Thread:
    """Do the work in a thread with the caller's context, in which Prefect looks up its settings and its run.

    Args:
        name: The thread's.
        work: What to do.
        stop: Called when the process ends, to have the work come to its end; quick.
    """
    context = copy_context()

    def run() -> None:
        try:
            context.run(work)
        finally:
            _running.pop(thread, None)

    thread = threading.Thread(target=run, name=name, daemon=True)
    _running[thread] = stop
    thread.start()
    return thread


def _end() -> None:
    deadline = monotonic() + END_S
    running = tuple(_running.items())
    for _, stop in running:
        stop()
    for thread, _ in running:
        thread.join(max(0.0, deadline - monotonic()))


atexit.register(_end)
os.register_at_fork(after_in_child=_running.clear)  # a forked child has no such thread
