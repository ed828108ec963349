"""A question to a host, and the answer that may come to it."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from torchx_core.errors import SchedulerError, TorchXError
from torchx_core.schedulers.remote.agent_client import Channel
from torchx_core.supervisor.records import Json

__all__ = ["Answer", "LineError", "Question"]


class LineError(SchedulerError):
    """The host was not reached, or the connection was lost."""

    def __init__(self, message: str, *, retryable: bool, asked: bool) -> None:
        """``asked``: the question may have arrived, so what it asks for may have happened."""
        super().__init__(message, retryable=retryable)
        self.asked = asked


class Answer:
    """An answer that may still be under way; for any thread, and for event loops."""

    def __init__(self, number: int) -> None:
        """Be under way, to the question of that number."""
        self.number = number
        # Never an exception: nobody may be there any more to retrieve it.
        self._future: Future[object] = Future()
        self._future.add_done_callback(self._ring)
        self._lock = Lock()
        self._waiters: set[_Waiter] = set()

    @property
    def is_there(self) -> bool:
        """Whether it has arrived."""
        return self._future.done()

    def arrive(self, value: object) -> None:
        """Be there: a value, or the error to raise."""
        self._future.set_result(value)

    def take(self) -> object:
        """Return it; it is there.

        Raises:
            TorchXError: It is an error.
        """
        value = self._future.result()
        if isinstance(value, TorchXError):
            raise value
        return value

    def wait(self, timeout_s: float | None) -> None:
        """Block until it is there, or the time is over."""
        wait([self._future], timeout_s)

    async def wait_async(self, timeout_s: float | None) -> None:
        """Do the same on an event loop."""
        waiter = _Waiter(asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            self._waiters.add(waiter)
        try:
            if not self.is_there:  # if it arrives from here on, the waiter is woken
                with suppress(TimeoutError):
                    async with asyncio.timeout(timeout_s):
                        await waiter.there.wait()
        finally:
            with self._lock:
                self._waiters.remove(waiter)

    def _ring(self, _future: Future[object]) -> None:
        with self._lock:
            waiters = list(self._waiters)
        for waiter in waiters:
            with suppress(RuntimeError):  # its loop has ended meanwhile
                waiter.loop.call_soon_threadsafe(waiter.there.set)


class _Waiter(NamedTuple):
    """Somebody who waits on an event loop."""

    loop: asyncio.AbstractEventLoop
    there: asyncio.Event


class Question:
    """What was asked and not answered yet; belongs to the thread of its line."""

    def __init__(self, number: int, body: Json, *, patient: bool) -> None:
        """Be asked by nobody yet; see `Line.ask`."""
        self.number = number
        self.line: bytes = json.dumps({"id": number, **body}).encode("ascii") + b"\n"
        self.patient = patient
        self.times_put: int = 0
        self.answer: Answer = Answer(number)

    def put(self, channel: Channel) -> None:
        """Send it."""
        self.times_put += 1
        channel.send(self.line)

    def fail(self, message: str, *, retryable: bool) -> None:
        """Have an error as its answer."""
        self.answer.arrive(LineError(message, retryable=retryable, asked=self.times_put > 0))
