"""Follows one app on another host: asks for the next batch, again and again."""

from __future__ import annotations

import os
from typing import cast

from torchx_core.schedulers.events import Batch
from torchx_core.schedulers.feed import EventFeed
from torchx_core.schedulers.remote.lines import Share
from torchx_core.schedulers.remote.question import Answer
from torchx_core.supervisor.records import Json

__all__ = ["RemoteFeed"]

_PATIENCE_S = 10.0
"""How long the agent waits for news; so long it renews the lease, whether or not anybody reads here."""


class RemoteFeed(EventFeed):
    """One reader's place in one app's stream.

    The place is known here alone: a lost connection loses and repeats nothing. One batch at a time is under
    way, so nobody is sent more than he reads.
    """

    def __init__(self, share: Share, question: Json, opened: tuple[str, bool]) -> None:
        """Hold nothing yet: a stream may never be read, and then nobody closes it.

        Args:
            share: The way to the host; the feed's own.
            question: Which app, and what of it.
            opened: Where the stream begins, and whether it has ended there, as the agent says.
        """
        self._share = share
        self._question = {**question, "verb": "pull", "feed": os.urandom(8).hex()}
        self._cursor, self._done = opened
        self._answer: Answer | None = None
        self._asked = False
        self._caught_up = False
        self._patience_s = 0.0

    @property
    def cursor(self) -> str:
        """The place right after the last batch."""
        return self._cursor

    @property
    def done(self) -> bool:
        """Whether the terminal event has been returned."""
        return self._done

    @property
    def caught_up(self) -> bool:
        """Whether the agent has said last that there is nothing new."""
        return self._caught_up

    def poll(self) -> Batch | None:
        """Return the next events, if they have arrived; otherwise see to it that they are asked for."""
        if self._done:
            return None
        if self._answer is None:
            self._answer = self._ask()
        if not self._answer.is_there:
            return None
        answer, self._answer = self._answer, None
        batch, self._done = cast("tuple[Batch, bool]", answer.take())
        if not batch.events and batch.cursor == self._cursor:
            self._caught_up = batch.answered
            self._patience_s = _PATIENCE_S
            return None
        self._cursor = batch.cursor
        return batch

    def _ask(self) -> Answer:
        self._asked = True
        question = {**self._question, "cursor": self._cursor, "patience_s": self._patience_s}
        return self._share().ask(question, patient=True)

    def wait(self, timeout_s: float | None) -> None:
        """Block until the answer is there; while the host is away that may be long."""
        if self._answer is not None:
            self._answer.wait(timeout_s)

    async def wait_async(self, timeout_s: float | None) -> None:
        """Do the same on the event loop."""
        if self._answer is not None:
            await self._answer.wait_async(timeout_s)

    def close(self) -> None:
        """Let go, and tell the agent, which waits for news no more."""
        if self._answer is not None:
            self._share().forget(self._answer)
        if self._asked and not self._done:
            self._share().tell({**self._question, "verb": "leave"})
        self._asked, self._answer = False, None
        self._share.release()
