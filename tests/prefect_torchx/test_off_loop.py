from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from prefect_torchx.off_loop import in_daemon_thread, outlast

WHO: ContextVar[str] = ContextVar("WHO")


def test_a_call_has_the_callers_context_and_a_daemon_thread() -> None:
    """Log records find their run in the context; a thread that is no daemon would hold up the exit."""

    async def work() -> tuple[str, bool]:
        WHO.set("the caller")
        return await in_daemon_thread(lambda: (WHO.get(), threading.current_thread().daemon))

    assert asyncio.run(work()) == ("the caller", True)


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_what_a_call_raises_is_raised_where_it_is_awaited(error: BaseException) -> None:
    """Nothing ends in the thread."""

    def fail() -> None:
        raise error

    async def work() -> BaseException:
        try:
            await in_daemon_thread(fail)
        except BaseException as err:  # noqa: BLE001  (the subject)
            return err
        raise AssertionError

    assert asyncio.run(work()) is error


def test_a_cancellation_waits_for_the_call() -> None:
    """What was begun in the middle of a submit is known at its end."""
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        go.wait(240)
        ended.set()

    async def work() -> None:
        task = asyncio.create_task(in_daemon_thread(call))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task], timeout=0.1)
        assert not task.done()
        task.cancel()  # more than once changes nothing
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(work())


def test_a_call_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled task must be gone before Prefect loses its patience."""
    monkeypatch.setattr("prefect_torchx.off_loop.CALL_S", 0.1)
    go = threading.Event()

    async def work() -> None:
        task = asyncio.create_task(in_daemon_thread(go.wait))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    go.set()


def test_outlasting_ends_at_the_limit() -> None:
    """Something that never comes is not waited for."""

    async def work() -> bool:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await outlast(never, 0.1)
        return never.done()

    assert asyncio.run(work()) is False
