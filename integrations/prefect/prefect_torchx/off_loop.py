"""Keeps calls that block off an event loop, and interruptions off calls that must come to their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final, Generic, ParamSpec, TypeVar, cast, final

from prefect_torchx import background

__all__ = ["Undisturbed", "in_daemon_thread", "outlast", "started_in_thread", "undisturbed"]

CALL_S = 4.0
"""How long a cancellation waits for a call that is under way."""
LOOK_EVERY_S = 0.1
"""How late an exception may be that is raised from outside in a thread that blocks."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_daemon_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a quick blocking call in a thread of its own, with the caller's context.

    A thread of a pool, as `asyncio.to_thread` uses, would hold up the end of the process until the call is
    over; Prefect kills a process that takes 30 s. A cancellation waits for the call, up to `CALL_S`: what was
    begun in the middle of a submit is known at its end.
    """
    outcome = started_in_thread(call, *args, **kwargs)
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        await outlast(outcome, CALL_S)
        raise


def started_in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    """Start such a call and return what will come of it: no task, so nobody cancels it with all tasks."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def deliver(take: Callable[..., None], value: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_unless_done, outcome, take, value)

    def work() -> None:
        try:
            value = call(*args, **kwargs)
        except BaseException as err:  # noqa: BLE001  (it is raised where the call is awaited)
            deliver(outcome.set_exception, err)
        else:
            deliver(outcome.set_result, value)

    background.start("torchx-call", work)
    return outcome


async def outlast(future: asyncio.Future[T], limit_s: float) -> None:
    """Wait until the future is done, or the time is over, however often this task is cancelled meanwhile.

    Once its scope is cancelled, anyio, which keeps Prefect's timeouts, cancels a task again at every await.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not future.done() and loop.time() < deadline:
        with suppress(asyncio.CancelledError):
            await asyncio.wait([future], timeout=deadline - loop.time())
    if future.done() and not future.cancelled():
        future.exception()  # seen: it is not reported as lost


def undisturbed(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a quick call that is not cut short by an exception from outside, as a signal's or a timeout's.

    The exception is raised once the call is over, or after `CALL_S`; the call then goes on by itself.
    """
    calling = Undisturbed(partial(call, *args, **kwargs))
    try:
        calling.start()
        calling.wait()
    except BaseException:
        calling.outlast(CALL_S)
        raise
    return calling.result()


@final
class Undisturbed(Generic[T]):
    """A call in a daemon thread of its own, where no signal and no timeout of Prefect's interrupts it."""

    def __init__(self, call: Callable[[], T]) -> None:
        """Do nothing yet."""
        self._call = call
        self._value: T | None = None
        self._error: BaseException | None = None
        self.is_over = False
        """Whether the call has returned or raised."""
        # No Event: an exception in the middle of its wait may leave it broken.
        self._over: Final = threading.Lock()
        self._over.acquire()

    def start(self) -> None:
        """Begin with the call, in the caller's context."""
        background.start("torchx-call", self._work)

    def wait(self) -> None:
        """Block until the call is over; may be interrupted and repeated."""
        while not self.is_over:
            self._over.acquire(timeout=LOOK_EVERY_S)

    def outlast(self, limit_s: float) -> None:
        """Block until the call is over, or the time, however often that is interrupted."""
        deadline = monotonic() + limit_s
        while not self.is_over and monotonic() < deadline:
            with suppress(BaseException):
                self._over.acquire(timeout=LOOK_EVERY_S)

    def result(self) -> T:
        """Return what the call has returned, or raise what it has raised."""
        if self._error is not None:
            raise self._error
        return cast("T", self._value)

    def _work(self) -> None:
        try:
            self._value = self._call()
        except BaseException as err:  # noqa: BLE001  (it is raised where the call is waited for)
            self._error = err
        self.is_over = True
        self._over.release()


def _unless_done(future: asyncio.Future[T], take: Callable[..., None], value: object) -> None:
    if not future.done():
        take(value)
