"""Puts what many ask at the same time into one question. Knows no Airflow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar, final

__all__ = ["Together"]

Key = TypeVar("Key")
Answer = TypeVar("Answer")


@final
class Together(Generic[Key, Answer]):
    """Asks one question at a time, for all who want to know something.

    Whoever comes while a question is under way is part of the next one: no answer is older than the wish to
    have it.
    """

    def __init__(self, ask: Callable[[Collection[Key]], Awaitable[Mapping[Key, Answer]]]) -> None:
        """Ask nothing yet.

        Args:
            ask: Answers for all keys at once.
        """
        self._ask = ask
        self._next: tuple[set[Key], asyncio.Task[Mapping[Key, Answer]]] | None = None
        self._latest: asyncio.Task[Mapping[Key, Answer]] | None = None

    async def answer(self, key: Key) -> Answer:
        """Return the answer for this key; raise what the question raised."""
        keys, answers = self._joinable()
        keys.add(key)
        return (await asyncio.shield(answers))[key]  # one who leaves takes the answer from nobody

    def _joinable(self) -> tuple[set[Key], asyncio.Task[Mapping[Key, Answer]]]:
        """Return the question that is not asked yet."""
        if self._next is None or self._next[1].done():  # done before it was asked: its event loop has ended
            keys: set[Key] = set()
            self._latest = asyncio.create_task(self._ask_after(self._latest, keys))
            self._next = keys, self._latest
        return self._next

    async def _ask_after(
        self, earlier: asyncio.Task[Mapping[Key, Answer]] | None, keys: set[Key]
    ) -> Mapping[Key, Answer]:
        if earlier is not None and not earlier.done():
            await asyncio.wait([earlier])
        self._next = None
        return await self._ask(keys)
