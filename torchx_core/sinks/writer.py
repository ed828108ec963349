"""Writes to one sink on a thread of its own: whatever that does, the training loop goes on."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from time import monotonic
from typing import Final, final

from torchx_core.sinks.entries import Entry
from torchx_core.sinks.sink import Sink, warn

__all__ = ["Writer", "WriterThread"]

INTERVAL_S = 1.0
"""How long an entry waits for others: what SIGKILL may take, and as long as a request may take besides."""
LONGEST_PAUSE_S = 30.0
"""Between two tries while a sink fails."""
PATIENCE_S = 60.0
"""How long a sink may take nothing: then it is said, at the program's end it is given up, and a fork of the
program no longer waits until its client is idle."""
LAST_TRIES = 5
"""How often a sink that fails is tried at the program's end, a second apart."""
LOOK_EVERY_S = 0.1
MOST_AT_ONCE = 1000
"""What MLflow takes in one request."""
MOST_WAITING = 100_000
"""How many entries wait for a sink that fails: a program must not run out of memory for it."""


@final
class Writer:
    """Gives a sink what is reported, in its order, about once a second and at the program's end.

    A sink that fails is tried again until the program ends, and what it has not taken waits. It is said once.
    """

    def __init__(self, name: str, sink: Sink, on_open: Callable[[str], None]) -> None:
        """Start the thread.

        Args:
            name: The sink's, for messages.
            sink: Used by the thread alone.
            on_open: Told, in the thread, where the sink writes to.
        """
        self._name = name
        self._sink = sink
        self._on_open = on_open
        self._busy: Final = threading.RLock()
        """Held while the client works."""
        self._lock: Final = threading.Lock()
        """Guards what follows."""
        self._waiting: Final[deque[Entry]] = deque()
        self._left_out = 0
        self._is_open = False
        self._is_failing = False
        self._was_said = False
        self._failed_program = False
        self._moved_at = monotonic()
        self._ended: Final = threading.Event()
        self._thread: Final = WriterThread(target=self._run, name=f"torchx-{name}", daemon=True)
        self._thread.start()

    def take(self, entries: Iterable[Entry]) -> None:
        """Take entries; never waits for the sink."""
        with self._lock:
            if self._is_failing and len(self._waiting) >= MOST_WAITING:
                self._left_out += 1
            else:
                self._waiting.extend(entries)
        if monotonic() > self._moved_at + PATIENCE_S:
            self._say(f"it has not answered for {PATIENCE_S:g} s")

    def close(self, *, failed: bool) -> None:
        """Write what is left, and return when that is done, or when the sink has taken nothing for long.

        Args:
            failed: Whether the program ends because of an error.
        """
        self._failed_program = failed
        self._moved_at = monotonic()
        self._ended.set()
        while self._thread.is_alive() and not self._is_given_up():
            self._thread.join(LOOK_EVERY_S)
        lost = len(self._waiting) + self._left_out
        if lost:
            warn(f"metric sink {self._name}: {lost} values were not delivered")

    def pause(self) -> bool:
        """Have the client do nothing until `resume`, and return whether it does; waits `PATIENCE_S` at most.

        A fork copies the locks that the client's modules hold, and nobody would release them in the child.
        """
        return self._busy.acquire(timeout=max(0.0, self._moved_at + PATIENCE_S - monotonic()))

    def resume(self) -> None:
        """Let the client go on; called by the thread that paused it."""
        self._busy.release()

    def _is_given_up(self) -> bool:
        return monotonic() > self._moved_at + PATIENCE_S

    def _run(self) -> None:
        pause_s, tries = 0.0, LAST_TRIES
        while tries:
            ended = self._ended.wait(pause_s)
            try:
                self._write_all()
                if ended:
                    with self._busy:
                        self._sink.close(failed=self._failed_program)
                    return
                pause_s = INTERVAL_S
            except Exception as err:  # noqa: BLE001  (a client may raise anything; no metric is worth a program)
                self._is_failing, self._is_open = True, False
                self._say(f"{type(err).__name__}: {_first_line(err)}")
                pause_s = min(max(INTERVAL_S, 2 * pause_s), LONGEST_PAUSE_S)
                if ended:
                    tries -= 1
                    threading.Event().wait(INTERVAL_S)

    def _write_all(self) -> None:
        self._open()
        while entries := self._next():
            with self._busy:
                self._sink.write(entries)
            with self._lock:
                for _ in entries:
                    self._waiting.popleft()
            self._moved_at = monotonic()
        self._moved_at = monotonic()

    def _next(self) -> list[Entry]:
        with self._lock:
            return list(islice(self._waiting, MOST_AT_ONCE))

    def _open(self) -> None:
        if not self._is_open:
            with self._busy:
                where = self._sink.open()
            self._is_open, self._is_failing = True, False
            self._moved_at = monotonic()
            self._on_open(where)

    def _say(self, problem: str) -> None:
        if not self._was_said:
            self._was_said = True
            warn(f"metric sink {self._name}: {problem}; values wait, and it is tried again")


@final
class WriterThread(threading.Thread):
    """A thread that writes to a sink; what it logs with a client comes from reports, and is none again."""


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
