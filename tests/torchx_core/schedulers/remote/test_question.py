"""Waiting for an answer."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import ClassVar
from weakref import WeakSet

import pytest

from torchx_core.schedulers.remote.question import Answer


class _Counted(asyncio.Event):
    """An event that is remembered while anything keeps it, when the thread of the test made it."""

    thread = threading.get_ident()
    alive: ClassVar[WeakSet[_Counted]] = WeakSet()

    def __init__(self) -> None:
        super().__init__()
        if threading.get_ident() == self.thread:
            self.alive.add(self)


def test_who_has_waited_in_vain_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a login node is away, each follower looks again and again, and no event of it is kept."""
    monkeypatch.setattr(_Counted, "thread", threading.get_ident())
    monkeypatch.setattr(asyncio, "Event", _Counted)

    async def wait_often() -> int:
        answer = Answer(1)
        for _ in range(100):
            await answer.wait_async(0.0)
        gc.collect()
        return len(_Counted.alive)

    assert asyncio.run(wait_often()) <= 1  # asyncio keeps the last for a while


def test_all_who_wait_hear_of_it() -> None:
    """Whatever thread it comes from, also who comes later."""

    async def wait() -> object:
        answer = Answer(1)
        waiting = [asyncio.create_task(answer.wait_async(None)) for _ in range(3)]
        await asyncio.to_thread(answer.arrive, "there")
        await asyncio.gather(*waiting, answer.wait_async(None))
        return answer.take()

    assert asyncio.run(wait()) == "there"


def test_a_loop_that_has_ended_keeps_nobody_from_hearing() -> None:
    """Somebody waited there, as when an event loop is stopped and closed."""
    answer = Answer(1)
    left = answer.wait_async(None)

    async def begin() -> None:
        left.send(None)

    asyncio.run(begin())
    answer.arrive("there")
    assert answer.take() == "there"
    left.close()
