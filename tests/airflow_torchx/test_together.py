from __future__ import annotations

import asyncio
from collections.abc import Collection
from threading import Event

import pytest

from airflow_torchx._engine_triggers import Together


class Oracle:
    """Answers after it was told to, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[set[int]] = []
        self.is_asked = Event()
        self.may_answer = Event()

    async def __call__(self, keys: Collection[int]) -> dict[int, int]:
        """Answer with the number of the question."""
        self.asked.append(set(keys))
        self.is_asked.set()
        assert await asyncio.to_thread(self.may_answer.wait, 240)
        return dict.fromkeys(keys, len(self.asked))


def test_who_comes_while_a_question_is_under_way_shares_the_next_one() -> None:
    """Never the one under way, which may have been answered before they came."""
    oracle = Oracle()

    async def ask() -> list[int]:
        together = Together(oracle)
        first = asyncio.create_task(together.answer(0))
        assert await asyncio.to_thread(oracle.is_asked.wait, 240)
        others = [asyncio.create_task(together.answer(each)) for each in range(300)]
        await asyncio.sleep(0)
        oracle.may_answer.set()
        return await asyncio.gather(first, *others)

    assert asyncio.run(ask()) == [1, *[2] * 300]
    assert oracle.asked == [{0}, set(range(300))]


def test_one_who_leaves_takes_the_answer_from_nobody() -> None:
    """Not even the one for whom the question was put first."""
    oracle = Oracle()

    async def ask() -> int:
        together = Together(oracle)
        leaver, stayer = (asyncio.create_task(together.answer(each)) for each in (1, 2))
        assert await asyncio.to_thread(oracle.is_asked.wait, 240)
        leaver.cancel()
        oracle.may_answer.set()
        return await stayer

    assert asyncio.run(ask()) == 1


def test_a_failure_is_everybodys_and_over_with_the_question() -> None:
    """Who asks again gets an answer."""
    questions: list[Collection[int]] = []

    async def ask(keys: Collection[int]) -> dict[int, int]:
        questions.append(keys)
        if len(questions) == 1:
            raise OSError("away")
        return dict.fromkeys(keys, 7)

    async def ask_twice() -> tuple[list[int | BaseException], int]:
        together = Together(ask)
        failed = await asyncio.gather(*(together.answer(each) for each in (1, 2)), return_exceptions=True)
        return failed, await together.answer(1)

    failed, answer = asyncio.run(ask_twice())
    assert [str(each) for each in failed] == ["away", "away"]
    assert answer == 7


@pytest.mark.parametrize("steps", range(4))
def test_it_outlives_an_event_loop_that_ends_in_the_middle(steps: int) -> None:
    """Whoever was waiting there waits no more; the next loop asks afresh."""
    oracle = Oracle()
    oracle.may_answer.set()
    together = Together(oracle)

    async def leave() -> None:
        waiting = asyncio.create_task(together.answer(1))
        for _ in range(steps):
            await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(leave())
    assert asyncio.run(together.answer(2)) == len(oracle.asked)
