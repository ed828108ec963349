"""Keeps an event loop free of quick calls that block, and of cancellations that come at a bad time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import ParamSpec, TypeVar

__all__ = ["in_daemon_thread", "outlast"]

CALL_S = 4.0
"""How long a cancellation waits for a call that is under way."""

P = ParamSpec("P")
T = TypeVar("T")


async def in_daemon_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make a quick blocking call in a thread of its own, with the caller's context.

    A thread of a pool, as `asyncio.to_thread` uses, would hold up the end of the process until the call is
    over; Prefect kills a process that takes 30 s. A cancellation waits for the call, up to `CALL_S`: what was
    begun in the middle of a submit is known at its end.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def deliver(take: Callable[..., None], value: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_unless_done, outcome, take, value)

    def work() -> None:
        try:
            value = context.run(call, *args, **kwargs)
        except BaseException as err:  # noqa: BLE001  (it is raised where the call is awaited)
            deliver(outcome.set_exception, err)
        else:
            deliver(outcome.set_result, value)

    threading.Thread(target=work, name="torchx-call", daemon=True).start()
    try:
        return await asyncio.shield(outcome)
    except asyncio.CancelledError:
        await outlast(outcome, CALL_S)
        raise


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


def _unless_done(future: asyncio.Future[T], take: Callable[..., None], value: object) -> None:
    if not future.done():
        take(value)
