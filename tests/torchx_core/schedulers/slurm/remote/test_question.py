"""Waiting for an answer."""

from __future__ import annotations

import asyncio
import gc

from torchx_core.schedulers.slurm.remote.question import Answer


def _bells() -> int:
    gc.collect()
    return sum(isinstance(thing, asyncio.Event) for thing in gc.get_objects())


def test_who_has_waited_in_vain_leaves_nothing_behind() -> None:
    """However often: while a login node is away each follower looks again and again."""

    async def wait_often() -> int:
        answer = Answer(1)
        await answer.wait_async(0.0)  # asyncio keeps the last for a while
        before = _bells()
        for _ in range(100):
            await answer.wait_async(0.0)
        return _bells() - before

    assert asyncio.run(wait_often()) == 0


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
