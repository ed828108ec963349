"""A scheduler that breaks off the stream of a quiet app twice, and then has the app cancelled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

from torchx_core.errors import SchedulerError
from torchx_core.launch import patience
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch


def stumble_twice(monkeypatch: pytest.MonkeyPatch, *, answered: bool) -> None:
    """Make every stream break off at its first tick, twice over; the third one ends the app.

    Args:
        monkeypatch: Undoes it.
        answered: What each batch says, those with events too: an event that comes late would be an answer.
    """
    monkeypatch.setattr(patience, "FIRST_DELAY_S", 0.01)
    follow, afollow = Runner.follow, Runner.afollow
    left = [2]

    def stumble(runner: Runner, handle: str, batch: Batch) -> None:
        if batch.events:
            return
        if left[0]:
            left[0] -= 1
            raise SchedulerError("the login node is away", retryable=True)
        runner.cancel(handle, grace_s=0)

    def stumbling(runner: Runner, handle: str, *args: Any, **kwargs: Any) -> Iterator[Batch]:
        for batch in follow(runner, handle, *args, **kwargs):
            yield replace(batch, answered=answered)
            stumble(runner, handle, batch)

    async def astumbling(runner: Runner, handle: str, *args: Any, **kwargs: Any) -> AsyncIterator[Batch]:
        async for batch in afollow(runner, handle, *args, **kwargs):
            yield replace(batch, answered=answered)
            stumble(runner, handle, batch)

    monkeypatch.setattr(Runner, "follow", stumbling)
    monkeypatch.setattr(Runner, "afollow", astumbling)
