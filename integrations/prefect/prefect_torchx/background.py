"""Work in threads of this process, which is over, or waited for, before the interpreter goes.

A daemon thread that is inside an extension written in Rust, as Prefect's settings and pydantic's models
are, when the interpreter goes aborts the whole process on Python 3.11. A thread that is no daemon would
hold up the end of the process until it is over; Prefect kills a process that takes 30 s. Knows no
Prefect.

The threads start one another, so that whoever has work starts none. Prefect's timeouts raise an exception in
the thread that runs a task. On Python 3.11 one that comes while that thread starts another lands in the new
one (both have the same id for some microseconds), which dies before it has begun: the task would wait for it
for ever, and its timeout would be lost. What stays open is the first thread of all, once in a process.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic
from typing import Final, final

__all__ = ["Work", "start"]

END_S = 3.0
"""How long a process that ends waits for its work, in all: for requests that are on their way."""
IDLE = "torchx-idle"
KEPT = 4
"""How many threads wait for work, at most."""


@final
class Work:
    """Something that a thread of this process does, or is about to do."""

    def __init__(self, name: str, do: Callable[[], object], stop: Callable[[], object]) -> None:
        """Begin with nothing yet; see `start`."""
        self._name = name
        self._do = do
        self._context = copy_context()
        self._over = threading.Event()
        self.stop: Final = stop

    @property
    def is_under_way(self) -> bool:
        """Whether it is yet to end; False in a forked child, which has no such thread."""
        return self in _under_way

    def do(self) -> None:
        """Do it, in the thread that calls."""
        threading.current_thread().name = self._name
        try:
            self._context.run(self._do)
        finally:
            _under_way.discard(self)
            self._over.set()

    def wait(self, limit_s: float) -> None:
        """Block until it is over, for so long at most."""
        self._over.wait(limit_s)


def start(name: str, do: Callable[[], object], stop: Callable[[], object] = int) -> Work:
    """Have a thread do the work, with the caller's context, in which Prefect looks up its settings and run.

    Args:
        name: Of the thread while it does that.
        do: What to do.
        stop: Called when the process ends, to have the work come to its end; quick.
    """
    work = Work(name, do, stop)
    _under_way.add(work)
    _threads.give(work)
    return work


@final
class _Threads:
    """Daemon threads; there is always one that waits for work, or is about to."""

    def __init__(self) -> None:
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._changing = threading.Lock()
        self._idle = 0
        self._all: set[threading.Thread] = set()

    def give(self, work: Work) -> None:
        """Have a thread take the work; quick, and good wherever an exception may strike the caller."""
        if not self._all:
            self._add()
        self._work.put(work)

    def end(self, limit_s: float) -> None:
        """Let those go that have nothing to do."""
        self._work.put(None)
        deadline = monotonic() + limit_s
        for thread in tuple(self._all):
            if thread.name == IDLE:
                thread.join(max(0.0, deadline - monotonic()))

    def _add(self) -> None:
        thread = threading.Thread(target=self._serve, name=IDLE, daemon=True)
        thread.start()
        self._all.add(thread)
        with self._changing:
            self._idle += 1

    def _serve(self) -> None:
        thread = threading.current_thread()
        try:
            while work := self._work.get():
                with self._changing:
                    self._idle -= 1
                    is_last = self._idle <= 0
                if is_last:
                    with suppress(
                        RuntimeError
                    ):  # no more threads are to be had; this one takes the next, too
                        self._add()
                work.do()
                thread.name = IDLE
                with self._changing:
                    if self._idle >= KEPT:
                        return
                    self._idle += 1
            self._work.put(None)  # for the next one
        finally:
            self._all.discard(thread)


_under_way: Final[set[Work]] = set()
_threads = _Threads()


def _begin_anew() -> None:
    global _threads  # noqa: PLW0603  (a fork copies the queue and the lock as they are, but no thread)
    _under_way.clear()
    _threads = _Threads()


def _end() -> None:
    deadline = monotonic() + END_S
    under_way = tuple(_under_way)
    for work in under_way:
        work.stop()
    for work in under_way:
        work.wait(max(0.0, deadline - monotonic()))
    _threads.end(max(0.0, deadline - monotonic()))


atexit.register(_end)
os.register_at_fork(after_in_child=_begin_anew)
